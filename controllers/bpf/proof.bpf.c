// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * A controller header as a program to be called from a test, one hook a run: the state goes in and comes out through
 * a map. What it leaves must equal, bit by bit, what the native build of the same header leaves.
 */
#include "kernel.h"

#include "../mp.h"

#include "settings.h"

#include MP_HEADER

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define CONTROLLER(hook) PASTE(MP_NAME, hook)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct mp_call mp_proof SEC(".data.proof");

#define PROOF(name, ...)                                                                                               \
	SEC("syscall")                                                                                                 \
	int proof_##name(void *context)                                                                                \
	{                                                                                                              \
		struct mp_connection *c = &mp_proof.connection;                                                        \
		__u32 slot = mp_proof.slot & (MP_MAX_SUBFLOWS - 1);                                                    \
		__VA_ARGS__;                                                                                           \
		return 0;                                                                                              \
	}

PROOF(init, CONTROLLER(init)(c, slot, mp_proof.now_us))
PROOF(rtt, CONTROLLER(on_rtt)(c, slot, mp_proof.now_us))
PROOF(loss, mp_proof.result = CONTROLLER(on_loss)(c, slot, mp_proof.now_us))
PROOF(undo, mp_proof.result = CONTROLLER(on_undo)(c, slot))
PROOF(close, CONTROLLER(on_close)(c, slot))
#ifdef MP_RATE_BASED
PROOF(interval, CONTROLLER(on_interval)(c, slot, mp_proof.now_us))
#else
PROOF(ack, struct mp_ack ack = mp_proof.ack; CONTROLLER(on_ack)(c, slot, &ack))
#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* The log of hook calls, for replay in tests. */
#ifndef MP_CALLS_H
#define MP_CALLS_H

#include "socket.h"

/* The loader enlarges it when it sets log_calls. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} mp_calls SEC(".maps");

/* Two records a call, paired by owner: a 6.1 verifier forgets that a record reserved before the call is not null after.
 */
static __always_inline void glue_log(struct mp_connection *c, __u32 slot, enum mp_hook hook, __u64 now_us,
				     const struct mp_ack *ack, __u64 result, int is_after, __u64 owner)
{
	struct mp_call *call;

	if (!mp_settings.log_calls)
		return;
	call = bpf_ringbuf_reserve(&mp_calls, sizeof(*call), 0);
	if (!call) {
		__sync_fetch_and_add(&mp_counters.calls_dropped, 1);
		return;
	}
	call->hook = hook;
	call->slot = slot;
	call->now_us = now_us;
	call->ack = *ack;
	call->result = result;
	call->owner = owner;
	call->is_after = is_after;
	bpf_probe_read_kernel(&call->connection, sizeof(call->connection), c);
	bpf_ringbuf_submit(call, BPF_RB_NO_WAKEUP);
}

/* Runs `code` with the connection before and after it in the log. */
#define LOGGED(hook, ack, now_us, result, code)                                                                        \
	do {                                                                                                           \
		__u64 owner_ = glue_socket(sk)->owner;                                                                 \
		glue_log(c, slot, hook, now_us, ack, 0, 0, owner_);                                                    \
		code;                                                                                                  \
		glue_log(c, slot, hook, now_us, ack, result, 1, owner_);                                               \
	} while (0)

#endif

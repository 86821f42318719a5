// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * A controller header as a struct_ops tcp_congestion_ops. Compiled once for each controllers/NAME.h with
 *   -DMP_HEADER='"../NAME.h"' -DMP_NAME=NAME, and -DMP_RATE_BASED where NAME has on_interval in place of on_ack.
 *
 * The kernel runs congestion control once per MPTCP subflow, which is an ordinary tcp_sock. This file finds the
 * connection a subflow belongs to, copies facts from the tcp_sock into the subflow's slot, calls the controller, and
 * copies its decisions back. It decides nothing.
 *
 * Plain TCP, a subflow beyond MP_MAX_SUBFLOWS, and a subflow whose token is not known yet (0 in .init of a join) have a
 * connection of their own, keyed by their owner number and token 0, so that one path through this file serves all.
 * Plain TCP sockets that user space has put into one group are subflows of one connection from then on.
 */
#include "kernel.h"

#include "../mp.h"

#include MP_HEADER

#ifndef MP_SEND_BUFFER_WINDOWS
#define MP_SEND_BUFFER_WINDOWS MP_DEFAULT_SEND_BUFFER_WINDOWS
#endif

#include "socket.h"
#include "facts.h"
#include "calls.h"
#include "agent.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define CONTROLLER(hook) PASTE(MP_NAME, hook)

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static __always_inline void glue_apply(struct sock *sk, const struct mp_subflow *subflow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 cwnd = subflow->cwnd, rate = subflow->pacing_rate;

	if (cwnd > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp;
	if (cwnd != tp->snd_cwnd && cwnd)
		tp->snd_cwnd = cwnd;
	if (subflow->ssthresh != tp->snd_ssthresh)
		tp->snd_ssthresh = subflow->ssthresh;
	if (rate > sk->sk_max_pacing_rate)
		rate = sk->sk_max_pacing_rate;
	if (rate && rate != sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

static const struct mp_ack NO_ACK = {};

static __always_inline int glue_is_off(struct tcp_sock *tp)
{
	return tp->snd_ssthresh > MP_INFINITE_SSTHRESH || tp->snd_cwnd > MP_INFINITE_SSTHRESH;
}

/*
 * A kernel may skip a hook (docs/explanation/kernel.md has one that does while process 1 is interrupted) and take a
 * stale word of its stack, the address of kernel code, for what it returned. No window is above TCP_INFINITE_SSTHRESH,
 * but such an address is. Left alone, a window would follow it to a billion packets at the end of recovery; the next
 * hook makes up for it.
 */
static __noinline int glue_mend(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_connection *c;
	struct mp_entry *entry;
	__u64 now_us = tp->tcp_mstamp, result = 0;
	__u32 slot;

	entry = glue_find(sk, &slot);
	if (!entry)
		return 0;
	c = &entry->connection;
	if (tp->snd_ssthresh > MP_INFINITE_SSTHRESH) {
		__sync_fetch_and_add(&mp_counters.hooks_skipped, 1);
		c->subflows[slot].cwnd = tp->prior_cwnd;
		LOGGED(MP_HOOK_LOSS, &NO_ACK, now_us, result, result = CONTROLLER(on_loss)(c, slot, now_us));
		tp->snd_ssthresh = result;
	}
	if (tp->snd_cwnd > MP_INFINITE_SSTHRESH) {
		__sync_fetch_and_add(&mp_counters.hooks_skipped, 1);
		LOGGED(MP_HOOK_UNDO, &NO_ACK, now_us, result, result = CONTROLLER(on_undo)(c, slot));
		tp->snd_cwnd = result;
	}
	return 0;
}

/* Gives the socket its place and the controller its first call. Memory can be short for a moment: then the next ACK
 * tries again, and until then the window rests. */
static __noinline int glue_begin(struct sock *sk)
{
	struct mp_socket *self = glue_socket(sk);
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_connection *c;
	struct mp_entry *entry;
	struct mp_key key = { self->owner, 0 };
	__u64 now_us = tp->tcp_mstamp;
	const __u32 slot = 0;
	int claimed;

	claimed = slot_claim(&key, self->owner);
	if (claimed == MP_NO_ENTRY)
		__sync_fetch_and_add(&mp_counters.entries_full, 1);
	if (claimed < 0)
		return 0;
	self->key = key;
	self->slot = slot;
	self->placed = 1;
	entry = bpf_map_lookup_elem(&mp_connections, &key);
	if (!entry)
		return 0;
	c = &entry->connection;
	glue_facts(tp, &c->subflows[slot]);
	c->subflows[slot].min_rtt_us = MP_UNKNOWN;
	c->subflows[slot].queue_owd_us = MP_UNKNOWN;
	LOGGED(MP_HOOK_INIT, &NO_ACK, now_us, 0, CONTROLLER(init)(c, slot, now_us));
	glue_apply(sk, &c->subflows[slot]);
	return 0;
}

/* What an ACK makes good before its hook. */
static __always_inline void glue_prepare(struct sock *sk)
{
	struct mp_socket *self = glue_socket(sk);

	if (self->owner && !self->placed)
		glue_begin(sk);
	if (glue_is_off((struct tcp_sock *)sk))
		glue_mend(sk);
}

/* The connection of a socket whose hook is about to be called, with its facts, and the ACK's RTT sample heard: 0 where
 * it brought none. */
static __always_inline struct mp_connection *glue_enter(struct sock *sk, __u32 *place, __u64 now_us, __u64 rtt_us)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_connection *c;
	struct mp_entry *entry;
	__u32 slot;

	entry = glue_find(sk, place);
	slot = *place;
	if (!entry)
		return 0;
	c = &entry->connection;
	glue_facts(tp, &c->subflows[slot]);
	glue_follow(sk, c, &c->subflows[slot]);
#ifdef MP_DATA_LEVEL
	glue_data_facts(sk, &c->subflows[slot]);
#endif
#ifndef MP_NO_RTT_SAMPLES
	if (rtt_us) {
		glue_rtt_facts(sk, &c->subflows[slot], rtt_us);
		LOGGED(MP_HOOK_RTT, &NO_ACK, now_us, 0, CONTROLLER(on_rtt)(c, slot, now_us));
	}
#endif
	return c;
}

SEC("struct_ops")
void BPF_PROG(glue_init, struct sock *sk)
{
	struct mp_socket *self = glue_socket(sk);

	self->owner = __sync_fetch_and_add(&mp_counters.owners, 1) + 1;
	self->placed = 0;
	self->owd_known = 0;
	self->followed_us = 0;
	self->acked = 0;
	self->awaits = ((struct tcp_sock *)sk)->is_mptcp ? MP_AWAITS_TOKEN : MP_AWAITS_GROUP;
	__sync_fetch_and_add(&mp_counters.sockets, 1);
#ifdef MP_RATE_BASED
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
#endif
	glue_begin(sk);
	if (self->placed)
		glue_join(sk);
}

#ifdef MP_RATE_BASED
extern int LINUX_KERNEL_VERSION __kconfig;

/* (sk, rs) on 6.1, (sk, ack, flag, rs) since 6.10. */
SEC("struct_ops")
int glue_cong_control(__u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	const struct rate_sample *rs;
	struct mp_connection *c;
	__u64 now_us = ((struct tcp_sock *)sk)->tcp_mstamp, serial;
	__u32 slot;
	long rtt_us;

	/* by hand: clang would merge the two into one load from a variable place, which the verifier refuses */
	if (LINUX_KERNEL_VERSION >= KERNEL_VERSION(6, 10, 0))
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(rs) : "r"(context));
	else
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(rs) : "r"(context));
	rtt_us = rs->rtt_us;
	glue_prepare(sk);
	c = glue_enter(sk, &slot, now_us, rtt_us < 0 ? 0 : rtt_us ?: 1);
	if (!c)
		return 0;
	AGENT_HEAR(&c->subflows[slot]);
	serial = AGENT_SERIAL(&c->subflows[slot]);
	LOGGED(MP_HOOK_INTERVAL, &NO_ACK, now_us, 0, CONTROLLER(on_interval)(c, slot, now_us));
	if (AGENT_SERIAL(&c->subflows[slot]) != serial)
		AGENT_TELL(sk, &c->subflows[slot], serial + 1);
	glue_apply(sk, &c->subflows[slot]);
	return 0;
}
#else
/* Apart from its hook, so that what glue_prepare calls does not come on top of its stack. */
static __noinline int glue_grow(struct sock *sk, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_connection *c;
	struct mp_ack event;
	__u32 slot;

	event.now_us = tp->tcp_mstamp;
	c = glue_enter(sk, &slot, event.now_us, glue_latest_rtt_us(tp));
	if (!c)
		return 0;
	event.acked = acked;
	event.is_cwnd_limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	event.max_packets_out = tp->max_packets_out;
	LOGGED(MP_HOOK_ACK, &event, event.now_us, 0, CONTROLLER(on_ack)(c, slot, &event));
	glue_apply(sk, &c->subflows[slot]);
	return 0;
}

SEC("struct_ops")
void BPF_PROG(glue_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	glue_prepare(sk);
	glue_grow(sk, acked);
}
#endif

SEC("struct_ops")
__u32 BPF_PROG(glue_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_connection *c;
	struct mp_entry *entry;
	__u64 now_us = tp->tcp_mstamp, result = tp->snd_cwnd / 2;
	__u32 slot;

	entry = glue_find(sk, &slot);
	if (!entry)
		return result > MP_MIN_CWND ? result : MP_MIN_CWND;
	c = &entry->connection;
	glue_facts(tp, &c->subflows[slot]);
	LOGGED(MP_HOOK_LOSS, &NO_ACK, now_us, result, result = CONTROLLER(on_loss)(c, slot, now_us));
	/* no hook may come until recovery ends: siblings see from now on what it will end with */
	if (result < c->subflows[slot].cwnd)
		c->subflows[slot].cwnd = result;
	return result;
}

SEC("struct_ops")
__u32 BPF_PROG(glue_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_connection *c;
	struct mp_entry *entry;
	__u64 result = tp->snd_cwnd;
	__u32 slot;

	entry = glue_find(sk, &slot);
	if (!entry)
		return result;
	c = &entry->connection;
	glue_facts(tp, &c->subflows[slot]);
	LOGGED(MP_HOOK_UNDO, &NO_ACK, 0, result, result = CONTROLLER(on_undo)(c, slot));
	return result;
}

/*
 * Shows the siblings the window that a timeout left: on a dead path no ACK comes to do it, and the old window would
 * count in their coupling for good. And every recovery begins and ends here: what a skipped hook left is corrected.
 */
SEC("struct_ops")
void BPF_PROG(glue_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_entry *entry;
	__u32 slot;

	if (glue_is_off(tp))
		glue_mend(sk);
	if (new_state != TCP_CA_Loss)
		return;
	entry = glue_find(sk, &slot);
	if (!entry)
		return;
	glue_facts(tp, &entry->connection.subflows[slot]);
	entry->connection.subflows[slot].phase = new_state; /* tcp_set_ca_state calls us before it stores it */
}

#define GLUE_WAKING_US 1000
#define GLUE_MOST_WINDOWS 64

/*
 * How many windows the send buffer should hold: what the controller asks for. Where the round trip is shorter than a
 * program takes to be woken, so many that it lasts until then: MPTCP's buffer is the sum of its subflows', and a
 * controller that keeps queues short would else run dry of data on the shortest paths.
 */
SEC("struct_ops")
__u32 BPF_PROG(glue_sndbuf_expand, struct sock *sk)
{
	__u32 srtt_us = ((struct tcp_sock *)sk)->srtt_us >> 3, windows;

	if (!srtt_us || srtt_us >= GLUE_WAKING_US)
		return MP_SEND_BUFFER_WINDOWS;
	windows = 2 * GLUE_WAKING_US / srtt_us;
	if (windows > GLUE_MOST_WINDOWS)
		windows = GLUE_MOST_WINDOWS;
	return windows > MP_SEND_BUFFER_WINDOWS ? windows : MP_SEND_BUFFER_WINDOWS;
}

/* Also called for the MPTCP socket itself, which is no tcp_sock and never saw .init: touch nothing then. */
SEC("struct_ops")
void BPF_PROG(glue_release, struct sock *sk)
{
	struct mp_socket *self = glue_socket(sk);
	struct mp_connection *c;
	struct mp_entry *entry;
	__u32 slot;

	if (!self->owner)
		return;
	self->awaits = MP_AWAITS_NOTHING;
	entry = glue_find(sk, &slot);
	if (entry) {
		c = &entry->connection;
		LOGGED(MP_HOOK_CLOSE, &NO_ACK, 0, 0, CONTROLLER(on_close)(c, slot));
		AGENT_TELL(sk, &c->subflows[slot], 0);
		slot_leave(entry, slot);
	}
	self->owner = 0;
	self->placed = 0;
	__sync_fetch_and_add(&mp_counters.sockets, -1ULL);
}

/* The name is the loader's to write: it carries a hash of the code and the parameters. */
SEC(".struct_ops")
struct tcp_congestion_ops mp_ops = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)glue_init,
	.release = (void *)glue_release,
	.ssthresh = (void *)glue_ssthresh,
	.undo_cwnd = (void *)glue_undo_cwnd,
	.set_state = (void *)glue_set_state,
	.sndbuf_expand = (void *)glue_sndbuf_expand,
#ifdef MP_RATE_BASED
	.cong_control = (void *)glue_cong_control,
#else
	.cong_avoid = (void *)glue_cong_avoid,
#endif
};

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* What the kernel knows of a subflow, copied into its slot. */
#ifndef MP_FACTS_H
#define MP_FACTS_H

#include "socket.h"

/* The 32-bit counters of tcp_sock wrap; ours do not. */
static __always_inline __u64 glue_extend(__u64 total, __u32 now)
{
	return total + (__u32)(now - (__u32)total);
}

static __always_inline void glue_facts(struct tcp_sock *tp, struct mp_subflow *subflow)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	/* tcp_packets_in_flight, include/net/tcp.h */
	__u32 in_flight = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;

	subflow->mss = tp->mss_cache;
	subflow->srtt_us = tp->srtt_us >> 3;
	subflow->delivered = glue_extend(subflow->delivered, tp->delivered);
	subflow->lost = glue_extend(subflow->lost, tp->lost);
	subflow->in_flight = in_flight;
	subflow->ce = glue_extend(subflow->ce, tp->delivered_ce);
	subflow->phase = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	subflow->unsacked = tp->packets_out - tp->sacked_out;
	subflow->app_limited = tp->write_seq - tp->snd_nxt < tp->mss_cache && in_flight < tp->snd_cwnd;
	subflow->cwnd = tp->snd_cwnd;
	subflow->ssthresh = tp->snd_ssthresh;
}

/*
 * Forward one-way delay above its minimum: how much later than ever before our segment reached the peer's clock
 * (RFC 7323: TSecr is when we sent it, TSval when the peer answered). The unknown offset between the two clocks
 * cancels. It cannot exceed the whole round trip's excess by more than a tick, which bounds the clocks' drift.
 */
static __always_inline void glue_owd_fact(struct tcp_sock *tp, struct mp_socket *self, struct mp_subflow *subflow)
{
	struct tcp_options_received *options = &tp->rx_opt;
	__u64 excess, bound, tick_us = 1000;
	__s32 difference;

	subflow->queue_owd_us = MP_UNKNOWN;
	if (!BPF_CORE_READ_BITFIELD(options, tstamp_ok) || !options->rcv_tsecr)
		return;
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		tick_us = 1;
	difference = (__s32)(options->rcv_tsval - options->rcv_tsecr);
	if (!self->owd_known || difference - self->owd_minimum < 0) {
		self->owd_minimum = difference;
		self->owd_known = 1;
	}
	excess = (__u32)(difference - self->owd_minimum) * tick_us;
	bound = subflow->rtt_us - subflow->min_rtt_us + tick_us;
	subflow->queue_owd_us = excess < bound ? excess : bound;
}

/*
 * What may change at any time: whether the subflow is a backup and, of a member of a group, its target. The scheduler
 * of a group runs in user space, and tells each member. Not on every ACK: probed reads cost as much as all the rest
 * here. But often enough that the ACKs of one last flight tell that the subflow is a backup from now on.
 */
static __always_inline void glue_follow(struct sock *sk, struct mp_connection *c, struct mp_subflow *subflow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_socket *self = glue_socket(sk);
	struct mp_member *member;

	if ((!tp->is_mptcp && self->awaits) || (__u32)tp->tcp_mstamp - self->followed_us <= subflow->srtt_us / 4)
		return;
	self->followed_us = tp->tcp_mstamp;
	if (tp->is_mptcp) {
		subflow->backup = glue_backup(sk);
		return;
	}
	member = bpf_sk_storage_get(&mp_members, sk, 0, 0);
	if (!member)
		return;
	subflow->backup = member->backup;
#ifdef MP_TARGET
	if (member->target_us)
		c->parameters[MP_TARGET] = member->target_us;
#endif
}

/*
 * What pkts_acked would be told, without that hook, which costs as much as most rules: RACK measures the packet that
 * was delivered last (tcp_rack_advance, net/ipv4/tcp_recovery.c). They differ by retransmitted packets alone, whose
 * round trip RACK takes where it cannot be the original's. There is no RACK without SACK: then the mean has to do.
 */
static __always_inline __u64 glue_latest_rtt_us(struct tcp_sock *tp)
{
	return tp->rack.rtt_us ?: tp->srtt_us >> 3;
}

#ifdef MP_DATA_LEVEL
/*
 * Data sequence number of the next new segment. The first buffer in the queue tells that of its own first byte; where a
 * part of it has been sent, what is left still carries the mapping of the whole.
 */
static __always_inline __u64 glue_data_next(struct tcp_sock *tp, struct mptcp_subflow_context *context, void *msk)
{
	struct sk_buff *head = ((struct sock *)tp)->sk_write_queue.next;
	__u32 unsent = tp->write_seq - tp->snd_nxt, id = bpf_core_enum_value(enum skb_ext_id, SKB_EXT_MPTCP);
	struct skb_ext *extensions = 0;
	void *mapping;
	__u8 offset = 0;

	if (!unsent || !(head->active_extensions & 1 << (id & 7)))
		return GLUE_READ(mptcp_sock, msk, snd_nxt);
	bpf_core_read(&extensions, sizeof(extensions), &head->extensions);
	bpf_probe_read_kernel(&offset, sizeof(offset),
			      (void *)extensions + bpf_core_field_offset(struct skb_ext, offset) + id);
	mapping = (void *)extensions + 8 * offset;
	return GLUE_READ(mptcp_ext, mapping, data_seq) +
	       (__u32)(GLUE_READ(mptcp_subflow_context, context, rel_write_seq) - unsent -
		       GLUE_READ(mptcp_ext, mapping, subflow_seq));
}

/* TCP takes the window of an ACK that acknowledges new data (tcp_may_update_window). MPTCP hears of an ACK after us. */
static __always_inline void glue_data_facts(struct sock *sk, struct mp_subflow *subflow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct mp_socket *self = glue_socket(sk);
	struct mptcp_subflow_context *context;
	void *msk;

	subflow->data_window = 0;
	if (!tp->is_mptcp || self->awaits)
		return;
	context = glue_context(sk);
	msk = GLUE_READ(mptcp_subflow_context, context, conn);
	if (!msk)
		return;
	subflow->data_una = GLUE_READ(mptcp_sock, msk, snd_una);
	subflow->data_end = GLUE_READ(mptcp_sock, msk, wnd_end);
	subflow->data_next = glue_data_next(tp, context, msk);
	if (self->acked != tp->snd_una)
		subflow->data_window = tp->snd_wnd;
	self->acked = tp->snd_una;
}
#endif

static __always_inline void glue_rtt_facts(struct sock *sk, struct mp_subflow *subflow, __u64 rtt_us)
{
	subflow->rtt_us = rtt_us;
	if (!subflow->min_rtt_us || rtt_us < subflow->min_rtt_us)
		subflow->min_rtt_us = rtt_us;
#ifdef MP_ONE_WAY_DELAY
	glue_owd_fact((struct tcp_sock *)sk, glue_socket(sk), subflow);
#endif
}

#endif

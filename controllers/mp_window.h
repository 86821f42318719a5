/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* What the window rules share: slow start, growth by parts of a packet, halving, undo, and who counts as a sibling. */
#ifndef MP_WINDOW_H
#define MP_WINDOW_H

#include "mp.h"
#include "mp_math.h"

#define MP_PACKET (1ULL << MP_FRACTION_BITS)

/* Siblings change their slots while we look: take each word once. */
#define MP_READ(field) (*(const volatile mp_u64 *)&(field))

/* The mask costs nothing and shows the verifier that the slot exists. */
MP_INLINE struct mp_subflow *mp_self(struct mp_connection *c, mp_u32 i)
{
	return &c->subflows[i & (MP_MAX_SUBFLOWS - 1)];
}

/* Window and round trip of a subflow that shares in the coupling, as one reader saw them. */
struct mp_share {
	mp_u64 cwnd; /* packets; 0: does not count */
	mp_u64 srtt_us;
};

/*
 * Who counts: every subflow that has an RTT, this one included.
 *  - Slow start counts: its window is load like any other, and the sums of RFC 6356 leave out none.
 *  - A backup does not count for a normal subflow. It carries nothing while a normal one lives (RFC 8684, 3.3.8), yet
 *    keeps the window it started with: counted, it would hold the others below the single-path TCP that
 *    RFC 6356 promises. For a backup all count: when it sends, it must not add to what the others take.
 *  - A sibling whose timeout nothing has answered does not count: phase MP_TIMEOUT and a window of one packet, which
 *    the first acknowledgement raises. On a dead path it stays so for good: counted, it would hold LIA's window of 8
 *    packets to 64/81 of Reno's growth.
 */
MP_INLINE struct mp_share mp_share_of(const struct mp_subflow *self, const struct mp_subflow *sibling)
{
	struct mp_share share = { 0, MP_READ(sibling->srtt_us) };

	if (MP_READ(sibling->owner) && share.srtt_us && MP_READ(sibling->backup) <= self->backup)
		share.cwnd = MP_READ(sibling->cwnd);
	if (sibling != self && share.cwnd < MP_MIN_CWND && MP_READ(sibling->phase) == MP_TIMEOUT)
		share.cwnd = 0;
	return share;
}

/* tcp_is_cwnd_limited, include/net/tcp.h: a window nobody filled has not shown that it fits. */
MP_INLINE int mp_cwnd_limited(const struct mp_subflow *self, const struct mp_ack *ack)
{
	if (ack->is_cwnd_limited)
		return 1;
	return self->cwnd < self->ssthresh && self->cwnd < 2 * ack->max_packets_out;
}

/* tcp_slow_start, net/ipv4/tcp_cong.c. Returns the packets that are left for congestion avoidance. */
MP_INLINE mp_u64 mp_slow_start(struct mp_subflow *self, const struct mp_ack *ack)
{
	mp_u64 room;

	if (!mp_cwnd_limited(self, ack))
		return 0;
	if (self->cwnd >= self->ssthresh)
		return ack->acked;
	room = self->ssthresh - self->cwnd;
	if (ack->acked <= room) {
		self->cwnd += ack->acked;
		return 0;
	}
	self->cwnd = self->ssthresh;
	return ack->acked - room;
}

/* Changes the window by `growth` units of 2^-MP_FRACTION_BITS packets, which may be negative. */
MP_INLINE void mp_grow(struct mp_subflow *self, mp_s64 growth)
{
	mp_s64 fraction = (mp_s64)self->cwnd_fraction + growth;
	mp_s64 cwnd = (mp_s64)self->cwnd + (fraction >> MP_FRACTION_BITS);

	if (cwnd < MP_MIN_CWND) {
		self->cwnd = MP_MIN_CWND;
		self->cwnd_fraction = 0;
	} else {
		self->cwnd = (mp_u64)cwnd;
		self->cwnd_fraction = (mp_u64)fraction & (MP_PACKET - 1);
	}
}

/* acked * increase in units of mp_grow. The truncations of a rule are made good by 2^-24 of it, else a window of w
 * packets that grows by 1/w would need w + 1 ACKs for a packet. */
MP_INLINE mp_u64 mp_growth(struct mp_real increase, mp_u64 acked)
{
	mp_u64 growth = mp_fixed(mp_mul(increase, mp_real(acked)), MP_FRACTION_BITS);

	return growth + (growth >> 24) + 1;
}

/* RFC 5681: 1/w per acknowledged packet. */
MP_INLINE mp_u64 mp_reno_growth(const struct mp_subflow *self, mp_u64 acked)
{
	mp_u64 cwnd = self->cwnd + !self->cwnd;

	acked = acked < (1 << 22) ? acked : (1 << 22);
	return ((acked << MP_FRACTION_BITS) + cwnd - 1) / cwnd;
}

/* Reno's growth times (a - b)/by, held within -1 ... 1: at most one packet a round trip either way. */
MP_INLINE mp_s64 mp_scaled_growth(const struct mp_subflow *self, mp_u64 acked, mp_u64 a, mp_u64 b, mp_u64 by)
{
	mp_u64 growth = mp_reno_growth(self, acked);
	mp_u64 distance = a > b ? a - b : b - a;

	/* as a rule both fit, and one division does */
	if (distance < by && !(growth >> 40 | distance >> 24))
		growth = growth * distance / by;
	else if (distance < by)
		growth = mp_fixed(mp_div(mp_mul(mp_real(growth), mp_real(distance)), mp_real(by)), 0);
	return a >= b ? (mp_s64)growth : -(mp_s64)growth;
}

#define MP_OWD_TARGET_US 50000 /* from here on a clock of 1 ms ticks, delayed ACKs included, is fine enough */

/*
 * Delay above propagation, to be held against `target_us`. The forward one-way delay where it is known: it leaves out
 * the queue that only our ACKs wait in. Its clock is TCP's timestamps, too coarse for small targets.
 */
MP_INLINE mp_u64 mp_queue_us(const struct mp_subflow *self, mp_u64 target_us)
{
	if (target_us >= MP_OWD_TARGET_US && self->queue_owd_us != MP_UNKNOWN)
		return self->queue_owd_us;
	return self->srtt_us > self->min_rtt_us ? self->srtt_us - self->min_rtt_us : 0;
}

/* One congestion event that leaves `cwnd` packets. */
MP_INLINE mp_u64 mp_reduce(struct mp_subflow *self, mp_u64 cwnd)
{
	self->prior_cwnd = self->cwnd;
	self->cwnd_fraction = 0;
	self->ssthresh = cwnd > MP_MIN_CWND ? cwnd : MP_MIN_CWND;
	return self->ssthresh;
}

MP_INLINE mp_u64 mp_halve(struct mp_subflow *self)
{
	return mp_reduce(self, self->cwnd >> 1);
}

/* tcp_reno_undo_cwnd, net/ipv4/tcp_cong.c */
MP_INLINE mp_u64 mp_undo(const struct mp_subflow *self)
{
	return self->cwnd > self->prior_cwnd ? self->cwnd : self->prior_cwnd;
}

/* The hooks of a rule that keeps no words of its own and halves on a loss, as most do: all but on_ack and on_close. */
#define MP_STATELESS_HALVING(name)                                                                                     \
	MP_INLINE void name##_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)                                   \
	{                                                                                                              \
		(void)c, (void)i, (void)now_us;                                                                        \
	}                                                                                                              \
	MP_INLINE void name##_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)                                 \
	{                                                                                                              \
		(void)c, (void)i, (void)now_us;                                                                        \
	}                                                                                                              \
	MP_INLINE mp_u64 name##_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)                              \
	{                                                                                                              \
		(void)now_us;                                                                                          \
		return mp_halve(mp_self(c, i));                                                                        \
	}                                                                                                              \
	MP_INLINE mp_u64 name##_on_undo(struct mp_connection *c, mp_u32 i)                                             \
	{                                                                                                              \
		return mp_undo(mp_self(c, i));                                                                         \
	}

#endif

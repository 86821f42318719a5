/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * OLIA, the opportunistic linked increases algorithm. Khalili et al., IEEE/ACM ToN 2013;
 * draft-khalili-mptcp-congestion-control.
 *
 *   per acknowledged packet  w_i += (w_i/t_i^2) / ( sum_k w_k/t_k )^2 + a_i/w_i
 *   on a loss event          w_i -= w_i/2
 *
 * w: window in packets, t: smoothed round trip. With n subflows,
 *   l_i = max( bytes since the last loss, bytes between the last two losses )
 *   B   = subflows with the largest l_i/t_i^2 (the best paths)
 *   M   = subflows with the largest window
 *   C   = B \ M
 *   a_i = +1/(n|C|) for i in C and -1/(n|M|) for i in M, where C is not empty; else 0.
 *
 * No parameters.
 *
 * Where the mptcp.org kernel differs: it moves the window by whole packets once a counter of 1/1024 reaches 1023, takes
 * rates relative to this subflow's with 10 fractional bits, and lets ssthresh fall to 1; ours has the common floor
 * of 2.
 */
#ifndef MP_OLIA_H
#define MP_OLIA_H

#include "mp_window.h"

#define MP_NO_RTT_SAMPLES

enum {
	OLIA_LOSS,       /* `delivered` at the last loss */
	OLIA_BETWEEN,    /* packets between the last two losses */
	OLIA_PRIOR_LOSS, /* both before that, for undo */
	OLIA_PRIOR_BETWEEN,
};

/* Kernel counters are 32 bits wide: differences are taken in 32 bits. */
MP_INLINE mp_u64 olia_packets(const struct mp_subflow *sf)
{
	mp_u64 since = (mp_u32)(MP_READ(sf->delivered) - MP_READ(sf->state[OLIA_LOSS]));
	mp_u64 between = MP_READ(sf->state[OLIA_BETWEEN]);

	return since > between ? since : between;
}

/*
 * 1 where a < b, else 0; both within 2^62 of 0. Without a branch, and hidden from clang by the asm: the verifier would
 * otherwise follow the counts below as constants, through every combination of eight subflows.
 */
MP_INLINE mp_u64 olia_below(mp_s64 a, mp_s64 b)
{
	mp_u64 difference = (mp_u64)a - (mp_u64)b;

	asm volatile("" : "+r"(difference));
	return difference >> 63;
}

/* In units of mp_grow for `acked` packets. This subflow must have an RTT. */
MP_INLINE mp_s64 olia_growth(struct mp_connection *c, mp_u32 i, mp_u64 acked)
{
	const struct mp_subflow *self = mp_self(c, i);
	struct mp_real total = MP_REAL_ZERO, own = MP_REAL_ZERO;
	mp_s64 quality, best = MP_ORDER_LEAST, own_quality = MP_ORDER_LEAST;
	mp_u64 largest = 0, n = 0, in_best = 0, in_largest = 0, in_both = 0, step;
	mp_u64 better, larger, is_best, is_largest;
	mp_s64 growth;
	mp_u32 k;

	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		const struct mp_subflow *sibling = &c->subflows[k];
		struct mp_share share = mp_share_of(self, sibling);
		struct mp_real srtt, rate, bytes;

		if (!share.cwnd)
			continue;
		srtt = mp_real(share.srtt_us);
		rate = mp_div(mp_real(share.cwnd), srtt);
		total = mp_add(total, rate);
		bytes = mp_mul(mp_real(olia_packets(sibling)), mp_real(MP_READ(sibling->mss)));
		quality = mp_order(mp_div(mp_div(bytes, srtt), srtt));
		if (k == (i & (MP_MAX_SUBFLOWS - 1))) {
			own = mp_div(rate, srtt);
			own_quality = quality;
		}

		/* a new maximum empties its set, and with it the intersection */
		better = olia_below(best, quality);
		larger = olia_below((mp_s64)largest, (mp_s64)share.cwnd);
		best += (quality - best) * (mp_s64)better;
		largest += (share.cwnd - largest) * larger;
		is_best = 1 - olia_below(quality, best);
		is_largest = 1 - olia_below((mp_s64)share.cwnd, (mp_s64)largest);
		n += (share.cwnd | -share.cwnd) >> 63;
		in_best = in_best * (1 - better) + is_best;
		in_largest = in_largest * (1 - larger) + is_largest;
		in_both = in_both * (1 - better) * (1 - larger) + is_best * is_largest;
	}

	growth = (mp_s64)mp_growth(mp_div(own, mp_mul(total, total)), acked);
	if (in_best == in_both) /* C is empty */
		return growth;
	step = mp_reno_growth(self, acked);
	if (self->cwnd == largest)
		return growth - (mp_s64)(step / (n * (in_largest + !in_largest)));
	if (own_quality == best)
		return growth + (mp_s64)(step / (n * (in_best - in_both)));
	return growth;
}

MP_INLINE void olia_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	(void)now_us;
	self->state[OLIA_LOSS] = self->state[OLIA_PRIOR_LOSS] = self->delivered;
	self->state[OLIA_BETWEEN] = self->state[OLIA_PRIOR_BETWEEN] = 0;
}

MP_INLINE void olia_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	(void)c, (void)i, (void)now_us;
}

MP_INLINE void olia_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);

	if (!acked)
		return;
	if (self->srtt_us)
		mp_grow(self, olia_growth(c, i, acked));
	else
		mp_grow(self, (mp_s64)mp_reno_growth(self, acked));
}

MP_INLINE mp_u64 olia_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 since = (mp_u32)(self->delivered - self->state[OLIA_LOSS]);

	(void)now_us;
	self->state[OLIA_PRIOR_LOSS] = self->state[OLIA_LOSS];
	self->state[OLIA_PRIOR_BETWEEN] = self->state[OLIA_BETWEEN];
	if (since) { /* else a timeout in the same loss */
		self->state[OLIA_BETWEEN] = since;
		self->state[OLIA_LOSS] = self->delivered;
	}
	return mp_halve(self);
}

/* The loss did not happen: neither does it divide the bytes. */
MP_INLINE mp_u64 olia_on_undo(struct mp_connection *c, mp_u32 i)
{
	struct mp_subflow *self = mp_self(c, i);

	self->state[OLIA_LOSS] = self->state[OLIA_PRIOR_LOSS];
	self->state[OLIA_BETWEEN] = self->state[OLIA_PRIOR_BETWEEN];
	return mp_undo(self);
}

MP_INLINE void olia_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

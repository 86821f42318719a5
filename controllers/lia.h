/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * LIA, the linked increases algorithm. RFC 6356 (Wischik et al., NSDI 2011).
 *
 *   per acknowledged packet  w_i += min( a / W , 1/w_i ),   a = W * max_k(w_k/t_k^2) / ( sum_k w_k/t_k )^2
 *   on a loss event          w_i -= w_i/2
 *
 * w: window in packets, t: smoothed round trip, W = sum_k w_k, so that a/W = max_k(w_k/t_k^2) / (sum_k w_k/t_k)^2.
 *
 * No parameters.
 *
 * Where the mptcp.org kernel differs: its alpha is an integer of at least 1 (in 1/4096 per ACK) and the window grows by
 * one every max(4096/alpha, cwnd) ACKs, both truncated; it recomputes alpha on changes of the window only.
 */
#ifndef MP_LIA_H
#define MP_LIA_H

#include "mp_window.h"

#define MP_NO_RTT_SAMPLES

/* a/W, packets per acknowledged packet. This subflow must have an RTT. */
MP_INLINE struct mp_real lia_increase(struct mp_connection *c, mp_u32 i)
{
	const struct mp_subflow *self = mp_self(c, i);
	struct mp_real best = MP_REAL_ZERO, total = MP_REAL_ZERO;
	mp_u32 k;

	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		struct mp_share share = mp_share_of(self, &c->subflows[k]);
		struct mp_real rate, srtt;

		if (!share.cwnd)
			continue;
		srtt = mp_real(share.srtt_us);
		rate = mp_div(mp_real(share.cwnd), srtt);
		total = mp_add(total, rate);
		best = mp_max(best, mp_div(rate, srtt));
	}
	return mp_div(best, mp_mul(total, total));
}

/* Growth by `increase` packets per acknowledged packet, but never more than Reno's. */
MP_INLINE void lia_grow(struct mp_subflow *self, struct mp_real increase, mp_u64 acked)
{
	mp_u64 growth = mp_reno_growth(self, acked), coupled = mp_growth(increase, acked);

	mp_grow(self, (mp_s64)(coupled < growth ? coupled : growth));
}

MP_INLINE void lia_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);

	if (!acked)
		return;
	if (self->srtt_us)
		lia_grow(self, lia_increase(c, i), acked);
	else
		mp_grow(self, (mp_s64)mp_reno_growth(self, acked));
}

MP_STATELESS_HALVING(lia)

MP_INLINE void lia_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

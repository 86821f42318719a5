/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * BALIA, the balanced linked adaptation. Peng, Walid, Hwang and Low, IEEE/ACM ToN 2016, algorithm in section VI.
 *
 *   per acknowledged packet  w_i += (x_i/t_i) / ( sum_k x_k )^2 * (1 + a_i)/2 * (4 + a_i)/5
 *   on a loss event          w_i -= w_i/2 * min( a_i, 3/2 )
 *
 * w: window in packets, t: smoothed round trip, x = w/t, a_i = max_k x_k / x_i.
 *
 * No parameters.
 *
 * Where the mptcp.org kernel differs: its a_i in the decrease is an integer, so that only a half or three quarters of
 * the window ever go; ours follows the formula between them. Its increase is a whole number of ACKs per packet.
 */
#ifndef MP_BALIA_H
#define MP_BALIA_H

#include "mp_window.h"

#define MP_NO_RTT_SAMPLES

struct balia_rates {
	struct mp_real own, largest, total; /* packets/us */
};

MP_INLINE struct balia_rates balia_rates(struct mp_connection *c, mp_u32 i)
{
	const struct mp_subflow *self = mp_self(c, i);
	struct balia_rates rates = { MP_REAL_ZERO, MP_REAL_ZERO, MP_REAL_ZERO };
	mp_u32 k;

	rates.own = mp_div(mp_real(self->cwnd), mp_real(self->srtt_us));
	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		struct mp_share share = mp_share_of(self, &c->subflows[k]);
		struct mp_real rate;

		if (!share.cwnd)
			continue;
		rate = mp_div(mp_real(share.cwnd), mp_real(share.srtt_us));
		rates.total = mp_add(rates.total, rate);
		rates.largest = mp_max(rates.largest, rate);
	}
	return rates;
}

/* Packets per acknowledged packet. This subflow must have an RTT. */
MP_INLINE struct mp_real balia_increase(struct mp_connection *c, mp_u32 i)
{
	struct balia_rates rates = balia_rates(c, i);
	struct mp_real a = mp_div(rates.largest, rates.own);
	struct mp_real base =
		mp_div(mp_div(rates.own, mp_real(mp_self(c, i)->srtt_us)), mp_mul(rates.total, rates.total));

	return mp_div(mp_mul(mp_mul(base, mp_add(mp_real(1), a)), mp_add(mp_real(4), a)), mp_real(10));
}

MP_INLINE void balia_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	(void)c, (void)i, (void)now_us;
}

MP_INLINE void balia_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	(void)c, (void)i, (void)now_us;
}

MP_INLINE void balia_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);

	if (!acked)
		return;
	if (self->srtt_us)
		mp_grow(self, (mp_s64)mp_growth(balia_increase(c, i), acked));
	else
		mp_grow(self, (mp_s64)mp_reno_growth(self, acked));
}

MP_INLINE mp_u64 balia_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	const mp_u64 one = 1 << 16, most = one + one / 2;
	mp_u64 a = one;

	(void)now_us;
	if (self->srtt_us) {
		struct balia_rates rates = balia_rates(c, i);

		a = mp_fixed(mp_div(rates.largest, rates.own), 16);
		a = a < most ? a : most;
	}
	/* rounded as Reno's half is: down, in what stays */
	return mp_reduce(self, (self->cwnd * (2 * one - a)) >> 17);
}

MP_INLINE mp_u64 balia_on_undo(struct mp_connection *c, mp_u32 i)
{
	return mp_undo(mp_self(c, i));
}

MP_INLINE void balia_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * DALIA (reconstruction). A delay-adapted LIA by this name is compared against in the literature, but its rule is in no
 * public text that we know. This is LIA whose increase is scaled by how this round trip compares with the shortest:
 *
 *   per acknowledged packet  w_i += min( a / W * min_k t_k / t_i , 1/w_i ),   a/W as in lia.h
 *   on a loss event          w_i -= w_i/2
 *
 * Label every figure that shows it as a reconstruction.
 *
 * No parameters.
 */
#ifndef MP_DALIA_H
#define MP_DALIA_H

#include "lia.h"

/* LIA's, scaled. This subflow must have an RTT. */
MP_INLINE struct mp_real dalia_increase(struct mp_connection *c, mp_u32 i)
{
	const struct mp_subflow *self = mp_self(c, i);
	mp_u64 shortest = self->srtt_us;
	mp_u32 k;

	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		struct mp_share share = mp_share_of(self, &c->subflows[k]);

		if (share.cwnd && share.srtt_us < shortest)
			shortest = share.srtt_us;
	}
	return mp_div(mp_mul(lia_increase(c, i), mp_real(shortest)), mp_real(self->srtt_us));
}

MP_INLINE void dalia_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);

	if (!acked)
		return;
	if (self->srtt_us)
		lia_grow(self, dalia_increase(c, i), acked);
	else
		mp_grow(self, (mp_s64)mp_reno_growth(self, acked));
}

MP_STATELESS_HALVING(dalia)

MP_INLINE void dalia_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * LD-MPSP, the low-delay controller for multipath over 802.11ay, algorithm 3 of its paper.
 *
 *   per acknowledged packet  w += 1/w * (T - q)/T, held within -1 ... 1
 *   on a loss event          w -= w/2
 *
 * T: target for the queueing delay, equal on all paths; q: delay above propagation (mp_queue_us). Whoever balances
 * delays writes T into the parameter each scheduling round: max(1 ms, t - max_i D_i) for a balanced end-to-end delay t.
 * The paper's listing drops the 1/w that its text has; the text is followed.
 *
 * Parameters: 0 target_us, us, default 20000: T.
 */
#ifndef MP_LD_MPSP_H
#define MP_LD_MPSP_H

#include "mp_window.h"

#define MP_ONE_WAY_DELAY

enum { LD_MPSP_TARGET_US };

#define MP_TARGET LD_MPSP_TARGET_US

MP_INLINE void ld_mpsp_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);
	mp_u64 target = c->parameters[LD_MPSP_TARGET_US];

	if (acked)
		mp_grow(self, mp_scaled_growth(self, acked, target, mp_queue_us(self, target), target));
}

MP_STATELESS_HALVING(ld_mpsp)

MP_INLINE void ld_mpsp_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * RSF-DB, the delay-based controller of the rent-seeking framework, equation 1 of its paper.
 *
 *   per acknowledged packet  w += 1/w * min( 1, (d - q)/q )
 *   on a loss event          w -= w/2
 *
 * d: delay budget; q: forward delay above propagation, queueing plus service (mp_queue_us).
 * (d - q)/q is never below -1, so the window moves by at most one packet a round trip. Below q = d/2 this *is* Reno on
 * each subflow; with buffers that hold much more than d it yields to Reno.
 *
 * Parameters: 0 target_us, us, default 100000: d.
 */
#ifndef MP_RSF_DB_H
#define MP_RSF_DB_H

#include "mp_window.h"

#define MP_ONE_WAY_DELAY

enum { RSF_DB_TARGET_US };

MP_INLINE void rsf_db_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);
	mp_u64 target = c->parameters[RSF_DB_TARGET_US], queue = mp_queue_us(self, target);

	if (acked)
		mp_grow(self, mp_scaled_growth(self, acked, target, queue, queue));
}

MP_STATELESS_HALVING(rsf_db)

MP_INLINE void rsf_db_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Reno on each subflow, uncoupled: the baseline. RFC 5681.
 *
 *   per acknowledged packet  w += 1/w
 *   on a loss event          w -= w/2
 *
 * No parameters.
 *
 * The kernel's reno counts ACKs up to a window (tcp_cong_avoid_ai); ours adds up 1/w, which differs only while the
 * window changes in the middle of a count.
 */
#ifndef MP_RENO_H
#define MP_RENO_H

#include "mp_window.h"

#define MP_NO_RTT_SAMPLES

MP_INLINE void reno_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);

	if (acked)
		mp_grow(self, (mp_s64)mp_reno_growth(self, acked));
}

MP_STATELESS_HALVING(reno)

MP_INLINE void reno_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * PCC: MPCC without siblings, each subflow for itself. Dong et al., PCC Vivace, NSDI 2018, with the numbers of mpcc.h.
 *
 * Parameters: 0 alpha, thousandths, default 900.
 *             1 beta, thousandths, default 11350.
 *             2 gamma, thousandths, default 900000.
 *             3 utility_unit, bit/s, default 1000000.
 *             4 step, bytes/s, default 125000.
 *             5 first_rate, bytes/s, default 500000.
 *             6 floor, bytes/s, default 25000.
 *             7 coupled, 0 or 1, default 0.
 */
#ifndef MP_PCC_H
#define MP_PCC_H

#include "mpcc.h"

MP_INLINE void pcc_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_init(c, i, now_us);
}

MP_INLINE void pcc_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_on_rtt(c, i, now_us);
}

MP_INLINE void pcc_on_interval(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_on_interval(c, i, now_us);
}

MP_INLINE mp_u64 pcc_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	return mpcc_on_loss(c, i, now_us);
}

MP_INLINE mp_u64 pcc_on_undo(struct mp_connection *c, mp_u32 i)
{
	return mpcc_on_undo(c, i);
}

MP_INLINE void pcc_on_close(struct mp_connection *c, mp_u32 i)
{
	mpcc_on_close(c, i);
}

#endif

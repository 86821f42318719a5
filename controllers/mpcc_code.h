/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * MPCC with the constants of its authors' kernel module, whose utility counts bytes/s: it bears 1.6 % of loss at
 * 100 Mbit/s, where MPCC bears 5 %. All of it, but for these defaults, is in mpcc.h.
 *
 * Parameters: 0 alpha, thousandths, default 900.
 *             1 beta, thousandths, default 11000.
 *             2 gamma, thousandths, default 1000.
 *             3 utility_unit, bit/s, default 8.
 *             4 step, bytes/s, default 125000.
 *             5 first_rate, bytes/s, default 500000.
 *             6 floor, bytes/s, default 25000.
 *             7 coupled, 0 or 1, default 1.
 */
#ifndef MP_MPCC_CODE_H
#define MP_MPCC_CODE_H

#include "mpcc.h"

MP_INLINE void mpcc_code_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_init(c, i, now_us);
}

MP_INLINE void mpcc_code_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_on_rtt(c, i, now_us);
}

MP_INLINE void mpcc_code_on_interval(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_on_interval(c, i, now_us);
}

MP_INLINE mp_u64 mpcc_code_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	return mpcc_on_loss(c, i, now_us);
}

MP_INLINE mp_u64 mpcc_code_on_undo(struct mp_connection *c, mp_u32 i)
{
	return mpcc_on_undo(c, i);
}

MP_INLINE void mpcc_code_on_close(struct mp_connection *c, mp_u32 i)
{
	mpcc_on_close(c, i);
}

#endif

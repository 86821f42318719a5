/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * x^a for a of 0 to 1, by log2 and exp2, for utilities that are powers of a rate.
 *
 * The logarithm comes bit by bit from squaring the mantissa, 32 bits of it, each truncated: low by less than 2^-29.
 * The exponential is its series to the twelfth term, low by less than 2^-29 of itself. Together the result is within
 * 10^-8 of itself for x of 2^-40 to 2^64; a test holds it to that.
 */
#ifndef MP_POWER_H
#define MP_POWER_H

#include "mp_math.h"

#define MP_LOG_BITS 32
#define MP_LN_2 2977044472ULL /* ln 2 * 2^32 */

/* log2(x) in units of 2^-32; x must not be 0. */
MP_INLINE mp_s64 mp_log2(struct mp_real x)
{
	mp_u64 m = x.m, fraction = 0, carry;
	mp_u32 k;

	for (k = 0; k < MP_LOG_BITS; k++) {
		m = (m * m) >> 31; /* in [2^31, 2^33) */
		carry = m >> 32;
		m >>= carry;
		fraction = fraction << 1 | carry;
	}
	return (x.e + 31) * (1LL << MP_LOG_BITS) + (mp_s64)fraction;
}

/* 2^(x * 2^-32) */
MP_INLINE struct mp_real mp_exp2(mp_s64 x)
{
	const mp_u64 one = 1ULL << 31;
	mp_u64 fraction = (mp_u64)x & ((1ULL << MP_LOG_BITS) - 1);
	mp_u64 y = ((fraction >> 1) * MP_LN_2) >> 32, sum = one; /* in units of 2^-31 */
	mp_u32 k;

	for (k = 12; k > 0; k--)
		sum = one + ((y * sum) >> 31) / k;
	return (struct mp_real){ sum, (x >> MP_LOG_BITS) - 31 };
}

/* x^(thousandths/1000) */
MP_INLINE struct mp_real mp_power(struct mp_real x, mp_u64 thousandths)
{
	mp_u64 magnitude;
	mp_s64 log;

	if (!x.m || x.e > 64 || x.e < -128)
		return MP_REAL_ZERO;
	thousandths = thousandths < 1000 ? thousandths : 1000;
	log = mp_log2(x);
	magnitude = (mp_u64)(log < 0 ? -log : log) * thousandths / 1000;
	return mp_exp2(log < 0 ? -(mp_s64)magnitude : (mp_s64)magnitude);
}

#endif

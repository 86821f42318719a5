/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Arithmetic for rules that divide windows by squared round-trip times.
 *
 * Windows of 1 to 10^6 packets beside round trips of 10 us to 10 s make w/rtt^2 span twenty decades, which no fixed
 * point of 64 bits holds; BPF has neither 128 bits nor floats nor, with clang 14, signed division. So a quantity is a
 * pair m * 2^e with m in [2^31, 2^32), or m = 0. Each operation truncates: its result is low by at most 2^-31 of
 * itself, and a rule of a dozen operations stays within 10^-8 of its formula.
 *
 * Normalising shifts instead of branching wherever it runs once per sibling: the verifier walks every branch of eight
 * slots.
 */
#ifndef MP_MATH_H
#define MP_MATH_H

#include "mp.h"

struct mp_real {
	mp_u64 m;
	mp_s64 e;
};

#define MP_ZERO_EXPONENT_BITS 20
#define MP_REAL_ZERO ((struct mp_real){ 0, -(1LL << MP_ZERO_EXPONENT_BITS) }) /* so far below that it adds as 0 */

/* Keeps clang from seeing a comparison in what follows, which it would turn into a branch. */
#ifdef __bpf__
#define MP_OPAQUE(x) asm volatile("" : "+r"(x))
#else
#define MP_OPAQUE(x) (void)0
#endif

/* Leading zeros of x; 63 for 0. */
MP_INLINE mp_u64 mp_leading_zeros(mp_u64 x)
{
#ifdef __bpf__
	mp_u64 zeros = 0, high, shift;

	/* (high - 1) >> 63 is 1 where high is 0 */
#define MP_HALVE(bits)                                                                                                 \
	high = x >> (64 - (bits));                                                                                     \
	MP_OPAQUE(high);                                                                                               \
	shift = ((high - 1) >> 63) * (bits);                                                                           \
	x <<= shift;                                                                                                   \
	zeros += shift;
	MP_HALVE(32)
	MP_HALVE(16)
	MP_HALVE(8)
	MP_HALVE(4)
	MP_HALVE(2)
	MP_HALVE(1)
#undef MP_HALVE
	return zeros;
#else
	return x ? (mp_u64)__builtin_clzll(x) : 63;
#endif
}

MP_INLINE struct mp_real mp_real(mp_u64 x)
{
	mp_u64 shift = mp_leading_zeros(x), sign = x | (0 - x);
	struct mp_real r = { (x << shift) >> 32, 32 - (mp_s64)shift };

	MP_OPAQUE(sign);
	r.e -= (mp_s64)((sign >> 63 ^ 1) << MP_ZERO_EXPONENT_BITS); /* x is 0 */
	return r;
}

MP_INLINE struct mp_real mp_mul(struct mp_real a, struct mp_real b)
{
	mp_u64 product = a.m * b.m; /* below 2^64 */
	mp_u64 carry = product >> 63;
	struct mp_real r = { product >> (31 + carry), a.e + b.e + 31 + (mp_s64)carry };

	return r;
}

/* By 0: larger than any number, and no trap. */
MP_INLINE struct mp_real mp_div(struct mp_real a, struct mp_real b)
{
	mp_u64 divisor = b.m + ((b.m - 1) >> 63 << 31); /* 0 as if normalised */
	mp_u64 quotient = (a.m << 32) / divisor;        /* in (2^31, 2^33) */
	mp_u64 carry = quotient >> 32;
	struct mp_real r = { quotient >> carry, a.e - b.e - 32 + (mp_s64)carry };

	return r;
}

MP_INLINE struct mp_real mp_add(struct mp_real a, struct mp_real b)
{
	mp_u64 swap = (mp_u64)((a.e - b.e) >> 63); /* all ones where b is the larger */
	mp_u64 swap_m = (a.m ^ b.m) & swap, swap_e = (mp_u64)(a.e ^ b.e) & swap;
	mp_u64 large = a.m ^ swap_m, small = b.m ^ swap_m;
	mp_s64 e = a.e ^ (mp_s64)swap_e;
	mp_u64 distance = (mp_u64)(e - (b.e ^ (mp_s64)swap_e));
	mp_u64 sum, carry;

	distance = (distance | -((63 - distance) >> 63)) & 63; /* farther than a mantissa: adds nothing */
	sum = large + (small >> distance);
	carry = sum >> 32;
	return (struct mp_real){ sum >> carry, e + (mp_s64)carry };
}

#define MP_ORDER_ZERO (-(1LL << 61))
#define MP_ORDER_LEAST (-(1LL << 62)) /* below every mp_order */

/* Orders as the numbers do; all zeros are equal. */
MP_INLINE mp_s64 mp_order(struct mp_real a)
{
	return a.m ? a.e * (1LL << 32) + (mp_s64)a.m : MP_ORDER_ZERO;
}

MP_INLINE struct mp_real mp_max(struct mp_real a, struct mp_real b)
{
	return mp_order(a) < mp_order(b) ? b : a;
}

MP_INLINE struct mp_real mp_min(struct mp_real a, struct mp_real b)
{
	return mp_order(a) < mp_order(b) ? a : b;
}

/* Multiplies by 2^bits. */
MP_INLINE struct mp_real mp_scale(struct mp_real a, mp_s64 bits)
{
	a.e += bits;
	return a;
}

/* floor(a * 2^bits), at most 2^62. */
MP_INLINE mp_u64 mp_fixed(struct mp_real a, mp_s64 bits)
{
	mp_s64 shift = a.e + bits;

	if (shift > 30)
		return 1ULL << 62;
	if (shift >= 0)
		return a.m << shift;
	if (shift < -63)
		return 0;
	return a.m >> -shift;
}

#endif

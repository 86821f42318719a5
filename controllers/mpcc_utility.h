/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* MPCC's parameters and the utility that they make; the controller is in mpcc.h. */
#ifndef MP_MPCC_UTILITY_H
#define MP_MPCC_UTILITY_H

#include "mp_power.h"

enum {
	MPCC_ALPHA,
	MPCC_BETA,
	MPCC_GAMMA,
	MPCC_UTILITY_UNIT,
	MPCC_STEP,
	MPCC_FIRST_RATE,
	MPCC_FLOOR,
	MPCC_COUPLED,
};

#define MPCC_UTILITY_BITS 20
#define MPCC_UTILITY_MOST (1ULL << 60)
#define MPCC_UTILITY_LEAST (-(1LL << 62)) /* below every utility */

/* What an interval showed. */
struct mpcc_sample {
	mp_u64 packets, lost;
	mp_u64 elapsed_us;
	mp_s64 rise_us; /* of the RTT, over elapsed_us */
};

MP_INLINE mp_u64 mpcc_term(struct mp_real term)
{
	mp_u64 fixed = mp_fixed(term, MPCC_UTILITY_BITS);

	return fixed < MPCC_UTILITY_MOST ? fixed : MPCC_UTILITY_MOST;
}

/* A rate in utility_unit. */
MP_INLINE struct mp_real mpcc_in_unit(const struct mp_connection *c, mp_u64 rate)
{
	return mp_div(mp_scale(mp_real(rate), 3), mp_real(c->parameters[MPCC_UTILITY_UNIT]));
}

/* U in units of 2^-MPCC_UTILITY_BITS, for `total` = C + x. */
MP_INLINE mp_s64 mpcc_utility(const struct mp_connection *c, mp_u64 total, const struct mpcc_sample *sample)
{
	struct mp_real x = mpcc_in_unit(c, total), thousandth = mp_div(x, mp_real(1000));
	mp_u64 rise = (mp_u64)(sample->rise_us < 0 ? -sample->rise_us : sample->rise_us);
	mp_s64 utility = (mp_s64)mpcc_term(mp_power(x, c->parameters[MPCC_ALPHA]));
	mp_s64 slope_cost;

	utility -= (mp_s64)mpcc_term(
		mp_div(mp_mul(mp_mul(thousandth, mp_real(c->parameters[MPCC_BETA])), mp_real(sample->lost)),
		       mp_real(sample->packets)));
	slope_cost =
		(mp_s64)mpcc_term(mp_div(mp_mul(mp_mul(thousandth, mp_real(c->parameters[MPCC_GAMMA])), mp_real(rise)),
					 mp_real(sample->elapsed_us)));
	return sample->rise_us < 0 ? utility + slope_cost : utility - slope_cost;
}

#endif

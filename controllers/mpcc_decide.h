/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* What MPCC decides after an epoch: the states of mpcc.h, and the steps along the gradient. */
#ifndef MP_MPCC_DECIDE_H
#define MP_MPCC_DECIDE_H

#include "mpcc_epoch.h"

enum { MPCC_NOWHERE, MPCC_UP, MPCC_DOWN };

#define MPCC_RETRIES_MAX 2
#define MPCC_SWING_BUFFER_MAX 2
#define MPCC_AMPLIFIER_MAX (1 << 16)
#define MPCC_BOUND_MAX 20

MP_INLINE mp_u64 mpcc_distance(mp_s64 a, mp_s64 b)
{
	return a > b ? (mp_u64)a - (mp_u64)b : (mp_u64)b - (mp_u64)a;
}

/* Where utility rises, by how much over how many bytes/s. */
struct mpcc_slope {
	mp_u64 direction, gain, width;
};

/* A step along the slope, as mpcc.h has it. */
MP_INLINE void mpcc_take_step(struct mp_connection *c, struct mp_subflow *self, const struct mpcc_slope *slope)
{
	mp_u64 rate = self->state[MPCC_RATE], total = rate + self->state[MPCC_OTHERS], amplifier, bound, step, allowed;
	struct mp_real gradient =
		mp_div(mp_scale(mp_real(slope->gain), -MPCC_UTILITY_BITS), mpcc_in_unit(c, slope->width));

	amplifier = self->state[MPCC_AMPLIFIER];
	bound = self->state[MPCC_BOUND] < MPCC_BOUND_MAX ? self->state[MPCC_BOUND] : MPCC_BOUND_MAX;
	if (slope->direction != self->state[MPCC_DIRECTION]) {
		amplifier = 0;
		bound = 0;
		if (self->state[MPCC_SWING_BUFFER] < MPCC_SWING_BUFFER_MAX)
			self->state[MPCC_SWING_BUFFER]++;
	} else if (self->state[MPCC_SWING_BUFFER]) {
		self->state[MPCC_SWING_BUFFER]--;
	} else if (amplifier < MPCC_AMPLIFIER_MAX) {
		amplifier += 2;
	}
	self->state[MPCC_DIRECTION] = slope->direction;
	self->state[MPCC_AMPLIFIER] = amplifier;

	step = mp_fixed(mp_mul(gradient, mp_mul(mp_real(c->parameters[MPCC_STEP]), mp_real(1 + amplifier))), 0);
	allowed = total / 20 * (1 + bound);
	if (step > allowed) {
		step = allowed;
		bound++;
	} else if (bound) {
		bound--;
	}
	self->state[MPCC_BOUND] = bound;
	if (step < c->parameters[MPCC_STEP] / 2)
		step = c->parameters[MPCC_STEP] / 2;
	if (step > rate / 2)
		step = rate / 2;
	self->state[MPCC_RATE] = slope->direction == MPCC_UP ? rate + step : rate - step;
}

MP_INLINE void mpcc_decide_start(struct mp_subflow *self, mp_s64 utility, int carried)
{
	if (carried && utility > (mp_s64)self->state[MPCC_LAST_UTILITY]) {
		self->state[MPCC_LAST_UTILITY] = (mp_u64)utility;
		self->state[MPCC_LAST_RATE] = self->state[MPCC_RATE];
		self->state[MPCC_RETRIES] = MPCC_RETRIES_MAX;
		self->state[MPCC_RATE] *= 2;
	} else if (self->state[MPCC_RETRIES]) {
		self->state[MPCC_RETRIES]--;
	} else {
		self->state[MPCC_PHASE] = MPCC_PROBE;
		self->state[MPCC_RATE] = self->state[MPCC_LAST_RATE];
	}
}

/* How much more utility the upper rate of a pair had. */
MP_INLINE mp_s64 mpcc_pair(const struct mp_subflow *self, mp_u64 first)
{
	mp_s64 a = (mp_s64)self->state[MPCC_UTILITY + first], b = (mp_s64)self->state[MPCC_UTILITY + first + 1];

	return mpcc_probes_up(self, first) ? (mp_s64)((mp_u64)a - (mp_u64)b) : (mp_s64)((mp_u64)b - (mp_u64)a);
}

MP_INLINE struct mpcc_slope mpcc_decide_probe(struct mp_subflow *self)
{
	mp_s64 one = mpcc_pair(self, 0), other = mpcc_pair(self, 2), mean = 0;
	mp_u64 gain = mpcc_distance(one, 0), other_gain = mpcc_distance(other, 0);
	struct mpcc_slope slope = { MPCC_NOWHERE, gain < other_gain ? gain : other_gain, 2 * mpcc_probe_width(self) };
	mp_u32 k;

	if (!slope.gain || (one < 0) != (other < 0))
		return slope;
	for (k = 0; k < MPCC_INTERVALS; k++)
		mean += (mp_s64)self->state[MPCC_UTILITY + k] >> 2;
	self->state[MPCC_LAST_UTILITY] = (mp_u64)mean;
	self->state[MPCC_PHASE] = MPCC_MOVE;
	slope.direction = one > 0 ? MPCC_UP : MPCC_DOWN;
	return slope;
}

MP_INLINE struct mpcc_slope mpcc_decide_move(struct mp_subflow *self, mp_s64 utility)
{
	mp_s64 last = (mp_s64)self->state[MPCC_LAST_UTILITY];
	mp_u64 rate = self->state[MPCC_RATE], last_rate = self->state[MPCC_LAST_RATE];
	struct mpcc_slope slope = { MPCC_NOWHERE, mpcc_distance(utility, last), mpcc_distance(rate, last_rate) };

	if (utility <= last || rate == last_rate) {
		self->state[MPCC_PHASE] = MPCC_PROBE;
		self->state[MPCC_RATE] = last_rate;
		return slope;
	}
	self->state[MPCC_LAST_UTILITY] = (mp_u64)utility;
	slope.direction = rate > last_rate ? MPCC_UP : MPCC_DOWN;
	return slope;
}

MP_INLINE void mpcc_decide(struct mp_connection *c, mp_u32 i, mp_s64 utility, int carried)
{
	struct mp_subflow *self = mp_self(c, i);
	struct mpcc_slope slope;

	if (self->state[MPCC_PHASE] == MPCC_START) {
		mpcc_decide_start(self, utility, carried);
		return;
	}
	slope = self->state[MPCC_PHASE] == MPCC_PROBE ? mpcc_decide_probe(self) : mpcc_decide_move(self, utility);
	if (slope.direction == MPCC_NOWHERE)
		return;
	self->state[MPCC_LAST_RATE] = self->state[MPCC_RATE];
	mpcc_take_step(c, self, &slope);
}

#endif

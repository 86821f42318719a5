/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * MPCC, online-learning multipath rate control. Gilad et al., CoNEXT 2020; numbers as in its authors' kernel module.
 *
 * Each subflow climbs the utility of its own rate x, given the rates that its siblings last published, their sum C:
 *
 *   U(x) = X^alpha - beta * L * X - gamma * dRTT/dt * X,   X = C + x in utility_unit
 *
 * L: part of the packets lost, dRTT/dt: slope of the round trip, both over a monitor interval of 1.5 srtt. Under
 * random loss L it rests at X = (alpha/(beta L))^(1/(1 - alpha)): the unit decides how much loss it bears.
 *
 *             utility rises and the path carries 0.9 x: x *= 2
 *               +---+
 *               v   |
 *            +---------+  neither, three times: x /= 2   +---------+ <--+ the pairs disagree
 *   init --> |  start  | ------------------------------> |  probe  | ---+
 *            +---------+                                 +---------+
 *                                                          |     ^
 *                       both pairs agree on the direction: |     | utility dropped: back to the last x
 *                                          a step that way v     | loss over 30 %: x /= 2 (from any state)
 *                                                        +---------+
 *                                                        |  move   | ---+
 *                                                        +---------+ <--+ utility rose: a step along the gradient
 *
 * start: losses under 15 % and a falling RTT do not count. probe: four intervals, two pairs of x + d and x - d in
 * random order, d 5 % of C + x. move: one interval a step; step = step * U' * (1 + amplifier), the amplifier grows by 2
 * with each step that repeats the direction, once a swing buffer (one for each turn, at most 2) is used up, and is 0
 * after a turn. A step is at least half of `step`, at most 5 % of C + x, which goes up by 5 % with each step so cut and
 * down again, and never more than half of x.
 *
 * The window is 2 x srtt, so that pacing is what limits.
 *
 * Parameters: 0 alpha, thousandths, default 900.
 *             1 beta, thousandths, default 11350.
 *             2 gamma, thousandths, default 900000.
 *             3 utility_unit, bit/s, default 1000000.
 *             4 step, bytes/s, default 125000.
 *             5 first_rate, bytes/s, default 500000.
 *             6 floor, bytes/s, default 25000.
 *             7 coupled, 0 or 1, default 1: whether C counts.
 *
 * Where the module differs: it counts intervals by sequence number, we by the time that an acknowledged packet was
 * sent; it takes the RTT's slope from srtt at both ends, we from the means of the two halves, which is the same for a
 * line and less noisy else; its draw of the order is random, ours a bit of the clock. Ours also holds still where
 * losses are none and the path carried less than half of x: the application, not the path, was the limit.
 */
#ifndef MP_MPCC_H
#define MP_MPCC_H

#include "mp_window.h"
#include "mpcc_utility.h"

enum { MPCC_START, MPCC_PROBE, MPCC_MOVE, MPCC_FOLLOW /* ddpg_mpcc.h alone */ };
enum { MPCC_NOWHERE, MPCC_UP, MPCC_DOWN };

#define MPCC_INTERVALS 4 /* of a probe */

/* An epoch is what one decision is made on: one interval, or the four of a probe. Rates in bytes/s. */
enum {
	MPCC_PHASE,
	MPCC_RATE,      /* x */
	MPCC_PUBLISHED, /* x as siblings read it */
	MPCC_OTHERS,    /* C of the last probe, of the very first epoch before that */
	MPCC_INTERVAL,  /* length of a monitor interval, us; 0 before the first epoch */
	MPCC_ORDER,     /* of the pairs of a probe, one bit each */
	MPCC_SENDING,   /* interval of the epoch that is being sent, MPCC_INTERVALS or more once all are */
	MPCC_RECEIVING, /* interval whose acknowledgements come in */
	MPCC_SENT_FROM, /* when each interval began, us; the last is when all were sent */
	MPCC_UTILITY = MPCC_SENT_FROM + MPCC_INTERVALS + 1,
	MPCC_SINCE = MPCC_UTILITY + MPCC_INTERVALS, /* when its acknowledgements began to come in, us; 0: not yet */
	MPCC_DELIVERED,                             /* counters at that time */
	MPCC_LOST,
	MPCC_EARLY_SUM, /* RTT samples of its first and second half */
	MPCC_EARLY_SAMPLES,
	MPCC_LATE_SUM,
	MPCC_LATE_SAMPLES,
	MPCC_LAST_RATE, /* of the last epoch, with its utility */
	MPCC_LAST_UTILITY,
	MPCC_DIRECTION,
	MPCC_AMPLIFIER,
	MPCC_SWING_BUFFER,
	MPCC_BOUND,
	MPCC_RETRIES,
	MPCC_WORDS,
};

_Static_assert(MPCC_WORDS <= MP_STATE_WORDS, "MPCC needs more words");

#define MPCC_RETRIES_MAX 2
#define MPCC_SWING_BUFFER_MAX 2
#define MPCC_AMPLIFIER_MAX (1 << 16)
#define MPCC_BOUND_MAX 20
#define MPCC_LEAST_PACKETS 10 /* in an interval; fewer say nothing of loss */
#define MPCC_LEAST_CWND 4

MP_INLINE mp_u64 mpcc_distance(mp_s64 a, mp_s64 b)
{
	return a > b ? (mp_u64)a - (mp_u64)b : (mp_u64)b - (mp_u64)a;
}

MP_INLINE mp_u64 mpcc_others(struct mp_connection *c, mp_u32 i)
{
	const struct mp_subflow *self = mp_self(c, i);
	mp_u64 others = 0;
	mp_u32 k;

	if (!c->parameters[MPCC_COUPLED])
		return 0;
	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		const struct mp_subflow *sibling = &c->subflows[k];

		if (k != (i & (MP_MAX_SUBFLOWS - 1)) && mp_share_of(self, sibling).cwnd)
			others += (mp_u32)MP_READ(sibling->state[MPCC_PUBLISHED]);
	}
	return others;
}

/* d of a probe: 5 % of the connection's rate, at most half of x. */
MP_INLINE mp_u64 mpcc_probe_width(const struct mp_subflow *self)
{
	mp_u64 width = (self->state[MPCC_RATE] + self->state[MPCC_OTHERS]) / 20, most = self->state[MPCC_RATE] / 2;

	return width < most ? width : most;
}

MP_INLINE int mpcc_probes_up(const struct mp_subflow *self, mp_u64 interval)
{
	return (self->state[MPCC_ORDER] >> (interval >> 1 & 1) ^ interval) & 1;
}

/* Rate of an interval of this epoch; x once all are sent. */
MP_INLINE mp_u64 mpcc_interval_rate(const struct mp_connection *c, const struct mp_subflow *self, mp_u64 interval)
{
	mp_u64 rate = self->state[MPCC_RATE], width = mpcc_probe_width(self);

	if (self->state[MPCC_PHASE] != MPCC_PROBE || interval >= MPCC_INTERVALS)
		return rate;
	if (mpcc_probes_up(self, interval))
		return rate + width;
	return rate - width > c->parameters[MPCC_FLOOR] ? rate - width : c->parameters[MPCC_FLOOR];
}

MP_INLINE mp_u64 mpcc_epoch_intervals(const struct mp_subflow *self)
{
	return self->state[MPCC_PHASE] == MPCC_PROBE ? MPCC_INTERVALS : 1;
}

/* Rates are kept within 32 bits (34 Gbit/s), as in the module, so that no product overflows. */
MP_INLINE void mpcc_new_epoch(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 interval = self->srtt_us + self->srtt_us / 2, rate = self->state[MPCC_RATE], least;

	rate = rate > c->parameters[MPCC_FLOOR] ? rate : c->parameters[MPCC_FLOOR];
	rate = rate < 0xffffffff ? rate : 0xffffffff;
	self->state[MPCC_RATE] = rate;
	self->state[MPCC_PUBLISHED] = rate;
	least = MPCC_LEAST_PACKETS * self->mss * 1000000 / (rate + !rate);
	/* C stands still while moving, else a sibling's step would pass for our own gain */
	if (self->state[MPCC_PHASE] == MPCC_PROBE || !self->state[MPCC_INTERVAL])
		self->state[MPCC_OTHERS] = mpcc_others(c, i);
	self->state[MPCC_INTERVAL] = interval > least ? interval : least;
	self->state[MPCC_ORDER] = now_us ^ now_us >> 2 ^ now_us >> 5;
	self->state[MPCC_SENDING] = 0;
	self->state[MPCC_RECEIVING] = 0;
	self->state[MPCC_SENT_FROM] = now_us;
	self->state[MPCC_SINCE] = 0;
}

/* Where utility rises, by how much over how many bytes/s. */
struct mpcc_slope {
	mp_u64 direction, gain, width;
};

/* A step along the slope, as the comment on top has it. */
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

/* The acknowledgements of an interval begin to come in. */
MP_INLINE void mpcc_open(struct mp_subflow *self, mp_u64 now_us)
{
	self->state[MPCC_SINCE] = now_us;
	self->state[MPCC_DELIVERED] = self->delivered;
	self->state[MPCC_LOST] = self->lost;
	self->state[MPCC_EARLY_SUM] = 0;
	self->state[MPCC_EARLY_SAMPLES] = 0;
	self->state[MPCC_LATE_SUM] = 0;
	self->state[MPCC_LATE_SAMPLES] = 0;
}

MP_INLINE struct mpcc_sample mpcc_sample(const struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 early = self->state[MPCC_EARLY_SAMPLES], late = self->state[MPCC_LATE_SAMPLES];
	struct mpcc_sample sample;

	/* kernel counters are 32 bits wide */
	sample.lost = (mp_u32)(self->lost - self->state[MPCC_LOST]);
	sample.packets = sample.lost + (mp_u32)(self->delivered - self->state[MPCC_DELIVERED]);
	sample.elapsed_us = (mp_u32)(now_us - self->state[MPCC_SINCE]);
	sample.rise_us = 0;
	/* the means of the halves lie half the interval apart */
	if (early && late)
		sample.rise_us = ((mp_s64)(mp_u32)(self->state[MPCC_LATE_SUM] / late) -
				  (mp_s64)(mp_u32)(self->state[MPCC_EARLY_SUM] / early)) *
				 2;
	/* a slope under 3 % is noise */
	if (mpcc_distance(sample.rise_us, 0) * 100 < sample.elapsed_us * 3)
		sample.rise_us = 0;
	return sample;
}

/* More than 30 % lost: whatever steers, the rate is halved. */
MP_INLINE int mpcc_brakes(const struct mpcc_sample *sample)
{
	return sample->lost * 10 > sample->packets * 3 && sample->packets > 100;
}

/* Payload bytes that an interval at `rate` should have carried. */
MP_INLINE mp_u64 mpcc_expected(mp_u64 rate, const struct mpcc_sample *sample)
{
	return mp_fixed(mp_div(mp_mul(mp_real(rate), mp_real(sample->elapsed_us)), mp_real(1000000)), 0);
}

/* Whether an interval says something about the path; else the application was the limit. */
MP_INLINE int mpcc_tells(const struct mp_subflow *self, mp_u64 rate, const struct mpcc_sample *sample)
{
	return sample->packets && (self->state[MPCC_PHASE] == MPCC_START || sample->lost ||
				   sample->packets * self->mss >= mpcc_expected(rate, sample) / 2);
}

/* All of an interval is acknowledged: keep its utility, and decide after the last of the epoch. */
MP_INLINE void mpcc_close(struct mp_connection *c, mp_u32 i, mp_u64 now_us, struct mpcc_sample sample)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 interval = self->state[MPCC_RECEIVING] & (MPCC_INTERVALS - 1),
	       rate = mpcc_interval_rate(c, self, interval), expected = mpcc_expected(rate, &sample);

	if (mpcc_brakes(&sample)) {
		self->state[MPCC_PHASE] = MPCC_PROBE;
		self->state[MPCC_RATE] /= 2;
	} else if (mpcc_tells(self, rate, &sample)) {
		int starting = self->state[MPCC_PHASE] == MPCC_START;
		mp_s64 utility;

		if (starting && sample.lost * 100 < sample.packets * 15)
			sample.lost = 0;
		if (starting && sample.rise_us < 0)
			sample.rise_us = 0;
		utility = mpcc_utility(c, rate + self->state[MPCC_OTHERS], &sample);
		self->state[MPCC_UTILITY + interval] = (mp_u64)utility;
		if (interval + 1 < mpcc_epoch_intervals(self)) {
			self->state[MPCC_RECEIVING] = interval + 1;
			mpcc_open(self, now_us);
			return;
		}
		mpcc_decide(c, i, utility, sample.packets * self->mss > expected - expected / 10);
	}
	mpcc_new_epoch(c, i, now_us);
}

MP_INLINE void mpcc_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u32 k;

	(void)now_us;
	for (k = 0; k < MP_STATE_WORDS; k++)
		self->state[k] = 0;
	self->state[MPCC_LAST_UTILITY] = (mp_u64)MPCC_UTILITY_LEAST;
	self->state[MPCC_RETRIES] = MPCC_RETRIES_MAX;
	self->state[MPCC_RATE] = c->parameters[MPCC_FIRST_RATE];
	self->state[MPCC_LAST_RATE] = self->state[MPCC_RATE];
	self->pacing_rate = self->state[MPCC_RATE];
}

MP_INLINE void mpcc_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	int late = now_us - self->state[MPCC_SINCE] > self->state[MPCC_INTERVAL] / 2;

	self->state[late ? MPCC_LATE_SUM : MPCC_EARLY_SUM] += self->rtt_us;
	self->state[late ? MPCC_LATE_SAMPLES : MPCC_EARLY_SAMPLES]++;
}

/* Follows which interval is being sent and which acknowledged: whether all of one is acknowledged now. */
MP_INLINE int mpcc_watch(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 sending, receiving, acknowledged_us;

	if (!self->state[MPCC_INTERVAL])
		mpcc_new_epoch(c, i, now_us);

	sending = self->state[MPCC_SENDING];
	if (sending < mpcc_epoch_intervals(self) &&
	    now_us >= self->state[MPCC_SENT_FROM + (sending & (MPCC_INTERVALS - 1))] + self->state[MPCC_INTERVAL]) {
		sending = (sending & (MPCC_INTERVALS - 1)) + 1;
		self->state[MPCC_SENT_FROM + sending] = now_us;
		self->state[MPCC_SENDING] = sending;
	}

	/* when the packet was sent that is acknowledged now */
	acknowledged_us = now_us > self->rtt_us ? now_us - self->rtt_us : 0;
	receiving = self->state[MPCC_RECEIVING] & (MPCC_INTERVALS - 1);
	if (self->state[MPCC_SINCE])
		return sending > receiving && acknowledged_us >= self->state[MPCC_SENT_FROM + receiving + 1];
	if (acknowledged_us >= self->state[MPCC_SENT_FROM])
		mpcc_open(self, now_us);
	return 0;
}

/* Sends at the rate of the interval under way. */
MP_INLINE void mpcc_pace(const struct mp_connection *c, struct mp_subflow *self)
{
	mp_u64 sending = self->state[MPCC_SENDING], cwnd;

	self->pacing_rate =
		mpcc_interval_rate(c, self, sending < mpcc_epoch_intervals(self) ? sending : MPCC_INTERVALS);
	cwnd = mp_fixed(mp_div(mp_mul(mp_real(2 * self->pacing_rate), mp_real(self->srtt_us)),
			       mp_mul(mp_real(1000000), mp_real(self->mss + !self->mss))),
			0);
	self->cwnd = cwnd > MPCC_LEAST_CWND ? cwnd : MPCC_LEAST_CWND;
}

MP_INLINE void mpcc_on_interval(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	if (!self->srtt_us)
		return;
	if (mpcc_watch(c, i, now_us))
		mpcc_close(c, i, now_us, mpcc_sample(self, now_us));
	mpcc_pace(c, self);
}

/* A loss is part of the utility, and nothing more. */
MP_INLINE mp_u64 mpcc_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	(void)now_us;
	return mp_reduce(self, self->cwnd);
}

MP_INLINE mp_u64 mpcc_on_undo(struct mp_connection *c, mp_u32 i)
{
	return mp_undo(mp_self(c, i));
}

MP_INLINE void mpcc_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

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

#include "mpcc_decide.h"

#define MPCC_LEAST_CWND 4

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
		mpcc_send(c, self);
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

/* The window follows the round trip, so that pacing is what limits. The kernel's srtt is below 2^29 us. */
MP_INLINE void mpcc_open_window(struct mp_subflow *self)
{
	mp_u64 unit = 1000000ULL * (mp_u32)self->mss, cwnd;

	cwnd = 2 * self->pacing_rate * self->srtt_us / (unit + !unit);
	self->cwnd = cwnd > MPCC_LEAST_CWND ? cwnd : MPCC_LEAST_CWND;
}

MP_INLINE void mpcc_on_interval(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	if (!self->srtt_us)
		return;
	if (mpcc_watch(c, i, now_us))
		mpcc_close(c, i, now_us, mpcc_sample(self, now_us));
	mpcc_open_window(self);
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

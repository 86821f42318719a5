/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * DDPG-MPCC: MPCC whose steps a learned agent takes. Pokhrel et al., Future Internet 16(2), 37, 2024.
 *
 * The agent, a small network, lives outside: floats have no place here. After each monitor interval the controller
 * leaves a record of it in its own words and counts SERIAL up; who runs the agent answers by ANSWER, SERIAL and the new
 * rate in one word. Slow start, the brake at 30 % loss and the floor stay MPCC's, and a step is at most a tenth of x.
 *
 *             as mpcc.h                          an answer in time: x := answer
 *           +-----------+     agent is alive     +----------+
 *   init -> |   start   | ---------------------> |  follow  | <--+
 *           +-----------+                        +----------+ ---+  none: x stays
 *                 | agent is missing               |      ^
 *                 v                     3 times: none     | an answer in time
 *           +---------------+                      |      |
 *           |  probe, move  | <--------------------+      |
 *           +---------------+ ----------------------------+
 *
 * "In time" is a quarter of srtt after the record, at least 2 ms. While it waits the subflow sends on at x; a dead or
 * overloaded agent so costs three intervals, and plain MPCC goes on. Its action has a sign, so there is nothing to
 * probe for; where the paper's text has a fall in utility lead back to probing, ours leaves that to the agent.
 *
 * Parameters: 0 alpha, thousandths, default 900.
 *             1 beta, thousandths, default 11350.
 *             2 gamma, thousandths, default 900000.
 *             3 utility_unit, bit/s, default 1000000.
 *             4 step, bytes/s, default 125000.
 *             5 first_rate, bytes/s, default 500000.
 *             6 floor, bytes/s, default 25000.
 *             7 coupled, 0 or 1, default 1.
 */
#ifndef MP_DDPG_MPCC_H
#define MP_DDPG_MPCC_H

#include "mpcc.h"

enum {
	DDPG_SERIAL = MPCC_WORDS, /* of the latest record; 0: none yet */
	DDPG_ANSWER,   /* low 32 bits of the serial number << 32 | rate in bytes/s; written by the glue alone */
	DDPG_DEADLINE, /* of the answer, us; 0: none is awaited */
	DDPG_MISSED,   /* answers in a row that did not come in time */
	/* the record; with it go srtt_us and min_rtt_us of the subflow */
	DDPG_RATE,       /* x of the interval, bytes/s */
	DDPG_DELIVERED,  /* packets */
	DDPG_LOST,       /* packets */
	DDPG_ELAPSED_US, /* over which these were acknowledged */
	DDPG_RTT_US,     /* mean of its samples */
	DDPG_WORDS,
};

_Static_assert(DDPG_WORDS <= MP_STATE_WORDS, "DDPG-MPCC needs more words");

#define DDPG_MISSED_MAX 3
#define DDPG_LEAST_PATIENCE_US 2000

MP_INLINE void ddpg_publish(struct mp_subflow *self, mp_u64 now_us, mp_u64 rate, const struct mpcc_sample *sample)
{
	mp_u64 samples = self->state[MPCC_EARLY_SAMPLES] + self->state[MPCC_LATE_SAMPLES], patience = self->srtt_us / 4;

	if (self->state[DDPG_DEADLINE] && self->state[DDPG_MISSED] < DDPG_MISSED_MAX)
		self->state[DDPG_MISSED]++;
	self->state[DDPG_RATE] = rate;
	self->state[DDPG_DELIVERED] = sample->packets - sample->lost;
	self->state[DDPG_LOST] = sample->lost;
	self->state[DDPG_ELAPSED_US] = sample->elapsed_us;
	self->state[DDPG_RTT_US] = self->srtt_us;
	if (samples)
		self->state[DDPG_RTT_US] = (self->state[MPCC_EARLY_SUM] + self->state[MPCC_LATE_SUM]) / samples;
	self->state[DDPG_DEADLINE] = now_us + (patience > DDPG_LEAST_PATIENCE_US ? patience : DDPG_LEAST_PATIENCE_US);
	self->state[DDPG_SERIAL]++;
}

/* After an epoch: the agent steers where it is alive. */
MP_INLINE void ddpg_begin(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	if (self->state[MPCC_PHASE] != MPCC_START && self->state[DDPG_MISSED] < DDPG_MISSED_MAX)
		self->state[MPCC_PHASE] = MPCC_FOLLOW;
	if (self->state[MPCC_PHASE] != MPCC_FOLLOW)
		return;
	self->state[DDPG_DEADLINE] = 0;
	self->state[MPCC_OTHERS] = mpcc_others(c, i);
	mpcc_new_epoch(c, i, now_us);
}

MP_INLINE void ddpg_close(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	struct mpcc_sample sample = mpcc_sample(self, now_us);
	mp_u64 interval = self->state[MPCC_RECEIVING] & (MPCC_INTERVALS - 1),
	       rate = mpcc_interval_rate(c, self, interval);

	if (mpcc_tells(self, rate, &sample)) {
		ddpg_publish(self, now_us, rate, &sample);
		if (self->state[MPCC_PHASE] == MPCC_FOLLOW && !mpcc_brakes(&sample)) {
			self->state[MPCC_LAST_RATE] = rate;
			self->state[MPCC_LAST_UTILITY] =
				(mp_u64)mpcc_utility(c, rate + self->state[MPCC_OTHERS], &sample);
			return;
		}
	}
	mpcc_close(c, i, now_us, sample);
	if (!self->state[MPCC_RECEIVING])
		ddpg_begin(c, i, now_us);
}

/* The answer, held to a tenth of x. */
MP_INLINE void ddpg_follow(struct mp_subflow *self)
{
	mp_u64 answer = (mp_u32)self->state[DDPG_ANSWER], rate = self->state[MPCC_RATE], most = rate / 10;

	if (answer > rate)
		rate += answer - rate < most ? answer - rate : most;
	else
		rate -= rate - answer < most ? rate - answer : most;
	self->state[MPCC_RATE] = rate;
}

/* An answer is awaited. */
MP_INLINE void ddpg_wait(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	int following = self->state[MPCC_PHASE] == MPCC_FOLLOW;

	if (self->state[DDPG_ANSWER] >> 32 == (mp_u32)self->state[DDPG_SERIAL]) {
		self->state[DDPG_MISSED] = 0;
		if (following)
			ddpg_follow(self);
	} else if (now_us >= self->state[DDPG_DEADLINE]) {
		if (self->state[DDPG_MISSED] < DDPG_MISSED_MAX)
			self->state[DDPG_MISSED]++;
		if (following && self->state[DDPG_MISSED] == DDPG_MISSED_MAX)
			self->state[MPCC_PHASE] = MPCC_PROBE;
	} else {
		return;
	}
	self->state[DDPG_DEADLINE] = 0;
	if (!following)
		return;
	mpcc_new_epoch(c, i, now_us);
	ddpg_begin(c, i, now_us);
}

MP_INLINE void ddpg_mpcc_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_init(c, i, now_us);
}

MP_INLINE void ddpg_mpcc_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	mpcc_on_rtt(c, i, now_us);
}

MP_INLINE void ddpg_mpcc_on_interval(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	if (!self->srtt_us)
		return;
	if (self->state[DDPG_DEADLINE])
		ddpg_wait(c, i, now_us);
	if (!self->state[DDPG_DEADLINE] || self->state[MPCC_PHASE] != MPCC_FOLLOW)
		if (mpcc_watch(c, i, now_us))
			ddpg_close(c, i, now_us);
	mpcc_open_window(self);
}

MP_INLINE mp_u64 ddpg_mpcc_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	return mpcc_on_loss(c, i, now_us);
}

MP_INLINE mp_u64 ddpg_mpcc_on_undo(struct mp_connection *c, mp_u32 i)
{
	return mpcc_on_undo(c, i);
}

MP_INLINE void ddpg_mpcc_on_close(struct mp_connection *c, mp_u32 i)
{
	mpcc_on_close(c, i);
}

#endif

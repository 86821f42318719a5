/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Pilot's start-up, and its law while nobody else uses the bottleneck. */
#ifndef MP_PILOT_ALONE_H
#define MP_PILOT_ALONE_H

#include "pilot_path.h"

#define PILOT_SUSPICION 4 /* rounds that a queue outlives our cut before it is taken for that of others */
#define PILOT_STUBBORN 12 /* rounds after which a window that could not be cut has to do for the test */
#define PILOT_SOON 256    /* rounds alone: sharing again within them asks for more patience */
#define PILOT_PATIENCE_MOST 16
#define PILOT_TEST_FIRST 16 /* rounds of sharing before the first test of solitude */

/* Twice the window a round trip, as slow start. */
MP_INLINE void pilot_slow_start(struct mp_subflow *self)
{
	mp_u64 fresh = (mp_u32)(self->delivered - self->state[PILOT_ROUND_DELIVERED]);

	self->state[PILOT_WINDOW] =
		pilot_max(self->state[PILOT_WINDOW], self->state[PILOT_ROUND_WINDOW] + fresh * PILOT_PACKET);
}

MP_INLINE void pilot_go_alone(struct mp_subflow *self)
{
	self->state[PILOT_MODE] = PILOT_ALONE;
	self->state[PILOT_ALONE_ROUNDS] = 0;
	self->state[PILOT_STREAK] = 0;
	self->state[PILOT_STEP] = PILOT_PACKET;
	self->state[PILOT_QUEUED] = 0;
	self->state[PILOT_HALVED] = 0;
	self->state[PILOT_TEST] = 0;
}

MP_INLINE void pilot_go_shared(const struct mp_connection *c, struct mp_subflow *self, mp_u64 window)
{
	mp_u64 patience = 1;

	if (self->state[PILOT_ALONE_ROUNDS] < PILOT_SOON && pilot_has(c, PILOT_PATIENT))
		patience = pilot_min(2 * pilot_max(self->state[PILOT_PATIENCE], 1), PILOT_PATIENCE_MOST);
	self->state[PILOT_PATIENCE] = patience;
	self->state[PILOT_MODE] = PILOT_SHARED;
	self->state[PILOT_WINDOW] = pilot_max(window, PILOT_LEAST);
	self->state[PILOT_QUIET] = 0;
	self->state[PILOT_QUEUED] = 0;
	self->state[PILOT_SLOW_START] = 0;
	self->state[PILOT_TEST_WAIT] = 0;
	self->state[PILOT_TEST_GAP] = PILOT_TEST_FIRST;
	pilot_new_epoch(self, 0);
	pilot_reset_losses(self);
}

/* The path is full once a queue stands, the rate has grown by less than a quarter in three rounds, or a fifth is lost
 * in two. Whose queue it is the rounds that follow tell. */
MP_INLINE void pilot_startup(struct mp_subflow *self, const struct pilot_round *round)
{
	mp_u64 base_us = self->state[PILOT_BASE_US], target_us = pilot_target_us(self);
	/* a handshake, or a program with little to send, builds no queue: its RTTs tell of delayed ACKs */
	int tells = round->filled || round->delivered >= PILOT_ROUND_PACKETS;

	if (round->rate > self->state[PILOT_RATE] + self->state[PILOT_RATE] / 4) {
		self->state[PILOT_PLATEAU] = 0;
		self->state[PILOT_RATE] = round->rate;
	} else if (round->filled) {
		self->state[PILOT_PLATEAU]++;
	} else { /* it has not shown that more fits */
		self->state[PILOT_WINDOW] = self->state[PILOT_ROUND_WINDOW];
	}
	if (round->lost > 8 && round->lost * 5 > round->packets)
		self->state[PILOT_FLOODED]++;
	if (!(tells && pilot_startup_queue(self, self->state[PILOT_LEAST_US])) && !pilot_startup_block(self) &&
	    !round->ce && self->state[PILOT_PLATEAU] < 3 && self->state[PILOT_FLOODED] < 2)
		return;
	self->state[PILOT_REFERENCE] = self->state[PILOT_WINDOW];
	self->state[PILOT_WINDOW] =
		pilot_min(self->state[PILOT_WINDOW],
			  pilot_window_of(pilot_max(self->state[PILOT_RATE], round->rate), base_us + target_us));
	self->state[PILOT_FRESH] = 1;
	pilot_go_alone(self);
}

/* A queue stands that we have not drained: 1 where others share the bottleneck, and pilot with them now. */
MP_INLINE int pilot_suspect(struct mp_connection *c, mp_u32 i, const struct pilot_round *round)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 window = self->state[PILOT_WINDOW], fresh = self->state[PILOT_FRESH];

	if (!self->state[PILOT_QUEUED]++) {
		if (!fresh)
			self->state[PILOT_REFERENCE] = window;
		self->state[PILOT_QUEUED_WINDOW] = window;
		pilot_reset_losses(self);
	}
	pilot_count_losses(self, round);
	if (self->state[PILOT_QUEUED] < PILOT_SUSPICION)
		return 0;
	if (!fresh && round->window * 8 > self->state[PILOT_QUEUED_WINDOW] * 7 &&
	    self->state[PILOT_QUEUED] <= PILOT_STUBBORN)
		return 0;
	pilot_go_shared(c, self, pilot_max(self->state[PILOT_REFERENCE], window));
	self->state[PILOT_SLOW_START] = fresh; /* one TCP would still be in it */
	return 1;
}

MP_INLINE int pilot_sibling_shares(struct mp_connection *c, mp_u32 i)
{
	int shares = 0;
	mp_u32 k;

	for (k = 0; k < MP_MAX_SUBFLOWS; k++)
		shares |= k != (i & (MP_MAX_SUBFLOWS - 1)) && pilot_is_shared(&c->subflows[k]);
	return shares;
}

/*
 * More is lost while the queue stands than chance brings: it overflows. 1 where that is below the last ceiling, so that
 * somebody else has grown, or where a sibling has met others already; else the new ceiling is in `ceiling`.
 */
MP_INLINE int pilot_overflow(struct mp_connection *c, mp_u32 i, const struct pilot_round *round, mp_u64 *ceiling)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 packets = self->state[PILOT_SEEN_PACKETS], last = self->state[PILOT_CEILING], at;

	*ceiling = MP_UNKNOWN;
	if (self->state[PILOT_FRESH] || !pilot_has(c, PILOT_CEILINGS) ||
	    self->state[PILOT_SEEN_LOST] <= 3 + 3 * pilot_chance(self, packets))
		return 0;
	/* one overflow loses in several rounds */
	self->state[PILOT_SEEN_LOST] = 0;
	self->state[PILOT_SEEN_PACKETS] = packets * 8;
	at = pilot_min(self->state[PILOT_QUEUED_WINDOW], pilot_window_of(round->rate, round->rtt_us));
	self->state[PILOT_CEILING] = at;
	if (at < last - last / 8 || pilot_sibling_shares(c, i)) {
		pilot_go_shared(c, self, at / 2);
		return 1;
	}
	*ceiling = at;
	return 0;
}

/* Up to `next`: by one packet a round at first and near the ceiling, by twice as many every other round while nothing
 * queues. */
MP_INLINE mp_u64 pilot_grown(struct mp_subflow *self, mp_u64 next)
{
	mp_u64 window = self->state[PILOT_WINDOW], ceiling = self->state[PILOT_CEILING], near = ceiling - ceiling / 8;
	mp_u64 streak = ++self->state[PILOT_STREAK], step;

	if (streak >= 4 && !(streak & 1))
		self->state[PILOT_STEP] = pilot_min(2 * self->state[PILOT_STEP], window / 4);
	if (window >= near && window < ceiling)
		self->state[PILOT_STEP] = PILOT_PACKET;
	step = self->state[PILOT_STEP];
	if (window < near)
		step = pilot_min(step, near - window);
	return pilot_min(next + PILOT_PACKET, window + pilot_max(step, PILOT_PACKET));
}

/*
 * What the largest rate fills, and an eighth more, which tells whether there is more by now: as much loss does not stop
 * growth. A larger window delivers no more: its queue is too short for delay to show, and overflows, or the subflow has
 * too little to send. It would lose packets, or make the scheduler believe that the path is faster than it is.
 */
MP_INLINE mp_u64 pilot_most(const struct mp_subflow *self, mp_u64 rtt_us)
{
	mp_u64 most = pilot_window_of(self->state[PILOT_PEAK], rtt_us);

	return most + most / 8 + 2 * PILOT_PACKET;
}

MP_INLINE void pilot_alone(struct mp_connection *c, mp_u32 i, const struct pilot_round *round)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 base_us = self->state[PILOT_BASE_US], target_us = pilot_target_us(self);
	mp_u64 window = self->state[PILOT_WINDOW], next, ceiling = MP_UNKNOWN;
	mp_u64 limit_us = target_us * 3 / 2;
	int queue;

	self->state[PILOT_ALONE_ROUNDS]++;
	/*
	 * Losses make any queue suspect. Jitter delays the packets of a full path by more than those of an idle one,
	 * which set base and noise: with much of it the threshold is passed without a queue.
	 */
	if (self->state[PILOT_LOSSY] && !pilot_is_noisy(self))
		limit_us = pilot_min(limit_us, pilot_threshold_us(self));
	queue = round->rtt_us > base_us + limit_us;
	next = window * (base_us + (queue ? 0 : target_us)) / round->rtt_us;

	/* a sixth lost and more: what does not arrive need not be sent, whatever the reason */
	self->state[PILOT_OVERLOAD] += round->lost * 4096 / round->packets - self->state[PILOT_OVERLOAD] / 16;
	if (self->state[PILOT_OVERLOAD] > 16 * 4096 / 6 && round->lost * 6 > round->packets)
		next = pilot_min(next, window * round->delivered / round->packets);
	if (round->ce)
		next = pilot_min(next, window * 4 / 5);
	if (queue) {
		int shared = pilot_suspect(c, i, round) || pilot_overflow(c, i, round, &ceiling);

		if (shared)
			return;
		if (ceiling != MP_UNKNOWN)
			next = pilot_min(next, ceiling - ceiling / 8);
	} else {
		self->state[PILOT_QUEUED] = 0;
	}

	if (next < window) {
		self->state[PILOT_STREAK] = 0;
		self->state[PILOT_STEP] = PILOT_PACKET;
		window = next + PILOT_PACKET / 2;
	} else {
		self->state[PILOT_FRESH] = 0;
		if (round->filled)
			window = pilot_grown(self, next);
	}
	window = pilot_min(window, pilot_most(self, base_us + target_us));
	self->state[PILOT_WINDOW] = pilot_max(window, PILOT_LEAST);
}

#endif

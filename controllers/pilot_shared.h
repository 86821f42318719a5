/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Pilot's law in a bottleneck that others use too: one TCP, and a watch for the day that they have gone. */
#ifndef MP_PILOT_SHARED_H
#define MP_PILOT_SHARED_H

#include "pilot_alone.h"

#define PILOT_STABLE_ROUNDS 32
#define PILOT_TEST_ROUNDS 3
#define PILOT_ALONE_AGAIN 50 /* part of the bottleneck, in 1/256, up to which others do not count: a fifth */

MP_INLINE mp_u64 pilot_rate_of(mp_u64 cwnd, mp_u64 srtt_us)
{
	return (cwnd << 20) / (srtt_us | 1);
}

/*
 * Growth in 1/256 packets a round trip. One for a lone subflow; with siblings 5/4 of its part of the rate: subflows in
 * one droptail queue lose at the same time, and then parts that add up to one make one TCP; independent losses ask for
 * less, burstier competing flows for more. A sibling that is alone in its bottleneck counts for no more than this
 * subflow.
 */
MP_INLINE mp_u64 pilot_growth(struct mp_connection *c, mp_u32 i)
{
	const struct mp_subflow *self = mp_self(c, i);
	mp_u64 own = pilot_rate_of(self->cwnd, self->srtt_us), total = own;
	mp_u32 k;

	if (!pilot_has(c, PILOT_COUPLING))
		return PILOT_PACKET;
	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		const struct mp_subflow *sibling = &c->subflows[k];
		struct mp_share share = mp_share_of(self, sibling);
		mp_u64 rate = pilot_rate_of(share.cwnd, share.srtt_us);

		if (k != (i & (MP_MAX_SUBFLOWS - 1)))
			total += pilot_is_shared(sibling) ? rate : pilot_min(rate, own);
	}
	if (total == own)
		return PILOT_PACKET;
	return pilot_min(PILOT_PACKET, own * PILOT_PACKET / pilot_max(total, 1) * 5 / 4 + 1);
}

/*
 * A queue of others rises and falls. An RTT that stands still for so long is that of the path. 1: the path is longer by
 * half, which has passed for a queue of others.
 */
MP_INLINE int pilot_settle_base(struct mp_subflow *self)
{
	mp_u64 least_us = self->state[PILOT_NEXT_BASE_US], base_us = self->state[PILOT_BASE_US];
	int is_longer = 0;

	if (++self->state[PILOT_BASE_SINCE_US] < PILOT_STABLE_ROUNDS)
		return 0;
	if (self->state[PILOT_EPOCH_MOST_US] <= least_us + PILOT_CLOCK_US + least_us / 64) {
		self->state[PILOT_BASE_US] = least_us;
		is_longer = least_us > base_us + base_us / 2;
	}
	pilot_new_epoch(self, 0);
	return is_longer;
}

/* Ends shared mode. The epoch of the base begins anew. */
MP_INLINE void pilot_leave_shared(struct mp_subflow *self)
{
	self->state[PILOT_BASE_SINCE_US] = self->state[PILOT_ROUND_SINCE_US];
	pilot_go_alone(self);
}

/* The window was lowered for some rounds: if the rate did not follow, the queue is our own. */
MP_INLINE void pilot_end_test(struct mp_subflow *self, const struct pilot_round *round)
{
	if (round->filled && pilot_others(self->state[PILOT_TEST_RATE], round->rate, self->state[PILOT_TEST_WINDOW],
					  self->state[PILOT_WINDOW]) < PILOT_ALONE_AGAIN) {
		self->state[PILOT_WINDOW] =
			pilot_window_of(round->rate, self->state[PILOT_BASE_US] + pilot_target_us(self));
		pilot_leave_shared(self);
		return;
	}
	self->state[PILOT_WINDOW] = self->state[PILOT_TEST_WINDOW];
	self->state[PILOT_TEST_WAIT] = 0;
}

MP_INLINE void pilot_begin_test(struct mp_subflow *self, const struct pilot_round *round)
{
	self->state[PILOT_TEST] = PILOT_TEST_ROUNDS;
	self->state[PILOT_TEST_GAP] *= 2;
	self->state[PILOT_TEST_RATE] = (round->rate + self->state[PILOT_RATE]) / 2;
	self->state[PILOT_TEST_WINDOW] = self->state[PILOT_WINDOW];
	self->state[PILOT_WINDOW] -= self->state[PILOT_WINDOW] / 4;
}

/* Losses beyond chance are those of a queue that overflows. */
MP_INLINE void pilot_watch_losses(struct mp_subflow *self, const struct pilot_round *round)
{
	pilot_count_losses(self, round);
	if (self->state[PILOT_SEEN_LOST] > 1 + 2 * pilot_chance(self, self->state[PILOT_SEEN_PACKETS])) {
		self->state[PILOT_QUIET] = 0;
		pilot_reset_losses(self);
	}
}

MP_INLINE void pilot_shared(struct mp_connection *c, mp_u32 i, const struct pilot_round *round)
{
	struct mp_subflow *self = mp_self(c, i);
	int queue = round->rtt_us > self->state[PILOT_BASE_US] + pilot_target_us(self);

	pilot_watch_losses(self, round);
	if (pilot_settle_base(self)) {
		pilot_leave_shared(self);
		return;
	}
	if (queue)
		self->state[PILOT_QUIET] = 0;
	if (self->state[PILOT_HALVED]) {
		self->state[PILOT_HALVED] = 0;
		self->state[PILOT_TEST] = 0;
		self->state[PILOT_TEST_WAIT] = 0;
		return;
	}
	if (self->state[PILOT_TEST]) {
		if (!--self->state[PILOT_TEST])
			pilot_end_test(self, round);
		return;
	}
	if (round->filled && self->state[PILOT_SLOW_START])
		self->state[PILOT_WINDOW] += round->delivered * PILOT_PACKET;
	else if (round->filled) /* a round of a small window is several round trips */
		self->state[PILOT_WINDOW] +=
			pilot_growth(c, i) * pilot_max(1, round->delivered * PILOT_PACKET / round->window);
	if (!queue) {
		if (!self->state[PILOT_QUIET]++)
			self->state[PILOT_QUIET_WINDOW] = self->state[PILOT_WINDOW] / PILOT_PACKET;
		/* one TCP of this window would have come back from a loss by now */
		if (self->state[PILOT_QUIET] >
		    self->state[PILOT_PATIENCE] * pilot_max(16, 2 * self->state[PILOT_QUIET_WINDOW]))
			pilot_leave_shared(self);
	} else if (++self->state[PILOT_TEST_WAIT] > self->state[PILOT_TEST_GAP] && round->filled &&
		   !self->state[PILOT_SLOW_START] && pilot_has(c, PILOT_SOLITUDE)) {
		pilot_begin_test(self, round);
	}
	self->state[PILOT_RATE] = round->rate;
}

#endif

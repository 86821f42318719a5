/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Pilot: as loss-proof as BBR while it is alone in a bottleneck, one TCP while it is not. Ours; docs/pilot.md explains
 * it and has the measurements.
 *
 * Each subflow holds one window and decides once a round trip which of two laws moves it:
 *
 *             the path is full: a queue, no more growth, or heavy loss
 *   +---------+                   +---------+  others hold a queue that our cut did not drain, or   +----------+
 *   | startup | ----------------> |  alone  | ---------- overflow came below the last one --------> |  shared  |
 *   +---------+                   +---------+                                                       +----------+
 *     w += acked                    ^   delay sets w, losses do not                                   AIMD, every |
 *                                   |                                                                 loss counts |
 *                                   +------- no sign of others for as long as one TCP needs to come back, or -----+
 *                                            a cut of the window did not lower the rate: the queue was our own
 *
 * alone (pilot_alone.h): w = w * (base + target) / rtt, rtt the least of a round, base the least of 10 s. It takes what
 * nobody uses and gives way to any queue that others build.
 * shared (pilot_shared.h): the window grows by one packet a round trip, less where siblings share too, and halves at a
 * loss or mark.
 *
 * What tells that we are not alone (pilot_path.h measures it):
 *  - a queue that outlives a cut of our own window. Alone the cut drains it; beside others they refill it.
 *  - the window at which the queue overflows. Alone it is the same each time; beside others they grow into what we
 *    left. Losses count as overflow where they are more than chance brings while there is no queue.
 *
 * Data that the receiver has no room for: pilot_window.h keeps a subflow from sending them.
 *
 * ECN: a mark takes a fifth of the window (RFC 8511) while alone, half of it while shared.
 * RTO: while the stack recovers from a timeout the window grows as in slow start, by one packet an ACK.
 *
 * Parameters: 0 without, bits, default 0: mechanisms that are left out, for ablation. 1 ceiling, 2 noise,
 *             4 coupling, 8 patience, 16 solitude, 32 draining.
 *
 * Prior art: FAST and Compound TCP (delay law), Copa and Nimbus (two modes, and who is elastic), PCC (experiments on
 * one's own rate), LIA (coupling), BBR (start-up, rounds).
 */
#ifndef MP_PILOT_H
#define MP_PILOT_H

#include "pilot_alone.h"
#include "pilot_shared.h"
#include "pilot_window.h"

#define MP_DATA_LEVEL

/*
 * The stock scheduler takes the subflow that has the least queued for its rate, and waits where that one's buffer is
 * full. The buffer of a short path therefore has to last for as long as what a longer path holds while it recovers from
 * losses: two of its round trips.
 */
#define MP_SEND_BUFFER_WINDOWS 8

#define PILOT_STARTUP_GAIN 200 /* percent of w/srtt, as Linux paces slow start and congestion avoidance */
#define PILOT_GAIN 120

MP_INLINE void pilot_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 rtt_us = self->srtt_us ? self->srtt_us : 1000;
	mp_u32 k;

	for (k = 0; k < MP_STATE_WORDS; k++)
		self->state[k] = 0;
	self->state[PILOT_MODE] = PILOT_STARTUP;
	self->state[PILOT_WINDOW] = self->cwnd * PILOT_PACKET;
	self->state[PILOT_BASE_US] = MP_UNKNOWN;
	self->state[PILOT_NEXT_BASE_US] = MP_UNKNOWN;
	self->state[PILOT_LAST_US] = MP_UNKNOWN;
	self->state[PILOT_LAST_BUT_ONE_US] = MP_UNKNOWN;
	self->state[PILOT_BASE_SINCE_US] = now_us;
	self->state[PILOT_BLOCK_LEAST_US] = MP_UNKNOWN;
	self->state[PILOT_BLOCK_DELIVERED] = self->delivered;
	pilot_new_round(self, now_us);
	self->pacing_rate = self->cwnd * self->mss * (PILOT_STARTUP_GAIN * 10000) / rtt_us;
}

MP_INLINE void pilot_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	pilot_sample_rtt(c, mp_self(c, i), now_us);
}

MP_INLINE void pilot_end_round(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	struct pilot_round round = pilot_measure(c, self, now_us);

	if (round.rtt_us == MP_UNKNOWN)
		;
	else if (self->state[PILOT_MODE] == PILOT_STARTUP)
		pilot_startup(self, &round);
	else if (self->state[PILOT_MODE] == PILOT_ALONE)
		pilot_alone(c, i, &round);
	else if (self->state[PILOT_MODE] == PILOT_SHARED)
		pilot_shared(c, i, &round);
	pilot_new_round(self, now_us);
}

MP_INLINE void pilot_apply(const struct mp_connection *c, struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 window = self->state[PILOT_WINDOW], before = self->cwnd;
	mp_u64 gain = self->state[PILOT_MODE] == PILOT_STARTUP ? PILOT_STARTUP_GAIN : PILOT_GAIN;

	self->pacing_rate = window * self->mss / PILOT_PACKET * (gain * 10000) / self->srtt_us;
	self->cwnd = pilot_admitted(c, self, window / PILOT_PACKET, now_us);
	if (self->phase == MP_TIMEOUT)
		self->cwnd = pilot_min(self->cwnd, pilot_max(before + 1, self->in_flight + MP_MIN_CWND));
}

MP_INLINE void pilot_on_interval(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	if (!self->srtt_us || self->state[PILOT_BASE_US] == MP_UNKNOWN)
		return;
	pilot_note_edge(c, self, now_us);
	if (self->state[PILOT_MODE] == PILOT_STARTUP && !self->app_limited)
		pilot_slow_start(self);
	if (pilot_round_is_over(self, now_us))
		pilot_end_round(c, i, now_us);
	pilot_apply(c, self, now_us);
}

/* A loss or a mark. Alone it has no say here: pilot_alone() weighs the losses and marks of a round. */
MP_INLINE mp_u64 pilot_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	(void)now_us;
	if (self->state[PILOT_MODE] == PILOT_SHARED && !self->state[PILOT_HALVED]) {
		self->state[PILOT_WINDOW] = pilot_max(self->state[PILOT_WINDOW] / 2, MP_MIN_CWND * PILOT_PACKET);
		self->state[PILOT_HALVED] = 1;
		self->state[PILOT_SLOW_START] = 0;
	}
	return mp_reduce(self, self->state[PILOT_WINDOW] / PILOT_PACKET);
}

MP_INLINE mp_u64 pilot_on_undo(struct mp_connection *c, mp_u32 i)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 cwnd = mp_undo(self);

	if (self->state[PILOT_MODE] == PILOT_SHARED)
		self->state[PILOT_WINDOW] = pilot_max(self->state[PILOT_WINDOW], cwnd * PILOT_PACKET);
	return cwnd;
}

MP_INLINE void pilot_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

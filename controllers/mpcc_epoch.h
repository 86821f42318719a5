/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* The words that MPCC keeps, and the intervals of an epoch with the rates that they are sent at; the controller is in
 * mpcc.h. */
#ifndef MP_MPCC_EPOCH_H
#define MP_MPCC_EPOCH_H

#include "mp_window.h"
#include "mpcc_utility.h"

enum { MPCC_START, MPCC_PROBE, MPCC_MOVE, MPCC_FOLLOW /* ddpg_mpcc.h alone */ };

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

#define MPCC_LEAST_PACKETS 10 /* in an interval; fewer say nothing of loss */

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

/* Sends at the rate of the interval under way. */
MP_INLINE void mpcc_send(const struct mp_connection *c, struct mp_subflow *self)
{
	mp_u64 sending = self->state[MPCC_SENDING];

	self->pacing_rate =
		mpcc_interval_rate(c, self, sending < mpcc_epoch_intervals(self) ? sending : MPCC_INTERVALS);
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
	mpcc_send(c, self);
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

#endif

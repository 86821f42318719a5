/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * How much pilot may send without overrunning the receive window of the connection.
 *
 * Linux adds the window that a subflow announced last to any data-level ACK, and a duplicate ACK leaves that window as
 * it was: while data wait out of order, the sum passes what the receiver admits (docs/explanation/receive-window.md).
 * Whatever is sent beyond is dropped, and comes again by data-level timeouts alone. So pilot keeps an end of the window
 * of its own, and a subflow whose next segment is near it sends next to nothing. The data that the receiver waits for
 * lie at the window's start: the subflow that has them is not slowed down.
 */
#ifndef MP_PILOT_WINDOW_H
#define MP_PILOT_WINDOW_H

#include "pilot_path.h"

#define PILOT_MARGIN 16        /* part of the window that is kept free for what is sent while waiting */
#define PILOT_TICK 2           /* packets a round trip while waiting: their ACKs tell that the window has moved on */
#define PILOT_STANDS_US 200000 /* TCP_RTO_MIN */

/*
 * How old a data-level acknowledgement has to be for this ACK to know of it, too: ACKs of a shorter round trip come
 * sooner, and what they acknowledged does not go with the window that this one announces. us.
 */
MP_INLINE mp_u64 pilot_lag_us(const struct mp_connection *c, const struct mp_subflow *self)
{
	mp_u64 least_us = self->min_rtt_us;
	mp_u32 k;

	for (k = 0; k < MP_MAX_SUBFLOWS; k++)
		if (MP_READ(c->subflows[k].owner) && MP_READ(c->subflows[k].state[PILOT_EDGE]))
			least_us = pilot_min(least_us, MP_READ(c->subflows[k].min_rtt_us));
	return self->min_rtt_us - least_us;
}

/* The end of the window that the latest ACK announces. All sums are modulo 2^64. */
MP_INLINE void pilot_note_edge(const struct mp_connection *c, struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 lag_us = pilot_lag_us(c, self), edge;

	if (!self->data_window)
		return;
	if (self->state[PILOT_SEEN_UNA] != self->data_una) {
		self->state[PILOT_SEEN_UNA] = self->data_una;
		self->state[PILOT_STANDS_SINCE_US] = now_us;
	}
	if (!self->state[PILOT_UNA_SINCE_US])
		self->state[PILOT_UNA] = self->data_una;
	if (now_us - self->state[PILOT_UNA_SINCE_US] >= lag_us) {
		self->state[PILOT_OLD_UNA] = self->state[PILOT_UNA];
		self->state[PILOT_UNA] = self->data_una;
		self->state[PILOT_UNA_SINCE_US] = now_us;
	}
	edge = (lag_us ? self->state[PILOT_OLD_UNA] : self->data_una) + self->data_window;
	if (!self->state[PILOT_EDGE] || (mp_s64)(edge - self->state[PILOT_EDGE]) > 0)
		self->state[PILOT_EDGE] = edge;
}

/*
 * No subflow has filled the hole that the receiver waits for in all this time: its data were dropped, and a data-level
 * timeout has to send them. It sends over a subflow that has nothing left to send (mptcp_subflow_get_retrans), so that
 * a subflow that waits, a packet now and then, keeps the hole open.
 */
MP_INLINE int pilot_stands(const struct mp_connection *c, const struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 all_us = 0; /* more than the longest, and without a branch */
	mp_u32 k;

	for (k = 0; k < MP_MAX_SUBFLOWS; k++)
		all_us += MP_READ(c->subflows[k].srtt_us);
	return now_us - self->state[PILOT_STANDS_SINCE_US] > PILOT_STANDS_US + 2 * all_us;
}

/* The window, as far as the peer's admits it. */
MP_INLINE mp_u64 pilot_admitted(const struct mp_connection *c, const struct mp_subflow *self, mp_u64 cwnd,
				mp_u64 now_us)
{
	mp_u64 edge = self->state[PILOT_EDGE], left;
	mp_s64 room;
	mp_u32 k, subflows = 0;

	if (!edge || pilot_stands(c, self, now_us))
		return cwnd;
	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		mp_u64 other = MP_READ(c->subflows[k].state[PILOT_EDGE]);

		if (!MP_READ(c->subflows[k].owner) || !other)
			continue;
		subflows++;
		if ((mp_s64)(other - edge) > 0)
			edge = other;
	}
	/* The stack has the same end, and stops there. With more than two subflows it moves too soon too often. */
	if ((mp_s64)(self->data_end - edge) <= 0 && subflows <= 2)
		return cwnd;
	left = edge - self->data_next;
	room = (mp_s64)(left - (edge - self->data_una) / PILOT_MARGIN);
	if (room > 0)
		return pilot_min(cwnd, pilot_max(self->unsacked + room / (self->mss | 1), PILOT_TICK));
	return pilot_min(cwnd, pilot_max(self->unsacked, (mp_s64)left > 0 ? PILOT_TICK : 1));
}

#endif

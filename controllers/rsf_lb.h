/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * RSF-LB, the loss-based controller of the rent-seeking framework, equation 2 of its paper.
 *
 *   per acknowledged packet  w += 1/w * min( 1, (m - x)/x )
 *   on a loss event          w -= w/2
 *
 * m: loss budget; x: lost packets per second (the paper's lambda*l), sampled over at least one round trip and averaged
 * over `memory` of them, but over the time of RSF_LB_LOSSES losses at the budget at least. Few losses fall into one
 * round trip (at 2 % and a window of 8 one in six has any), so the average must be much longer than that or chance
 * alone would cross m/2; over 16 round trips of less than 31 ms a single loss would. While the average is below m/2
 * this *is* Reno on each subflow. Slow start's losses and chance carry the average above m/2 where x is just below it:
 * at 1.9 losses/s of m/2 = 2 a transfer has 0.87 of Reno's goodput (docs/notes/2026-11-23-reproductions.md).
 *
 * Parameters: 0 loss_budget, packets/s, default 4: m.
 *             1 memory, round trips, default 16.
 */
#ifndef MP_RSF_LB_H
#define MP_RSF_LB_H

#include "mp_window.h"

enum { RSF_LB_BUDGET, RSF_LB_MEMORY };

enum {
	RSF_LB_RATE,  /* x, in 2^-16 packets/s */
	RSF_LB_START, /* of the interval that is being sampled, us */
	RSF_LB_LOST,  /* `lost` at that time */
};

#define RSF_LB_SCALE 16
#define RSF_LB_LOSSES 10ULL /* a single loss moves the average by a tenth of the budget at most */

MP_INLINE void rsf_lb_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	self->state[RSF_LB_RATE] = 0;
	self->state[RSF_LB_START] = now_us;
	self->state[RSF_LB_LOST] = self->lost;
}

MP_INLINE void rsf_lb_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 elapsed = now_us - self->state[RSF_LB_START], rate = self->state[RSF_LB_RATE];
	mp_u64 memory = self->srtt_us * c->parameters[RSF_LB_MEMORY];
	mp_u64 least = RSF_LB_LOSSES * 1000000 / c->parameters[RSF_LB_BUDGET];
	mp_u64 sample, distance;

	if (memory < least)
		memory = least;
	if (!elapsed || elapsed < self->srtt_us)
		return;
	/* kernel counters are 32 bits wide */
	sample = mp_fixed(mp_div(mp_mul(mp_real((mp_u32)(self->lost - self->state[RSF_LB_LOST])), mp_real(1000000)),
				 mp_real(elapsed)),
			  RSF_LB_SCALE);
	distance = sample > rate ? sample - rate : rate - sample;
	if (elapsed < memory)
		distance = mp_fixed(mp_div(mp_mul(mp_real(distance), mp_real(elapsed)), mp_real(memory)), 0);
	self->state[RSF_LB_RATE] = sample > rate ? rate + distance : rate - distance;
	self->state[RSF_LB_START] = now_us;
	self->state[RSF_LB_LOST] = self->lost;
}

MP_INLINE void rsf_lb_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack);
	mp_u64 budget = c->parameters[RSF_LB_BUDGET] << RSF_LB_SCALE, rate = self->state[RSF_LB_RATE];

	if (acked)
		mp_grow(self, mp_scaled_growth(self, acked, budget, rate, rate));
}

MP_INLINE mp_u64 rsf_lb_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	(void)now_us;
	return mp_halve(mp_self(c, i));
}

MP_INLINE mp_u64 rsf_lb_on_undo(struct mp_connection *c, mp_u32 i)
{
	return mp_undo(mp_self(c, i));
}

MP_INLINE void rsf_lb_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

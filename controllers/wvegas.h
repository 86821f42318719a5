/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * wVegas, weighted Vegas. Cao, Xu and Fu, "Delay-based congestion control for multipath TCP", ICNP 2012; numbers as in
 * the mptcp.org kernel.
 *
 * Once per round trip, from its mean RTT r and the base b (lifetime minimum), with diff = w(r - b)/r, the packets that
 * this subflow keeps in queues:
 *   slow start: if diff > gamma, leave it with w = min( w, w*b/r + 1 )
 *   else:       if diff >= alpha, alpha = max( 2, total * rate_i / sum_k rate_k ), rate = w/r
 *               w += 1 below alpha, w -= 1 above
 *   drain:      for the queueing delay q = r - b > 0, if q >= 2 * (its minimum since the last drain), w *= b/(2r)
 * With at most two RTT samples in a round trip, and in recovery: Reno. On a loss event w -= w/2.
 *
 * The drain is sharp: a queue that grows from one packet to two has doubled. The windows rest only where a queue stood
 * when they came; a subflow that fills an empty queue empties it again and again.
 *
 * Parameters: 0 initial_alpha, packets, default 2.
 *             1 total_alpha, packets, default 10: what the connection keeps in queues over all its subflows.
 *             2 gamma, packets, default 1.
 *
 * Where the mptcp.org kernel differs: it ends rounds by sequence number, we by time: an RTT sample tells when its
 * packet was sent. Its Reno rounds count the last ACK alone, ours all of the round. It grows a window that nobody
 * fills, and it adds 1 us to every sample.
 */
#ifndef MP_WVEGAS_H
#define MP_WVEGAS_H

#include "mp_window.h"

enum { WVEGAS_INITIAL_ALPHA, WVEGAS_TOTAL_ALPHA, WVEGAS_GAMMA };

enum {
	WVEGAS_ALPHA, /* packets to keep in queues */
	WVEGAS_RATE,  /* at the last change of alpha, 2^-38 packets/us; siblings read it */
	WVEGAS_START, /* of this round, us */
	WVEGAS_SUM,   /* of its RTT samples, us */
	WVEGAS_SAMPLES,
	WVEGAS_ACKED,    /* packets acknowledged in it while the window was the limit */
	WVEGAS_QUEUE,    /* least queueing delay of a round since the last drain, us; 0: none yet */
	WVEGAS_RECOVERY, /* 1: from a loss until a packet sent after it is acknowledged */
};

#define WVEGAS_RATE_BITS 38
#define WVEGAS_LEAST_ALPHA 2

MP_INLINE void wvegas_new_round(struct mp_subflow *self, mp_u64 now_us)
{
	self->state[WVEGAS_START] = now_us;
	self->state[WVEGAS_SUM] = 0;
	self->state[WVEGAS_SAMPLES] = 0;
	self->state[WVEGAS_ACKED] = 0;
}

/* Forgets all but the base, as after each recovery. */
MP_INLINE void wvegas_init(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	wvegas_new_round(self, now_us);
	self->state[WVEGAS_ALPHA] = c->parameters[WVEGAS_INITIAL_ALPHA];
	self->state[WVEGAS_RATE] = 0;
	self->state[WVEGAS_QUEUE] = 0;
	self->state[WVEGAS_RECOVERY] = 0;
}

MP_INLINE void wvegas_on_rtt(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	(void)now_us;
	self->state[WVEGAS_SUM] += self->rtt_us;
	self->state[WVEGAS_SAMPLES]++;
}

/* This subflow's part of total_alpha: its rate's part of the connection's. */
MP_INLINE mp_u64 wvegas_alpha(struct mp_connection *c, mp_u32 i)
{
	const struct mp_subflow *self = mp_self(c, i);
	struct mp_real total = MP_REAL_ZERO, share;
	mp_u64 alpha;
	mp_u32 k;

	for (k = 0; k < MP_MAX_SUBFLOWS; k++) {
		const struct mp_subflow *sibling = &c->subflows[k];

		if (mp_share_of(self, sibling).cwnd)
			total = mp_add(total, mp_real(MP_READ(sibling->state[WVEGAS_RATE])));
	}
	share = mp_div(mp_real(self->state[WVEGAS_RATE]), total); /* first, so that a lone subflow gets exactly all */
	alpha = mp_fixed(mp_mul(mp_real(c->parameters[WVEGAS_TOTAL_ALPHA]), share), 0);
	return alpha > WVEGAS_LEAST_ALPHA ? alpha : WVEGAS_LEAST_ALPHA;
}

/* a*b/by, rounded down */
MP_INLINE mp_u64 wvegas_ratio(mp_u64 a, mp_u64 b, mp_u64 by)
{
	return a * b / (by + !by);
}

/* The end of a round whose samples had the mean `rtt`. */
MP_INLINE void wvegas_adjust(struct mp_connection *c, mp_u32 i, mp_u64 rtt, int limited)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 base = self->min_rtt_us < rtt ? self->min_rtt_us : rtt, queue = rtt - base;
	mp_u64 cwnd = self->cwnd, diff = wvegas_ratio(cwnd, queue, rtt);

	if (diff >= self->state[WVEGAS_ALPHA]) {
		self->state[WVEGAS_RATE] = mp_fixed(mp_div(mp_real(cwnd), mp_real(rtt)), WVEGAS_RATE_BITS);
		self->state[WVEGAS_ALPHA] = wvegas_alpha(c, i);
	}
	if (diff > self->state[WVEGAS_ALPHA]) {
		cwnd--;
		self->ssthresh = self->ssthresh < cwnd ? self->ssthresh : cwnd; /* not back into slow start */
	} else if (diff < self->state[WVEGAS_ALPHA] && limited) {
		cwnd++;
	}

	if (queue && (!self->state[WVEGAS_QUEUE] || queue < self->state[WVEGAS_QUEUE]))
		self->state[WVEGAS_QUEUE] = queue;
	if (queue && queue >= 2 * self->state[WVEGAS_QUEUE]) {
		cwnd = wvegas_ratio(cwnd, base, 2 * rtt);
		self->state[WVEGAS_QUEUE] = 0;
	}
	/* from a drain slow start leads back: tcp_current_ssthresh */
	cwnd = cwnd > MP_MIN_CWND ? cwnd : MP_MIN_CWND;
	if (self->ssthresh < cwnd - cwnd / 4)
		self->ssthresh = cwnd - cwnd / 4;
	self->cwnd = cwnd;
}

/* Slow start at the end of a round: leave it once packets queue up. */
MP_INLINE void wvegas_slow_start(struct mp_connection *c, mp_u32 i, mp_u64 rtt, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 base = self->min_rtt_us < rtt ? self->min_rtt_us : rtt, target;

	if (wvegas_ratio(self->cwnd, rtt - base, rtt) <= c->parameters[WVEGAS_GAMMA]) {
		mp_slow_start(self, ack);
		return;
	}
	target = wvegas_ratio(self->cwnd, base, rtt) + 1;
	if (target < self->cwnd)
		self->cwnd = target;
	if (self->cwnd < MP_MIN_CWND)
		self->cwnd = MP_MIN_CWND;
	if (self->ssthresh > self->cwnd - 1)
		self->ssthresh = self->cwnd > MP_MIN_CWND ? self->cwnd - 1 : MP_MIN_CWND;
}

MP_INLINE void wvegas_reno(struct mp_subflow *self, mp_u64 acked)
{
	mp_grow(self, (mp_s64)mp_reno_growth(self, acked));
}

MP_INLINE void wvegas_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	int limited = mp_cwnd_limited(self, ack), in_slow_start = self->cwnd < self->ssthresh;

	if (ack->now_us < self->state[WVEGAS_START] + self->rtt_us) {
		/* what this ACK confirms was sent before the round began: the round goes on */
		if (self->state[WVEGAS_RECOVERY])
			wvegas_reno(self, mp_slow_start(self, ack));
		else if (in_slow_start)
			mp_slow_start(self, ack);
		else if (limited)
			self->state[WVEGAS_ACKED] += ack->acked;
		return;
	}

	if (self->state[WVEGAS_RECOVERY]) {
		wvegas_reno(self, mp_slow_start(self, ack));
		wvegas_init(c, i, ack->now_us);
		return;
	}
	if (self->state[WVEGAS_SAMPLES] <= 2) {
		wvegas_reno(self, mp_slow_start(self, ack) + self->state[WVEGAS_ACKED]);
	} else if (in_slow_start) {
		wvegas_slow_start(c, i, self->state[WVEGAS_SUM] / self->state[WVEGAS_SAMPLES], ack);
	} else {
		wvegas_adjust(c, i, self->state[WVEGAS_SUM] / self->state[WVEGAS_SAMPLES], limited);
	}
	wvegas_new_round(self, ack->now_us);
}

MP_INLINE mp_u64 wvegas_on_loss(struct mp_connection *c, mp_u32 i, mp_u64 now_us)
{
	struct mp_subflow *self = mp_self(c, i);

	/* the round that begins here is over when recovery is */
	wvegas_new_round(self, now_us);
	self->state[WVEGAS_RECOVERY] = 1;
	return mp_halve(self);
}

MP_INLINE mp_u64 wvegas_on_undo(struct mp_connection *c, mp_u32 i)
{
	struct mp_subflow *self = mp_self(c, i);

	self->state[WVEGAS_RECOVERY] = 0;
	return mp_undo(self);
}

MP_INLINE void wvegas_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif

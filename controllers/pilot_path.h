/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* What pilot keeps of a subflow, and what it measures of the path in a round. */
#ifndef MP_PILOT_PATH_H
#define MP_PILOT_PATH_H

#include "mp_window.h"

/* PILOT_DRAINING: alone, at the end of an epoch */
enum { PILOT_STARTUP, PILOT_ALONE, PILOT_SHARED, PILOT_DRAINING };

/* Bits of parameter 0. */
enum {
	PILOT_CEILINGS = 1,  /* overflow below the last ceiling shows others */
	PILOT_JITTER = 2,    /* delay within what varies anyway is no queue */
	PILOT_COUPLING = 4,  /* siblings that share too slow growth down */
	PILOT_PATIENT = 8,   /* a second stay in shared mode lasts longer */
	PILOT_SOLITUDE = 16, /* shared mode tests whether the queue is its own */
	PILOT_DRAINS = 32,   /* the queue is drained before a new base */
};

/* Windows in 1/256 packets, rates in packets per 2^20 us. */
enum {
	PILOT_MODE,
	PILOT_WINDOW,

	/* the round */
	PILOT_ROUND_SINCE_US,
	PILOT_ROUND_DELIVERED,
	PILOT_ROUND_LOST,
	PILOT_ROUND_CE,
	PILOT_ROUND_WINDOW,
	PILOT_LEAST_US, /* RTT */
	PILOT_MOST_US,

	/* the path */
	PILOT_BASE_US,
	PILOT_NEXT_BASE_US,  /* least RTT of this epoch */
	PILOT_BASE_SINCE_US, /* begin of the epoch, alone; rounds of it, shared */
	PILOT_EPOCH_MOST_US, /* largest least RTT of its rounds */
	PILOT_NOISE_US,      /* how far RTTs within a round lie apart when they do least */
	PILOT_LAST_US,       /* least RTTs of the two rounds before */
	PILOT_LAST_BUT_ONE_US,
	PILOT_PEAK,      /* largest rate, fading by 1/256 a round that used its window */
	PILOT_CALM_LOST, /* of rounds without a queue, fading by 1/32: lost, and all packets */
	PILOT_CALM_PACKETS,
	PILOT_LOSSY, /* rounds that a loss is remembered for */
	PILOT_RATE,  /* of the last round; in start-up the best */

	/* the receive window of the connection: data sequence numbers, bytes */
	PILOT_UNA, /* acknowledged when it was noted last, the time of that, and when it was noted before */
	PILOT_UNA_SINCE_US,
	PILOT_OLD_UNA,
	PILOT_EDGE,     /* end of the window that ACKs of this subflow have announced; 0: unknown */
	PILOT_SEEN_UNA, /* acknowledged at the latest ACK, and since when */
	PILOT_STANDS_SINCE_US,

	PILOT_FRESH, /* start-up has just ended, and its queue has not drained yet */

	/* alone */
	PILOT_STEP,   /* growth a round */
	PILOT_STREAK, /* rounds of growth in a row; in start-up, rounds without */
	PILOT_PLATEAU = PILOT_STREAK,
	PILOT_ALONE_ROUNDS, /* in start-up, rounds with heavy loss */
	PILOT_FLOODED = PILOT_ALONE_ROUNDS,
	PILOT_OVERLOAD, /* part of the packets lost, EWMA, 16 times 1/4096 */
	PILOT_CEILING,  /* window at the last overflow */
	PILOT_QUEUED,   /* rounds in a row that a queue stood, and the window when it began */
	PILOT_QUEUED_WINDOW,
	PILOT_BLOCK_LEAST_US = PILOT_QUEUED_WINDOW, /* start-up: RTT of the block, and deliveries before it */
	PILOT_REFERENCE, /* window to share with: before the queue, or at the end of start-up */

	/* alone, since the queue began; shared, since the last sign of others */
	PILOT_SEEN_LOST,
	PILOT_BLOCK_DELIVERED = PILOT_SEEN_LOST,
	PILOT_SEEN_PACKETS,

	/* shared */
	PILOT_QUIET,        /* rounds without a sign of others */
	PILOT_QUIET_WINDOW, /* when they began */
	PILOT_PATIENCE,     /* times that a stay has to be quiet, relative to one TCP */
	PILOT_HALVED,       /* the window was halved in this round */
	PILOT_SLOW_START,   /* sharing began with it: double until the first loss */
	PILOT_TEST,         /* rounds left of a test of solitude, and what it compares with; draining: window before */
	PILOT_TEST_RATE,
	PILOT_TEST_WINDOW,
	PILOT_TEST_WAIT, /* rounds since the last one, and from one to the next */
	PILOT_TEST_GAP,
	PILOT_WORDS,
};

_Static_assert(PILOT_WORDS <= MP_STATE_WORDS, "pilot needs more words");

#define PILOT_PACKET 256ULL
#define PILOT_LEAST (4 * PILOT_PACKET) /* a window: two for the delayed ACK, two in flight (BBR's minimum, too) */
#define PILOT_ROUND_PACKETS 16         /* fewer do not tell a queue from jitter */
#define PILOT_EPOCH_US 10000000        /* as BBR's min_rtt filter */
#define PILOT_DRAIN_RTTS 3             /* round trips: to drain the queue, for packets that meet none, to spare */
#define PILOT_PEAK_FADE 256            /* slower, and windows stay full at 10 % of loss */
#define PILOT_CLOCK_US 1000            /* delay that says nothing: timers and interrupt coalescing of hosts */

MP_INLINE mp_u64 pilot_max(mp_u64 a, mp_u64 b)
{
	return a > b ? a : b;
}

MP_INLINE mp_u64 pilot_min(mp_u64 a, mp_u64 b)
{
	return a < b ? a : b;
}

MP_INLINE int pilot_has(const struct mp_connection *c, mp_u64 mechanism)
{
	return !(c->parameters[0] & mechanism);
}

/* A round, as its end sees it. */
struct pilot_round {
	mp_u64 packets; /* delivered and lost; at least 1 */
	mp_u64 delivered;
	mp_u64 lost;
	mp_u64 ce;
	mp_u64 rtt_us; /* the least; MP_UNKNOWN where there was none */
	mp_u64 rate;   /* packets per 2^20 us */
	mp_u64 window; /* it was sent with */
	int filled;    /* the window was used: only then it has shown that it fits */
};

MP_INLINE void pilot_new_epoch(struct mp_subflow *self, mp_u64 since)
{
	self->state[PILOT_NEXT_BASE_US] = MP_UNKNOWN;
	self->state[PILOT_EPOCH_MOST_US] = 0;
	self->state[PILOT_BASE_SINCE_US] = since;
}

/*
 * The law keeps a queue. On a path where nothing else varies the least RTT of an epoch holds that queue, and the next
 * base would, and the queue on top of it. So the epoch goes on for some round trips with less in flight than the path
 * holds, unless the base was seen in it anyway.
 */
MP_INLINE void pilot_end_epoch(const struct mp_connection *c, struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 base_us = self->state[PILOT_BASE_US], window = self->state[PILOT_WINDOW];

	if (self->state[PILOT_MODE] == PILOT_ALONE && self->state[PILOT_NEXT_BASE_US] > base_us &&
	    !self->state[PILOT_QUEUED] && !self->state[PILOT_FRESH] && pilot_has(c, PILOT_DRAINS)) {
		self->state[PILOT_MODE] = PILOT_DRAINING;
		self->state[PILOT_TEST_WINDOW] = window;
		self->state[PILOT_WINDOW] =
			pilot_max(window * (base_us - base_us / 8) / (self->srtt_us | 1), PILOT_LEAST);
		self->state[PILOT_BASE_SINCE_US] =
			now_us - PILOT_EPOCH_US + pilot_min(PILOT_DRAIN_RTTS * self->srtt_us, PILOT_EPOCH_US);
		return;
	}
	if (self->state[PILOT_MODE] == PILOT_DRAINING) {
		self->state[PILOT_MODE] = PILOT_ALONE;
		self->state[PILOT_WINDOW] = self->state[PILOT_TEST_WINDOW];
	}
	self->state[PILOT_BASE_US] = self->state[PILOT_NEXT_BASE_US];
	pilot_new_epoch(self, now_us);
}

MP_INLINE void pilot_sample_rtt(const struct mp_connection *c, struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 rtt_us = pilot_max(self->rtt_us, 1);

	if (self->state[PILOT_MODE] != PILOT_SHARED && now_us - self->state[PILOT_BASE_SINCE_US] > PILOT_EPOCH_US)
		pilot_end_epoch(c, self, now_us);
	self->state[PILOT_BASE_US] = pilot_min(self->state[PILOT_BASE_US], rtt_us);
	self->state[PILOT_NEXT_BASE_US] = pilot_min(self->state[PILOT_NEXT_BASE_US], rtt_us);
	self->state[PILOT_LEAST_US] = pilot_min(self->state[PILOT_LEAST_US], rtt_us);
	self->state[PILOT_MOST_US] = pilot_max(self->state[PILOT_MOST_US], rtt_us);
	if (self->state[PILOT_MODE] == PILOT_STARTUP)
		self->state[PILOT_BLOCK_LEAST_US] = pilot_min(self->state[PILOT_BLOCK_LEAST_US], rtt_us);
}

MP_INLINE void pilot_new_round(struct mp_subflow *self, mp_u64 now_us)
{
	self->state[PILOT_ROUND_SINCE_US] = now_us;
	self->state[PILOT_ROUND_DELIVERED] = self->delivered;
	self->state[PILOT_ROUND_LOST] = self->lost;
	self->state[PILOT_ROUND_CE] = self->ce;
	self->state[PILOT_ROUND_WINDOW] = self->state[PILOT_WINDOW];
	self->state[PILOT_LEAST_US] = MP_UNKNOWN;
	self->state[PILOT_MOST_US] = 0;
}

/* What one full packet takes at the bottleneck: a short one may have come before, and set the base. */
MP_INLINE mp_u64 pilot_packet_us(const struct mp_subflow *self)
{
	return pilot_min((1 << 20) / (self->state[PILOT_PEAK] | 1), self->state[PILOT_BASE_US] / 4);
}

/* Delay above the base that may be noise; more is a queue. */
MP_INLINE mp_u64 pilot_threshold_us(const struct mp_subflow *self)
{
	return pilot_max(PILOT_CLOCK_US, pilot_packet_us(self)) + self->state[PILOT_NOISE_US];
}

/* Queueing delay that pilot aims at while it is alone: what it needs not to run dry. */
MP_INLINE mp_u64 pilot_target_us(const struct mp_subflow *self)
{
	mp_u64 base_us = self->state[PILOT_BASE_US];

	return pilot_max(pilot_max(PILOT_CLOCK_US + pilot_packet_us(self), base_us / 16),
			 pilot_min(self->state[PILOT_NOISE_US] * 3 / 2, base_us));
}

/* What a queue does that start-up has built, or another flow. */
MP_INLINE int pilot_startup_queue(const struct mp_subflow *self, mp_u64 least_us)
{
	mp_u64 base_us = self->state[PILOT_BASE_US];

	return least_us != MP_UNKNOWN && least_us > base_us + pilot_max(pilot_target_us(self), base_us / 8);
}

/*
 * In start-up the window doubles while a round's packets are on their way. A block of them that were all delayed tells
 * of the queue (RFC 9406 waits for the next round's first packets, and the window has doubled twice by then).
 */
MP_INLINE int pilot_startup_block(struct mp_subflow *self)
{
	if ((mp_u32)(self->delivered - self->state[PILOT_BLOCK_DELIVERED]) < PILOT_ROUND_PACKETS)
		return 0;
	if (pilot_startup_queue(self, self->state[PILOT_BLOCK_LEAST_US]))
		return 1;
	self->state[PILOT_BLOCK_DELIVERED] = self->delivered;
	self->state[PILOT_BLOCK_LEAST_US] = MP_UNKNOWN;
	return 0;
}

/* A packet sent after the round's start is acknowledged, and enough of them, or four round trips have gone by. */
MP_INLINE int pilot_round_is_over(struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 delivered = self->delivered - self->state[PILOT_ROUND_DELIVERED];
	mp_u64 elapsed_us = now_us - self->state[PILOT_ROUND_SINCE_US];

	if (!delivered)
		return 0;
	if (self->state[PILOT_MODE] == PILOT_STARTUP)
		return pilot_startup_block(self) || elapsed_us >= self->rtt_us;
	return elapsed_us >= self->rtt_us && (delivered >= PILOT_ROUND_PACKETS || elapsed_us > 4 * self->rtt_us);
}

/*
 * Noise follows calm rounds at once and others slowly: jitter is there all the time, the queue of another flow's burst
 * is not.
 */
MP_INLINE void pilot_update_noise(struct mp_subflow *self, mp_u64 range_us)
{
	mp_u64 noise_us = self->state[PILOT_NOISE_US];

	if (!noise_us)
		noise_us = range_us;
	else if (range_us < noise_us)
		noise_us = (noise_us + range_us) / 2;
	else
		noise_us = (noise_us * 31 + range_us) / 32;
	self->state[PILOT_NOISE_US] = noise_us;
}

/* Above 2 ms, more than hosts' timers, and a quarter of the base: the least of one round is a poor measure then. */
MP_INLINE int pilot_is_noisy(const struct mp_subflow *self)
{
	return self->state[PILOT_NOISE_US] > pilot_max(2 * PILOT_CLOCK_US, self->state[PILOT_BASE_US] / 4);
}

/* Where it is one, the least of three rounds. */
MP_INLINE mp_u64 pilot_round_rtt_us(struct mp_subflow *self)
{
	mp_u64 least_us = self->state[PILOT_LEAST_US], rtt_us = least_us;

	if (pilot_is_noisy(self)) {
		rtt_us = pilot_min(rtt_us, self->state[PILOT_LAST_US]);
		rtt_us = pilot_min(rtt_us, self->state[PILOT_LAST_BUT_ONE_US]);
	}
	self->state[PILOT_LAST_BUT_ONE_US] = self->state[PILOT_LAST_US];
	self->state[PILOT_LAST_US] = least_us;
	return pilot_max(rtt_us, 1);
}

MP_INLINE struct pilot_round pilot_measure(const struct mp_connection *c, struct mp_subflow *self, mp_u64 now_us)
{
	mp_u64 elapsed_us = pilot_max(now_us - self->state[PILOT_ROUND_SINCE_US], 1), least_us;
	struct pilot_round round;

	/* kernel counters are 32 bits wide */
	round.delivered = (mp_u32)(self->delivered - self->state[PILOT_ROUND_DELIVERED]);
	round.lost = (mp_u32)(self->lost - self->state[PILOT_ROUND_LOST]);
	round.ce = self->ce - self->state[PILOT_ROUND_CE];
	round.packets = pilot_max(round.delivered + round.lost, 1);
	round.rate = (round.delivered << 20) / elapsed_us;
	round.window = pilot_max(self->state[PILOT_ROUND_WINDOW], 1);
	/* a round may last four round trips */
	round.filled = round.packets * PILOT_PACKET * 4 * pilot_min(self->srtt_us, elapsed_us) / elapsed_us >=
		       round.window * 3;
	round.rtt_us = MP_UNKNOWN;
	least_us = self->state[PILOT_LEAST_US];
	if (least_us == MP_UNKNOWN)
		return round;

	self->state[PILOT_EPOCH_MOST_US] = pilot_max(self->state[PILOT_EPOCH_MOST_US], least_us);
	if (round.delivered > 3 && pilot_has(c, PILOT_JITTER))
		pilot_update_noise(self, self->state[PILOT_MOST_US] - least_us);
	if (least_us <= self->state[PILOT_BASE_US] + pilot_threshold_us(self) && !self->state[PILOT_QUEUED] &&
	    self->state[PILOT_MODE] != PILOT_STARTUP) {
		self->state[PILOT_CALM_LOST] += round.lost * 256 - self->state[PILOT_CALM_LOST] / 32;
		self->state[PILOT_CALM_PACKETS] += round.packets * 256 - self->state[PILOT_CALM_PACKETS] / 32;
	}
	if (round.lost)
		self->state[PILOT_LOSSY] = 8;
	else if (self->state[PILOT_LOSSY])
		self->state[PILOT_LOSSY]--;
	if (round.filled)
		self->state[PILOT_PEAK] -= self->state[PILOT_PEAK] / PILOT_PEAK_FADE;
	self->state[PILOT_PEAK] = pilot_max(self->state[PILOT_PEAK], round.rate);
	round.rtt_us = pilot_round_rtt_us(self);
	return round;
}

/* Losses that chance brings among so many packets. */
MP_INLINE mp_u64 pilot_chance(const struct mp_subflow *self, mp_u64 packets)
{
	return self->state[PILOT_CALM_LOST] * packets / (self->state[PILOT_CALM_PACKETS] | 1);
}

/* By how much the rate fell for how much the window did, in 1/256: the part of the bottleneck that others have. */
MP_INLINE mp_u64 pilot_others(mp_u64 rate_before, mp_u64 rate, mp_u64 window_before, mp_u64 window)
{
	if (window >= window_before)
		return 256;
	if (rate >= rate_before)
		return 0;
	return (rate_before - rate) * 256 / rate_before * window_before / (window_before - window);
}

/* `rate` packets per 2^20 us for so long, as a window. */
MP_INLINE mp_u64 pilot_window_of(mp_u64 rate, mp_u64 rtt_us)
{
	return pilot_max((rate * rtt_us >> 20) * PILOT_PACKET, PILOT_LEAST);
}

MP_INLINE int pilot_is_shared(const struct mp_subflow *sibling)
{
	return MP_READ(sibling->owner) && MP_READ(sibling->state[PILOT_MODE]) == PILOT_SHARED;
}

MP_INLINE void pilot_reset_losses(struct mp_subflow *self)
{
	self->state[PILOT_SEEN_LOST] = 0;
	self->state[PILOT_SEEN_PACKETS] = 0;
}

MP_INLINE void pilot_count_losses(struct mp_subflow *self, const struct pilot_round *round)
{
	self->state[PILOT_SEEN_LOST] += round->lost;
	self->state[PILOT_SEEN_PACKETS] += round->packets;
}

#endif

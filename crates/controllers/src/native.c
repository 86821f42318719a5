/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the tests look at: the layout of the structs, and parts of controllers that are no hooks. */
#include <stddef.h>

#include "ddpg_mpcc.h"
#include "mp.h"
#include "mp_power.h"
#include "mpcc.h"

const size_t mp_layout[] = {
	sizeof(struct mp_connection),
	sizeof(struct mp_subflow),
	sizeof(struct mp_ack),
	offsetof(struct mp_connection, subflows),
	offsetof(struct mp_subflow, owner),
	offsetof(struct mp_subflow, mss),
	offsetof(struct mp_subflow, rtt_us),
	offsetof(struct mp_subflow, srtt_us),
	offsetof(struct mp_subflow, min_rtt_us),
	offsetof(struct mp_subflow, queue_owd_us),
	offsetof(struct mp_subflow, delivered),
	offsetof(struct mp_subflow, lost),
	offsetof(struct mp_subflow, backup),
	offsetof(struct mp_subflow, in_flight),
	offsetof(struct mp_subflow, ce),
	offsetof(struct mp_subflow, phase),
	offsetof(struct mp_subflow, app_limited),
	offsetof(struct mp_subflow, unsacked),
	offsetof(struct mp_subflow, data_una),
	offsetof(struct mp_subflow, data_next),
	offsetof(struct mp_subflow, data_end),
	offsetof(struct mp_subflow, data_window),
	offsetof(struct mp_subflow, cwnd),
	offsetof(struct mp_subflow, ssthresh),
	offsetof(struct mp_subflow, cwnd_fraction),
	offsetof(struct mp_subflow, prior_cwnd),
	offsetof(struct mp_subflow, pacing_rate),
	offsetof(struct mp_subflow, state),
	offsetof(struct mp_ack, now_us),
	offsetof(struct mp_ack, acked),
	offsetof(struct mp_ack, is_cwnd_limited),
	offsetof(struct mp_ack, max_packets_out),
};

/* (numerator/denominator)^(thousandths/1000) in units of 2^-bits */
mp_u64 mp_test_power(mp_u64 numerator, mp_u64 denominator, mp_u64 thousandths, mp_s64 bits)
{
	return mp_fixed(mp_power(mp_div(mp_real(numerator), mp_real(denominator)), thousandths), bits);
}

mp_s64 mp_test_mpcc_utility(const struct mp_connection *c, mp_u64 total, const struct mpcc_sample *sample)
{
	return mpcc_utility(c, total, sample);
}

const mp_u64 mp_test_mpcc_words[] = { MPCC_PHASE,     MPCC_RATE,      MPCC_LAST_RATE,    MPCC_LAST_UTILITY,
				      MPCC_DIRECTION, MPCC_AMPLIFIER, MPCC_SWING_BUFFER, MPCC_BOUND,
				      MPCC_OTHERS,    MPCC_PUBLISHED, MPCC_INTERVAL,     MPCC_ORDER,
				      MPCC_SENDING,   MPCC_RECEIVING, MPCC_SENT_FROM,    MPCC_UTILITY,
				      MPCC_SINCE };

const mp_u64 mp_test_ddpg_words[] = { DDPG_SERIAL,    DDPG_ANSWER, DDPG_DEADLINE,   DDPG_MISSED, DDPG_RATE,
				      DDPG_DELIVERED, DDPG_LOST,   DDPG_ELAPSED_US, DDPG_RTT_US };

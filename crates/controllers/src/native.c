/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The native build of every controller: one table of hooks each, and the layout for the wrapper's test. */
#include <stddef.h>

#include "mp.h"
#include "balia.h"
#include "dalia.h"
#include "ld_mpsp.h"
#include "lia.h"
#include "olia.h"
#include "reno.h"
#include "rsf_db.h"
#include "rsf_lb.h"
#include "wvegas.h"

#define WINDOW_CONTROLLER(name)                                                                                        \
	const struct mp_controller mp_controller_##name = {                                                            \
		.init = name##_init,                                                                                   \
		.on_rtt = name##_on_rtt,                                                                               \
		.on_ack = name##_on_ack,                                                                               \
		.on_loss = name##_on_loss,                                                                             \
		.on_undo = name##_on_undo,                                                                             \
		.on_close = name##_on_close,                                                                           \
	};

WINDOW_CONTROLLER(reno)
WINDOW_CONTROLLER(lia)
WINDOW_CONTROLLER(olia)
WINDOW_CONTROLLER(balia)
WINDOW_CONTROLLER(wvegas)
WINDOW_CONTROLLER(rsf_db)
WINDOW_CONTROLLER(rsf_lb)
WINDOW_CONTROLLER(ld_mpsp)
WINDOW_CONTROLLER(dalia)

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

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The native build of one controller. Compiled once for each controllers/NAME.h with
 *   -DMP_HEADER='"NAME.h"' -DMP_NAME=NAME, and -DMP_RATE_BASED where NAME has on_interval in place of on_ack,
 * as controllers/bpf/glue.bpf.c is for the kernel: what a header defines holds for no other.
 */
#include MP_HEADER

#ifndef MP_SEND_BUFFER_WINDOWS
#define MP_SEND_BUFFER_WINDOWS MP_DEFAULT_SEND_BUFFER_WINDOWS
#endif

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define CONTROLLER(hook) PASTE(MP_NAME, hook)

const struct mp_controller PASTE(mp_controller, MP_NAME) = {
	.init = CONTROLLER(init),
	.on_rtt = CONTROLLER(on_rtt),
	.on_loss = CONTROLLER(on_loss),
	.on_undo = CONTROLLER(on_undo),
	.on_close = CONTROLLER(on_close),
#ifdef MP_RATE_BASED
	.on_interval = CONTROLLER(on_interval),
#else
	.on_ack = CONTROLLER(on_ack),
#endif
	.send_buffer_windows = MP_SEND_BUFFER_WINDOWS,
};

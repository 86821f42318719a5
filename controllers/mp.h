/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * What a congestion controller sees, and all that it sees.
 *
 * A controller is one header of static functions over the structs below. It is compiled twice: by cc into the
 * simulator, by clang into a struct_ops object for the kernel. It has no clock (time comes in as now_us), no I/O, no
 * allocation and no floating point, and it never learns which of the two worlds it lives in.
 *
 * Who writes what: a slot of mp_connection.subflows is written by its own subflow alone, and read by its siblings on
 * any CPU. Every shared field is therefore one aligned 64-bit word, so that a reader sees an old value or a new one
 * but never half of each; nothing here needs a lock.
 */
#ifndef MP_H
#define MP_H

#ifdef __bpf__
typedef __u64 mp_u64;
typedef __s64 mp_s64;
typedef __u32 mp_u32;
#else
#include <stdint.h>
typedef uint64_t mp_u64;
typedef int64_t mp_s64;
typedef uint32_t mp_u32;
#endif

#define MP_INLINE static inline __attribute__((always_inline, unused))

#define MP_MAX_SUBFLOWS 8 /* coupled subflows of a connection; a further one runs uncoupled */
#define MP_PARAMETERS 8
#define MP_STATE_WORDS 48
#define MP_MIN_CWND 2 /* packets; the floor of every window rule */
#define MP_FRACTION_BITS 40
#define MP_UNKNOWN (~0ULL)
/* enum tcp_ca_state, include/net/tcp.h */
#define MP_OPEN 0
#define MP_DISORDER 1
#define MP_CWR 2
#define MP_RECOVERY 3
#define MP_TIMEOUT 4
#define MP_INFINITE_SSTHRESH 0x7fffffffULL /* TCP_INFINITE_SSTHRESH, include/net/tcp.h */
#define MP_DEFAULT_SEND_BUFFER_WINDOWS 2   /* tcp_sndbuf_expand, net/ipv4/tcp_input.c */

/* One subflow. The facts are kept by the stack (kernel glue or simulator), the rest by the controller. */
struct mp_subflow {
	mp_u64 owner; /* 0: the slot is free */

	/* facts */
	mp_u64 mss;          /* bytes */
	mp_u64 rtt_us;       /* latest sample */
	mp_u64 srtt_us;      /* smoothed, RFC 6298; 0 before the first sample */
	mp_u64 min_rtt_us;   /* minimum over the connection's lifetime, MP_UNKNOWN before the first sample */
	mp_u64 queue_owd_us; /* forward one-way delay above its lifetime minimum, MP_UNKNOWN where there is none */
	mp_u64 delivered;    /* packets acknowledged so far */
	mp_u64 lost;         /* packets marked lost so far */
	mp_u64 backup;       /* 1: not used while a normal subflow lives (RFC 8684 section 3.3.8) */
	mp_u64 in_flight;    /* packets sent, neither acknowledged nor marked lost (tcp_packets_in_flight) */
	mp_u64 ce;           /* packets acknowledged so far whose ACK carried ECN-Echo (tp->delivered_ce) */
	mp_u64 phase;        /* MP_OPEN ... MP_TIMEOUT: what loss recovery is doing */
	mp_u64 app_limited;  /* 1: the window has room and nothing is queued to fill it (tcp_rate_check_app_limited) */
	mp_u64 unsacked;     /* packets sent, neither acknowledged nor selectively acknowledged */

	/* facts of an MPTCP connection, with MP_DATA_LEVEL. Data sequence numbers are in bytes and wrap. */
	mp_u64 data_una;    /* first one not acknowledged, as before the latest ACK */
	mp_u64 data_next;   /* of the next new segment here; where none is queued, of the connection's next one */
	mp_u64 data_end;    /* what the stack takes for the end of the receive window */
	mp_u64 data_window; /* that the latest ACK announces, bytes; 0: it is not taken, or none is known */

	/* decisions */
	mp_u64 cwnd;          /* packets */
	mp_u64 ssthresh;      /* packets */
	mp_u64 cwnd_fraction; /* growth not yet worth a packet, in 2^-MP_FRACTION_BITS packets */
	mp_u64 prior_cwnd;    /* window before the last decrease, for undo */
	mp_u64 pacing_rate;   /* bytes/s; 0: the stack's own pacing, which for a rate-based controller is none */

	/* the controller's own words; siblings may read them */
	mp_u64 state[MP_STATE_WORDS];
};

struct mp_connection {
	mp_u64 parameters[MP_PARAMETERS]; /* the controller's settings, in the order and units its header states */
	struct mp_subflow subflows[MP_MAX_SUBFLOWS];
};

/* One acknowledgement that may grow the window. */
struct mp_ack {
	mp_u64 now_us;
	mp_u64 acked;           /* packets newly acknowledged */
	mp_u64 is_cwnd_limited; /* the window, not the application, held back the last flight */
	mp_u64 max_packets_out; /* largest flight of the last window, packets */
};

/*
 * The hooks. `i` is the subflow's slot, below MP_MAX_SUBFLOWS; facts are up to date when a hook is called.
 *   init         the subflow has joined (cwnd and ssthresh set by the stack)
 *   on_rtt       an RTT sample (rtt_us, srtt_us, min_rtt_us and queue_owd_us are new), just before the on_ack or
 *                on_interval of its ACK. In recovery a window rule may hear of none.
 *   on_ack       an ACK that may grow the window: outside of recovery, or as tcp_may_raise_cwnd allows
 *   on_loss      one congestion event; returns the new ssthresh in packets, the stack does the reduction (PRR)
 *   on_undo      the event was spurious; returns the window to restore in packets
 *   on_close     the subflow leaves; its slot is cleared afterwards
 *   on_interval  rate-based only: every ACK, with delivered and lost up to date; the controller keeps its own monitor
 *                interval and sets pacing_rate and cwnd. A rate-based controller has no on_ack.
 *
 * What a header defines, so that the kernel takes no trouble for the others:
 *   MP_NO_RTT_SAMPLES         it needs neither on_rtt nor, of its facts, any but srtt_us
 *   MP_ONE_WAY_DELAY          it needs queue_owd_us
 *   MP_DATA_LEVEL             it needs data_una, data_next, data_end and data_window
 *   MP_TARGET N               a scheduler may write parameter N while the connection runs (Entry::scheduled_parameter)
 *   MP_SEND_BUFFER_WINDOWS N  the send buffer should hold at least N congestion windows, so that the next packets are
 *                             there when the window opens
 */
struct mp_controller {
	void (*init)(struct mp_connection *c, mp_u32 i, mp_u64 now_us);
	void (*on_rtt)(struct mp_connection *c, mp_u32 i, mp_u64 now_us);
	void (*on_ack)(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack);
	mp_u64 (*on_loss)(struct mp_connection *c, mp_u32 i, mp_u64 now_us);
	mp_u64 (*on_undo)(struct mp_connection *c, mp_u32 i);
	void (*on_close)(struct mp_connection *c, mp_u32 i);
	void (*on_interval)(struct mp_connection *c, mp_u32 i, mp_u64 now_us);
	mp_u64 send_buffer_windows; /* MP_SEND_BUFFER_WINDOWS */
};

#endif

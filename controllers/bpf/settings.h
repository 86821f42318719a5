/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * What the loader sets before a controller is loaded, and the counters it reads back. Mirrored by
 * crates/kernel/src/object.rs.
 */
#ifndef MP_SETTINGS_H
#define MP_SETTINGS_H

/* Tokens are unique within a network namespace only. A group of plain TCP sockets is { group, MP_GROUP }. */
struct mp_key {
	__u64 netns_cookie;
	__u64 token;
};

#define MP_GROUP (1ULL << 32) /* above all tokens */

/* What user space says of a plain TCP socket. Mirrored by crates/kernel/src/groups.rs. */
struct mp_member {
	__u64 group;     /* sockets with the same number are coupled; 0: none */
	__u64 backup;    /* 1: not used while a normal one of the group lives */
	__u64 target_us; /* for the controller's MP_TARGET; 0: as it is set */
};

/* A connection's shared state. `references` counts its subflows; 0 means that the last leaver is deleting it. */
struct mp_entry {
	__u64 references;
	struct mp_key key;
	struct mp_connection connection;
};

struct mp_settings {
	__u64 log_calls;          /* 1: every hook call goes into the ring buffer, for replay */
	struct mp_entry template; /* a new entry: references = 1, the controller's parameters, slots empty */
};

struct mp_counters {
	__u64 owners;        /* numbers given to sockets so far */
	__u64 sockets;       /* sockets using the controller now */
	__u64 slots_full;    /* subflows beyond MP_MAX_SUBFLOWS, running uncoupled */
	__u64 entries_full;  /* times the map was full; a socket without room even for itself only halves at losses */
	__u64 without_slot;  /* calls of a socket whose slot was gone: a bug, shown rather than hidden */
	__u64 calls_dropped; /* log records that found the ring buffer full */
	__u64 hooks_skipped; /* times that the kernel did not run a hook and took a stale word for its answer */
};

enum mp_hook {
	MP_HOOK_INIT,
	MP_HOOK_RTT,
	MP_HOOK_ACK,
	MP_HOOK_LOSS,
	MP_HOOK_UNDO,
	MP_HOOK_CLOSE,
	MP_HOOK_INTERVAL,
};

/* A hook call just before it happens, or just after: the whole connection, and what the hook is called with. */
struct mp_call {
	__u64 hook;
	__u64 slot;
	__u64 now_us;
	struct mp_ack ack;
	__u64 result; /* of on_loss and on_undo, after the call */
	__u64 owner;
	__u64 is_after;
	struct mp_connection connection;
};

/* What a monitor interval of a learned controller showed; the agent answers it. Mirrored by crates/kernel/src/agent.rs.
 */
struct mp_record {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 owner;
	__u64 serial; /* 0: the subflow has left */
	__u64 rate;   /* bytes/s */
	__u64 mss;
	__u64 delivered; /* packets */
	__u64 lost;
	__u64 elapsed_us;
	__u64 rtt_us;
	__u64 min_rtt_us;
	__u64 others;   /* rates of the siblings, as the controller knew them, bytes/s */
	__u32 local_ip; /* of IPv4, in the network's byte order; without meaning for a socket of IPv6 */
	__u32 remote_ip;
	__u32 local_port;
	__u32 remote_port; /* in the network's byte order */
};

/* An answer, at owner modulo MP_ANSWERS. It holds for one record: a dead agent's are worth nothing. */
struct mp_answer {
	__u64 owner;
	__u64 answer; /* low 32 bits of the record's serial << 32 | rate in bytes/s */
};

#define MP_ANSWERS 65536

#endif

/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/* Where a socket finds its state: its own entry at first, its connection's once that is known. */
#ifndef MP_SOCKET_H
#define MP_SOCKET_H

#include "slots.h"

/* Lives in icsk_ca_priv; all zero before .init. */
struct mp_socket {
	__u64 owner;       /* our number for this socket; the socket cookie cannot be had from struct_ops */
	struct mp_key key; /* where its state is */
	__u32 slot;
	__u32 placed;      /* it has a slot */
	__u32 awaits;      /* enum mp_awaits */
	__s32 owd_minimum; /* of the timestamp difference, in ticks, clock offset included */
	__u32 owd_known;
	__u32 followed_us; /* when glue_follow read last */
	__u32 acked;       /* tcp_sock.snd_una as the last ACK left it */
};

enum mp_awaits {
	MP_AWAITS_NOTHING,
	MP_AWAITS_TOKEN,
	MP_AWAITS_GROUP, /* plain TCP: it may be put into a group at any time, or never */
};

/* Keyed by user space with the descriptor; an entry goes with its socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct mp_member);
} mp_members SEC(".maps");

static __always_inline struct mp_socket *glue_socket(struct sock *sk)
{
	return (struct mp_socket *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline struct mptcp_subflow_context *glue_context(struct sock *sk)
{
	return ((struct inet_connection_sock *)sk)->icsk_ulp_data;
}

/* A field behind a pointer without a type. On Linux 6.1 it is a probed read of some 50 ns. */
#define GLUE_READ(type, pointer, field)                                                                                \
	(bpf_ksym_exists(bpf_rdonly_cast)                                                                              \
		 ? ((struct type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(struct type)))->field              \
		 : BPF_CORE_READ((struct type *)(pointer), field))

/* Either end may have asked (mptcp_subflow_get_send, net/mptcp/protocol.c). */
static __always_inline __u64 glue_backup(struct sock *sk)
{
	struct mptcp_subflow_context *context = glue_context(sk);

	if (bpf_ksym_exists(bpf_rdonly_cast)) {
		context = bpf_rdonly_cast(context, bpf_core_type_id_kernel(struct mptcp_subflow_context));
		return BPF_CORE_READ_BITFIELD(context, backup) | BPF_CORE_READ_BITFIELD(context, request_bkup);
	}
	return BPF_CORE_READ_BITFIELD_PROBED(context, backup) | BPF_CORE_READ_BITFIELD_PROBED(context, request_bkup);
}

/* Moves a subflow from its own entry into its connection's, or its group's, once that is known. */
static __noinline int glue_join(struct sock *sk)
{
	struct mp_socket *self = glue_socket(sk);
	struct mp_key key = {}, own_key = {};
	struct mp_entry *own, *shared;
	struct mp_subflow *subflow;
	struct mp_member *member;
	__u64 backup;
	int slot;

	if (((struct tcp_sock *)sk)->is_mptcp) {
		key.token = BPF_CORE_READ(glue_context(sk), token);
		if (!key.token)
			return 0;
		key.netns_cookie = sk->__sk_common.skc_net.net->net_cookie;
		backup = glue_backup(sk); /* a backup may never see an ACK that would tell */
	} else {
		self->awaits = MP_AWAITS_GROUP; /* also where the peer has answered MPTCP in plain TCP */
		member = bpf_sk_storage_get(&mp_members, sk, 0, 0);
		if (!member || !member->group)
			return 0;
		key.token = MP_GROUP;
		key.netns_cookie = member->group;
		backup = member->backup;
	}
	slot = slot_claim(&key, self->owner);
	if (slot == MP_TRY_LATER)
		return 0;
	self->awaits = MP_AWAITS_NOTHING;
	if (slot < 0) {
		__sync_fetch_and_add(slot == MP_NO_SLOT ? &mp_counters.slots_full : &mp_counters.entries_full, 1);
		return 0;
	}
	own_key = self->key;
	self->key = key;
	self->slot = slot;
	own = bpf_map_lookup_elem(&mp_connections, &own_key);
	shared = bpf_map_lookup_elem(&mp_connections, &key);
	if (!own || !shared)
		return 0;
	subflow = &shared->connection.subflows[slot & (MP_MAX_SUBFLOWS - 1)];
	slot_copy(subflow, &own->connection.subflows[0]);
	subflow->backup = backup;
	slot_leave(own, 0);
	return 0;
}

/* The entry that holds this socket's state, and its slot there. */
static __always_inline struct mp_entry *glue_find(struct sock *sk, __u32 *slot)
{
	struct mp_socket *self = glue_socket(sk);
	struct mp_entry *entry;
	struct mp_key key;

	if (!self->placed) /* the SYN's acknowledgement comes before .init */
		return 0;
	if (self->awaits && (self->awaits == MP_AWAITS_TOKEN || sk->sk_bpf_storage))
		glue_join(sk);
	key = self->key;
	entry = bpf_map_lookup_elem(&mp_connections, &key);
	*slot = self->slot;
	if (!entry || *slot >= MP_MAX_SUBFLOWS || entry->connection.subflows[*slot].owner != self->owner) {
		__sync_fetch_and_add(&mp_counters.without_slot, 1);
		return 0;
	}
	return entry;
}

#endif

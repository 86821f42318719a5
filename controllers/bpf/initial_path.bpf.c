// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * The path that a connection of an unmodified program starts on, for a cgroup and all below it.
 *
 * A program cannot wait here for somebody to decide: user space keeps a ready choice for each destination in a map. One
 * that has expired, or none, means the stock rule, the routing table's. Further subflows are the kernel's path
 * manager's.
 *
 * The first subflow is bound to the interface and to the address. The interface alone would do where every link has a
 * default route; the address alone where it has an `ip rule`; most hosts have the one or the other. Both sit on the
 * subflow and not on the MPTCP socket, hence subflows that join are free to leave by other interfaces.
 *
 * What becomes of a connection goes to user space through a ring buffer: its start here, and the beginning and end of
 * each of its subflows by callbacks of the same cgroup.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* These mirror crates/kernel/src/initial_path. IPv4 as ::ffff:a.b.c.d everywhere. */
struct mp_prefix {
	__u32 length; /* bits, 0 to 128 */
	__u8 address[16];
};

struct mp_choice {
	__u64 expires_ns; /* CLOCK_MONOTONIC; 0: never */
	__u64 tag;        /* user space's own, comes back with the connection's start */
	__u32 interface;  /* index; 0: none */
	__u32 has_v4;
	__u32 has_v6;
	__u32 v4; /* network order */
	__u32 v6[4];
};

enum mp_what { MP_STARTED, MP_UP, MP_DOWN };
enum mp_start { MP_STOCK, MP_CHOSEN, MP_STALE, MP_REFUSED };

struct mp_event {
	__u64 time_ns;
	__u64 netns_cookie;
	__u64 socket; /* cookie, the same from start to end */
	__u64 tag;    /* of the choice */
	__u64 bytes_acked;
	__u64 bytes_received;
	__u32 token; /* 0: plain TCP, or not known yet */
	__u32 srtt_us;
	__u32 min_rtt_us;
	__u16 local_port;
	__u16 remote_port;
	__u8 what;
	__u8 start;
	__u8 join;
	__u8 unused[5];
	__u8 local[16];
	__u8 remote[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct mp_prefix);
	__type(value, struct mp_choice);
} mp_choices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} mp_events SEC(".maps");

/* Read by Primary::events_lost. */
__u64 mp_events_dropped SEC(".data.dropped");

static __always_inline void map_v4(__u8 *address, __u32 v4)
{
	__builtin_memset(address, 0, 10);
	address[10] = address[11] = 0xff;
	__builtin_memcpy(address + 12, &v4, sizeof(v4));
}

static __always_inline int is_v4(const __u8 *address)
{
	for (int i = 0; i < 10; i++)
		if (address[i])
			return 0;
	return address[10] == 0xff && address[11] == 0xff;
}

/* The kernel's own connects for MP_JOIN pass here too. */
static __always_inline int joins(struct bpf_sock *socket)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(socket);
	struct mptcp_subflow_context *context;

	if (!tp || !tp->is_mptcp)
		return 0;
	context = ((struct inet_connection_sock *)tp)->icsk_ulp_data;
	return BPF_CORE_READ_BITFIELD_PROBED(context, request_join);
}

/*
 * The address comes first: where it is gone, nothing has been changed yet. An IPv6 socket reaches ::ffff:a.b.c.d by
 * IPv4, and from an address of it.
 */
static __always_inline long start_on(struct bpf_sock_addr *connect, const struct mp_prefix *to,
				     const struct mp_choice *choice)
{
	int interface = choice->interface, v4 = is_v4(to->address);
	long error = 0;

	if (connect->user_family == AF_INET && choice->has_v4) {
		struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr = choice->v4 };

		error = bpf_bind(connect, (struct sockaddr *)&from, sizeof(from));
	} else if (connect->user_family == AF_INET6 && (v4 ? choice->has_v4 : choice->has_v6)) {
		struct sockaddr_in6 from = { .sin6_family = AF_INET6 };

		if (v4)
			map_v4((__u8 *)from.sin6_addr, choice->v4);
		else
			__builtin_memcpy(from.sin6_addr, choice->v6, sizeof(from.sin6_addr));
		error = bpf_bind(connect, (struct sockaddr *)&from, sizeof(from));
	} else if (choice->has_v4 || choice->has_v6) {
		return -1; /* the path has no address of this family */
	}
	if (!error && interface)
		error = bpf_setsockopt(connect, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, sizeof(interface));
	return error;
}

static __always_inline int start(struct bpf_sock_addr *connect, struct mp_prefix *to, int is_bound)
{
	struct mp_choice *choice;
	struct mp_event *event;
	__u64 now = bpf_ktime_get_ns(), tag = 0;
	__u8 how = MP_STOCK;

	if (connect->type != SOCK_STREAM || connect->protocol != IPPROTO_TCP || joins(connect->sk))
		return 1;
	to->length = 128;
	choice = is_bound ? 0 : bpf_map_lookup_elem(&mp_choices, to);
	if (choice) {
		tag = choice->tag;
		if (choice->expires_ns && now > choice->expires_ns)
			how = MP_STALE;
		else if (choice->interface || choice->has_v4 || choice->has_v6)
			how = start_on(connect, to, choice) ? MP_REFUSED : MP_CHOSEN;
	}
	event = bpf_ringbuf_reserve(&mp_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&mp_events_dropped, 1);
		return 1;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = now;
	event->netns_cookie = bpf_get_netns_cookie(connect);
	event->socket = bpf_get_socket_cookie(connect);
	event->tag = tag;
	event->remote_port = __builtin_bswap16(connect->user_port);
	event->what = MP_STARTED;
	event->start = how;
	__builtin_memcpy(event->remote, to->address, sizeof(event->remote));
	bpf_ringbuf_submit(event, 0);
	return 1;
}

SEC("cgroup/connect4")
int mp_connect4(struct bpf_sock_addr *connect)
{
	struct mp_prefix to = {};

	map_v4(to.address, connect->user_ip4);
	return start(connect, &to, connect->sk->src_ip4 || connect->sk->bound_dev_if);
}

SEC("cgroup/connect6")
int mp_connect6(struct bpf_sock_addr *connect)
{
	struct mp_prefix to = {};
	struct bpf_sock *socket = connect->sk;
	__u32 word[4] = { connect->user_ip6[0], connect->user_ip6[1], connect->user_ip6[2], connect->user_ip6[3] };
	int is_bound = socket->src_ip6[0] || socket->src_ip6[1] || socket->src_ip6[2] || socket->src_ip6[3];

	__builtin_memcpy(to.address, word, sizeof(word));
	return start(connect, &to, is_bound || socket->bound_dev_if);
}

static __always_inline void report(struct bpf_sock_ops *callback, enum mp_what what)
{
	struct bpf_sock *socket = callback->sk;
	struct mp_event *event;
	struct tcp_sock *tp;
	struct sock *sk;

	if (!socket)
		return;
	tp = bpf_skc_to_tcp_sock(socket);
	if (!tp)
		return;
	event = bpf_ringbuf_reserve(&mp_events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&mp_events_dropped, 1);
		return;
	}
	sk = (struct sock *)tp;
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_ns();
	event->netns_cookie = bpf_get_netns_cookie(callback);
	event->socket = bpf_get_socket_cookie(callback);
	event->bytes_acked = tp->bytes_acked;
	event->bytes_received = tp->bytes_received;
	event->srtt_us = tp->srtt_us >> 3;
	event->min_rtt_us = tp->rtt_min.s[0].v;
	event->local_port = sk->__sk_common.skc_num;
	event->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	event->what = what;
	if (sk->__sk_common.skc_family == AF_INET) {
		map_v4(event->local, sk->__sk_common.skc_rcv_saddr);
		map_v4(event->remote, sk->__sk_common.skc_daddr);
	} else {
		bpf_probe_read_kernel(event->local, sizeof(event->local), &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(event->remote, sizeof(event->remote), &sk->__sk_common.skc_v6_daddr);
	}
	if (tp->is_mptcp) {
		struct mptcp_subflow_context *context = ((struct inet_connection_sock *)tp)->icsk_ulp_data;

		event->token = BPF_CORE_READ(context, token);
		event->join = BPF_CORE_READ_BITFIELD_PROBED(context, request_join);
	}
	bpf_ringbuf_submit(event, 0);
}

SEC("sockops")
int mp_follow(struct bpf_sock_ops *callback)
{
	switch (callback->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB: /* from here on: a handshake may fail */
		bpf_sock_ops_cb_flags_set(callback, callback->flags | BPF_SOCK_OPS_STATE_CB_FLAG);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		/* Another program of this event may have set its own in place of ours. */
		bpf_sock_ops_cb_flags_set(callback, callback->flags | BPF_SOCK_OPS_STATE_CB_FLAG);
		report(callback, MP_UP);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		/* A server's sockets end too, and are nobody's choice. */
		if (callback->args[1] == BPF_TCP_CLOSE)
			report(callback, MP_DOWN);
		break;
	}
	return 1;
}

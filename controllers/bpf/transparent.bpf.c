// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * A transparent proxy for the connections of one source address, without netfilter: the listener takes them whatever
 * their destination is, and each accepted socket has that destination for its own address.
 *
 * Their SYN leaves the host over a TUN, where user space holds it until it wants the connection, and comes back in
 * there unchanged. From the SYN-ACK on the packets need not pass user space: the program's socket gets a mark, by which
 * a routing rule leads its packets to the loopback interface.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Mirrors crates/kernel/src/transparent.rs. An address of zeros is nobody's. */
struct mp_clients {
	__u64 netns_cookie;
	__u32 interface; /* index of the TUN */
	__u32 mark;
	__u32 v4; /* network order */
	__u32 v6[4];
	__u32 unused;
};

const volatile struct mp_clients mp_clients SEC(".rodata.clients");

/* 0: IPv4, 1: IPv6 */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} mp_listeners SEC(".maps");

enum { LOOPBACK = 1 }; /* its index, in every network namespace */

static __always_inline int is_client_v6(__u32 a, __u32 b, __u32 c, __u32 d)
{
	return a == mp_clients.v6[0] && b == mp_clients.v6[1] && c == mp_clients.v6[2] && d == mp_clients.v6[3];
}

/*
 * For packets that belong to no connection. Those that come over the loopback interface belong to one that has ended,
 * and the listener's answer to them is a reset.
 */
SEC("sk_lookup")
int mp_accept(struct bpf_sk_lookup *lookup)
{
	__u32 from = lookup->ingress_ifindex, family;
	struct bpf_sock *listener;
	int ours;

	if (lookup->protocol != IPPROTO_TCP || (from != mp_clients.interface && from != LOOPBACK))
		return SK_PASS;
	family = lookup->family == AF_INET6;
	if (family)
		ours = is_client_v6(lookup->remote_ip6[0], lookup->remote_ip6[1], lookup->remote_ip6[2],
				    lookup->remote_ip6[3]) &&
		       !is_client_v6(lookup->local_ip6[0], lookup->local_ip6[1], lookup->local_ip6[2],
				     lookup->local_ip6[3]);
	else
		ours = lookup->remote_ip4 == mp_clients.v4 && lookup->local_ip4 != mp_clients.v4;
	if (!ours)
		return SK_PASS;
	listener = bpf_map_lookup_elem(&mp_listeners, &family);
	if (!listener)
		return SK_PASS;
	bpf_sk_assign(lookup, listener, 0);
	bpf_sk_release(listener);
	return SK_PASS;
}

/* A program that has marked its socket itself keeps its mark: its packets go on over the TUN. */
SEC("sockops")
int mp_mark(struct bpf_sock_ops *callback)
{
	int mark = mp_clients.mark;
	int ours;

	if (callback->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || !callback->sk || callback->sk->mark)
		return 1;
	/* A socket of IPv6 may have an IPv4 connection. */
	ours = callback->local_ip4 == mp_clients.v4;
	if (!ours && callback->family == AF_INET6)
		ours = is_client_v6(callback->local_ip6[0], callback->local_ip6[1], callback->local_ip6[2],
				    callback->local_ip6[3]);
	if (ours && bpf_get_netns_cookie(callback) == mp_clients.netns_cookie)
		bpf_setsockopt(callback, SOL_SOCKET, SO_MARK, &mark, sizeof(mark));
	return 1;
}

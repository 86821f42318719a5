// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * Samples of every TCP and MPTCP subflow of a cgroup, whatever its congestion controller.
 *
 * The kernel calls back once a round trip, on each retransmission timeout and when a socket closes: the last two keep
 * a dying path visible. Sockets established before this was attached are not seen.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Mirrored by crates/kernel/src/telemetry.rs. */
struct mp_sample {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 netns_cookie;
	__u64 delivered_bytes; /* payload bytes acknowledged */
	__u64 pacing_rate;     /* bytes/s */
	__u32 token;           /* 0: plain TCP */
	__u32 cwnd;
	__u32 ssthresh;
	__u32 srtt_us;
	__u32 min_rtt_us;
	__u32 lost;
	__u16 family;
	__u16 local_port;
	__u16 remote_port;
	__u8 backup;
	__u8 closed;
	__u8 local[16];
	__u8 remote[16];
};

struct mp_telemetry {
	__u64 interval_ns;
	__u64 all_namespaces; /* 0: only those in mp_namespaces */
};

const volatile struct mp_telemetry mp_telemetry SEC(".rodata.telemetry");
__u64 mp_samples_dropped SEC(".data.dropped");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} mp_samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u64); /* cookie */
	__type(value, __u64);
} mp_namespaces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __s32);
	__type(value, __u64); /* time of the last sample */
} mp_last SEC(".maps");

static __always_inline void sample(struct bpf_sock_ops *event, int closed)
{
	struct bpf_sock *socket = event->sk;
	struct mp_sample *s;
	struct tcp_sock *tp;
	struct sock *sk;
	__u64 *last, now = bpf_ktime_get_ns();

	if (!socket)
		return;
	last = bpf_sk_storage_get(&mp_last, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!last || (*last && !closed && now - *last < mp_telemetry.interval_ns))
		return;
	tp = bpf_skc_to_tcp_sock(socket);
	if (!tp)
		return;
	*last = now;
	s = bpf_ringbuf_reserve(&mp_samples, sizeof(*s), 0);
	if (!s) {
		__sync_fetch_and_add(&mp_samples_dropped, 1);
		return;
	}
	sk = (struct sock *)tp;
	s->time_ns = now;
	s->netns_cookie = sk->__sk_common.skc_net.net->net_cookie;
	s->delivered_bytes = tp->bytes_acked;
	s->pacing_rate = sk->sk_pacing_rate;
	s->cwnd = tp->snd_cwnd;
	s->ssthresh = tp->snd_ssthresh;
	s->srtt_us = tp->srtt_us >> 3;
	s->min_rtt_us = tp->rtt_min.s[0].v;
	s->lost = tp->lost;
	s->family = sk->__sk_common.skc_family;
	s->local_port = sk->__sk_common.skc_num;
	s->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	s->token = 0;
	s->backup = 0;
	s->closed = closed;
	__builtin_memset(s->local, 0, sizeof(s->local));
	__builtin_memset(s->remote, 0, sizeof(s->remote));
	if (s->family == AF_INET) {
		*(__u32 *)s->local = sk->__sk_common.skc_rcv_saddr;
		*(__u32 *)s->remote = sk->__sk_common.skc_daddr;
	} else {
		bpf_probe_read_kernel(s->local, sizeof(s->local), &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(s->remote, sizeof(s->remote), &sk->__sk_common.skc_v6_daddr);
	}
	if (tp->is_mptcp) {
		struct mptcp_subflow_context *context = ((struct inet_connection_sock *)tp)->icsk_ulp_data;

		s->token = BPF_CORE_READ(context, token);
		/* Ours to send as backup because we asked for it, or because the peer did. */
		s->backup = BPF_CORE_READ_BITFIELD_PROBED(context, backup) |
			    BPF_CORE_READ_BITFIELD_PROBED(context, request_bkup);
	}
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP); /* the reader looks every 20 ms */
}

SEC("sockops")
int mp_watch(struct bpf_sock_ops *event)
{
	__u64 cookie = bpf_get_netns_cookie(event);

	/* On every event: another program may have asked for this socket's. */
	if (!mp_telemetry.all_namespaces && !bpf_map_lookup_elem(&mp_namespaces, &cookie))
		return 1;
	switch (event->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(event, BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG |
							 BPF_SOCK_OPS_STATE_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
	case BPF_SOCK_OPS_RTO_CB:
		sample(event, 0);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		if (event->args[1] == BPF_TCP_CLOSE)
			sample(event, 1);
		break;
	}
	return 1;
}

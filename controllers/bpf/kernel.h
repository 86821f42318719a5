/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * The few kernel types that we touch, kept by hand.
 *
 * Not a generated vmlinux.h: that would tie the build to the BTF of the machine it runs on (a container or a build
 * server has none), and its 150,000 lines hide which fields we depend on. Members and their order here are free:
 * preserve_access_index makes every access a CO-RE relocation, which libbpf resolves against the running kernel's BTF,
 * 6.1 and later. Only struct bpf_sock_ops, bpf_sk_lookup and the enums are ABI (include/uapi/linux/bpf.h) and keep
 * their layout.
 */
#ifndef MP_KERNEL_H
#define MP_KERNEL_H

typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef signed int __s32;
typedef unsigned int __u32;
typedef signed long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_SOCKMAP = 15,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,

	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_RB_NO_WAKEUP = 1,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* A plain read of a bit field is not relocated: those need BPF_CORE_READ_BITFIELD. */
#define RELOCATED __attribute__((preserve_access_index))

struct net {
	__u64 net_cookie;
} RELOCATED;

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
} RELOCATED;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} RELOCATED;

struct skb_ext {
	__u8 offset[1]; /* of each extension there is, in units of 8 bytes */
} RELOCATED;

struct sk_buff {
	__u8 active_extensions; /* bits */
	struct skb_ext *extensions;
} RELOCATED;

struct sk_buff_head {
	struct sk_buff *next;
} RELOCATED;

enum skb_ext_id {
	SKB_EXT_MPTCP, /* its value depends on the kernel's configuration */
};

struct mptcp_ext {
	__u64 data_seq;
	__u32 subflow_seq;
} RELOCATED;

struct bpf_local_storage;

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_write_queue;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;         /* SO_MAX_PACING_RATE; ~0: none */
	struct bpf_local_storage *sk_bpf_storage; /* none: no program has anything to remember of this socket */
} RELOCATED;

struct inet_connection_sock {
	void *icsk_ulp_data;
	__u8 icsk_ca_state : 5; /* enum tcp_ca_state */
	__u64 icsk_ca_priv[13]; /* 104 bytes */
} RELOCATED;

struct tcp_options_received {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
	__u16 tstamp_ok : 1;
} RELOCATED;

struct minmax_sample {
	__u32 t;
	__u32 v;
} RELOCATED;

struct minmax {
	struct minmax_sample s[3];
} RELOCATED;

struct tcp_rack {
	__u32 rtt_us; /* of the packet delivered last */
} RELOCATED;

struct tcp_sock {
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd; /* window before the reduction under way */
	__u32 srtt_us;    /* 8 times the smoothed RTT */
	__u32 mss_cache;
	__u32 write_seq;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 snd_wnd;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 max_packets_out;
	__u64 tcp_mstamp;
	__u64 bytes_acked;
	__u64 bytes_received;
	struct minmax rtt_min; /* windowed: 300 s by default */
	struct tcp_options_received rx_opt;
	struct tcp_rack rack;
	__u8 is_cwnd_limited : 1;
	__u8 tcp_usec_ts : 1;
	_Bool is_mptcp;
} RELOCATED;

struct mptcp_sock {
	__u64 snd_nxt;
	__u64 snd_una;
	__u64 wnd_end;
} RELOCATED;

struct mptcp_subflow_context {
	struct sock *conn; /* struct mptcp_sock */
	__u32 token;
	__u32 rel_write_seq; /* of tcp_sock.write_seq, counted from the subflow's first byte */
	__u32 backup : 1;
	__u32 request_bkup : 1;
	__u32 request_join : 1; /* we opened it by MP_JOIN */
} RELOCATED;

/* Linux 6.2: a pointer that may be read without bpf_probe_read_kernel, which costs some 50 ns. */
extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

struct rate_sample {
	long rtt_us; /* of the packet acknowledged last; negative: unknown */
} RELOCATED;

/* `name` comes first, so that the loader knows where to write it without reading BTF. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*sndbuf_expand)(struct sock *sk);
	void (*cong_control)(struct sock *sk, const struct rate_sample *rs);
};

/* As far as it is read here. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
};

struct bpf_sock_addr {
	__u32 user_family;
	__u32 user_ip4;
	__u32 user_ip6[4];
	__u32 user_port;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 msg_src_ip4;
	__u32 msg_src_ip6[4];
	struct bpf_sock *sk;
};

struct bpf_sk_lookup {
	__u64 cookie; /* or the socket chosen */
	__u32 family;
	__u32 protocol;
	__u32 remote_ip4;
	__u32 remote_ip6[4];
	__u16 remote_port;
	__u16 unused;
	__u32 local_ip4;
	__u32 local_ip6[4];
	__u32 local_port;
	__u32 ingress_ifindex;
};

struct sockaddr;

struct sockaddr_in {
	__u16 sin_family;
	__u16 sin_port;
	__u32 sin_addr;
	__u8 sin_zero[8];
};

struct sockaddr_in6 {
	__u16 sin6_family;
	__u16 sin6_port;
	__u32 sin6_flowinfo;
	__u32 sin6_addr[4];
	__u32 sin6_scope_id;
};

struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 unused[2];
	__u32 flags; /* bpf_sock_ops_cb_flags */
	__u32 state;
	__u32 unused_too[19];
	__u64 bytes_received;
	__u64 bytes_acked;
	struct bpf_sock *sk;
};

enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_RTO_CB = 8,
	BPF_SOCK_OPS_STATE_CB = 10,
	BPF_SOCK_OPS_RTT_CB = 12,

	BPF_SOCK_OPS_RTO_CB_FLAG = 1,
	BPF_SOCK_OPS_STATE_CB_FLAG = 4,
	BPF_SOCK_OPS_RTT_CB_FLAG = 8,

	BPF_TCP_CLOSE = 7,

	SK_PASS = 1,
};

enum {
	TCP_CONG_NON_RESTRICTED = 1, /* else the sysctl of a network namespace answers EPERM */
	TCP_CA_Loss = 4,
	SK_PACING_NONE = 0,
	SK_PACING_NEEDED = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	SOCK_STREAM = 1,
	IPPROTO_TCP = 6,
	SOL_SOCKET = 1,
	SO_MARK = 36,
	SO_BINDTOIFINDEX = 62,
};

#endif

// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * Programs that ask for a TCP socket get an MPTCP one, statically linked programs too: update_socket_protocol()
 * (net/socket.c, Linux 6.6) exists for this. The model is tools/testing/selftests/bpf/progs/mptcpify.c; the scope is
 * ours: one network namespace, where wanted one cgroup of it, and never multipilot's own processes.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum {
	SOCK_TYPE_MASK = 0xf, /* the rest of a type are flags, linux/net.h */
	IPPROTO_MPTCP = 262,
	PERNET_IDS = 256,
};

struct nsproxy {
	struct net *net_ns;
} RELOCATED;

struct task_struct {
	struct nsproxy *nsproxy;
	struct task_struct *group_leader;
	char comm[16];
} RELOCATED;

struct ctl_table {
	void *data;
} RELOCATED;

struct ctl_table_header {
	struct ctl_table *ctl_table;
} RELOCATED;

/* net/mptcp/ctrl.c */
struct mptcp_pernet {
	struct ctl_table_header *ctl_table_hdr;
	__u8 mptcp_enabled;
} RELOCATED;

struct net___generic {
	void *gen; /* struct net_generic: its length, then one pointer for each pernet id */
} RELOCATED;

/* Mirrors crates/kernel/src/mptcpify.rs. */
struct mp_scope {
	__u64 netns_cookie;
	__u64 by_cgroup; /* 1: only in the cgroup of mp_cgroup, or below it */
	char exempt[16]; /* name of the processes whose sockets stay TCP */
};

const volatile struct mp_scope mp_scope SEC(".rodata.scope");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} mp_cgroup SEC(".maps");

/* Index of MPTCP's data of a network namespace; 0: not found, and then nothing is changed. */
__u32 mp_pernet_id SEC(".data.pernet");

static __always_inline struct mptcp_pernet *pernet(struct net *net, __u32 id)
{
	void **generic = BPF_CORE_READ((struct net___generic *)net, gen);
	void *found = 0;

	bpf_probe_read_kernel(&found, sizeof(found), generic + id);
	return found;
}

/* The id is a static variable. Its owner is known by the sysctl table, whose first entry leads back to the owner. */
SEC("syscall")
int mp_find_pernet(void *context)
{
	struct net *net = bpf_get_current_task_btf()->nsproxy->net_ns;

	for (__u32 id = 1; id < PERNET_IDS; id++) {
		struct mptcp_pernet *it = pernet(net, id);
		struct ctl_table_header *header = BPF_CORE_READ(it, ctl_table_hdr);
		struct ctl_table *table = BPF_CORE_READ(header, ctl_table);

		if (it && BPF_CORE_READ(table, data) == __builtin_preserve_access_index(&it->mptcp_enabled)) {
			mp_pernet_id = id;
			return id;
		}
	}
	return 0;
}

static __always_inline int is_exempt(struct task_struct *task)
{
	char name[16] = {};

	BPF_CORE_READ_INTO(&name, task, group_leader, comm);
	for (int i = 0; i < 16; i++) {
		if (name[i] != mp_scope.exempt[i])
			return 0;
		if (!name[i])
			break;
	}
	return 1;
}

/* 0 lets the next program decide, and after the last one the kernel: TCP stays TCP. */
SEC("fmod_ret/update_socket_protocol")
int BPF_PROG(mp_mptcpify, int family, int type, int protocol)
{
	struct task_struct *task;
	struct net *net;

	if (family != AF_INET && family != AF_INET6)
		return 0;
	if ((type & SOCK_TYPE_MASK) != SOCK_STREAM || (protocol && protocol != IPPROTO_TCP))
		return 0;
	task = bpf_get_current_task_btf();
	net = task->nsproxy->net_ns;
	if (net->net_cookie != mp_scope.netns_cookie || !mp_pernet_id)
		return 0;
	if (mp_scope.by_cgroup && bpf_current_task_under_cgroup(&mp_cgroup, 0) != 1)
		return 0;
	if (is_exempt(task))
		return 0;
	/* Switched off, MPTCP refuses its sockets: the program would have none. */
	return BPF_CORE_READ(pernet(net, mp_pernet_id), mptcp_enabled) ? IPPROTO_MPTCP : 0;
}

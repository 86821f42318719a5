// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * A mark (SO_MARK) on every socket that programs of a cgroup, and of all below it, open from now on: routing rules tell
 * their packets by it. A program that sets a mark itself replaces it.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Mirrors crates/kernel/src/mark.rs. */
struct mp_marking {
	__u64 netns_cookie;
	__u32 mark;
	__u32 unused;
};

const volatile struct mp_marking mp_marking SEC(".rodata.marking");

SEC("cgroup/sock_create")
int mp_mark_socket(struct bpf_sock *socket)
{
	if (bpf_get_netns_cookie(socket) == mp_marking.netns_cookie)
		socket->mark = mp_marking.mark;
	return 1;
}

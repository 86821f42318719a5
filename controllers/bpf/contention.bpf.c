// SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only
/*
 * Subflows of one connection that come, work and go as fast as they can, to be run on several CPUs at once: the slots
 * of slots.h under the worst load. With -DMP_NO_CAS the protection is off and `mp_violations` must show it.
 */
#include "kernel.h"

#include "../mp.h"

#include "slots.h"

#include "../lia.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct mp_violations {
	__u64 joined;      /* not a violation: rounds that had a slot */
	__u64 turned_away; /* not a violation: MP_TRY_LATER and MP_NO_SLOT */
	__u64 vanished;    /* the entry was deleted under a subflow that held a slot */
	__u64 stolen;      /* the slot had another owner */
	__u64 unclean;     /* a fresh slot held remains of its last owner */
	__u64 overwritten; /* our word held what another wrote */
	__u64 window;      /* the window moved by more than the rule allows */
	__u64 one; /* 1, which the verifier cannot know: it would follow every constant through the arithmetic */
} mp_violations SEC(".data.violations") = { .one = 1 };

#define COUNT(field) __sync_fetch_and_add(&mp_violations.field, 1)
#define CALLS 4

/* The last state word is ours to mark; lia uses none. */
#define MARK (MP_STATE_WORDS - 1)

static __noinline int work(struct mp_key *key, __u64 owner, __u32 slot)
{
	struct mp_entry *entry = bpf_map_lookup_elem(&mp_connections, key);
	struct mp_ack ack = { .acked = mp_violations.one, .is_cwnd_limited = mp_violations.one };
	struct mp_subflow *self;
	__u64 cwnd, after;

	if (!entry || slot >= MP_MAX_SUBFLOWS) {
		COUNT(vanished);
		return 0;
	}
	self = &entry->connection.subflows[slot];
	if (*(volatile __u64 *)&self->state[MARK] || *(volatile __u64 *)&self->cwnd)
		COUNT(unclean);
	*(volatile __u64 *)&self->srtt_us = 20000;
	*(volatile __u64 *)&self->ssthresh = MP_MIN_CWND;
	*(volatile __u64 *)&self->cwnd = 10;
	*(volatile __u64 *)&self->state[MARK] = owner;
	for (int call = 0; call < CALLS; call++) {
		cwnd = *(volatile __u64 *)&self->cwnd;
		lia_on_ack(&entry->connection, slot, &ack);
		after = *(volatile __u64 *)&self->cwnd;
		if (*(volatile __u64 *)&self->owner != owner)
			COUNT(stolen);
		if (*(volatile __u64 *)&self->state[MARK] != owner)
			COUNT(overwritten);
		if (after != cwnd && after != cwnd + 1)
			COUNT(window);
	}
	COUNT(joined);
	slot_leave(entry, slot);
	return 0;
}

static long turn(__u32 round, void *context)
{
	struct mp_key key = { 1, 1 };
	__u64 owner = __sync_fetch_and_add(&mp_counters.owners, 1) + 1;
	int slot = slot_claim(&key, owner);

	if (slot < 0)
		COUNT(turned_away);
	else
		work(&key, owner, slot);
	return 0;
}

SEC("syscall")
int contend(void *context)
{
	bpf_loop(64, turn, 0, 0);
	return 0;
}

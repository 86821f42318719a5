/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * What a learned controller and its agent in user space tell each other: records out by a ring buffer, answers in by a
 * map that the agent has in its memory. The controller's own rules say what a late answer, or none, is worth.
 */
#ifndef MP_AGENT_H
#define MP_AGENT_H

#include "settings.h"

#ifdef MP_DDPG_MPCC_H

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} mp_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MP_ANSWERS);
	__type(key, __u32);
	__type(value, struct mp_answer);
} mp_answers SEC(".maps");

static __always_inline void agent_hear(struct mp_subflow *subflow)
{
	__u32 place = subflow->owner % MP_ANSWERS;
	struct mp_answer *answer;

	if (!subflow->state[DDPG_DEADLINE])
		return;
	answer = bpf_map_lookup_elem(&mp_answers, &place);
	if (answer && *(volatile __u64 *)&answer->owner == subflow->owner)
		subflow->state[DDPG_ANSWER] = *(volatile __u64 *)&answer->answer;
}

static __always_inline void agent_tell(struct sock *sk, const struct mp_subflow *subflow, __u64 serial)
{
	struct mp_record *record = bpf_ringbuf_reserve(&mp_records, sizeof(*record), 0);

	if (!record) /* the agent is dead or slow, which the controller will notice */
		return;
	record->time_ns = bpf_ktime_get_ns();
	record->owner = subflow->owner;
	record->serial = serial;
	record->rate = subflow->state[DDPG_RATE];
	record->mss = subflow->mss;
	record->delivered = subflow->state[DDPG_DELIVERED];
	record->lost = subflow->state[DDPG_LOST];
	record->elapsed_us = subflow->state[DDPG_ELAPSED_US];
	record->rtt_us = subflow->state[DDPG_RTT_US];
	record->min_rtt_us = subflow->min_rtt_us;
	record->others = subflow->state[MPCC_OTHERS];
	record->local_ip = sk->__sk_common.skc_rcv_saddr;
	record->remote_ip = sk->__sk_common.skc_daddr;
	record->local_port = sk->__sk_common.skc_num;
	record->remote_port = sk->__sk_common.skc_dport;
	bpf_ringbuf_submit(record, 0);
}

#define AGENT_HEAR(subflow) agent_hear(subflow)
#define AGENT_SERIAL(subflow) ((subflow)->state[DDPG_SERIAL])
#define AGENT_TELL(sk, subflow, serial) agent_tell(sk, subflow, serial)

#else

#define AGENT_HEAR(subflow)
#define AGENT_SERIAL(subflow) 0
#define AGENT_TELL(sk, subflow, serial)

#endif
#endif

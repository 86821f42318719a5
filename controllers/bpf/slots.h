/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Connections and their slots, shared by subflows on any CPU, without a lock.
 *
 * An entry lives as long as `references` is above zero. Nobody raises it from zero: whoever lowers it to zero is alone
 * with the entry and deletes it. The map may hand the memory of a deleted entry to another connection while we still
 * hold a pointer to it, therefore an entry is checked for its key after the reference is taken, not before.
 *
 * A delete can fail: an interrupt that finds its own CPU inside the same bucket gets EBUSY. The entry is then marked
 * abandoned, as good as new, and the next subflow of its key takes it over.
 *
 * Within an entry a slot is claimed by writing its owner with compare-and-swap, and from then on written by that owner
 * alone.
 */
#ifndef MP_SLOTS_H
#define MP_SLOTS_H

#include "settings.h"

/* An LRU map would evict live connections. Not preallocated: 4.6 kB times a size that few reach. */
_Static_assert(sizeof(struct mp_entry) == 4632, "the size above");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct mp_key);
	__type(value, struct mp_entry);
} mp_connections SEC(".maps");

const volatile struct mp_settings mp_settings SEC(".rodata.settings") = { .template.references = 1 };
struct mp_counters mp_counters SEC(".data.counters");

enum {
	MP_E2BIG = 7, /* include/uapi/asm-generic/errno-base.h */

	MP_NO_ENTRY = -1,  /* the map is full */
	MP_NO_SLOT = -2,   /* MP_MAX_SUBFLOWS are there already */
	MP_TRY_LATER = -3, /* the entry is just being deleted or created, or memory is short for a moment */
};

#define MP_ABANDONED (1ULL << 63)

#ifdef MP_NO_CAS
/* The same without protection, for the test that shows that the protection is needed. */
static __always_inline __u64 word_swap_if(__u64 *word, __u64 expected, __u64 desired)
{
	__u64 seen = *(volatile __u64 *)word;

	if (seen == expected)
		*(volatile __u64 *)word = desired;
	return seen;
}

static __always_inline __u64 word_add(__u64 *word, __u64 amount)
{
	__u64 seen = *(volatile __u64 *)word;

	*(volatile __u64 *)word = seen + amount;
	return seen;
}
#else
#define word_swap_if(word, expected, desired) __sync_val_compare_and_swap(word, expected, desired)
#define word_add(word, amount) __sync_fetch_and_add(word, amount)
#endif

static __always_inline void entry_put(struct mp_entry *entry)
{
	struct mp_key key;

	if (word_add(&entry->references, -1ULL) != 1)
		return;
	/* Only now is the key sure to be there: its creator may have written it after we came and before it left. */
	key = entry->key;
	/* Memory that is being filled anew for another entry must not pass for this one to who still points at it. */
	*(volatile __u64 *)&entry->key.token = MP_UNKNOWN;
	if (bpf_map_delete_elem(&mp_connections, &key)) {
		*(volatile __u64 *)&entry->key.token = key.token;
		__sync_lock_test_and_set(&entry->references, MP_ABANDONED);
	}
}

/* The entry of `key` with a reference on it, created if need be; or none, and why in `error`. */
static __always_inline struct mp_entry *entry_get(struct mp_key *key, int *error)
{
	struct mp_entry *entry;
	__u64 references;

	*error = MP_TRY_LATER;
	for (int attempt = 0; attempt < 4; attempt++) {
		entry = bpf_map_lookup_elem(&mp_connections, key);
		if (!entry) {
			long failed =
				bpf_map_update_elem(&mp_connections, key, (void *)&mp_settings.template, BPF_NOEXIST);

			if (failed == -MP_E2BIG) {
				*error = MP_NO_ENTRY;
				return 0;
			}
			if (failed)
				continue;
			entry = bpf_map_lookup_elem(&mp_connections, key);
			if (!entry)
				return 0;
			/* The template's reference is ours, so this is still our entry. */
			entry->key.netns_cookie = key->netns_cookie;
			entry->key.token = key->token;
			return entry;
		}
		references = *(volatile __u64 *)&entry->references;
		if (references == MP_ABANDONED) {
			if (word_swap_if(&entry->references, MP_ABANDONED, 1) == MP_ABANDONED)
				return entry;
			continue;
		}
		if (!references || word_swap_if(&entry->references, references, references + 1) != references)
			continue;
		if (entry->key.token == key->token && entry->key.netns_cookie == key->netns_cookie)
			return entry;
		entry_put(entry);
	}
	return 0;
}

/* Claims a slot of `key`'s connection for `owner`: its number, or one of the negatives above. */
static __noinline int slot_claim(struct mp_key *key, __u64 owner)
{
	int error;
	struct mp_entry *entry = entry_get(key, &error);

	if (!entry)
		return error;
	for (int i = 0; i < MP_MAX_SUBFLOWS; i++)
		if (!word_swap_if(&entry->connection.subflows[i].owner, 0, owner))
			return i;
	entry_put(entry);
	return MP_NO_SLOT;
}

/* All words of a subflow but its owner, which is the first. */
#define SLOT_WORDS (sizeof(struct mp_subflow) / sizeof(__u64))

static __always_inline void slot_copy(struct mp_subflow *to, struct mp_subflow *from)
{
	for (__u64 word = 1; word < SLOT_WORDS; word++)
		((volatile __u64 *)to)[word] = ((volatile __u64 *)from)[word];
}

/* Gives the slot back, and with the last one the entry. */
static __always_inline void slot_leave(struct mp_entry *entry, __u32 slot)
{
	struct mp_subflow *subflow = &entry->connection.subflows[slot];

	for (__u64 word = 1; word < SLOT_WORDS; word++)
		((volatile __u64 *)subflow)[word] = 0;
	__sync_lock_test_and_set(&subflow->owner, 0);
	entry_put(entry);
}

#endif

/* A middlebox for `tc`: turns MPTCP options of packets with data into NOPs, and leaves handshakes alone. */
#define SEC(name) __attribute__((section(name), used))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct __sk_buff;

/* include/uapi/linux/bpf.h */
static long (*load)(const struct __sk_buff *, u32, void *, u32) = (void *)26;
static long (*store)(struct __sk_buff *, u32, const void *, u32, u64) = (void *)9;
static long (*replace_l4_checksum)(struct __sk_buff *, u32, u64, u64, u64) = (void *)11;

#define IP 14 /* behind the Ethernet header */
#define TCP (IP + 20)
#define CHECKSUM (TCP + 16)
#define OPTIONS (TCP + 20)
#define SYN 2
#define MPTCP 30
#define MOST 40 /* bytes of options */

char LICENSE[] SEC("license") = "GPL";

static void clear(struct __sk_buff *skb, u32 at, u8 length)
{
	const u8 nop = 1;
	u8 old;
	int i;

	for (i = 0; i < MOST; i++) {
		u32 shift = (at + i) & 1 ? 8 : 0;

		if (i >= length || load(skb, at + i, &old, 1))
			return;
		replace_l4_checksum(skb, CHECKSUM, (u16)(old << shift), (u16)(nop << shift), 2);
		store(skb, at + i, &nop, 1, 0);
	}
}

SEC("tc") int strip(struct __sk_buff *skb)
{
	u8 type[2], protocol, total[2], offset, flags, kind, length;
	u32 at, end;
	int i;

	if (load(skb, 12, type, 2) || type[0] != 8 || type[1] || load(skb, IP + 9, &protocol, 1) || protocol != 6 ||
	    load(skb, IP + 2, total, 2) || load(skb, TCP + 12, &offset, 1) || load(skb, TCP + 13, &flags, 1))
		return 0;
	at = OPTIONS;
	end = TCP + (offset >> 4) * 4;
	if (flags & SYN || IP + (total[0] << 8) + total[1] <= end)
		return 0;
	for (i = 0; i < MOST && at < end; i++) {
		if (load(skb, at, &kind, 1) || !kind)
			return 0;
		if (kind == 1) {
			at++;
			continue;
		}
		if (load(skb, at + 1, &length, 1) || length < 2)
			return 0;
		if (kind == MPTCP)
			clear(skb, at, length);
		at += length;
	}
	return 0;
}

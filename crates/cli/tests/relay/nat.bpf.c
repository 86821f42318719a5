/*
 * One way through a NAT on a link, for `tc`: the ports of the device's TCP and UDP (IPv4) are others outside, by KEY. A
 * NAT with another KEY has forgotten its bindings. PORT says which port of a packet is the device's: 0 the source's, 2
 * the destination's. With STRICT nobody hears of the connections that are broken off.
 */
#define SEC(name) __attribute__((section(name), used))

struct __sk_buff;

/* include/uapi/linux/bpf.h */
static long (*load)(const struct __sk_buff *, unsigned, void *, unsigned) = (void *)26;
static long (*store)(struct __sk_buff *, unsigned, const void *, unsigned, unsigned long long) = (void *)9;
static long (*replace_sum)(struct __sk_buff *, unsigned, unsigned long long, unsigned long long,
			   unsigned long long) = (void *)11;
#define MARK_MANGLED_0 0x20

#define ETHERNET 14
#define TYPE 12
#define IPV4 0x0008 /* as it is in memory: big-endian */
#define PROTOCOL (ETHERNET + 9)
#define TRANSPORT (ETHERNET + 20)
#define TCP 6
#define UDP 17
#define FLAGS (TRANSPORT + 13)
#define RST 4
#define PASS 0
#define DROP 2

char LICENSE[] SEC("license") = "GPL";

SEC("tc")
int translate(struct __sk_buff *skb)
{
	unsigned char protocol, flags;
	unsigned short type, port, other;

	if (load(skb, TYPE, &type, 2) || type != IPV4 || load(skb, PROTOCOL, &protocol, 1))
		return PASS;
	if (protocol != TCP && protocol != UDP)
		return PASS;
	if (STRICT && protocol == TCP && !load(skb, FLAGS, &flags, 1) && flags & RST)
		return DROP;
	if (load(skb, TRANSPORT + PORT, &port, 2))
		return PASS;
	other = port ^ KEY;
	if (protocol == TCP)
		replace_sum(skb, TRANSPORT + 16, port, other, 2);
	else
		replace_sum(skb, TRANSPORT + 6, port, other, MARK_MANGLED_0 | 2);
	store(skb, TRANSPORT + PORT, &other, 2, 0);
	return PASS;
}

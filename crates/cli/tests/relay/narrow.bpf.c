/*
 * A link for `tc` that leads over a router with an MTU, from which no ICMP comes: longer packets vanish. Of a packet
 * that is yet to be cut into segments (UDP over IPv4) a segment counts.
 */
#define SEC(name) __attribute__((section(name), used))

/* include/uapi/linux/bpf.h */
struct __sk_buff {
	unsigned len;
	unsigned others[43];
	unsigned gso_size;
};

#define ETHERNET 14
#define HEADERS (20 + 8)
#define PASS 0
#define DROP 2

char LICENSE[] SEC("license") = "GPL";

SEC("tc")
int narrow(struct __sk_buff *skb)
{
	unsigned segment = skb->gso_size;

	return (segment ? segment + HEADERS : skb->len - ETHERNET) > MTU ? DROP : PASS;
}

/* A link for `tc` that loses one UDP packet in twenty (IPv4), at random. */
#define SEC(name) __attribute__((section(name), used))

struct __sk_buff;

/* include/uapi/linux/bpf.h */
static long (*load)(const struct __sk_buff *, unsigned, void *, unsigned) = (void *)26;
static unsigned (*random)(void) = (void *)7;

#define PROTOCOL (14 + 9) /* behind the Ethernet header */
#define UDP 17
#define PASS 0
#define DROP 2

char LICENSE[] SEC("license") = "GPL";

SEC("tc")
int lose(struct __sk_buff *skb)
{
	unsigned char protocol;

	if (load(skb, PROTOCOL, &protocol, 1) || protocol != UDP)
		return PASS;
	return random() % 20 ? PASS : DROP;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Makes the clients that reach a device old: a SYN that is retransmitted within half a second vanishes.
 *
 * Since Linux 5.6 a client whose SYN is answered with a stray ACK retransmits it after two ticks of
 * its timer; older kernels and other systems wait out the initial timeout of a second. Loaded by tc
 * at ingress; what it takes is consumed, not dropped: an old client would not have sent it. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u8 __u8;
typedef unsigned short __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
enum bpf_map_type { BPF_MAP_TYPE_LRU_HASH = 9 };
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define QUICK_NS     500000000ull
#define FROM_NETWORK 1 /* BPF_HDR_START_NET */
#define PASS	     0 /* TC_ACT_OK */
#define TAKE	     4 /* TC_ACT_STOLEN */
#define TCP	     6
#define SYN	     0x02
#define RST	     0x04
#define ACK	     0x10

/* What tells one connection's SYN from another's. */
struct syn {
	u8 addresses[32]; /* source, destination */
	u8 tcp[8]; /* ports, sequence number */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct syn);
	__type(value, u64);
	__uint(max_entries, 65536);
} first_seen SEC(".maps");

SEC("tc")
int old_client(struct __sk_buff *skb)
{
	struct syn key = {};
	u8 ip[10], tcp[14];
	u64 now, *seen;
	u32 header;

	if (bpf_skb_load_bytes_relative(skb, 0, ip, sizeof(ip), FROM_NETWORK))
		return PASS;
	if (ip[0] >> 4 == 4) {
		header = (ip[0] & 15) * 4;
		if (ip[9] != TCP ||
		    bpf_skb_load_bytes_relative(skb, 12, key.addresses, 8, FROM_NETWORK))
			return PASS;
	} else {
		header = 40;
		if (ip[6] != TCP ||
		    bpf_skb_load_bytes_relative(skb, 8, key.addresses, 32, FROM_NETWORK))
			return PASS;
	}
	if (bpf_skb_load_bytes_relative(skb, header, tcp, sizeof(tcp), FROM_NETWORK))
		return PASS;
	if ((tcp[13] & (SYN | RST | ACK)) != SYN)
		return PASS;
	__builtin_memcpy(key.tcp, tcp, sizeof(key.tcp));
	now = bpf_ktime_get_ns();
	seen = bpf_map_lookup_elem(&first_seen, &key);
	if (seen)
		return now - *seen < QUICK_NS ? TAKE : PASS;
	bpf_map_update_elem(&first_seen, &key, &now, 0);
	return PASS;
}

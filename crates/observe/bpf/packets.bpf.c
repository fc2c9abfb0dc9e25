// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `packets`: SYN, SYN-ACK, RST and FIN on the wire of a namespace.
 *
 * The filter of a packet socket: it hands what it finds to the ring with a stamp of the monotonic
 * clock, and lets no packet into the socket. Loaded once per namespace, all with one ring. */
#include "common.h"
#include "filter.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ETH_P_8021Q	0x8100
#define ETH_P_8021AD	0x88a8
#define PACKET_OUTGOING 4

#define IPPROTO_HOPOPTS	 0
#define IPPROTO_ROUTING	 43
#define IPPROTO_FRAGMENT 44
#define IPPROTO_AH	 51
#define IPPROTO_DSTOPTS	 60
#define EXTENSIONS	 8 /* more than any sane packet has */

#define FIN 1
#define SYN 2
#define RST 4

/* Set before load. */
const volatile u32 netns;

TW_SHARE(struct, tw_packet);
TW_SHARE(enum, tw_packet_loss);

TW_COUNTERS(lost, TW_PACKET_LOSSES);

struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark;
	u32 queue_mapping;
	u32 protocol;
	u32 vlan_present;
	u32 vlan_tci;
	u32 vlan_proto;
	u32 priority;
	u32 ingress_ifindex;
	u32 ifindex;
};

/* Where things are in a packet. */
struct layout {
	u32 ip;
	u32 tcp;
	u32 len; /* of the IP packet with its header; 0 when it does not say */
	u8 ttl;
	u8 family;
};

static __always_inline int unreadable(void)
{
	count(&lost, TW_PACKET_UNREADABLE);
	return 0;
}

/* 1 when `at` holds TCP's header, 0 when the packet is not for us, -1 when it cannot be told. */
static __always_inline int find_tcp_v4(struct __sk_buff *skb, struct layout *at)
{
	u8 ip[20];

	if (bpf_skb_load_bytes(skb, at->ip, ip, sizeof(ip)))
		return -1;
	if (ip[9] != IPPROTO_TCP || ((ip[6] & 0x1f) | ip[7])) /* a later fragment has no header */
		return 0;
	if ((ip[0] & 15) < 5)
		return -1;
	at->family = 4;
	at->ttl = ip[8];
	at->len = ip[2] << 8 | ip[3];
	at->tcp = at->ip + (ip[0] & 15) * 4;
	return 1;
}

static __always_inline int find_tcp_v6(struct __sk_buff *skb, struct layout *at)
{
	u8 ip[8], ext[4], next;
	u32 len;

	if (bpf_skb_load_bytes(skb, at->ip, ip, sizeof(ip)))
		return -1;
	at->family = 6;
	at->ttl = ip[7];
	len = ip[4] << 8 | ip[5];
	at->len = len ? len + 40 : 0;
	at->tcp = at->ip + 40;
	next = ip[6];
	for (int i = 0; i < EXTENSIONS; i++) {
		if (next == IPPROTO_TCP)
			return 1;
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS &&
		    next != IPPROTO_FRAGMENT && next != IPPROTO_AH)
			return 0;
		if (bpf_skb_load_bytes(skb, at->tcp, ext, sizeof(ext)))
			return -1;
		if (next == IPPROTO_FRAGMENT) {
			if (ext[2] || ext[3] & 0xf8)
				return 0;
			at->tcp += 8;
		} else if (next == IPPROTO_AH) {
			at->tcp += (ext[1] + 2) * 4;
		} else {
			at->tcp += (ext[1] + 1) * 8;
		}
		next = ext[0];
	}
	return -1;
}

static __always_inline bool is_vlan(u16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

/* Whether IP begins here and not a tag, which lies about lengths when it is read as IP. */
static __always_inline bool is_ip(struct __sk_buff *skb, u32 at)
{
	u8 ip[6];

	if (bpf_skb_load_bytes(skb, at, ip, sizeof(ip)))
		return false;
	return (ip[0] >> 4 == 4 && at + (ip[2] << 8 | ip[3]) <= skb->len) ||
	       (ip[0] >> 4 == 6 && at + (ip[4] << 8 | ip[5]) + 40 <= skb->len);
}

/* A packet comes here without its link header. A tag that the device did not take out precedes IP;
 * of an outgoing packet the kernel mostly passes over it, without saying so. */
static __always_inline int find_tcp(struct __sk_buff *skb, struct layout *at)
{
	bool outgoing = skb->pkt_type == PACKET_OUTGOING;
	u16 protocol = skb->protocol;
	u8 first;

	at->ip = 0;
	for (int i = 0; i < 2 && is_vlan(protocol); i++) {
		if (outgoing && is_ip(skb, at->ip))
			break;
		if (bpf_skb_load_bytes(skb, at->ip + 2, &protocol, sizeof(protocol)))
			return -1;
		at->ip += 4;
	}
	if (protocol != bpf_htons(ETH_P_IP) && protocol != bpf_htons(ETH_P_IPV6) &&
	    !(is_vlan(protocol) && outgoing))
		return 0;
	if (bpf_skb_load_bytes(skb, at->ip, &first, sizeof(first)))
		return -1;
	if (first >> 4 == 4)
		return find_tcp_v4(skb, at);
	if (first >> 4 == 6)
		return find_tcp_v6(skb, at);
	return 0;
}

static __always_inline bool read_addrs(struct __sk_buff *skb, struct layout *at,
				       struct tw_packet *p)
{
	__be32 v4[2];

	if (at->family == 6)
		return !bpf_skb_load_bytes(skb, at->ip + 8, p->src_addr, 16) &&
		       !bpf_skb_load_bytes(skb, at->ip + 24, p->dst_addr, 16);
	if (bpf_skb_load_bytes(skb, at->ip + 12, v4, sizeof(v4)))
		return false;
	v4_mapped(p->src_addr, v4[0]);
	v4_mapped(p->dst_addr, v4[1]);
	return true;
}

SEC("socket")
int on_packet(struct __sk_buff *skb)
{
	u32 len, header;
	struct layout at = {};
	struct tw_packet *p;
	u8 tcp[20];
	int found;

	found = find_tcp(skb, &at);
	if (found < 0)
		return unreadable();
	if (!found)
		return 0;
	if (bpf_skb_load_bytes(skb, at.tcp, tcp, sizeof(tcp)))
		return unreadable();
	if (!(tcp[13] & (FIN | SYN | RST)) || !ports_ok(tcp[0] << 8 | tcp[1], tcp[2] << 8 | tcp[3]))
		return 0;
	p = bpf_ringbuf_reserve(&ring, sizeof(*p), 0);
	if (!p) {
		count(&lost, TW_PACKET_LOST_RING);
		return 0;
	}
	__builtin_memset(p, 0, sizeof(*p));
	if (!read_addrs(skb, &at, p)) {
		bpf_ringbuf_discard(p, BPF_RB_NO_WAKEUP);
		return unreadable();
	}
	if (!addrs_ok(p->src_addr, p->dst_addr)) {
		bpf_ringbuf_discard(p, BPF_RB_NO_WAKEUP);
		return 0;
	}
	p->time_ns = bpf_ktime_get_ns();
	p->netns = netns;
	p->ifindex = skb->ifindex;
	p->family = at.family;
	p->ttl = at.ttl;
	p->outgoing = skb->pkt_type == PACKET_OUTGOING;
	header = (tcp[12] >> 4) * 4;
	if (header < sizeof(tcp))
		header = sizeof(tcp);
	__builtin_memcpy(p->tcp, tcp, sizeof(tcp));
	p->tcp_len = sizeof(tcp);
	/* Options in steps of their unit: a constant length is what the verifier likes best. */
	for (u32 i = sizeof(tcp); i < TW_TCP_HEADER && i < header; i += 4) {
		if (bpf_skb_load_bytes(skb, at.tcp + i, p->tcp + i, 4))
			break;
		p->tcp_len = i + 4;
	}
	/* Ethernet pads short packets: IP knows better where they end. */
	len = at.len ? at.ip + at.len : skb->len;
	p->payload = len > at.tcp + header ? len - at.tcp - header : 0;
	bpf_ringbuf_submit(p, BPF_RB_NO_WAKEUP);
	return 0;
}

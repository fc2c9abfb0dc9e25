/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The TCP packet behind a wakeup: each CPU remembers the socket whose packet it handled last; a
 * wakeup belongs to that packet while the socket is still locked for it. Segments retransmitted are
 * remembered by their addresses, as the receiver sees them, and sequence number. */
#ifndef TCPWHY_TASK_LINK_H
#define TCPWHY_TASK_LINK_H

#include "common.h"

struct segment {
	u8 local_addr[16];
	u8 remote_addr[16];
	u16 local_port;
	u16 remote_port;
	u32 seq;
};

struct resent {
	u64 time_ns;
	u32 attempt;
	u16 state; /* of the sender */
	u16 caller; /* tw_caller */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct segment);
	__type(value, struct resent);
	__uint(max_entries, 16384);
} resent_segments SEC(".maps");

enum { PACKET_NONE, PACKET_DATA, PACKET_HANDSHAKE, PACKET_RESET, PACKET_NAMES };

struct packet {
	u64 sk;
	u64 jiffies;
	u32 seq; /* of the packet; for a handshake, of the peer's SYN */
	u32 own_seq; /* for a handshake, of our SYN */
	u32 kind;
	u32 server_family; /* of a name server's answer: who sent it */
	u8 server_addr[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct packet);
	__uint(max_entries, 1);
} last_packet SEC(".maps");

static __always_inline struct packet *packet_of(const void *sk, u32 kind)
{
	u32 zero = 0;
	struct packet *p = bpf_map_lookup_elem(&last_packet, &zero);

	if (!p)
		return NULL;
	p->sk = (u64)sk;
	p->jiffies = bpf_jiffies64();
	p->kind = kind;
	return p;
}

/* The sender's socket; the key is what the receiver will see. */
static __always_inline void seen_from_there(struct segment *s, const struct sock_common *skc)
{
	fill_addrs(s->remote_addr, s->local_addr, skc);
	s->remote_port = BPF_CORE_READ(skc, skc_num);
	s->local_port = bpf_ntohs(BPF_CORE_READ(skc, skc_dport));
}

static __always_inline void seen_from_here(struct segment *s, const struct sock_common *skc)
{
	fill_addrs(s->local_addr, s->remote_addr, skc);
	s->local_port = BPF_CORE_READ(skc, skc_num);
	s->remote_port = bpf_ntohs(BPF_CORE_READ(skc, skc_dport));
}

/* `timeouts` is the kernel's count, which some versions raise after sending and ACK-driven
 * retransmissions do not raise at all: ours is of this very segment. */
static __always_inline void remember(struct segment *s, u32 state, u32 timeouts, u32 caller)
{
	struct resent *before = bpf_map_lookup_elem(&resent_segments, s);
	struct resent r = {
	    .time_ns = bpf_ktime_get_ns(),
	    .attempt = 1,
	    .state = state,
	    .caller = caller,
	};

	if (before)
		r.attempt = before->attempt + 1;
	if (timeouts > r.attempt)
		r.attempt = timeouts;
	bpf_map_update_elem(&resent_segments, s, &r, BPF_ANY);
}

/* Whether the packet of this socket is still being handled. An interrupted owner holds it, too:
 * the waker's stack tells these apart, in user space. */
static __always_inline bool in_hand(const struct sock *sk)
{
	if (BPF_CORE_READ(sk, sk_lock.owned))
		return true;
	if (bpf_core_field_exists(sk->sk_lock.slock.rlock.raw_lock.val))
		return BPF_CORE_READ(sk, sk_lock.slock.rlock.raw_lock.val.counter) != 0;
	return true;
}

static __always_inline void link_to_packet(struct tw_wait *w)
{
	u32 zero = 0;
	struct packet *p = bpf_map_lookup_elem(&last_packet, &zero);
	const struct sock *sk;
	struct resent *r = NULL;
	struct segment s = {};

	if (!p || !p->kind || bpf_jiffies64() - p->jiffies > 1)
		return;
	if (p->kind == PACKET_NAMES) {
		/* No lock is held for a datagram: only the waker's stack tells that it is the one. */
		w->server_family = p->server_family;
		__builtin_memcpy(w->server_addr, p->server_addr, 16);
		w->bits |= TW_WAIT_NAMES;
		return;
	}
	sk = (const struct sock *)p->sk;
	if (!in_hand(sk))
		return;
	seen_from_here(&s, &sk->__sk_common);
	w->family = BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6 ? 6 : 4;
	w->sock = sock_id(sk);
	__builtin_memcpy(w->local_addr, s.local_addr, 16);
	__builtin_memcpy(w->remote_addr, s.remote_addr, 16);
	w->local_port = s.local_port;
	w->remote_port = s.remote_port;
	w->bits |= TW_WAIT_CAUSE;
	if (p->kind != PACKET_RESET) {
		s.seq = p->seq;
		r = bpf_map_lookup_elem(&resent_segments, &s);
	}
	if (!r && p->kind == PACKET_HANDSHAKE) {
		/* The peer's SYN came at once; was ours the one that had to be retransmitted? */
		seen_from_there(&s, &sk->__sk_common);
		s.seq = p->own_seq;
		r = bpf_map_lookup_elem(&resent_segments, &s);
		if (r)
			w->bits |= TW_WAIT_ANSWER;
	}
	if (r) {
		w->attempt = r->attempt;
		w->sender_state = r->state;
		w->resent_caller = r->caller;
		w->sent_ago_ns = w->time_ns > r->time_ns ? w->time_ns - r->time_ns : 0;
		w->bits |= TW_WAIT_RESENT;
	}
}

#endif

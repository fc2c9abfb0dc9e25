/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whole lives: a connection that opens and ends soon, with nothing retransmitted, is one record, not three.
 * Until it ends it waits in a slot, which user space empties now and then. Included by
 * events.bpf.c. */
#ifndef TCPWHY_LIVES_H
#define TCPWHY_LIVES_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct tw_slot);
	__uint(max_entries, TW_SLOTS);
} slots SEC(".maps");

/* Whether the word was `from`, and is now BUSY. */
static __always_inline bool slot_take(struct tw_slot *s, u64 from)
{
	return __sync_val_compare_and_swap(&s->word, from, TW_SLOT_BUSY) == from;
}

static __always_inline void slot_leave(struct tw_slot *s, u64 word)
{
#ifdef __TARGET_ARCH_x86
	/* Stores are seen in their order: only the compiler has to be told. */
	asm volatile("" ::: "memory");
	*(volatile u64 *)&s->word = word;
#else
	__sync_lock_test_and_set(&s->word, word);
#endif
}

/* How many changes of state a life is made of so far. */
static __always_inline u32 changes(const struct tw_slot *s)
{
	return (s->life.connect_ns ? 1 : 0) + (s->life.established_ns ? 1 : 0);
}

/* What is known so far, as a record of its own. */
static __always_inline void tell_opened(const struct tw_slot *s)
{
	struct tw_life *life = bpf_ringbuf_reserve(&ring, sizeof(*life), 0);

	if (!life) {
		count_all(&lost, TW_STATE, changes(s));
		return;
	}
	*life = s->life;
	bpf_ringbuf_submit(life, BPF_RB_NO_WAKEUP);
}

/* Whether the slot holds this connection: where an end was not seen, the socket may since have become
 * another one. */
static __always_inline bool same_peer(const struct tw_slot *s, const struct sock *sk)
{
	const struct sock_common *skc = &sk->__sk_common;
	const struct tw_event *e = &s->life.event;
	const __be32 *remote = (const __be32 *)e->remote_addr;

	if (e->remote_port != bpf_ntohs(skc->skc_dport))
		return false;
	if (skc->skc_family != AF_INET6)
		return remote[3] == skc->skc_daddr;
	for (int i = 0; i < 4; i++)
		if (remote[i] != skc->skc_v6_daddr.in6_u.u6_addr32[i])
			return false;
	return true;
}

/* Tells what the slot holds, and frees it: it does not become a life. */
static __always_inline void give_up(struct tw_slot *s)
{
	tell_opened(s);
	slot_leave(s, TW_SLOT_FREE);
}

/* A connection begins to wait for its end. */
static __always_inline bool life_begins(struct tw_slot *s, u64 id, struct sock *sk,
					struct tcp_sock *tp, int old, int new)
{
	struct tw_event *e = &s->life.event;

	if (!slot_take(s, TW_SLOT_FREE)) {
		/* Another's; or this socket's, of a life whose end was not seen. */
		if (!slot_take(s, id))
			return false;
		tell_opened(s);
	}
	start(e, TW_STATE, netns_of(&sk->__sk_common));
	fill_change(e, sk, tp, old, new);
	s->life.connect_ns = new == TCP_SYN_SENT ? e->time_ns : 0;
	s->life.established_ns = 0;
	if (new == TCP_ESTABLISHED) {
		s->life.established_ns = e->time_ns;
		fill_agreed(e, sk, tp, old);
	}
	if (!wanted(e)) {
		slot_leave(s, TW_SLOT_FREE);
		return false;
	}
	slot_leave(s, id);
	return true;
}

/* Its connect() succeeded. */
static __always_inline bool life_goes_on(struct tw_slot *s, u64 id, struct sock *sk,
					 struct tcp_sock *tp)
{
	struct tw_event *e = &s->life.event;

	if (!slot_take(s, id))
		return false;
	if (tp->total_retrans || s->life.established_ns || !same_peer(s, sk)) {
		give_up(s);
		return false;
	}
	/* The source address may have been chosen since. */
	e->family = load_addrs(e->local_addr, e->remote_addr, &sk->__sk_common);
	e->local_port = bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport);
	e->old_state = TCP_SYN_SENT;
	e->state = TCP_ESTABLISHED;
	fill_tcp(e, tp);
	fill_agreed(e, sk, tp, TCP_SYN_SENT);
	s->life.established_ns = bpf_ktime_get_ns();
	slot_leave(s, id);
	return true;
}

static __always_inline bool life_ends(struct tw_slot *s, u64 id, struct sock *sk,
				      struct tcp_sock *tp, int old)
{
	struct tw_life *life;
	struct tw_event *e;

	if (!slot_take(s, id))
		return false;
	if (tp->total_retrans || !s->life.established_ns || !same_peer(s, sk)) {
		give_up(s);
		return false;
	}
	life = bpf_ringbuf_reserve(&ring, sizeof(*life), 0);
	if (life) {
		*life = s->life;
		e = &life->event;
		e->time_ns = bpf_ktime_get_ns();
		e->old_state = old;
		e->state = TCP_CLOSE;
		fill_tcp(e, tp);
		e->bytes_acked = tp->bytes_acked;
		e->bytes_received = tp->bytes_received;
		fill_end(e, sk, tp);
		bpf_ringbuf_submit(life, BPF_RB_NO_WAKEUP);
	} else {
		count_all(&lost, TW_STATE, changes(s) + 1);
	}
	slot_leave(s, TW_SLOT_FREE);
	return true;
}

/* Whether the change is kept, or told, as part of a life. */
static __always_inline bool fold(u64 id, u32 slot, struct sock *sk, struct tcp_sock *tp, int old,
				 int new)
{
	struct tw_slot *s = bpf_map_lookup_elem(&slots, &slot);

	if (!s || id < TW_SLOT_LEAST_ID)
		return false;
	if (new == TCP_CLOSE)
		return life_ends(s, id, sk, tp, old);
	if (old == TCP_SYN_SENT && new == TCP_ESTABLISHED)
		return life_goes_on(s, id, sk, tp);
	/* One that is bound to a port beforehand says something that a life does not. */
	if (old == TCP_CLOSE && new == TCP_SYN_SENT && tp->inet_conn.icsk_inet.inet_sport)
		return false;
	if (old == TCP_SYN_RECV && new == TCP_ESTABLISHED && tp->total_retrans)
		return false;
	if ((old == TCP_CLOSE && new == TCP_SYN_SENT) ||
	    (old == TCP_SYN_RECV && new == TCP_ESTABLISHED))
		return life_begins(s, id, sk, tp, old, new);
	return false;
}

#endif

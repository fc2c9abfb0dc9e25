/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* An exchange that has ended: it is added to the sums of its service, and the slowest is told by itself. */
#ifndef TCPWHY_COUNTED_H
#define TCPWHY_COUNTED_H

#include "exchange.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__type(key, struct tw_service);
	__type(value, struct tw_requests);
	__uint(max_entries, 1 << 12); /* memory only for what there is: 28 MB at most */
} services SEC(".maps");

const struct tw_requests fresh;

static __always_inline void fill(struct tw_exchange *x, const struct end *e, const struct sock *sk)
{
	const struct sock_common *skc = &sk->__sk_common;

	__builtin_memset(x, 0, sizeof(*x));
	x->time_ns = e->since;
	x->began_ns = e->began;
	__builtin_memcpy(x->ns, e->ns, sizeof(x->ns));
	x->alone_ns = e->alone_ns;
	x->cpu_ns = e->cpu_ns;
	x->runqueue_ns = e->runqueue_ns;
	x->unread_longest_ns = e->longest;
	x->service = e->service;
	x->family = load_addrs(x->local_addr, x->remote_addr, skc);
	x->local_port = local_port_of(sk, skc->skc_num);
	x->remote_port = bpf_ntohs(skc->skc_dport);
	x->pid = e->pid;
	x->tid = e->tid;
	x->retransmits = e->retransmits;
	x->overlapped = e->overlapped;
}

static __always_inline struct tw_requests *requests_of(const struct end *e)
{
	struct tw_requests *r = bpf_map_lookup_elem(&services, &e->service);

	if (r)
		return r;
	bpf_map_update_elem(&services, &e->service, &fresh, 1 /* BPF_NOEXIST */);
	r = bpf_map_lookup_elem(&services, &e->service);
	if (!r)
		count(&counts, LOST_SERVICE);
	return r;
}

#define ADD(field, n) __sync_fetch_and_add(&(field), n)

static __always_inline void time_it(u32 *buckets, u64 ns, u32 weight)
{
	u32 at = bucket(ns);

	if (at < TW_BUCKETS)
		ADD(buckets[at], weight);
}

static __always_inline void tell(const struct end *e, const struct sock *sk, bool given_up)
{
	struct tw_exchange *x = bpf_ringbuf_reserve(&ring, sizeof(*x), 0);

	if (!x) {
		count(&counts, LOST_RING);
		return;
	}
	fill(x, e, sk);
	x->sock = sock_id(sk);
	x->open = x->given_up = given_up;
	bpf_ringbuf_submit(x, BPF_RB_NO_WAKEUP);
}

/* An exchange has ended. Not inlined: several programs and places end one. */
static __noinline int count_exchange(struct end *e, struct sock *sk)
{
	struct tw_requests *r;
	u64 took, weight;

	if (!e || !sk)
		return 0;
	r = requests_of(e);
	if (!r)
		return 0;
	count(&counts, COUNTED);
	weight = e->weight;
	took = total(e);
	ADD(r->exchanges, weight);
	if (e->overlapped)
		ADD(r->overlapped, weight);
	if (e->retransmits)
		ADD(r->retransmits, weight * e->retransmits);
	for (int i = 0; i < TW_PARTS; i++)
		if (e->ns[i])
			ADD(r->ns[i], weight * e->ns[i]);
	if (e->alone_ns) {
		ADD(r->alone_ns, weight * e->alone_ns);
		ADD(r->cpu_ns, weight * e->cpu_ns);
		ADD(r->runqueue_ns, weight * e->runqueue_ns);
	}
	time_it(r->response, took, weight);
	time_it(r->think, e->ns[TW_PART_THINK], weight);
	/* Two CPUs may both tell: one row more. */
	if (r->round == this_round && took <= r->slowest_ns)
		return 0;
	r->round = this_round;
	r->slowest_ns = took;
	tell(e, sk, false);
	return 0;
}

/* Whoever asked has closed the connection before the answer, after so long a wait. Of each service one is told in a
 * round. */
static __noinline int count_given_up(struct end *e, struct sock *sk, u64 waited)
{
	struct tw_requests *r;

	if (!e || !sk)
		return 0;
	r = requests_of(e);
	if (!r)
		return 0;
	ADD(r->given_up, e->weight);
	ADD(r->given_up_ns, e->weight * waited);
	if (r->given_up_round == this_round)
		return 0;
	r->given_up_round = this_round;
	tell(e, sk, true);
	return 0;
}

/* A message that nobody asked for. */
static __always_inline void push(struct end *e, u64 now)
{
	struct tw_requests *r = requests_of(e);

	e->at = AT_NOTHING;
	e->pushed = 1;
	e->since = now;
	if (r)
		ADD(r->pushed, e->weight);
}

/* One that ends an exchange. */
static __always_inline void count_push(struct end *e, struct sock *sk, u64 now)
{
	count_exchange(e, sk);
	push(e, now);
}

/* What was said within a second of a push answers it (a pong), and so nothing answers that: after a second or
 * longer the other side pushes again. A request of its own it may be as well: then the answer comes sooner. */
static __always_inline bool pushes_again(struct end *e, u64 now)
{
	if (e->pushed && now - e->since >= PUSH_NS) {
		push(e, now);
		return true;
	}
	e->pushed = 0;
	return false;
}

/* Something is said long after the last push: it is no answer to that. */
static __always_inline void forget_push(struct end *e, u64 now)
{
	if (now - e->since >= PUSH_NS)
		e->pushed = 0;
}

#endif

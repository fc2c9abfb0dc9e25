/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is known of the exchange of a socket, kept with the socket, and how its time is counted: at
 * each change the time since the last one goes to one part, so that the parts are all of it. */
#ifndef TCPWHY_EXCHANGE_H
#define TCPWHY_EXCHANGE_H

#include "common.h"
#include "ring.h"

/* What an end is at. */
enum {
	AT_NOTHING, /* no request yet, or nothing that anybody asked for */
	AT_UNREAD, /* data waits to be read */
	AT_THINK, /* a server has read all of it */
	AT_SENT, /* a server has begun to answer */
	AT_AWAIT, /* a client has asked */
	AT_READ, /* a client has read all of the answer that came */
	AT_SKIP, /* the exchange is not counted */
	AT_END, /* closed */
};

/* A pause of a message this long, with nothing in flight, ends it: what comes then was not asked for
 * (subscriptions, heartbeats). */
#define PUSH_NS 1000000000ULL
/* Two writes nearer to each other than this are one message. */
#define APART_NS 1000000ULL

struct end {
	/* One cache line, with what the kernel keeps before it: over loopback the sender's CPU and the
	 * receiver's take turns. Most calls see no more. */
	u32 rcv_nxt, copied_seq, write_seq; /* when last looked at */
	u8 at;
	u8 unaccepted;
	u8 taken; /* some of the request was read */
	u8 whole; /* what came last ended a message, as far as segments tell */
	u8 early; /* more came while we thought about a whole message */
	u8 overlapped;
	u8 drawn; /* the next exchange is counted */
	u8 pushed; /* the last message was a push: what follows it within a second answers it */
	u32 retransmits;
	u64 since;
	struct tw_service service;
	/* The next ones. */
	u64 began;
	u64 gone; /* the FIN of whoever asks came */
	u64 ns[TW_PARTS];
	u64 alone_ns, cpu_ns, runqueue_ns;
	u64 read; /* when some of what waits was read last; 0: nothing was */
	u64 longest; /* between two such moments */
	u64 cpu, runqueue, slept; /* of the thread when it took the request; slept: how often */
	u32 pid, tid;
	u32 reads; /* requests that the thread had taken by then, this one included */
	u32 dsack_dups; /* D-SACKs before the first retransmission */
	u32 resent; /* when that was, by the clock of our timestamps */
	u32 weight; /* exchanges that it stands for */
	u32 stands_for; /* connections that this one stands for */
	u32 one_in, share_round; /* of the exchanges of its service, and as of when */
};
_Static_assert(__builtin_offsetof(struct end, began) == 64 - sizeof(void *),
	       "the first cache line");

/* Set by user space, powers of two: of new connections one in so many is followed, and of the exchanges of
 * the services that have most of them one in so many is counted. */
u32 one_new_in = 1;
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__type(key, struct tw_service);
	__type(value, u32);
	__uint(max_entries, 1 << 12);
} shares SEC(".maps");
/* In each the slowest exchange of each service is told once, and each connection looks up its share. */
u32 this_round;

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__type(key, int);
	__type(value, struct end);
} ends SEC(".maps");

/* Requests that a thread has taken. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, u32);
} takers SEC(".maps");

/* What was lost, and how much was taken up and counted: user space reads them by these numbers. */
enum { LOST_RING, LOST_SERVICE, LOST_END, MET, COUNTED, LATE, COUNTS };
TW_COUNTERS(counts, COUNTS);

static __always_inline void pass(struct end *e, u32 part, u64 now)
{
	if (now > e->since)
		e->ns[part] += now - e->since;
	e->since = now;
}

/* How long nothing of what waits unread has been read. */
static __always_inline u64 unread_for(const struct end *e, u64 now)
{
	u64 since = e->read > e->since ? e->read : e->since;

	return now > since ? now - since : 0;
}

/* Some of what waits is read now. */
static __always_inline void reads(struct end *e, u64 now)
{
	u64 ns = unread_for(e, now);

	if (ns > e->longest)
		e->longest = ns;
	e->read = now;
}

/* Whether the next exchange is counted, and how many it then stands for. */
static __always_inline bool draw(struct end *e)
{
	u32 known = e->stands_for, *share;

	if (e->share_round != this_round) {
		share = bpf_map_lookup_elem(&shares, &e->service);
		e->one_in = share ? *share : 1;
		e->share_round = this_round;
	}
	if (e->one_in <= known) {
		e->weight = known;
		return true;
	}
	e->weight = e->one_in;
	return !(bpf_get_prandom_u32() & (e->one_in / known - 1));
}

static __always_inline void begin_at(struct end *e, u8 at, u64 began)
{
	__builtin_memset(e->ns, 0, sizeof(e->ns));
	e->alone_ns = e->cpu_ns = e->runqueue_ns = 0;
	e->read = e->longest = 0;
	e->began = e->since = began;
	e->at = at;
	e->drawn = e->taken = e->early = e->overlapped = e->unaccepted = 0;
	e->retransmits = 0;
	e->pid = e->tid = e->reads = 0;
}

/* An exchange begins; whether it is counted. To those that are not no time is given: on a host with
 * very many that is most of the cost. */
static __always_inline bool begin(struct end *e, u8 at)
{
	if (!e->drawn && !draw(e)) {
		e->at = AT_SKIP;
		return false;
	}
	begin_at(e, at, bpf_ktime_get_ns());
	return true;
}

static __always_inline u64 total(const struct end *e)
{
	u64 sum = 0;

	for (int i = 0; i < TW_PARTS; i++)
		sum += e->ns[i];
	return sum;
}

/* In logarithmic steps. */
static __always_inline u32 bucket(u64 ns)
{
	u32 power = 0, at;
	u64 n = ns >> 10;

	if (!n)
		return 0;
	for (int step = 32; step; step >>= 1)
		if (n >> step) {
			n >>= step;
			power += step;
		}
	at = power * TW_STEPS + ((ns >> (power + 5)) & (TW_STEPS - 1));
	return at < TW_BUCKETS ? at : TW_BUCKETS - 1;
}

/* What the current thread has used so far. */
static __always_inline void used(u64 *cpu, u64 *runqueue, u64 *slept)
{
	struct task_struct *t = bpf_get_current_task_btf();

	*cpu = t->se.sum_exec_runtime;
	*slept = t->nvcsw;
	*runqueue = bpf_core_field_exists(t->sched_info.run_delay) ? t->sched_info.run_delay : 0;
}

/* The current thread is the one that has to do with the exchange; false where that cannot be told. */
static __always_inline bool name(struct end *e, const struct sock *sk)
{
	u64 id = bpf_get_current_pid_tgid();

	e->taken = 1;
	e->pid = e->tid = e->reads = 0;
	/* In softirq context (sockmap, kTLS) the current thread is anybody. */
	if (!sk->sk_lock.owned)
		return false;
	e->pid = id >> 32;
	e->tid = id;
	return true;
}

/* The current thread takes a request up. */
static __always_inline void take(struct end *e, const struct sock *sk)
{
	u32 *reads;

	/* A client's thread is only named. */
	if (!name(e, sk) || e->service.role != TW_ROLE_SERVER)
		return;
	reads = bpf_task_storage_get(&takers, bpf_get_current_task_btf(), 0,
				     BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!reads)
		return;
	e->reads = ++*reads;
	used(&e->cpu, &e->runqueue, &e->slept);
}

/* The current thread has read something that is not counted: what it has taken up it does not do alone. */
static __always_inline void read_else(void)
{
	u32 *reads = bpf_task_storage_get(&takers, bpf_get_current_task_btf(), 0, 0);

	if (reads)
		++*reads;
}

/* Thinking has come to an end: was it one thread's, which did nothing else? */
static __always_inline void thought(struct end *e, u64 now)
{
	u64 ns = now > e->since ? now - e->since : 0, cpu, runqueue, slept;
	u32 *reads;

	if (!e->reads || e->tid != (u32)bpf_get_current_pid_tgid())
		return;
	reads = bpf_task_storage_get(&takers, bpf_get_current_task_btf(), 0, 0);
	if (!reads || *reads != e->reads)
		return;
	used(&cpu, &runqueue, &slept);
	e->alone_ns += ns;
	runqueue -= e->runqueue;
	if (runqueue > ns)
		runqueue = ns;
	e->runqueue_ns += runqueue;
	ns -= runqueue;
	cpu -= e->cpu;
	/* The kernel adds up a thread's time at ticks and switches. Without a sleep all the rest is it. */
	e->cpu_ns += slept == e->slept || cpu > ns ? ns : cpu;
}

#endif

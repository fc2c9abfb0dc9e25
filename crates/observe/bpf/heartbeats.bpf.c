// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `heartbeats`: messages that came at regular intervals and then were late, by socket and sender. */
#include "common.h"
#include "file.h"
#include "filter.h"
#include "rhythm.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TW_SHARE(struct, tw_gap);
TW_SHARE(enum, tw_beat_count);

/* Messages of a socket that many may send to, looked at in a second: one with more has other work. */
#define MOST_BEATS 100
/* Who sends to it, at a time. */
#define PEERS 16
/* Segments with data that a connection has had before it is followed: short ones cost nothing. */
#define LEAST_SEGMENTS 4
/* The application chose the local port: SOCK_BINDPORT_LOCK. */
#define CHOSE_PORT 8

/* Set before load: ticks of a second. */
const volatile u32 second_ticks = 1;

/* Of a socket. */
struct watched {
	struct flow flow; /* of one that has one peer */
	u32 second; /* of one that has many: when it began, in ticks */
	u32 beats; /* in it */
	u32 round; /* flows of an earlier one have missed something */
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC */
	__type(key, int);
	__type(value, struct watched);
} watched SEC(".maps");

/* One who sends to a socket that is not connected. */
struct peer {
	u64 addr[2];
	u32 port;
	u32 round;
	struct flow flow;
};
struct peers {
	struct peer all[PEERS];
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, 1);
	__type(key, int);
	__type(value, struct peers);
} peers SEC(".maps");

TW_COUNTERS(counts, TW_BEAT_COUNTS);

static __always_inline void fill(struct tw_gap *g, const struct flow *f, const struct sock *sk)
{
	const struct sock_common *skc = &sk->__sk_common;

	__builtin_memset(g, 0, sizeof(*g));
	g->inode = file_inode(sk);
	g->cgroup = sock_cgroup(sk);
	g->every_ns = f->every_ns;
	g->deviation_ns = f->deviation_ns;
	g->family = load_addrs(g->local_addr, g->remote_addr, skc);
	g->local_port = skc->skc_num;
	g->remote_port = bpf_ntohs(skc->skc_dport);
	g->netns = skc->skc_net.net->ns.inum;
	g->cpu = f->cpu;
	g->protocol = sk->sk_protocol;
}

static __always_inline void fill_peer(struct tw_gap *g, const struct peer *p)
{
	__builtin_memcpy(g->remote_addr, p->addr, sizeof(g->remote_addr));
	g->remote_port = p->port;
}

/* A message begins to come; of a socket that is not connected, this peer's. */
static __always_inline void came(struct flow *f, const struct peer *p, const struct sock *sk,
				 u32 tick)
{
	u64 now = bpf_ktime_get_ns(), gap_ns;
	struct flow before = *f;
	struct tw_gap *g;

	gap_ns = beat(f, now, tick);
	/* What the process finds when it takes a TCP socket back was received elsewhere before. */
	f->cpu = sk->sk_protocol == IPPROTO_TCP ? (u32)sk->__sk_common.skc_incoming_cpu
						: bpf_get_smp_processor_id();
	if (!f->counted && is_regular(f)) {
		f->counted = 1;
		count(&counts, TW_BEAT_REGULAR);
	}
	if (!gap_ns)
		return;
	g = bpf_ringbuf_reserve(&ring, sizeof(*g), 0);
	if (!g) {
		count(&counts, TW_BEAT_LOST_RING);
		return;
	}
	before.cpu = f->cpu;
	fill(g, &before, sk);
	if (p)
		fill_peer(g, p);
	g->sock = sock_id(sk);
	g->time_ns = now;
	g->gap_ns = gap_ns;
	bpf_ringbuf_submit(g, BPF_RB_NO_WAKEUP);
}

/* Takes up a socket, if it may have heartbeats. */
static __always_inline struct watched *meet(struct sock *sk, u16 protocol)
{
	const struct sock_common *skc = &sk->__sk_common;
	u16 family = skc->skc_family;
	const struct tcp_sock *tp;
	struct watched *w;

	if (family != AF_INET && family != AF_INET6)
		return NULL;
	if (protocol == IPPROTO_TCP) {
		if (skc->skc_state == TCP_LISTEN)
			return NULL;
		tp = bpf_skc_to_tcp_sock(sk);
		if (!tp || tp->data_segs_in < LEAST_SEGMENTS)
			return NULL;
	} else if (!(BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & CHOSE_PORT) &&
		   bpf_get_prandom_u32() & 7) {
		/* Most that ask have one answer (DNS): those rarely draw the lot, a heartbeat soon does. */
		return NULL;
	}
	if (!netns_ok(skc->skc_net.net->ns.inum) ||
	    !ports_ok(skc->skc_num, bpf_ntohs(skc->skc_dport)))
		return NULL;
	w = bpf_sk_storage_get(&watched, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!w)
		count(&counts, TW_BEAT_LOST_SOCKET);
	return w;
}

/* Who sent the datagram that was queued last; false when it is gone already: who reads without waiting may be
 * quicker. */
static __always_inline bool sender(u64 addr[2], u32 *port, const struct sock *sk)
{
	const struct sk_buff *skb = sk->sk_receive_queue.prev;
	u16 ports[2];
	u8 *head;

	if (!sk->sk_receive_queue.qlen || !skb)
		return false;
	head = skb->head;
	if (bpf_probe_read_kernel(ports, sizeof(ports), head + skb->transport_header))
		return false;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		__be32 from;

		if (bpf_probe_read_kernel(&from, sizeof(from), head + skb->network_header + 12))
			return false;
		v4_mapped((u8 *)addr, from);
	} else if (bpf_probe_read_kernel(addr, 16, head + skb->network_header + 8)) {
		return false;
	}
	*port = bpf_ntohs(ports[0]);
	/* Still the same, and for this port: nobody has taken it meanwhile. */
	return sk->sk_receive_queue.prev == skb && bpf_ntohs(ports[1]) == sk->__sk_common.skc_num;
}

/* The notes of a sender; NULL when there is no room. */
static __always_inline struct peer *peer_of(struct peers *all, const u64 addr[2], u32 port)
{
	u32 at = PEERS;
	u64 oldest = ~0ULL;
	struct peer *p;

	for (u32 i = 0; i < PEERS; i++) {
		p = &all->all[i];
		if (p->addr[0] == addr[0] && p->addr[1] == addr[1] && p->port == port)
			return p;
		/* Of those that are not regular, the one that was silent for longest makes room. */
		if (is_regular(&p->flow) || p->flow.began >= oldest)
			continue;
		oldest = p->flow.began;
		at = i;
	}
	if (at >= PEERS)
		return NULL;
	p = &all->all[at];
	__builtin_memset(p, 0, sizeof(*p));
	p->addr[0] = addr[0];
	p->addr[1] = addr[1];
	p->port = port;
	return p;
}

/* A datagram for a socket that anybody may send to. */
static __always_inline void from_anybody(struct watched *w, struct sock *sk, u32 tick)
{
	u8 local[16] __attribute__((aligned(8))), remote[16] __attribute__((aligned(8)));
	u64 addr[2] = {};
	struct peers *all;
	struct peer *p;
	u32 port = 0;

	if (tick - w->second >= second_ticks) {
		w->second = tick;
		w->beats = 0;
	} else if (w->beats > MOST_BEATS) {
		return;
	}
	if (++w->beats > MOST_BEATS || !sender(addr, &port, sk)) {
		w->round++;
		return;
	}
	load_addrs(local, remote, &sk->__sk_common);
	if (!addrs_ok(local, (const u8 *)addr))
		return;
	all = bpf_sk_storage_get(&peers, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!all) {
		count(&counts, TW_BEAT_LOST_SOCKET);
		return;
	}
	p = peer_of(all, addr, port);
	if (!p) {
		count(&counts, TW_BEAT_LOST_PEER);
		return;
	}
	if (p->round != w->round) {
		/* One of its own may have been among them: no gap is told, none is learnt. */
		p->flow.began = 0;
		p->round = w->round;
	}
	if (!goes_on(&p->flow, tick))
		came(&p->flow, p, sk, tick);
}

SEC("tp_btf/sk_data_ready")
int on_data_ready(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	u8 local[16] __attribute__((aligned(8))), remote[16] __attribute__((aligned(8)));
	u16 protocol = sk->sk_protocol;
	struct watched *w;
	u32 tick;

	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return 0;
	w = bpf_sk_storage_get(&watched, sk, NULL, 0);
	if (!w) {
		w = meet(sk, protocol);
		if (!w)
			return 0;
	}
	tick = bpf_jiffies64();
	if (!sk->__sk_common.skc_dport) {
		from_anybody(w, sk, tick);
		return 0;
	}
	/* All that most calls see. */
	if (goes_on(&w->flow, tick))
		return 0;
	load_addrs(local, remote, &sk->__sk_common);
	if (addrs_ok(local, remote))
		came(&w->flow, NULL, sk, tick);
	return 0;
}

/* A regular flow whose next message should have come. */
static __always_inline bool is_pending(const struct flow *f, const struct sock *sk, u64 now)
{
	/* Who has closed need say nothing more. */
	if (sk->sk_protocol == IPPROTO_TCP && sk->__sk_common.skc_state != TCP_ESTABLISHED)
		return false;
	return f->began && now > f->began && is_regular(f) && is_late(f, now - f->began);
}

static __always_inline void tell(struct seq_file *seq, const struct flow *f, const struct peer *p,
				 const struct sock *sk, u64 now)
{
	struct tw_gap g;

	fill(&g, f, sk);
	if (p)
		fill_peer(&g, p);
	g.sock = sock_id(sk);
	g.time_ns = now;
	g.gap_ns = now - f->began;
	g.pending = 1;
	bpf_seq_write(seq, &g, sizeof(g));
}

/* What has not come to a socket. */
static __always_inline void tell_pending(struct seq_file *seq, struct watched *w, struct sock *sk)
{
	struct peers *all;
	u64 now = bpf_ktime_get_ns();

	if (is_pending(&w->flow, sk, now))
		tell(seq, &w->flow, NULL, sk, now);
	all = bpf_sk_storage_get(&peers, sk, NULL, 0);
	if (!all)
		return;
	for (u32 i = 0; i < PEERS; i++) {
		struct peer *p = &all->all[i];

		if (p->round == w->round && is_pending(&p->flow, sk, now))
			tell(seq, &p->flow, p, sk, now);
	}
}

/* Of the sockets that processes have open. */
SEC("iter/task_file")
int dump(struct bpf_iter__task_file *ctx)
{
	u32 types = 1U << SOCK_STREAM | 1U << SOCK_DGRAM;
	struct file *file = ctx->file;
	struct socket *sock = file ? socket_of(file, types) : NULL;
	struct sock *sk = sock ? sock->sk : NULL;
	struct watched *w = sk ? bpf_sk_storage_get(&watched, sk, NULL, 0) : NULL;

	if (w)
		tell_pending(ctx->meta->seq, w, sk);
	return 0;
}

/* In its place where the verifier does not take a file's socket for one: all of the reader's namespace. */
SEC("iter/tcp")
int dump_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp = skc ? bpf_skc_to_tcp_sock(skc) : NULL;
	struct watched *w = tp ? bpf_sk_storage_get(&watched, tp, NULL, 0) : NULL;

	if (w)
		tell_pending(ctx->meta->seq, w, (struct sock *)tp);
	return 0;
}

SEC("iter/udp")
int dump_udp(struct bpf_iter__udp *ctx)
{
	struct udp_sock *up = ctx->udp_sk;
	struct watched *w = up ? bpf_sk_storage_get(&watched, up, NULL, 0) : NULL;

	if (w)
		tell_pending(ctx->meta->seq, w, (struct sock *)up);
	return 0;
}

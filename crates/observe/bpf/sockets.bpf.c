// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `sockets`: every TCP socket of the reader's network namespace, as fixed-size records; and, between two of its
 * runs, how long connections wait at those that listen. */
#include "common.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TCP_ECN_OK	 1
#define SOCK_SNDBUF_LOCK 1
#define SOCK_RCVBUF_LOCK 2

/* User space sets these between runs. */
u32 full_dump; /* report idle connections, too */
u32 since; /* jiffies of the previous run */
/* The program sets this: jiffies at the start of this run, from which on the next one tells what has moved. */
u32 now;
/* The same in ns of CLOCK_MONOTONIC. */
u64 began_ns;

TW_SHARE(struct, tw_listener);
TW_SHARE(struct, tw_socket);
TW_SHARE(enum, tw_record);
TW_SHARE(enum, tw_bits);
TW_SHARE(enum, tw_socket_tells);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct tw_socket);
	__uint(max_entries, 1);
} scratch SEC(".maps");

/* Whether programs of this kernel may go through a map. */
const volatile bool looks;
/* Listeners that did not fit. */
u64 unwatched;

/* The longest wait for accept() that was seen at a listener between two samples. */
struct accept_wait {
	u64 seen; /* when, ns of CLOCK_MONOTONIC */
	u64 sampled;
	u64 sampled_before;
	u32 longest; /* jiffies */
	u32 netns;
	u32 local_port;
};
#define LISTENERS 1024
/* By address; a look passes all buckets. Between two samples nobody holds them: what lies there is read as memory,
 * whatever it is by then. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u64);
	__type(value, struct accept_wait);
	__uint(max_entries, LISTENERS);
} listeners SEC(".maps");

/* How long the first connection in the accept queue has waited, jiffies: nothing is sent on it before accept(), so
 * that its lsndtime is when it was made. */
static __always_inline u32 first_waits(const struct inet_connection_sock *icsk)
{
	const struct request_sock *first = BPF_CORE_READ(icsk, icsk_accept_queue.rskq_accept_head);
	const struct tcp_sock *child;
	u32 made;

	if (!first)
		return 0;
	child = (const struct tcp_sock *)BPF_CORE_READ(first, sk);
	if (bpf_core_read(&made, sizeof(made), &child->lsndtime))
		return 0;
	/* It may have been accepted meanwhile, and its memory may be another's. */
	if (BPF_CORE_READ(icsk, icsk_accept_queue.rskq_accept_head) != first)
		return 0;
	return age(made);
}

/* Who was not sampled for so long is gone, or in a namespace that is walked seldom. */
const volatile u64 forgotten_ns;

static long look_at(void *map, const u64 *key, struct accept_wait *w, const u64 *now)
{
	const struct inet_connection_sock *icsk = (const void *)*key;
	const struct sock *sk = (const void *)*key;
	u64 address = *key;
	u32 waits;

	/* All that most cost. */
	if (!BPF_CORE_READ(sk, sk_ack_backlog)) {
		if ((s64)(*now - w->sampled) > (s64)forgotten_ns)
			bpf_map_delete_elem(&listeners, &address);
		return 0;
	}
	if (BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_LISTEN) {
		bpf_map_delete_elem(&listeners, &address);
		return 0;
	}
	waits = first_waits(icsk);
	if (waits && (waits > w->longest || w->seen < w->sampled)) {
		w->longest = waits;
		w->seen = *now;
	}
	return 0;
}

/* The program runs it, some times between two samples; it is attached to nothing. */
SEC("raw_tp")
int look(void *ctx)
{
	u64 now = bpf_ktime_get_ns();

	bpf_for_each_map_elem(&listeners, look_at, &now, 0);
	return 0;
}

/* The longest wait since the sample before, of those that were seen and of the one that waits now; jiffies. Asked
 * twice in a run, where a record did not fit the buffer, it says the same. */
static __always_inline u32 longest_wait(const struct tcp_sock *tp, u32 netns, u32 local_port)
{
	u32 waits = first_waits(&tp->inet_conn);
	struct accept_wait *w;
	u64 address = 0;

	if (!looks)
		return waits;
	bpf_probe_read_kernel(&address, sizeof(address), &tp);
	w = bpf_map_lookup_elem(&listeners, &address);
	if (!w || w->netns != netns || w->local_port != local_port) {
		struct accept_wait fresh = {
		    .sampled = began_ns,
		    .netns = netns,
		    .local_port = local_port,
		};

		if (bpf_map_update_elem(&listeners, &address, &fresh, BPF_ANY))
			unwatched++;
		return waits;
	}
	if (w->sampled != began_ns) {
		w->sampled_before = w->sampled;
		w->sampled = began_ns;
	}
	return w->seen >= w->sampled_before && w->longest > waits ? w->longest : waits;
}

static __always_inline bool idle(const struct tcp_sock *tp)
{
	return (s32)(tp->lsndtime - since) < 0 &&
	       (s32)(tp->inet_conn.icsk_ack.lrcvtime - since) < 0 &&
	       (s32)(tp->rcv_tstamp - since) < 0 && !tp->packets_out &&
	       tp->write_seq == tp->snd_nxt;
}

static __always_inline int emit_listener(struct bpf_iter__tcp *ctx, struct tcp_sock *tp, u32 netns)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;
	struct sock *sk = &icsk->icsk_inet.sk;
	struct tw_listener l = {};
	u8 nobody[16] __attribute__((aligned(8)));

	l.record = TW_RECORD_LISTENER;
	l.time_ns = bpf_ktime_get_ns();
	l.netns = netns;
	l.sock = sock_id(sk);
	l.inode = file_inode(sk);
	l.cgroup = sock_cgroup(sk);
	l.family = load_addrs(l.local_addr, nobody, &sk->__sk_common);
	l.local_port = sk->__sk_common.skc_num;
	l.accept_queue = sk->sk_ack_backlog;
	l.accept_wait = longest_wait(tp, netns, l.local_port);
	l.backlog = sk->sk_max_ack_backlog;
	l.syn_queue = icsk->icsk_accept_queue.qlen.counter;
	l.syn_queue_young = icsk->icsk_accept_queue.young.counter;
	l.synflood_warned = icsk->icsk_accept_queue.synflood_warned;
	l.drops = sk->sk_drops.counter;
	l.reuseport = BPF_CORE_READ_BITFIELD(sk, __sk_common.skc_reuseport);
	l.uid = ctx->uid;
	bpf_seq_write(ctx->meta->seq, &l, sizeof(l));
	return 0;
}

static __always_inline void fill_chrono(struct tw_socket *s, const struct tcp_sock *tp)
{
	u32 running = age(tp->chrono_start);
	u8 type = BPF_CORE_READ_BITFIELD(tp, chrono_type);

	/* enum tcp_chrono: 1 busy, 2 limited by the peer's window, 3 by the send buffer. The
	 * kernel counts each apart; tcp_info's busy time is their sum. */
	s->rwnd_limited = tp->chrono_stat[1] + (type == 2 ? running : 0);
	s->sndbuf_limited = tp->chrono_stat[2] + (type == 3 ? running : 0);
	s->busy =
	    tp->chrono_stat[0] + (type == 1 ? running : 0) + s->rwnd_limited + s->sndbuf_limited;
}

static __always_inline void fill_younger(struct tw_socket *s, const struct tcp_sock *tp)
{
	if (bpf_core_field_exists(tp->timeout_rehash)) {
		s->timeout_rehash = tp->timeout_rehash;
		s->tells |= TW_TELLS_REHASH;
	}
	if (bpf_core_field_exists(tp->total_rto)) {
		s->total_rto = tp->total_rto;
		s->total_rto_recoveries = tp->total_rto_recoveries;
		s->total_rto_time = tp->total_rto_time;
		s->tells |= TW_TELLS_RTO;
	}
	if (bpf_core_field_exists(tp->received_ce)) {
		s->received_ce = tp->received_ce;
		s->tells |= TW_TELLS_ACCECN;
	}
}

static __always_inline void fill_full(struct tw_socket *s, struct tcp_sock *tp)
{
	struct inet_connection_sock *icsk = &tp->inet_conn;
	struct sock *sk = &icsk->icsk_inet.sk;

	s->full = 1;
	s->inode = file_inode(sk);
	s->cgroup = sock_cgroup(sk);
	s->pacing_rate = sk->sk_pacing_rate;
	s->max_pacing_rate = sk->sk_max_pacing_rate;
	s->bytes_acked = tp->bytes_acked;
	s->bytes_received = tp->bytes_received;
	s->bytes_sent = tp->bytes_sent;
	s->bytes_retrans = tp->bytes_retrans;
	if (icsk->icsk_ca_ops) {
		((u64 *)s->congestion)[0] = *(u64 *)&icsk->icsk_ca_ops->name[0];
		((u64 *)s->congestion)[1] = *(u64 *)&icsk->icsk_ca_ops->name[8];
	}
	s->rto = icsk->icsk_rto;
	s->ato = BPF_CORE_READ_BITFIELD(icsk, icsk_ack.ato);
	s->since_data_sent = age(tp->lsndtime);
	s->since_data_recv = age(icsk->icsk_ack.lrcvtime);
	s->since_ack_recv = age(tp->rcv_tstamp);
	fill_chrono(s, tp);
	s->snd_mss = tp->mss_cache;
	s->rcv_mss = icsk->icsk_ack.rcv_mss;
	s->advmss = tp->advmss;
	s->pmtu = icsk->icsk_pmtu_cookie;
	s->unacked = tp->packets_out;
	s->sacked = tp->sacked_out;
	s->lost = tp->lost_out;
	s->retrans = tp->retrans_out;
	s->total_retrans = tp->total_retrans;
	s->rtt_us = tp->srtt_us >> 3;
	s->rttvar_us = tp->mdev_us >> 2;
	s->min_rtt_us = tp->rtt_min.s[0].v;
	s->rcv_rtt_us = tp->rcv_rtt_est.rtt_us >> 3;
	s->rcv_space = tp->rcvq_space.space;
	s->rcv_ssthresh = tp->rcv_ssthresh;
	s->snd_ssthresh = tp->snd_ssthresh;
	s->cwnd = tp->snd_cwnd;
	s->snd_wnd = tp->snd_wnd;
	s->rcv_wnd = tp->rcv_wnd;
	s->reordering = tp->reordering;
	s->rate_delivered = tp->rate_delivered;
	s->rate_interval_us = tp->rate_interval_us;
	s->app_limited = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	s->segs_out = tp->segs_out;
	s->segs_in = tp->segs_in;
	s->data_segs_out = tp->data_segs_out;
	s->data_segs_in = tp->data_segs_in;
	s->delivered = tp->delivered;
	s->delivered_ce = tp->delivered_ce;
	s->dsack_dups = tp->dsack_dups;
	s->reord_seen = tp->reord_seen;
	s->rcv_ooopack = tp->rcv_ooopack;
	s->notsent_bytes = tp->write_seq - tp->snd_nxt;
	s->recv_queue = tp->rcv_nxt - tp->copied_seq;
	s->send_queue = tp->write_seq - tp->snd_una;
	s->snd_isn = tp->snd_una - (u32)tp->bytes_acked;
	s->rcv_isn = tp->rcv_nxt - (u32)tp->bytes_received;
	s->rcvbuf = sk->sk_rcvbuf;
	s->sndbuf = sk->sk_sndbuf;
	u8 locks = BPF_CORE_READ_BITFIELD(sk, sk_userlocks);
	s->sndbuf_set = locks & SOCK_SNDBUF_LOCK;
	s->rcvbuf_set = locks & SOCK_RCVBUF_LOCK;
	s->rmem_alloc = sk->sk_backlog.rmem_alloc.counter;
	s->wmem_queued = sk->sk_wmem_queued;
	s->drops = sk->sk_drops.counter;
	s->ca_state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	s->rto_count = icsk->icsk_retransmits;
	s->probes = icsk->icsk_probes_out;
	s->backoff = icsk->icsk_backoff;
	s->options |= BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok) ? TW_SACK : 0;
	s->options |= BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok) ? TW_WSCALE : 0;
	s->options |= BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok) ? TW_TIMESTAMPS : 0;
	s->snd_wscale = BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale);
	s->rcv_wscale = BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale);
	s->ecn = tp->ecn_flags & TCP_ECN_OK;
	s->nonagle = BPF_CORE_READ_BITFIELD(tp, nonagle);
	fill_younger(s, tp);
}

SEC("iter/tcp")
int dump(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_timewait_sock *tw;
	struct tcp_sock *tp;
	struct tw_socket *s;
	u32 zero = 0, netns;

	if (!skc)
		return 0;
	if (ctx->meta->seq_num == 0) {
		now = bpf_jiffies64();
		began_ns = bpf_ktime_get_ns();
	}
	netns = skc->skc_net.net->ns.inum;
	tp = bpf_skc_to_tcp_sock(skc);
	if (tp && skc->skc_state == TCP_LISTEN)
		return emit_listener(ctx, tp, netns);
	if (!full_dump) {
		/* A TIME_WAIT does not change, and the end of its connection was an event. */
		if (skc->skc_state == TCP_TIME_WAIT)
			return 0;
		if (tp && skc->skc_state == TCP_ESTABLISHED && idle(tp))
			return 0;
	}
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	__builtin_memset(s, 0, sizeof(*s));
	s->record = TW_RECORD_SOCKET;
	s->time_ns = bpf_ktime_get_ns();
	s->netns = netns;
	s->sock = sock_id_through(&s->sock, skc);
	s->family = load_addrs(s->local_addr, s->remote_addr, skc);
	s->local_port = skc->skc_num;
	s->remote_port = bpf_ntohs(skc->skc_dport);
	s->state = skc->skc_state;
	s->uid = ctx->uid;
	if (tp) {
		fill_full(s, tp);
	} else {
		tw = bpf_skc_to_tcp_timewait_sock(skc);
		if (tw)
			s->tw_rcv_nxt = tw->tw_sk.__tw_common.skc_tw_rcv_nxt;
	}
	bpf_seq_write(ctx->meta->seq, s, sizeof(*s));
	return 0;
}

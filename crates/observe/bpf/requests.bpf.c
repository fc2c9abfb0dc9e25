// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `requests`: the exchanges of each connection, from the movement of its sequence numbers, and
 * what their time went with, summed by listener and destination in the kernel. No payload is read. */
#include "counted.h"
#include "file.h"
#include "followed.h"
#include "late.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TW_SHARE(enum, tw_part);
TW_SHARE(enum, tw_role);
TW_SHARE(struct, tw_requests);
TW_SHARE(struct, tw_exchange);

/* Set before load: a write is told when it returns, not when it begins. */
const volatile bool write_ends;
/* After so long a wait whoever closes before the answer has given up on it, set before load. Shorter ones are a
 * last word that nobody answers: Terminate, QUIT. */
const volatile u64 given_up_ns = 100000000;
/* Open exchanges at least this old are told by `dump`. */
u64 open_over_ns;

static __always_inline void request_came(struct end *e, const struct sock *sk)
{
	if (!begin(e, AT_UNREAD))
		e->rcv_nxt--; /* what is written next is an answer */
	e->unaccepted = !sk->sk_socket;
}

/* Data is in flight, or waits to be. */
static __always_inline bool in_flight(const struct tcp_sock *tp)
{
	return (s32)(tp->write_seq - tp->snd_una) > 0;
}

/* What a segment of the other side's says. */
struct word {
	u32 rcv_nxt; /* what has come with it */
	u32 acked;
	u32 echo; /* a timestamp of ours, without its offset; 0: none is known */
};

/* The last one that was processed. */
static __always_inline struct word last_word(const struct tcp_sock *tp)
{
	struct word w = {
	    .rcv_nxt = tp->rcv_nxt, .acked = tp->snd_una, .echo = tp->rx_opt.rcv_tsecr};

	return w;
}

/* The clock of the timestamps that we send, without its offset. */
static __always_inline u32 stamp(const struct tcp_sock *tp)
{
	bool us = bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts);

	return tp->tcp_clock_cache / (us ? 1000 : 1000000);
}

/* The other side speaks, and something had been retransmitted: in vain, if it reports each as a duplicate
 * (RFC 2883) or acknowledges all with the timestamp of what was sent first (RFC 3522). An answer that had come
 * took no longer for it; a request that had come says that what came back was lost. */
static __always_inline void judge_repair(struct end *e, const struct tcp_sock *tp, struct word w)
{
	if (!e->retransmits)
		return;
	if (tp->dsack_dups - e->dsack_dups < e->retransmits &&
	    (!w.echo || (s32)(w.echo - e->resent) >= 0 || w.acked != tp->write_seq))
		return;
	if (e->service.role == TW_ROLE_CLIENT)
		e->ns[TW_PART_UNHEARD] += e->ns[TW_PART_REPAIR];
	e->ns[TW_PART_REPAIR] = 0;
}

/* A client's last write left later: Nagle's algorithm, a window or pacing had held it back. The kernel stamps data
 * as it leaves, by the jiffy. */
static __always_inline void left_late(struct end *e, const struct tcp_sock *tp, u64 now)
{
	u64 left = now - (u64)age(tp->lsndtime) * jiffy_ns;

	if ((s64)(left - e->since) > 2 * (s64)jiffy_ns)
		pass(e, TW_PART_SEND, left);
}

/* The first word of a connection is the server's, and comes late: both ends have waited for it since the handshake,
 * of which the kernel keeps the moment, by the jiffy. */
static __always_inline void greeted(struct end *e, u32 handshake, u8 at, u32 part)
{
	u64 waited = (u64)age(handshake) * jiffy_ns, now;

	if (waited <= 2 * jiffy_ns)
		return;
	if (!e->drawn && !draw(e)) {
		e->at = AT_SKIP;
		return;
	}
	now = bpf_ktime_get_ns();
	begin_at(e, at, now - waited);
	pass(e, part, now);
}

static __always_inline void arrived(struct end *e, struct sock *sk, const struct tcp_sock *tp,
				    struct word w)
{
	u32 bytes = w.rcv_nxt - e->rcv_nxt, mss = tp->inet_conn.icsk_ack.rcv_mss;
	bool was_whole = e->whole;
	u64 now;

	e->rcv_nxt = w.rcv_nxt;
	/* Full segments only, or up to the end of our window: the message goes on, as far as one can tell. */
	e->whole = !mss || (bytes % mss && (s32)(tp->rcv_wup + tp->rcv_wnd - w.rcv_nxt) >= mss);
	if (e->at == AT_UNREAD)
		return;
	now = bpf_ktime_get_ns();
	switch (e->at) {
	case AT_NOTHING:
		if (e->service.role == TW_ROLE_SERVER) {
			forget_push(e, now);
			request_came(e, sk);
		} else if (e->pushed) {
			push(e, now);
		} else if (!tp->bytes_sent && tp->data_segs_in <= 1)
			greeted(e, tp->lsndtime, AT_UNREAD, TW_PART_AWAIT);
		break;
	case AT_THINK:
		/* It was not all of the request, or another one overtakes the answer. */
		e->early |= was_whole && now - e->since >= APART_NS;
		pass(e, TW_PART_RECEIVE, now);
		e->at = AT_UNREAD;
		break;
	case AT_SENT:
		judge_repair(e, tp, w);
		count_exchange(e, sk);
		request_came(e, sk);
		break;
	case AT_AWAIT:
		if (pushes_again(e, now))
			break;
		weigh(e, tp->lsndtime);
		judge_repair(e, tp, w);
		left_late(e, tp, now);
		/* Who had received all that we wrote would acknowledge it: this answers something else. */
		e->overlapped |= w.acked != tp->write_seq;
		pass(e, TW_PART_AWAIT, now);
		e->at = AT_UNREAD;
		break;
	case AT_READ:
		if (now - e->since >= PUSH_NS) {
			count_push(e, sk, now);
			break;
		}
		/* After less than a full segment the peer had no more to send yet. */
		pass(e, was_whole ? TW_PART_AWAIT : TW_PART_RECEIVE, now);
		e->at = AT_UNREAD;
		break;
	}
}

/* Something is written, and the exchange is not counted: only then the lot is drawn for the next one. Most calls
 * on a busy host come no further. */
static __always_inline bool skips(struct end *e, const struct sock *sk, const struct tcp_sock *tp)
{
	if (e->at != AT_SKIP)
		return false;
	/* Nothing has come since: the same message goes on. */
	if (e->rcv_nxt == tp->rcv_nxt)
		return true;
	e->rcv_nxt = tp->rcv_nxt;
	if (e->service.role == TW_ROLE_SERVER &&
	    take_late(e, tp, AT_THINK, tp->inet_conn.icsk_ack.lrcvtime)) {
		name(e, sk);
		return false;
	}
	if (!draw(e))
		return true;
	e->drawn = 1;
	e->copied_seq = tp->copied_seq;
	e->at = AT_NOTHING;
	/* A server's next one begins when data comes. A client's begins now; by the end of a write the answer
	 * may have come. */
	return write_ends || e->service.role == TW_ROLE_SERVER;
}

/* Full segments wait to be sent, for a window: what is sent and not yet acknowledged holds nobody back, nor
 * does less than a segment, which waits for more to be written. */
static __always_inline bool unsent(const struct tcp_sock *tp)
{
	return (s32)(tp->write_seq - tp->snd_nxt) >= (s32)tp->mss_cache;
}

/* The send buffer is at least half full as a process writes: it runs ahead of what leaves, and poll() told it a
 * moment ago that a third was free. What it waited for was room. */
static __always_inline bool runs_ahead(const struct sock *sk)
{
	return 2LL * sk->sk_wmem_queued >= sk->sk_sndbuf;
}

static __always_inline void answer(struct end *e, struct sock *sk, const struct tcp_sock *tp)
{
	u64 now;

	if (e->at == AT_NOTHING) {
		/* The handshake's own sequence number may count. */
		if (!tp->bytes_received && tp->bytes_acked <= 1)
			greeted(e, tp->inet_conn.icsk_ack.lrcvtime, AT_SENT, TW_PART_THINK);
		else if (e->pushed)
			push(e, bpf_ktime_get_ns());
		return;
	}
	now = bpf_ktime_get_ns();
	switch (e->at) {
	case AT_UNREAD:
		/* Not all that came was read: this answers an older request, or there is another one. */
		e->overlapped = 1;
		if (!e->taken)
			return;
		weigh(e, tp->inet_conn.icsk_ack.lrcvtime);
		pass(e, TW_PART_UNREAD, now);
		e->at = AT_SENT;
		return;
	case AT_THINK:
		if (pushes_again(e, now))
			return;
		weigh(e, tp->inet_conn.icsk_ack.lrcvtime);
		thought(e, now);
		pass(e, TW_PART_THINK, now);
		e->at = AT_SENT;
		return;
	case AT_SENT:
		e->overlapped |= e->early && now - e->since >= APART_NS;
		if (unsent(tp) || runs_ahead(sk)) {
			pass(e, TW_PART_SEND, now);
		} else if (!in_flight(tp) && now - e->since >= PUSH_NS) {
			count_push(e, sk, now);
		} else {
			pass(e, TW_PART_THINK, now);
		}
		return;
	}
}

static __always_inline void ask(struct end *e, struct sock *sk, const struct tcp_sock *tp)
{
	switch (e->at) {
	case AT_READ:
		count_exchange(e, sk);
		break;
	case AT_NOTHING:
		if (e->pushed)
			forget_push(e, bpf_ktime_get_ns());
		break;
	case AT_AWAIT:
		pass(e, unsent(tp) || runs_ahead(sk) ? TW_PART_SEND : TW_PART_THINK,
		     bpf_ktime_get_ns());
		return;
	case AT_UNREAD:
		e->overlapped = 1;
		return;
	default:
		return;
	}
	if (begin(e, AT_AWAIT))
		take(e, sk);
}

static __always_inline void sent(struct end *e, struct sock *sk, const struct tcp_sock *tp)
{
	e->write_seq = tp->write_seq;
	if (skips(e, sk, tp))
		return;
	if (e->service.role == TW_ROLE_SERVER)
		answer(e, sk, tp);
	else
		ask(e, sk, tp);
}

SEC("tp_btf/sk_data_ready")
int on_data_ready(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct tcp_sock *tp;
	struct end *e = known(sk);

	if (e && e->at == AT_SKIP && e->service.role == TW_ROLE_SERVER)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	e = end_of(e, sk, tp);
	if (!e || (e->at == AT_SKIP && (unread(sk, tp) <= 0 || !answers_late(e, tp))))
		return 0;
	/* Over loopback the answer may come before the write of the request returns. */
	if (write_ends && tp->write_seq != e->write_seq)
		sent(e, sk, tp);
	if (unread(sk, tp) > 0)
		arrived(e, sk, tp, last_word(tp));
	return 0;
}

/* Before Linux 6.3 in its place: a segment that is about to be queued. */
SEC("tp_btf/tcp_probe")
int on_segment(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct sk_buff *skb = (const struct sk_buff *)ctx[1];
	const struct tcp_skb_cb *cb = (const void *)skb->cb;
	u32 seq = BPF_CORE_READ(cb, seq), end_seq = BPF_CORE_READ(cb, end_seq);
	u32 fin = BPF_CORE_READ(cb, tcp_flags) & 1;
	const struct tcp_sock *tp;
	struct word w = {};
	struct end *e;

	if (end_seq - seq <= fin)
		return 0;
	e = known(sk);
	if (e && e->at == AT_SKIP && e->service.role == TW_ROLE_SERVER)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	e = end_of(e, sk, tp);
	/* Data that came before is not waited for. */
	if (!e || (s32)(end_seq - tp->rcv_nxt) <= 0 || (e->at == AT_SKIP && !answers_late(e, tp)))
		return 0;
	/* It is not processed yet, its timestamps are not read. */
	w.rcv_nxt = end_seq;
	w.acked = BPF_CORE_READ(cb, ack_seq);
	arrived(e, sk, tp, w);
	return 0;
}

SEC("tp_btf/tcp_rcv_space_adjust")
int on_read(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct tcp_sock *tp;
	struct end *e = known(sk);
	bool server = !e || e->service.role == TW_ROLE_SERVER;
	u32 stamp;

	if (!e || (e->at == AT_SKIP && !server)) {
		if (!e)
			read_else();
		return 0;
	}
	if (e->at != AT_UNREAD && e->at != AT_SKIP)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	stamp = tp->inet_conn.icsk_ack.lrcvtime;
	if (e->at == AT_SKIP) {
		if (!take_late(e, tp, AT_UNREAD, stamp)) {
			if (e->unaccepted)
				e->unaccepted = 0;
			read_else();
			return 0;
		}
		e->rcv_nxt = tp->rcv_nxt;
	} else if (tp->copied_seq == e->copied_seq) {
		return 0; /* MSG_PEEK comes here, too, and moves nothing. */
	}
	e->copied_seq = tp->copied_seq;
	reads(e, bpf_ktime_get_ns());
	/* The rest of what waits is still unread. */
	if (unread(sk, tp) > 0 && (!server || e->taken))
		return 0;
	if (server)
		weigh(e, stamp);
	pass(e, e->unaccepted ? TW_PART_ACCEPT : TW_PART_UNREAD, bpf_ktime_get_ns());
	e->unaccepted = 0;
	if (!e->taken)
		take(e, sk);
	if (unread(sk, tp) <= 0)
		e->at = server ? AT_THINK : AT_READ;
	return 0;
}

/* Comes for each piece that a write is cut into; the first is its start. */
SEC("tp_btf/tcp_sendmsg_locked")
int on_send(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct tcp_sock *tp;
	struct end *e = known(sk);

	tp = bpf_skc_to_tcp_sock(sk);
	e = end_of(e, sk, tp);
	if (e)
		sent(e, sk, tp);
	return 0;
}

/* Before Linux 6.16 in its place: a write that has returned. It began some microseconds earlier. */
SEC("tp_btf/sock_send_length")
int on_sent(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct end *e = tp ? known(sk) : NULL;
	bool first = !e;

	e = end_of(e, sk, tp);
	if (e && (first || tp->write_seq != e->write_seq))
		sent(e, sk, tp);
	return 0;
}

/* Before Linux 6.3 in its place: a packet that leaves, when something was written since the last one
 * did. What Nagle's algorithm or the window holds back counts as not written yet. */
SEC("tp_btf/net_dev_queue")
int on_leave(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];
	struct sock *sk = skb->sk;
	const struct tcp_sock *tp;
	struct end *e;
	bool first;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	e = known(sk);
	first = !e && in_flight(tp);
	e = end_of(e, sk, tp);
	if (e && (first || tp->write_seq != e->write_seq))
		sent(e, sk, tp);
	return 0;
}

/* What we had sent was lost, or taken to be: so far, the time since was the timer's. */
SEC("tp_btf/tcp_retransmit_skb")
int on_retransmit(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	const struct tcp_sock *tp;
	struct end *e = known(sk);

	if (!e || (e->at != AT_SENT && e->at != AT_AWAIT))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (!e->retransmits) {
		e->dsack_dups = tp->dsack_dups;
		e->resent = stamp(tp);
	}
	pass(e, TW_PART_REPAIR, bpf_ktime_get_ns());
	e->retransmits++;
	return 0;
}

/* What an exchange that is under way waits for. */
static __always_inline u32 waiting_for(const struct end *e)
{
	if (e->at == AT_AWAIT)
		return TW_PART_AWAIT;
	if (e->at == AT_THINK)
		return TW_PART_THINK;
	return e->unaccepted ? TW_PART_ACCEPT : TW_PART_UNREAD;
}

#define ECONNRESET 104

/* Whether the one that asked closes it: its program, or of a server's end a FIN or a reset that came. */
static __always_inline bool asker_closes(const struct end *e, const struct sock *sk, u32 from)
{
	if (e->service.role == TW_ROLE_CLIENT)
		return from == TCP_ESTABLISHED && !sk->sk_err;
	return from == TCP_CLOSE_WAIT || (from == TCP_ESTABLISHED && sk->sk_err == ECONNRESET);
}

/* The connection closes before the answer. */
static __always_inline void unanswered(struct end *e, struct sock *sk, const struct tcp_sock *tp,
				       u32 from)
{
	bool server = e->service.role == TW_ROLE_SERVER;
	struct tw_requests *r = requests_of(e);
	u64 since = e->since, until = bpf_ktime_get_ns();

	if (!r)
		return;
	weigh(e, server ? tp->inet_conn.icsk_ack.lrcvtime : tp->lsndtime);
	ADD(r->unanswered, e->weight);
	/* A server may close long after whoever asked did, who waited since it had asked all. */
	if (server && from == TCP_CLOSE_WAIT)
		until = e->gone;
	if (server && !e->ns[TW_PART_RECEIVE])
		since = e->began;
	pass(e, waiting_for(e), until);
	if (until > since && until - since >= given_up_ns && asker_closes(e, sk, from))
		count_given_up(e, sk, until - since);
}

SEC("tp_btf/inet_sock_set_state")
int on_state(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	u32 from = ctx[1], to = ctx[2], stamp = 0;
	struct tw_listening listens = {};
	const struct tcp_sock *tp;
	struct end *e;
	u8 one = 1, at;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (to == TCP_LISTEN) {
		/* It stays when this one goes: others may listen there, too. */
		listens.netns = sk->__sk_common.skc_net.net->ns.inum;
		listens.port = sk->__sk_common.skc_num;
		bpf_map_update_elem(&listening, &listens, &one, BPF_ANY);
		return 0;
	}
	if (!watching ||
	    (to != TCP_CLOSE && to != TCP_FIN_WAIT1 && to != TCP_LAST_ACK && to != TCP_CLOSE_WAIT))
		return 0;
	e = bpf_sk_storage_get(&ends, sk, NULL, 0);
	if (!e || e->at == AT_END)
		return 0;
	if (to == TCP_CLOSE_WAIT) {
		e->gone = bpf_ktime_get_ns();
		return 0;
	}
	/* Who has asked all may say so, and still await the answer. */
	if (to == TCP_FIN_WAIT1 && e->service.role == TW_ROLE_CLIENT && !(sk->sk_shutdown & 1))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	if (e->at == AT_SKIP) {
		at = skipped_at(e, sk, &stamp);
		if (at != AT_NOTHING)
			take_late(e, tp, at, stamp);
	}
	switch (e->at) {
	case AT_UNREAD:
		/* A client need not read what has come. */
		if (e->service.role == TW_ROLE_SERVER) {
			unanswered(e, sk, tp, from);
			break;
		}
		pass(e, TW_PART_UNREAD, bpf_ktime_get_ns());
		count_exchange(e, sk);
		break;
	case AT_SENT:
		judge_repair(e, tp, last_word(tp));
		count_exchange(e, sk);
		break;
	case AT_READ:
		count_exchange(e, sk);
		break;
	case AT_AWAIT:
		/* The answer came with the FIN. */
		if (unread(sk, tp) > 0) {
			pass(e, TW_PART_AWAIT, bpf_ktime_get_ns());
			count_exchange(e, sk);
			break;
		}
		if (!e->pushed)
			unanswered(e, sk, tp, from);
		break;
	case AT_THINK:
		if (!e->pushed)
			unanswered(e, sk, tp, from);
		break;
	}
	e->at = AT_END;
	return 0;
}

/* An exchange that is under way. */
static __always_inline void tell_open(struct seq_file *seq, const struct end *e, struct sock *sk)
{
	struct tw_exchange x;
	u64 now, began, since, longest;
	u32 stamp = 0;
	bool skipped;
	u8 at;

	now = bpf_ktime_get_ns();
	at = e->at;
	skipped = at == AT_SKIP;
	if (skipped) {
		at = skipped_at(e, sk, &stamp);
		began = since = now - (u64)age(stamp) * jiffy_ns;
	} else {
		began = e->began;
		since = e->since;
	}
	if (at != AT_UNREAD && at != AT_THINK && at != AT_AWAIT)
		return;
	/* Nobody owes an answer to that of a push. */
	if (e->pushed && at != AT_UNREAD)
		return;
	if (now - began < open_over_ns)
		return;
	fill(&x, e, sk);
	if (skipped) {
		/* What is kept is of an older one. */
		__builtin_memset(x.ns, 0, sizeof(x.ns));
		x.alone_ns = x.cpu_ns = x.runqueue_ns = 0;
		x.retransmits = x.overlapped = 0;
		x.unread_longest_ns = 0;
		x.began_ns = began;
	}
	x.sock = sock_id(sk);
	x.open = 1;
	x.time_ns = now;
	if (now > since)
		switch (at) {
		case AT_UNREAD:
			x.ns[e->unaccepted ? TW_PART_ACCEPT : TW_PART_UNREAD] += now - since;
			longest = skipped ? now - since : unread_for(e, now);
			if (longest > x.unread_longest_ns)
				x.unread_longest_ns = longest;
			break;
		case AT_THINK:
			x.ns[TW_PART_THINK] += now - since;
			break;
		case AT_AWAIT:
			x.ns[TW_PART_AWAIT] += now - since;
			break;
		}
	bpf_seq_write(seq, &x, sizeof(x));
}

/* All whose connection some process has open. Not by iter/bpf_sk_storage_map: in 7.2 that dereferences a null
 * pointer when a socket ends meanwhile, and takes the thread, or the host, down with it. */
SEC("iter/task_file")
int dump(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct socket *sock = file ? stream_socket(file) : NULL;
	struct sock *sk = sock ? sock->sk : NULL;
	struct end *e = sk ? known(sk) : NULL;

	if (e)
		tell_open(ctx->meta->seq, e, sk);
	return 0;
}

/* In its place where the verifier does not take a file's socket for one: all of the reader's namespace. */
SEC("iter/tcp")
int dump_tcp(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp = skc ? bpf_skc_to_tcp_sock(skc) : NULL;
	struct end *e = tp ? bpf_sk_storage_get(&ends, tp, NULL, 0) : NULL;

	if (e)
		tell_open(ctx->meta->seq, e, (struct sock *)tp);
	return 0;
}

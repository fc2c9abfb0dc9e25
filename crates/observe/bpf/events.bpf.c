// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `events`: what the kernel does to TCP connections, from BTF tracepoints. */
#include "common.h"
#include "filter.h"
#include "caller.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define COOKIE_FRAMES 10 /* cookie_v4_check is the eighth */

/* Set before load. */
const volatile u32 state_wanted[16]; /* bit N of [old]: the change old -> N is recorded */
const volatile u32 cookie_jiffies; /* a cookie sent longer ago is not accepted */
const volatile bool reset_has_reason;
const volatile bool retransmit_has_err;
const volatile bool kfree_has_sock;
const volatile s32 reason_unspecified = -1;
const volatile s32 reason_consumed = -1;
const volatile s32 reason_queue_purge = -1;

TW_SHARE(struct, tw_event);
TW_SHARE(struct, tw_life);
TW_SHARE(struct, tw_slot);
TW_SHARE(struct, tw_reset);
TW_SHARE(enum, tw_slot_word);
TW_SHARE(enum, tw_kind);
TW_SHARE(enum, tw_bits);
TW_SHARE(enum, tw_caller);

/* Events of which the record found the ring full, per kind. */
TW_COUNTERS(lost, TW_KINDS);

/* The child that this CPU made last from a SYN, and whether from a cookie. */
struct born {
	u64 sk;
	u32 caller;
	u32 zero;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct born);
	__uint(max_entries, 1);
} last_born SEC(".maps");

static __always_inline u32 netns_of(const struct sock_common *skc)
{
	return skc->skc_net.net->ns.inum;
}

static __always_inline void start(struct tw_event *e, u32 kind, u32 netns)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->time_ns = bpf_ktime_get_ns();
	e->kind = kind;
	e->netns = netns;
}

static __always_inline struct tw_event *begin(u32 kind, u32 netns)
{
	struct tw_event *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);

	if (e)
		start(e, kind, netns);
	else
		count(&lost, kind);
	return e;
}

/* Whether the user asked for this connection; pids and names are asked of its owner, by readers. */
static __always_inline bool wanted(const struct tw_event *e)
{
	return ports_ok(e->local_port, e->remote_port) && addrs_ok(e->local_addr, e->remote_addr);
}

/* User space drains on a timer: a wakeup per event would cost a third of the rate. */
static __always_inline void end(struct tw_event *e)
{
	if (wanted(e))
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	else
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
}

/* Where a connection waits for its end. Sockets are 2 KiB and more, and neighbours among themselves:
 * so are their slots, which a hash would spread over a page each. */
static __always_inline u32 slot_of(u64 number)
{
	return (number >> 11) & (TW_SLOTS - 1);
}

static __always_inline void fill_sock_id(struct tw_event *e, const void *sk)
{
	u64 number = number_through(&e->sock, sk);

	e->sock = sock_id_of(number);
	e->slot = slot_of(number);
	e->bits |= TW_HAS_SOCK;
}

static __always_inline void fill_sock(struct tw_event *e, const struct sock *sk,
				      const struct tcp_sock *tp)
{
	const struct sock_common *skc = &sk->__sk_common;

	e->family = load_addrs(e->local_addr, e->remote_addr, skc);
	e->remote_port = bpf_ntohs(skc->skc_dport);
	e->state = skc->skc_state;
	fill_sock_id(e, sk);
	/* skc_num is cleared before the change to CLOSE is announced; inet_sport is not. TIME_WAIT
	 * and requests have only the former. */
	e->local_port = tp ? bpf_ntohs(tp->inet_conn.icsk_inet.inet_sport) : skc->skc_num;
}

static __always_inline void fill_tcp(struct tw_event *e, const struct tcp_sock *tp)
{
	e->rtt_us = tp->srtt_us >> 3;
	e->cwnd = tp->snd_cwnd;
	e->retransmits = tp->total_retrans;
}

/* What ended it, before anybody asks for it: a reset, ICMP, a timeout; or what it was told by ICMP
 * before it was given up. */
static __always_inline u8 error_of(const struct sock *sk)
{
	return sk->sk_err ? sk->sk_err : sk->sk_err_soft;
}

/* The change to CLOSE: what the kernel threw away of what was written, and why it ended. */
static __always_inline void fill_end(struct tw_event *e, const struct sock *sk,
				     const struct tcp_sock *tp)
{
	e->attempt = tp->write_seq - tp->snd_una;
	e->error = error_of(sk);
}

static __always_inline bool sock_ok(const struct sock *sk)
{
	return netns_ok(netns_of(&sk->__sk_common)) &&
	       (!filter.n_cgroups || cgroup_ok(sock_cgroup(sk)));
}

/* Addresses, ports, flags and sequence number from the headers of a packet as it came in: its
 * destination is the local side. False when it is not TCP. */
static __always_inline bool fill_packet(struct tw_event *e, const struct sk_buff *skb)
{
	unsigned char *ip = BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header);
	u16 protocol = BPF_CORE_READ(skb, protocol);
	u8 first, next, tcp[14];
	u32 header;

	if (protocol == bpf_htons(ETH_P_IP)) {
		__be32 addr[2];

		if (bpf_probe_read_kernel(&first, 1, ip) || first >> 4 != 4 ||
		    bpf_probe_read_kernel(&next, 1, ip + 9) || next != IPPROTO_TCP ||
		    bpf_probe_read_kernel(addr, 8, ip + 12))
			return false;
		v4_mapped(e->remote_addr, addr[0]);
		v4_mapped(e->local_addr, addr[1]);
		e->family = 4;
		header = (first & 15) * 4;
	} else if (protocol == bpf_htons(ETH_P_IPV6)) {
		/* Extension headers before TCP are not followed. */
		if (bpf_probe_read_kernel(&first, 1, ip) || first >> 4 != 6 ||
		    bpf_probe_read_kernel(&next, 1, ip + 6) || next != IPPROTO_TCP ||
		    bpf_probe_read_kernel(e->remote_addr, 16, ip + 8) ||
		    bpf_probe_read_kernel(e->local_addr, 16, ip + 24))
			return false;
		e->family = 6;
		header = 40;
	} else {
		return false;
	}
	if (bpf_probe_read_kernel(tcp, sizeof(tcp), ip + header))
		return false;
	e->remote_port = tcp[0] << 8 | tcp[1];
	e->local_port = tcp[2] << 8 | tcp[3];
	e->seq = (u32)tcp[4] << 24 | tcp[5] << 16 | tcp[6] << 8 | tcp[7];
	e->flags = tcp[13];
	e->bits |= TW_HAS_PACKET;
	return true;
}

static __always_inline u32 netns_of_packet(const struct sk_buff *skb)
{
	struct net_device *dev = BPF_CORE_READ(skb, dev);
	struct dst_entry *dst;

	if (!dev) {
		/* TCP clears skb->dev once the packet has a socket; its route still knows. */
		dst = (struct dst_entry *)(BPF_CORE_READ(skb, _skb_refdst) & ~1UL);
		dev = BPF_CORE_READ(dst, dev);
	}
	return BPF_CORE_READ(dev, nd_net.net, ns.inum);
}

/* A child of a listener is being made. By tcp_check_req, or by cookie_v4_check? The kernel accepts
 * cookies only within two minutes after the listener sent one, and the child, at this moment still
 * the listener's copy, tells when that was: only then the stack is worth its price. Listeners that
 * share a port keep the time elsewhere. */
static __always_inline u32 born_of(void *ctx, struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!n_cookie_ranges)
		return TW_CALLER_UNKNOWN;
	if (tp && !BPF_CORE_READ_BITFIELD(sk, __sk_common.skc_reuseport) &&
	    (u32)bpf_jiffies64() - (u32)tp->rx_opt.ts_recent_stamp > cookie_jiffies)
		return TW_CALLER_OTHER;
	return caller(ctx, COOKIE_FRAMES, 0, n_cookie_ranges);
}

/* Of the two programs below on this CPU: whether the first is at work, and where each of them makes
 * a number of a pointer. */
struct at_work {
	u64 first;
	u64 number[2];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct at_work);
	__uint(max_entries, 1);
} busy SEC(".maps");

/* Changes that the first program missed and the second did not. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, u64);
	__uint(max_entries, 1);
} caught SEC(".maps");

/* What is known of a connection when it is established. */
static __always_inline void fill_agreed(struct tw_event *e, const struct sock *sk,
					const struct tcp_sock *tp, int old)
{
	struct born *born;
	u32 zero = 0;

	e->mss = tp->mss_cache;
	e->bits |= BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok) ? TW_SACK : 0;
	e->bits |= BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok) ? TW_WSCALE : 0;
	e->bits |= BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok) ? TW_TIMESTAMPS : 0;
	if (old != TCP_SYN_RECV)
		return;
	born = bpf_map_lookup_elem(&last_born, &zero);
	if (born && born->sk == (u64)sk && born->caller != TW_CALLER_UNKNOWN) {
		e->bits |= TW_HAS_COOKIE;
		e->bits |= born->caller == TW_CALLER_COOKIE ? TW_COOKIE : 0;
		born->sk = 0;
	}
}

static __always_inline void fill_caller(struct tw_event *e)
{
	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->cgroup = bpf_get_current_cgroup_id();
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

static __always_inline void fill_change(struct tw_event *e, const struct sock *sk,
					const struct tcp_sock *tp, int old, int new)
{
	fill_sock(e, sk, tp);
	e->old_state = old;
	e->state = new;
	if (old == TCP_CLOSE) {
		/* connect() or listen(): the only changes made by the owner itself. */
		fill_caller(e);
		e->backlog = sk->sk_max_ack_backlog;
	} else if (tp && (new == TCP_ESTABLISHED || new == TCP_CLOSE)) {
		fill_tcp(e, tp);
		e->bytes_acked = tp->bytes_acked;
		e->bytes_received = tp->bytes_received;
		if (new == TCP_CLOSE)
			fill_end(e, sk, tp);
	}
}

#include "lives.h"
#include "no_route.h"

/* `number` is a place in a map for the socket as a number, or NULL when lives are not folded. */
static __always_inline int state_changed(void *ctx, struct sock *sk, int old, int new, u64 *number)
{
	struct tcp_sock *tp;
	struct tw_event *e;
	struct born *born;
	u32 zero = 0;
	u64 n;

	if (old == TCP_LISTEN && new == TCP_SYN_RECV) {
		/* It is reported when it is established, a moment later on this CPU. */
		born = bpf_map_lookup_elem(&last_born, &zero);
		if (born) {
			born->sk = (u64)sk;
			born->caller = born_of(ctx, sk);
		}
		return 0;
	}
	if (!sock_ok(sk))
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (number && tp) {
		n = number_through(number, sk);
		if (fold(sock_id_of(n), slot_of(n), sk, tp, old, new))
			return 0;
	}
	e = begin(TW_STATE, netns_of(&sk->__sk_common));
	if (!e)
		return 0;
	fill_change(e, sk, tp, old, new);
	if (tp && new == TCP_ESTABLISHED)
		fill_agreed(e, sk, tp, old);
	end(e);
	return 0;
}

static __always_inline bool change_wanted(int old, int new)
{
	return state_wanted[old & 15] & (1u << (new & 15));
}

static __always_inline int first(void *ctx, struct sock *sk, int old, int new, bool folds)
{
	u32 zero = 0;
	struct at_work *at_work;

	if (!change_wanted(old, new) || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	at_work = bpf_map_lookup_elem(&busy, &zero);
	if (!at_work)
		return 0;
	*(volatile u64 *)&at_work->first = 1;
	state_changed(ctx, sk, old, new, folds ? &at_work->number[0] : NULL);
	*(volatile u64 *)&at_work->first = 0;
	return 0;
}

/* The kernel runs no program in the middle of itself. A change of state in an interrupt that came in
 * the middle of the first one, as on any host with a network card some do, would be lost. This one is
 * called after it for every change, and takes those that came while it was at work. */
static __always_inline int second(void *ctx, struct sock *sk, int old, int new, bool folds)
{
	u32 zero = 0;
	struct at_work *at_work = bpf_map_lookup_elem(&busy, &zero);
	u64 *n;

	if (!at_work || !at_work->first || !change_wanted(old, new) ||
	    sk->sk_protocol != IPPROTO_TCP)
		return 0;
	n = bpf_map_lookup_elem(&caught, &zero);
	if (n)
		*n += 1;
	return state_changed(ctx, sk, old, new, folds ? &at_work->number[1] : NULL);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int old, int new)
{
	return first(ctx, sk, old, new, false);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state_missed, struct sock *sk, int old, int new)
{
	return second(ctx, sk, old, new, false);
}

/* The same where lives are folded, which takes compare and swap: Linux 5.12. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state_fold, struct sock *sk, int old, int new)
{
	return first(ctx, sk, old, new, true);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state_fold_missed, struct sock *sk, int old, int new)
{
	return second(ctx, sk, old, new, true);
}

SEC("tp_btf/tcp_retransmit_skb")
int on_retransmit(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct sk_buff *skb = (struct sk_buff *)ctx[1];
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)&skb->cb;
	struct tcp_sock *tp;
	struct tw_event *e;

	if (!sock_ok(sk))
		return 0;
	e = begin(TW_RETRANSMIT, netns_of(&sk->__sk_common));
	if (!e)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	fill_sock(e, sk, tp);
	if (tp) {
		fill_tcp(e, tp);
		e->attempt = tp->inet_conn.icsk_retransmits;
	}
	e->seq = BPF_CORE_READ(cb, seq);
	e->flags = BPF_CORE_READ(cb, tcp_flags);
	e->bits |= TW_HAS_PACKET;
	e->caller = caller(ctx, STACK_FRAMES, n_cookie_ranges, n_ranges);
	if (retransmit_has_err) {
		e->reason = ctx[2];
		e->bits |= TW_HAS_REASON;
	}
	end(e);
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(on_retransmit_synack, struct sock *sk, struct request_sock *req)
{
	const struct sock_common *skc = &req->__req_common;
	struct tw_event *e;

	if (!sock_ok(sk))
		return 0;
	e = begin(TW_SYNACK_RETRANSMIT, netns_of(&sk->__sk_common));
	if (!e)
		return 0;
	e->family = load_addrs(e->local_addr, e->remote_addr, skc);
	e->local_port = skc->skc_num;
	e->remote_port = bpf_ntohs(skc->skc_dport);
	e->state = TCP_NEW_SYN_RECV;
	fill_sock_id(e, req);
	e->attempt = BPF_CORE_READ_BITFIELD(req, num_timeout);
	end(e);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int on_send_reset(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct sk_buff *skb = (struct sk_buff *)ctx[1];
	struct tw_reset *r;
	struct tw_event *e;
	u32 netns;

	/* Either may be absent: no socket for a stray packet, no packet when the socket aborts. */
	bool has_sk = is_given(ctx, 0), has_skb = is_given(ctx, 1);

	if (has_sk && sk) {
		if (!sock_ok(sk))
			return 0;
		netns = netns_of(&sk->__sk_common);
	} else if (has_skb && skb) {
		netns = netns_of_packet(skb);
		if (!netns_ok(netns))
			return 0;
	} else {
		return 0;
	}
	r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	if (!r) {
		count(&lost, TW_RESET_SENT);
		return 0;
	}
	e = &r->event;
	start(e, TW_RESET_SENT, netns);
	__builtin_memset(r->frames, 0, sizeof(r->frames));
	bpf_get_stack(ctx, r->frames, sizeof(r->frames), 0);
	if (has_sk && sk)
		fill_sock(e, sk, bpf_skc_to_tcp_sock(sk));
	/* A listener's own addresses are not the connection's; the packet's are. */
	if (has_skb && skb)
		fill_packet(e, skb);
	if (reset_has_reason) {
		e->reason = ctx[2];
		e->bits |= TW_HAS_REASON;
	}
	end(e);
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(on_receive_reset, struct sock *sk)
{
	struct tw_event *e;

	if (!sock_ok(sk))
		return 0;
	e = begin(TW_RESET_RECEIVED, netns_of(&sk->__sk_common));
	if (!e)
		return 0;
	fill_sock(e, sk, bpf_skc_to_tcp_sock(sk));
	end(e);
	return 0;
}

SEC("tp_btf/kfree_skb")
int on_drop(u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	struct sock *sk = NULL;
	struct tw_event *e;
	s32 reason = ctx[2];
	u32 netns = 0;
	u8 state = 0;
	u16 protocol;

	if (reason == reason_consumed || reason == reason_queue_purge)
		return 0;
	protocol = skb->protocol;
	if (protocol != bpf_htons(ETH_P_IP) && protocol != bpf_htons(ETH_P_IPV6))
		return 0;
	if (kfree_has_sock && is_given(ctx, 3)) {
		sk = (struct sock *)ctx[3];
		if (sk) {
			state = sk->__sk_common.skc_state;
			netns = netns_of(&sk->__sk_common);
		}
	}
	/* "Not specified" is how packets end that were used up, too. The one that matters is a
	 * SYN that a TIME_WAIT socket refused. */
	if (reason == reason_unspecified && state != TCP_TIME_WAIT)
		return 0;
	if (!netns)
		netns = netns_of_packet(skb);
	if (!netns_ok(netns))
		return 0;
	e = begin(TW_DROP, netns);
	if (!e)
		return 0;
	if (!fill_packet(e, skb) || (reason == reason_unspecified && (e->flags & 0x12) != 2)) {
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		return 0;
	}
	if (sk) {
		e->state = state;
		fill_sock_id(e, sk);
	}
	e->reason = reason;
	e->bits |= TW_HAS_REASON;
	e->location = ctx[1];
	end(e);
	return 0;
}

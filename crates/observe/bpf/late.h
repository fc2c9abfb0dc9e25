/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Exchanges that the lot left out, and that count all the same: a step of theirs took long, by the stamps that the
 * kernel itself keeps of the last data that came and went. */
#ifndef TCPWHY_LATE_H
#define TCPWHY_LATE_H

#include "exchange.h"

/* An exchange whose next step took so many jiffies is counted, whatever the lot said: a few that are late may be
 * most of the time that is lost, and one in many would miss them. It then stands for its connection alone. */
u32 late_jiffies = 0x7fffffff;
const volatile u32 jiffy_ns = 4000000;

/* The wait that began then was long. */
static __always_inline bool is_late(u32 stamp)
{
	return age(stamp) >= late_jiffies;
}

/* Bytes that came and were not read; a FIN is none. */
static __always_inline s32 unread(const struct sock *sk, const struct tcp_sock *tp)
{
	u32 to = tp->rcv_nxt;

	if (sk->sk_shutdown & 1)
		to--;
	return to - tp->copied_seq;
}

/* The step that ends was a long one: whether it was in the lot does not matter. */
static __always_inline void weigh(struct end *e, u32 stamp)
{
	if (e->weight == e->stands_for || !is_late(stamp))
		return;
	e->weight = e->stands_for;
	count(&counts, LATE);
}

/* One that was not counted is, for the step that ends was a long one; whether it is. */
static __always_inline bool take_late(struct end *e, const struct tcp_sock *tp, u8 at, u32 stamp)
{
	u8 unaccepted = e->unaccepted;

	if (!is_late(stamp))
		return false;
	count(&counts, LATE);
	begin_at(e, at, bpf_ktime_get_ns() - (u64)age(stamp) * jiffy_ns);
	e->unaccepted = unaccepted;
	e->weight = e->stands_for;
	e->copied_seq = tp->copied_seq;
	return true;
}

/* The first word after a request that was not counted. */
static __always_inline bool answers_late(struct end *e, const struct tcp_sock *tp)
{
	return e->rcv_nxt == tp->copied_seq && take_late(e, tp, AT_AWAIT, tp->lsndtime);
}

/* What an end is at whose exchange is not counted, and since when (jiffies). */
static __always_inline u8 skipped_at(const struct end *e, struct sock *sk, u32 *stamp)
{
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp)
		return AT_NOTHING;
	if (e->service.role == TW_ROLE_CLIENT) {
		*stamp = tp->lsndtime;
		return tp->rcv_nxt == e->rcv_nxt ? AT_AWAIT : AT_NOTHING;
	}
	*stamp = tp->inet_conn.icsk_ack.lrcvtime;
	if (unread(sk, tp) > 0)
		return AT_UNREAD;
	/* A FIN is no request. */
	return (s32)(tp->rcv_nxt - (sk->sk_shutdown & 1) - e->rcv_nxt) > 0 ? AT_THINK : AT_NOTHING;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which connections are followed, and what an end is met as: one that answers, or one that asks. */
#ifndef TCPWHY_FOLLOWED_H
#define TCPWHY_FOLLOWED_H

#include "exchange.h"
#include "filter.h"

/* Where somebody listens: ends with these ports answer. */
struct tw_listening {
	u32 netns;
	u32 port;
};
TW_SHARE(struct, tw_listening);

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct tw_listening);
	__type(value, u8);
	__uint(max_entries, 1 << 14);
} listening SEC(".maps");

/* All programs are attached: while some are, an answer may go unseen, and seem never to have come. */
u32 watching;

static __always_inline bool is_server(u32 netns, u16 port)
{
	struct tw_listening at = {.netns = netns, .port = port};

	return bpf_map_lookup_elem(&listening, &at) != NULL;
}

/* Takes up a socket that is seen for the first time. */
static __always_inline void meet(struct end *e, const struct sock *sk, const struct tcp_sock *tp)
{
	const struct sock_common *skc = &sk->__sk_common;
	u8 local[16] __attribute__((aligned(8))), remote[16] __attribute__((aligned(8)));
	u16 port = local_port_of(sk, skc->skc_num), remote_port = bpf_ntohs(skc->skc_dport);
	u32 netns = skc->skc_net.net->ns.inum;

	e->at = AT_NOTHING;
	load_addrs(local, remote, skc);
	if (!addrs_ok(local, remote)) {
		e->at = AT_END;
		return;
	}
	e->stands_for = one_new_in;
	e->share_round = this_round - 1;
	e->service.netns = netns;
	if (is_server(netns, port)) {
		e->service.role = TW_ROLE_SERVER;
		e->service.port = port;
		__builtin_memcpy(e->service.addr, local, 16);
	} else {
		e->service.role = TW_ROLE_CLIENT;
		e->service.port = remote_port;
		__builtin_memcpy(e->service.addr, remote, 16);
	}
	e->rcv_nxt = tp->rcv_nxt;
	e->copied_seq = tp->copied_seq;
	e->write_seq = tp->write_seq;
}

/* What is known of a TCP socket; NULL when nothing is. */
static __always_inline struct end *known(struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_TCP ? bpf_sk_storage_get(&ends, sk, NULL, 0) : NULL;
}

/* Whether this connection is asked for, and one of those that are followed: to keep notes of each costs more
 * than all that is noted. The lot is the same at each call, as long as as many are. */
static __always_inline bool is_drawn(const struct sock *sk)
{
	const struct sock_common *skc = &sk->__sk_common;
	u16 port = local_port_of(sk, skc->skc_num), remote_port = bpf_ntohs(skc->skc_dport);
	u64 lot = ((u64)port << 16 | remote_port) * 0x9e3779b97f4a7c15ULL >> 48;

	return watching && !(lot & (one_new_in - 1)) && netns_ok(skc->skc_net.net->ns.inum) &&
	       ports_ok(port, remote_port);
}

/* The same, taken up when it is seen for the first time; NULL when it does not matter. */
static __always_inline struct end *end_of(struct end *e, struct sock *sk, const struct tcp_sock *tp)
{
	u8 state;

	/* A socket of another protocol. */
	if (!tp)
		return NULL;
	if (!e) {
		state = sk->__sk_common.skc_state;
		if (state == TCP_LISTEN || state == TCP_SYN_SENT || !is_drawn(sk))
			return NULL;
		count(&counts, MET);
		e = bpf_sk_storage_get(&ends, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
		if (!e) {
			count(&counts, LOST_END);
			return NULL;
		}
		meet(e, sk, tp);
	}
	return e->at == AT_END ? NULL : e;
}

#endif

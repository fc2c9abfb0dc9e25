/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* connect() that a route of this host rejects (blackhole, prohibit, unreachable): no packet is sent, no state changes. */
#ifndef TCPWHY_NO_ROUTE_H
#define TCPWHY_NO_ROUTE_H

/* What the lookup of such a route returns. */
#define EACCES	     13
#define EINVAL	     22
#define EHOSTUNREACH 113
/* The types of these routes, of which an IPv6 lookup tells. */
enum { RTN_BLACKHOLE = 6, RTN_UNREACHABLE = 7, RTN_PROHIBIT = 8 };

/* connect() asks before its socket has a port; whatever a connection sends later has one, and so has what is
 * forwarded. */
static __always_inline bool is_connect(u8 protocol, __be16 sport, __be16 dport)
{
	return protocol == IPPROTO_TCP && !sport && dport;
}

/* The caller's event, as far as the two families share it; NULL when it is not wanted or lost. */
static __always_inline struct tw_event *rejected(int error, __be16 dport)
{
	u32 netns = task_netns((struct task_struct *)bpf_get_current_task());
	struct tw_event *e;

	if (!netns_ok(netns))
		return NULL;
	e = begin(TW_NO_ROUTE, netns);
	if (!e)
		return NULL;
	fill_caller(e);
	e->error = error;
	e->remote_port = bpf_ntohs(dport);
	return e;
}

SEC("tp_btf/fib_table_lookup")
int BPF_PROG(on_no_route, u32 table, const struct flowi4 *flow, const void *hop, int error)
{
	struct tw_event *e;

	if (error != -EINVAL && error != -EACCES && error != -EHOSTUNREACH)
		return 0;
	if (!is_connect(flow->__fl_common.flowic_proto, flow->uli.ports.sport,
			flow->uli.ports.dport))
		return 0;
	e = rejected(-error, flow->uli.ports.dport);
	if (!e)
		return 0;
	e->family = 4;
	v4_mapped(e->remote_addr, flow->daddr);
	end(e);
	return 0;
}

SEC("tp_btf/fib6_table_lookup")
int BPF_PROG(on_no_route6, const struct net *net, const struct fib6_result *result,
	     const void *table, const struct flowi6 *flow)
{
	u8 type = result->fib6_type;
	struct tw_event *e;
	int error;

	if (type < RTN_BLACKHOLE || type > RTN_PROHIBIT || result->f6i == net->ipv6.fib6_null_entry)
		return 0;
	/* The kernel asks once more when it has chosen a source address. */
	for (int i = 0; i < 4; i++)
		if (flow->saddr.in6_u.u6_addr32[i])
			return 0;
	if (!is_connect(flow->__fl_common.flowic_proto, flow->uli.ports.sport,
			flow->uli.ports.dport))
		return 0;
	error = type == RTN_BLACKHOLE ? EINVAL : type == RTN_PROHIBIT ? EACCES : EHOSTUNREACH;
	e = rejected(error, flow->uli.ports.dport);
	if (!e)
		return 0;
	e->family = 6;
	__builtin_memcpy(e->remote_addr, &flow->daddr, 16);
	end(e);
	return 0;
}

#endif

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sources `ports` and `tables`: counts the TCP sockets of the reader's network namespace, in the
 * kernel: to copy every socket out costs several times as much. User space clears the counts before
 * each walk; listeners come first, so their ports are known when connections come. */
#include "common.h"
#include "filter.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TW_SHARE(struct, tw_destination);
TW_SHARE(struct, tw_port_count);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, 1); /* BPF_F_NO_PREALLOC: memory only for what there is */
	__type(key, struct tw_destination);
	__type(value, struct tw_port_count);
	__uint(max_entries, 1); /* set before load */
} destinations SEC(".maps");

/* TIME_WAIT sockets of listeners, by client: as the client sees its destination. A server may have
 * more clients than room, and those with the most are to stay. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct tw_destination);
	__type(value, u32);
	__uint(max_entries, 1 << 12);
} served SEC(".maps");

struct tw_census census;
/* One bit per local port. */
u64 listening[1 << 10];
u64 ports[1 << 10];
/* The chain being counted: sockets of a bucket come together. */
u32 chain_bucket;
u32 chain_length;

/* Beside what kernel.h has: only this program reads it. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inet_hashinfo {
	unsigned int ehash_mask;
	unsigned int bhash_size;
	unsigned int lhash2_mask;
};
struct inet_timewait_death_row {
	struct inet_hashinfo *hashinfo;
};
struct netns_ipv4 {
	struct inet_timewait_death_row tcp_death_row;
};
struct net___tables {
	struct netns_ipv4 ipv4;
};
struct proto___tables {
	union {
		struct inet_hashinfo *hashinfo;
	} h;
};
struct sock_common___tables {
	struct proto___tables *skc_prot;
};
struct tcp_iter_state {
	int bucket;
};
struct seq_file___private {
	void *private;
};
#pragma clang attribute pop

/* A namespace may have a table of its own (Linux 6.1); before, the protocol has the only one. */
static __always_inline void find_tables(const struct sock_common *skc)
{
	const struct net___tables *net = (const void *)skc->skc_net.net;
	const struct sock_common___tables *s = (const void *)skc;
	const struct inet_hashinfo *info;

	if (bpf_core_field_exists(net->ipv4.tcp_death_row.hashinfo))
		info = BPF_CORE_READ(net, ipv4.tcp_death_row.hashinfo);
	else
		info = BPF_CORE_READ(s, skc_prot, h.hashinfo);
	if (!info)
		return;
	census.ehash_buckets = BPF_CORE_READ(info, ehash_mask) + 1;
	census.bhash_buckets = BPF_CORE_READ(info, bhash_size);
	if (bpf_core_field_exists(info->lhash2_mask))
		census.lhash2_buckets = BPF_CORE_READ(info, lhash2_mask) + 1;
}

static __always_inline void count_chain(struct bpf_iter__tcp *ctx)
{
	/* A plain load where the verifier knows the type: this runs for every socket. */
	const struct seq_file___private *seq = (const void *)ctx->meta->seq;
	const struct tcp_iter_state *state = seq->private;
	u32 bucket = BPF_CORE_READ(state, bucket);

	if (bucket != chain_bucket) {
		chain_bucket = bucket;
		chain_length = 0;
	}
	if (++chain_length > census.longest_chain)
		census.longest_chain = chain_length;
}

static __always_inline bool test(const u64 *bits, u16 port)
{
	return bits[port >> 6] >> (port & 63) & 1;
}

static __always_inline void set(u64 *bits, u16 port)
{
	bits[port >> 6] |= 1ULL << (port & 63);
}

/* An IPv4 connection of an IPv6 socket takes its port from the same range to the same destination as
 * one of an IPv4 socket; its IPv6 addresses are v4-mapped. */
static __always_inline bool ends_of(const struct sock_common *skc, u8 *local, u8 *remote)
{
	if (skc->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++) {
			((u32 *)local)[i] = skc->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			((u32 *)remote)[i] = skc->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		v4_mapped(local, skc->skc_rcv_saddr);
		v4_mapped(remote, skc->skc_daddr);
	}
	return ports_ok(skc->skc_num, bpf_ntohs(skc->skc_dport)) && addrs_ok(local, remote);
}

static __always_inline void count_port(const struct sock_common *skc, u8 state)
{
	struct tw_destination key = {};
	struct tw_port_count fresh = {}, *count;
	u8 local[16] __attribute__((aligned(8))), remote[16] __attribute__((aligned(8)));

	if (!ends_of(skc, local, remote))
		return;
	key.remote_port = bpf_ntohs(skc->skc_dport);
	__builtin_memcpy(key.local_addr, local, 16);
	__builtin_memcpy(key.remote_addr, remote, 16);
	count = bpf_map_lookup_elem(&destinations, &key);
	if (!count) {
		if (bpf_map_update_elem(&destinations, &key, &fresh, 0)) {
			census.uncounted++;
			return;
		}
		count = bpf_map_lookup_elem(&destinations, &key);
		if (!count)
			return;
	}
	count->used++;
	if (state == TCP_TIME_WAIT)
		count->time_wait++;
	else if (state == TCP_ESTABLISHED)
		count->established++;
}

/* A TIME_WAIT that the listener's side holds: the client's next SYN from that port meets it. */
static __always_inline void count_served(const struct sock_common *skc)
{
	struct tw_destination key = {};
	u32 one = 1, *count;
	u8 local[16] __attribute__((aligned(8))), remote[16] __attribute__((aligned(8)));

	if (!ends_of(skc, local, remote))
		return;
	key.remote_port = skc->skc_num;
	__builtin_memcpy(key.local_addr, remote, 16);
	__builtin_memcpy(key.remote_addr, local, 16);
	count = bpf_map_lookup_elem(&served, &key);
	if (count)
		++*count;
	else
		bpf_map_update_elem(&served, &key, &one, 0);
}

SEC("iter/tcp")
int count(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	u8 state;
	u16 port;

	if (!skc)
		return 0;
	if (!census.ehash_buckets)
		find_tables(skc);
	state = skc->skc_state;
	port = skc->skc_num;
	if (!test(ports, port)) {
		set(ports, port);
		census.ports++;
	}
	if (state == TCP_LISTEN) {
		census.listeners++;
		set(listening, port);
		return 0;
	}
	count_chain(ctx);
	/* A request has its listener's port. */
	if (state == TCP_NEW_SYN_RECV) {
		census.requests++;
		return 0;
	}
	if (state == TCP_TIME_WAIT)
		census.time_wait++;
	else
		census.connections++;
	/* Served by a listener of this port: the peer chose a port, not we. */
	if (test(listening, port)) {
		if (state == TCP_TIME_WAIT)
			count_served(skc);
	} else if (port >= census.range_low && port <= census.range_high) {
		count_port(skc, state);
	}
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What several programs need: the socket's id, its addresses, the namespace filter. */
#ifndef TCPWHY_COMMON_H
#define TCPWHY_COMMON_H

#include "kernel.h"
#include "wire.h"

/* Random per recording: ids are stable within it and tell no kernel address. */
const volatile u64 sock_key[2];

static __always_inline u64 sock_id(const void *sk)
{
	u64 x = 0;

	/* The verifier lets nobody calculate with a pointer; read as memory it is a number. */
	bpf_probe_read_kernel(&x, sizeof(x), &sk);
	x = (x ^ sock_key[0]) * sock_key[1];
	return x ^ (x >> 32);
}

static __always_inline void v4_mapped(u8 out[16], __be32 addr)
{
	__builtin_memset(out, 0, 10);
	out[10] = 0xff;
	out[11] = 0xff;
	__builtin_memcpy(out + 12, &addr, 4);
}

/* sock_common's addresses; an IPv4 connection of an IPv6 socket keeps v4-mapped ones itself. */
static __always_inline u8 fill_addrs(u8 local[16], u8 remote[16], const struct sock_common *skc)
{
	if (BPF_CORE_READ(skc, skc_family) == AF_INET6) {
		BPF_CORE_READ_INTO((struct in6_addr *)local, skc, skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO((struct in6_addr *)remote, skc, skc_v6_daddr);
		return 6;
	}
	v4_mapped(local, BPF_CORE_READ(skc, skc_rcv_saddr));
	v4_mapped(remote, BPF_CORE_READ(skc, skc_daddr));
	return 4;
}

static __always_inline u64 sock_cgroup(const struct sock *sk)
{
	/* Before Linux 5.15 the pointer shares its word with flags: not worth guessing. */
	if (bpf_core_field_exists(sk->sk_cgrp_data.cgroup))
		return BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	return 0;
}

#endif

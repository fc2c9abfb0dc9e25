/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What several programs need: the socket's id, its addresses, the namespace filter. */
#ifndef TCPWHY_COMMON_H
#define TCPWHY_COMMON_H

#include "kernel.h"
#include "wire.h"

/* Random per recording: ids are stable within it and tell no kernel address. */
const volatile u64 sock_key[2];

static __always_inline void v4_mapped(u8 out[16], __be32 addr)
{
	__builtin_memset(out, 0, 10);
	out[10] = 0xff;
	out[11] = 0xff;
	__builtin_memcpy(out + 12, &addr, 4);
}

/* What was a pointer in a register is a number when it comes back from memory: `place` is some of a
 * map's or of a record's. Cheaper than a probe read. */
static __always_inline u64 number_through(u64 *place, const void *pointer)
{
	*(volatile u64 *)place = (u64)pointer;
	return *(volatile u64 *)place;
}

/* Whether an argument of a tracepoint that may be NULL is not. Linux 6.2 to 6.12 take each for a valid pointer: they
 * delete a test of it and load through it without a net (CVE-2024-56702). As a number it is told; later ones want
 * the test of the pointer, too. */
static __always_inline bool is_given(const u64 *ctx, u32 nth)
{
	u64 number = 0;

	/* Another pointer to the compiler: its loads have to go through the context as it is. */
	asm volatile("" : "+r"(ctx));
	bpf_probe_read_kernel(&number, sizeof(number), ctx + nth);
	return number;
}

/* Since one of the kernel's own stamps, in jiffies; another CPU's may be a tick ahead of ours. */
static __always_inline u32 age(u32 stamp)
{
	s32 ago = (u32)bpf_jiffies64() - stamp;

	return ago > 0 ? ago : 0;
}

static __always_inline u64 sock_id_of(u64 number)
{
	u64 x = (number ^ sock_key[0]) * sock_key[1];

	return x ^ (x >> 32);
}

static __always_inline u64 sock_id(const void *sk)
{
	u64 x = 0;

	/* The verifier lets nobody calculate with a pointer; read as memory it is a number. */
	bpf_probe_read_kernel(&x, sizeof(x), &sk);
	return sock_id_of(x);
}

static __always_inline u64 sock_id_through(u64 *place, const void *sk)
{
	return sock_id_of(number_through(place, sk));
}

/* The local port, of which skc_num is `number`: that is cleared when a connection ends, also one that waits for
 * accept(); inet_sport is not. */
static __always_inline u16 local_port_of(const struct sock *sk, u16 number)
{
	return number ?: bpf_ntohs(BPF_CORE_READ((const struct inet_sock *)sk, inet_sport));
}

/* sock_common's addresses, by plain loads, which typed pointers of tracepoints and iterators allow:
 * probe reads took a fifth of a socket dump and half of an event. An IPv4 connection of an IPv6
 * socket keeps v4-mapped addresses itself. */
static __always_inline u8 load_addrs(u8 local[16], u8 remote[16], const struct sock_common *skc)
{
	__be32 *l = (__be32 *)local, *r = (__be32 *)remote;

	if (skc->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++) {
			l[i] = skc->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			r[i] = skc->skc_v6_daddr.in6_u.u6_addr32[i];
		}
		return 6;
	}
	v4_mapped(local, skc->skc_rcv_saddr);
	v4_mapped(remote, skc->skc_daddr);
	return 4;
}

/* The same of a pointer that was itself read from memory, which the verifier does not know. */
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

static __always_inline u32 task_netns(struct task_struct *t)
{
	return BPF_CORE_READ(t, nsproxy, net_ns, ns.inum);
}

static __always_inline u64 sock_cgroup(const struct sock *sk)
{
	u64 word;

	if (bpf_core_field_exists(sk->sk_cgrp_data.cgroup))
		return sk->sk_cgrp_data.cgroup ? sk->sk_cgrp_data.cgroup->kn->id : 0;
	/* With one of its low bits set the word is the class or priority of cgroup v1. */
	word = sk->sk_cgrp_data.val;
	if (!word || word & 3)
		return 0;
	return BPF_CORE_READ((const struct cgroup *)word, kn, id);
}

static __always_inline u64 file_inode(const struct sock *sk)
{
	const struct socket_alloc *alloc;

	/* Linux 6.17 keeps it in the socket itself. */
	if (bpf_core_field_exists(sk->sk_ino))
		return sk->sk_ino;
	alloc = (const void *)sk->sk_socket;
	return alloc ? BPF_CORE_READ(alloc, vfs_inode.i_ino) : 0;
}

#endif

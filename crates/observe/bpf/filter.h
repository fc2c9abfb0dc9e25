/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the user asked for, asked in the kernel: kinds that are given must all match, any of a kind
 * does. Read-only data: for what is not asked the verifier removes the code. */
#ifndef TCPWHY_FILTER_H
#define TCPWHY_FILTER_H

#include "kernel.h"

#define TW_FILTERS	  16
#define TW_FILTER_CGROUPS 64 /* a cgroup is asked for with all those below it */

struct tw_prefix {
	u64 addr[2]; /* as in memory; bits outside the mask are zero */
	u64 mask[2];
};

struct tw_filter {
	u32 n_netns;
	u32 n_pids;
	u32 n_comms;
	u32 n_cgroups;
	u32 n_ports;
	u32 n_addrs;
	u32 netns[TW_FILTERS];
	u32 pids[TW_FILTERS];
	u64 comms[TW_FILTERS][2];
	u64 cgroups[TW_FILTER_CGROUPS];
	u32 ports[TW_FILTERS];
	struct tw_prefix addrs[TW_FILTERS];
};

/* Set before load. */
const volatile struct tw_filter filter;

static __always_inline bool netns_ok(u32 inum)
{
	if (!filter.n_netns)
		return true;
	for (u32 i = 0; i < TW_FILTERS && i < filter.n_netns; i++)
		if (filter.netns[i] == inum)
			return true;
	return false;
}

static __always_inline bool pid_ok(u32 pid)
{
	if (!filter.n_pids)
		return true;
	for (u32 i = 0; i < TW_FILTERS && i < filter.n_pids; i++)
		if (filter.pids[i] == pid)
			return true;
	return false;
}

/* comm is 16 bytes, padded with zeros. */
static __always_inline bool comm_ok(const void *comm)
{
	u64 name[2];

	if (!filter.n_comms)
		return true;
	__builtin_memcpy(name, comm, sizeof(name));
	for (u32 i = 0; i < TW_FILTERS && i < filter.n_comms; i++)
		if (filter.comms[i][0] == name[0] && filter.comms[i][1] == name[1])
			return true;
	return false;
}

static __always_inline bool cgroup_ok(u64 id)
{
	if (!filter.n_cgroups)
		return true;
	for (u32 i = 0; i < TW_FILTER_CGROUPS && i < filter.n_cgroups; i++)
		if (filter.cgroups[i] == id)
			return true;
	return false;
}

/* Either port of a connection, host byte order. */
static __always_inline bool ports_ok(u16 one, u16 other)
{
	if (!filter.n_ports)
		return true;
	for (u32 i = 0; i < TW_FILTERS && i < filter.n_ports; i++)
		if (filter.ports[i] == one || filter.ports[i] == other)
			return true;
	return false;
}

static __always_inline bool addr_in(u32 i, const u64 a[2])
{
	return (a[0] & filter.addrs[i].mask[0]) == filter.addrs[i].addr[0] &&
	       (a[1] & filter.addrs[i].mask[1]) == filter.addrs[i].addr[1];
}

/* Either address of a connection, 16 bytes each. */
static __always_inline bool addrs_ok(const u8 one[16], const u8 other[16])
{
	u64 a[2], b[2];

	if (!filter.n_addrs)
		return true;
	__builtin_memcpy(a, one, sizeof(a));
	__builtin_memcpy(b, other, sizeof(b));
	for (u32 i = 0; i < TW_FILTERS && i < filter.n_addrs; i++)
		if (addr_in(i, a) || addr_in(i, b))
			return true;
	return false;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The ring that a program's records go to, and counters that each CPU keeps for itself: of records that
 * found the ring full, and of what else user space asks for. */
#ifndef TCPWHY_RING_H
#define TCPWHY_RING_H

#include "kernel.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20); /* set anew before load */
} ring SEC(".maps");

/* A map of `n` counters. */
#define TW_COUNTERS(map, n)                                                                        \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                           \
		__type(key, u32);                                                                  \
		__type(value, u64);                                                                \
		__uint(max_entries, n);                                                            \
	} map SEC(".maps")

/* Adds to one of them. */
static __always_inline void count_all(void *counters, u32 which, u64 more)
{
	u64 *n = bpf_map_lookup_elem(counters, &which);

	if (n)
		*n += more;
}

static __always_inline void count(void *counters, u32 which)
{
	count_all(counters, which, 1);
}

#endif

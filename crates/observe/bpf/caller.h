/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who called a tracepoint, told from the kernel stack by functions that user space looked up. */
#ifndef TCPWHY_CALLER_H
#define TCPWHY_CALLER_H

#include "kernel.h"
#include "wire.h"

#define STACK_FRAMES 16

/* Set before load. */
const volatile struct tw_range ranges[TW_RANGES];
const volatile u32 n_ranges;
const volatile u32 n_cookie_ranges; /* they come first */

struct stack {
	u64 ip[STACK_FRAMES];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct stack);
	__uint(max_entries, 1);
} stacks SEC(".maps");

/* Who called: the greatest of the ranges `first`..`end` that a frame of the stack lies in. Without
 * branches, which would multiply the verifier's work and make it a matter of seconds. */
static __always_inline u32 caller(void *ctx, u32 frames, u32 first, u32 end)
{
	u32 zero = 0, found = 0;
	struct stack *st = bpf_map_lookup_elem(&stacks, &zero);

	if (!n_ranges || !st)
		return TW_CALLER_UNKNOWN;
	__builtin_memset(st, 0, sizeof(*st));
	if (bpf_get_stack(ctx, st->ip, frames * sizeof(u64), 0) <= 0)
		return TW_CALLER_UNKNOWN;
	for (u32 i = 0; i < frames; i++) {
		for (u32 r = first; r < end && r < TW_RANGES; r++) {
			u64 into = st->ip[i] - ranges[r].start;
			/* 1 when 0 <= into < size, in two's complement */
			u64 inside = ((into - ranges[r].size) & ~into) >> 63;

			found |= inside << ranges[r].caller;
		}
	}
	for (u32 c = TW_CALLER_COOKIE; c > TW_CALLER_OTHER; c--)
		if (found & (1u << c))
			return c;
	return TW_CALLER_OTHER;
}

#endif

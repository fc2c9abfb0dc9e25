/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is kept of every thread between two switches, and what its waits are called. */
#ifndef TCPWHY_TASK_STATE_H
#define TCPWHY_TASK_STATE_H

#include "common.h"
#include "filter.h"

/* Bits of task_struct.__state and .flags that have not changed since Linux 5.10. */
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_STOPPED_TRACED  0x000c
#define TASK_DEAD	     0x0080
#define TASK_NOLOAD	     0x0400
#define PF_KTHREAD	     0x00200000
/* PF_IO_WORKER, PF_USER_WORKER, PF_KTHREAD: no system calls, no user mode */
#define PF_NO_USER (0x10 | 0x4000 | PF_KTHREAD)

#define MAX_LOCKS 4
#define MAX_EPOLL 4

/* Set before load. */
const volatile bool use_storage = true; /* else a hash by thread */
const volatile bool want_threads;
const volatile bool want_waits;
const volatile s32 lock_calls[MAX_LOCKS]; /* futex and its kin; -1 fills up */
const volatile s32 epoll_calls[MAX_EPOLL]; /* likewise */

enum now { NOW_RUNNING, NOW_RUNNABLE, NOW_BLOCKED };

struct thread {
	u64 since; /* of `now`; 0 while it is being set up */
	u64 first;
	u64 voluntary_before; /* the kernel's counts then */
	u64 involuntary_before;
	u64 early; /* woken at this time although it had not left the CPU */
	u64 to_tell; /* the wakeup after which user space wants to know when it runs */
	u64 ns[TW_STATES];
	struct tw_sleep sleeps[TW_SLEEPS];
	u32 blocked; /* the kernel's state bits when it left the CPU */
	u32 turns; /* odd while someone writes */
	u8 now;
	u8 was_early;
	u8 dead;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} by_task SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, u32);
	__type(value, struct thread);
	__uint(max_entries, 1); /* set before load */
} by_tid SEC(".maps");

static __always_inline struct thread *known(struct task_struct *t)
{
	u32 tid;

	if (use_storage)
		return bpf_task_storage_get(&by_task, t, NULL, 0);
	tid = t->pid;
	return bpf_map_lookup_elem(&by_tid, &tid);
}

static __always_inline struct thread *known_or_new(struct task_struct *t)
{
	struct thread *th, empty;
	u32 tid;

	if (use_storage)
		return bpf_task_storage_get(&by_task, t, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	tid = t->pid;
	th = bpf_map_lookup_elem(&by_tid, &tid);
	if (th)
		return th;
	__builtin_memset(&empty, 0, sizeof(empty));
	bpf_map_update_elem(&by_tid, &tid, &empty, BPF_ANY);
	return bpf_map_lookup_elem(&by_tid, &tid);
}

static __always_inline void forget(struct task_struct *t)
{
	u32 tid = t->pid;

	if (!use_storage)
		bpf_map_delete_elem(&by_tid, &tid);
}

static __always_inline u64 task_cgroup(struct task_struct *t)
{
	return BPF_CORE_READ(t, cgroups, dfl_cgrp, kn, id);
}

static __always_inline bool begins(const char *name, const char *with)
{
#pragma unroll
	for (u32 i = 0; i < 16; i++) {
		if (!with[i])
			return true;
		if (name[i] != with[i])
			return false;
	}
	return true;
}

/* Whether a kernel thread handles packets for all namespaces: ksoftirqd/N, napi/DEVICE-N,
 * backlog_napi/N. */
static __always_inline bool serves_softirq(struct task_struct *t)
{
	char comm[16];

	if (!(BPF_CORE_READ(t, flags) & PF_KTHREAD))
		return false;
	BPF_CORE_READ_INTO(&comm, t, comm);
	return begins(comm, "ksoftirqd/") || begins(comm, "napi/") || begins(comm, "backlog_napi/");
}

/* Whether the thread works for a namespace that the user asked for. */
static __always_inline bool task_netns_ok(struct task_struct *t)
{
	return !filter.n_netns || netns_ok(task_netns(t)) || serves_softirq(t);
}

/* Whether the user asked for this thread. Not the idle tasks. */
static __always_inline bool task_ok(struct task_struct *t)
{
	char comm[16];

	if (!t->pid || !pid_ok(t->tgid))
		return false;
	if (filter.n_comms) {
		BPF_CORE_READ_INTO(&comm, t, comm);
		if (!comm_ok(comm))
			return false;
	}
	if (filter.n_cgroups && !cgroup_ok(task_cgroup(t)))
		return false;
	return task_netns_ok(t);
}

static __always_inline u32 state_bits(struct task_struct *t)
{
	if (bpf_core_field_exists(t->__state))
		return t->__state;
	return BPF_CORE_READ((struct task_struct___old *)t, state);
}

/* Registers of a thread as it entered the kernel, where no helper tells: before Linux 5.15. They
 * end its stack; that of x86 has 16 KiB. */
static __always_inline struct pt_regs *entry_regs(struct task_struct *t)
{
#if defined(__TARGET_ARCH_x86)
	return (struct pt_regs *)(BPF_CORE_READ(t, stack) + (16 << 10) -
				  bpf_core_type_size(struct pt_regs));
#else
	return NULL;
#endif
}

/* The system call that a thread is in. */
static __always_inline s32 syscall_of(struct task_struct *t)
{
	struct pt_regs *regs;

	if (t->flags & PF_NO_USER)
		return TW_NO_SYSCALL;
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return ((struct pt_regs *)bpf_task_pt_regs(t))->SYSCALL_NR;
	regs = entry_regs(t);
	return regs ? (s32)BPF_CORE_READ(regs, SYSCALL_NR) : TW_NO_SYSCALL;
}

/* Its first argument. */
static __always_inline s32 first_arg(struct task_struct *t)
{
	struct pt_regs *regs;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return ((struct pt_regs *)bpf_task_pt_regs(t))->SYSCALL_ARG1;
	regs = entry_regs(t);
	return regs ? (s32)BPF_CORE_READ(regs, SYSCALL_ARG1) : 0;
}

/* What a blocked thread waits for, in the words of microstates. */
static __always_inline u32 wait_kind(struct task_struct *t, u32 blocked, s32 syscall)
{
	if (blocked & TASK_STOPPED_TRACED)
		return TW_STOPPED;
	if (syscall < 0 && !(t->flags & PF_NO_USER))
		return TW_FAULT; /* in the kernel without a system call: an exception */
	if ((blocked & TASK_UNINTERRUPTIBLE) && !(blocked & TASK_NOLOAD))
		return TW_DISK;
	for (u32 i = 0; i < MAX_LOCKS; i++)
		if (syscall >= 0 && syscall == lock_calls[i])
			return TW_LOCK;
	return TW_SLEEP;
}

/* The descriptor that a thread waits on, where epoll stands for many others. */
static __always_inline s32 epoll_fd(struct task_struct *t, s32 syscall)
{
	for (u32 i = 0; i < MAX_EPOLL; i++)
		if (syscall >= 0 && syscall == epoll_calls[i])
			return first_arg(t);
	return TW_NO_FD;
}

static __always_inline void count_sleep(struct tw_sleep *sleeps, s32 syscall, s32 fd, u64 ns)
{
	for (u32 i = 0; i < TW_SLEEPS; i++) {
		/* The last slot takes all calls that found no room. */
		bool last = i == TW_SLEEPS - 1;
		bool mine = sleeps[i].count && sleeps[i].syscall == syscall && sleeps[i].fd == fd;

		if (mine || !sleeps[i].count || last) {
			if (!mine) {
				sleeps[i].syscall = last ? TW_MANY : syscall;
				sleeps[i].fd = last ? TW_NO_FD : fd;
			}
			sleeps[i].count++;
			sleeps[i].ns += ns;
			return;
		}
	}
}

/* Adds a wait of a blocked thread to what it did. */
static __always_inline void count_wait(struct task_struct *t, u32 blocked, u64 *ns,
				       struct tw_sleep *sleeps, u64 waited)
{
	s32 syscall = syscall_of(t);
	u32 kind = wait_kind(t, blocked, syscall);

	if (kind < TW_STATES)
		ns[kind] += waited;
	if (syscall >= 0 && kind != TW_STOPPED)
		count_sleep(sleeps, syscall, epoll_fd(t, syscall), waited);
}

static __always_inline void meet(struct thread *th, struct task_struct *t, u64 now)
{
	th->first = now;
	th->voluntary_before = t->nvcsw;
	th->involuntary_before = t->nivcsw;
}

/* Around each change, so that who reads in between notices. Two may write at once, a waker and the
 * CPU that the thread is leaving: each leaves the number even whatever the other did. */
static __always_inline void begin_change(struct thread *th)
{
	th->turns = (th->turns + 1) | 1;
	barrier();
}

static __always_inline void end_change(struct thread *th)
{
	barrier();
	th->turns = (th->turns + 1) & ~1;
}

/* A CPU can look at the clock and then be kept waiting by its hypervisor, while another goes on:
 * no time is counted twice. */
static __always_inline u64 not_before(u64 now, const struct thread *th)
{
	return now > th->since ? now : th->since;
}

static __always_inline u64 since(u64 then, u64 now)
{
	return now > then ? now - then : 0;
}

#endif

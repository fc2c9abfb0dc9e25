/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The name server for which a thread waits: the UDP socket to port 53 that it polls or reads. Looked for when a long
 * wait ends, so that neither a packet nor a send costs anything. */
#ifndef TCPWHY_TASK_NAMES_H
#define TCPWHY_TASK_NAMES_H

#include "common.h"
#include "task_link.h"

#define NAMES_PORT    53
#define IPV4_SOURCE   12 /* where the headers have the sender's address */
#define IPV6_SOURCE   8
#define NAMES_OVER_NS 100000000ULL
/* What poll or select keeps lies within so much of the end of the stack: the scheduler's frames take a few hundred
 * bytes, and that of do_sys_poll or do_select with its tables one to two thousand. */
#define STACK_CHUNK  512
#define STACK_CHUNKS 5
#define STACK_WORDS  (STACK_CHUNK * STACK_CHUNKS / 8)
/* A resolver polls one socket, or one for each name server. */
#define MAX_POLLED 3
#define MAX_CALLS  4

/* Set before load; -1 fills up. */
const volatile s32 poll_calls[MAX_CALLS]; /* poll and select */
const volatile s32 read_calls[MAX_CALLS]; /* those that receive from one descriptor */

struct stack_end {
	u64 task;
	u64 words[STACK_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct stack_end);
	__uint(max_entries, 1);
} stack_ends SEC(".maps");

static __always_inline bool is_call(const volatile s32 *calls, s32 syscall)
{
	for (u32 i = 0; i < MAX_CALLS; i++)
		if (syscall >= 0 && syscall == calls[i])
			return true;
	return false;
}

/* Whether this is an open socket to a name server; fills in which. */
static __always_inline bool asks_names(struct tw_wait *w, struct file *file)
{
	struct socket *sock = BPF_CORE_READ(file, private_data);
	u8 local[16], remote[16];
	struct sock *sk;

	/* Only a socket's file is named by what it points to. */
	if (!sock || BPF_CORE_READ(sock, file) != file)
		return false;
	sk = BPF_CORE_READ(sock, sk);
	if (!sk || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_UDP)
		return false;
	if (BPF_CORE_READ(sk, __sk_common.skc_dport) != bpf_htons(NAMES_PORT))
		return false;
	w->server_family = fill_addrs(local, remote, &sk->__sk_common);
	__builtin_memcpy(w->server_addr, remote, 16);
	return true;
}

static __always_inline u64 stack_pointer(struct task_struct *t)
{
	if (bpf_core_field_exists(t->thread.sp))
		return BPF_CORE_READ(t, thread.sp);
	if (bpf_core_field_exists(t->thread.cpu_context))
		return BPF_CORE_READ(t, thread.cpu_context.sp);
	return 0;
}

/* Whether this is an entry of a wait queue. The table of an earlier call may still lie where no later frame has written,
 * and its file may have been opened again; its entries were taken out of their queues. */
static __always_inline bool is_queued(struct poll_table_entry *e)
{
	struct list_head *own = __builtin_preserve_access_index(&e->wait.entry);

	return BPF_CORE_READ(e, wait.entry.next, prev) == own;
}

/* The table of poll or select names its thread, and the files that it waits for: found by that name. The thread is off
 * the CPU, so that its stack stays as it is. */
static __always_inline void polled_names(struct tw_wait *w, struct task_struct *t)
{
	u32 zero = 0, entry = bpf_core_type_size(struct poll_table_entry);
	struct stack_end *end = bpf_map_lookup_elem(&stack_ends, &zero);
	u64 sp = stack_pointer(t), task;

	if (!end || !sp || !entry)
		return;
	task = number_through(&end->task, t);
	/* In parts: above the stack there may be nothing. */
	for (u32 i = 0; i < STACK_CHUNKS; i++)
		bpf_probe_read_kernel((void *)end->words + i * STACK_CHUNK, STACK_CHUNK,
				      (void *)sp + i * STACK_CHUNK);
	for (u32 i = 0; i < STACK_WORDS; i++) {
		u64 table, files;
		int n;

		if (end->words[i] != task)
			continue;
		table = sp + i * 8 - bpf_core_field_offset(struct poll_wqueues, polling_task);
		n = BPF_CORE_READ((struct poll_wqueues *)table, inline_index);
		files = table + bpf_core_field_offset(struct poll_wqueues, inline_entries);
		for (u32 j = 0; j < MAX_POLLED; j++) {
			struct poll_table_entry *e = (void *)(files + j * entry);

			if ((int)j < n && is_queued(e) && asks_names(w, BPF_CORE_READ(e, filp)))
				return;
		}
	}
}

static __always_inline void read_names(struct tw_wait *w, struct task_struct *t)
{
	struct file **files, *file = NULL;
	u32 fd = w->arg;

	if (fd >= BPF_CORE_READ(t, files, fdt, max_fds))
		return;
	files = BPF_CORE_READ(t, files, fdt, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	if (file)
		asks_names(w, file);
}

/* Before a wait is told. */
static __always_inline void link_to_names(struct tw_wait *w, struct task_struct *t)
{
	bool polls = is_call(poll_calls, w->syscall), reads = is_call(read_calls, w->syscall);

	/* An event loop waits for whatever comes. */
	if (w->waited_ns < NAMES_OVER_NS || !(polls || reads)) {
		w->server_family = 0;
		return;
	}
	if (w->bits & TW_WAIT_NAMES)
		return;
	if (polls)
		polled_names(w, t);
	else
		read_names(w, t);
}

/* A datagram has come to a socket that is not connected, which is how musl asks: only its sender tells. */
static __always_inline void answer_came(const struct sock *sk)
{
	__be16 port = 0;
	unsigned char *head, *network;
	struct packet *p;
	struct sk_buff *skb;
	__be32 v4;

	if (sk->__sk_common.skc_dport || sk->__sk_common.skc_num == NAMES_PORT)
		return;
	if (!sk->sk_receive_queue.qlen)
		return;
	skb = sk->sk_receive_queue.prev;
	head = BPF_CORE_READ(skb, head);
	bpf_probe_read_kernel(&port, sizeof(port), head + BPF_CORE_READ(skb, transport_header));
	if (port != bpf_htons(NAMES_PORT))
		return;
	p = packet_of(sk, PACKET_NAMES);
	if (!p)
		return;
	network = head + BPF_CORE_READ(skb, network_header);
	if (BPF_CORE_READ(skb, protocol) == bpf_htons(ETH_P_IPV6)) {
		p->server_family = 6;
		bpf_probe_read_kernel(p->server_addr, 16, network + IPV6_SOURCE);
		return;
	}
	p->server_family = 4;
	bpf_probe_read_kernel(&v4, sizeof(v4), network + IPV4_SOURCE);
	v4_mapped(p->server_addr, v4);
}

#endif

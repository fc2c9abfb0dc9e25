// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `calls`: system calls on TCP sockets that take long or fail.
 *
 * On entry a call is noted with the task; on return it is told, when it is worth telling. Two
 * tracepoints see every system call of the host, so they leave at once for those not asked for. */
#include "common.h"
#include "filter.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define S_IFMT	 0170000
#define S_IFSOCK 0140000

#define TS_COMPAT 2 /* thread_info.status: the call is numbered as on i386 */

#define EINTR	      4
#define EAGAIN	      11
#define EADDRNOTAVAIL 99
#define EINPROGRESS   115
#define ERESTART_FROM 512 /* the kernel's own: restarted, or turned into EINTR */
#define ERESTART_TO   516

/* Set before load. */
const volatile u8 kinds[TW_SYSCALLS]; /* tw_call_kind of each system call by its number */
const volatile u64 call_over_ns;

TW_SHARE(struct, tw_call);
TW_SHARE(enum, tw_call_kind);
TW_SHARE(enum, tw_call_loss);

TW_COUNTERS(lost, TW_CALL_LOSSES);

/* The call that a task is in. */
struct inside {
	u64 start; /* 0: in none */
	u64 sk;
	u64 arg2;
	u64 search_start; /* of connect(): when the search for a port began; 0: it did not */
	u64 search_ns; /* 0: no SYN has left yet */
	u32 netns;
	s32 fd;
	u8 local_addr[16];
	u8 remote_addr[16];
	u16 local_port;
	u16 remote_port;
	u8 kind;
	u8 family; /* 0: the addresses are not noted here */
	u8 zero[2];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct inside);
} tasks SEC(".maps");

/* Tasks that search for a port: while there is none, packets cost next to nothing. */
u32 searching;

/* The TCP socket behind a descriptor of the current task. */
static __always_inline struct sock *tcp_socket(struct task_struct *task, u32 fd)
{
	struct file *file = NULL;
	struct socket *socket;
	struct fdtable *fdt;
	struct sock *sk;
	u16 family;

	if (!task->files)
		return NULL;
	fdt = task->files->fdt;
	if (fd >= fdt->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), fdt->fd + fd);
	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	if (!socket || BPF_CORE_READ(socket, type) != SOCK_STREAM)
		return NULL;
	sk = BPF_CORE_READ(socket, sk);
	if (!sk || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return NULL;
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	return family == AF_INET || family == AF_INET6 ? sk : NULL;
}

static __always_inline void note_addrs(struct inside *in, const struct sock *sk)
{
	const struct sock_common *skc = &sk->__sk_common;

	in->family = fill_addrs(in->local_addr, in->remote_addr, skc);
	in->local_port = BPF_CORE_READ(skc, skc_num);
	in->remote_port = bpf_ntohs(BPF_CORE_READ(skc, skc_dport));
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task;
	struct sock *sk = NULL;
	struct inside *in;
	char comm[16];
	u8 kind;

	if ((u64)id >= TW_SYSCALLS)
		return 0;
	kind = kinds[id];
	if (kind == TW_CALL_NONE)
		return 0;
	if (!pid_ok(bpf_get_current_pid_tgid() >> 32))
		return 0;
	if (filter.n_comms) {
		bpf_get_current_comm(comm, sizeof(comm));
		if (!comm_ok(comm))
			return 0;
	}
	if (filter.n_cgroups && !cgroup_ok(bpf_get_current_cgroup_id()))
		return 0;
	task = bpf_get_current_task_btf();
	if (bpf_core_field_exists(task->thread_info.status) && task->thread_info.status & TS_COMPAT)
		return 0;
	if (kind < TW_CALL_EPOLL) {
		sk = tcp_socket(task, regs->SYSCALL_ARG1);
		if (!sk)
			return 0;
	} else if (filter.n_ports || filter.n_addrs) {
		return 0; /* waits for many sockets */
	}
	in = bpf_task_storage_get(&tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!in) {
		count(&lost, TW_CALL_LOST_NOTE);
		return 0;
	}
	if (in->start)
		count(&lost, TW_CALL_LOST_RETURN);
	in->sk = (u64)sk;
	in->fd = regs->SYSCALL_ARG1;
	in->arg2 = regs->SYSCALL_ARG2;
	in->kind = kind;
	in->family = 0;
	in->search_start = 0;
	in->search_ns = 0;
	/* After close() there is no socket to ask; the close of an idle one makes it another's. */
	if (kind == TW_CALL_CLOSE) {
		note_addrs(in, sk);
		in->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	}
	in->start = bpf_ktime_get_ns();
	return 0;
}

/* connect() has chosen its route and looks for a port next. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int old, int new)
{
	struct inside *in;

	if (old != TCP_CLOSE || new != TCP_SYN_SENT)
		return 0;
	in = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), NULL, 0);
	if (!in || !in->start || in->sk != (u64)sk || in->search_start)
		return 0;
	/* A connect() that fails leaves no address in the socket: note them while it has. */
	note_addrs(in, sk);
	in->search_start = bpf_ktime_get_ns();
	__sync_fetch_and_add(&searching, 1);
	return 0;
}

/* The first packet that the task sends on the socket is the SYN. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(on_packet, struct sk_buff *skb)
{
	struct inside *in;

	if (!searching)
		return 0;
	in = bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), NULL, 0);
	if (!in || !in->search_start || in->search_ns || in->sk != (u64)skb->sk)
		return 0;
	in->search_ns = bpf_ktime_get_ns() - in->search_start;
	__sync_fetch_and_add(&searching, -1);
	return 0;
}

/* A call that would have waited, or was interrupted, has not failed. */
static __always_inline bool ordinary(long ret)
{
	return ret >= 0 || ret == -EAGAIN || ret == -EINPROGRESS || ret == -EINTR ||
	       (ret <= -ERESTART_FROM && ret >= -ERESTART_TO);
}

/* The address that the caller passed: of a call that failed nothing else may be known. */
static __always_inline u8 user_addr(u8 addr[16], u16 *port, u64 pointer)
{
	struct {
		u16 family;
		__be16 port;
		__be32 v4;
	} head;

	if (bpf_probe_read_user(&head, sizeof(head), (void *)pointer))
		return 0;
	if (head.family == AF_INET) {
		v4_mapped(addr, head.v4);
		*port = bpf_ntohs(head.port);
		return 4;
	}
	if (head.family == AF_INET6 && !bpf_probe_read_user(addr, 16, (void *)(pointer + 8))) {
		*port = bpf_ntohs(head.port);
		return 6;
	}
	return 0;
}

static __always_inline void fill_connect(struct tw_call *c, struct inside *in, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 sent;

	if (!c->remote_port)
		c->family = user_addr(c->remote_addr, &c->remote_port, in->arg2) ?: c->family;
	if (!in->search_start)
		return;
	/* Found since the addresses were noted; kept where the number itself is cleared. */
	if (c->result != -EADDRNOTAVAIL)
		c->local_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
	c->searched = 1;
	if (in->search_ns) {
		c->search_ns = in->search_ns;
		return;
	}
	if (c->result == -EADDRNOTAVAIL) {
		c->search_ns = c->time_ns - in->search_start;
		return;
	}
	/* The SYN waits for its neighbour's address: TCP's clock stopped when it was made. */
	sent = BPF_CORE_READ(tp, tcp_clock_cache);
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_SYN_SENT &&
	    !BPF_CORE_READ(tp, inet_conn.icsk_retransmits) && sent >= in->search_start)
		c->search_ns = sent - in->search_start;
	else
		c->searched = 0;
}

static __always_inline void fill_accept(struct tw_call *c, struct task_struct *task)
{
	struct sock *child = c->result >= 0 ? tcp_socket(task, c->result) : NULL;

	if (!child)
		return;
	c->family = fill_addrs(c->local_addr, c->remote_addr, &child->__sk_common);
	c->remote_port = bpf_ntohs(BPF_CORE_READ(child, __sk_common.skc_dport));
}

static __always_inline void fill(struct tw_call *c, struct inside *in, struct task_struct *task)
{
	struct sock *sk = (struct sock *)in->sk;
	const struct sock_common *skc = &sk->__sk_common;

	if (!sk) {
		c->netns = task_netns(task);
		return;
	}
	c->sock = sock_id(sk);
	if (in->family) {
		__builtin_memcpy(c->local_addr, in->local_addr, 16);
		__builtin_memcpy(c->remote_addr, in->remote_addr, 16);
		c->family = in->family;
		c->local_port = in->local_port;
		c->remote_port = in->remote_port;
	} else {
		c->family = fill_addrs(c->local_addr, c->remote_addr, skc);
		c->local_port = local_port_of(sk, BPF_CORE_READ(skc, skc_num));
		c->remote_port = bpf_ntohs(BPF_CORE_READ(skc, skc_dport));
	}
	c->netns = c->kind == TW_CALL_CLOSE ? in->netns : BPF_CORE_READ(skc, skc_net.net, ns.inum);
	if (c->kind == TW_CALL_CONNECT)
		fill_connect(c, in, sk);
	else if (c->kind == TW_CALL_ACCEPT)
		fill_accept(c, task);
	else if (c->kind == TW_CALL_LISTEN)
		c->backlog = in->arg2;
	else if (c->kind == TW_CALL_BIND && c->result < 0)
		c->family = user_addr(c->local_addr, &c->local_port, in->arg2) ?: c->family;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_exit, struct pt_regs *regs, long ret)
{
	u64 id = regs->SYSCALL_NR, now, start;
	struct task_struct *task;
	struct inside *in;
	struct tw_call *c;

	if (id >= TW_SYSCALLS || kinds[id] == TW_CALL_NONE)
		return 0;
	task = bpf_get_current_task_btf();
	in = bpf_task_storage_get(&tasks, task, NULL, 0);
	if (!in || !in->start)
		return 0;
	now = bpf_ktime_get_ns();
	start = in->start;
	in->start = 0;
	if (in->search_start && !in->search_ns)
		__sync_fetch_and_add(&searching, -1);
	if (in->kind != TW_CALL_LISTEN && now - start < call_over_ns && ordinary(ret))
		return 0;
	c = bpf_ringbuf_reserve(&ring, sizeof(*c), 0);
	if (!c) {
		count(&lost, TW_CALL_LOST_RING);
		return 0;
	}
	__builtin_memset(c, 0, sizeof(*c));
	c->time_ns = now;
	c->duration_ns = now - start;
	c->result = ret;
	c->kind = in->kind;
	c->fd = in->fd;
	fill(c, in, task);
	if (!netns_ok(c->netns) || !ports_ok(c->local_port, c->remote_port) ||
	    !addrs_ok(c->local_addr, c->remote_addr)) {
		bpf_ringbuf_discard(c, BPF_RB_NO_WAKEUP);
		return 0;
	}
	c->cgroup = bpf_get_current_cgroup_id();
	c->pid = bpf_get_current_pid_tgid() >> 32;
	c->tid = bpf_get_current_pid_tgid();
	bpf_get_current_comm(c->comm, sizeof(c->comm));
	bpf_ringbuf_submit(c, BPF_RB_NO_WAKEUP);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sources `waits` and `threads`: what threads do with their time, what ends their long waits, and
 * the TCP packet behind it. */
#include "task_state.h"
#include "task_link.h"
#include "task_names.h"
#include "caller.h"
#include "ring.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The signals that stop a process, and the one that lets it go on: all architectures of BPF have them so. */
#define SIGNAL_CONT 18
#define SIGNAL_TTOU 22
/* What stands for where a signal is from that the kernel sends. */
#define SIGNAL_BY_KERNEL 1

/* Set before load. */
const volatile u64 wait_over_ns;
const volatile bool switch_has_state;
const volatile bool want_slept; /* this kernel tells the stack of another thread */

/* Set before each dump of the threads. */
u64 changed_since; /* threads asleep since before that are left out; 0: none are */
bool seeding; /* takes up the threads that there are, tells nothing */
u32 skipped; /* threads that changed all the while they were looked at */
u64 complete_since; /* from when on all programs run; 0: they do not yet */

TW_SHARE(enum, tw_task_kind);
TW_SHARE(enum, tw_state);
TW_SHARE(enum, tw_wait_bits);
TW_SHARE(struct, tw_wait);
TW_SHARE(struct, tw_on);
TW_SHARE(struct, tw_signal);
TW_SHARE(struct, tw_thread);

/* Records that found the ring full, per kind. */
TW_COUNTERS(lost, TW_TASK_KINDS);

/* Records are put together here: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct tw_wait);
	__uint(max_entries, 1);
} wait_scratch SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct tw_thread);
	__uint(max_entries, 1);
} end_scratch SEC(".maps");

static __always_inline void tell(u32 kind, void *record, u64 size)
{
	/* User space drains on a timer, as for events. */
	if (bpf_ringbuf_output(&ring, record, size, BPF_RB_NO_WAKEUP))
		count(&lost, kind);
}

static __always_inline void fill_thread(struct tw_thread *r, struct task_struct *t,
					struct thread *th, u64 now)
{
	r->kind = TW_TASK_THREAD;
	r->tid = t->pid;
	r->pid = t->tgid;
	r->time_ns = now;
	r->first_ns = th->first;
	r->start = t->start_time;
	r->cgroup = task_cgroup(t);
	__builtin_memcpy(r->ns, th->ns, sizeof(r->ns));
	__builtin_memcpy(r->sleeps, th->sleeps, sizeof(r->sleeps));
	r->user_ns = t->utime;
	r->system_ns = t->stime;
	r->voluntary = t->nvcsw - th->voluntary_before;
	r->involuntary = t->nivcsw - th->involuntary_before;
	r->ended = th->dead;
	BPF_CORE_READ_INTO(&r->comm, t, comm);
}

/* What is known of a wait whatever ended it. */
static __always_inline struct tw_wait *wait_of(struct task_struct *t, struct thread *th, u64 waited,
					       u64 now)
{
	u32 zero = 0;
	struct tw_wait *w = bpf_map_lookup_elem(&wait_scratch, &zero);

	if (!w)
		return NULL;
	__builtin_memset(w, 0, offsetof(struct tw_wait, frames));
	w->kind = TW_TASK_WAIT;
	w->tid = t->pid;
	w->pid = t->tgid;
	w->time_ns = now;
	w->waited_ns = waited;
	w->cgroup = task_cgroup(t);
	w->netns = task_netns(t);
	w->blocked = th->blocked;
	w->syscall = syscall_of(t);
	if (w->syscall >= 0)
		w->arg = first_arg(t);
	BPF_CORE_READ_INTO(&w->comm, t, comm);
	return w;
}

/* Passes on a wait, with where in the kernel its thread slept. */
static __always_inline void pass_on(struct tw_wait *w, struct task_struct *t)
{
	u64 size = w->n_frames;
	long bytes;

	if (size > TW_FRAMES)
		return;
	if (want_slept) {
		bytes = bpf_get_task_stack(t, w->frames + size, TW_SLEPT_FRAMES * sizeof(u64), 0);
		if (bytes > 0)
			w->n_slept = bytes / sizeof(u64);
	}
	size = offsetof(struct tw_wait, frames) + (size + w->n_slept) * sizeof(u64);
	if (size > sizeof(*w))
		return;
	tell(TW_TASK_WAIT, w, size);
}

static __always_inline void tell_wait(void *ctx, struct task_struct *t, struct thread *th,
				      u64 waited, u64 now)
{
	struct tw_wait *w = wait_of(t, th, waited, now);
	u64 waker = bpf_get_current_pid_tgid();
	long bytes;

	if (!w)
		return;
	w->waker_pid = waker >> 32;
	w->waker_tid = waker;
	w->waker_cpu = bpf_get_smp_processor_id();
	bpf_get_current_comm(w->waker_comm, sizeof(w->waker_comm));
	link_to_packet(w);
	link_to_names(w, t);
	bytes = bpf_get_stack(ctx, w->frames, TW_FRAMES * sizeof(u64), 0);
	if (bytes > 0)
		w->n_frames = bytes / sizeof(u64);
	th->to_tell = now;
	pass_on(w, t);
}

/* The kernel runs no program in the middle of itself: a wakeup that came then was not seen. */
static __always_inline void tell_unseen_wait(struct task_struct *t, struct thread *th, u64 off,
					     u64 now)
{
	struct tw_wait *w = wait_of(t, th, off, now);

	if (!w)
		return;
	/* No time that a wait ended: how long the thread was runnable is not known. */
	th->to_tell = 1;
	pass_on(w, t);
}

/* The account of a thread; NULL when nobody asks for it, or there is no room. */
static __always_inline struct thread *account_of(struct task_struct *t)
{
	struct thread *th;

	if (!task_ok(t))
		return NULL;
	th = known_or_new(t);
	if (!th)
		count(&lost, TW_TASK_NO_ROOM);
	return th;
}

static __always_inline void leave(struct task_struct *t, u32 blocked, u64 now)
{
	struct tw_thread *r;
	struct thread *th;
	u32 zero = 0;

	th = account_of(t);
	if (!th)
		return;
	now = not_before(now, th);
	begin_change(th);
	if (!th->since)
		meet(th, t, now);
	else
		th->ns[TW_RUN] += since(th->since, now);
	/* A wakeup can come before its thread has left the CPU: then it is runnable at once. Or it
	 * did not come to leaving it, and the next wait is a wait: entering it again tells. */
	th->was_early = th->early > th->since;
	th->since = now;
	th->blocked = blocked;
	th->now = blocked ? NOW_BLOCKED : NOW_RUNNABLE;
	if (blocked & TASK_DEAD)
		th->dead = 1;
	end_change(th);
	if (!th->dead)
		return;
	r = bpf_map_lookup_elem(&end_scratch, &zero);
	if (want_threads && r) {
		fill_thread(r, t, th, now);
		tell(TW_TASK_THREAD, r, sizeof(*r));
	}
	forget(t);
}

static __always_inline void enter(struct task_struct *t, u64 now)
{
	struct thread *th;
	u64 off;

	th = account_of(t);
	if (!th)
		return;
	now = not_before(now, th);
	begin_change(th);
	off = since(th->since, now);
	if (!th->since)
		meet(th, t, now);
	else if (th->now == NOW_RUNNABLE || (th->now == NOW_BLOCKED && th->was_early))
		th->ns[TW_RUNQUEUE] += off;
	else if (th->now == NOW_BLOCKED) {
		count_wait(t, th->blocked, th->ns, th->sleeps, off);
		if (want_waits && off >= wait_over_ns && complete_since &&
		    th->since > complete_since)
			tell_unseen_wait(t, th, off, now);
	} else
		th->ns[TW_RUN] += off;
	th->since = now;
	th->now = NOW_RUNNING;
	end_change(th);
	if (want_waits && th->to_tell) {
		struct tw_on on = {
		    .kind = TW_TASK_ON,
		    .tid = t->pid,
		    .woken_ns = th->to_tell,
		    .runqueue_ns = off,
		};

		th->to_tell = 0;
		tell(TW_TASK_ON, &on, sizeof(on));
	}
}

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	u64 now = bpf_ktime_get_ns();
	u32 blocked;

	if (switch_has_state)
		blocked = ctx[3];
	else
		blocked = state_bits(prev);
	/* Who is preempted on the way to sleep stays runnable. */
	leave(prev, ctx[0] ? 0 : blocked, now);
	enter(next, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct task_struct *t = (struct task_struct *)ctx[0];
	u64 now, waited;
	struct thread *th;

	if (!task_ok(t))
		return 0;
	th = known(t);
	if (!th || !th->since)
		return 0;
	now = bpf_ktime_get_ns();
	if (th->now == NOW_RUNNING)
		th->early = now;
	if (th->now != NOW_BLOCKED)
		return 0;
	now = not_before(now, th);
	waited = since(th->since, now);
	begin_change(th);
	count_wait(t, th->blocked, th->ns, th->sleeps, waited);
	th->since = now;
	th->now = NOW_RUNNABLE;
	end_change(th);
	if (want_waits && waited >= wait_over_ns)
		tell_wait(ctx, t, th, waited, now);
	return 0;
}

/* Who stops a process, or lets it go on: nothing tells that afterwards. Runs in the sender's context. */
SEC("tp_btf/signal_generate")
int on_signal(u64 *ctx)
{
	struct task_struct *t = (struct task_struct *)ctx[2];
	u32 signal = ctx[0];
	struct tw_signal r = {};

	/* One that is ignored, or waits already, changes nothing. */
	if (signal < SIGNAL_CONT || signal > SIGNAL_TTOU || (u32)ctx[4] || !task_ok(t))
		return 0;
	r.kind = TW_TASK_SIGNAL;
	r.signal = signal;
	r.time_ns = bpf_ktime_get_ns();
	r.pid = t->tgid;
	BPF_CORE_READ_INTO(&r.comm, t, comm);
	/* What the kernel sends for a terminal has whoever ran. */
	if (ctx[1] != SIGNAL_BY_KERNEL) {
		r.sender_pid = bpf_get_current_pid_tgid() >> 32;
		bpf_get_current_comm(&r.sender_comm, sizeof(r.sender_comm));
	}
	tell(TW_TASK_SIGNAL, &r, sizeof(r));
	return 0;
}

/* A new thread waits for a CPU from here on. */
SEC("tp_btf/sched_wakeup_new")
int on_new(u64 *ctx)
{
	struct task_struct *t = (struct task_struct *)ctx[0];
	struct thread *th;

	if (!task_ok(t))
		return 0;
	th = known_or_new(t);
	if (th && !th->since) {
		begin_change(th);
		meet(th, t, bpf_ktime_get_ns());
		th->since = th->first;
		th->now = NOW_RUNNABLE;
		end_change(th);
	}
	return 0;
}

SEC("tp_btf/tcp_probe")
int on_packet(u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[1];
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)&skb->cb;
	struct packet *p = packet_of((void *)ctx[0], PACKET_DATA);

	if (p)
		p->seq = BPF_CORE_READ(cb, seq);
	return 0;
}

/* Data for a connection whose own side is closed already does not pass tcp_probe. A thread that
 * waited for it had emptied the queue: the last packet there is the one that came. */
SEC("tp_btf/sk_data_ready")
int on_data_ready(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	u8 state = sk->__sk_common.skc_state;
	struct tcp_skb_cb *cb;
	struct packet *p;

	if (state != TCP_FIN_WAIT1 && state != TCP_FIN_WAIT2) {
		if (sk->sk_protocol == IPPROTO_UDP)
			answer_came(sk);
		return 0;
	}
	if (sk->sk_protocol != IPPROTO_TCP || !sk->sk_receive_queue.qlen)
		return 0;
	p = packet_of(sk, PACKET_DATA);
	if (p) {
		cb = (struct tcp_skb_cb *)&sk->sk_receive_queue.prev->cb;
		p->seq = BPF_CORE_READ(cb, seq);
	}
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_established, struct sock *sk, int old, int new)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	struct packet *p;

	if (new != TCP_ESTABLISHED || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	p = packet_of(sk, PACKET_HANDSHAKE);
	if (p) {
		p->seq = BPF_CORE_READ(tp, rcv_nxt) - 1;
		p->own_seq = BPF_CORE_READ(tp, snd_una) - 1;
	}
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int on_reset(u64 *ctx)
{
	packet_of((void *)ctx[0], PACKET_RESET);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(on_retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)&skb->cb;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct segment s = {};

	seen_from_there(&s, &sk->__sk_common);
	s.seq = BPF_CORE_READ(cb, seq);
	remember(&s, BPF_CORE_READ(sk, __sk_common.skc_state),
		 BPF_CORE_READ(icsk, icsk_retransmits),
		 caller(ctx, STACK_FRAMES, n_cookie_ranges, n_ranges));
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(on_retransmit_synack, struct sock *sk, struct request_sock *req)
{
	struct tcp_request_sock *treq = (struct tcp_request_sock *)req;
	struct segment s = {};

	seen_from_there(&s, &req->__req_common);
	s.seq = BPF_CORE_READ(treq, snt_isn);
	remember(&s, TCP_NEW_SYN_RECV, BPF_CORE_READ_BITFIELD_PROBED(req, num_timeout),
		 caller(ctx, STACK_FRAMES, n_cookie_ranges, n_ranges));
	return 0;
}

/* A thread that the programs have not seen yet: it was there before them. */
static __always_inline void take_up(struct task_struct *t)
{
	struct thread *th = known_or_new(t);
	u32 bits = state_bits(t);
	u64 now = bpf_ktime_get_ns();

	if (!th || th->since)
		return;
	begin_change(th);
	th->blocked = bits;
	th->now = t->on_cpu ? NOW_RUNNING : bits ? NOW_BLOCKED : NOW_RUNNABLE;
	meet(th, t, now);
	th->since = now;
	end_change(th);
}

SEC("iter/task")
int dump(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct tw_thread r;
	struct thread *th;
	u64 now, then = 0;
	u32 turns, state = NOW_RUNNING, blocked = 0;
	bool whole = false;

	if (!t || !task_ok(t))
		return 0;
	if (seeding) {
		take_up(t);
		return 0;
	}
	th = known(t);
	if (!th || !th->since || th->dead)
		return 0;
	if (th->now == NOW_BLOCKED && th->since < changed_since)
		return 0;
	__builtin_memset(&r, 0, sizeof(r));
	for (u32 i = 0; i < 4; i++) {
		turns = th->turns;
		barrier();
		now = not_before(bpf_ktime_get_ns(), th);
		fill_thread(&r, t, th, now);
		then = th->since;
		state = th->now;
		blocked = th->blocked;
		barrier();
		whole = turns == th->turns && !(turns & 1);
		if (whole)
			break;
	}
	if (!whole) {
		/* Its CPU is kept waiting in the middle of a change: its next row covers this. */
		skipped++;
		return 0;
	}
	then = since(then, r.time_ns);
	if (state == NOW_RUNNING)
		r.ns[TW_RUN] += then;
	else if (state == NOW_RUNNABLE)
		r.ns[TW_RUNQUEUE] += then;
	else
		count_wait(t, blocked, r.ns, r.sleeps, then);
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

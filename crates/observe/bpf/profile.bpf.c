// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `profile`: what each CPU is at, many times a second. */
#include "ring.h"
#include "task_state.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before load. */
const volatile bool kernel_only;

TW_SHARE(struct, tw_sample);

TW_COUNTERS(lost, 1);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, u32);
	__type(value, struct tw_sample);
	__uint(max_entries, 1);
} scratch SEC(".maps");

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	u64 task = bpf_get_current_pid_tgid();
	u32 zero = 0, pid = task >> 32;
	struct tw_sample *s = bpf_map_lookup_elem(&scratch, &zero);
	u64 size;
	long bytes;

	if (!s || !pid_ok(pid))
		return 0;
	bpf_get_current_comm(s->comm, sizeof(s->comm));
	if (!comm_ok(s->comm))
		return 0;
	if (filter.n_cgroups && !cgroup_ok(bpf_get_current_cgroup_id()))
		return 0;
	/* Packets of a namespace are handled by whatever task is on the CPU, the idle one as well. */
	s->outside = !task_netns_ok((struct task_struct *)bpf_get_current_task());
	if (s->outside)
		__builtin_memcpy(s->comm, "softirq\0\0\0\0\0\0\0\0", sizeof(s->comm));
	s->time_ns = bpf_ktime_get_ns();
	s->cpu = bpf_get_smp_processor_id();
	s->pid = s->outside ? 0 : pid;
	s->tid = s->outside ? 0 : task;
	s->n_kernel = 0;
	s->n_user = 0;
	bytes = bpf_get_stack(ctx, s->frames, TW_FRAMES * sizeof(u64), 0);
	if (bytes > 0)
		s->n_kernel = bytes / sizeof(u64);
	else if (kernel_only)
		return 0;
	size = s->n_kernel;
	if (size > TW_FRAMES)
		return 0;
	if (pid && !kernel_only && !s->outside) {
		bytes =
		    bpf_get_stack(ctx, s->frames + size, TW_FRAMES * sizeof(u64), BPF_F_USER_STACK);
		if (bytes > 0)
			s->n_user = bytes / sizeof(u64);
	}
	size = offsetof(struct tw_sample, frames) + (s->n_kernel + s->n_user) * sizeof(u64);
	if (size > sizeof(*s))
		return 0;
	if (bpf_ringbuf_output(&ring, s, size, BPF_RB_NO_WAKEUP))
		count(&lost, 0);
	return 0;
}

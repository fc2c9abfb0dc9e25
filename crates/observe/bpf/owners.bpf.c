// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `owners`: per process that holds TCP sockets, how many files it has open. The iterator
 * gives one file after the other, those of a process together: counting them here, not in user
 * space, costs a few loads per file. */
#include "file.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TW_SHARE(struct, tw_owner);

/* The process whose files are being counted; one reader at a time. */
struct tw_owner current;

SEC("iter/task_file")
int count(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *sock;
	u32 pid;

	pid = task && file ? task->tgid : 0;
	if (pid != current.pid) {
		/* Without room the kernel calls again for the same file: change nothing before. */
		if (current.sockets && bpf_seq_write(ctx->meta->seq, &current, sizeof(current)))
			return 0;
		current.pid = pid;
		current.files = 0;
		current.sockets = 0;
		current.listeners = 0;
	}
	if (!task || !file)
		return 0;
	current.files++;
	sock = stream_socket(file);
	if (!sock)
		return 0;
	current.sockets++;
	if (BPF_CORE_READ(sock, sk, __sk_common.skc_state) == TCP_LISTEN)
		current.listeners++;
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which process holds which socket, from the open files of every task: of TCP for the source `holders`. */
#include "file.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TW_SHARE(struct, tw_holder);

/* Set before load: those of UDP, too. */
const volatile bool datagrams;

SEC("iter/task_file")
int dump(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	u32 types = 1U << SOCK_STREAM | (datagrams ? 1U << SOCK_DGRAM : 0);
	struct tw_holder h = {};

	if (!task || !file || !socket_of(file, types))
		return 0;
	h.inode = file->f_inode->i_ino;
	h.pid = task->tgid;
	h.fd = ctx->fd;
	/* The process's name, not the thread's. */
	BPF_CORE_READ_STR_INTO(&h.comm, task, group_leader, comm);
	bpf_seq_write(ctx->meta->seq, &h, sizeof(h));
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Source `holders`: which process holds which TCP socket, from the open files of every task. */
#include "kernel.h"
#include "wire.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SOCKFS_MAGIC 0x534f434b

TW_SHARE(struct, tw_holder);

static __always_inline struct socket *socket_of(struct file *file)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_sock_from_file))
		return bpf_sock_from_file(file);
	/* Before Linux 5.11 the file system tells what it is; only sockets live in this one. */
	if (BPF_CORE_READ(file, f_inode, i_sb, s_magic) != SOCKFS_MAGIC)
		return NULL;
	return BPF_CORE_READ(file, private_data);
}

SEC("iter/task_file")
int dump(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct tw_holder h = {};
	struct socket *sock;
	u16 family;

	if (!task || !file)
		return 0;
	sock = socket_of(file);
	if (!sock || BPF_CORE_READ(sock, type) != SOCK_STREAM || !BPF_CORE_READ(sock, sk))
		return 0;
	family = BPF_CORE_READ(sock, sk, __sk_common.skc_family);
	if (family != AF_INET && family != AF_INET6)
		return 0;
	h.inode = file->f_inode->i_ino;
	h.pid = task->tgid;
	h.fd = ctx->fd;
	/* The process's name, not the thread's. */
	BPF_CORE_READ_STR_INTO(&h.comm, task, group_leader, comm);
	bpf_seq_write(ctx->meta->seq, &h, sizeof(h));
	return 0;
}

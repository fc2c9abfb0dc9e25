// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether this kernel takes the socket behind an open file for one whose notes may be read: some refuse. */
#include "kernel.h"
#include "file.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} notes SEC(".maps");

SEC("iter/task_file")
int walk(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct socket *sock = file ? stream_socket(file) : NULL;
	struct sock *sk = sock ? sock->sk : NULL;

	if (sk)
		bpf_sk_storage_get(&notes, sk, NULL, 0);
	return 0;
}

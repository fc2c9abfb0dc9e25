/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The socket behind an open file, for the walks over all open files. */
#ifndef TCPWHY_FILE_H
#define TCPWHY_FILE_H

#include "kernel.h"

#define SOCKFS_MAGIC 0x534f434b

/* NULL unless it is of one of these types (a bit each) and of IP, of either version. */
static __always_inline struct socket *socket_of(struct file *file, u32 types)
{
	struct socket *sock;
	u16 family;

	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_sock_from_file))
		sock = bpf_sock_from_file(file);
	/* Before Linux 5.11 the file system tells what it is; only sockets live in this one. */
	else if (BPF_CORE_READ(file, f_inode, i_sb, s_magic) == SOCKFS_MAGIC)
		sock = BPF_CORE_READ(file, private_data);
	else
		return NULL;
	if (!sock || !(types & 1U << (BPF_CORE_READ(sock, type) & 31)) || !BPF_CORE_READ(sock, sk))
		return NULL;
	family = BPF_CORE_READ(sock, sk, __sk_common.skc_family);
	return family == AF_INET || family == AF_INET6 ? sock : NULL;
}

/* NULL unless it is a TCP-like one. */
static __always_inline struct socket *stream_socket(struct file *file)
{
	return socket_of(file, 1U << SOCK_STREAM);
}

#endif

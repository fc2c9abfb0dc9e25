// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether this kernel lets programs walk the notes that they keep with sockets: some refuse. */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("iter/bpf_sk_storage_map")
int walk(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The few kernel types we read, as far as we read them; CO-RE finds the real offsets at load. */
#ifndef __VMLINUX_H__ /* the name that the libbpf headers look for */
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_RB_NO_WAKEUP = 1 };
enum { BPF_ANY = 0 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1, BPF_SK_STORAGE_GET_F_CREATE = 1 };
enum { BPF_F_USER_STACK = 1 << 8 };
/* As the kernel numbers its helpers; CO-RE is asked by name where a helper may be missing. */
enum bpf_func_id {
	BPF_FUNC_get_task_stack = 141,
	BPF_FUNC_sock_from_file = 162,
	BPF_FUNC_task_pt_regs = 175,
};

#define AF_INET	    2
#define AF_INET6    10
#define SOCK_STREAM 1
#define SOCK_DGRAM  2
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define ETH_P_IP    0x0800
#define ETH_P_IPV6  0x86dd

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_NEW_SYN_RECV = 12,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct ns_common {
	unsigned int inum;
};
struct fib6_info;
struct netns_ipv6 {
	struct fib6_info *fib6_null_entry;
};
struct net {
	struct ns_common ns;
	struct netns_ipv6 ipv6;
};
struct fib6_result {
	struct fib6_info *f6i;
	u8 fib6_type;
};
struct flowi_common {
	__u8 flowic_proto;
};
union flowi_uli {
	struct {
		__be16 dport;
		__be16 sport;
	} ports;
};
struct flowi4 {
	struct flowi_common __fl_common;
	__be32 daddr;
	union flowi_uli uli;
};
struct flowi6 {
	struct flowi_common __fl_common;
	struct in6_addr daddr;
	struct in6_addr saddr;
	union flowi_uli uli;
};
typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned char skc_reuseport : 1;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	int skc_incoming_cpu;
	u32 skc_tw_rcv_nxt;
};

struct kernfs_node {
	u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct sock_cgroup_data {
	struct cgroup *cgroup; /* since Linux 5.15 */
	u64 val; /* before */
};

struct super_block {
	unsigned long s_magic;
};
struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
};
struct file {
	struct inode *f_inode;
	void *private_data;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct sock;
struct socket {
	short type;
	struct file *file;
	struct sock *sk;
};
struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

/* Spin locks are told apart by what they are made of; where this is missing, nobody can say
 * whether one is held. */
struct qspinlock {
	atomic_t val;
};
struct raw_spinlock {
	struct qspinlock raw_lock;
};
struct spinlock {
	struct raw_spinlock rlock;
};

struct sk_buff;
struct sk_buff_head {
	struct sk_buff *prev;
	__u32 qlen;
};
struct sock {
	struct sock_common __sk_common;
	struct {
		struct spinlock slock;
		int owned;
	} sk_lock;
	struct sk_buff_head sk_receive_queue;
	atomic_t sk_drops;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_rcvbuf;
	int sk_sndbuf;
	struct socket *sk_socket;
	int sk_wmem_queued;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u16 sk_protocol;
	u8 sk_shutdown;
	int sk_err;
	int sk_err_soft;
	u8 sk_userlocks : 4;
	u32 sk_ack_backlog;
	u32 sk_max_ack_backlog;
	unsigned long sk_ino;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};

struct request_sock;
struct request_sock_queue {
	u8 synflood_warned;
	atomic_t qlen;
	atomic_t young;
	struct request_sock *rskq_accept_head;
};

struct tcp_congestion_ops {
	char name[16];
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
	__u32 icsk_rto;
	__u32 icsk_pmtu_cookie;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	__u8 icsk_retransmits;
	__u8 icsk_backoff;
	__u8 icsk_probes_out;
	struct {
		__u32 ato : 8;
		__u32 lrcvtime;
		__u16 rcv_mss;
	} icsk_ack;
};

struct tcp_options_received {
	int ts_recent_stamp;
	u32 rcv_tsecr;
	u16 tstamp_ok : 1;
	u16 wscale_ok : 1;
	u16 sack_ok : 3;
	u16 snd_wscale : 4;
	u16 rcv_wscale : 4;
};

struct minmax_sample {
	u32 t;
	u32 v;
};
struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u16 total_rto;
	u16 total_rto_recoveries;
	u32 total_rto_time;
	u16 timeout_rehash;
	u32 received_ce;
	u32 rcv_ssthresh;
	u32 reordering;
	u32 snd_wnd;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 lost_out;
	u32 sacked_out;
	u32 copied_seq;
	u32 rttvar_us;
	u32 mdev_us;
	u32 retrans_out;
	u16 advmss;
	u32 snd_ssthresh;
	struct minmax rtt_min;
	u32 segs_out;
	u32 data_segs_out;
	u64 bytes_sent;
	u8 chrono_type : 2; /* a whole byte since Linux 6.18 */
	u32 chrono_start;
	u32 chrono_stat[3];
	u32 write_seq;
	u32 lsndtime;
	u8 ecn_flags;
	u8 rate_app_limited : 1;
	u8 nonagle : 4;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 srtt_us;
	u32 packets_out;
	u32 delivered;
	u32 delivered_ce;
	u32 rcv_wnd;
	u32 rcv_wup;
	u32 rcv_tstamp;
	u64 tcp_clock_cache;
	struct tcp_options_received rx_opt;
	u64 bytes_received;
	u32 segs_in;
	u32 data_segs_in;
	u32 rate_delivered;
	u32 rate_interval_us;
	u64 bytes_acked;
	struct {
		u32 rtt_us;
	} rcv_rtt_est;
	struct {
		int space;
	} rcvq_space;
	u32 dsack_dups;
	u32 reord_seen;
	u64 bytes_retrans;
	u32 total_retrans;
	u32 rcv_ooopack;
	u8 tcp_usec_ts : 1; /* Linux 6.7 */
};

struct inet_timewait_sock {
	struct sock_common __tw_common;
};
struct tcp_timewait_sock {
	struct inet_timewait_sock tw_sk;
};

struct request_sock {
	struct sock_common __req_common;
	__u8 num_timeout : 7;
	struct sock *sk;
};
struct inet_request_sock {
	struct request_sock req;
};
struct tcp_request_sock {
	struct inet_request_sock req;
	u32 snt_isn;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
	__u16 tcp_flags;
	__u32 ack_seq;
};

struct net_device {
	possible_net_t nd_net;
};
struct dst_entry {
	struct net_device *dev;
};
struct sk_buff {
	struct sock *sk;
	struct net_device *dev;
	char cb[48];
	unsigned long _skb_refdst;
	__be16 protocol;
	__u16 transport_header;
	__u16 network_header;
	unsigned char *head;
};

/* What a thread that is in poll or select keeps on its kernel stack. */
struct list_head {
	struct list_head *next, *prev;
};
struct wait_queue_entry {
	struct list_head entry;
};
struct poll_table_entry {
	struct file *filp;
	struct wait_queue_entry wait;
};
struct poll_wqueues {
	struct task_struct *polling_task;
	int inline_index;
	struct poll_table_entry inline_entries[1];
};

/* Where the kernel stack of a thread that is off the CPU ends: x86, and arm64. */
struct cpu_context {
	unsigned long sp;
};
struct thread_struct {
	unsigned long sp;
	struct cpu_context cpu_context;
};

struct sched_entity {
	u64 sum_exec_runtime;
};
struct sched_info {
	unsigned long long run_delay;
};
struct nsproxy {
	struct net *net_ns;
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct thread_info {
	u32 status; /* x86 only */
};
struct task_struct {
	struct thread_info thread_info;
	struct files_struct *files;
	unsigned int __state;
	void *stack;
	unsigned int flags;
	unsigned int on_cpu; /* a byte since Linux 7; a signed one could not be read as either */
	struct sched_entity se;
	struct sched_info sched_info;
	struct thread_struct thread;
	int pid;
	int tgid;
	u64 utime;
	u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_time;
	char comm[16];
	struct task_struct *group_leader;
	struct nsproxy *nsproxy;
	struct css_set *cgroups;
};
/* Before Linux 5.14. */
struct task_struct___old {
	long state;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long orig_ax;
};
/* Fields of pt_regs, by what they are at the entry of a system call. */
#define SYSCALL_NR   orig_ax
#define SYSCALL_ARG1 di
#define SYSCALL_ARG2 si
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 regs[31];
	u64 orig_x0;
	s32 syscallno;
};
#define SYSCALL_NR   syscallno
#define SYSCALL_ARG1 orig_x0
#define SYSCALL_ARG2 regs[1]
#endif

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};
struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
struct udp_sock;
struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

#pragma clang attribute pop

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The records that the programs hand to user space; Rust takes these types from the object's BTF. */
#ifndef TCPWHY_WIRE_H
#define TCPWHY_WIRE_H

enum tw_kind {
	TW_STATE,
	TW_RETRANSMIT,
	TW_SYNACK_RETRANSMIT,
	TW_RESET_SENT,
	TW_RESET_RECEIVED,
	TW_DROP,
	TW_NO_ROUTE, /* the error is in `error` */
	TW_KINDS,
};

/* Facts of an event that are yes or no. */
enum tw_bits {
	TW_HAS_SOCK = 1,
	TW_HAS_PACKET = 2,
	TW_HAS_COOKIE = 4, /* TW_COOKIE is known */
	TW_COOKIE = 8,
	TW_SACK = 16,
	TW_WSCALE = 32,
	TW_TIMESTAMPS = 64,
	TW_HAS_REASON = 128,
};

/* Who called: found in the kernel stack, by the symbols that user space looked up. Where a stack
 * holds several, the greatest says most: the timer calls what ACKs call, too. */
enum tw_caller {
	TW_CALLER_UNKNOWN, /* no symbols */
	TW_CALLER_OTHER,
	TW_CALLER_FAST,
	TW_CALLER_RACK,
	TW_CALLER_TLP,
	TW_CALLER_RTO,
	TW_CALLER_COOKIE,
};

struct tw_event {
	u64 time_ns;
	u64 sock;
	u64 location;
	u64 cgroup;
	u64 bytes_acked;
	u64 bytes_received;
	u8 local_addr[16];
	u8 remote_addr[16];
	u32 netns;
	u32 pid;
	u32 reason; /* of a retransmission: what sending it returned, a s32 */
	u32 seq;
	u32 rtt_us;
	u32 cwnd;
	u32 retransmits;
	u32 mss;
	u32 backlog;
	u32 attempt; /* of a change to CLOSE: bytes written and not acknowledged */
	u16 local_port;
	u16 remote_port;
	u8 kind;
	u8 family;
	u8 state;
	u8 old_state;
	u8 flags;
	u8 caller;
	u8 bits;
	u8 error; /* errno: that the socket met, of a change to CLOSE; of connect() */
	char comm[16];
	u32 slot; /* of the socket; some bits of its address, which are not recorded */
};
_Static_assert(sizeof(struct tw_event) == 152, "tw_event is shared with Rust");

/* A connection from its opening on. */
struct tw_life {
	struct tw_event
	    event; /* the last that is known of it; the owner is that of its connect() */
	u64 connect_ns; /* 0: it was accepted */
	u64 established_ns; /* 0: not yet */
};
_Static_assert(sizeof(struct tw_life) == 168, "tw_life is shared with Rust");

/* Where a connection waits for its end, in an array that user space has mapped. Whoever changes the
 * word from the socket's id to BUSY, by compare and swap, has the rest. */
struct tw_slot {
	u64 word;
	struct tw_life life;
	u64 zero[2]; /* no two slots share a cache line */
};
_Static_assert(sizeof(struct tw_slot) == 192, "tw_slot is shared with Rust");
#define TW_SLOTS (1 << 14) /* a power of two: 3 MiB */
enum tw_slot_word { TW_SLOT_FREE, TW_SLOT_BUSY, TW_SLOT_LEAST_ID };

/* A reset sent, and from where in the kernel. */
#define TW_RESET_FRAMES 24
struct tw_reset {
	struct tw_event event;
	u64 frames[TW_RESET_FRAMES]; /* innermost first, zeros after the last */
};
_Static_assert(sizeof(struct tw_reset) == 344, "tw_reset is shared with Rust");

struct tw_range {
	u64 start;
	u64 size;
	u64 caller;
};
_Static_assert(sizeof(struct tw_range) == 24, "tw_range is shared with Rust");
#define TW_RANGES 24

/* What follows in the output of the socket iterator. */
enum tw_record { TW_RECORD_LISTENER = 1, TW_RECORD_SOCKET = 2 };

struct tw_listener {
	u32 record;
	u32 netns;
	u64 time_ns;
	u64 sock;
	u64 inode;
	u64 cgroup;
	u8 local_addr[16];
	u32 accept_queue;
	u32 backlog;
	u32 syn_queue;
	u32 syn_queue_young;
	u32 drops;
	u32 uid;
	u32 accept_wait; /* jiffies */
	u16 local_port;
	u8 family;
	u8 synflood_warned;
	u8 reuseport;
	u8 zero[7];
};
_Static_assert(sizeof(struct tw_listener) == 96, "tw_listener is shared with Rust");

/* What younger kernels count for each connection. */
enum tw_socket_tells {
	TW_TELLS_REHASH = 1,
	TW_TELLS_RTO = 2,
	TW_TELLS_ACCECN = 4,
};

struct tw_socket {
	u32 record;
	u32 netns;
	u64 time_ns; /* the socket was locked: nothing happens to it meanwhile */
	u64 sock;
	u64 inode;
	u64 cgroup;
	u64 pacing_rate;
	u64 max_pacing_rate;
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_sent;
	u64 bytes_retrans;
	u8 local_addr[16];
	u8 remote_addr[16];
	char congestion[16];
	/* durations in jiffies; user space knows HZ */
	u32 rto;
	u32 ato;
	u32 since_data_sent;
	u32 since_data_recv;
	u32 since_ack_recv;
	u32 busy;
	u32 rwnd_limited;
	u32 sndbuf_limited;
	u32 snd_mss;
	u32 rcv_mss;
	u32 advmss;
	u32 pmtu;
	u32 unacked;
	u32 sacked;
	u32 lost;
	u32 retrans;
	u32 total_retrans;
	u32 rtt_us;
	u32 rttvar_us;
	u32 min_rtt_us; /* ~0 when none was measured */
	u32 rcv_rtt_us;
	u32 rcv_space;
	u32 rcv_ssthresh;
	u32 snd_ssthresh;
	u32 cwnd;
	u32 snd_wnd;
	u32 rcv_wnd;
	u32 reordering;
	u32 rate_delivered;
	u32 rate_interval_us;
	u32 segs_out;
	u32 segs_in;
	u32 data_segs_out;
	u32 data_segs_in;
	u32 delivered;
	u32 delivered_ce;
	u32 dsack_dups;
	u32 reord_seen;
	u32 rcv_ooopack;
	u32 notsent_bytes;
	u32 recv_queue;
	u32 send_queue;
	u32 rcvbuf;
	u32 sndbuf;
	u32 rmem_alloc;
	u32 wmem_queued;
	u32 drops;
	u32 uid;
	u32 tw_rcv_nxt;
	/* the initial sequence numbers; that of the end that connected is one less than it seems to the other */
	u32 snd_isn;
	u32 rcv_isn;
	u32 total_rto_time; /* ms */
	u32 received_ce;
	u16 total_rto;
	u16 total_rto_recoveries;
	u16 timeout_rehash;
	u16 local_port;
	u16 remote_port;
	u8 family;
	u8 state;
	u8 full; /* a full socket: not TIME_WAIT, not a request */
	u8 ca_state;
	u8 rto_count;
	u8 probes;
	u8 backoff;
	u8 options; /* tw_bits */
	u8 ecn;
	u8 snd_wscale;
	u8 rcv_wscale;
	u8 app_limited;
	u8 nonagle; /* TCP_NAGLE_OFF, TCP_NAGLE_CORK … */
	u8 tells; /* tw_socket_tells: what this kernel has */
	u8 sndbuf_set; /* the application set SO_SNDBUF */
	u8 rcvbuf_set; /* SO_RCVBUF */
	u8 zero[2];
};
_Static_assert(sizeof(struct tw_socket) == 376, "tw_socket is shared with Rust");

struct tw_holder {
	u64 inode;
	u32 pid;
	u32 fd;
	char comm[16];
};
_Static_assert(sizeof(struct tw_holder) == 32, "tw_holder is shared with Rust");

struct tw_owner {
	u32 pid;
	u32 files;
	u32 sockets;
	u32 listeners;
};
_Static_assert(sizeof(struct tw_owner) == 16, "tw_owner is shared with Rust");

/* A destination of connections: the key of a count. */
struct tw_destination {
	u8 local_addr[16];
	u8 remote_addr[16];
	u32 remote_port;
};
_Static_assert(sizeof(struct tw_destination) == 36, "tw_destination is shared with Rust");

struct tw_port_count {
	u32 used;
	u32 time_wait;
	u32 established;
	u32 server_time_wait;
};
_Static_assert(sizeof(struct tw_port_count) == 16, "tw_port_count is shared with Rust");

/* What a walk over the sockets of a namespace finds. */
struct tw_census {
	u64 uncounted; /* sockets to destinations for which there was no room */
	u32 range_low; /* user space sets the range, all else is zero at first */
	u32 range_high;
	u32 listeners;
	u32 requests;
	u32 time_wait;
	u32 connections; /* none of the above */
	u32 ports; /* different local ports */
	u32 longest_chain;
	u32 ehash_buckets;
	u32 bhash_buckets;
	u32 lhash2_buckets;
	u32 zero;
};
_Static_assert(sizeof(struct tw_census) == 56, "tw_census is shared with Rust");

/* The families of calls, by the name that the table gives them. */
enum tw_call_kind {
	TW_CALL_NONE,
	TW_CALL_CONNECT,
	TW_CALL_ACCEPT,
	TW_CALL_BIND,
	TW_CALL_LISTEN,
	TW_CALL_CLOSE,
	TW_CALL_SHUTDOWN,
	TW_CALL_SENDMSG,
	TW_CALL_RECVMSG,
	TW_CALL_EPOLL, /* from here on without a socket */
	TW_CALL_POLL,
	TW_CALL_SELECT,
	TW_CALL_KINDS,
};

struct tw_call {
	u64 time_ns;
	u64 duration_ns;
	s64 result;
	u64 sock; /* 0: none */
	u64 cgroup;
	u64 search_ns;
	u8 local_addr[16];
	u8 remote_addr[16];
	u32 netns;
	u32 pid;
	u32 tid;
	s32 fd;
	s32 backlog;
	u16 local_port;
	u16 remote_port;
	u8 kind;
	u8 family; /* 0: no address is known */
	u8 searched; /* search_ns is known */
	u8 zero[5];
	char comm[16];
};
_Static_assert(sizeof(struct tw_call) == 128, "tw_call is shared with Rust");
#define TW_SYSCALLS 512

/* Why a call is missing from the table. */
enum tw_call_loss {
	TW_CALL_LOST_RING, /* the ring was full */
	TW_CALL_LOST_NOTE, /* no memory for a note with the task */
	TW_CALL_LOST_RETURN, /* it began, and then the next one did */
	TW_CALL_LOSSES,
};

/* A control packet: the TCP header with its options as it was on the wire. */
#define TW_TCP_HEADER 60
struct tw_packet {
	u64 time_ns;
	u8 src_addr[16];
	u8 dst_addr[16];
	u32 netns;
	u32 ifindex;
	u32 payload;
	u8 family;
	u8 ttl;
	u8 outgoing;
	u8 tcp_len; /* bytes of tcp[] that are the header's */
	u8 tcp[TW_TCP_HEADER];
	u32 zero;
};
_Static_assert(sizeof(struct tw_packet) == 120, "tw_packet is shared with Rust");

/* Why a control packet is missing from the table. */
enum tw_packet_loss {
	TW_PACKET_LOST_RING, /* the ring was full */
	TW_PACKET_UNREADABLE, /* headers that are cut short, or too many before TCP's */
	TW_PACKET_LOSSES,
};

/* What the programs of `tasks` put into their ring; each record starts with one of these. */
enum tw_task_kind {
	TW_TASK_WAIT, /* a thread was woken after a long wait */
	TW_TASK_ON, /* it runs again */
	TW_TASK_THREAD, /* what a thread did so far, at its end */
	TW_TASK_SIGNAL, /* a process was sent what stops it, or lets it go on */
	/* Never in the ring, only among what was lost: */
	TW_TASK_NO_ROOM, /* switches of threads of which nothing could be kept */
	TW_TASK_KINDS,
};

/* What a thread does with its time. */
enum tw_state {
	TW_RUN,
	TW_RUNQUEUE,
	TW_SLEEP,
	TW_LOCK,
	TW_DISK,
	TW_FAULT,
	TW_STOPPED,
	TW_STATES,
};

enum tw_wait_bits {
	TW_WAIT_CAUSE = 1, /* the socket and the addresses are known */
	TW_WAIT_RESENT = 2, /* the packet was a retransmission that this host sent */
	TW_WAIT_ANSWER = 4, /* with RESENT: it answered the retransmission, which was this end's */
	TW_WAIT_NAMES = 8, /* the server is that whose datagram this CPU handled last */
};

#define TW_FRAMES	127
#define TW_SLEPT_FRAMES 48 /* of a thread that sleeps; few are deeper than 30 */
#define TW_SLEEPS	8
#define TW_NO_SYSCALL	-1
#define TW_MANY		-2 /* system calls for which there was no room */
#define TW_NO_FD	-1

struct tw_wait {
	u32 kind;
	u32 tid;
	u64 time_ns; /* of the wakeup */
	u64 waited_ns;
	u64 cgroup;
	u64 sock;
	u64 sent_ago_ns;
	u8 local_addr[16];
	u8 remote_addr[16];
	u32 pid;
	u32 netns;
	u32 blocked; /* the kernel's bits of the state in which it waited */
	s32 syscall;
	s32 arg;
	u32 waker_pid;
	u32 waker_tid;
	u32 waker_cpu;
	u32 attempt;
	u16 local_port;
	u16 remote_port;
	u8 family;
	u8 sender_state;
	u8 bits;
	u8 resent_caller; /* with RESENT: tw_caller */
	char comm[16];
	char waker_comm[16];
	u32 n_frames;
	u32 n_slept;
	u32 server_family; /* 4 or 6: it waited for a name server; else 0 */
	u8 server_addr[16];
	/* of the waker, then of the thread itself; only those that there are */
	u64 frames[TW_FRAMES + TW_SLEPT_FRAMES];
};
_Static_assert(sizeof(struct tw_wait) == 1584, "tw_wait is shared with Rust");

struct tw_on {
	u32 kind;
	u32 tid;
	u64 woken_ns; /* of its tw_wait */
	u64 runqueue_ns;
};
_Static_assert(sizeof(struct tw_on) == 24, "tw_on is shared with Rust");

struct tw_signal {
	u32 kind;
	u32 signal;
	u64 time_ns;
	u32 pid;
	u32 sender_pid; /* 0: the kernel */
	char comm[16];
	char sender_comm[16];
};
_Static_assert(sizeof(struct tw_signal) == 56, "tw_signal is shared with Rust");

struct tw_sleep {
	s32 syscall;
	s32 fd; /* what epoll waits on; TW_NO_FD for other calls */
	u32 count;
	u32 zero;
	u64 ns;
};

/* What a thread did since it was first seen. */
struct tw_thread {
	u32 kind;
	u32 tid;
	u64 time_ns;
	u64 first_ns;
	u64 start; /* tells it from another thread of the same number */
	u64 cgroup;
	u64 ns[TW_STATES];
	u64 user_ns; /* what the kernel's tick says */
	u64 system_ns;
	u64 voluntary;
	u64 involuntary;
	struct tw_sleep sleeps[TW_SLEEPS];
	u32 pid;
	u32 ended;
	char comm[16];
};
_Static_assert(sizeof(struct tw_thread) == 344, "tw_thread is shared with Rust");

struct tw_sample {
	u64 time_ns;
	u32 cpu;
	u32 pid;
	u32 tid;
	u32 n_kernel;
	u32 n_user;
	u32 outside; /* of a task in a namespace that is not recorded: a softirq may still be ours */
	char comm[16];
	u64 frames[2 * TW_FRAMES]; /* kernel, then user; only those that there are */
};
_Static_assert(sizeof(struct tw_sample) == 2080, "tw_sample is shared with Rust");

/* Which end of its exchanges a socket is. */
enum tw_role { TW_ROLE_SERVER, TW_ROLE_CLIENT };

/* What the time of an exchange went with; together they are all of it. */
enum tw_part {
	TW_PART_ACCEPT, /* data had come before accept() gave the socket to a process, until it was read */
	TW_PART_UNREAD, /* data had come, and our application did not read it */
	TW_PART_RECEIVE, /* more of the message was on its way */
	TW_PART_THINK, /* all was read: our application worked on it, or wrote the next piece */
	TW_PART_AWAIT, /* the answer was awaited: network and peer */
	TW_PART_SEND, /* between two writes of a message, with full segments not yet sent */
	TW_PART_REPAIR, /* until what we had sent was retransmitted */
	TW_PART_UNHEARD, /* the same, and it had come: its acknowledgement was lost, or the answer */
	TW_PARTS,
};

/* A listener, or a destination, as exchanges are counted by. */
struct tw_service {
	u8 addr[16];
	u32 netns;
	u16 port;
	u8 role;
	u8 zero;
};
_Static_assert(sizeof(struct tw_service) == 24, "tw_service is shared with Rust");

/* So many to each power of two, from 1,024 ns on: what a bucket holds differs by 3 % at most. */
#define TW_STEPS   32
#define TW_BUCKETS (27 * TW_STEPS)

/* What the exchanges of a service came to since the program was loaded. */
struct tw_requests {
	u64 exchanges;
	u64 overlapped; /* a message began before the answer to the one before had ended */
	u64 pushed; /* messages that nobody had asked for */
	u64 unanswered; /* connections that closed before the answer */
	u64 given_up; /* of those: whoever asked closed it, after a wait that is noticed */
	u64 given_up_ns; /* how long they had waited */
	u64 retransmits;
	u64 ns[TW_PARTS];
	u64 alone_ns; /* of think: one thread read and answered, and read nothing else meanwhile */
	u64 cpu_ns; /* of alone_ns: it ran */
	u64 runqueue_ns; /* of alone_ns: it waited for a CPU */
	u64 slowest_ns; /* in this round */
	u32 round;
	u32 response[TW_BUCKETS]; /* how many took how long: the whole exchange */
	u32 think[TW_BUCKETS];
	u32 given_up_round; /* in which one that was given up was told last */
};
_Static_assert(sizeof(struct tw_requests) == 7072, "tw_requests is shared with Rust");

/* One exchange. */
struct tw_exchange {
	u64 time_ns; /* when it ended; of an open one, when it was looked at */
	u64 began_ns;
	u64 sock;
	u64 ns[TW_PARTS];
	u64 alone_ns;
	u64 cpu_ns;
	u64 runqueue_ns;
	u64 unread_longest_ns; /* the longest time in which nothing of what waited was read */
	struct tw_service service;
	u8 local_addr[16];
	u8 remote_addr[16];
	u16 local_port;
	u16 remote_port;
	u32 pid; /* of the thread that read the request; of a client, that wrote it */
	u32 tid;
	u32 retransmits;
	u8 family;
	u8 open; /* not yet answered */
	u8 given_up; /* nor will it be */
	u8 overlapped;
	u8 zero[4];
};
_Static_assert(sizeof(struct tw_exchange) == 200, "tw_exchange is shared with Rust");

/* A message of a flow that came at regular intervals, and was late; or has not come. */
struct tw_gap {
	u64 time_ns; /* when it came; of one that has not, when that was found */
	u64 sock;
	u64 inode;
	u64 cgroup;
	u64 every_ns;
	u64 deviation_ns;
	u64 gap_ns; /* since the one before */
	u8 local_addr[16];
	u8 remote_addr[16];
	u32 netns;
	u32 cpu; /* that received it; of one that has not come, the one before */
	u16 local_port;
	u16 remote_port;
	u8 family;
	u8 protocol; /* IPPROTO_TCP, IPPROTO_UDP */
	u8 pending; /* it has not come */
	u8 zero;
};
_Static_assert(sizeof(struct tw_gap) == 104, "tw_gap is shared with Rust");

/* What is counted of such flows. */
enum tw_beat_count {
	TW_BEAT_LOST_RING, /* gaps that found the ring full */
	TW_BEAT_LOST_SOCKET, /* no memory to keep notes of a socket */
	TW_BEAT_LOST_PEER, /* too many regular peers of one socket */
	TW_BEAT_REGULAR, /* flows that were found to be regular */
	TW_BEAT_COUNTS,
};

/* A global of a type makes it part of the object's data in BTF, and so of the Rust skeleton. */
#define TW_SHARE(kind, type) kind type *share_##type __attribute__((unused))

#endif

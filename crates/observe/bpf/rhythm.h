/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The rhythm of a flow of messages: whether it is regular, and whether one is later than that allows. */
#ifndef TCPWHY_RHYTHM_H
#define TCPWHY_RHYTHM_H

#include "kernel.h"

/* What comes nearer to the one before than 10 ms belongs to the same message: in ticks, which are cheaper to read
 * than a clock. Set before load. */
const volatile u32 apart_ticks = 1;
/* So many gaps of about the same length, and so much time, make a flow regular: the faster it is the more
 * gaps that are, so that chance is as rare for any. */
#define LEAST_STEADY	8
#define LEAST_STEADY_NS 2000000000ULL
/* A shorter gap delays nobody's fail-over, and a host that is busy with other things makes such. */
#define LEAST_GAP_NS 200000000ULL
/* So many in a row are no gaps but another rhythm. */
#define MOST_GAPS 3

struct flow {
	u64 began; /* when the last message began to come; 0: none has */
	u64 every_ns; /* from one to the next, smoothed; 0: not known */
	u64 deviation_ns;
	u32 began_tick; /* the same in ticks */
	u32 last_tick; /* when the last of it came */
	u32 cpu; /* that received the last one */
	u8 steady; /* gaps of about that length, lately */
	u8 gaps; /* late ones in a row */
	u8 counted; /* among the regular ones */
	u8 zero;
};

static __always_inline bool is_regular(const struct flow *f)
{
	return f->steady >= LEAST_STEADY && f->steady * f->every_ns >= LEAST_STEADY_NS &&
	       f->deviation_ns <= f->every_ns / 4;
}

/* Two in a row are missing, beyond what the flow's own jitter explains (four deviations, as for the timer of
 * RFC 6298). The third is where fail-over begins: VRRP, BFD and most cluster protocols give three intervals. */
static __always_inline bool is_late(const struct flow *f, u64 gap_ns)
{
	return gap_ns >= LEAST_GAP_NS && gap_ns > 3 * f->every_ns + 4 * f->deviation_ns;
}

static __always_inline void forget(struct flow *f)
{
	f->every_ns = f->deviation_ns = 0;
	f->steady = f->gaps = 0;
}

/* RFC 6298's averages; 0 is no gap. */
static __always_inline void learn(struct flow *f, u64 gap_ns)
{
	s64 by = gap_ns - f->every_ns;
	s64 off = by < 0 ? -by : by;

	if (!f->every_ns) {
		f->every_ns = gap_ns;
		f->deviation_ns = gap_ns / 2;
		f->steady = 1;
		return;
	}
	/* One that is off is forgiven by those that follow, a run of them is not. */
	if (2 * (u64)off > f->every_ns)
		f->steady /= 2;
	else if (f->steady < 255)
		f->steady++;
	f->deviation_ns += (off - (s64)f->deviation_ns) >> 2;
	f->every_ns += by >> 3;
}

/* What comes now belongs to the message before it. */
static __always_inline bool goes_on(struct flow *f, u32 tick)
{
	u32 last = f->last_tick;

	if (!f->began || tick - last >= apart_ticks)
		return false;
	/* A cache line that others read, too. */
	if (last != tick)
		f->last_tick = tick;
	return true;
}

/* A message begins to come: the gap before it, if it is one to tell; else 0. */
static __always_inline u64 beat(struct flow *f, u64 now, u32 tick)
{
	u64 gap_ns = now - f->began;
	bool first = !f->began;

	/* Another CPU had one that came later. */
	if (now <= f->began)
		return 0;
	/* What takes longer to come is no heartbeat. */
	if (f->last_tick - f->began_tick >= apart_ticks)
		forget(f);
	f->began = now;
	f->began_tick = f->last_tick = tick;
	if (first)
		return 0;
	if (is_regular(f) && is_late(f, gap_ns)) {
		/* It says nothing of the rhythm, unless there is another one now. */
		if (++f->gaps >= MOST_GAPS)
			forget(f);
		return gap_ns;
	}
	f->gaps = 0;
	learn(f, gap_ns);
	return 0;
}

#endif

//! What a recorder would have measured: once at the start, then every second.

use recording::tables::{PortUse, TableSize, Thread};
use recording::{Addr, counter};
use synth::{HOST, LEAST_PORTS, Listening, Sink, table_size};

use super::host::{BACKEND_PORT, BACKENDS, INODE, backend, here, listener, task};
use super::outcome::Second;
use super::params::{S, SERVICES};
use super::pcbs::{List, State};
use super::record::Recorder;

/// kern.ipc.somaxconn. The services accept at once.
const BACKLOG: u32 = 128;
/// Ports in use are counted every so many seconds, as live.
const PORTS_EVERY_S: u64 = 5;

impl Recorder<'_> {
    /// Measures everything.
    pub(super) fn measure(&mut self, now_ns: u64, second: &Second, lists: &[List]) {
        let time_ns = self.at(now_ns);
        for nth in 0..SERVICES {
            let service = Listening {
                netns: HOST,
                sock: listener(nth),
                inode: INODE + u64::from(nth),
                family: 4,
                at: (Addr::default(), self.p.service_port + nth),
                backlog: BACKLOG,
            };
            self.tables.add(service.sample(time_ns));
        }
        let size = |structure, entries| table_size(time_ns, HOST, structure, entries);
        self.tables.add(size("time-wait", second.time_wait));
        let listed = second.open + second.time_wait + u64::from(SERVICES);
        self.tables.add(TableSize {
            buckets: Some(second.ports),
            longest_chain: Some(second.longest_list),
            ..size("port-lists", listed)
        });
        self.counters(time_ns, second);
        let since_s = (now_ns - self.p.origin_ns()) / S;
        if since_s.is_multiple_of(PORTS_EVERY_S) {
            self.ports(time_ns, lists);
        }
        for nth in 0..self.p.workers {
            self.worker(nth, now_ns, since_s > 0);
        }
    }

    fn counters(&mut self, time_ns: u64, s: &Second) {
        // What a search drops is told when it begins, of seconds that are still to come.
        let packets = (s.accepts + s.connects) * u64::from(self.p.packets);
        self.dropped += s.packets_dropped;
        let never_came = self.dropped.min(packets);
        self.dropped -= never_came;
        let rises = [
            (counter::ACTIVE_OPENS, s.connects),
            (counter::PASSIVE_OPENS, s.accepts),
            (counter::IN_SEGS, packets - never_came),
            (counter::INTR_QUEUE_DROPS, s.packets_dropped),
            ("in_pcblookup_local.calls", s.look_ups),
            ("in_pcblookup_local.iterations", s.passed),
            ("in_pcblookup_local.expired", s.purged),
        ];
        for (name, by) in rises {
            let row = self.counters.sample_one(time_ns, HOST, name, by as i64);
            self.tables.extend(row);
        }
    }

    fn ports(&mut self, time_ns: u64, lists: &[List]) {
        let mut used = [(0, 0, 0); BACKENDS as usize];
        let range = usize::from(self.p.first)..=usize::from(self.p.last);
        for pcb in lists[range].iter().flat_map(List::all) {
            if pcb.outbound {
                let (all, waits, live) = &mut used[(pcb.id % BACKENDS) as usize];
                *all += 1;
                *waits += u32::from(pcb.state == State::TimeWait);
                *live += u32::from(pcb.state == State::Live);
            }
        }
        for (nth, (ports_used, time_wait, established)) in (0..).zip(used) {
            if ports_used < LEAST_PORTS {
                continue;
            }
            self.tables.add(PortUse {
                time_ns,
                netns: HOST,
                family: 4,
                local_addr: here(),
                remote_addr: backend(nth),
                remote_port: BACKEND_PORT,
                ports_used,
                time_wait,
                established,
                range_low: self.p.first,
                range_high: self.p.last,
                reserved: 0,
                server_time_wait: Some(0),
            });
        }
    }

    /// What a worker did in the second that ends now.
    fn worker(&mut self, nth: u32, now_ns: u64, tell: bool) {
        let time_ns = self.at(now_ns);
        let from_ns = now_ns.saturating_sub(S);
        let within = |spans: &mut Vec<(u64, u64)>| {
            let clip = |(from, to): &(u64, u64)| {
                let (from, to) = ((*from).max(from_ns), (*to).min(now_ns));
                to.saturating_sub(from)
            };
            let sum: u64 = spans.iter().map(clip).sum();
            spans.retain(|(_, to)| *to > now_ns);
            sum
        };
        let worker = &mut self.workers[nth as usize];
        let system_ns = within(&mut worker.searches);
        let disk_ns = within(&mut worker.blocked);
        let count = std::mem::take(&mut worker.sleeps);
        if !tell {
            return;
        }
        let task = task(nth);
        let thread = Thread {
            system_ns,
            sleep_ns: S.saturating_sub(system_ns + disk_ns),
            disk_ns,
            voluntary: count,
            ..task.thread(time_ns, S)
        };
        self.tables.extend(task.slept(&thread, "kevent"));
        self.tables.add(thread);
    }
}

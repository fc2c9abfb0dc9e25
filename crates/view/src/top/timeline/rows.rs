//! What a row of each table says of its second.

use recording::tables::{
    Event, Exchange, Frame as CodeFrame, Health, Holder, Listener, Process, Request, RequestTime,
    Resource, Sample, Socket, Stack, Thread, ThreadSleep, Wait,
};
use recording::{EventKind, Row, TcpState};

use super::*;
use crate::stat::listeners::Listening;
use crate::stat::sockets::{Sampled, Since};
use crate::top::panes::OWN;

impl Take for Event {
    fn take(self, to: &mut Timeline) {
        if to.filter.asks_for_tasks() {
            // Owners are learnt from every step, and asked for each.
            for step in self.steps() {
                let row = Row::from(step);
                to.owners.learn(&row);
                if let Row::Event(step) = row {
                    event(*step, to);
                }
            }
        } else {
            event(self, to);
        }
    }
}

fn event(e: Event, to: &mut Timeline) {
    if !to.asks_for(&e) {
        return;
    }
    match e.established_ns {
        Some(established_ns) if e.kind == EventKind::State => to.life(&e, established_ns),
        _ => to.step(&e),
    }
}

impl Take for Socket {
    fn take(self, to: &mut Timeline) {
        let row = Row::from(self);
        to.owners.learn(&row);
        let Row::Socket(row) = row else { return };
        let owner = to.owners.of_socket(&row);
        let f = &to.filter;
        let asked = f.netns_ok(row.netns)
            && f.ports_ok(row.local_port, row.remote_port)
            && f.addrs_ok(row.local_addr, row.remote_addr)
            && owner.passes(f);
        // What has no window has no speed.
        if !asked || row.cwnd.is_none() {
            return;
        }
        let key = (row.netns, row.sock);
        let bytes = row.bytes_acked.unwrap_or(0);
        let now = Before {
            time_ns: row.time_ns,
            bytes: bytes.saturating_add(row.bytes_received.unwrap_or(0)),
            retransmits: row.total_retrans.unwrap_or(0),
            connecting: row.state == TcpState::SynSent,
        };
        let before = to.seen_since.get(&key).or_else(|| to.before.get(&key));
        let since = before.map(|b| {
            let over = now.time_ns.saturating_sub(b.time_ns);
            let bits = u128::from(now.bytes.saturating_sub(b.bytes)) * 8 * u128::from(SECOND);
            let rate = || u64::try_from(bits / u128::from(over)).unwrap_or(u64::MAX);
            Since {
                retrans: now.retransmits.saturating_sub(b.retransmits),
                // What was acknowledged first is the SYN, which is no data.
                bits_per_s: (over > 0 && !b.connecting).then(rate),
            }
        });
        if to.seen_since.len() < MAX_SOCKETS {
            to.seen_since.insert(key, now);
        }
        if let Some(frame) = to.frame(row.time_ns) {
            frame.round_trips.add(&row);
            frame.socket(Sampled {
                row,
                owner,
                since,
                unaccepted: false,
            });
        }
    }
}

impl Take for Listener {
    fn take(self, to: &mut Timeline) {
        let row = Row::from(self);
        to.owners.learn(&row);
        let Row::Listener(row) = row else { return };
        let owner = to.owners.of_listening(&row);
        let more_owners = to.owners.accept_at(&row).len().saturating_sub(1);
        let f = &to.filter;
        let asked = f.netns_ok(row.netns)
            && f.ports_ok(row.local_port, 0)
            && (row.local_addr.is_any() || f.addrs_ok(row.local_addr, row.local_addr))
            && owner.passes(f);
        if asked && let Some(frame) = to.frame(row.time_ns) {
            frame.listener(Listening {
                row: *row,
                owner,
                more_owners,
                ..Listening::default()
            });
        }
    }
}

impl Take for Holder {
    fn take(self, to: &mut Timeline) {
        to.owners.learn(&Row::from(self));
    }
}

impl Take for Process {
    fn take(self, to: &mut Timeline) {
        to.owners.learn(&Row::from(self));
    }
}

impl Take for Thread {
    fn take(self, to: &mut Timeline) {
        if self.pid == self.tid && &*self.comm == OWN && to.own.len() < MAX_OWN {
            to.own.insert(self.pid);
        }
        let asked = to
            .filter
            .task_ok(Some(self.pid), Some(&self.comm), Some(self.cgroup));
        if asked && let Some(frame) = to.frame(self.time_ns) {
            frame.thread(self);
        }
    }
}

impl Take for ThreadSleep {
    fn take(self, to: &mut Timeline) {
        if let Some(frame) = to.frame(self.time_ns) {
            let key = (self.pid, self.tid, self.syscall);
            frame.sleep(key, self.sleep_ns, self.count);
        }
    }
}

impl Take for Wait {
    fn take(self, to: &mut Timeline) {
        let asked = to
            .filter
            .task_ok(Some(self.pid), Some(&self.comm), Some(self.cgroup));
        if asked && let Some(frame) = to.frame(self.time_ns) {
            frame.wait(self);
        }
    }
}

impl Take for Request {
    fn take(self, to: &mut Timeline) {
        let asked = to.asks_for_requests(self.netns, &self.role, self.addr, self.port);
        if asked && let Some(frame) = to.frame(of_second(self.time_ns)) {
            frame.requests.add(None, &self);
        }
    }
}

impl Take for RequestTime {
    fn take(self, to: &mut Timeline) {
        let asked = to.asks_for_requests(self.netns, &self.role, self.addr, self.port);
        if asked && let Some(frame) = to.frame(of_second(self.time_ns)) {
            frame.requests.time(&self);
        }
    }
}

impl Take for Exchange {
    fn take(self, to: &mut Timeline) {
        let (addr, port) = match self.role {
            Role::Server => (self.local_addr, self.local_port),
            _ => (self.remote_addr, self.remote_port),
        };
        let asked = to.asks_for_requests(self.netns, &self.role, addr, port);
        if asked && let Some(frame) = to.frame(self.time_ns) {
            frame.requests.slow(None, self);
        }
    }
}

/// A moment of the second that ends at another.
fn of_second(end_ns: u64) -> u64 {
    end_ns.saturating_sub(1)
}

impl Take for Resource {
    fn take(self, to: &mut Timeline) {
        if !to.filter.netns_ok(self.netns) {
            return;
        }
        let Some(grew) = to.links.grew(&self) else {
            return;
        };
        if let Some(frame) = to.frame(of_second(self.time_ns)) {
            let place = (self.netns, self.instance);
            if frame.links.len() < MAX_LINKS || frame.links.contains_key(&place) {
                frame.links.entry(place).or_default().add(&grew);
            }
        }
    }
}

impl Take for Sample {
    fn take(self, to: &mut Timeline) {
        let asked = to.filter.task_ok(Some(self.pid), Some(&self.comm), None);
        if asked && let Some(frame) = to.frame(self.time_ns) {
            frame.samples += 1;
            match self.kernel_stack {
                Some(stack) => frame.stack(stack),
                None if self.pid == 0 && !self.softirq => frame.idle += 1,
                None => {}
            }
        }
    }
}

impl Take for Stack {
    fn take(self, to: &mut Timeline) {
        to.stacks.stack(&self);
    }
}

impl Take for CodeFrame {
    fn take(self, to: &mut Timeline) {
        to.stacks.frame(&self);
    }
}

impl Take for Health {
    fn take(self, to: &mut Timeline) {
        to.health.add(&self);
    }
}

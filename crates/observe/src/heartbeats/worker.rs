//! The thread that takes gaps as they come, names who was waiting, and looks at the end for what never came.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::time::Instant;

use recording::tables::{Gap, Heartbeat};
use recording::{Addr, TableWriter, Transport, Writer, monotonic_ns};

use super::driver::{HeartbeatOptions, Heartbeats, source};
use super::holder::HeldBy;
use crate::error::Error;
use crate::health::HealthLog;
use crate::netns;
use crate::pace::Allowance;
use crate::ring::{DRAIN_EVERY, LOOK_FOR_LOSSES_EVERY, drain};
use crate::space;
use crate::wire::tw_gap;
use crate::worker::{Control, Report};

/// As the kernel numbers it; what is not this is UDP.
const IPPROTO_TCP: u8 = 6;

/// Watches until told to stop; ready once attached.
pub fn watch(
    options: &HeartbeatOptions,
    allowance: Allowance,
    writer: &Writer,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut object = MaybeUninit::uninit();
    let mut heartbeats = match Heartbeats::attach(&mut object, options)? {
        Ok(heartbeats) => heartbeats,
        Err(verdict) => return control.idle(vec![source(verdict)]),
    };
    let report = |heartbeats: &Heartbeats| Report {
        sources: vec![heartbeats.source()],
        namespaces: netns::find().into_values().map(|n| n.namespace).collect(),
        ..Report::default()
    };
    control.ready(report(&heartbeats));
    let mut holders = MaybeUninit::uninit();
    let mut rows = Rows {
        gap: writer.table()?,
        heartbeat: writer.table()?,
        held_by: HeldBy::new(&mut holders, allowance),
        regular: 0,
    };
    let come = RefCell::new(Vec::new());
    let ring = heartbeats.ring(|gap| come.borrow_mut().push(*gap))?;
    let mut looked = Instant::now();
    loop {
        let stopping = control.stopping(DRAIN_EVERY);
        if stopping {
            heartbeats.link = None;
        }
        drain(&ring)?;
        let mut come = come.take();
        if stopping {
            heartbeats.pending(|gap| come.push(*gap))?;
        }
        rows.gaps(&come)?;
        if stopping || looked.elapsed() >= LOOK_FOR_LOSSES_EVERY {
            looked = Instant::now();
            rows.regular(heartbeats.newly_regular()?, stopping)?;
            heartbeats.say_losses(health)?;
        }
        if stopping {
            rows.gap.seal()?;
            rows.heartbeat.seal()?;
            return Ok(report(&heartbeats));
        }
        rows.gap.seal_if_due()?;
        rows.heartbeat.seal_if_due()?;
    }
}

struct Rows<'o> {
    gap: TableWriter<Gap>,
    heartbeat: TableWriter<Heartbeat>,
    held_by: HeldBy<'o>,
    /// Flows that were found to be regular so far.
    regular: u64,
}

impl Rows<'_> {
    fn gaps(&mut self, gaps: &[tw_gap]) -> Result<(), Error> {
        self.held_by.look(gaps.iter().map(|g| g.inode));
        for gap in gaps {
            // Numbers of another PID namespace say nothing to the reader.
            let holder = match space::pids_are_ours() {
                true => self.held_by.of(gap.inode),
                false => None,
            };
            let (pid, comm) = holder.unzip();
            self.gap.push(Gap {
                pid,
                comm,
                ..row(gap)
            })?;
        }
        Ok(())
    }

    fn regular(&mut self, more: u64, last: bool) -> Result<(), Error> {
        self.regular += more;
        if more > 0 || last {
            self.heartbeat.push(Heartbeat {
                time_ns: monotonic_ns(),
                regular: self.regular,
            })?;
        }
        Ok(())
    }
}

fn row(g: &tw_gap) -> Gap {
    Gap {
        time_ns: g.time_ns,
        netns: g.netns,
        protocol: match g.protocol {
            IPPROTO_TCP => Transport::Tcp,
            _ => Transport::Udp,
        },
        sock: g.sock,
        family: g.family,
        local_addr: Addr(g.local_addr),
        local_port: g.local_port,
        remote_addr: Addr(g.remote_addr),
        remote_port: g.remote_port,
        cpu: g.cpu,
        every_ns: g.every_ns,
        deviation_ns: g.deviation_ns,
        gap_ns: g.gap_ns,
        pending: g.pending != 0,
        pid: None,
        comm: None,
        cgroup: (g.cgroup != 0).then_some(g.cgroup),
    }
}

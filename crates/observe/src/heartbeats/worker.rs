//! The thread that takes gaps as they come, names who was waiting, and looks at the end for what never came.

use std::mem::MaybeUninit;

use libbpf_rs::MapCore;
use recording::tables::{Gap, Heartbeat};
use recording::{Addr, TableWriter, Transport, Writer, monotonic_ns};

use super::driver::{HeartbeatOptions, Heartbeats, source};
use super::holder::HeldBy;
use crate::error::Error;
use crate::health::HealthLog;
use crate::netns;
use crate::pace::Allowance;
use crate::ring_source::{RingSource, run};
use crate::space;
use crate::wire::{read, tw_gap};
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
    let (mut object, mut holders) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let heartbeats = match Heartbeats::attach(&mut object, options)? {
        Ok(heartbeats) => heartbeats,
        Err(verdict) => return control.idle(vec![source(verdict)]),
    };
    let watched = Watched {
        heartbeats,
        come: Vec::new(),
        rows: Rows {
            gap: writer.table()?,
            heartbeat: writer.table()?,
            held_by: HeldBy::new(&mut holders, allowance),
            regular: 0,
        },
    };
    run(watched, health, control)
}

struct Watched<'o> {
    heartbeats: Heartbeats<'o>,
    /// Gaps that have come since the ring was drained before.
    come: Vec<tw_gap>,
    rows: Rows<'o>,
}

impl RingSource for Watched<'_> {
    fn ring(&self) -> &dyn MapCore {
        self.heartbeats.ring()
    }

    fn report(&self) -> Report {
        Report {
            sources: vec![self.heartbeats.source()],
            namespaces: netns::find().into_values().map(|n| n.namespace).collect(),
            ..Report::default()
        }
    }

    fn begun(&mut self) {
        self.rows.held_by.load();
    }

    fn take(&mut self, record: &[u8]) -> Result<(), Error> {
        self.come.extend(read::<tw_gap>(record));
        Ok(())
    }

    fn stop(&mut self, _: &HealthLog) -> Result<(), Error> {
        self.heartbeats.link = None;
        Ok(())
    }

    fn drained(&mut self, _: &HealthLog, stopped: bool) -> Result<(), Error> {
        let mut come = std::mem::take(&mut self.come);
        if stopped {
            self.heartbeats.pending(|gap| come.push(*gap))?;
        }
        self.rows.gaps(&come)
    }

    fn look(&mut self, health: &HealthLog, stopped: bool) -> Result<(), Error> {
        self.rows
            .regular(self.heartbeats.newly_regular()?, stopped)?;
        self.heartbeats.say_losses(health)
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        self.rows.gap.seal_if_due()?;
        Ok(self.rows.heartbeat.seal_if_due()?)
    }

    fn seal(&mut self) -> Result<(), Error> {
        self.rows.gap.seal()?;
        Ok(self.rows.heartbeat.seal()?)
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
            let holder = if space::pids_are_ours() {
                self.held_by.of(gap.inode)
            } else {
                None
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

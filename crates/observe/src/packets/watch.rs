//! The thread that watches packets: drains the ring on a timer, follows namespaces.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Instant;

use libbpf_rs::{MapCore, OpenObject};
use recording::tables::Packet;
use recording::{HealthKind, Source, SourceName, TableWriter, Verdict};
use rustix::thread::CapabilitySet;

use super::decode;
use super::driver::{PacketOptions, load, sources};
use super::tap::Tap;
use super::taps::Taps;
use crate::error::Error;
use crate::health::HealthLog;
use crate::pace::{Allowance, Pace};
use crate::patience::Moments;
use crate::rights;
use crate::ring::{Count, DRAIN_EVERY, RING_FULL};
use crate::ring_source::{RingSource, run};
use crate::wire::packets::PacketsSkel;
use crate::wire::{read, tw_packet, tw_packet_loss};
use crate::worker::{Control, Report};

/// To look for namespaces takes every process of the host: it may use one part in so many of a CPU.
const MOST: u32 = 50;

/// Watches until told to stop; ready once every namespace is watched. A kernel that cannot do it
/// gets a verdict.
pub fn watch(
    options: &PacketOptions,
    allowance: Allowance,
    table: TableWriter<Packet>,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut object = MaybeUninit::uninit();
    let skel = match try_load(&mut object, options)? {
        Ok(skel) => skel,
        Err(sources) => return control.idle(sources),
    };
    let mut watched = Watched {
        options,
        skel: &skel,
        taps: Taps::new(options, &skel)?,
        table,
        full: Count::default(),
        unreadable: Count::default(),
        pace: Pace::new(DRAIN_EVERY, MOST, allowance),
        looked: Instant::now(),
        moments: control.moments(),
    };
    watched.taps.look(health, control.beginning())?;
    run(watched, health, control)
}

/// The filter, for no namespace yet; or its source with the reason why it does not work. Tried on
/// a socket at once: a host may have no packet sockets.
fn try_load<'o>(
    object: &'o mut MaybeUninit<OpenObject>,
    options: &PacketOptions,
) -> Result<Result<PacketsSkel<'o>, Vec<Source>>, Error> {
    let why = match load(object, options, 0, None) {
        Ok(skel) => match Tap::try_out(skel.progs.on_packet.as_fd()) {
            Ok(()) => return Ok(Ok(skel)),
            Err(why) => format!(
                "opening a packet socket (CONFIG_PACKET) failed: {}",
                rights::reason(&why, CapabilitySet::NET_RAW)
            ),
        },
        Err(Error::Usage(why)) => return Err(Error::Usage(why)),
        Err(e) => e.to_string(),
    };
    Ok(Err(sources(Verdict::Failed(why))))
}

/// Whether it would work.
pub fn checkup(options: &PacketOptions) -> Result<Vec<Source>, Error> {
    let mut object = MaybeUninit::uninit();
    Ok(match try_load(&mut object, options)? {
        Ok(_) => sources(Verdict::Attached),
        Err(sources) => sources,
    })
}

struct Watched<'o> {
    options: &'o PacketOptions,
    skel: &'o PacketsSkel<'o>,
    taps: Taps<'o>,
    table: TableWriter<Packet>,
    full: Count,
    unreadable: Count,
    pace: Pace,
    /// When it was last looked for namespaces.
    looked: Instant,
    moments: Moments,
}

impl RingSource for Watched<'_> {
    fn ring(&self) -> &dyn MapCore {
        &self.skel.maps.ring
    }

    fn report(&self) -> Report {
        let mut sources = sources(Verdict::Attached);
        sources[0].lost = self.full.total;
        Report {
            sources,
            namespaces: self.taps.seen.values().cloned().collect(),
            ..Report::default()
        }
    }

    fn take(&mut self, record: &[u8]) -> Result<(), Error> {
        match read::<tw_packet>(record) {
            Some(packet) => Ok(self.table.push(decode::row(&packet))?),
            None => Ok(()),
        }
    }

    fn stop(&mut self, _: &HealthLog) -> Result<(), Error> {
        self.taps.close();
        Ok(())
    }

    fn drained(&mut self, health: &HealthLog, stopped: bool) -> Result<(), Error> {
        let since = self.looked.elapsed();
        let is_due = since >= self.options.interval || !self.taps.all_there();
        if stopped || since < self.pace.interval || !is_due {
            return Ok(());
        }
        self.looked = Instant::now();
        self.pace.begin();
        self.taps.look(health, self.moments.between())?;
        let slowed = self.pace.end();
        if let Some(detail) = slowed.filter(|_| self.pace.interval > self.options.interval) {
            let detail = format!("a look for network namespaces {detail}");
            health.say(SourceName::Packets, HealthKind::Slowed, 0, detail)?;
        }
        Ok(())
    }

    fn look(&mut self, health: &HealthLog, _: bool) -> Result<(), Error> {
        let lost = &self.skel.maps.lost;
        let n = self
            .full
            .news(lost, tw_packet_loss::TW_PACKET_LOST_RING.0)?;
        if n > 0 {
            health.say(SourceName::Packets, HealthKind::Lost, n, RING_FULL)?;
        }
        let n = self
            .unreadable
            .news(lost, tw_packet_loss::TW_PACKET_UNREADABLE.0)?;
        if n > 0 {
            let detail = "packets whose headers are cut short, or too many before TCP's";
            health.say(SourceName::Packets, HealthKind::Partial, n, detail)?;
        }
        Ok(())
    }

    fn seal_if_due(&mut self) -> Result<(), Error> {
        Ok(self.table.seal_if_due()?)
    }

    fn seal(&mut self) -> Result<(), Error> {
        Ok(self.table.seal()?)
    }
}

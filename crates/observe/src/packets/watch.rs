//! The thread that watches packets: drains the ring on a timer, follows namespaces.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Instant;

use libbpf_rs::OpenObject;
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
use crate::rights;
use crate::ring::{Count, DRAIN_EVERY, LOOK_FOR_LOSSES_EVERY, RING_FULL, drain, ring};
use crate::wire::packets::PacketsSkel;
use crate::wire::{tw_packet, tw_packet_loss};
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
    match try_load(&mut object, options)? {
        Ok(skel) => run(options, allowance, &skel, table, health, control),
        Err(sources) => control.idle(sources),
    }
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

fn run(
    options: &PacketOptions,
    allowance: Allowance,
    skel: &PacketsSkel,
    table: TableWriter<Packet>,
    health: &HealthLog,
    control: &Control,
) -> Result<Report, Error> {
    let mut taps = Taps::new(options, skel)?;
    taps.look(health)?;
    let report = |taps: &Taps, lost| {
        let mut sources = sources(Verdict::Attached);
        sources[0].lost = lost;
        Report {
            sources,
            namespaces: taps.seen.values().cloned().collect(),
            ..Report::default()
        }
    };
    control.ready(report(&taps, 0));
    let sink = RefCell::new((table, None));
    let ring = ring(&skel.maps.ring, |p: &tw_packet| {
        let (table, failed) = &mut *sink.borrow_mut();
        if failed.is_none() {
            *failed = table.push(decode::row(p)).err();
        }
    })?;
    let (mut full, mut unreadable) = (Count::default(), Count::default());
    let mut pace = Pace::new(DRAIN_EVERY, MOST, allowance);
    let mut looked = Instant::now();
    let mut counted = Instant::now();
    loop {
        let stopping = control.stopping(DRAIN_EVERY);
        let may_look = looked.elapsed() >= pace.interval;
        if stopping {
            // Close first, then drain: what was seen before the end is not lost.
            taps.close();
        } else if may_look && (looked.elapsed() >= options.interval || !taps.all_there()) {
            looked = Instant::now();
            pace.begin();
            taps.look(health)?;
            if let Some(detail) = pace.end().filter(|_| pace.interval > options.interval) {
                let detail = format!("a look for network namespaces {detail}");
                health.say(SourceName::Packets, HealthKind::Slowed, 0, detail)?;
            }
        }
        drain(&ring)?;
        let (table, failed) = &mut *sink.borrow_mut();
        if let Some(failed) = failed.take() {
            return Err(failed.into());
        }
        if stopping || counted.elapsed() >= LOOK_FOR_LOSSES_EVERY {
            counted = Instant::now();
            let lost = &skel.maps.lost;
            let n = full.news(lost, tw_packet_loss::TW_PACKET_LOST_RING.0)?;
            if n > 0 {
                health.say(SourceName::Packets, HealthKind::Lost, n, RING_FULL)?;
            }
            let n = unreadable.news(lost, tw_packet_loss::TW_PACKET_UNREADABLE.0)?;
            if n > 0 {
                let detail = "packets whose headers are cut short, or too many before TCP's";
                health.say(SourceName::Packets, HealthKind::Partial, n, detail)?;
            }
        }
        if stopping {
            table.seal()?;
            return Ok(report(&taps, full.total));
        }
        table.seal_if_due()?;
    }
}

//! Joining two namespaces: by a plain cable (veth), or by a path that delays, loses, limits,
//! reorders or mutilates packets. The kernel's own emulator (netem) is often not built in, so
//! the path is ours: two TUN devices and a thread that carries packets between them.

mod direction;
mod napi;
mod pump;
mod strip;
mod syn;

use serde::{Deserialize, Serialize};

use tun_rs::{DeviceBuilder, Layer, SyncDevice};

pub use direction::Counters;
use pump::Pump;

use crate::Error;
use crate::command::run;
use crate::netns::Netns;

/// Bytes of the largest IP packet on an emulated path, if nothing else is said: as on the internet.
const MTU: u16 = 1500;
/// The smallest that IPv6 takes, and what storage networks use with some room.
const MTUS: std::ops::RangeInclusive<u16> = 1280..=9200;

/// Packets the kernel may queue towards the emulator. Generous, so that a packet is only ever
/// lost where the scenario says so, even while the emulator waits for a CPU.
const DEVICE_QUEUE: u32 = 10_000;

/// What a path does to the packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wire {
    /// One-way delay, ms.
    pub delay_ms: f64,
    /// Up to so much more delay, drawn for each packet, ms. Packets stay in order.
    pub jitter_ms: f64,
    /// Share of packets lost, 0 to 1.
    pub loss: f64,
    /// Share of packets held back by `reorder_ms`, so that later ones overtake them, 0 to 1.
    pub reorder: f64,
    /// How long those are held back, ms.
    pub reorder_ms: f64,
    /// Rate of the bottleneck, Mbit/s of IP packets; none when absent.
    pub rate_mbit: Option<f64>,
    /// Buffer in front of the bottleneck, kB; what does not fit is lost (tail drop).
    pub queue_kb: u64,
    /// A middlebox: SACK-permitted, window scale and timestamps vanish from SYN and SYN-ACK.
    pub strip_options: bool,
    /// Share of SYNs lost, 0 to 1; everything else passes.
    pub syn_loss: f64,
    /// The first SYN of each connection is lost; the one retransmitted a second later passes.
    pub lose_first_syn: bool,
    /// A black hole: packets of more bytes than this vanish, and their sender is not told.
    pub hole: Option<u16>,
    /// Nothing passes any more so long after the first SYN or SYN-ACK, ms: the host behind it is gone.
    pub cut_after_ms: Option<f64>,
    /// After so long it passes again, ms: the path was down for a while.
    pub cut_for_ms: Option<f64>,
    /// Bytes of the largest IP packet; of a link, that of its first direction counts.
    pub mtu: u16,
}

impl Default for Wire {
    fn default() -> Self {
        Wire {
            delay_ms: 0.0,
            jitter_ms: 0.0,
            loss: 0.0,
            reorder: 0.0,
            reorder_ms: 5.0,
            rate_mbit: None,
            queue_kb: 1000,
            strip_options: false,
            syn_loss: 0.0,
            lose_first_syn: false,
            hole: None,
            cut_after_ms: None,
            cut_for_ms: None,
            mtu: MTU,
        }
    }
}

impl Wire {
    /// Why these figures make no sense, if so.
    pub(crate) fn complaint(&self) -> Option<String> {
        let share = |name: &str, v: f64| {
            (!(0.0..=1.0).contains(&v)).then(|| format!("{name} = {v} is not a share (0 to 1)"))
        };
        let time = |name: &str, v: f64| {
            (!(0.0..=60_000.0).contains(&v)).then(|| format!("{name} = {v} is not within a minute"))
        };
        share("loss", self.loss)
            .or_else(|| share("reorder", self.reorder))
            .or_else(|| share("syn_loss", self.syn_loss))
            .or_else(|| time("delay_ms", self.delay_ms))
            .or_else(|| time("jitter_ms", self.jitter_ms))
            .or_else(|| time("reorder_ms", self.reorder_ms))
            .or_else(|| time("cut_after_ms", self.cut_after_ms.unwrap_or(0.0)))
            .or_else(|| time("cut_for_ms", self.cut_for_ms.unwrap_or(0.0)))
            .or_else(|| {
                let (low, high) = (MTUS.start(), MTUS.end());
                let wrong = !MTUS.contains(&self.mtu);
                wrong.then(|| format!("mtu = {} is not within {low} and {high}", self.mtu))
            })
            .or_else(|| {
                let hole = self.hole.filter(|hole| !(576..self.mtu).contains(hole))?;
                let mtu = self.mtu;
                Some(format!(
                    "hole = {hole} is not within 576 and the mtu of {mtu}"
                ))
            })
            .or_else(|| {
                let rate = self.rate_mbit.filter(|r| !(*r > 0.0 && r.is_finite()))?;
                Some(format!("rate_mbit = {rate} is not a valid rate"))
            })
    }
}

/// One end of a link: the namespace, and how its device and addresses are called there.
pub(crate) struct End<'a> {
    pub(crate) netns: &'a Netns,
    /// At most 15 characters, the kernel's limit.
    pub(crate) device: &'a str,
    /// With prefix length: `198.18.1.1/24`.
    pub(crate) addresses: &'a [String],
}

impl End<'_> {
    /// Gives the device its addresses and starts it.
    fn up(&self) -> Result<(), Error> {
        for address in self.addresses {
            let mut args = vec!["addr", "add", address.as_str(), "dev", self.device];
            if address.contains(':') {
                // Without it an IPv6 address cannot be used for a second or two.
                args.push("nodad");
            }
            self.netns.ip(args)?;
        }
        self.netns.ip(["link", "set", self.device, "up"])?;
        Ok(())
    }
}

/// Joins two namespaces by a veth pair. It goes with the namespaces. With `napi_cpu` a kernel
/// thread on that CPU handles what comes to the second.
pub(crate) fn join(a: &End, b: &End, napi_cpu: Option<u32>) -> Result<(), Error> {
    // Made inside: the host's namespace never sees the devices.
    run([
        "ip",
        "link",
        "add",
        a.device,
        "netns",
        a.netns.name(),
        "type",
        "veth",
        "peer",
        "name",
        b.device,
        "netns",
        b.netns.name(),
    ])?;
    a.up()?;
    b.up()?;
    napi_cpu.map_or(Ok(()), |cpu| napi::thread_on(b, a, cpu))
}

/// An emulated path between two namespaces, carried as long as the value lives.
#[derive(Debug)]
pub struct Link {
    pump: Pump,
}

impl Link {
    /// Joins two namespaces by a path; `there` is what happens from `a` to `b`, `back` the rest.
    pub(crate) fn emulate(
        a: &End,
        b: &End,
        there: Wire,
        back: Wire,
        seed: u64,
    ) -> Result<Link, Error> {
        let back = Wire {
            mtu: there.mtu,
            ..back
        };
        let devices = [open(a, there.mtu)?, open(b, there.mtu)?];
        Ok(Link {
            pump: Pump::start(devices, [there, back], seed)?,
        })
    }

    /// What has happened to the packets so far: from a to b, and back.
    pub fn counters(&self) -> [Counters; 2] {
        self.pump.counters()
    }
}

/// Makes a TUN device inside the end's namespace. It vanishes with its file descriptor.
fn open(end: &End, mtu: u16) -> Result<SyncDevice, Error> {
    let device = end.netns.inside(|| {
        let device = DeviceBuilder::new()
            .name(end.device)
            .layer(Layer::L3)
            .inherit_enable_state()
            .build_sync()?;
        device.set_nonblocking(true)?;
        Ok(device)
    })?;
    let (mtu, queue) = (mtu.to_string(), DEVICE_QUEUE.to_string());
    end.netns
        .ip(["link", "set", end.device, "mtu", &mtu, "txqueuelen", &queue])?;
    end.up()?;
    Ok(device)
}

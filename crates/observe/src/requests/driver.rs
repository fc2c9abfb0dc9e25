//! Loads and attaches the programs that follow requests; reads the sums and the slowest exchanges.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapType, OpenObject};
use recording::{HealthKind, Source, SourceName, Verdict};

use super::listening::Listening;
use super::rows::Key;
use super::shares::LATE_NS;
use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::health::HealthLog;
use crate::kernel::{KernelBtf, MISSED, Missed, hz};
use crate::noted::{self, Noted};
use crate::patience::{Moments, Patience};
use crate::ring::{Count, RING_FULL};
use crate::wire::requests::{RequestsSkel, RequestsSkelBuilder};
use crate::wire::{read, same, tw_exchange, tw_requests, tw_service};

/// What to watch.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// Which connections: namespaces, ports, addresses.
    pub filter: Filter,
    /// Size of the ring buffer, bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Random numbers behind the ids of sockets.
    pub sock_key: [u64; 2],
}

/// A program, where it is attached, and with how many arguments.
#[derive(Clone, Copy, PartialEq)]
struct Program {
    name: &'static str,
    tracepoint: &'static str,
    args: usize,
}

const fn program(name: &'static str, tracepoint: &'static str, args: usize) -> Program {
    Program {
        name,
        tracepoint,
        args,
    }
}

/// What tells that data has come: the first that the kernel has.
const ARRIVALS: &[Program] = &[
    program("on_data_ready", "sk_data_ready", 1), // Linux 6.3
    program("on_segment", "tcp_probe", 2),
];
/// What tells that something is written.
const WRITES: &[Program] = &[
    program("on_send", "tcp_sendmsg_locked", 4), // Linux 6.16
    WRITE_ENDS,
    program("on_leave", "net_dev_queue", 1),
];
const WRITE_ENDS: Program = program("on_sent", "sock_send_length", 3); // Linux 6.3
const OTHERS: &[&[Program]] = &[
    &[program("on_read", "tcp_rcv_space_adjust", 1)],
    &[program("on_retransmit", "tcp_retransmit_skb", 2)],
    &[program("on_state", "inet_sock_set_state", 3)],
];
/// What is lost, by the key of the map; the keys after them count the connections that were taken up, the
/// exchanges that were counted, and those of them that were because they were late.
const LOSSES: [&str; 3] = [
    RING_FULL,
    "exchanges of more listeners and destinations than are counted",
    "the kernel had no memory for the notes on a connection",
];

/// Links come and go one by one: what the programs see meanwhile is not whole.
fn watching(skel: &mut RequestsSkel, all: bool) {
    if let Some(bss) = skel.maps.bss_data.as_deref_mut() {
        bss.watching = all.into();
    }
}

/// The loaded programs.
pub struct Requests<'o> {
    skel: RequestsSkel<'o>,
    links: Vec<Link>,
    dump: Noted,
    jiffy_ns: u32,
    /// What is not known from the beginning on, and of how many.
    unknown: Option<(u64, String)>,
    losses: [Count; LOSSES.len()],
    met: Count,
    counted: Count,
    late: Count,
    missed: Missed,
    lost: u64,
}

impl<'o> Requests<'o> {
    /// Loads and attaches them; `Err` says why this kernel has no requests to tell.
    pub fn attach(
        object: &'o mut MaybeUninit<OpenObject>,
        options: &RequestOptions,
        patience: Patience,
    ) -> Result<Result<Requests<'o>, Verdict>, Error> {
        let btf = KernelBtf::load().map_err(Error::Kernel)?;
        let programs = match choose(&btf) {
            Ok(programs) => programs,
            Err(why) => return Ok(Err(Verdict::Unsupported(why))),
        };
        let failed = |what: &str, e: libbpf_rs::Error| Error::Bpf {
            what: format!("{what} the programs that follow requests"),
            why: bpf_error(&e),
        };
        // 250 ticks a second are the commonest.
        let jiffy_ns = 1_000_000_000 / hz().unwrap_or(250).max(1);
        let mut open = RequestsSkelBuilder::default()
            .open(object)
            .map_err(|e| failed("opening", e))?;
        open.maps
            .ring
            .set_max_entries(options.ring_bytes)
            .map_err(|e| failed("opening", e))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.sock_key = options.sock_key;
            rodata.write_ends = programs.contains(&WRITE_ENDS);
            rodata.jiffy_ns = jiffy_ns;
            rodata.given_up_ns = LATE_NS;
            rodata.filter = same(&options.filter.wire().map_err(Error::Usage)?);
        }
        if let Some(bss) = open.maps.bss_data.as_deref_mut() {
            // What a service was told of in round 0 is nothing yet.
            bss.this_round = 1;
        }
        let wanted = |name: &OsStr| programs.iter().any(|p| name == p.name);
        for mut program in open.open_object_mut().progs_mut() {
            let walks = noted::is_wanted(program.name());
            program.set_autoload(walks.unwrap_or_else(|| wanted(program.name())));
        }
        let mut skel = match open.load() {
            Ok(skel) => skel,
            Err(e) => return Ok(Err(Verdict::Failed(bpf_error(&e)))),
        };
        // Known before the first data comes: then its end answers.
        let listening = Listening::find(&options.filter, patience);
        for (netns, port) in listening.all {
            let key = [netns.to_ne_bytes(), u32::from(port).to_ne_bytes()].concat();
            let listening = &skel.maps.listening;
            listening
                .update(&key, &[1], MapFlags::ANY)
                .map_err(|e| failed("telling of listeners to", e))?;
        }
        let dump = match Noted::attach(skel.object_mut().progs_mut(), &options.filter.netns) {
            Ok(dump) => dump,
            Err(e) => return Ok(Err(Verdict::Failed(bpf_error(&e)))),
        };
        let mut links = Vec::new();
        for program in skel.object_mut().progs_mut() {
            if wanted(program.name()) {
                match program.attach() {
                    Ok(link) => links.push(link),
                    Err(e) => return Ok(Err(Verdict::Failed(bpf_error(&e)))),
                }
            }
        }
        watching(&mut skel, true);
        let unknown = listening.unasked.map(|(n, why)| {
            let detail = "ends that listeners made before the recording are taken for clients, where these could \
                          not be asked for";
            (n, format!("{detail}: {why}"))
        });
        Ok(Ok(Requests {
            skel,
            links,
            dump,
            jiffy_ns,
            unknown,
            losses: Default::default(),
            met: Count::default(),
            counted: Count::default(),
            late: Count::default(),
            missed: Missed::default(),
            lost: 0,
        }))
    }

    /// Stops watching; what is in the ring stays.
    pub fn stop(&mut self) {
        watching(&mut self.skel, false);
        self.links.clear();
    }

    /// The ring of the slowest exchanges.
    pub fn ring(&self) -> &dyn MapCore {
        &self.skel.maps.ring
    }

    /// Hands every service with its sums so far to `each`.
    pub fn services(
        &self,
        mut each: impl FnMut(&tw_service, &tw_requests) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let services = &self.skel.maps.services;
        for key in services.keys() {
            let Ok(Some(value)) = services.lookup(&key, MapFlags::ANY) else {
                continue;
            };
            if let (Some(service), Some(sums)) = (read(&key), read(&value)) {
                each(&service, &sums)?;
            }
        }
        Ok(())
    }

    /// Hands every exchange that has been under way for `over_ns` to `each`.
    pub fn open(
        &mut self,
        over_ns: u64,
        mut each: impl FnMut(&tw_exchange) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.open_over_ns = over_ns;
        }
        // Processes may share a connection.
        let mut told = BTreeSet::new();
        let each = |x: &tw_exchange| if told.insert(x.sock) { each(x) } else { Ok(()) };
        self.dump.each("the iterator over requests", each)
    }

    /// Connections that were taken up since the last call.
    pub fn newly_met(&mut self) -> Result<u64, Error> {
        self.met.news(&self.skel.maps.counts, LOSSES.len() as u32)
    }

    /// Exchanges that were counted since the last call.
    pub fn newly_counted(&mut self) -> Result<u64, Error> {
        let key = LOSSES.len() as u32 + 1;
        self.counted.news(&self.skel.maps.counts, key)
    }

    /// Exchanges that were counted since the last call because they were late.
    pub fn newly_late(&mut self) -> Result<u64, Error> {
        let key = LOSSES.len() as u32 + 2;
        self.late.news(&self.skel.maps.counts, key)
    }

    /// From now on an exchange is late when a step of it took so long.
    pub fn late_from(&mut self, ns: u64) {
        let jiffies = ns.div_ceil(self.jiffy_ns.into());
        if let Some(data) = self.skel.maps.data_data.as_deref_mut() {
            data.late_jiffies = jiffies.try_into().unwrap_or(i32::MAX as u32);
        }
    }

    /// Takes a service out of the map, and hands out what it has come to; `None` where the kernel cannot do both at
    /// once (before Linux 5.14), and leaves it.
    pub fn retire(&self, service: &Key) -> Option<(tw_service, tw_requests)> {
        let key = bytes(service);
        let value = self.skel.maps.services.lookup_and_delete(&key).ok()??;
        Some((read(&key)?, read(&value)?))
    }

    /// From now on of the exchanges of a service one in so many is counted.
    pub fn share(&self, service: &Key, one_in: u32) -> Result<(), Error> {
        let shares = &self.skel.maps.shares;
        let key = bytes(service);
        let told = match one_in {
            1 => shares.delete(&key),
            _ => shares.update(&key, &one_in.to_ne_bytes(), MapFlags::ANY),
        };
        told.map_err(|e| Error::Bpf {
            what: "telling how many exchanges are counted to the programs that follow requests"
                .into(),
            why: bpf_error(&e),
        })
    }

    /// From now on the slowest of each service is sought anew, the shares that were told hold, and of new
    /// connections one in so many is followed.
    pub fn next_round(&mut self, one_new_in: u32) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.this_round = bss.this_round.wrapping_add(1);
        }
        if let Some(data) = self.skel.maps.data_data.as_deref_mut() {
            data.one_new_in = one_new_in;
        }
    }

    /// Says what was lost since the last call, and what is not known from the beginning on.
    pub fn say_losses(&mut self, health: &HealthLog) -> Result<(), Error> {
        if let Some((count, detail)) = self.unknown.take() {
            health.say(SourceName::Requests, HealthKind::Partial, count, detail)?;
        }
        let mut news = Vec::new();
        for (key, why) in LOSSES.iter().enumerate() {
            let map = &self.skel.maps.counts;
            news.push((self.losses[key].news(map, key as u32)?, *why));
        }
        let missed = self.missed.news(self.skel.object());
        news.push((missed.iter().map(|(_, n)| n).sum(), MISSED));
        for (count, why) in news.into_iter().filter(|(n, _)| *n > 0) {
            self.lost += count;
            health.say(SourceName::Requests, HealthKind::Lost, count, why)?;
        }
        Ok(())
    }

    /// The source, with what was lost.
    pub fn source(&self) -> Source {
        source(Verdict::Attached).with_lost(self.lost)
    }
}

/// As the kernel's maps have it.
fn bytes((addr, netns, port, role): &Key) -> Vec<u8> {
    let (netns, port) = (netns.to_ne_bytes(), port.to_ne_bytes());
    [&addr[..], &netns, &port, &[*role, 0]].concat()
}

/// The programs for this kernel; the error says what it lacks.
fn choose(btf: &KernelBtf) -> Result<Vec<Program>, String> {
    if let Ok(false) = MapType::TaskStorage.is_supported() {
        let why = "this kernel's programs cannot keep notes with a task (Linux 5.12)";
        return Err(why.into());
    }
    let has = |p: &&Program| btf.tracepoint_args(p.tracepoint) >= Some(p.args);
    let choices = [ARRIVALS, WRITES].into_iter().chain(OTHERS.iter().copied());
    let chosen = choices.map(|choice| {
        choice.iter().find(has).copied().ok_or_else(|| {
            let names: Vec<_> = choice.iter().map(|p| p.tracepoint).collect();
            format!("this kernel has no tracepoint {}", names.join(" or "))
        })
    });
    chosen.collect()
}

/// The source with this verdict.
pub fn source(verdict: Verdict) -> Source {
    Source::optional(
        SourceName::Requests,
        "requests and their answers by listener and destination: how long they took, and where the time went",
        verdict,
    )
}

/// Tries everything and lets go again.
pub fn checkup(options: &RequestOptions) -> Vec<Source> {
    let mut object = MaybeUninit::uninit();
    let moments = Moments::begin(None, Arc::default());
    vec![source(
        match Requests::attach(&mut object, options, moments.beginning()) {
            Ok(Ok(_)) => Verdict::Attached,
            Ok(Err(verdict)) => verdict,
            Err(e) => Verdict::Failed(e.reason()),
        },
    )]
}

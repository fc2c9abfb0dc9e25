//! A recording as seconds: rows of any table are sorted into the second that they are of, live as
//! they come or from a recording on disk.

mod rows;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ahash::AHashMap;
use analysis::owners::Owners;
use analysis::{AcceptQueue, Activity, Endpoint};
use recording::tables::{
    Event, Exchange, Frame as CodeFrame, Health, Holder, Listener, Process, Request, RequestTime,
    Resource, Sample, Socket, Stack, Thread, ThreadSleep, Wait,
};
use recording::{
    Addr, Error, Filter, Manifest, Recording, Role, Segment, Stacks, Table, Text, Word,
};

use super::connecting::Connecting;
use super::frame::Frame;
use super::links::LinkCounters;
use crate::view::HealthNotes;

/// Seconds kept of a live host, which one can go back to.
const LIVE_FRAMES: usize = 300;
/// Frames of a recording; a longer one has longer frames.
const MOST_FRAMES: u64 = 600;
const SECOND: u64 = 1_000_000_000;
/// Frames in which trouble counts as new, and what shows it.
const LAST: usize = 3;
const TROUBLES: &[Activity] = &[
    Activity::Failed,
    Activity::SynRetransmitted,
    Activity::SynAckRetransmitted,
    Activity::Dropped,
];
/// Sockets whose sample before is remembered.
const MAX_SOCKETS: usize = 1 << 17;
/// Interfaces kept of a second.
const MAX_LINKS: usize = 256;
/// Processes that may be tcpwhy.
const MAX_OWN: usize = 64;

/// The seconds of a recording.
#[derive(Debug)]
pub struct Timeline {
    pub(super) start_ns: u64,
    /// Length of a frame, ns.
    pub(super) step_ns: u64,
    pub(super) frames: VecDeque<Frame>,
    /// Which frame since the start the first kept one is.
    pub(super) first: u64,
    /// Frames since the start that are whole: the rows of those after them are still coming.
    whole: u64,
    /// Frames that settled: nothing more is expected of them.
    settled: u64,
    most: usize,
    /// Whether it goes on; the end of a recording is known.
    live: bool,
    filter: Filter,
    pub(super) owners: Owners,
    pub(super) stacks: Stacks,
    before: AHashMap<(u32, u64), Before>,
    /// Sockets seen since [`before`](Self::before) was last cleared of others.
    seen_since: AHashMap<(u32, u64), Before>,
    pub(super) connecting: Connecting,
    links: LinkCounters,
    health: HealthNotes,
    /// Processes that are tcpwhy.
    pub(super) own: BTreeSet<u32>,
    /// Tables that have had rows, and how many.
    pub(super) has: BTreeMap<&'static str, u64>,
}

/// A socket when it was last sampled.
#[derive(Clone, Copy, Debug)]
struct Before {
    time_ns: u64,
    bytes: u64,
    retransmits: u32,
    connecting: bool,
}

impl Timeline {
    /// For a live host: rows are [`add`](Timeline::add)ed as they come, the last minutes are kept.
    pub fn live(manifest: &Manifest, filter: Filter) -> Timeline {
        Timeline {
            live: true,
            ..Timeline::new(manifest, filter, SECOND, LIVE_FRAMES)
        }
    }

    /// Reads a recording on disk.
    pub fn read(recording: &Recording, filter: Filter) -> Result<Timeline, Error> {
        let manifest = &recording.manifest;
        let length = manifest.end_ns.saturating_sub(manifest.start_ns);
        let step = (length / MOST_FRAMES).div_ceil(SECOND).max(1) * SECOND;
        let most = length / step + 1;
        let mut all = Timeline::new(manifest, filter, step, most as usize);
        // The holders of sockets, and the stacks, come before what refers to them.
        all.scan::<Holder>(recording)?;
        all.scan::<Process>(recording)?;
        all.scan::<CodeFrame>(recording)?;
        all.scan::<Stack>(recording)?;
        all.scan::<Listener>(recording)?;
        all.scan::<Event>(recording)?;
        all.scan::<Socket>(recording)?;
        all.scan::<Thread>(recording)?;
        all.scan::<ThreadSleep>(recording)?;
        all.scan::<Wait>(recording)?;
        all.scan::<Request>(recording)?;
        all.scan::<RequestTime>(recording)?;
        all.scan::<Exchange>(recording)?;
        all.scan::<Sample>(recording)?;
        all.scan::<Resource>(recording)?;
        all.scan::<Health>(recording)?;
        if length > 0 {
            all.frame(manifest.end_ns.saturating_sub(1));
        }
        all.frames.iter_mut().for_each(Frame::settle);
        all.whole = all.frames.len() as u64;
        Ok(all)
    }

    fn new(manifest: &Manifest, filter: Filter, step_ns: u64, most: usize) -> Timeline {
        Timeline {
            start_ns: manifest.start_ns,
            step_ns,
            frames: VecDeque::new(),
            first: 0,
            whole: 0,
            settled: 0,
            most,
            live: false,
            filter,
            owners: Owners::default(),
            stacks: Stacks::default(),
            before: AHashMap::new(),
            seen_since: AHashMap::new(),
            connecting: Connecting::default(),
            links: LinkCounters::default(),
            health: HealthNotes::default(),
            own: BTreeSet::new(),
            has: BTreeMap::new(),
        }
    }

    /// Adds a segment of a live recording.
    pub fn add(&mut self, segment: &Segment) -> Result<(), Error> {
        match segment.table() {
            "event" => self.segment::<Event>(segment),
            "socket" => self.segment::<Socket>(segment),
            "listener" => self.segment::<Listener>(segment),
            "holder" => self.segment::<Holder>(segment),
            "process" => self.segment::<Process>(segment),
            "thread" => self.segment::<Thread>(segment),
            "thread_sleep" => self.segment::<ThreadSleep>(segment),
            "wait" => self.segment::<Wait>(segment),
            "request" => self.segment::<Request>(segment),
            "request_time" => self.segment::<RequestTime>(segment),
            "exchange" => self.segment::<Exchange>(segment),
            "resource" => self.segment::<Resource>(segment),
            "sample" => self.segment::<Sample>(segment),
            "stack" => self.segment::<Stack>(segment),
            "frame" => self.segment::<CodeFrame>(segment),
            "health" => self.segment::<Health>(segment),
            _ => Ok(()),
        }
    }

    /// Every row until `now_ns` has come; seconds without rows are seconds, too. Returns whether a second has become
    /// whole.
    pub fn reach(&mut self, now_ns: u64) -> bool {
        let whole = now_ns.saturating_sub(self.start_ns) / self.step_ns;
        if whole <= self.whole {
            return false;
        }
        self.frame(now_ns);
        self.whole = whole.min(self.first + self.frames.len() as u64);
        // Sockets that were not sampled for a while are forgotten.
        if self.before.len() + self.seen_since.len() > MAX_SOCKETS {
            self.before = std::mem::take(&mut self.seen_since);
        }
        self.connecting.forget_before(self.span().0);
        // Nothing more is expected of what is two seconds old.
        while self.settled + 2 < self.whole {
            if let Some(i) = self.settled.checked_sub(self.first)
                && let Some(frame) = self.frames.get_mut(i as usize)
            {
                frame.settle();
            }
            self.settled += 1;
        }
        true
    }

    /// How many of the frames that are kept are whole.
    pub(super) fn whole(&self) -> usize {
        let whole = self.whole.saturating_sub(self.first) as usize;
        whole.min(self.frames.len())
    }

    /// Whether connections have been in trouble in these seconds, which is worth explaining soon.
    pub fn is_in_trouble(&self) -> bool {
        let whole = self.whole();
        let last = self.frames.range(whole.saturating_sub(LAST)..whole);
        last.into_iter().any(|f| {
            let counted = |m: Activity| f.counts[m as usize] > 0;
            TROUBLES.iter().any(|m| counted(*m))
                || f.listeners
                    .iter()
                    .any(|l| AcceptQueue::of(&l.row).is_full())
        })
    }

    /// The time that it covers, ns of CLOCK_MONOTONIC: when it begins and when it ends.
    pub fn span(&self) -> (u64, u64) {
        let at = |frame: u64| {
            self.start_ns
                .saturating_add(frame.saturating_mul(self.step_ns))
        };
        (at(self.first), at(self.first + self.whole() as u64))
    }

    /// Length of its frames, ns: how far the time cursor moves at once.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// What the recorder said of itself.
    pub fn health(&self) -> &HealthNotes {
        &self.health
    }

    /// The frame of a time; rows of before the first kept frame find none.
    fn frame(&mut self, time_ns: u64) -> Option<&mut Frame> {
        let number = time_ns.saturating_sub(self.start_ns) / self.step_ns;
        // Rows may claim any time. Those after a recording's end count for its last second; live,
        // time leaps no farther than what is kept.
        let most = self.most as u64;
        let end = self.first + self.frames.len() as u64;
        let number = number.min(if self.live { end + most - 1 } else { most - 1 });
        while number >= self.first + self.frames.len() as u64 {
            if self.frames.len() >= self.most {
                self.frames.pop_front();
                self.first += 1;
            }
            self.frames.push_back(Frame::default());
        }
        let at = number.checked_sub(self.first)?;
        self.frames.get_mut(at as usize)
    }

    fn segment<T: Take>(&mut self, segment: &Segment) -> Result<(), Error> {
        let Some(batch) = segment.rows::<T>() else {
            return Ok(());
        };
        let batch = batch?;
        *self.has.entry(T::INFO.name).or_default() += batch.len() as u64;
        batch.rows().for_each(|(_, row)| row.take(self));
        Ok(())
    }

    fn scan<T: Take>(&mut self, recording: &Recording) -> Result<(), Error> {
        for batch in recording.scan::<T>()? {
            let batch = batch?;
            *self.has.entry(T::INFO.name).or_default() += batch.len() as u64;
            batch.rows().for_each(|(_, row)| row.take(self));
        }
        Ok(())
    }

    /// Whether an event is asked for; `e` is not a whole life.
    fn asks_for(&self, e: &Event) -> bool {
        let f = &self.filter;
        f.netns_ok(e.netns)
            && f.ports_ok(e.local_port, e.remote_port)
            && f.addrs_ok(e.local_addr, e.remote_addr)
            && (!f.asks_for_tasks() || self.owners.of_event(e).passes(f))
    }

    /// Whether the requests of a service are asked for: for a server, also by its listener's owner.
    fn asks_for_requests(&self, netns: u32, role: &Role, addr: Addr, port: u16) -> bool {
        let f = &self.filter;
        let owner = || match role {
            Role::Server => self.owners.of_listener(netns, addr, port),
            _ => None,
        };
        f.netns_ok(netns)
            && f.ports_ok(port, port)
            && f.addrs_ok(addr, addr)
            && (!f.asks_for_tasks() || owner().unwrap_or_default().passes(f))
    }

    fn count(&mut self, time_ns: u64, activity: Activity, why: Option<&Text>) {
        if let Some(frame) = self.frame(time_ns) {
            frame.count(activity, why);
        }
    }

    /// A connect has ended, well or not.
    fn connect_ended(&mut self, began_ns: u64, ended_ns: u64) {
        let frame = |ns: u64| ns.saturating_sub(self.start_ns) / self.step_ns;
        if frame(began_ns) < frame(ended_ns) {
            self.connecting.lasted(began_ns, ended_ns);
        }
    }

    fn connected(&mut self, time_ns: u64, took_ns: u64) {
        self.connect_ended(time_ns.saturating_sub(took_ns), time_ns);
        if let Some(frame) = self.frame(time_ns) {
            frame.connects.add(took_ns);
        }
    }

    fn accepted(&mut self, e: &Event, time_ns: u64) {
        self.count(time_ns, Activity::Accepted, None);
        let place = self
            .owners
            .listening_place(e.netns, e.local_addr, e.local_port);
        if let (Some(place), Some(frame)) = (place, self.frame(time_ns)) {
            frame.accept(place);
        }
    }

    /// A connection that opened and ended, in one row.
    fn life(&mut self, e: &Event, established_ns: u64) {
        match e.connect_ns {
            Some(connect_ns) => {
                self.count(connect_ns, Activity::Opened, None);
                let took_ns = established_ns.saturating_sub(connect_ns);
                self.connected(established_ns, took_ns);
                if let Some(frame) = self.frame(established_ns) {
                    // A life has no retransmissions.
                    let to = Endpoint::new(e.remote_addr, e.remote_port);
                    frame.round_trips.handshake(e.netns, to, took_ns);
                }
            }
            None => self.accepted(e, established_ns),
        }
        self.count(e.time_ns, Activity::Closed, None);
    }

    /// One step of a connection.
    fn step(&mut self, e: &Event) {
        let Some(activity) = Activity::of(e) else {
            return;
        };
        let now = e.time_ns;
        match activity {
            Activity::Opened => {
                self.count(now, Activity::Opened, None);
                if let Some(sock) = e.sock {
                    self.connecting.begin(sock, now);
                }
            }
            Activity::Connected => {
                if let Some(began) = e.sock.and_then(|s| self.connecting.end(s)) {
                    self.connected(now, now.saturating_sub(began));
                }
            }
            Activity::Failed => {
                if let Some(began) = e.sock.and_then(|s| self.connecting.end(s)) {
                    self.connect_ended(began, now);
                }
                self.count(now, Activity::Failed, None);
            }
            Activity::Accepted => self.accepted(e, now),
            Activity::SynRetransmitted | Activity::Retransmitted => {
                let kind = e.retransmit_kind.as_ref().map(Word::text);
                self.count(now, activity, kind);
            }
            Activity::ResetSent | Activity::ResetReceived | Activity::Dropped => {
                self.count(now, activity, e.reason.as_ref());
            }
            Activity::Closed | Activity::SynAckRetransmitted => self.count(now, activity, None),
        }
    }
}

/// A row that finds its place.
trait Take: Table {
    fn take(self, to: &mut Timeline);
}

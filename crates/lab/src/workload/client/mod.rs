//! The client: opens connections at the pace it was told, and gives them their turns.

mod conn;
mod tally;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::args::{ClientArgs, PortRange};
use super::poller::{Interest, Poller};
use super::report::{ClientReport, errno_name};
use super::socket::{CHUNK, connecting, reset_on_close};
use crate::{Error, Stop};
use conn::{Conn, Plan, Step};
use tally::Tally;

/// How often the flag that ends the client is looked at.
const TICK: Duration = Duration::from_millis(50);
/// Pause after a connection that failed at once: without it a refusal is a busy loop.
const BACK_OFF: Duration = Duration::from_millis(1);
/// Connections opened in a row before the others are served.
const OPEN_BATCH: usize = 64;

struct Client<'a> {
    args: &'a ClientArgs,
    plan: Plan,
    poller: Poller,
    conns: HashMap<RawFd, Conn>,
    /// Kept connections without a request.
    idle: Vec<RawFd>,
    /// Kept connections that pause: until when, descriptor, number of the connection.
    paused: VecDeque<(Instant, RawFd, u64)>,
    /// Kept connections with one.
    active: u64,
    /// When connects give up: time, descriptor, number of the connection.
    timeouts: VecDeque<(Instant, RawFd, u64)>,
    opened: u64,
    open_at: Instant,
    start: Instant,
    /// Nothing new after this.
    end: Instant,
    ending: bool,
    rng: Pcg64Mcg,
    scratch: Vec<u8>,
    tally: Tally,
}

/// Runs until the connections or the time are spent, or the flag is set.
pub(super) fn run(args: &ClientArgs, stop: &Stop) -> Result<ClientReport, Error> {
    std::thread::sleep(until(args.start_ns) + ms(args.after_ms));
    let start = Instant::now();
    let mut client = Client {
        args,
        plan: Plan::of(args),
        poller: Poller::new()?,
        conns: HashMap::new(),
        idle: Vec::new(),
        paused: VecDeque::new(),
        active: 0,
        timeouts: VecDeque::new(),
        opened: 0,
        open_at: start,
        start,
        end: start + Duration::from_secs_f64(args.seconds),
        ending: false,
        rng: Pcg64Mcg::seed_from_u64(args.common.seed),
        scratch: vec![0; CHUNK],
        tally: Tally::default(),
    };
    loop {
        if stop.is_set() {
            client.end = client.end.min(Instant::now());
        }
        let now = Instant::now();
        let last = client.end + Duration::from_secs_f64(args.grace);
        if now >= last || (client.is_spent(now) && client.conns.is_empty()) {
            break;
        }
        client.turn(now)?;
    }
    for conn in client.conns.values() {
        client.tally.give_up(conn.past());
    }
    Ok(client.tally.report(args.common.name.clone(), client.start))
}

impl Client<'_> {
    /// Nothing new is to be opened.
    fn is_spent(&self, now: Instant) -> bool {
        now >= self.end || self.opened >= self.args.connections
    }

    /// Whether another connection may be opened, were it time.
    fn has_room(&self, now: Instant) -> bool {
        !self.is_spent(now) && (self.conns.len() as u64) < self.args.concurrency
    }

    /// Opens what is due, waits once, serves what is ready.
    fn turn(&mut self, now: Instant) -> Result<(), Error> {
        for _ in 0..OPEN_BATCH {
            if !self.has_room(now) || self.open_at > now {
                break;
            }
            self.open(now);
        }
        self.expire(now);
        if now >= self.end && !self.ending {
            self.ending = true;
            self.end_kept();
        }
        self.resume(now);
        self.give_turns(now);
        for fd in self.poller.wait(self.patience(now))? {
            self.serve(fd);
        }
        Ok(())
    }

    /// How long may be waited for events before something else is due.
    fn patience(&self, now: Instant) -> Duration {
        let mut until = now + TICK;
        if self.has_room(now) {
            until = until.min(self.open_at);
        }
        if let Some((timeout, ..)) = self.timeouts.front() {
            until = until.min(*timeout);
        }
        if now < self.end {
            until = until.min(self.end);
        }
        until.saturating_duration_since(now)
    }

    fn open(&mut self, now: Instant) {
        let congestion = &self.args.common.congestion;
        let congestion = congestion.get(self.opened as usize % congestion.len().max(1));
        let to = self.args.connect[self.opened as usize % self.args.connect.len()];
        let made = connecting(&to, self.local(&to), congestion, !self.args.nagle);
        self.opened += 1;
        self.tally.started(now);
        if let Some(rate) = self.args.rate {
            // From the time it was due, not from now: a late client catches up.
            self.open_at += Duration::from_secs_f64(1.0 / rate);
        }
        let made = made.and_then(|fd| {
            if self.args.linger_zero {
                reset_on_close(&fd).map(|()| fd)
            } else {
                Ok(fd)
            }
        });
        let added = made.and_then(|fd| self.poller.add(&fd, Interest::Write).map(|()| fd));
        match added {
            Ok(fd) => {
                let raw = fd.as_raw_fd();
                let timeout = now + ms(self.args.connect_timeout_ms);
                self.timeouts.push_back((timeout, raw, self.opened));
                self.conns.insert(raw, Conn::new(fd, self.opened, now));
            }
            Err(e) => {
                self.tally.connect_failed(now, errno_name(e));
                self.open_at = self.open_at.max(now + BACK_OFF);
            }
        }
    }

    /// The address to bind, when one was asked for; ports in turn.
    fn local(&self, to: &SocketAddr) -> Option<SocketAddr> {
        let unspecified = match to {
            SocketAddr::V4(_) => [0, 0, 0, 0].into(),
            SocketAddr::V6(_) => [0u16; 8].into(),
        };
        let port = self.args.local_ports.map(|PortRange { first, last }| {
            first + (self.opened % (u64::from(last - first) + 1)) as u16
        });
        (self.args.local.is_some() || port.is_some())
            .then(|| SocketAddr::new(self.args.local.unwrap_or(unspecified), port.unwrap_or(0)))
    }

    /// Gives up connects that took too long.
    fn expire(&mut self, now: Instant) {
        while let Some(&(at, fd, number)) = self.timeouts.front() {
            if at > now {
                break;
            }
            self.timeouts.pop_front();
            let still = self.conns.get(&fd);
            let is_late = |c: &&Conn| c.number == number && c.is_connecting();
            if let Some(began) = still.filter(is_late).map(Conn::began) {
                self.conns.remove(&fd);
                self.tally.connect_failed(began, "timeout");
            }
        }
    }

    /// Pauses that are over.
    fn resume(&mut self, now: Instant) {
        while let Some(&(until, fd, number)) = self.paused.front() {
            if until > now {
                break;
            }
            self.paused.pop_front();
            if self.conns.get(&fd).is_some_and(|c| c.number == number) {
                self.idle.push(fd);
            }
        }
    }

    /// The time is over: transfers end, and connections that wait for a turn close.
    fn end_kept(&mut self) {
        let paused = std::mem::take(&mut self.paused);
        let idle = std::mem::take(&mut self.idle).into_iter();
        for fd in idle.chain(paused.into_iter().map(|(_, fd, _)| fd)) {
            if let Some(conn) = self.conns.remove(&fd) {
                self.tally.ended(conn.past());
            }
        }
        for conn in self.conns.values_mut() {
            conn.end_transfer();
        }
    }

    /// Lets kept connections begin a request, as many as may at one time.
    fn give_turns(&mut self, now: Instant) {
        let most = self.args.active.unwrap_or(u64::MAX);
        while self.active < most && !self.idle.is_empty() && !self.ending {
            let fd = self
                .idle
                .swap_remove(self.rng.random_range(0..self.idle.len()));
            if let Some(conn) = self.conns.get_mut(&fd) {
                conn.begin(now);
                self.active += 1;
                self.serve(fd);
            }
        }
    }

    /// Does what a connection can do now, and what follows from it.
    fn serve(&mut self, fd: RawFd) {
        let Some(conn) = self.conns.get_mut(&fd) else {
            return;
        };
        let had_turn = self.args.keep && conn.has_request();
        let step = conn.advance(&self.plan, &mut self.scratch, &mut self.tally);
        if had_turn && !(matches!(step, Step::Wait(_)) && conn.has_request()) {
            self.active -= 1;
        }
        let interest = match step {
            Step::Wait(interest) => interest,
            Step::Idle if !self.ending && self.args.pause_ms > 0.0 && had_turn => {
                let until = Instant::now() + ms(self.args.pause_ms);
                self.paused.push_back((until, fd, conn.number));
                Interest::Nothing
            }
            // Its peer may close it while it waits for a turn.
            Step::Idle if !self.ending => {
                self.idle.push(fd);
                Interest::Read
            }
            Step::Idle => {
                self.tally.ended(conn.past());
                self.conns.remove(&fd);
                return;
            }
            Step::Close => {
                self.idle.retain(|idle| *idle != fd);
                self.conns.remove(&fd);
                return;
            }
        };
        // Cannot fail for a descriptor that is watched.
        if conn.interest != interest && self.poller.change(&conn.fd, interest).is_ok() {
            conn.interest = interest;
        }
    }
}

/// From now to a moment of CLOCK_MONOTONIC, ns; none when it has passed or there is none.
fn until(start_ns: Option<u64>) -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    Duration::from_nanos(start_ns.unwrap_or(0).saturating_sub(now_ns))
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}

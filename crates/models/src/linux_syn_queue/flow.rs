//! One direction of a data socket: messages asked of it, windows of segments, losses and their repair.
//!
//! A window is sent, and its last segment is acknowledged a round trip later: one event per round
//! trip. After a loss the data behind the hole wait; nothing new is sent until the hole is filled,
//! and what is retransmitted is not lost a second time.

use std::collections::VecDeque;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::mesh::Mesh;
use super::params::{MS, Params, S};
use super::window::Window;

/// The retransmission timer (TCP_RTO_MIN), ns: round trips are far below it.
const TIMEOUT_NS: u64 = 200 * MS;
/// A tail loss probe comes after so many round trips; it needs SACK.
const PROBE_ROUNDS: u64 = 2;
/// Duplicate ACKs that tell of a loss.
const DUPLICATES: u64 = 3;

/// A sender and what it has done.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) socket: usize,
    pub(super) link: usize,
    /// The sender is the node that connected.
    pub(super) from_opener: bool,
    /// Its socket lost options to a cookie.
    pub(super) lost: bool,
    pub(super) sack: bool,
    /// Bytes of data in a full segment.
    pub(super) payload: u32,
    /// The window that the receiver offers, bytes.
    pub(super) offered: u32,
    pub(super) window: Window,
    /// Messages that are not acknowledged: when each was asked for, and the bytes left of it.
    messages: VecDeque<(u64, u64)>,
    stage: Stage,
    /// When the stage began, ns.
    since_ns: u64,
    /// Segments until the next loss.
    until_loss: u64,
    pub(super) done: Done,
}

/// What a sender has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Done {
    pub(super) acked: u64,
    /// Bytes and segments sent, with what was retransmitted.
    pub(super) bytes: u64,
    pub(super) segments: u64,
    pub(super) resent: u64,
    busy_ns: u64,
    limited_ns: u64,
    pub(super) most_window: u64,
    pub(super) messages: u64,
    /// Sum of the times from asking for a message to its acknowledgment, ns.
    pub(super) latency_ns: u64,
    /// Messages that were not made as too many were waiting.
    pub(super) refused: u64,
    /// How often losses were noticed, by what.
    pub(super) fast: u64,
    pub(super) timeouts: u64,
    pub(super) probes: u64,
    /// Segments that the last window without loss delivered, and how long that took, ns.
    pub(super) last_round: (u64, u64),
}

/// How a loss is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Duplicate ACKs.
    Fast,
    /// A tail loss probe.
    Probe,
    /// The timer.
    Timeout,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Idle,
    /// A window is on its way; whether the receiver's offer made it smaller.
    Data {
        bytes: u64,
        limited: bool,
    },
    /// Nobody has noticed the loss yet.
    Silent(How, Holes),
    /// A lost segment, with SACK all of them, is retransmitted.
    Repair(How, Holes),
}

/// Lost segments, and the bytes that are not acknowledged until they have come.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Holes {
    segments: u64,
    bytes: u64,
}

/// What a sender does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Next {
    /// Until when, ns.
    pub(super) ends_ns: u64,
    /// Segments that it retransmits now.
    pub(super) resends: Option<(How, u64)>,
}

impl Flow {
    pub(super) fn new(
        p: &Params,
        mesh: &Mesh,
        link: usize,
        socket: usize,
        from_opener: bool,
        rng: &mut Pcg64Mcg,
    ) -> Flow {
        let agreed = mesh.sockets[socket].agreed;
        // The listener's side has to go by what the cookie says of the opener's segment size.
        let mss = if from_opener {
            p.announced_mss()
        } else {
            agreed.client_mss
        };
        Flow {
            socket,
            link,
            from_opener,
            lost: mesh.lost(p, socket),
            sack: agreed.sack,
            payload: p.payload(mss),
            offered: p.window(agreed.window_scaling),
            window: Window::new(),
            messages: VecDeque::new(),
            stage: Stage::Idle,
            since_ns: 0,
            until_loss: gap(p, rng),
            done: Done {
                most_window: Window::new().segments(),
                ..Done::default()
            },
        }
    }

    /// A message is asked for; false when too many are waiting.
    pub(super) fn ask(&mut self, p: &Params, now_ns: u64) -> bool {
        if self.messages.len() as u32 >= p.outstanding {
            self.done.refused += 1;
            return false;
        }
        self.messages.push_back((now_ns, p.message_bytes()));
        true
    }

    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// What it was doing is over, or there is something to do: the next thing, if any.
    pub(super) fn next(&mut self, p: &Params, now_ns: u64, rng: &mut Pcg64Mcg) -> Option<Next> {
        let took_ns = now_ns - self.since_ns;
        if !self.is_idle() {
            self.done.busy_ns += took_ns;
        }
        self.since_ns = now_ns;
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {}
            Stage::Data { bytes, limited } => {
                self.done.limited_ns += if limited { took_ns } else { 0 };
                if let Some((how, holes)) = self.arrived(p, now_ns, took_ns, bytes, rng) {
                    return Some(self.notice(p, now_ns, how, holes));
                }
            }
            Stage::Silent(how, holes) => return Some(self.react(p, now_ns, how, holes)),
            Stage::Repair(how, holes) => match holes.segments {
                0 => self.acknowledge(now_ns, holes.bytes),
                _ => return Some(self.repair(p, now_ns, how, holes)),
            },
        }
        self.send(p, now_ns)
    }

    /// Sends a window, if there is something to send.
    fn send(&mut self, p: &Params, now_ns: u64) -> Option<Next> {
        let waiting = self.waiting();
        if waiting == 0 {
            return None;
        }
        let window = self.window.segments() * u64::from(self.payload);
        let offered = u64::from(self.offered);
        let bytes = waiting.min(window).min(offered);
        let limited = offered < window && offered < waiting;
        self.stage = Stage::Data { bytes, limited };
        self.done.bytes += bytes;
        self.done.segments += self.segments(bytes);
        Some(Next {
            ends_ns: now_ns + p.round_ns(bytes),
            resends: None,
        })
    }

    /// The last segment of a window would be acknowledged now: the loss among them, if any.
    fn arrived(
        &mut self,
        p: &Params,
        now_ns: u64,
        took_ns: u64,
        bytes: u64,
        rng: &mut Pcg64Mcg,
    ) -> Option<(How, Holes)> {
        let sent = self.segments(bytes);
        if self.until_loss >= sent {
            self.until_loss -= sent;
            self.acknowledge(now_ns, bytes);
            self.window
                .acknowledged(now_ns as f64 / S as f64, took_ns as f64 / S as f64, sent);
            self.done.most_window = self.done.most_window.max(self.window.segments());
            self.done.last_round = (sent, took_ns);
            return None;
        }
        let first = self.until_loss;
        let mut lost = 0;
        while self.until_loss < sent {
            let burst = u64::from(p.loss_burst).min(sent - self.until_loss);
            lost += burst;
            self.until_loss += burst + gap(p, rng);
        }
        self.until_loss -= sent;
        let before = first * u64::from(self.payload);
        self.acknowledge(now_ns, before);
        let holes = Holes {
            segments: lost,
            bytes: bytes - before,
        };
        let duplicates = sent - first - lost;
        let how = match (duplicates >= DUPLICATES, self.sack) {
            (true, _) => How::Fast,
            (false, true) => How::Probe,
            (false, false) => How::Timeout,
        };
        Some((how, holes))
    }

    fn notice(&mut self, p: &Params, now_ns: u64, how: How, holes: Holes) -> Next {
        let after_ns = match how {
            How::Fast => return self.react(p, now_ns, how, holes),
            How::Probe => PROBE_ROUNDS * p.rtt_ns(),
            How::Timeout => TIMEOUT_NS,
        };
        self.stage = Stage::Silent(how, holes);
        Next {
            ends_ns: now_ns + after_ns,
            resends: None,
        }
    }

    /// The loss is known: the window is made smaller.
    fn react(&mut self, p: &Params, now_ns: u64, how: How, holes: Holes) -> Next {
        let count = match how {
            How::Fast => &mut self.done.fast,
            How::Probe => &mut self.done.probes,
            How::Timeout => &mut self.done.timeouts,
        };
        *count += 1;
        match how {
            How::Fast | How::Probe => self.window.cut(),
            How::Timeout => self.window.timeout(),
        }
        self.repair(p, now_ns, how, holes)
    }

    /// Retransmits lost segments: with SACK all at once, without one per round trip.
    fn repair(&mut self, p: &Params, now_ns: u64, how: How, holes: Holes) -> Next {
        let now = match (self.sack, how) {
            (false, How::Fast) => 1,
            _ => holes.segments,
        };
        let again = now * u64::from(self.payload);
        self.done.resent += now;
        self.done.segments += now;
        self.done.bytes += again;
        let left = Holes {
            segments: holes.segments - now,
            ..holes
        };
        self.stage = Stage::Repair(how, left);
        Next {
            ends_ns: now_ns + p.round_ns(again),
            resends: Some((how, now)),
        }
    }

    fn acknowledge(&mut self, now_ns: u64, bytes: u64) {
        self.done.acked += bytes;
        let mut bytes = bytes;
        while let Some((asked_ns, left)) = self.messages.front_mut() {
            let of_it = bytes.min(*left);
            *left -= of_it;
            bytes -= of_it;
            if *left > 0 {
                return;
            }
            self.done.messages += 1;
            self.done.latency_ns += now_ns - *asked_ns;
            self.messages.pop_front();
        }
    }

    fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.payload))
    }

    /// Bytes that are not acknowledged.
    pub(super) fn waiting(&self) -> u64 {
        self.messages.iter().map(|(_, left)| left).sum()
    }

    /// Bytes in flight and not acknowledged.
    pub(super) fn flying(&self) -> u64 {
        match self.stage {
            Stage::Idle => 0,
            Stage::Data { bytes, .. } => bytes,
            Stage::Silent(_, holes) | Stage::Repair(_, holes) => holes.bytes,
        }
    }

    pub(super) fn flying_segments(&self) -> u64 {
        self.segments(self.flying())
    }

    /// Time with something in flight, and the part of it in which the receiver's window held the
    /// sender, ns.
    pub(super) fn busy_ns(&self, now_ns: u64) -> (u64, u64) {
        let running = now_ns.saturating_sub(self.since_ns);
        let (busy, limited) = match self.stage {
            Stage::Idle => (0, 0),
            Stage::Data { limited: true, .. } => (running, running),
            _ => (running, 0),
        };
        (self.done.busy_ns + busy, self.done.limited_ns + limited)
    }

    /// Its congestion state, as Linux names it.
    pub(super) fn state(&self) -> &'static str {
        match self.stage {
            Stage::Idle | Stage::Data { .. } => "Open",
            Stage::Repair(How::Fast, _) => "Recovery",
            Stage::Repair(How::Timeout, _) => "Loss",
            // A probe goes out while the sender thinks that nothing is lost.
            Stage::Silent(..) | Stage::Repair(How::Probe, _) => "Open",
        }
    }
}

/// Segments that come before the next loss.
fn gap(p: &Params, rng: &mut Pcg64Mcg) -> u64 {
    if p.loss <= 0.0 {
        return u64::MAX / 2;
    }
    let share: f64 = rng.random();
    ((1.0 - share).ln() / (1.0 - p.loss).ln()) as u64
}

//! One connection of the client: what it does next, from connect to close.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{Shutdown, shutdown};

use super::tally::{Past, Tally, Unfinished};
use crate::workload::args::{ClientArgs, Closer, Stream};
use crate::workload::poller::Interest;
use crate::workload::report::errno_name;
use crate::workload::socket::{Moved, read_some, write_some};
use crate::workload::speaks::{Answer, Speaks};
use crate::workload::wire::{ENDLESS, HEADER, Header, spend};

/// Chunks moved on one connection before the others are served.
const MOVES: usize = 4;

/// What every connection of a client does.
pub(super) struct Plan {
    /// What a request begins with; whatever follows it means nothing.
    text: Vec<u8>,
    /// Bytes of a request.
    request: u64,
    /// Bytes of a response, unless it says itself how long it is.
    response: u64,
    server_closes: bool,
    /// The protocol of another program.
    speaks: Option<Speaks>,
    /// What that wants to hear first.
    opening: Option<Vec<u8>>,
    keep: bool,
    two_writes: bool,
}

impl Plan {
    pub(super) fn of(args: &ClientArgs) -> Plan {
        let (request, response) = match args.stream {
            None => (args.request.max(HEADER as u64), args.response),
            Some(Stream::Up) => (ENDLESS, 0),
            Some(Stream::Down) => (HEADER as u64, ENDLESS),
        };
        let server_closes = args.closes == Closer::Server && !args.keep;
        let header = Header {
            request,
            response,
            server_closes,
        };
        let said = args.speaks.zip(args.says.as_deref());
        let text = match said {
            Some((speaks, says)) => speaks.request(says),
            None => header.to_bytes().to_vec(),
        };
        Plan {
            request: said.map_or(request, |_| text.len() as u64),
            response,
            text,
            server_closes,
            speaks: args.speaks,
            opening: args.speaks.and_then(Speaks::opening),
            keep: args.keep && args.stream.is_none(),
            two_writes: args.two_writes,
        }
    }
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    /// Kept, without a request.
    Idle,
    Sending,
    Receiving,
    /// Has nothing to send any more; the peer closes.
    Ending,
}

/// What a connection needs next.
pub(super) enum Step {
    /// An event.
    Wait(Interest),
    /// Its turn for a request.
    Idle,
    /// Nothing: it is over.
    Close,
}

pub(super) struct Conn {
    pub(super) fd: OwnedFd,
    /// Tells it from another that had the same descriptor.
    pub(super) number: u64,
    /// What it is watched for.
    pub(super) interest: Interest,
    state: State,
    opened: Instant,
    /// When the request, or the endless transfer, began.
    began: Instant,
    /// Time spent on finished requests.
    busy: Duration,
    answered: u64,
    /// The other program has heard what it wants to hear first.
    is_open: bool,
    /// What it answers, as far as it has come.
    answer: Option<Answer>,
    /// Bytes of the request sent.
    sent: u64,
    /// Bytes still to send, and to receive.
    to_send: u64,
    to_receive: u64,
    /// Bytes of all requests and responses.
    bytes: u64,
}

impl Conn {
    pub(super) fn new(fd: OwnedFd, number: u64, now: Instant) -> Conn {
        Conn {
            fd,
            number,
            interest: Interest::Write,
            state: State::Connecting,
            opened: now,
            began: now,
            busy: Duration::ZERO,
            answered: 0,
            is_open: false,
            answer: None,
            sent: 0,
            to_send: 0,
            to_receive: 0,
            bytes: 0,
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.state == State::Connecting
    }

    /// Whether a request or transfer is under way.
    pub(super) fn has_request(&self) -> bool {
        matches!(self.state, State::Sending | State::Receiving)
    }

    /// When the connect began or, once it stands, the request or transfer.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Whether it carries an endless transfer.
    fn is_endless(&self) -> bool {
        self.to_send.max(self.to_receive) > ENDLESS / 2
    }

    /// What it came to so far.
    pub(super) fn past(&self) -> Past {
        let unfinished = match self.state {
            State::Connecting => Some(Unfinished::Connect),
            State::Sending | State::Receiving if self.is_endless() => Some(Unfinished::Transfer),
            State::Sending | State::Receiving => Some(Unfinished::Request),
            State::Idle | State::Ending => None,
        };
        let ran = self.began.elapsed();
        Past {
            rate_mbit: self.rate_mbit(),
            streaming: if self.is_endless() {
                ran
            } else {
                Duration::ZERO
            },
            unfinished: unfinished.map(|unfinished| (unfinished, ran)),
        }
    }

    /// Begins a request.
    pub(super) fn begin(&mut self, now: Instant) {
        self.state = State::Sending;
        self.began = now;
        self.sent = 0;
    }

    /// Ends an endless transfer; a request is let finish.
    pub(super) fn end_transfer(&mut self) {
        if self.has_request() && self.is_endless() {
            // The peer sees the end, and closes; fails only if it has closed already.
            let _ = shutdown(&self.fd, Shutdown::Write);
            self.state = State::Ending;
        }
    }

    /// Megabits per second while it had something to do, if it moved enough to say.
    fn rate_mbit(&self) -> Option<f32> {
        const ENOUGH: u64 = 100_000;
        let running = match self.state {
            State::Sending | State::Receiving | State::Ending => self.began.elapsed(),
            _ => Duration::ZERO,
        };
        let seconds = (self.busy + running).as_secs_f64();
        (self.bytes >= ENOUGH && seconds > 0.0)
            .then(|| (self.bytes as f64 * 8.0 / 1e6 / seconds) as f32)
    }

    /// Does what can be done now.
    pub(super) fn advance(&mut self, plan: &Plan, scratch: &mut [u8], tally: &mut Tally) -> Step {
        let mut moves = 0;
        loop {
            moves += 1;
            if moves > MOVES {
                break;
            }
            let moved = match self.state {
                State::Connecting => match self.connected(plan, tally) {
                    Ok(true) => continue,
                    Ok(false) => return Step::Idle,
                    Err(reason) => {
                        tally.connect_failed(self.opened, reason);
                        return Step::Close;
                    }
                },
                State::Sending => self.send(plan, scratch, tally),
                State::Receiving | State::Ending | State::Idle => self.receive(scratch, tally),
            };
            match moved {
                Moved::Bytes(_) if self.state == State::Receiving && self.to_receive == 0 => {
                    if let Some(step) = self.answered(plan, tally) {
                        return step;
                    }
                }
                Moved::Bytes(_) => {}
                Moved::Blocked => break,
                Moved::End => return self.over(None, tally),
                Moved::Failed(e) => return self.over(Some(e), tally),
            }
        }
        Step::Wait(if self.state == State::Sending {
            Interest::Write
        } else {
            Interest::Read
        })
    }

    /// The connection stands, or not. Gives whether it has something to do at once.
    fn connected(&mut self, plan: &Plan, tally: &mut Tally) -> Result<bool, String> {
        match socket_error(&self.fd) {
            Ok(Ok(())) => {}
            Ok(Err(e)) | Err(e) => return Err(errno_name(e)),
        }
        tally.connected(self.opened.elapsed());
        if plan.keep {
            self.state = State::Idle;
            return Ok(false);
        }
        self.begin(Instant::now());
        Ok(true)
    }

    fn send(&mut self, plan: &Plan, scratch: &mut [u8], tally: &mut Tally) -> Moved {
        let opening = plan.opening.as_ref().filter(|_| !self.is_open);
        let text = opening.unwrap_or(&plan.text);
        if self.sent == 0 {
            self.to_send = opening.map_or(plan.request, |o| o.len() as u64);
            // Of an answer that says how long it is, one byte is always to come until it is complete.
            self.to_receive = plan.speaks.map_or(plan.response, |_| 1);
            self.answer = plan.speaks.map(|speaks| Answer::to(speaks, text));
            scratch[..text.len()].copy_from_slice(text);
        }
        let most = scratch
            .len()
            .min(usize::try_from(self.to_send).unwrap_or(usize::MAX));
        let bytes = match usize::try_from(self.sent) {
            // So small a first write is rare, but a full send buffer may take part of a header.
            Ok(sent) if (1..text.len()).contains(&sent) => &text[sent..],
            Ok(0) if plan.two_writes => &text[..],
            _ => &scratch[..most],
        };
        let moved = write_some(&self.fd, bytes);
        if let Moved::Bytes(n) = moved {
            self.sent += n as u64;
            self.bytes += n as u64;
            tally.bytes_sent += n as u64;
            spend(&mut self.to_send, n);
            if self.to_send == 0 {
                self.state = State::Receiving;
                if self.to_receive == 0 {
                    // Nothing to wait for: as if the last byte had come.
                    return Moved::Bytes(0);
                }
            }
        }
        moved
    }

    fn receive(&mut self, scratch: &mut [u8], tally: &mut Tally) -> Moved {
        let most = match self.state {
            State::Receiving if self.answer.is_none() => scratch
                .len()
                .min(usize::try_from(self.to_receive).unwrap_or(usize::MAX)),
            _ => scratch.len(),
        };
        let moved = read_some(&self.fd, &mut scratch[..most]);
        if let Moved::Bytes(n) = moved {
            self.bytes += n as u64;
            tally.bytes_received += n as u64;
            match (&mut self.answer, self.state) {
                (Some(answer), State::Receiving) => {
                    self.to_receive = u64::from(!answer.take(&scratch[..n]));
                }
                (None, State::Receiving) => spend(&mut self.to_receive, n),
                _ => {}
            }
        }
        moved
    }

    /// The response is complete. Gives what follows, unless the server has yet to close.
    fn answered(&mut self, plan: &Plan, tally: &mut Tally) -> Option<Step> {
        let took = self.began.elapsed();
        self.busy += took;
        let answer = self.answer.take();
        let closes = answer.as_ref().is_some_and(|a| a.closes);
        match answer.and_then(|a| a.error) {
            Some(why) => tally.request_failed(Some(self.began), why),
            None => {
                self.answered += 1;
                let first = (self.answered == 1).then(|| self.opened.elapsed());
                tally.answered(took, first);
            }
        }
        if closes {
            tally.ended(self.past());
            return Some(Step::Close);
        }
        if plan.opening.is_some() && !self.is_open {
            self.is_open = true;
            self.begin(Instant::now());
            return None;
        }
        if plan.keep {
            self.state = State::Idle;
            return Some(Step::Idle);
        }
        if plan.server_closes {
            self.state = State::Ending;
            return None;
        }
        tally.ended(self.past());
        Some(Step::Close)
    }

    /// The peer has closed, or the connection broke.
    fn over(&mut self, error: Option<Errno>, tally: &mut Tally) -> Step {
        let began = self.has_request().then_some(self.began);
        match (self.state, error) {
            (State::Ending, None) => {}
            (_, Some(e)) => tally.request_failed(began, errno_name(e)),
            (_, None) => tally.request_failed(began, "closed by the server"),
        }
        tally.ended(self.past());
        Step::Close
    }
}

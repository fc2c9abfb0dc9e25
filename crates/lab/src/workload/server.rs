//! The server: accepts at the pace it was told, reads each request to its end, answers it.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{NanosleepRelativeResult, nanosleep};
use rustix::time::Timespec;

use super::args::ServerArgs;
use super::poller::{Interest, Poller};
use super::report::{ServerReport, count, errno_name};
use super::socket::{CHUNK, Moved, accept, listener, read_some, reset_on_close, write_some};
use super::wire::{ENDLESS, HEADER, Header, spend};
use crate::{Error, Stop};

/// Connections accepted in a row before the others are served.
const ACCEPT_BATCH: usize = 64;
/// Chunks moved on one connection before the others are served.
const MOVES: usize = 4;
/// Bytes of a request of HTTP at most.
const HTTP: usize = 16 * 1024;
/// How often the flag that ends the server is looked at.
const TICK: Duration = Duration::from_millis(50);

/// One connection.
struct Conn {
    fd: OwnedFd,
    interest: Interest,
    header: [u8; HEADER],
    header_len: usize,
    /// A request of HTTP instead, as far as it has come.
    http: Vec<u8>,
    /// What is written before the rest of a response.
    head: Vec<u8>,
    /// Bytes of the request still to come.
    to_read: u64,
    /// Bytes of the response still to go.
    to_write: u64,
    closes: bool,
    /// It is to be reset instead of answered.
    aborts: bool,
    /// When something was last done on it.
    spoke: Instant,
}

/// What became of a connection after some work on it.
enum Next {
    Open,
    Close,
    Failed(String),
}

struct Server<'a> {
    args: &'a ServerArgs,
    stop: &'a Stop,
    listener: OwnedFd,
    poller: Poller,
    conns: HashMap<RawFd, Conn>,
    /// No accept before this time.
    accept_at: Instant,
    accepting: bool,
    /// When its first client came.
    first: Option<Instant>,
    scratch: Vec<u8>,
    report: ServerReport,
}

/// Serves until the flag is set or the lifetime is over.
pub(super) fn run(args: &ServerArgs, stop: &Stop) -> Result<ServerReport, Error> {
    let congestion = args.common.congestion.first();
    let settings = (args.rcvbuf, args.shares_port);
    let listener = listener(&args.listen, args.backlog, congestion, settings)
        .map_err(Error::io(format!("listening on {}", args.listen)))?;
    let poller = Poller::new()?;
    poller
        .add(&listener, Interest::Read)
        .map_err(Error::io("watching the listener"))?;
    println!("ready");
    std::io::stdout()
        .flush()
        .map_err(Error::io("telling that the server is ready"))?;
    let now = Instant::now();
    let mut server = Server {
        args,
        stop,
        listener,
        poller,
        conns: HashMap::new(),
        accept_at: now,
        accepting: true,
        first: None,
        scratch: vec![0; CHUNK],
        report: ServerReport {
            role: "server".to_string(),
            name: args.common.name.clone(),
            ..ServerReport::default()
        },
    };
    let end = now + Duration::from_secs_f64(args.lifetime);
    while !stop.is_set() && Instant::now() < end {
        server.turn()?;
    }
    Ok(server.report)
}

impl Server<'_> {
    /// Waits once and serves what is ready.
    fn turn(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        let may_accept = self.next_accept(now) <= now;
        if may_accept != self.accepting {
            // A listener that is not accepted from would wake us for ever.
            let interest = if may_accept {
                Interest::Read
            } else {
                Interest::Nothing
            };
            self.poller
                .change(&self.listener, interest)
                .map_err(Error::io("watching the listener"))?;
            self.accepting = may_accept;
        }
        let wait = if may_accept {
            TICK
        } else {
            TICK.min(self.next_accept(now) - now)
        };
        for fd in self.poller.wait(wait)? {
            if fd == self.listener.as_raw_fd() {
                self.first.get_or_insert_with(Instant::now);
                self.accept()?;
            } else {
                self.serve(fd);
            }
        }
        self.close_idle();
        Ok(())
    }

    /// Closes what nothing was asked of for too long.
    fn close_idle(&mut self) {
        let after = ms(self.args.idle_timeout_ms);
        if !after.is_zero() {
            self.conns
                .retain(|_, conn| !conn.is_answered() || conn.spoke.elapsed() < after);
        }
    }

    /// When the server is ready for its next connection.
    fn next_accept(&self, now: Instant) -> Instant {
        let Some(first) = self.first else {
            return self.accept_at;
        };
        let stall = first + ms(self.args.stall_after_ms);
        let stall_end = stall + ms(self.args.stall_ms);
        if stall <= now && now < stall_end {
            stall_end
        } else {
            self.accept_at
        }
    }

    fn accept(&mut self) -> Result<(), Error> {
        for _ in 0..ACCEPT_BATCH {
            let now = Instant::now();
            if self.next_accept(now) > now {
                break;
            }
            let fd = match accept(&self.listener) {
                Ok(Some(fd)) => fd,
                Ok(None) => break,
                // The connection is gone, or there are too many: the next may do.
                Err(e) if e != Errno::BADF && e != Errno::INVAL => {
                    count(&mut self.report.failed, errno_name(e));
                    self.accept_at = now + TICK;
                    break;
                }
                Err(e) => return Err(Error::io("accept")(e)),
            };
            self.report.accepted += 1;
            self.accept_at = now + ms(self.args.accept_ms);
            if self.args.linger_zero {
                reset_on_close(&fd).map_err(Error::io("setting SO_LINGER"))?;
            }
            self.poller
                .add(&fd, Interest::Read)
                .map_err(Error::io("watching a connection"))?;
            let conn = Conn {
                fd,
                interest: Interest::Read,
                header: [0; HEADER],
                header_len: 0,
                http: Vec::new(),
                head: Vec::new(),
                to_read: 0,
                to_write: 0,
                closes: false,
                aborts: false,
                spoke: now,
            };
            self.conns.insert(conn.fd.as_raw_fd(), conn);
        }
        Ok(())
    }

    fn serve(&mut self, fd: RawFd) {
        let Some(conn) = self.conns.get_mut(&fd) else {
            return;
        };
        match conn.work(self.args, self.stop, &mut self.scratch, &mut self.report) {
            Next::Open => {
                let wants = if conn.to_write > 0 {
                    Interest::Write
                } else {
                    Interest::Read
                };
                // Cannot fail for a descriptor that is watched.
                if wants != conn.interest && self.poller.change(&conn.fd, wants).is_ok() {
                    conn.interest = wants;
                }
            }
            Next::Close => drop(self.conns.remove(&fd)),
            Next::Failed(reason) => {
                count(&mut self.report.failed, reason);
                self.conns.remove(&fd);
            }
        }
    }
}

impl Conn {
    /// Reads and writes what can be, within a budget.
    fn work(
        &mut self,
        args: &ServerArgs,
        stop: &Stop,
        scratch: &mut [u8],
        report: &mut ServerReport,
    ) -> Next {
        self.spoke = Instant::now();
        for _ in 0..MOVES {
            let moved = if self.to_write == ENDLESS && read_some(&self.fd, scratch) == Moved::End {
                // The client ends an endless response by closing its side.
                Moved::End
            } else if self.to_write > 0 {
                self.write(scratch, report)
            } else if self.to_read > 0 {
                self.read_body(args, stop, scratch, report)
            } else if !self.http.is_empty() {
                self.read_http(args, scratch, report)
            } else {
                match self.read_header(args, report) {
                    Ok(moved) => moved,
                    Err(reason) => return Next::Failed(reason),
                }
            };
            if self.aborts {
                return match reset_on_close(&self.fd) {
                    Ok(()) => Next::Close,
                    Err(e) => Next::Failed(errno_name(e)),
                };
            }
            match moved {
                Moved::Bytes(_) if self.closes && self.is_answered() => return Next::Close,
                Moved::Bytes(_) => {}
                Moved::Blocked => break,
                Moved::End => return Next::Close,
                Moved::Failed(e) => return Next::Failed(errno_name(e)),
            }
        }
        Next::Open
    }

    /// Whether it stands between a response and the next request.
    fn is_answered(&self) -> bool {
        self.to_read == 0 && self.to_write == 0 && self.header_len == 0 && self.http.is_empty()
    }

    fn read_header(
        &mut self,
        args: &ServerArgs,
        report: &mut ServerReport,
    ) -> Result<Moved, String> {
        let moved = read_some(&self.fd, &mut self.header[self.header_len..]);
        if let Moved::Bytes(n) = moved {
            report.bytes_received += n as u64;
            self.header_len += n;
            if self.header_len == HEADER && self.header.starts_with(b"GET /") {
                self.http = self.header.to_vec();
                self.read_http_end(args, report);
            } else if self.header_len == HEADER {
                let header = Header::from_bytes(&self.header)
                    .ok_or_else(|| "not a request of the lab".to_string())?;
                self.to_read = header.request - HEADER as u64;
                self.closes = header.server_closes;
                if args.answers_early && self.to_read > 0 {
                    (self.to_read, self.closes) = (0, true);
                }
                if self.to_read == 0 {
                    self.answer(args, header.response, report);
                }
            }
        }
        Ok(moved)
    }

    /// A proxy asks by HTTP, for as many bytes as the path says: `GET /1000`.
    fn read_http(
        &mut self,
        args: &ServerArgs,
        scratch: &mut [u8],
        report: &mut ServerReport,
    ) -> Moved {
        let moved = read_some(&self.fd, &mut scratch[..HTTP]);
        if let Moved::Bytes(n) = moved {
            report.bytes_received += n as u64;
            self.http.extend_from_slice(&scratch[..n]);
            self.read_http_end(args, report);
        }
        if self.http.len() > HTTP {
            Moved::Failed(Errno::MSGSIZE)
        } else {
            moved
        }
    }

    fn read_http_end(&mut self, args: &ServerArgs, report: &mut ServerReport) {
        if !self.http.ends_with(b"\r\n\r\n") {
            return;
        }
        let request = String::from_utf8_lossy(&std::mem::take(&mut self.http)).to_ascii_lowercase();
        let path = request.split([' ', '/']).nth(2);
        let bytes: u64 = path.and_then(|p| p.parse().ok()).unwrap_or(0);
        let bytes = bytes.min(ENDLESS / 4);
        self.closes = request.contains("connection: close");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        self.answer(args, head.len() as u64 + bytes, report);
        self.head = head.into();
    }

    fn read_body(
        &mut self,
        args: &ServerArgs,
        stop: &Stop,
        scratch: &mut [u8],
        report: &mut ServerReport,
    ) -> Moved {
        let most = self.to_read.min(args.read_bytes);
        let most = scratch
            .len()
            .min(usize::try_from(most).unwrap_or(usize::MAX));
        let moved = read_some(&self.fd, &mut scratch[..most]);
        if let Moved::Bytes(n) = moved {
            if args.read_pause_ms > 0.0 {
                pause(ms(args.read_pause_ms), stop);
            }
            report.bytes_received += n as u64;
            spend(&mut self.to_read, n);
            if self.to_read == 0 {
                let header = Header::from_bytes(&self.header).expect("checked when it came");
                self.answer(args, header.response, report);
            }
        }
        moved
    }

    /// The request has been read; what is answered next?
    fn answer(&mut self, args: &ServerArgs, response: u64, report: &mut ServerReport) {
        report.asked += 1;
        if args.think_ms > 0.0 && report.asked.is_multiple_of(args.think_one_in) {
            // A thread that is parked waits in futex(2), as for a lock.
            let until = Instant::now() + ms(args.think_ms);
            while Instant::now() < until {
                std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
            }
        }
        self.aborts = args.abort_one_in > 0 && report.asked.is_multiple_of(args.abort_one_in);
        if args.work_ms > 0.0 {
            super::hog::work(ms(args.work_ms));
        }
        self.header_len = 0;
        self.to_write = response;
        if response == 0 {
            report.answered += 1;
        }
    }

    fn write(&mut self, scratch: &[u8], report: &mut ServerReport) -> Moved {
        let most = scratch
            .len()
            .min(usize::try_from(self.to_write).unwrap_or(usize::MAX));
        let bytes = if self.head.is_empty() {
            &scratch[..most]
        } else {
            &self.head[..]
        };
        let moved = write_some(&self.fd, bytes);
        if let Moved::Bytes(n) = moved {
            self.head.drain(..n.min(self.head.len()));
            report.bytes_sent += n as u64;
            spend(&mut self.to_write, n);
            if self.to_write == 0 {
                report.answered += 1;
            }
        }
        moved
    }
}

/// Sleeps, but not past the signal that ends the server: what is left unread would be paused for, piece by piece.
fn pause(time: Duration, stop: &Stop) {
    let mut left = Timespec::try_from(time).unwrap_or_default();
    while !stop.is_set()
        && let NanosleepRelativeResult::Interrupted(rest) = nanosleep(&left)
    {
        left = rest;
    }
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}

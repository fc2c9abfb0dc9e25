//! The thread that carries packets between the two TUN devices of an emulated path.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use tun_rs::SyncDevice;

use super::Wire;
use super::direction::{Counters, Direction, Packet};
use crate::Error;

/// Packets read from one side before the other side and the clock are looked at again.
const BATCH: usize = 64;

/// The emulator comes before other work on a busy machine: a path does not wait for a CPU.
const NICE: i32 = -15;

/// A running emulator; dropping it ends it.
#[derive(Debug)]
pub(super) struct Pump {
    stop: OwnedFd,
    counters: Arc<Mutex<[Counters; 2]>>,
    thread: Option<JoinHandle<()>>,
}

impl Pump {
    /// Starts to carry packets; `wires[0]` is the direction from `devices[0]` to `devices[1]`.
    pub(super) fn start(
        devices: [SyncDevice; 2],
        wires: [Wire; 2],
        seed: u64,
    ) -> Result<Pump, Error> {
        let setup = || -> io::Result<(OwnedFd, OwnedFd)> {
            let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let seen = stop.try_clone()?;
            Ok((stop, seen))
        };
        let (stop, seen) = setup().map_err(Error::io("starting the link emulator"))?;
        let directions = [
            Direction::new(wires[0], seed),
            Direction::new(wires[1], seed ^ 0x9e37_79b9_7f4a_7c15),
        ];
        let counters = Arc::default();
        let shared = Arc::clone(&counters);
        let thread = std::thread::Builder::new()
            .name("lab-link".to_string())
            .spawn(move || carry(&devices, directions, &seen, &shared))
            .map_err(Error::io("starting the link emulator"))?;
        Ok(Pump {
            stop,
            counters,
            thread: Some(thread),
        })
    }

    /// What it has counted so far, per direction.
    pub(super) fn counters(&self) -> [Counters; 2] {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // Writing 1 to an eventfd cannot fail before it holds 2^64 - 2.
        let _ = write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; the devices are closed either way.
            let _ = thread.join();
        }
    }
}

/// Carries packets until `stop` is readable.
fn carry(
    devices: &[SyncDevice; 2],
    mut directions: [Direction; 2],
    stop: &OwnedFd,
    counters: &Mutex<[Counters; 2]>,
) {
    // Both improve timing; without them the path still works.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = rustix::process::setpriority_process(None, NICE);
    let epoch = Instant::now();
    let now = || epoch.elapsed().as_nanos() as u64;
    loop {
        let mut more = false;
        for (side, direction) in directions.iter_mut().enumerate() {
            more |= take_in(&devices[side], direction, now()) == BATCH;
        }
        for (side, direction) in directions.iter_mut().enumerate() {
            give_out(&devices[1 - side], direction, now());
        }
        *counters.lock().unwrap_or_else(PoisonError::into_inner) =
            directions.each_ref().map(|d| d.counters);
        let due = directions.iter().filter_map(Direction::next_due).min();
        let wait = match due {
            _ if more => Some(0),
            due => due.map(|due| due.saturating_sub(now())),
        };
        let wait = wait.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        let mut fds = [
            PollFd::from_borrowed_fd(devices[0].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(devices[1].as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Nothing to wait on any more.
            Err(_) => break,
        }
        if fds[2].revents().contains(PollFlags::IN) {
            break;
        }
        // A device whose namespace was removed reports an error for ever.
        if fds[..2]
            .iter()
            .any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::NVAL))
        {
            break;
        }
    }
}

/// Reads what has come, at most a batch; gives how many packets it was.
fn take_in(device: &SyncDevice, direction: &mut Direction, now: u64) -> usize {
    for taken in 0..BATCH {
        let mut buffer = direction.buffer();
        match read(device, &mut buffer[..]) {
            Ok(len) => direction.offer(now, Packet { buffer, len }),
            Err(_) => {
                direction.recycle(buffer);
                return taken;
            }
        }
    }
    BATCH
}

/// Writes what is due.
fn give_out(device: &SyncDevice, direction: &mut Direction, now: u64) {
    while let Some(packet) = direction.take_due(now) {
        if write(device, packet.bytes()).is_err() {
            direction.counters.refused += 1;
        }
        direction.recycle(packet.buffer);
    }
}

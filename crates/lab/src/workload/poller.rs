//! epoll, as the workload uses it: level triggered, file descriptors as tokens.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::Error;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    Read,
    Write,
    /// Only errors, which epoll always tells.
    Nothing,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN,
            Interest::Write => EventFlags::OUT,
            Interest::Nothing => EventFlags::empty(),
        }
    }
}

/// An epoll instance and its last events.
pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

impl Poller {
    pub(super) fn new() -> Result<Poller, Error> {
        Ok(Poller {
            epoll: epoll::create(CreateFlags::CLOEXEC).map_err(Error::io("epoll_create"))?,
            events: Vec::with_capacity(1024),
        })
    }

    pub(super) fn add(&self, fd: &OwnedFd, interest: Interest) -> Result<(), Errno> {
        epoll::add(&self.epoll, fd, token(fd.as_raw_fd()), interest.flags())
    }

    pub(super) fn change(&self, fd: impl AsFd, interest: Interest) -> Result<(), Errno> {
        let fd = fd.as_fd();
        epoll::modify(&self.epoll, fd, token(fd.as_raw_fd()), interest.flags())
    }

    /// Waits for events, at most so long, and gives the file descriptors that have one.
    /// Closing a file descriptor takes it out of epoll; an event of the same batch may then
    /// name a successor with the same number, which at worst finds nothing to do.
    pub(super) fn wait(&mut self, most: Duration) -> Result<Vec<RawFd>, Error> {
        let timeout = Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            spare_capacity(&mut self.events),
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(Error::io("epoll_wait")(e)),
        }
        Ok(self.events.iter().map(|e| e.data.u64() as RawFd).collect())
    }
}

fn token(fd: RawFd) -> EventData {
    EventData::new_u64(fd as u64)
}

//! What threads sleep in and on, on the running kernel.

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use observe::Part;
use recording::tables::{Epoll, Frame, Stack, ThreadSleep, Wait};
use recording::{FileKind, SourceName, Verdict, Waker};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fs::fstat;
use rustix::pipe::pipe;
use rustix::thread::gettid;

use crate::common::{need_root, record, rows};

fn tid() -> u32 {
    gettid().as_raw_nonzero().get() as u32
}

#[test]
fn a_wait_tells_where_its_thread_slept() {
    need_root();
    let mut mine = 0;
    let (manifest, dir) = record(Part::Waits, &[], || {
        let sleeper = std::thread::spawn(|| {
            // One that is due before its thread has left the CPU makes no wait.
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(30));
            }
            tid()
        });
        mine = sleeper.join().unwrap();
    });
    let sources = manifest.sources.iter();
    let slept = sources.clone().find(|s| s.name == SourceName::WaitSlept);
    assert_eq!(slept.unwrap().verdict, Verdict::Attached);

    let frames: Vec<Frame> = rows(&dir);
    let names: HashMap<u64, &str> = frames.iter().map(|f| (f.frame, &*f.function)).collect();
    let stacks: Vec<Stack> = rows(&dir);
    let functions = |id: Option<u64>| -> Vec<&str> {
        let of = stacks.iter().filter(|s| Some(s.stack) == id);
        of.map(|s| names[&s.frame]).collect()
    };
    let waits: Vec<Wait> = rows(&dir);
    let sleeps = waits
        .iter()
        .filter(|w| w.tid == mine && w.syscall.as_deref() == Some("clock_nanosleep"))
        // One in the middle of another wakeup is not seen.
        .filter(|w| w.waker != Waker::NotSeen);
    let mut seen = 0;
    for wait in sleeps {
        assert_eq!(wait.waker, Waker::Timer, "{wait:#?}");
        let (slept, waker) = (functions(wait.slept_stack), functions(wait.waker_stack));
        let holds = |stack: &[&str], what: &str| stack.iter().any(|f| f.contains(what));
        assert!(holds(&slept, "nanosleep"), "{slept:?}");
        assert!(holds(&waker, "hrtimer_wakeup"), "{waker:?}");
        assert!(
            !holds(&waker, "nanosleep"),
            "the waker's is its own: {waker:?}"
        );
        seen += 1;
    }
    assert!(seen > 0, "{waits:#?}");
}

#[test]
fn what_is_behind_an_epoll_descriptor_is_told() {
    need_root();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let (reads, _writes) = pipe().unwrap();
    let counter = eventfd(0, EventfdFlags::empty()).unwrap();
    let (one, _other) = UnixStream::pair().unwrap();
    let set = epoll::create(epoll::CreateFlags::empty()).unwrap();
    let nested = epoll::create(epoll::CreateFlags::empty()).unwrap();
    let behind = [
        (listener.as_fd(), FileKind::Socket),
        (server.as_fd(), FileKind::Socket),
        (client.as_fd(), FileKind::Socket),
        (one.as_fd(), FileKind::Socket),
        (reads.as_fd(), FileKind::Pipe),
        (counter.as_fd(), FileKind::Eventfd),
        (nested.as_fd(), FileKind::Epoll),
    ];
    for (fd, _) in &behind {
        let data = epoll::EventData::new_u64(7);
        epoll::add(&set, fd, data, epoll::EventFlags::IN).unwrap();
    }
    let (_, dir) = record(Part::Threads, &[], || {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        for _ in 0..10 {
            let mut ready = Vec::with_capacity(1);
            epoll::wait(&set, spare_capacity(&mut ready), Some(&timeout)).unwrap();
        }
    });

    let (me, fd) = (std::process::id(), set.as_raw_fd());
    let sleeps: Vec<ThreadSleep> = rows(&dir);
    let mut on_it = sleeps
        .iter()
        .filter(|s| s.pid == me && s.epoll_fd == Some(fd));
    assert!(
        on_it.any(|s| s.syscall.starts_with("epoll_")),
        "{sleeps:#?}"
    );
    assert!(
        sleeps
            .iter()
            .all(|s| s.epoll_fd.is_none() || s.syscall.starts_with("epoll_"))
    );
    let told: Vec<Epoll> = rows(&dir);
    let of_set = |e: &&Epoll| e.pid == me && e.epoll_fd == fd as u32;
    let told: Vec<&Epoll> = told.iter().filter(of_set).collect();
    let first = told.first().expect("the set was read").time_ns;
    let told: Vec<_> = told.into_iter().filter(|e| e.time_ns == first).collect();
    assert_eq!(told.len(), behind.len(), "{told:#?}");
    for (fd, kind) in behind {
        let row = told.iter().find(|e| e.fd == fd.as_raw_fd() as u32).unwrap();
        assert_eq!(
            (&row.kind, row.events & 1, row.total),
            (&kind, 1, 7),
            "{row:#?}"
        );
        let inode = matches!(kind, FileKind::Socket | FileKind::Pipe);
        assert_eq!(
            row.inode,
            inode.then(|| fstat(fd).unwrap().st_ino),
            "{row:#?}"
        );
    }
}

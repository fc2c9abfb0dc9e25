//! `stat threads`: what each thread did with its time, as `prstat -mL` shows it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use analysis::Microstate::*;
use analysis::epolls::{self, Behind, Socket};
use analysis::{Epolls, Microstates};
use recording::tables::Thread;
use recording::{Cell, FileKind, Filter, Row, Text};

use super::largest::{Largest, Ranked};
use super::rounds::Sampler;
use crate::columns::{Fields, Unit, Value, columns, heads, json, left, right};
use crate::numbers::{rounded, tenth};
use crate::screen::Screen;

/// Threads followed at a time.
const MAX_THREADS: usize = 1 << 17;
/// Threads that are shown unless all are asked for.
const SHOWN: usize = 20;
/// Calls kept per thread.
const MAX_CALLS: usize = 64;

/// A thread over some time, and the system calls that it slept in, the longest first, if they were asked
/// for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timed {
    /// Its last row: who it is.
    pub(crate) last: Thread,
    pub(crate) spent: Microstates,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    syscalls: Option<u64>,
    pub(crate) sleeps: Option<Vec<Slept>>,
    /// It is a thread of tcpwhy itself.
    pub(crate) own: bool,
}

/// Time asleep in a system call, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Slept {
    pub(crate) syscall: Text,
    /// For epoll, which set.
    pub(crate) epoll_fd: Option<i32>,
    pub(crate) ns: u64,
    pub(crate) count: u64,
    /// What is behind it, in words, and one by one for JSON.
    behind: Option<Set>,
}

/// What is behind a descriptor of epoll.
#[derive(Clone, Debug)]
struct Set {
    says: Option<String>,
    descriptors: Vec<Descriptor>,
    left_out: u64,
}

#[derive(Clone, Debug)]
struct Descriptor {
    fd: u32,
    kind: FileKind,
    events: u32,
    socket: Option<Socket>,
}

columns! {
    Timed = "thread" {
        text TIME PID TID USR SYS LAT SLP LCK DSK FLT STP VCX ICX SCL PROCESS;
        json TIME PID TID PROCESS CGROUP INTERVAL USR SYS LAT SLP LCK DSK FLT STP VCX ICX SCL SLEEPS DESCRIPTORS;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.last.time_ns);
    /// Process.
    PID: heads::PID => |l, _| l.last.pid.into();
    /// Thread.
    TID: right("TID", 7, &["tid"], Unit::Id) => |l, _| l.last.tid.into();
    /// On a CPU in user mode.
    USR: right("USR%", 5, &["user_percent"], Unit::Percent) => |l, _| l.spent.percent(User).into();
    /// On a CPU in the kernel.
    SYS: right("SYS%", 5, &["system_percent"], Unit::Percent) => |l, _| l.spent.percent(System).into();
    /// Runnable, and waiting for a CPU.
    LAT: right("LAT%", 5, &["runqueue_percent"], Unit::Percent) => |l, _| l.spent.percent(Runqueue).into();
    /// Asleep in a system call.
    SLP: right("SLP%", 5, &["sleep_percent"], Unit::Percent) => |l, _| l.spent.percent(Sleep).into();
    /// Waiting for a lock (futex).
    LCK: right("LCK%", 5, &["lock_percent"], Unit::Percent) => |l, _| l.spent.percent(Lock).into();
    /// Uninterruptible, mostly disk.
    DSK: right("DSK%", 5, &["disk_percent"], Unit::Percent) => |l, _| l.spent.percent(Disk).into();
    /// In a page fault.
    FLT: right("FLT%", 5, &["fault_percent"], Unit::Percent) => |l, _| l.spent.percent(Fault).into();
    /// Stopped or traced.
    STP: right("STP%", 5, &["stopped_percent"], Unit::Percent) => |l, _| l.spent.percent(Stopped).into();
    /// Switches to other threads because it had to wait.
    VCX: right("VCX", 7, &["voluntary"], Unit::Count) => |l, _| l.voluntary.into();
    /// Switches because another thread was to run.
    ICX: right("ICX", 7, &["involuntary"], Unit::Count) => |l, _| l.involuntary.into();
    /// System calls, where they are counted.
    SCL: right("SCL", 7, &["syscalls"], Unit::Count) => |l, _| l.syscalls.into();
    /// The thread's name.
    PROCESS: left("PROCESS", 15, &["comm"], Unit::Name) => |l, _| (&l.last.comm).into();
    /// Cgroup v2 id.
    CGROUP: json(&["cgroup"], Unit::Id) => |l, _| l.last.cgroup.into();
    /// The time that shares are of.
    INTERVAL: json(&["interval_ns"], Unit::Ns) => |l, _| l.spent.over_ns().into();
    /// With `--sleeps`: each `syscall` that it slept in, with `sleep_percent` and `count`; of epoll the descriptor `epoll_fd`, what is `behind` it in words, or null, and how many descriptors behind it were `not_read`.
    SLEEPS: json(&["sleeps"], Unit::Words) => |l, _| match &l.sleeps {
        Some(sleeps) => Value::Objects(sleeps.iter().map(|s| l.slept(s)).collect()),
        None => Value::Absent,
    };
    /// With `--sleeps`: the descriptors behind those of epoll, as last read: `epoll_fd`, `fd`, `kind`, `events` (the kernel's bits); of TCP sockets that were sampled `listening`, `local_addr`, `local_port`, and of connections `remote_addr`, `remote_port`.
    DESCRIPTORS: json(&["descriptors"], Unit::Words) => |l, _| match &l.sleeps {
        Some(sleeps) => Value::Objects(sleeps.iter().flat_map(Slept::descriptors).collect()),
        None => Value::Absent,
    };
}

impl Timed {
    /// Adds an interval to those before it.
    pub(crate) fn add(&mut self, row: &Thread) {
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        self.spent.add(Microstates::of(row));
        add(&mut self.voluntary, row.voluntary);
        add(&mut self.involuntary, row.involuntary);
        if let Some(n) = row.syscalls {
            add(self.syscalls.get_or_insert(0), n);
        }
        self.last = row.clone();
    }

    fn slept<'s>(&self, s: &'s Slept) -> Fields<'s> {
        let percent = rounded(self.spent.percent_of(s.ns));
        vec![
            ("syscall", (&*s.syscall).into()),
            ("sleep_percent", percent.into()),
            ("count", s.count.into()),
            ("epoll_fd", s.epoll_fd.into()),
            ("behind", s.says().into()),
            ("not_read", s.behind.as_ref().map(|set| set.left_out).into()),
        ]
    }
}

impl Slept {
    /// Sleep in a call, whatever it waited on.
    pub(crate) fn of(syscall: Text, ns: u64, count: u64) -> Slept {
        Slept {
            syscall,
            epoll_fd: None,
            ns,
            count,
            behind: None,
        }
    }

    /// The call, and for epoll its set: `epoll_wait FD 4`.
    fn place(&self) -> String {
        match self.epoll_fd {
            Some(fd) => format!("{} FD {fd}", self.syscall),
            None => self.syscall.to_string(),
        }
    }

    /// What is behind its set.
    fn says(&self) -> Option<&str> {
        self.behind.as_ref()?.says.as_deref()
    }

    fn descriptors(&self) -> impl Iterator<Item = Fields<'_>> {
        let all = self.behind.iter().flat_map(|set| &set.descriptors);
        all.map(|one| one.fields(self.epoll_fd))
    }
}

impl Set {
    fn of(epolls: &Epolls, pid: u32, fd: i32) -> Option<Set> {
        let (behind, left_out) = epolls.behind(pid, fd)?;
        let descriptor = |b: Behind| Descriptor {
            fd: b.fd,
            kind: b.kind.clone(),
            events: b.events,
            socket: b.socket,
        };
        Some(Set {
            says: epolls.says(pid, fd),
            descriptors: behind.into_iter().map(descriptor).collect(),
            left_out,
        })
    }
}

impl Descriptor {
    fn fields(&self, epoll_fd: Option<i32>) -> Fields<'_> {
        let mut fields: Fields = vec![
            ("epoll_fd", epoll_fd.into()),
            ("fd", self.fd.into()),
            ("kind", self.kind.value()),
            ("events", self.events.into()),
        ];
        let (here, there) = match self.socket {
            None => return fields,
            Some(Socket::Listener(here)) => (here, None),
            Some(Socket::Connection(here, there)) => (here, Some(there)),
        };
        fields.push(("listening", there.is_none().into()));
        fields.push(("local_addr", here.addr.into()));
        fields.push(("local_port", here.port.into()));
        if let Some(there) = there {
            fields.push(("remote_addr", there.addr.into()));
            fields.push(("remote_port", there.port.into()));
        }
        fields
    }
}

pub(super) struct Threads {
    all: bool,
    sleeps: bool,
    now: Largest<(u32, u32), Seen, MAX_THREADS>,
    epolls: Epolls,
}

/// A thread since the last report.
#[derive(Default)]
struct Seen {
    sum: Timed,
    calls: BTreeMap<(Text, Option<i32>), (u64, u64)>,
}

/// By how long it ran or wanted to.
impl Ranked for Seen {
    fn rank(&self) -> f64 {
        self.sum.spent.busy_ns() as f64
    }
}

impl Threads {
    pub(super) fn new(all: bool, sleeps: bool) -> Threads {
        Threads {
            all,
            sleeps,
            now: Largest::default(),
            epolls: Epolls::default(),
        }
    }

    fn line(&self, seen: Seen) -> Timed {
        let pid = seen.sum.last.pid;
        let slept = |((syscall, epoll_fd), (ns, count))| Slept {
            epoll_fd,
            behind: epoll_fd.and_then(|fd: i32| Set::of(&self.epolls, pid, fd)),
            ..Slept::of(syscall, ns, count)
        };
        let sleeps = self.sleeps.then(|| {
            let mut all: Vec<Slept> = seen.calls.into_iter().map(slept).collect();
            all.sort_by_key(|s| Reverse(s.ns));
            all
        });
        Timed { sleeps, ..seen.sum }
    }
}

impl Sampler for Threads {
    /// Process and thread.
    type Key = (u32, u32);

    fn tables(&self) -> Vec<&'static str> {
        if self.sleeps {
            [&["thread", "thread_sleep"], epolls::TABLES].concat()
        } else {
            vec!["thread"]
        }
    }

    fn key(&mut self, row: &Row, filter: &Filter) -> Option<Self::Key> {
        match row {
            Row::Thread(t) => {
                let key = (t.pid, t.tid);
                let asked = filter.task_ok(Some(t.pid), Some(&t.comm), Some(t.cgroup));
                asked.then_some(key)
            }
            Row::ThreadSleep(s) => {
                // Rows of one time: the thread's own comes first.
                let seen = self.now.get_mut(&(s.pid, s.tid))?;
                let call = (s.syscall.clone(), s.epoll_fd);
                if seen.calls.len() < MAX_CALLS || seen.calls.contains_key(&call) {
                    let call = seen.calls.entry(call).or_default();
                    call.0 = call.0.saturating_add(s.sleep_ns);
                    call.1 = call.1.saturating_add(s.count);
                }
                None
            }
            _ => {
                self.epolls.learn(row);
                None
            }
        }
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::Thread(row) = row {
            let seen = self.now.row((row.pid, row.tid), Seen::default);
            seen.sum.add(&row);
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        let (seen, left_out) = self.now.take();
        let mut seen: Vec<Seen> = seen.into_values().collect();
        seen.retain(|s| s.sum.spent.over_ns() > 0);
        // Those that ran or wanted to run most come first.
        seen.sort_by_key(|s| {
            let Timed { last, spent, .. } = &s.sum;
            (Reverse(spent.busy_ns()), last.pid, last.tid)
        });
        let shown = if self.all { seen.len() } else { SHOWN };
        for one in seen.into_iter().take(shown) {
            let line = self.line(one);
            screen.show(&line)?;
            for s in line.sleeps.iter().flatten() {
                let percent = tenth(line.spent.percent_of(s.ns));
                let says = format!("{percent:>5}% in {}, {} times", s.place(), s.count);
                let behind = s
                    .says()
                    .map_or_else(String::new, |behind| format!(": {behind}"));
                let says = says + &behind;
                screen.more(&format!("{:>38} {says}", ""))?;
            }
        }
        if self.all {
            left_out.show::<Timed>(time_ns, screen)?;
        }
        screen.end_report();
        Ok(())
    }
}

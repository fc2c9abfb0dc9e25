//! Loads and attaches the scheduler's tracepoints and the link to TCP; reads what they tell.

use std::fs;
use std::mem::MaybeUninit;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, OpenObject};
use recording::{HealthKind, Source, SourceName, Verdict, monotonic_ns};

use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::health::HealthLog;
use crate::iter;
use crate::kernel::{Callers, KernelBtf, defects, epoll_calls, lock_calls, poll_calls, read_calls};
use crate::ring::{Count, RING_FULL};
use crate::space;
use crate::wire::tasks::{OpenTasksSkel, TasksSkel, TasksSkelBuilder};
use crate::wire::{same, tw_task_kind, tw_thread};

/// What to watch.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Which threads.
    pub filter: Filter,
    /// Fill the table `wait`.
    pub waits: bool,
    /// Fill the tables `thread` and `thread_sleep`.
    pub threads: bool,
    /// Waits at least this long.
    pub wait_over: Duration,
    /// Time between rows of a thread.
    pub interval: Duration,
    /// Size of the ring buffer, bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Random numbers behind the ids of sockets.
    pub sock_key: [u64; 2],
}

/// One program at a tracepoint.
struct Program {
    name: &'static str,
    tracepoint: &'static str,
    args: usize,
    /// Without it there is nothing to tell; the others name the packet behind a wakeup, or who stopped a process.
    core: bool,
}

const fn program(name: &'static str, tracepoint: &'static str, args: usize, core: bool) -> Program {
    Program {
        name,
        tracepoint,
        args,
        core,
    }
}

const PROGRAMS: &[Program] = &[
    program("on_switch", "sched_switch", 3, true),
    program("on_waking", "sched_waking", 1, true),
    program("on_new", "sched_wakeup_new", 1, true),
    program("on_signal", "signal_generate", 5, false),
    program("on_established", "inet_sock_set_state", 3, false),
    program("on_packet", "tcp_probe", 2, false),
    program("on_data_ready", "sk_data_ready", 1, false),
    program("on_reset", "tcp_receive_reset", 1, false),
    program("on_retransmit", "tcp_retransmit_skb", 2, false),
    program("on_retransmit_synack", "tcp_retransmit_synack", 2, false),
];

/// The thread iterator; `sched_switch` and its like know nothing of threads that stay asleep.
const DUMP: &str = "dump";

/// Without this helper nothing tells where a thread sleeps that is not running: before Linux 5.9.
const TASK_STACK: &str = "get_task_stack";

/// The loaded programs.
pub struct Tasks<'o> {
    skel: TasksSkel<'o>,
    /// Drop them to stop watching; what is in the ring stays.
    pub links: Vec<Link>,
    dump: Link,
    options: TaskOptions,
    verdicts: Vec<Verdict>,
    /// Where in the kernel threads sleep.
    slept: Verdict,
}

/// What was lost so far, per kind of record.
#[derive(Default)]
pub struct Losses([Count; KINDS.len()]);

/// Which source a record belongs to, what came of it, and why.
static KINDS: [(tw_task_kind, SourceName, HealthKind, &str); 5] = [
    (
        tw_task_kind::TW_TASK_WAIT,
        SourceName::Waits,
        HealthKind::Lost,
        RING_FULL,
    ),
    (
        tw_task_kind::TW_TASK_ON,
        SourceName::Waits,
        HealthKind::Lost,
        RING_FULL,
    ),
    (
        tw_task_kind::TW_TASK_THREAD,
        SourceName::Threads,
        HealthKind::Lost,
        RING_FULL,
    ),
    (
        tw_task_kind::TW_TASK_SIGNAL,
        SourceName::Signals,
        HealthKind::Lost,
        RING_FULL,
    ),
    (
        tw_task_kind::TW_TASK_NO_ROOM,
        SourceName::Threads,
        HealthKind::Late,
        "the kernel had no memory for the account of a thread: it begins when the thread is next switched to or from",
    ),
];

impl<'o> Tasks<'o> {
    /// Loads and attaches what this kernel allows, and takes up the threads that there are.
    pub fn attach(
        objects: &'o mut [MaybeUninit<OpenObject>; 4],
        options: &TaskOptions,
        btf: &KernelBtf,
        callers: &Callers,
    ) -> Result<Tasks<'o>, Error> {
        let mut verdicts: Vec<Verdict> = PROGRAMS.iter().map(|p| supported(p, btf)).collect();
        for (p, verdict) in PROGRAMS.iter().zip(&mut verdicts) {
            if let (true, Verdict::Unsupported(why)) = (p.core, &*verdict) {
                return Err(Error::Kernel(why.clone()));
            }
        }
        // State per thread is best kept with the thread, where that is safe. What names the packet behind a
        // wakeup must not cost the wakeups where the kernel refuses it. Nor must where they slept.
        let mut slept = if btf.has_helper(TASK_STACK) {
            Verdict::Attached
        } else {
            Verdict::Unsupported(format!("this kernel has no helper bpf_{TASK_STACK}"))
        };
        let [first, second, third, fourth] = objects;
        let mut attempts = [
            (first, true, true, true),
            (second, false, true, true),
            (third, false, true, false),
            (fourth, false, false, false),
        ]
        .into_iter()
        .skip(usize::from(!defects::task_storage_is_safe()));
        let mut why = String::new();
        let mut skel = loop {
            let Some((object, storage, link, stack)) = attempts.next() else {
                return Err(Error::Bpf {
                    what: "loading the scheduler's tracepoint programs".into(),
                    why,
                });
            };
            if !link {
                let failed = || Verdict::Failed(why.clone());
                for (p, verdict) in PROGRAMS.iter().zip(&mut verdicts) {
                    if !p.core && *verdict == Verdict::Attached {
                        *verdict = failed();
                    }
                }
            }
            if !stack && slept == Verdict::Attached {
                slept = Verdict::Failed(why.clone());
            }
            let how = How {
                storage,
                slept: slept == Verdict::Attached,
            };
            match open(object, options, btf, how, callers, &verdicts)?.load() {
                Ok(skel) => break skel,
                Err(e) => why = bpf_error(&e),
            }
        };
        let mut links = Vec::new();
        let mut dump = None;
        for program in skel.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let known = PROGRAMS.iter().position(|p| p.name == name);
            if known.is_some_and(|i| verdicts[i] != Verdict::Attached) {
                continue;
            }
            match (program.attach(), known) {
                (Ok(link), None) => dump = Some(link),
                (Ok(link), Some(_)) => links.push(link),
                (Err(e), Some(i)) if !PROGRAMS[i].core => {
                    verdicts[i] = Verdict::Failed(bpf_error(&e));
                }
                (Err(e), _) => {
                    return Err(Error::Bpf {
                        what: format!("attaching {name}"),
                        why: bpf_error(&e),
                    });
                }
            }
        }
        let Some(dump) = dump else {
            return Err(Error::Bpf {
                what: format!("attaching {DUMP}"),
                why: "it is missing".into(),
            });
        };
        let mut tasks = Tasks {
            skel,
            links,
            dump,
            options: options.clone(),
            verdicts,
            slept,
        };
        tasks.read_threads(true, 0, |_| Ok(()))?;
        if let Some(bss) = tasks.skel.maps.bss_data.as_deref_mut() {
            bss.complete_since = monotonic_ns();
        }
        Ok(tasks)
    }

    /// Threads that could not be read the last time; their next row covers that time as well.
    pub fn skipped(&self) -> u32 {
        self.skel.maps.bss_data.as_deref().map_or(0, |b| b.skipped)
    }

    /// Hands every thread that did something since `changed_since` (ns; 0: all) to `each`.
    pub fn threads(
        &mut self,
        changed_since: u64,
        each: impl FnMut(&tw_thread) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.read_threads(false, changed_since, each)
    }

    fn read_threads(
        &mut self,
        seeding: bool,
        changed_since: u64,
        each: impl FnMut(&tw_thread) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(bss) = self.skel.maps.bss_data.as_deref_mut() else {
            return Err(Error::Bpf {
                what: "starting the thread iterator".into(),
                why: "its data is missing".into(),
            });
        };
        bss.seeding = seeding;
        bss.skipped = 0;
        bss.changed_since = changed_since;
        iter::run(&self.dump, "the thread iterator", each)
    }

    /// The ring of records.
    pub fn ring(&self) -> &dyn MapCore {
        &self.skel.maps.ring
    }

    /// Says what was lost or late since the last call.
    pub fn say_losses(&self, losses: &mut Losses, health: &HealthLog) -> Result<(), Error> {
        for ((kind, source, what, why), count) in KINDS.iter().zip(&mut losses.0) {
            match count.news(&self.skel.maps.lost, kind.0)? {
                0 => {}
                n => health.say(source.clone(), what.clone(), n, *why)?,
            }
        }
        Ok(())
    }

    /// What was asked for, each with its verdict and what it lost. `symbols` tells whether functions
    /// of the kernel have names.
    pub fn sources(&self, losses: &Losses, symbols: Verdict) -> Vec<Source> {
        let packet = self.verdict(&["on_established", "on_packet", "on_reset"]);
        let resent = self.verdict(&["on_retransmit", "on_retransmit_synack"]);
        let mut sources = Vec::new();
        if self.options.waits {
            let lost = losses.of(&SourceName::Waits);
            let waits = source(WAITS, Verdict::Attached, lost);
            sources.push(waits.with_least(self.options.wait_over));
            sources.push(source(WAKER, symbols, 0));
            sources.push(source(SLEPT, self.slept.clone(), 0));
            sources.push(source(PACKET, packet, 0));
            sources.push(source(RESENT, resent, 0));
            let lost = losses.of(&SourceName::Signals);
            sources.push(source(SIGNALS, self.verdict(&["on_signal"]), lost));
        }
        sources.push(super::epolls::source());
        if self.options.threads {
            let lost = losses.of(&SourceName::Threads);
            // The kernel shows an iterator the threads of its reader's PID namespace.
            sources.push(source(THREADS, space::pids_verdict(), lost));
        }
        sources
    }

    /// The worst of some programs.
    fn verdict(&self, programs: &[&str]) -> Verdict {
        let of = |name: &&str| PROGRAMS.iter().position(|p| p.name == *name);
        let mut verdicts = programs.iter().filter_map(of).map(|i| &self.verdicts[i]);
        let bad = verdicts.find(|v| **v != Verdict::Attached);
        bad.cloned().unwrap_or(Verdict::Attached)
    }
}

impl Losses {
    fn of(&self, source: &SourceName) -> u64 {
        let of = KINDS
            .iter()
            .zip(&self.0)
            .filter(|((_, s, what, _), _)| *s == *source && *what == HealthKind::Lost);
        of.map(|(_, count)| count.total).sum()
    }
}

type Gives = (SourceName, &'static str);
const WAITS: Gives = (
    SourceName::Waits,
    "long waits of threads, and what ended them",
);
const WAKER: Gives = (
    SourceName::WaitWaker,
    "who woke a thread: another, a softirq, an interrupt, a timer; its stack",
);
const SLEPT: Gives = (SourceName::WaitSlept, "where in the kernel a thread slept");
const PACKET: Gives = (
    SourceName::WaitPacket,
    "the connection whose packet woke a thread",
);
const RESENT: Gives = (
    SourceName::WaitRetransmit,
    "whether that packet had been retransmitted, and when",
);
const SIGNALS: Gives = (
    SourceName::Signals,
    "who stopped a process, and who let it go on",
);
const THREADS: Gives = (SourceName::Threads, "what each thread does with its time");

fn source((name, gives): Gives, verdict: Verdict, lost: u64) -> Source {
    Source::optional(name, gives, verdict).with_lost(lost)
}

/// The sources where nothing could be attached.
pub fn failed_sources(why: &Error) -> Vec<Source> {
    let failed = Verdict::Failed(why.to_string());
    [WAITS, THREADS]
        .map(|s| source(s, failed.clone(), 0))
        .into()
}

fn supported(p: &Program, btf: &KernelBtf) -> Verdict {
    match btf.tracepoint_args(p.tracepoint) {
        None => Verdict::Unsupported(format!("this kernel has no tracepoint {}", p.tracepoint)),
        Some(n) if n < p.args => Verdict::Unsupported(format!(
            "this kernel's {} passes {n} of {} arguments",
            p.tracepoint, p.args
        )),
        Some(_) => Verdict::Attached,
    }
}

/// What differs between attempts to load the programs.
#[derive(Clone, Copy)]
struct How {
    /// What is kept of a thread is kept with it.
    storage: bool,
    /// Where threads slept is asked for.
    slept: bool,
}

/// Room in the hash by thread: for twice those that there are, half a kilobyte each.
fn room_for_threads() -> u32 {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let threads = loads.split(['/', ' ']).nth(4).and_then(|n| n.parse().ok());
    let threads: u32 = threads.unwrap_or(0);
    threads.saturating_mul(2).clamp(1 << 14, 1 << 16)
}

fn open<'o>(
    object: &'o mut MaybeUninit<OpenObject>,
    options: &TaskOptions,
    btf: &KernelBtf,
    How { storage, slept }: How,
    callers: &Callers,
    verdicts: &[Verdict],
) -> Result<OpenTasksSkel<'o>, Error> {
    let opening = |e: libbpf_rs::Error| Error::Bpf {
        what: "opening the scheduler's tracepoint programs".into(),
        why: bpf_error(&e),
    };
    let mut open = TasksSkelBuilder::default().open(object).map_err(opening)?;
    let ring = &mut open.maps.ring;
    ring.set_max_entries(options.ring_bytes).map_err(opening)?;
    open.maps.by_task.set_autocreate(storage).map_err(opening)?;
    open.maps.by_tid.set_autocreate(!storage).map_err(opening)?;
    let by_tid = &mut open.maps.by_tid;
    by_tid
        .set_max_entries(room_for_threads())
        .map_err(opening)?;
    for mut program in open.open_object_mut().progs_mut() {
        let known = PROGRAMS.iter().position(|p| program.name() == p.name);
        let wanted = match known {
            None => true,
            Some(i) => verdicts[i] == Verdict::Attached && (PROGRAMS[i].core || options.waits),
        };
        program.set_autoload(wanted);
    }
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return Err(Error::Bpf {
            what: "opening the scheduler's tracepoint programs".into(),
            why: "their read-only data is missing".into(),
        });
    };
    rodata.filter = same(&options.filter.wire().map_err(Error::Usage)?);
    rodata.sock_key = options.sock_key;
    rodata.use_storage = storage;
    rodata.want_waits = options.waits;
    rodata.want_threads = options.threads;
    rodata.wait_over_ns = options.wait_over.as_nanos() as u64;
    rodata.switch_has_state = btf.tracepoint_args("sched_switch") >= Some(4);
    rodata.want_slept = slept;
    rodata.lock_calls = [-1; 4];
    for (to, call) in rodata.lock_calls.iter_mut().zip(lock_calls()) {
        *to = call;
    }
    rodata.epoll_calls = [-1; 4];
    for (to, call) in rodata.epoll_calls.iter_mut().zip(epoll_calls()) {
        *to = call;
    }
    rodata.poll_calls = [-1; 4];
    for (to, call) in rodata.poll_calls.iter_mut().zip(poll_calls()) {
        *to = call;
    }
    rodata.read_calls = [-1; 4];
    for (to, call) in rodata.read_calls.iter_mut().zip(read_calls()) {
        *to = call;
    }
    for (to, range) in rodata.ranges.iter_mut().zip(&callers.ranges) {
        *to = same(range);
    }
    let known = callers.ranges.len().min(rodata.ranges.len());
    rodata.n_ranges = known as u32;
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Symbols;

    fn options() -> TaskOptions {
        TaskOptions {
            filter: Filter::default(),
            waits: true,
            threads: true,
            wait_over: Duration::ZERO,
            interval: Duration::from_secs(1),
            ring_bytes: 1 << 20,
            sock_key: [1, 3],
        }
    }

    /// What kernels get that cannot keep state with a thread.
    #[test]
    #[ignore = "needs root: make test-live"]
    fn the_hash_by_thread_and_every_filter_pass_the_verifier() {
        crate::error::quiet_libbpf();
        let btf = KernelBtf::load().unwrap();
        let verdicts: Vec<Verdict> = PROGRAMS.iter().map(|p| supported(p, &btf)).collect();
        let filter = Filter {
            netns: vec![1, 2],
            pids: vec![1, 2],
            comms: vec!["a".into(), "b".into()],
            cgroups: vec![1, 2],
            ..Filter::default()
        };
        let callers = Callers::of(&Symbols::load());
        for (storage, slept) in [(false, false), (false, true), (true, false), (true, true)] {
            let how = How { storage, slept };
            for filter in [Filter::default(), filter.clone()] {
                let options = TaskOptions {
                    filter,
                    ..options()
                };
                let mut object = MaybeUninit::uninit();
                let open = open(&mut object, &options, &btf, how, &callers, &verdicts).unwrap();
                if let Err(e) = open.load() {
                    panic!("storage {storage}, slept {slept}: {}", bpf_error(&e));
                }
            }
        }
    }

    #[test]
    #[ignore = "needs root: make test-live"]
    fn every_thread_of_ours_is_taken_up_and_told() {
        crate::error::quiet_libbpf();
        let btf = KernelBtf::load().unwrap();
        let mut objects = [const { MaybeUninit::uninit() }; 4];
        let callers = Callers::of(&Symbols::load());
        let mut tasks = Tasks::attach(&mut objects, &options(), &btf, &callers).unwrap();
        let me = std::process::id();
        let mut mine = Vec::new();
        let mut each = |t: &tw_thread| {
            if t.pid == me {
                mine.push(t.tid);
            }
            Ok(())
        };
        tasks.threads(0, &mut each).unwrap();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert!(mine.contains(&tid) && mine.contains(&me), "{mine:?}");
    }
}

//! C48: a process, or the host, has no file descriptor left: accept() and socket() fail.

use std::collections::BTreeMap;

use analysis::denied::Denials;
use analysis::resources::Line;

use crate::limits;
use crate::places::accept_waits::{self, AcceptWaits, waiting_samples};
use crate::places::listener::ListenerPlace;
use crate::places::lost_syn::ConnectTimes;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::DESCRIPTORS_EXHAUSTED,
    number: "C48",
    title: "no file descriptor is left",
    page: include_str!("descriptors_exhausted.md"),
    layer: Layer::Application,
    ground: Ground::Host,
    needs: &[&[SourceName::Resources, SourceName::Calls]],
    seen_from: || {
        "as many descriptors open as the limit allows while connections wait for accept(), or a call that \
                failed for lack of one".into()
    },
    signature: &[
        "too many open files (EMFILE)",
        "accept4() failed (24: Too many open files)",
        "hundreds of sockets in CLOSE_WAIT",
    ],
    rivals: &[Id::SLOW_ACCEPT, Id::ACCEPT_IMBALANCE],
    explains: &[
        Id::SLOW_ACCEPT,
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::SLOW_APPLICATION,
    ],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: None,
    find: |whole| places(whole.story).iter().map(judge).collect(),
};

/// Nothing waits, and no call was seen to fail.
const UNHARMED: &str = "nothing was seen waiting for a descriptor, and no call was seen to fail";

/// A process that has as many descriptors open as it may.
struct Full<'a> {
    story: &'a Story,
    pid: u32,
    comm: String,
    open: Option<&'a Line>,
    denials: Option<Denials>,
    /// Its listener where most connections wait for accept(), if any.
    crowded: Option<ListenerPlace<'a>>,
    waits: Option<AcceptWaits<'a>>,
}

fn no(asked: &Asked) -> Option<Step> {
    let here = asked.listener()?;
    let story = asked.story;
    let holders = || here.listener.holders.iter().map(|h| h.pid);
    if holders().any(|pid| story.denied.of(pid).is_some()) {
        return None;
    }
    let lines = of_processes(story);
    let its = holders().filter_map(|pid| lines.get(&pid));
    let fullest = its.max_by(|(_, a), (_, b)| {
        a.share()
            .unwrap_or(0.0)
            .total_cmp(&b.share().unwrap_or(0.0))
    });
    let (comm, line) = fullest?;
    let limit = line.limit? as u64;
    (!is_full(line)).then(|| {
        say!(
            "{comm} had at most {open} of {limit} descriptors open",
            open = Quantity::count(line.most as u64).rows([line.row]),
            limit = Quantity::count(limit)
        )
    })
}

fn rule_out(whole: &Whole) -> Verdict {
    let story = whole.story;
    let open = of_processes(story).into_values().map(|(comm, line)| {
        let limit = line.limit?;
        let left = (limit - line.most).max(0.0);
        let step = say!(
            "{comm} had at least {left} of {limit} descriptors left",
            comm = Quantity::new(comm, comm),
            left = Quantity::count(left as u64).rows([line.row]),
            limit = Quantity::count(limit as u64)
        );
        every([Test::from((limit - line.most).max(0.0), &limits::ONE, step).below()])
    });
    let denied = story.denied.all().map(|(_, denials)| {
        let step = say!(
            "{calls} failed for lack of a descriptor",
            calls = Quantity::of(denials.count(), "call").rows([denials.row])
        );
        every([Test::from(denials.count() as f64, &limits::ONE, step)])
    });
    Verdict::nearest(open.chain(denied), "no process had its descriptors read")
}

/// The descriptors of each process, and its name.
fn of_processes(story: &Story) -> BTreeMap<u32, (&str, &Line)> {
    let lines = story.resources.of("descriptors", "process_open_files");
    let named = lines.filter_map(|(name, line)| {
        let (comm, pid) = name.rsplit_once('/')?;
        Some((pid.parse().ok()?, (comm, line)))
    });
    named.collect()
}

/// The kernel gives the next descriptor below the limit: when as many are open, there is none.
fn is_full(line: &Line) -> bool {
    line.limit
        .is_some_and(|limit| line.most >= limit && limit > limits::SANDBOX_FILES.number())
}

fn places(story: &Story) -> Vec<Full<'_>> {
    let lines = of_processes(story);
    let full = lines.iter().filter(|(_, (_, line))| is_full(line));
    let mut pids: Vec<u32> = full.map(|(pid, _)| *pid).collect();
    pids.extend(story.denied.all().map(|(pid, _)| pid));
    pids.sort_unstable();
    pids.dedup();
    pids.truncate(MAX_PER_CAUSE);
    let full = pids.into_iter().map(|pid| {
        let held = story.listeners.of_holder(pid).iter();
        let held = held.filter_map(|index| ListenerPlace::at(story, *index));
        let held = held.filter(|here| stands(*here));
        let crowded = held.max_by_key(|here| waiting_samples(*here));
        let line = lines.get(&pid);
        let seen = story.processes.get(pid).map(|seen| seen.comm.to_string());
        let comm = line.map(|(comm, _)| comm.to_string()).or(seen);
        Full {
            story,
            pid,
            comm: comm.unwrap_or_else(|| "a process".into()),
            open: line.map(|(_, line)| *line),
            denials: story.denied.of(pid).copied(),
            waits: crowded.and_then(accept_waits::at),
            crowded,
        }
    });
    full.collect()
}

/// Whether its queue is not emptied: in one that is, only an occasional sample finds a connection, and no request waits
/// long.
fn stands(here: ListenerPlace) -> bool {
    let (waiting, samples) = waiting_samples(here);
    let measured = || accept_waits::at(here).is_some_and(|waits| waits.are_measured());
    waiting >= limits::SEEN_TWICE.count() && limits::MOST.reached(waiting, samples) || measured()
}

impl Full<'_> {
    fn scope(&self) -> Scope {
        let of_listener = self.crowded.map(|here| here.scope());
        let role = match of_listener {
            Some(_) => Role::Listener,
            None => Role::Client,
        };
        let listeners = &self.story.listeners;
        let held = || {
            let first = listeners.of_holder(self.pid).first()?;
            Some(listeners.all.get(*first as usize)?.netns)
        };
        let netns = self.denials.map(|d| d.netns).or_else(held).unwrap_or(0);
        let scope = of_listener.unwrap_or_else(|| Scope {
            netns: self.story.netns(netns),
            resource: Some(format!("descriptors of pid {}", self.pid)),
            pids: vec![self.pid],
            ..Scope::default()
        });
        Scope {
            role,
            pid: Some(self.pid),
            comm: Some(self.comm.clone()),
            ..scope
        }
    }

    fn limit(&self) -> Option<u64> {
        Some(self.open?.limit? as u64)
    }

    /// Connections that waited at the last look.
    fn waiting(&self) -> u64 {
        let socks = self.crowded.iter().flat_map(|here| &here.listener.socks);
        socks
            .map(|s| u64::from(s.longest_accept_queue.0))
            .max()
            .unwrap_or(0)
    }

    fn lost(&self) -> Lost {
        let Some(here) = self.crowded else {
            return Lost::unknown();
        };
        let dropped = here.listener.drops().unwrap_or(0);
        let connects = || ConnectTimes::of(here).lost(self.story, dropped);
        match &self.waits {
            Some(waits) => waits.lost(),
            None => connects(),
        }
    }

    fn impact(&self) -> Impact {
        let failed = self.denials.map_or(0, |d| d.count());
        match (&self.waits, self.crowded) {
            (Some(waits), _) => {
                let says = format!(
                    "{} of {} waited for accept() without success, {} in total.",
                    Quantity::of(waits.count(), "connection"),
                    Quantity::count(waits.of_all()),
                    Quantity::ns(waits.waited_ns())
                );
                Impact::of(waits.count(), waits.of_all(), "connections", says)
            }
            (None, Some(_)) => {
                let n = self.waiting();
                let says = format!("{} waited for accept().", Quantity::of(n, "connection"));
                Impact::of(n, n, "connections", says)
            }
            (None, None) => {
                let says = format!("{} failed.", Quantity::of(failed, "call"));
                Impact::of(failed, failed, "calls", says)
            }
        }
    }

    fn open_step(&self) -> Option<Step> {
        let (line, limit) = (self.open?, self.limit()?);
        Some(say!(
            "It had {open} of {limit} descriptors open (RLIMIT_NOFILE): accept(), socket() and open() then fail \
             with EMFILE.",
            open = Quantity::count(line.most as u64).rows([line.row]),
            limit = Quantity::count(limit)
        ))
    }

    fn denied_step(&self) -> Option<Step> {
        let denials = self.denials?;
        let error = if denials.of_host > denials.of_process {
            "ENFILE: the host has none left"
        } else {
            "EMFILE: the process has none left"
        };
        Some(say!(
            "{failed} of its calls failed with {error}; {accepts} of them were accept().",
            failed = Quantity::count(denials.count()).rows([denials.row]),
            accepts = Quantity::count(denials.accepts)
        ))
    }

    fn process_step(&self) -> Option<Step> {
        let seen = self.story.processes.get(self.pid)?;
        let doing = self.story.processes.doing(self.pid, &self.comm);
        Some(
            Step::new(format!("{} (pid {}): {}.", self.comm, self.pid, doing.says))
                .rows([seen.row]),
        )
    }

    /// Calls that fail for lack of a descriptor are as many as fail to accept, at least one for each connection that
    /// waits at the end.
    fn check(&self) -> Option<Check> {
        match (&self.waits, self.denials, self.open) {
            (_, Some(denials), Some(line)) if denials.of_process > 0 => Some(at_least(
                "open descriptors as the kernel counts them ≥ the limit at which calls fail with EMFILE",
                line.limit? as u64,
                line.most as u64,
                "descriptors",
            )),
            (Some(waits), ..) => waits.check(),
            _ => None,
        }
    }

    fn advice(&self) -> Vec<Advice> {
        let (comm, pid) = (&self.comm, self.pid);
        let of_host = self.denials.is_some_and(|d| d.of_host > d.of_process);
        let limit = self.limit();
        let wanted = limit.unwrap_or(0).saturating_add(self.waiting());
        let value = wanted.saturating_mul(2).max(1_024).next_power_of_two();
        let look = Advice::to(format!(
            "See what the descriptors of {comm} are: if their number only grows, it fails to close some."
        ))
        .by(shell!("ls -l /proc/{pid}/fd | awk '{{print $NF}}' | sed 's/[0-9]*\\]*$//' | sort | uniq -c | sort -n", pid))
        .at("this host")
        .risk("None: it only reads.")
        .effect("Distinguishes a leak, which any limit only delays, from load.");
        let raise = if of_host {
            let name = sysctl::FILE_MAX;
            Advice::to("Raise fs.file-max: the host has no file handle left.")
                .by(shell!("sysctl {name}", name))
                .at("the host; a file in /etc/sysctl.d/ makes it permanent")
                .risk("Each open file takes about 256 bytes of kernel memory, a socket more.")
                .effect("accept(), socket() and open() succeed again.")
        } else {
            Advice::to(format!("Raise the limit of {comm} to {value} descriptors."))
        .by(shell!("prlimit --pid {pid} --nofile={value}:{value}", pid, value))
        .undo(match limit {
            Some(limit) => {
                shell!("prlimit --pid {pid} --nofile={limit}:", pid, limit).map(Undo::from)
            }
            None => Some(
                sentence!("note first what `prlimit --pid {pid} --nofile` shows, to restore it later", pid)
                    .into(),
            ),
        })
        .at("the process, at once; LimitNOFILE in its unit, or the container's ulimit, keeps it")
        .risk(
            "A program that sized a table by its limit at start-up ignores the new limit until it is \
             restarted; one that uses select() cannot go beyond 1,024. A leak fills it again.",
        )
        .effect(format!(
            "Room for {} more: waiting connections are accepted at once.",
            Quantity::count(value.saturating_sub(limit.unwrap_or(0)))
        ))
        };
        let raise = raise.change(Change::OpenFiles { pid, value });
        vec![raise, look]
    }
}

fn judge(full: &Full) -> Finding {
    let story = full.story;
    let scope = full.scope();
    let who = process(&scope);
    let all = match full.limit() {
        Some(limit) => format!("all of its {} open", Quantity::of(limit, "descriptor")),
        None => "no descriptor left".into(),
    };
    let harmed = full.crowded.is_some() || full.denials.is_some();
    let suffers = match (full.crowded, full.denials) {
        (Some(here), _) => format!(
            ": {} at {}",
            match full.waiting() {
                1 => "1 connection waits".to_string(),
                n => format!("{} wait", Quantity::of(n, "connection")),
            },
            here.listener.local
        ),
        (None, Some(d)) => format!(": {} failed", Quantity::of(d.count(), "call")),
        (None, None) => String::new(),
    };
    let raise = match full.limit() {
        Some(_) => format!(
            "Raise the open-file limit of {}, or find what it does not close.",
            full.comm
        ),
        None => "Raise the open-file limit, or find what is not closed.".into(),
    };
    let listener = full.crowded.map(|here| Place::Listener(here.index));
    let case = Case::new(story, CAUSE, scope)
        .placed(listener.unwrap_or(Place::Process(full.pid)))
        .noted((!harmed).then_some(UNHARMED))
        .title([
            format!("{who} has {all}{suffers}."),
            format!("{who} has {all}."),
            format!("{} has {all}.", full.comm),
        ])
        .fix([raise, "Raise its open-file limit, or find its leak.".into()])
        .affects(full.impact(), full.lost())
        .because(match full.denials {
            Some(_) => "the failed calls report why",
            None => "the kernel hands out no descriptor beyond the limit",
        })
        .at_most_if(
            Level::Medium,
            full.denials.is_none() && full.waits.is_none(),
            "no failed call was recorded, and how long connections waited was not measured",
        )
        .steps(full.open_step())
        .steps(full.denied_step())
        .steps(full.waits.iter().map(AcceptWaits::step))
        .steps(full.waits.iter().map(AcceptWaits::queue_step))
        .steps(full.process_step())
        .checks(full.check())
        .advise(full.advice());
    let case = match &full.waits {
        Some(waits) => case.since(waits.since()),
        None => case,
    };
    case.verify(sentence!(
        "`ls /proc/{pid}/fd | wc -l` stays below \"Max open files\" of /proc/{pid}/limits.",
        pid = full.pid
    ))
}

#[cfg(test)]
mod tests;

//! What several causes say of a listener: its scope, its processes, its limits, how certain a finding is.

use analysis::account;
use analysis::words::count;
use analysis::{Doing, Listener, ProcessState, Side, Story, What};
use recording::{RowRef, counter, sysctl};

use crate::actions::{command_in, set_sysctl};
use crate::advice::{Advice, Change};
use crate::finding::{Role, Scope};
use crate::limits;
use crate::programs::{self, Setting};
use crate::say::Quantity;
use crate::scope::application;
use crate::shell;

/// Rows shown per step: enough to look at, not a second recording.
pub(crate) const SHOWN_ROWS: usize = 3;

/// A listener with the story around it.
#[derive(Clone, Copy)]
pub(crate) struct ListenerPlace<'a> {
    pub(crate) story: &'a Story,
    pub(crate) index: u32,
    pub(crate) listener: &'a Listener,
}

impl<'a> ListenerPlace<'a> {
    /// The listener with this index.
    pub(crate) fn at(story: &'a Story, index: u32) -> Option<ListenerPlace<'a>> {
        let listener = story.listeners.all.get(index as usize)?;
        Some(ListenerPlace {
            story,
            index,
            listener,
        })
    }
}

/// Every listener of a story.
pub(crate) fn listener_places(story: &Story) -> impl Iterator<Item = ListenerPlace<'_>> {
    let all = story.listeners.all.iter().enumerate();
    all.map(move |(index, listener)| ListenerPlace {
        story,
        index: index as u32,
        listener,
    })
}

impl<'a> ListenerPlace<'a> {
    pub(crate) fn address(&self) -> String {
        self.listener.local.to_string()
    }

    /// The rise of a counter in the listener's namespace.
    pub(crate) fn rise(&self, name: &str) -> analysis::Rise {
        self.story.counters.rise(self.listener.netns, name)
    }

    /// The same, as a quantity with its rows.
    pub(crate) fn risen(&self, name: &str) -> Quantity {
        let rise = self.rise(name);
        Quantity::count(rise.by).rows(rise.rows())
    }

    /// A setting of the listener's namespace that is one number.
    pub(crate) fn setting(&self, name: &str) -> Option<u64> {
        self.story.settings.number(self.listener.netns, name)
    }

    /// The row of a setting.
    pub(crate) fn setting_row(&self, name: &str) -> Option<RowRef> {
        let value = self.story.settings.get(self.listener.netns, name)?;
        Some(value.row)
    }

    /// Connections that it accepted during the recording.
    pub(crate) fn accepted(&self) -> u64 {
        let accepted = self.story.all(&self.listener.accepted);
        accepted.filter(|(_, c)| c.side == Side::Accepted).count() as u64
    }

    /// Its connections at any time, those included that are no longer kept individually.
    pub(crate) fn connections(&self) -> u64 {
        let listener = self.listener;
        let service = (listener.netns, account::Role::Server, listener.local);
        let forgotten = account::forgotten_ends(self.story, |s| s == service);
        (listener.accepted.len() as u64).saturating_add(forgotten)
    }

    /// The row of the last listen() call.
    pub(crate) fn call_row(&self) -> Option<RowRef> {
        self.listener.call.as_ref().map(|c| c.row.into())
    }

    /// Whether the counters of its namespace were read: if not, the absence of a rise says nothing.
    pub(crate) fn is_counted(&self) -> bool {
        self.story.counters.covers(self.listener.netns)
    }

    /// SYNs that it dropped itself. Its socket also counts packets that fit no connection, and SYNs that come again
    /// because their answer was lost and are answered again: its count is used only where there are no counters.
    pub(crate) fn dropped(&self) -> u64 {
        if self.is_counted() {
            self.rise(counter::LISTEN_DROPS).by
        } else {
            self.listener.drops().unwrap_or(0)
        }
    }

    /// Last ACKs of handshakes that were dropped for this reason.
    pub(crate) fn late_acks_dropped(&self, reason: &str) -> u64 {
        let groups = self.story.packets_at(self.index, What::LateAckDropped);
        groups.filter(|g| g.is_for(reason)).map(|g| g.count).sum()
    }

    /// Last ACKs of handshakes that were dropped because the accept queue was full: the client
    /// believes it is connected. How many, and rows.
    pub(crate) fn ghosts(&self) -> (u64, Vec<RowRef>) {
        let groups = self.story.packets_at(self.index, What::LateAckDropped);
        let count = groups.clone().map(|g| g.count).sum();
        let rows = groups.flat_map(|g| g.rows.iter().copied());
        (count, rows.take(SHOWN_ROWS).collect())
    }

    /// Whether another listener's queue was seen full, and this one's never: the counters cover the whole namespace,
    /// and a listener drops packets for other reasons as well.
    pub(crate) fn is_beside_a_full_one(&self) -> bool {
        let is_full = |l: &ListenerPlace, ghosts: u64| {
            l.listener.crowded_samples().0 > 0 || l.ghosts().0 >= ghosts
        };
        let fullest = self.story.fullest_listeners(self.listener.netns).iter();
        // If the fullest of the others is not full, none is.
        let other = || fullest.clone().find(|index| **index != self.index);
        // A few drops by another listener do not account for the counters.
        let is_other = |index: &u32| {
            let other = ListenerPlace::at(self.story, *index);
            other.is_some_and(|l| is_full(&l, limits::OFTEN.count()))
        };
        !is_full(self, 1) && other().is_some_and(is_other)
    }

    /// The processes that listen there, and what each of them did.
    pub(crate) fn scope(&self) -> Scope {
        let listener = self.listener;
        let mut pids: Vec<u32> = listener.holders.iter().map(|h| h.pid).collect();
        let call = listener.call.as_ref();
        if pids.is_empty() {
            pids.extend(call.and_then(|c| c.pid));
        }
        pids.sort_unstable();
        let doing = |pid: &u32| self.story.processes.doing(*pid, self.comm(*pid));
        let processes: Vec<Doing> = pids.iter().map(doing).collect();
        let pid = self.culprit(&processes);
        let seen = pid.and_then(|pid| self.story.processes.get(pid));
        Scope {
            netns: self.story.netns(listener.netns),
            listener: self.address(),
            role: Role::Listener,
            pid,
            pids,
            comm: pid.map(|pid| match seen {
                Some(seen) => seen.comm.to_string(),
                None => self.comm(pid).to_string(),
            }),
            cmdline: seen
                .map(|s| s.cmdline.to_string())
                .filter(|c| !c.is_empty()),
            backlog: listener.backlog(),
            processes,
            ..Scope::default()
        }
    }

    /// The same, for one of its holders.
    pub(crate) fn scope_about(&self, pid: u32) -> Scope {
        let seen = self.story.processes.get(pid);
        let comm = seen.map_or(self.comm(pid), |s| &s.comm);
        let cmdline = seen.map(|s| s.cmdline.to_string());
        Scope {
            pid: Some(pid),
            comm: Some(comm.to_string()),
            cmdline: cmdline.filter(|c| !c.is_empty()),
            ..self.scope()
        }
    }

    fn comm(&self, pid: u32) -> &'a str {
        let held = self.listener.holders.iter().find(|h| h.pid == pid);
        let call = self.listener.call.as_ref();
        let called = call.filter(|c| c.pid == Some(pid));
        let called = called.and_then(|c| c.comm.as_deref());
        held.map(|h| &*h.comm).or(called).unwrap_or("")
    }

    /// The one of several holders that keeps the others waiting: one that is stopped or blocked, else a worker (a child
    /// of another holder: masters do not accept), the busiest first.
    fn culprit(&self, processes: &[Doing]) -> Option<u32> {
        let is_worker = |pid: u32| {
            let parent = self.story.processes.get(pid).map(|s| s.ppid);
            parent.is_some_and(|parent| processes.iter().any(|p| p.pid == parent))
        };
        let stuck = |p: &Doing| match p.state {
            ProcessState::Stopped | ProcessState::WasStopped => 2,
            ProcessState::Blocked => 1,
            _ => 0,
        };
        let by = processes.iter().max_by(|a, b| {
            let rank = |p: &Doing| (stuck(p), is_worker(p.pid));
            let cpu = |p: &Doing| p.cpu_share.unwrap_or(0.0);
            let by_rank = rank(a).cmp(&rank(b));
            let by_cpu = || cpu(a).total_cmp(&cpu(b));
            // On a tie the lowest pid, so that the answer does not depend on the order.
            by_rank.then_with(by_cpu).then_with(|| b.pid.cmp(&a.pid))
        });
        by.map(|p| p.pid)
    }

    /// The rows that show who holds the listener, the process in question first.
    pub(crate) fn holder_rows(&self, pid: Option<u32>) -> Vec<RowRef> {
        let seen = pid.and_then(|pid| self.story.processes.get(pid));
        let held = self.listener.holders.iter().filter(|h| Some(h.pid) == pid);
        let rows = seen.map(|s| s.row).into_iter().chain(held.map(|h| h.row));
        rows.take(SHOWN_ROWS).collect()
    }
}

/// The advice to raise a listener's backlog, and net.core.somaxconn when that would cut it.
pub(crate) fn raise_backlog(
    here: ListenerPlace,
    scope: &Scope,
    backlog: u32,
    risk: &str,
    expected: String,
) -> Vec<Advice> {
    let from = match scope.backlog {
        Some(b) => format!("from {} ", count(b.into())),
        None => String::new(),
    };
    let port = here.listener.local.port;
    let setting = Setting::Backlog {
        value: backlog,
        port,
    };
    let how = match programs::setting(scope, setting) {
        Some(how) => format!(": {how}"),
        None => ", and restart it".into(),
    };
    let larger = Advice::to(format!(
        "Raise the backlog that {} passes to listen() {from}to {}{how}.",
        application(scope),
        count(backlog.into())
    ))
    .by(command_in(&scope.netns, shell!("ss -ltn 'sport = :{port}'", port)))
    .at(format!(
        "the application's source or configuration; the command shows the limit in force as Send-Q, at \
         {}",
        scope.listener
    ))
    .risk(risk)
    .effect(expected)
    .change(Change::Backlog {
        listener: scope.listener.clone(),
        value: backlog,
    });
    let mut advice = vec![larger];
    if let Some(max) = here.setting(sysctl::SOMAXCONN)
        && max < backlog.into()
    {
        let cut = format!("It no longer cuts the backlog to {}.", count(max));
        let risk =
            "None for others: it only allows larger backlogs. listen() must be called again.";
        let allow = set_sysctl(&scope.netns, sysctl::SOMAXCONN, backlog, risk, cut);
        // Otherwise the larger backlog would be cut: the application may already ask for enough.
        let first = usize::from(scope.backlog.is_none_or(|b| u64::from(b) < max));
        advice.insert(first, allow);
    }
    advice
}

/// A backlog that holds twice `peak` connections at once, is twice the present one, and no less than servers use today.
pub(crate) fn roomy_backlog(here: ListenerPlace, peak: u64) -> u32 {
    let present = here.listener.backlog().unwrap_or(0);
    let twice = peak.max(present.into()).saturating_mul(2);
    let roomy = twice.clamp(1_024, 65_535) as u32;
    roomy.next_power_of_two().min(65_535)
}

//! What the command that ran during the recording did with its time, where most of that was not TCP's.

use std::borrow::Cow;

use analysis::words::{count, duration, rounded};
use analysis::{Conn, Story, Waited};
use recording::{Manifest, SourceName, Waker};
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::waits::{POLLS, WalkHop, hop};

/// Calls besides those of poll(2) in which programs wait for sockets; sleep(1) and shells wait in others, which have
/// nothing to do with the network.
const RECEIVES: &[&str] = &["recvfrom", "recvmsg", "recvmmsg"];

/// A command that had no TCP connection for most of its time, and waited for sockets meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandTime {
    /// Its process.
    pub pid: u32,
    /// Command name.
    pub comm: String,
    /// How long it ran, s.
    pub ran_s: f64,
    /// How long it had no TCP connection, s.
    pub without_tcp_s: f64,
    /// The longest wait in that time.
    pub longest: WalkHop,
    /// How many waits were half as long, or longer, this one among them.
    pub waits: u64,
    /// What such a wait is known from; null where it is nothing that is known.
    pub hint: Option<Cow<'static, str>>,
    /// In words.
    pub says: String,
}

/// `None` where TCP had most of its time, or may have had; and where it did not wait for sockets.
pub(crate) fn time(story: &Story, manifest: &Manifest) -> Option<CommandTime> {
    let ran = manifest.ran?;
    // Otherwise it may have had connections that were not recorded.
    let all = story.health.has(&SourceName::States) && story.tally.folded == 0;
    if !all || manifest.asked.asks_for_some() {
        return None;
    }
    let until = ran.end_ns.unwrap_or(story.end_ns);
    let ran_ns = until.saturating_sub(ran.start_ns);
    // Its children, whose numbers are higher, may have asked for it.
    let own = story
        .conns
        .iter()
        .filter(|c| c.pid.is_some_and(|pid| pid >= ran.pid));
    let had = Had::of(own, until);
    let without_ns = ran_ns.saturating_sub(had.ns(ran.start_ns, until));
    if without_ns < limits::ASKED_ABOUT.ns() || !limits::MOST.reached(without_ns, ran_ns) {
        return None;
    }
    let began = |wait: &Waited| wait.end_ns.saturating_sub(wait.waited_ns);
    let waits = story.waits.all.iter().filter(|w| w.pid == ran.pid);
    let waits: Vec<&Waited> = waits.filter(|w| had.ns(began(w), w.end_ns) == 0).collect();
    let longest = waits.iter().max_by_key(|w| w.waited_ns)?;
    let call = longest.syscall.as_deref()?;
    if !POLLS.contains(&call) && !RECEIVES.contains(&call) {
        return None;
    }
    let long = |w: &&&Waited| limits::MOST.reached(w.waited_ns, longest.waited_ns);
    let n = waits.iter().filter(long).count() as u64;
    let late_ns = longest.waited_ns.checked_sub(limits::RESOLVER_TIMEOUT.ns());
    let by_timer = matches!(longest.waker, Waker::Timer);
    let known = longest.name_server.is_some();
    let hint = !known && by_timer && late_ns.is_some_and(|ns| ns < limits::STEP_SLACK.ns());
    let hint =
        hint.then_some("5 s is how long a lookup waits for a name server that does not answer");
    let longest = hop(longest);
    let says = format!(
        "{} (pid {}) had no TCP connection for {} of the {} that it ran: {}{}{}.",
        longest.comm,
        ran.pid,
        duration(without_ns),
        duration(ran_ns),
        longest.says,
        match n {
            1 => String::new(),
            n => format!(", one of {} such waits", count(n)),
        },
        hint.map_or(String::new(), |hint| format!("; {hint}"))
    );
    Some(CommandTime {
        pid: ran.pid,
        comm: longest.comm.clone(),
        ran_s: rounded(ran_ns as f64 / 1e9),
        without_tcp_s: rounded(without_ns as f64 / 1e9),
        longest,
        waits: n,
        hint: hint.map(Cow::from),
        says,
    })
}

/// When it had a connection: from and to, ns, in order and apart from each other.
struct Had(Vec<(u64, u64)>);

impl Had {
    fn of<'a>(conns: impl Iterator<Item = &'a Conn>, until: u64) -> Had {
        let spans = conns.map(|c| (c.start_ns, c.ended_ns.unwrap_or(until)));
        let mut spans: Vec<(u64, u64)> = spans.collect();
        spans.sort_unstable();
        let mut apart: Vec<(u64, u64)> = Vec::new();
        for (from, to) in spans {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => apart.push((from, to)),
            }
        }
        Had(apart)
    }

    /// For how long it had one between two moments, ns.
    fn ns(&self, from: u64, to: u64) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let spans = self.0[first..].iter().take_while(|(start, _)| *start < to);
        let within = spans.map(|(a, b)| (*b).min(to).saturating_sub((*a).max(from)));
        within.sum()
    }
}

#[cfg(test)]
mod tests;

//! All about one line of a pane.

use analysis::account::{Percentiles, Role, ServiceKey};
use analysis::words::{duration, percent};
use analysis::{AcceptQueue, Activity};
use explain::Arrival;
use recording::Waker;
use recording::tables::Wait;

use super::findings::Findings;
use super::frame;
use super::panes::{PARTS, took, who};
use super::snapshot::{MAX_DETAILS, Snapshot};
use super::state::Target;
use super::table::curve;
use crate::how::How;
use crate::numbers::{age, endpoint, group, rate, tenth};
use crate::page::Page;
use crate::requests::{self, Share, seconds};
use crate::stat::detail::{Derived, words};
use crate::stat::listeners::Listening;
use crate::stat::sockets::Sampled;
use crate::style::{Look, Style};
use crate::text;

/// Width of curves.
const CURVE: usize = 60;

/// What is said of it, within this width.
pub(super) fn lines(
    target: &Target,
    snapshot: &Snapshot,
    findings: &Findings,
    how: &How,
    width: usize,
) -> Vec<(Look, String)> {
    let style = Style {
        width,
        rows: false,
        ..Style::default()
    };
    let mut page = Page::new(&style);
    let known = match target {
        Target::Finding(key) => finding(&mut page, key, findings, snapshot.now_ns),
        Target::Count(activity) => count(&mut page, *activity, snapshot),
        Target::Service(key) => service(&mut page, key, snapshot, how),
        Target::Listener(netns, sock) => listener(&mut page, (*netns, *sock), snapshot, how),
        Target::Socket(netns, sock) => socket(&mut page, (*netns, *sock), snapshot, how),
        Target::Thread(pid, tid) => thread(&mut page, (*pid, *tid), snapshot, how),
        Target::Function(name) => function(&mut page, name, snapshot),
    };
    if known.is_none() {
        page.paragraph("", Look::Faint, gone(target));
    }
    page.lines()
}

/// What is said of a line that is no longer there.
fn gone(target: &Target) -> &'static str {
    match target {
        Target::Finding(_) => "This finding has ended. Esc goes back.",
        Target::Count(_) => "Nothing was counted in this window. Esc goes back.",
        Target::Service(_) => "It had no requests in this window. Esc goes back.",
        Target::Listener(..) => "This listener was not sampled in this window. Esc goes back.",
        Target::Socket(..) => {
            "This connection has ended, or did nothing in these seconds. Esc goes back."
        }
        Target::Thread(..) => "This thread has ended, or only slept in this window. Esc goes back.",
        Target::Function(_) => "No CPU sample hit this function in this window. Esc goes back.",
    }
}

fn finding(page: &mut Page, key: &str, findings: &Findings, now_ns: u64) -> Option<()> {
    let case = findings.cases.iter().find(|c| c.key() == key)?;
    if !case.holds {
        let ago = age(now_ns.saturating_sub(case.last_ns));
        let says = format!("No longer found: last seen {ago} ago.");
        page.paragraph("", Look::Warning, &says);
        page.blank();
    }
    text::case(page, &case.finding, case.start_unix_ns);
    Some(())
}

fn count(page: &mut Page, activity: Activity, snapshot: &Snapshot) -> Option<()> {
    let rate_of = snapshot.rate(activity)?;
    let (name, says) = frame::shown(activity);
    page.paragraph("", Look::Title, name);
    page.paragraph("", Look::Plain, says);
    page.blank();
    page.item(
        "last second",
        Look::Plain,
        &format!("{} per second", rate(rate_of.now)),
    );
    let window = format!(
        "{} in {:.0} s: {} per second",
        group(rate_of.count as f64),
        snapshot.seconds(),
        rate(rate_of.mean)
    );
    page.item("window", Look::Plain, &window);
    page.item("last minute", Look::Command, &curve(&rate_of.curve, CURVE));
    let most = rate_of.curve.iter().copied().fold(0.0, f64::max);
    page.item(
        "at most",
        Look::Plain,
        &format!("{} per second", rate(most)),
    );
    if !rate_of.reasons.is_empty() {
        page.heading("WHY");
        for (why, n) in &rate_of.reasons {
            page.item(&group(*n as f64), Look::Plain, why);
        }
    }
    if activity == Activity::Opened {
        page.heading("HOW LONG CONNECTING TOOK");
        for percent in [50, 90, 99, 100] {
            if let Some(ns) = snapshot.connects.percentile(percent) {
                let says = format!("up to {}", took(ns));
                page.item(&format!("{percent} %"), Look::Plain, &says);
            }
        }
        let (pending, oldest) = snapshot.pending;
        if pending > 0 {
            let says = format!("{}, the oldest for {}", group(pending as f64), took(oldest));
            page.item("pending", Look::Warning, &says);
        }
    }
    let next = match activity {
        Activity::Opened | Activity::Connected | Activity::Failed => "tcpwhy trace connects",
        Activity::Accepted => "tcpwhy trace accepts",
        Activity::Closed => "tcpwhy trace states",
        Activity::SynRetransmitted | Activity::SynAckRetransmitted | Activity::Retransmitted => {
            "tcpwhy trace retransmits"
        }
        Activity::ResetSent | Activity::ResetReceived => "tcpwhy trace resets",
        Activity::Dropped => "tcpwhy trace drops",
    };
    page.heading("EACH OF THEM");
    page.item("$", Look::Command, next);
    Some(())
}

fn service(page: &mut Page, key: &ServiceKey, snapshot: &Snapshot, how: &How) -> Option<()> {
    let s = snapshot.requests.iter().find(|s| s.key == *key)?;
    let ((netns, role, at), told) = (s.key, &s.told);
    let does = match role {
        Role::Server => "answers at",
        Role::Client | Role::Unknown => "asks",
    };
    page.paragraph("", Look::Title, &format!("{does} {at}"));
    page.blank();
    if role == Role::Server {
        page.item("owner", Look::Plain, &who(&s.owner));
    }
    page.item("namespace", Look::Plain, &how.netns(netns));
    let answered = format!(
        "{} in {:.0} s: {} per second",
        group(told.exchanges as f64),
        s.over_s,
        rate(s.per_s())
    );
    page.item("answered", Look::Plain, &answered);
    let look = if told.open + told.unanswered > 0 {
        Look::Warning
    } else {
        Look::Plain
    };
    let not = format!(
        "{} for a second or longer; {} whose connections closed, {} of them abandoned by the client",
        told.open, told.unanswered, told.given_up
    );
    page.item("unanswered", look, &not);
    let percentiles = |p: &Percentiles| {
        format!(
            "p50 {}, p90 {}, p99 {}",
            seconds(p.p50_s),
            seconds(p.p90_s),
            seconds(p.p99_s)
        )
    };
    match &told.response {
        Some(response) => page.item("took", Look::Plain, &percentiles(response)),
        None if told.multiplexed => {
            let says = "multiplexed: which answer belongs to which request cannot be told";
            page.item("took", Look::Faint, says);
        }
        None => {}
    }
    if let Some(think) = &told.think {
        page.item("service time", Look::Plain, &percentiles(think));
    }
    if let Some(s) = told.round_trip_s {
        let says = format!("{}, the shortest of each connection", seconds(s));
        page.item("round trip", Look::Plain, &says);
    }
    page.heading("WHOSE TIME IT WAS");
    let total = told.spent_s.total();
    for share in requests::whose(role, told) {
        if share.s > 0.0 {
            let parts = Share::told(share.of, 0.0, &|s| percent(s / total));
            let colon = if parts.is_empty() { "" } else { ": " };
            let says = format!("{}{colon}{parts}", percent(share.s / total));
            let label = format!("  {:<17} ", share.name);
            page.paragraph(&label, Look::Plain, &says);
        }
    }
    page.heading("SLOWEST REQUESTS AND THEIR THREADS");
    for slow in &told.slowest {
        let thread = match (&slow.comm, slow.tid) {
            (Some(comm), Some(tid)) => format!("{comm} {tid}"),
            (None, Some(tid)) => format!("thread {tid}"),
            _ => "no thread known".into(),
        };
        let open = if slow.open { ", not answered" } else { "" };
        let spent = requests::spent(role, slow);
        let says = format!("{} ↔ {}, {thread}{open}: {spent}", slow.local, slow.remote);
        page.item(&seconds(slow.took_s), Look::Plain, &says);
    }
    page.heading("OVER TIME");
    page.item("$", Look::Command, "tcpwhy stat requests");
    Some(())
}

fn listener(page: &mut Page, key: (u32, u64), snapshot: &Snapshot, how: &How) -> Option<()> {
    let all = &snapshot.listeners;
    let l = all.iter().find(|l| (l.row.netns, l.row.sock) == key)?;
    let row = &l.row;
    let at = endpoint(row.local_addr, row.local_port);
    page.paragraph("", Look::Title, &at);
    page.blank();
    page.item("owner", Look::Plain, &who(&l.owner));
    page.item("namespace", Look::Plain, &how.netns(row.netns));
    let full = AcceptQueue::of(row).is_full();
    let queue = format!(
        "{} of {} wait for accept(){}",
        row.accept_queue,
        row.backlog,
        if full { ": it is full" } else { "" }
    );
    let look = if full { Look::Warning } else { Look::Plain };
    page.item("accept q", look, &queue);
    page.item("last minute", Look::Command, &curve(&l.queue, CURVE));
    let most = l.queue.iter().copied().fold(0.0, f64::max);
    page.item("at most", Look::Plain, &group(most));
    let half = format!(
        "{} half open, {} of them young",
        row.syn_queue, row.syn_queue_young
    );
    page.item("SYN queue", Look::Plain, &half);
    let drops = format!(
        "{} in the window, {} since it was made",
        l.dropped, row.drops
    );
    page.item("drops", Look::Plain, &drops);
    if row.synflood_warned {
        let says = "the kernel has logged \"Possible SYN flooding\" for it";
        page.item("warned", Look::Warning, says);
    }
    page.item(
        "accepted",
        Look::Plain,
        &format!("{} per second", Listening::ACCEPT_RATE.text(l, how)),
    );
    if row.reuseport {
        let same = all.iter().filter(|o| place(o) == place(l)).count();
        let says = format!("SO_REUSEPORT is set: {same} sockets listen here, accepted counts all");
        page.item("shared", Look::Plain, &says);
    }
    let its = |s: &&Sampled| s.row.netns == row.netns && s.row.local_port == row.local_port;
    let its: Vec<_> = snapshot
        .sockets
        .iter()
        .filter(its)
        .take(MAX_DETAILS)
        .collect();
    if !its.is_empty() {
        page.heading("ITS CONNECTIONS AMONG THE SLOWEST");
        for s in its {
            let rtt = Sampled::RTT.text(s, how);
            let retrans = s.row.total_retrans.unwrap_or(0);
            let says = format!("rtt {rtt}, retransmitted {retrans}, {}", who(&s.owner));
            let remote = endpoint(s.row.remote_addr, s.row.remote_port);
            page.paragraph(&format!("  {remote:<22} "), Look::Plain, &says);
        }
    }
    Some(())
}

fn place(l: &Listening) -> (u32, recording::Addr, u16) {
    (l.row.netns, l.row.local_addr, l.row.local_port)
}

fn socket(page: &mut Page, key: (u32, u64), snapshot: &Snapshot, how: &How) -> Option<()> {
    let mut all = snapshot.sockets.iter();
    let s = all.find(|s| (s.row.netns, s.row.sock) == key)?;
    let row = &s.row;
    let ends = format!(
        "{} to {}",
        endpoint(row.local_addr, row.local_port),
        endpoint(row.remote_addr, row.remote_port)
    );
    page.paragraph("", Look::Title, &ends);
    page.blank();
    page.item("state", Look::Plain, row.state.as_str());
    page.item("owner", Look::Plain, &who(&s.owner));
    page.item("namespace", Look::Plain, &how.netns(row.netns));
    let rate = Sampled::RATE.text(s, how);
    page.item(
        "rate",
        Look::Plain,
        &format!("{rate} in the last interval, both ways"),
    );
    let retrans = format!(
        "{} segments in the last interval, {} in total",
        s.retrans(),
        row.total_retrans.unwrap_or(0)
    );
    let look = if s.retrans() > 0 {
        Look::Warning
    } else {
        Look::Plain
    };
    page.item("retransmitted", look, &retrans);
    let queues = format!(
        "{} bytes not read, {} bytes not acknowledged",
        row.recv_queue.unwrap_or(0),
        row.send_queue.unwrap_or(0)
    );
    page.item("queues", Look::Plain, &queues);
    page.heading("AS ss -tin SHOWS IT");
    page.paragraph("  ", Look::Plain, &words(row, &Derived::of(row)));
    Some(())
}

fn thread(page: &mut Page, key: (u32, u32), snapshot: &Snapshot, how: &How) -> Option<()> {
    let mut all = snapshot.threads.iter();
    let t = all.find(|t| (t.last.pid, t.last.tid) == key)?;
    let (pid, tid) = key;
    page.paragraph("", Look::Title, &format!("{} {tid}", &*t.last.comm));
    page.blank();
    page.item("process", Look::Plain, &pid.to_string());
    for (_, part) in &PARTS {
        let name = part.head.name.trim_end_matches('%');
        page.item(name, Look::Plain, &format!("{:>5} %", part.text(t, how)));
    }
    let switches = format!("{} voluntary, {} not", t.voluntary, t.involuntary);
    page.item("switches", Look::Plain, &switches);
    let sleeps = t.sleeps.as_deref().unwrap_or_default();
    if !sleeps.is_empty() {
        page.heading("ASLEEP IN");
        for s in sleeps.iter().take(MAX_DETAILS) {
            let says = format!("{} in {} times", duration(s.ns), group(s.count as f64));
            page.item(&s.syscall, Look::Plain, &says);
        }
    }
    page.heading("ITS LONG WAITS AND WHAT ENDED THEM");
    let waits = snapshot.waits.iter().filter(|w| (w.pid, w.tid) == key);
    let waits: Vec<_> = waits.take(MAX_DETAILS).collect();
    for wait in &waits {
        page.item(&duration(wait.waited_ns), Look::Plain, &waited(wait));
    }
    if waits.is_empty() {
        let says = if snapshot.has("wait") {
            "None in this window."
        } else {
            "Waits are not recorded; `--with waits` does."
        };
        page.paragraph("  ", Look::Faint, says);
    }
    Some(())
}

fn waited(w: &Wait) -> String {
    let call = w.syscall.as_deref().unwrap_or("no system call");
    let by = match (Arrival::of(w), &w.waker) {
        (Some(arrival), _) => arrival.says(),
        (None, Waker::Task) => format!("{} {}", &*w.waker_comm, w.waker_tid),
        (None, other) => other.to_string(),
    };
    let mut says = format!("in {call}, woken by {by}");
    if let Some(ns) = w.runqueue_ns.filter(|ns| *ns >= 1_000_000) {
        says += &format!(", then {} for a CPU", duration(ns));
    }
    says
}

fn function(page: &mut Page, name: &str, snapshot: &Snapshot) -> Option<()> {
    let f = snapshot.functions.iter().find(|f| &*f.name == name)?;
    let percent = |n: u64| tenth(f.share(n) * 100.0);
    page.paragraph("", Look::Title, &f.name);
    page.blank();
    page.item(
        "itself",
        Look::Plain,
        &format!("{} % of all samples", percent(f.itself)),
    );
    let total = format!("{} %, with what it called", percent(f.total));
    page.item("in all", Look::Plain, &total);
    page.heading("CALLED BY");
    for (callers, n) in &f.callers {
        let callers = if callers.is_empty() {
            "none: it is the outermost"
        } else {
            callers
        };
        page.item(&format!("{} %", percent(*n)), Look::Plain, callers);
    }
    if f.callers.is_empty() {
        page.paragraph("  ", Look::Faint, "No sample hit the function itself.");
    }
    Some(())
}

//! C32: a namespace has as many TIME_WAIT sockets as it may: further ones close without one.

use analysis::Rise;

use crate::finding::RuledOut;
use crate::limits;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::TIME_WAIT_TABLE_FULL,
    number: "C32",
    title: "no room for further TIME_WAIT sockets",
    page: include_str!("time_wait_table_full.md"),
    layer: Layer::ThisHost,
    ground: Ground::Connections,
    needs: &[&[SourceName::Counters]],
    seen_from: || {
        "100 connections closed without TIME_WAIT; a finding where peers got resets for it".into()
    },
    signature: &[
        "TCP: time wait bucket table overflow",
        "TCPTimeWaitOverflow rises in nstat",
    ],
    rivals: &[],
    explains: &[],
    told_with: None,
    no: None,
    rule_out,
    symptom: None,
    find: |whole| {
        let story = whole.story;
        let rises = story.counters.rises(counter::TCP_TIME_WAIT_OVERFLOW);
        let found = rises.into_iter();
        let found = found.filter_map(|(netns, rise)| judge(story, netns, rise));
        found.collect()
    },
};

/// The size of a TIME_WAIT socket, bytes.
const LINUX_TIME_WAIT_BYTES: u64 = 256;

fn judge(story: &Story, netns: u32, rise: Rise) -> Option<Finding> {
    if rise.by < limits::MANY.count() {
        return None;
    }
    let limit = story.settings.get(netns, sysctl::TCP_MAX_TW_BUCKETS);
    let most = limit
        .as_ref()
        .and_then(|value| value.number(0))
        .unwrap_or(0);
    let lines = story.resources.all();
    let mut lines = lines.filter(|(name, _)| {
        name.netns == netns && &*name.resource == "socket-memory" && &*name.metric == "time_wait"
    });
    let held = lines.next().map(|(_, line)| line);
    let stray = story.packets.all().iter();
    let stray = stray.filter(|g| {
        g.netns == netns && g.what == analysis::What::ResetSent && g.is_for("NO_SOCKET")
    });
    let resets: u64 = stray.clone().map(|g| g.count).sum();
    let rows: Vec<RowRef> = stray.flat_map(|g| g.rows.iter().copied()).collect();
    let harmed = resets.saturating_mul(limits::TIME_WAIT_RESETS.count()) >= rise.by;
    let entered = story.counters.rise(netns, counter::TW).by;
    let scope = Scope {
        netns: story.netns(netns),
        resource: Some("TIME_WAIT sockets".into()),
        ..Scope::default()
    };
    let (closed, table) = (Quantity::of(rise.by, "connection"), Quantity::count(most));
    let of = entered.saturating_add(rise.by);
    let says = format!(
        "{closed} of {} that closed first had no TIME_WAIT; {} answered later packets.",
        Quantity::count(of),
        Quantity::of(resets, "reset")
    );
    let larger = most.max(1_024).saturating_mul(4);
    let name = sysctl::TCP_MAX_TW_BUCKETS;
    let raise = set_sysctl(
        &scope.netns,
        name,
        larger,
        "Memory for TIME_WAIT sockets, and longer chains if the hash table does not grow.",
        format!(
            "{} connections keep the minute that protects them from delayed packets, at {} in total.",
            Quantity::count(larger),
            Quantity::bytes(larger.saturating_mul(LINUX_TIME_WAIT_BYTES))
        ),
    );
    let case = Case::new(story, CAUSE, scope)
        .noted((!harmed).then_some("almost no packet hit a missing TIME_WAIT socket: no impact"))
        .title([
            format!("All {table} TIME_WAIT sockets are taken: {closed} closed without one."),
            format!("{closed} closed without TIME_WAIT."),
        ])
        .fix([format!("Set {name}={larger}, or keep connections open.")])
        .affects(
            Impact::of(rise.by, of, "connections", says),
            Lost::unknown(),
        )
        .because("the kernel counts the TIME_WAIT sockets that it does not create")
        .steps([say!(
            "{closed} ended without TIME_WAIT (TCPTimeWaitOverflow): {name} is {limit}.",
            closed = Quantity::of(rise.by, "connection").rows(rise.rows()),
            limit = table.rows(limit.map(|value| value.row))
        )])
        .steps((resets > 0).then(|| {
            say!(
                "{resets} answered packets for which there was no socket.",
                resets = Quantity::of(resets, "reset").rows(rows.into_iter().take(SHOWN_ROWS))
            )
        }))
        .rules_out([not_ports(story, netns)])
        .checks(held.map(|line| {
            let (at_most, limit) = (line.most.max(0.0), most as f64);
            Check {
                formula: "TIME_WAIT sockets at most = net.ipv4.tcp_max_tw_buckets".into(),
                expected: limit,
                measured: at_most,
                unit: "sockets".into(),
                agrees: limits::NEARLY_ALL.reached(at_most, limit),
                tolerance: "at most 10 % below: read once a second".into(),
            }
        }))
        .advise([raise]);
    Some(case.verify("`nstat -az TcpExtTCPTimeWaitOverflow` no longer rises."))
}

/// Connects of the namespace that found no local port.
fn not_ports(story: &Story, netns: u32) -> RuledOut {
    let connects = story.of_netns(netns).map(|(_, c)| c);
    let connects = connects.filter(|c| c.connects());
    let without = connects.filter(|c| c.failed() && c.local.port == 0).count() as u64;
    RuledOut::by(
        Id::PORTS_EXHAUSTED,
        say!(
            "{without} of the namespace found no local port",
            without = Quantity::of(without, "connect")
        ),
    )
}

fn rule_out(whole: &Whole) -> Verdict {
    let name = counter::TCP_TIME_WAIT_OVERFLOW;
    let all = whole.counted(name, counter::TW, &limits::MANY, None);
    Verdict::nearest(
        all,
        "no connection closed first on this host, as far as counters show",
    )
}

#[cfg(test)]
mod tests;

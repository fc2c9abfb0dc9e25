//! C15: the queue of received packets of a CPU is full.

use analysis::Cpu;

use crate::limits;
use crate::places::interfaces::{is_missed, missed, missed_check};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RECEIVE_BACKLOG_DROP,
    number: "C15",
    title: "the queue of received packets of a CPU is full",
    page: include_str!("receive_backlog_drop.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[&[SourceName::Cpus]],
    seen_from: "20 packets that found the queue of a CPU full, 0.1 % of what it took",
    signature: &[
        "the second column of /proc/net/softnet_stat rises (dropped)",
        "bursts of loss although no interface and no firewall drops",
    ],
    rivals: &[Id::SOFTIRQ_STARVATION],
    explains: &[],
    no: None,
    rule_out,
    symptom: Some(Symptom::Retransmits),
    find: |story| judge(story).into_iter().collect(),
};

/// The kernel's reason.
const REASON: &str = "CPU_BACKLOG";
/// What `net.core.netdev_max_backlog` is by default.
const LINUX_NETDEV_MAX_BACKLOG: u64 = 1_000;
/// So much more is advised.
const ADVISED_TIMES: u64 = 4;

fn judge(story: &Story) -> Option<Finding> {
    let full = story.cpus.all().filter(|c| c.dropped > 0);
    let full: Vec<Cpu> = full.collect();
    let lost: u64 = full.iter().map(|c| c.dropped).sum();
    let taken: u64 = full.iter().map(|c| c.processed).sum();
    let of = taken.saturating_add(lost);
    if lost < limits::HOST_DROPS.count() || (lost as f64) < limits::LOSS_GOVERNS.share() * of as f64
    {
        return None;
    }
    let groups = story.packets.all().iter().filter(|g| g.is_for(REASON));
    let of_tcp: u64 = groups.clone().map(|g| g.count).sum();
    let rows: Vec<RowRef> = groups.flat_map(|g| g.rows.iter().copied()).collect();
    let (again, _) = missed(story, true);
    let numbers: Vec<u32> = full.iter().map(|c| c.number).collect();
    let names: Vec<String> = numbers.iter().take(3).map(u32::to_string).collect();
    let place = format!("CPU {}", names.join(", "));
    let scope = Scope {
        resource: Some(place.clone()),
        ..Scope::default()
    };
    let packets = Quantity::of(lost, "packet");
    let limit = story.settings.number(0, sysctl::NETDEV_MAX_BACKLOG);
    let longer = limit
        .unwrap_or(LINUX_NETDEV_MAX_BACKLOG)
        .saturating_mul(ADVISED_TIMES);
    let says = format!(
        "{packets} of {} for {place} were dropped; any connection of this host may be hit.",
        Quantity::count(of)
    );
    let unharmed = of_tcp == 0 && !is_missed(again, lost, true);
    let case = Case::new(story, CAUSE, scope)
        .noted(unharmed.then_some("no packet of TCP was among them, and none was missed"))
        .placed(Place::Cpus(numbers))
        .title([
            format!("The queue of received packets of {place} is full: {packets} dropped."),
            format!("The queue of received packets is full: {packets} dropped."),
        ])
        .fix([format!(
            "Set {}={longer}, or spread the packets over more CPUs.",
            sysctl::NETDEV_MAX_BACKLOG
        )])
        .affects(Impact::of(lost, of, "packets", says), Lost::unknown())
        .because("softnet counts the packets that found its queue full")
        .steps([say!(
            "Softnet of {place} took {processed} and dropped {dropped}: net.core.netdev_max_backlog is {limit}.",
            processed = Quantity::of(taken, "packet"),
            dropped = Quantity::count(lost).rows(full.iter().flat_map(|c| c.rows).take(SHOWN_ROWS)),
            limit = Quantity::count(limit.unwrap_or(LINUX_NETDEV_MAX_BACKLOG))
        )])
        .steps((of_tcp > 0).then(|| {
            say!(
                "{of_tcp} of TCP were among them (reason CPU_BACKLOG).",
                of_tcp = Quantity::of(of_tcp, "packet").rows(rows.into_iter().take(SHOWN_ROWS))
            )
        }))
        .checks([missed_check(story, true, lost, true)])
        .advise(advice(longer, &place));
    Some(case.verify("The second column of /proc/net/softnet_stat no longer rises."))
}

fn advice(longer: u64, place: &str) -> [Advice; 2] {
    let name = sysctl::NETDEV_MAX_BACKLOG;
    let raise = Advice::to(format!("Set {name}={longer} on the host."))
        .by(shell!("sysctl -w {name}={longer}", name, longer))
        .at("the host's own namespace: one value for all; a file in /etc/sysctl.d/ keeps it")
        .risk("Packets may wait longer on a CPU that stays behind: it hides bursts, not a lack of CPU.")
        .effect("Bursts of that many packets wait and are not dropped.")
        .change(Change::Sysctl {
            netns: 0,
            name: name.into(),
            value: longer.to_string(),
        });
    let spread = Advice::to(format!(
        "Spread packets over more CPUs than {place}: more queues of the device, or RPS."
    ))
    .by(shell!("grep -H . /sys/class/net/*/queues/rx-*/rps_cpus"))
    .at("the host; the command shows which CPUs take the packets of each queue")
    .risk("Packets handled on another CPU than their application's cost more cache misses.")
    .effect("Each CPU's queue gets less.");
    [raise, spread]
}

fn rule_out(whole: &Whole) -> Verdict {
    let cpus = || whole.story.cpus.all();
    let lost: u64 = cpus().map(|c| c.dropped).sum();
    let of = lost.saturating_add(cpus().map(|c| c.processed).sum());
    let says = || {
        say!(
            "the queues of the CPUs (softnet) dropped {dropped} of {packets}",
            dropped = Quantity::count(lost).rows(cpus().flat_map(|c| c.rows).take(SHOWN_ROWS)),
            packets = Quantity::of(of, "packet")
        )
    };
    let tests = every([
        Test::events(lost, of, &limits::HOST_DROPS, says()),
        Test::share(lost, of, &limits::LOSS_GOVERNS, says()),
    ]);
    Verdict::nearest([tests], "no CPU was seen to take a packet")
}

#[cfg(test)]
mod tests;

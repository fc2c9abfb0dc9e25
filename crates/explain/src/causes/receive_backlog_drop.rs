//! C15: the queue of received packets of a CPU is full.

use analysis::Cpu;

use crate::limits;
use crate::places::interfaces::{is_missed, missed, missed_check};
use crate::rule::{Kind, Known, Rule, There, Way, from};
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::RECEIVE_BACKLOG_DROP,
    number: "C15",
    title: "the queue of received packets of a CPU is full",
    page: include_str!("receive_backlog_drop.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[&[SourceName::Cpus]],
    seen_from: || RULE.told_from(),
    signature: &[
        "the second column of /proc/net/softnet_stat rises (dropped)",
        "bursts of loss although no interface and no firewall drops",
        "packet loss only under load, and one CPU of the receiving host is busy",
    ],
    rivals: &[Id::SOFTIRQ_STARVATION],
    explains: &[],
    told_with: None,
    no: Some(|asked| RULE.no(asked)),
    rule_out: |whole| RULE.rule_out(whole),
    symptom: Some(Symptom::Retransmits),
    find: |whole| RULE.find(whole),
};

/// The kernel's reason.
const REASON: &str = "CPU_BACKLOG";
/// What `net.core.netdev_max_backlog` is by default.
const LINUX_NETDEV_MAX_BACKLOG: u64 = 1_000;
/// By how much more than the present value is advised.
const ADVISED_TIMES: u64 = 4;

/// Queues of received packets, as softnet counts them: of the CPUs with a full queue; of all CPUs if there was none.
struct Softnet<'a> {
    story: &'a Story,
    cpus: Vec<Cpu>,
    processed: u64,
    dropped: u64,
}

enum Queues {}

impl Kind for Queues {
    type Place<'a> = Softnet<'a>;

    const NOTHING: &'static str = "no CPU was seen to take a packet";

    fn all<'a>(whole: &Whole<'a>) -> Vec<Softnet<'a>> {
        vec![Softnet::of(whole.story)]
    }

    fn there<'a>(asked: &Asked<'a>) -> There<Softnet<'a>> {
        There::Place(Softnet::of(asked.story))
    }
}

impl<'a> Softnet<'a> {
    fn of(story: &'a Story) -> Softnet<'a> {
        let all = || story.cpus.all();
        let full: Vec<Cpu> = all().filter(|cpu| cpu.dropped > 0).collect();
        let cpus = if full.is_empty() {
            all().collect()
        } else {
            full
        };
        Softnet {
            story,
            processed: cpus.iter().map(|cpu| cpu.processed).sum(),
            dropped: cpus.iter().map(|cpu| cpu.dropped).sum(),
            cpus,
        }
    }

    /// Packets that arrived in them.
    fn packets(&self) -> u64 {
        self.processed.saturating_add(self.dropped)
    }

    fn counted(&self) -> Step {
        let rows = self.cpus.iter().flat_map(|cpu| cpu.rows);
        say!(
            "the queues of {cpus} (softnet) dropped {dropped} of {packets}",
            cpus = Quantity::of(self.cpus.len() as u64, "CPU"),
            dropped = Quantity::count(self.dropped).rows(rows.take(SHOWN_ROWS)),
            packets = Quantity::of(self.packets(), "packet")
        )
    }
}

const RULE: Rule<Queues> = Rule {
    ways: &[Way {
        tests: &[
            from(
                &limits::OFTEN_TO_ONE,
                "that found the queue of a CPU full",
                |at| Known::events(at.dropped, at.packets(), at.counted()),
            ),
            from(&limits::LOSS_GOVERNS, "of the packets it took", |at| {
                Known::share(at.dropped, at.packets(), at.counted())
            }),
        ],
        doubt: None,
    }],
    finding: |at| Some(finding(at)),
};

fn finding(at: &Softnet) -> Finding {
    let (story, lost, of) = (at.story, at.dropped, at.packets());
    let groups = story.packets.all().iter().filter(|g| g.is_for(REASON));
    let of_tcp: u64 = groups.clone().map(|g| g.count).sum();
    let rows: Vec<RowRef> = groups.flat_map(|g| g.rows.iter().copied()).collect();
    let (again, _) = missed(story, true);
    let numbers: Vec<u32> = at.cpus.iter().map(|c| c.number).collect();
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
        "{packets} of {} for {place} were dropped; any connection of this host may be affected.",
        Quantity::count(of)
    );
    let unharmed = of_tcp == 0 && !is_missed(again, lost, true);
    let case = Case::new(story, CAUSE, scope)
        .noted(unharmed.then_some("no TCP packet was among them, and none was missed"))
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
            processed = Quantity::of(at.processed, "packet"),
            dropped = Quantity::count(lost).rows(at.cpus.iter().flat_map(|c| c.rows).take(SHOWN_ROWS)),
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
    case.verify("The second column of /proc/net/softnet_stat no longer rises.")
}

fn advice(longer: u64, place: &str) -> [Advice; 2] {
    let name = sysctl::NETDEV_MAX_BACKLOG;
    let raise = Advice::to(format!("Set {name}={longer} on the host."))
        .by(shell!("sysctl -w {name}={longer}", name, longer))
        .at("the host's own namespace: one value for all; a file in /etc/sysctl.d/ makes it permanent")
        .risk("Packets may wait longer on a CPU that falls behind: it absorbs bursts, not a lack of CPU.")
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

#[cfg(test)]
mod tests;

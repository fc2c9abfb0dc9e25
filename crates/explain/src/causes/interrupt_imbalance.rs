//! C44: one CPU handles the packets of all queues of a device, and has no time left.

use std::collections::BTreeSet;

use analysis::words::percent;
use analysis::{Cpu, CpuTimes};

use crate::limits;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::INTERRUPT_IMBALANCE,
    number: "C44",
    title: "one CPU takes all packets of a device",
    page: include_str!("interrupt_imbalance.md"),
    layer: Layer::ThisHost,
    ground: Ground::Host,
    needs: &[&[SourceName::Cpus], &[SourceName::Interrupts]],
    seen_from: || {
        "a CPU that is never idle, half of it softirqs, and takes 80 % of the packets while the others are \
                idle half of their time".into()
    },
    signature: &[
        "one CPU at 100 % softirq (si in top), the others idle",
        "throughput stops growing, and only one core is busy",
        "all interrupts of a network card on CPU 0",
    ],
    rivals: &[Id::SOFTIRQ_STARVATION, Id::LOOKUP_TABLE_GROWTH],
    explains: &[],
    told_with: None,
    no: None,
    rule_out,
    symptom: None,
    find: |whole| judge(whole.story).into_iter().collect(),
};

/// Share of a CPU's time in interrupts and softirqs.
fn softirq(spent: CpuTimes) -> f64 {
    let ms = spent.softirq_ms.saturating_add(spent.irq_ms);
    ms as f64 / spent.total_ms().max(1) as f64
}

/// Interrupts of network devices: on one CPU, in all, the interfaces, rows.
struct Raised {
    here: u64,
    all: u64,
    devices: BTreeSet<(u32, String)>,
    rows: Vec<RowRef>,
}

impl Raised {
    fn on(story: &Story, cpu: u32) -> Raised {
        // `eth0.virtio0-input.0.smp_affinity_list` names a line of eth0.
        let lines = story.settings.ending(".smp_affinity_list");
        let lines: Vec<(u32, &str, &str)> = lines
            .filter_map(|(netns, name)| {
                let (device, line) = name.split_once('.')?;
                Some((netns, device, line))
            })
            .collect();
        let mut raised = Raised {
            here: 0,
            all: 0,
            devices: BTreeSet::new(),
            rows: Vec::new(),
        };
        for (behind, on, by, row) in story.interrupts.all() {
            let its = |line: &str| {
                behind
                    .strip_prefix(line)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
            };
            let Some((netns, device, _)) = lines.iter().find(|(.., line)| its(line)) else {
                continue;
            };
            raised.all = raised.all.saturating_add(by);
            if on == cpu && by > 0 {
                raised.here = raised.here.saturating_add(by);
                raised.devices.insert((*netns, device.to_string()));
                raised.rows.push(row);
            }
        }
        raised
    }

    fn share(&self) -> f64 {
        self.here as f64 / self.all.max(1) as f64
    }
}

fn judge(story: &Story) -> Option<Finding> {
    let cpus: Vec<Cpu> = story.cpus.all().collect();
    let busiest = cpus
        .iter()
        .max_by(|a, b| softirq(a.spent).total_cmp(&softirq(b.spent)))?;
    let others: Vec<&Cpu> = cpus.iter().filter(|c| c.number != busiest.number).collect();
    let rest = others.iter().map(|c| c.idle).sum::<f64>() / others.len().max(1) as f64;
    let all: u64 = cpus.iter().map(|c| c.processed).sum();
    let taken = busiest.processed as f64 / all.max(1) as f64;
    let full = softirq(busiest.spent) >= limits::MOST.share()
        && busiest.idle <= limits::SMALL_PART.share();
    let enough = all as f64 >= limits::PACKETS_PER_S.number() * story.seconds();
    if others.is_empty()
        || !full
        || rest < limits::MOST.share()
        || taken < limits::ONE_CPU_TAKES.share()
        || !enough
    {
        return None;
    }
    let raised = Raised::on(story, busiest.number);
    if raised.all < limits::ENOUGH.count() || raised.share() < limits::ONE_CPU_TAKES.share() {
        return None;
    }
    let names: Vec<String> = raised
        .devices
        .iter()
        .map(|(_, name)| name.clone())
        .collect();
    let device = analysis::words::list(&names);
    let place = format!("CPU {}", busiest.number);
    let scope = Scope {
        resource: Some(place.clone()),
        ..Scope::default()
    };
    let n = story.conns.len() as u64;
    let behind = busiest.squeezed.saturating_add(busiest.dropped) > 0;
    let (part, idle) = (percent(taken), percent(rest));
    let says = format!(
        "{place} spent {} of its time on packets and was idle for {}; all {} wait for it.",
        percent(softirq(busiest.spent)),
        percent(busiest.idle),
        Quantity::of(n, "connection")
    );
    let rows = busiest.rows;
    let case = Case::new(story, CAUSE, scope)
        .noted((!behind).then_some("it kept up: its budget never ran out with packets left"))
        .placed(Place::Cpus(vec![busiest.number]))
        .title([
            format!("{place} gets {part} of the packets ({device}) and is saturated; others are {idle} idle."),
            format!("{place} gets {part} of the packets and is saturated."),
        ])
        .fix([
            format!("Give {device} a queue for each CPU, or spread its packets by RPS."),
            "Give the device a queue for each CPU, or spread its packets by RPS.".into(),
        ])
        .affects(Impact::of(n, n, "connections", says), Lost::unknown())
        .because("the kernel counts the time of softirqs, the packets and the interrupts of each CPU")
        .steps([
            say!(
                "{place} spent {softirq_share} of its time in interrupts and softirqs and was idle for \
                 {idle}; the other {others} were idle for {others_idle}.",
                softirq_share = Quantity::share(softirq(busiest.spent)).rows(rows),
                idle = Quantity::share(busiest.idle),
                others = Quantity::of(others.len() as u64, "CPU"),
                others_idle = Quantity::share(rest)
            ),
            say!(
                "It took {taken} of {packets}, and ran out of its budget with packets left {squeezed}.",
                taken = Quantity::share(taken).rows(rows),
                packets = Quantity::of(all, "packet"),
                squeezed = Quantity::times(busiest.squeezed)
            ),
            say!(
                "It got {interrupts} of {all_interrupts} of network devices.",
                interrupts = Quantity::count(raised.here).rows(raised.rows.iter().copied().take(SHOWN_ROWS)),
                all_interrupts = Quantity::of(raised.all, "interrupt")
            ),
        ])
        .checks([alike(taken, &raised)])
        .advise(advice(&raised, cpus.len()));
    Some(case.verify("`mpstat -P ALL 1` shows %soft on several CPUs."))
}

fn alike(taken: f64, raised: &Raised) -> Check {
    let of = |share: f64| analysis::words::rounded(share * 100.0);
    Check {
        formula: "share of the packets that it took = share of the devices' interrupts that it got"
            .into(),
        expected: of(raised.share()),
        measured: of(taken),
        unit: "%".into(),
        agrees: (taken - raised.share()).abs() <= limits::ALIKE.share(),
        tolerance: "± 20 points: an interrupt brings one packet or many".into(),
    }
}

fn advice(raised: &Raised, cpus: usize) -> Vec<Advice> {
    let of_device = raised.devices.iter().map(|(netns, device)| {
        Advice::to(sentence!(
            "Give {device} {cpus} queues (`ethtool -L {device} combined {cpus}`), each with its interrupt on a CPU of \
             its own (irqbalance, or smp_affinity_list).",
            device,
            cpus
        ))
        .by(shell!("grep -H . /sys/class/net/*/queues/rx-*/rps_cpus"))
        .at(format!(
            "{device}; where it has one queue only, spread its packets by rps_cpus, which the command shows"
        ))
        .risk("Changing queues takes the link down for a moment; packets on other CPUs cost more cache misses.")
        .effect("The CPUs share the packets.")
        .change(Change::InterfaceQueues {
            netns: *netns,
            device: device.clone(),
        })
    });
    of_device.collect()
}

fn rule_out(whole: &Whole) -> Verdict {
    let cpus: Vec<Cpu> = whole.story.cpus.all().collect();
    let busiest = cpus
        .iter()
        .max_by(|a, b| softirq(a.spent).total_cmp(&softirq(b.spent)));
    let Some(busiest) = busiest.filter(|_| cpus.len() > 1) else {
        return Verdict::cannot("there are fewer than two CPUs to compare");
    };
    let others = cpus.iter().filter(|c| c.number != busiest.number);
    let rest = others.map(|c| c.idle).sum::<f64>() / (cpus.len() - 1) as f64;
    let all: u64 = cpus.iter().map(|c| c.processed).sum();
    let says = || {
        say!(
            "CPU {number} spent {softirq_share} of its time on packets, the most of all, was idle for \
             {idle} and took {taken} of {packets}; the others were idle for {others_idle}",
            number = Quantity::count(busiest.number),
            softirq_share = Quantity::share(softirq(busiest.spent)).rows(busiest.rows),
            idle = Quantity::share(busiest.idle),
            taken = Quantity::count(busiest.processed),
            packets = Quantity::of(all, "packet"),
            others_idle = Quantity::share(rest)
        )
    };
    let tests = every([
        Test::from(softirq(busiest.spent), &limits::MOST, says()),
        Test::from(busiest.idle, &limits::SMALL_PART, says()).below(),
        Test::from(rest, &limits::MOST, says()),
        Test::share(busiest.processed, all, &limits::ONE_CPU_TAKES, says()),
    ]);
    Verdict::nearest([tests], "no CPU was seen to take a packet")
}

#[cfg(test)]
mod tests;

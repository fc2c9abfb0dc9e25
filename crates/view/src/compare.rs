//! A comparison of recordings as text: the modes, what separates slow from fast, what else differs.

use analysis::words::{self, plural};
use explain::compare::{
    Attribute, By, Comparison, CpuCost, Felt, LoadLoss, Mode, Point, RunSummary, Sockets, Trend,
    Unit,
};
use explain::shell;
use explain::{Latency, account};

use crate::page::Page;
use crate::style::{Look, Style};

/// Lines of each list that are shown; JSON has them all.
const TOLD: usize = 8;
/// Services whose requests are compared.
const MAX_SERVICES: usize = 4;

/// The whole comparison; ends with a newline.
pub fn comparison(comparison: &Comparison, style: &Style) -> String {
    let mut page = Page::new(style);
    page.paragraph("", Look::Title, &headline(comparison));
    if let (By::Order, [first, second]) = (comparison.by, &comparison.runs[..]) {
        felt(&mut page, first, second);
    }
    page.heading("RECORDINGS");
    for run in &comparison.runs {
        let mode = match (comparison.by, run.slow) {
            (By::Nothing, _) => "",
            // With two, the reader says which is slow: what they moved need not show it.
            (By::Order, true) => "second",
            (By::Order, false) => "first",
            (_, true) => "slow",
            (_, false) => "fast",
        };
        let slow = match run.slow_sockets {
            0 => String::new(),
            n => format!(", {n} slow"),
        };
        let says = format!(
            "{} Mbit/s, {} that sent a lot{slow}: {}",
            figure(run.mbit_per_s),
            plural(run.sockets as u64, "socket"),
            called(run),
        );
        page.item(mode, Look::Plain, &says);
    }
    if let Some(sockets) = &comparison.sockets {
        page.heading("SLOW SOCKETS");
        slow_sockets(&mut page, sockets);
    }
    list(&mut page, "TRENDS", &comparison.trends, trend);
    losses(&mut page, comparison);
    let of_fast = &names(comparison)[0];
    list(&mut page, "KERNEL TIME BY CPU", &comparison.cpus, |cpu| {
        cost(cpu, of_fast)
    });
    let [of_fast, of_slow] = names(comparison);
    list(
        &mut page,
        "FUNCTIONS THAT GREW",
        &comparison.functions,
        |f| {
            let [fast, slow] = [f.fast_share, f.slow_share].map(percent);
            format!("{}: {slow} of all samples, {fast} in {of_fast}", f.function)
        },
    );
    list(
        &mut page,
        "COUNTERS PER SECOND",
        &comparison.counters,
        |c| {
            let mark = if c.separates {
                ""
            } else {
                "  (not in every run)"
            };
            let name = c.counter.replace('.', "");
            let [fast, slow] = [c.fast_per_s, c.slow_per_s].map(figure);
            format!("{name}: {slow} in {of_slow}, {fast} in {of_fast}{mark}")
        },
    );
    list(&mut page, "SETTINGS", &comparison.settings, |s| {
        let [fast, slow] = [&s.fast, &s.slow].map(|values| {
            if values.is_empty() {
                "not set".into()
            } else {
                values.join(" or ")
            }
        });
        format!("{}: {slow} in {of_slow}, {fast} in {of_fast}", s.setting)
    });
    let slow = comparison.runs.iter().find(|r| r.slow);
    if let Some(next) = slow.and_then(|run| shell!("tcpwhy explain {name}", name = &run.name)) {
        page.heading("NEXT");
        page.paragraph("  $ ", Look::Command, &next);
    }
    page.end()
}

pub(crate) fn headline(comparison: &Comparison) -> String {
    let runs = comparison.runs.len();
    match (comparison.by, comparison.fast, comparison.slow) {
        (By::Modes, Some(fast), Some(slow)) => format!(
            "Throughput has two modes: {} of {runs} runs at {}, {} at {} ({} less).",
            fast.count,
            mbit(&fast),
            slow.count,
            mbit(&slow),
            percent(1.0 - slow.mean / fast.mean)
        ),
        (By::Order, ..) => ordered(comparison),
        (By::Sockets, Some(fast), Some(slow)) => format!(
            "Throughput has one mode, but {} of {runs} runs have slow sockets: {}, the others {}.",
            slow.count,
            mbit(&slow),
            mbit(&fast)
        ),
        (_, Some(fast), _) if fast.max == 0.0 => match comparison.trends.first() {
            Some(most) => format!("No recording shows a transfer; {}.", trend(most)),
            None => "No recording shows a transfer, and nothing grows from one to the next.".into(),
        },
        (_, Some(fast), _) => {
            format!("Throughput has one mode: {runs} runs at {}.", mbit(&fast))
        }
        (_, None, _) => "No recording to compare.".into(),
    }
}

/// With two: which has a trouble that the other does not have.
fn ordered(comparison: &Comparison) -> String {
    let [first, second] = &comparison.runs[..] else {
        return "No recording to compare.".into();
    };
    let has = |run: &RunSummary, other: &RunSummary| {
        let mut causes: Vec<_> = run
            .felt
            .beyond(&other.felt)
            .map(|h| h.cause.to_string())
            .collect();
        causes.dedup();
        (!causes.is_empty()).then(|| {
            let [one, two] = [run, other].map(|run| stem(&run.name));
            format!("{one} has what {two} has not: {}.", causes.join(", "))
        })
    };
    match (has(second, first), has(first, second)) {
        (Some(second), Some(first)) => format!("{second} {first}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) if first.felt.findings.is_empty() => {
            format!("Neither has a finding. {}", moved(first, second))
        }
        (None, None) => format!("Both have the same findings. {}", moved(first, second)),
    }
}

/// How much they moved.
fn moved(first: &RunSummary, second: &RunSummary) -> String {
    match first.mbit_per_s + second.mbit_per_s {
        0.0 => "Neither shows a transfer. What else differs:".into(),
        _ => format!(
            "The first recording moved {} Mbit/s, the second {}.",
            figure(first.mbit_per_s),
            figure(second.mbit_per_s)
        ),
    }
}

fn mbit(mode: &Mode) -> String {
    match mode.count {
        1 => format!("{} Mbit/s", figure(mode.mean)),
        _ => format!(
            "{} Mbit/s ({} to {})",
            figure(mode.mean),
            figure(mode.min),
            figure(mode.max)
        ),
    }
}

fn slow_sockets(page: &mut Page, sockets: &Sockets) {
    page.paragraph("  ", Look::Plain, &slow_sentence(sockets));
    let tells = if sockets.attributes.is_empty() {
        "Nothing recorded sets them apart from the others."
    } else {
        "What sets them apart from the others:"
    };
    page.paragraph("  ", Look::Plain, tells);
    for attribute in sockets.attributes.iter().take(TOLD) {
        let look = if is_exact(attribute) {
            Look::Warning
        } else {
            Look::Plain
        };
        page.paragraph("  - ", look, &attribute_sentence(attribute));
    }
}

/// How many are slow, and how slow.
pub(crate) fn slow_sentence(sockets: &Sockets) -> String {
    let by = match sockets.by {
        "cwnd" => "largest congestion window",
        "rate-and-cwnd" => "best rate and largest congestion window together",
        _ => "best rate",
    };
    format!(
        "{} of {} fall behind their peers (same service) by their {by}: {} Mbit/s in the \
         median, the others {}.",
        sockets.slow,
        plural(sockets.compared as u64, "socket"),
        figure(sockets.slow_mbit_per_s),
        figure(sockets.fast_mbit_per_s)
    )
}

/// How well an attribute tells the slow from the others.
pub(crate) fn attribute_sentence(attribute: &Attribute) -> String {
    format!(
        "{} {}: precision {}, recall {} ({} of the {} that have it are slow)",
        attribute.attribute,
        attribute.value,
        share(attribute.precision),
        share(attribute.recall),
        attribute.slow,
        attribute.of
    )
}

/// All slow ones have it, and no other does.
fn is_exact(attribute: &Attribute) -> bool {
    attribute.precision == 1.0 && attribute.recall == 1.0
}

/// What the two sides are called: two recordings by their names, more by what tells them apart.
pub(crate) fn names(comparison: &Comparison) -> [String; 2] {
    match (comparison.by, &comparison.runs[..]) {
        (By::Order, [first, second]) => [first, second].map(|run| stem(&run.name)),
        _ => ["the fast".into(), "the slow".into()],
    }
}

/// The name of a recording without its directories and ending.
fn stem(name: &str) -> String {
    let file = name
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap_or(name);
    file.split(".tcpw").next().unwrap_or(file).to_string()
}

/// What users of two recordings felt: what one has that the other has not.
fn felt(page: &mut Page, first: &RunSummary, second: &RunSummary) {
    page.heading("WHAT USERS FELT");
    for (look, says) in felt_lines(first, second) {
        page.paragraph("  - ", look, &says);
    }
}

/// The same as lines: first the findings that only one has.
pub(crate) fn felt_lines(first: &RunSummary, second: &RunSummary) -> Vec<(Look, String)> {
    let mut lines = Vec::new();
    for (run, other) in [(second, first), (first, second)] {
        for held in run.felt.beyond(&other.felt).take(TOLD) {
            let says = format!(
                "only in {}: {} · {}",
                stem(&run.name),
                held.layer,
                held.title
            );
            lines.push((Look::Warning, says));
        }
    }
    let both = |says: &dyn Fn(&Felt) -> Option<String>| {
        let [one, two] = [first, second].map(|run| {
            let told = says(&run.felt).unwrap_or_else(|| "none".into());
            format!("{told} in {}", stem(&run.name))
        });
        format!("{two}; {one}")
    };
    let connects = both(&|felt| {
        let Latency { p50, p99 } = felt.connect_ms?;
        let pending = match felt.pending {
            0 => String::new(),
            n => format!(", {} pending", words::count(n)),
        };
        Some(format!(
            "p50 {} ms, p99 {} ms, slowest {} ms{pending}",
            figure(p50),
            figure(p99),
            figure(felt.slowest_connect_ms?)
        ))
    });
    lines.push((Look::Plain, format!("connects: {connects}")));
    for asked in second.felt.requests.iter().take(MAX_SERVICES) {
        let of = |felt: &Felt| {
            let mut all = felt.requests.iter();
            let same = all.find(|a| (a.role, &a.at) == (asked.role, &asked.at))?;
            let Latency { p50, p99 } = same.took_ms;
            Some(format!("p50 {} ms, p99 {} ms", figure(p50), figure(p99)))
        };
        let to = match asked.role {
            account::Role::Server => "",
            account::Role::Client | account::Role::Unknown => "→ ",
        };
        let says = format!("requests {to}{}: {}", asked.at, both(&of));
        lines.push((Look::Plain, says));
    }
    let again = both(&|felt| {
        Some(format!(
            "{} SYNs and {} segments per second",
            figure(felt.syn_retransmits_per_s),
            figure(felt.retransmits_per_s)
        ))
    });
    lines.push((Look::Plain, format!("retransmitted: {again}")));
    lines
}

/// Kernel time of a CPU, next to that of the fast ones.
pub(crate) fn cost(cpu: &CpuCost, of_fast: &str) -> String {
    let per = |what: &str, fast: Option<f64>, slow: Option<f64>| {
        let (fast, slow) = (fast?, slow?);
        Some(format!(
            "{} µs per {what}, {} in {of_fast}",
            figure(slow),
            figure(fast)
        ))
    };
    let costs = [
        per("packet", cpu.fast_us_per_packet, cpu.slow_us_per_packet),
        per(
            "interrupt",
            cpu.fast_us_per_interrupt,
            cpu.slow_us_per_interrupt,
        ),
    ];
    let costs: Vec<String> = costs.into_iter().flatten().collect();
    format!(
        "CPU {}: {} ({}×)",
        cpu.cpu,
        costs.join("; "),
        figure(cpu.ratio)
    )
}

/// A recording by its directory, and the name that its maker gave it.
pub(crate) fn called(run: &RunSummary) -> String {
    if run.labels.is_empty() {
        run.name.clone()
    } else {
        format!("{} ({})", run.name, run.labels.join(", "))
    }
}

/// From what to what, how fast, and when it comes to its limit.
pub(crate) fn trend(trend: &Trend) -> String {
    let unit = match &*trend.unit {
        "count" => String::new(),
        unit => format!(" {unit}"),
    };
    let way = if trend.per_day < 0.0 { "less" } else { "more" };
    let times = match trend.tau.abs() {
        1.0 => "each time".to_string(),
        tau => format!("mostly (Kendall's tau {})", figure(tau)),
    };
    let mut says = format!(
        "{}: {} to {}{unit}, {times} {way}: {} a day",
        trend.what,
        words::figure(trend.first),
        words::figure(trend.last),
        words::figure(trend.per_day),
    );
    if let (Some(limit), Some(days)) = (trend.limit, trend.limit_in_days) {
        says += &format!(
            "; at its limit of {} in {} days",
            words::figure(limit),
            figure(days)
        );
    }
    says
}

fn losses(page: &mut Page, comparison: &Comparison) {
    if comparison.loss_over_load.is_empty() {
        return;
    }
    page.heading("LOSS OVER LOAD");
    for loss in &comparison.loss_over_load {
        page.paragraph("  - ", Look::Plain, &loss_sentence(loss));
        // With two, the sentence has said all.
        for point in loss.points.iter().filter(|_| loss.points.len() > 2) {
            let says = format!(
                "{} ({} of {}): {}",
                lost_share(point),
                words::count(point.lost),
                words::count(point.sent),
                comparison.runs.get(point.run).map_or(String::new(), called),
            );
            let load = load(point, loss.unit);
            page.paragraph(&format!("    {load:>18} "), Look::Plain, &says);
        }
    }
}

/// What is lost: from which share at which load to which share at which load.
pub(crate) fn loss_sentence(loss: &LoadLoss) -> String {
    let (what, of) = (loss.what, loss.of);
    let (Some(first), Some(last)) = (loss.points.first(), loss.points.last()) else {
        return format!("{what}, of {of}");
    };
    let at = |p: &Point| format!("{} at {}", lost_share(p), load(p, loss.unit));
    let mut says = format!(
        "{what}, of {of}: loss rises from {} to {}",
        at(first),
        at(last)
    );
    if loss.tau < 1.0 {
        says += &format!(", mostly (Kendall's tau {})", figure(loss.tau));
    }
    if loss.points.len() > 2 {
        let [below, above] = loss.begins.map(words::figure);
        says += &format!("; the rise begins between {below} and {above}");
    }
    says
}

/// With three digits: that 0.32 % became 3.38 % is what is to be seen.
pub(crate) fn lost_share(point: &Point) -> String {
    let percent = point.share * 100.0;
    if percent > 0.0 && percent < 0.001 {
        "under 0.001 %".into()
    } else {
        format!("{} %", words::figure(percent))
    }
}

fn load(point: &Point, unit: Unit) -> String {
    format!("{} {}", words::figure(point.load), unit_name(unit))
}

pub(crate) fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Connects => "connects/s",
        Unit::Accepts => "accepts/s",
        Unit::Exchanges => "exchanges/s",
        Unit::MbitPerS => "Mbit/s",
        _ => "",
    }
}

fn list<T>(page: &mut Page, heading: &str, items: &[T], says: impl Fn(&T) -> String) {
    if items.is_empty() {
        return;
    }
    page.heading(heading);
    for item in items.iter().take(TOLD) {
        page.paragraph("  - ", Look::Plain, &says(item));
    }
}

/// A share of 0..1 with as many digits as tell it from 1.
fn share(v: f64) -> String {
    match v {
        1.0 => "1.0".into(),
        v => format!("{:.3}", (v * 1e3).floor() / 1e3),
    }
}

pub(crate) fn percent(v: f64) -> String {
    format!("{:.1} %", v * 100.0)
}

pub(crate) fn figure(v: f64) -> String {
    match v.abs() {
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        0.0 => "0".into(),
        _ => format!("{v:.2}"),
    }
}

//! Case C: the balancer whose connects are late at the daily peak.

use super::super::closed_form;
use super::super::outcome::Outcome;
use super::{Bench, Runs};
use crate::Error;
use crate::check::{Band, CheckRow, Theirs};

/// Case C: the balancer at its peak.
pub(super) fn balancer(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let peak = bench.run("unicorn", &[])?;
    let plain = bench.run("unicorn", &["older_clients=0"])?;
    let filtered = bench.run("unicorn", &["older_clients=0", "reset_loss=0.1"])?;
    let row = |figure: &str, value, values, by| {
        CheckRow::new(
            "C",
            figure,
            "%",
            (Theirs::Article, value),
            values,
            Band::By(by),
        )
    };
    // Per cent of the connects that one timeout of 1.125 s delayed, and 3.375 s in all.
    let short = |o: &Outcome| o.late_share(&peak.p, 1_100, 1_200) * 100.0;
    let long = |o: &Outcome| o.late_share(&peak.p, 3_300, 3_500) * 100.0;
    const ASSUMED: &str = "Needs an assumption that the article does not make: one connect in ten \
        comes from a host that still has tcp_rexmit_interval_initial=3000, for which one timeout is \
        3.375 s; and 122 connects per second on a host that draws 600 sequence numbers per second.";
    const NO_SECOND: &str = "The reset ends the TIME_WAIT, so that the second SYN is always taken: \
        no connect waits for two timeouts, whatever the odds.";
    const FILTERED: &str = "The other assumption: one reset in ten is lost or filtered, and the \
        TIME_WAIT stays.";
    let mut rows = vec![
        row("connects 1.1 s late", 9.0, peak.each(short), 1.0).fitted(ASSUMED),
        row("connects 3.4 s late", 1.0, peak.each(long), 0.3).fitted(ASSUMED),
        row(
            "connects 3.4 s late, all hosts alike",
            1.0,
            plain.each(long),
            0.3,
        )
        .differs(0.0, NO_SECOND),
        row(
            "connects 1.1 s late, 1 reset in 10 lost",
            9.0,
            filtered.each(short),
            1.0,
        )
        .fitted(FILTERED),
        row(
            "connects 3.4 s late, 1 reset in 10 lost",
            1.0,
            filtered.each(long),
            0.3,
        )
        .fitted(FILTERED),
    ];
    let theirs = (Theirs::Article, 10.0);
    let late = peak.each(|o| o.mean_late_ms(&peak.p));
    rows.push(
        CheckRow::new(
            "C",
            "requests later on average by",
            "ms",
            theirs,
            late,
            Band::Share(0.15),
        )
        .differs(
            130.0,
            "The article contradicts itself: 9 % of 1.125 s and 1 % of 3.375 s are 135 ms. A rise of \
             10 ms is what 0.9 % of the requests at 1.1 s would give.",
        ),
    );
    let tuned = bench.run("unicorn-tuned", &[])?;
    rows.push(row(
        "connects refused after the tuning",
        0.0,
        tuned.refused(),
        0.1,
    ));
    rows.extend(abort_interval(&tuned));
    Ok(rows)
}

/// The article's "4 × tcp_rexmit_interval_initial", by its own tunings.
fn abort_interval(tuned: &Runs) -> [CheckRow; 2] {
    /// tcp_ip_abort_interval as the article sets it, ms; the model's connections are never given up.
    const SET: f64 = 60_000.0;
    let four_times = |figure, interval: u64| {
        let times = vec![4.0 * interval as f64];
        CheckRow::new(
            "C",
            figure,
            "ms",
            (Theirs::Article, SET),
            times,
            Band::Share(0.01),
        )
    };
    [
        four_times(
            "tcp_ip_abort_interval = 4 × tcp_rexmit_interval_initial",
            tuned.p.tcp_rexmit_interval_initial,
        )
        .differs(
            600.0,
            "The article's reason for the value does not give it: with an initial interval of 150 ms four \
             of them are 600 ms.",
        ),
        four_times(
            "tcp_ip_abort_interval = 4 × tcp_rexmit_interval_max",
            tuned.p.tcp_rexmit_interval_max,
        )
        .note("What the value is four times of."),
    ]
}

/// Case C: the script that sends its requests in turn. The article gives no share of its own for it:
/// "the problem would appear again and again" is taken for the one in ten of all traffic.
pub(super) fn script(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let row = |figure: &str, theirs, runs: &Runs, tolerance| {
        let late = runs.each(|o| o.clients_refused_share(&runs.p) * 100.0);
        CheckRow::new("C", figure, "%", theirs, late, tolerance)
    };
    let article = (Theirs::Derived, 10.0);
    let alone = bench.run("unicorn-script", &[])?;
    // As much other traffic on the host as brings the sequence numbers around within two seconds.
    let endless = [
        "connects=0",
        "duration=720",
        "warm_up=120",
        "background_iss_rate=20000",
        "time_wait_collector=0",
    ];
    let most = bench.run("unicorn-script", &endless)?;
    let beside = bench.run("unicorn", &["clients=1"])?;
    let formula = closed_form::in_turn_share(&most.p, most.p.timeout_ns(false, 0) as f64 / 1e9);
    Ok(vec![
        row(
            "connects late: 10,000 requests in turn, alone",
            article,
            &alone,
            Band::By(0.3),
        )
        .differs(
            0.23,
            "Alone at its address the script cannot come to one in ten, whatever else the host does: \
             each connect that waits 1.125 s keeps the script from leaving the TIME_WAITs that the \
             next ones would meet. Swept over every parameter it stays below 3.3 % with the \
             kernel's timeout, TIME_WAIT and ports (the page on models has the table).",
        ),
        row(
            "connects late: requests in turn, alone, any other traffic",
            (Theirs::ClosedForm, formula * 100.0),
            &most,
            Band::Share(0.07),
        ),
        row(
            "connects late: requests in turn, beside the balancer's",
            article,
            &beside,
            Band::By(1.0),
        )
        .note(
            "Sent from the balancer's address to the same listener, the script meets the TIME_WAITs \
             of the balancer's 122 connects per second. That it shares them is assumed; nothing is \
             chosen for this figure.",
        ),
    ])
}

/// Case C: how it depends on the traffic.
pub(super) fn traffic(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let exact = "time_wait_collector=0";
    let quiet = bench.run("unicorn-off-peak", &[])?;
    let theirs = (Theirs::Article, 0.0);
    let figure = "connects refused at a third of the peak";
    let mut rows = vec![
        CheckRow::new("C", figure, "%", theirs, quiet.refused(), Band::By(0.1)).note(
            "A threshold, not a slope: below it nothing is refused, and three times the traffic \
             crosses it.",
        ),
    ];
    for (rate, background) in [(100.0, 300.0), (122.0, 478.0), (122.0, 2_878.0)] {
        let set = [
            exact.to_string(),
            format!("request_rate={rate}"),
            format!("background_iss_rate={background}"),
        ];
        let runs = bench.run("unicorn", &set.each_ref().map(String::as_str))?;
        let odds = closed_form::refused_share(&runs.p, rate, rate + background) * 100.0;
        let figure = format!("connects refused at {rate}/s, {} ISS/s", rate + background);
        let theirs = (Theirs::ClosedForm, odds);
        rows.push(CheckRow::new(
            "C",
            figure,
            "%",
            theirs,
            runs.refused(),
            Band::Share(0.07),
        ));
    }
    rows.push(onset(bench)?);
    Ok(rows)
}

/// From how many ISS per second on connects are refused.
fn onset(bench: &Bench) -> Result<CheckRow, Error> {
    const STEP: f64 = 5.0;
    let rate = 122.0;
    let mut found = vec![f64::NAN; bench.seeds as usize];
    let mut by_formula = 0.0;
    for step in 0..20 {
        let calls = 240.0 + f64::from(step) * STEP;
        let background = format!("background_iss_rate={}", calls - rate);
        let set = [
            "time_wait_collector=0",
            "duration=300",
            "warm_up=0",
            &background,
        ];
        let runs = bench.run("unicorn", &set)?;
        by_formula = closed_form::onset_calls(&runs.p);
        for (found, outcome) in found.iter_mut().zip(&runs.all) {
            if found.is_nan() && outcome.hit > 0 {
                *found = calls;
            }
        }
    }
    let found = found.iter().map(|f| if f.is_nan() { 0.0 } else { *f });
    Ok(CheckRow::new(
        "C",
        "ISS per second at which refusals set in",
        "1/s",
        (Theirs::ClosedForm, by_formula),
        found.collect(),
        Band::Share(0.05),
    ))
}

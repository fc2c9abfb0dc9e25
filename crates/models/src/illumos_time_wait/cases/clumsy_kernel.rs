//! Case A: the benchmark over loopback that collapses after two seconds.

use super::super::closed_form;
use super::Bench;
use crate::Error;
use crate::check::{Band, CheckRow, Theirs};

/// tcpActiveOpens of seconds 1 to 7 in case A, and how close the model has to come: seconds of the
/// collapse vary by a tenth and more from run to run.
const OPENS: [(f64, f64); 7] = [
    (4_939.0, 0.02),
    (5_849.0, 0.02),
    (1_341.0, 0.25),
    (1_006.0, 0.2),
    (872.0, 0.2),
    (932.0, 0.2),
    (879.0, 0.2),
];

/// Case A: the benchmark that collapses.
pub(super) fn collapse(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let runs = bench.run("clumsy-kernel", &[])?;
    let row = |figure: &str, unit, theirs, value, values, tolerance| {
        CheckRow::new("A", figure, unit, (theirs, value), values, tolerance)
    };
    let mut rows = Vec::new();
    for (i, (value, tolerance)) in OPENS.into_iter().enumerate() {
        let figure = format!("connects opened in second {}", i + 1);
        let opens = runs.each(|o| o.seconds[i].active as f64);
        let opened = row(
            &figure,
            "",
            Theirs::Article,
            value,
            opens,
            Band::Share(tolerance),
        );
        rows.push(match i {
            0 => opened.fitted("When the load begins within the first second is chosen by it."),
            1 => opened.fitted("What the server's thread answers per second is chosen by it."),
            2 => opened.note(
                "Agrees by the tolerance alone: the article's value is above the range of twenty \
                 seeds, 890 to 1,217, the median a fifth low. A timeout of 1.0 s instead of 1.125 s \
                 would give it, and the kernel has 1.125 s.",
            ),
            6 => opened.note(
                "Agrees by the tolerance alone, as second 3: the article's value is above the range \
                 of twenty seeds, 519 to 830. Its rate falls more slowly than the mechanism makes it \
                 fall.",
            ),
            _ => opened,
        });
    }
    let blocked = |second: usize| runs.each(|o| o.seconds[second - 1].connecting as f64);
    let tolerance = Band::By(15.0);
    rows.push(row(
        "clients blocked after second 2",
        "",
        Theirs::Derived,
        51.0,
        blocked(2),
        tolerance,
    ));
    // The closed form at the connections that each run had opened by then, in the median.
    let by_formula = runs.median(|o| {
        let opened = o.seconds[0].passive + o.seconds[1].passive;
        closed_form::blocked(&runs.p, opened as f64)
    });
    rows.push(row(
        "clients blocked after second 2",
        "",
        Theirs::ClosedForm,
        by_formula,
        blocked(2),
        tolerance,
    ));
    rows.push(row(
        "clients blocked after second 3",
        "",
        Theirs::Derived,
        100.0,
        blocked(3),
        Band::By(5.0),
    ));
    rows.push(
        row(
            "connects before the first is refused",
            "",
            Theirs::ClosedForm,
            closed_form::before_refusal(&runs.p),
            runs.each(|o| o.before_refusal.map_or(0.0, |n| n as f64)),
            Band::Share(0.03),
        )
        .note(
            "What breaks the rate: 2^31 / 250,000 connections move the sequence numbers half around. \
             How full TIME_WAIT is only decides how steeply the rate then falls.",
        ),
    );
    rows.push(
        row(
            "TIME_WAIT when the rate breaks",
            "",
            Theirs::Article,
            11_000.0,
            runs.each(|o| o.seconds[1].time_wait as f64),
            Band::Share(0.1),
        )
        .differs(
            9_100.0,
            "The article takes 11,000 for the cause, a third of the ports. The rate breaks before: \
             11,000 is what netstat shows three seconds later.",
        ),
    );
    rows.push(row(
        "TIME_WAIT after second 5",
        "",
        Theirs::Article,
        11_000.0,
        runs.each(|o| o.seconds[4].time_wait as f64),
        Band::Share(0.05),
    ));
    rows.push(row(
        "most SYNs resent in a second, 100 clients",
        "",
        Theirs::Article,
        100.0,
        runs.each(|o| o.most(3, |s| s.resent)),
        Band::Share(0.05),
    ));
    rows.push(
        row(
            "SYNs resent per second, seconds 5 to 20",
            "",
            Theirs::Article,
            100.0,
            runs.each(|o| o.mean(5, 20, |s| s.resent)),
            Band::Share(0.05),
        )
        .differs(
            89.0,
            "A steady 100 would need a timeout of 1.0 s; with 1.125 s the ceiling is 89 on average. \
             Single seconds reach 100 while the clients are still in step.",
        ),
    );
    rows.push(row(
        "resets sent / SYNs resent, seconds 4 to 20",
        "",
        Theirs::Derived,
        1.0,
        runs.each(|o| ratio(o.mean(4, 20, |s| s.resets), o.mean(4, 20, |s| s.resent))),
        Band::By(0.03),
    ));
    rows.push(row(
        "server's thread on CPU, seconds 4 to 7",
        "%",
        Theirs::Article,
        15.0,
        runs.each(|o| o.mean(4, 7, |s| s.busy_ns) / 1e7),
        Band::By(2.0),
    ));
    rows.push(
        row(
            "successes between two refusals, seconds 4 to 7",
            "",
            Theirs::Article,
            2.0,
            runs.each(|o| ratio(o.mean(4, 7, |s| s.passive), o.mean(4, 7, |s| s.refused))),
            Band::Share(0.4),
        )
        .differs(
            8.9,
            "The article's own arithmetic (two successes, then a block) fits neither its 870 to \
             1,000 connects per second, of which 100 are resent, nor its 11,000 TIME_WAITs, which \
             are 26,500 at that rate. In the long run the model comes to four.",
        ),
    );
    let more = bench.run("clumsy-kernel", &["clients=333"])?;
    rows.push(row(
        "most SYNs resent in a second, 333 clients",
        "",
        Theirs::Article,
        333.0,
        more.each(|o| o.most(3, |s| s.resent)),
        Band::Share(0.1),
    ));
    let long = bench.run("clumsy-kernel", &["duration=300", "time_wait_collector=0"])?;
    let timeout_s = long.p.timeout_ns(false, 0) as f64 / 1e9;
    rows.push(row(
        "connects opened per second, seconds 121 to 300",
        "",
        Theirs::ClosedForm,
        closed_form::settled_rate(&long.p, timeout_s),
        long.each(|o| o.mean(121, 300, |s| s.active)),
        Band::Share(0.1),
    ));
    Ok(rows)
}

/// Case A: what made it go away.
pub(super) fn controls(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let steady = |figure: &str, set: &[&str]| {
        let runs = bench.run("clumsy-kernel", set)?;
        let values =
            runs.each(|o| ratio(o.mean(11, 20, |s| s.requests), o.seconds[1].requests as f64));
        let theirs = (Theirs::Derived, 1.0);
        Ok::<_, Error>(CheckRow::new(
            "A",
            figure,
            "",
            theirs,
            values,
            Band::Share(0.02),
        ))
    };
    let figure = "requests, seconds 11 to 20 / second 2";
    let mut rows = vec![
        steady(&format!("{figure}: the later kernel"), &["loopback_fix=1"])?,
        steady(&format!("{figure}: keep-alive"), &["requests_per_connection=100"])?,
        steady(
            &format!("{figure}: 100 hosts connect"),
            &["client_addresses=100", "separate_hosts=1"],
        )?
        .note(
            "Each host has a sequence-number counter of its own, which 58 connections per second do \
             not bring half around in 60 s. That, not the number of addresses, is what keeps it \
             steady: see the next row.",
        ),
    ];
    let addresses = ["client_addresses=100", "duration=60"];
    let runs = bench.run("clumsy-kernel", &addresses)?;
    let values = runs.each(|o| ratio(o.mean(51, 60, |s| s.requests), o.seconds[1].requests as f64));
    let theirs = (Theirs::Derived, 1.0);
    let figure = "requests, seconds 51 to 60 / second 2: 100 addresses of one host";
    rows.push(
        CheckRow::new("A", figure, "", theirs, values, Band::Share(0.1)).differs(
            0.45,
            "The article's work-around is many real clients. Many addresses on the same host only \
             delay the collapse: they share the counter, which goes around every three seconds.",
        ),
    );
    Ok(rows)
}

/// 0 when there is nothing to divide by.
fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

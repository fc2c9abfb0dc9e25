//! What the article of case D reports, beside what the model gives.

use super::closed_form;
use super::outcome::Outcome;
use super::params::Params;
use super::series::Series;
use super::sim::run;
use crate::Error;
use crate::bench;
use crate::check::{Band, CheckRow, Theirs};

const CASE: &str = "D";
const PRESET: &str = "cookie-crumbs";
/// The nodes make all of their connects at once, and every handshake takes the same time: what the
/// formulas are for.
const AT_ONCE: &[&str] = &[
    "connect_interval=0",
    "handshake_jitter=0",
    "accept_time=0",
    "start_spread=1",
    "runs=400",
];
/// A run is long enough after so many seconds.
const SHORT: &str = "duration=3";

type Bench<'a> = bench::Bench<'a, Params>;

/// The run that is shown, for every seed.
fn shown(bench: &Bench, set: &[&str]) -> Result<(Params, Vec<Outcome>), Error> {
    let runs = bench.run(PRESET, &[&[SHORT][..], set].concat())?;
    Ok((runs.p, runs.all))
}

/// Per cent of the runs of a series of which something is so, for every seed.
fn share(bench: &Bench, p: &Params, of: fn(&Series) -> u32) -> Result<Vec<f64>, Error> {
    let share = |series: Series| f64::from(of(&series)) / f64::from(p.runs) * 100.0;
    bench.each(|seed| share(Series::of(p, seed)))
}

pub(super) fn check(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let mut rows = listener(bench)?;
    rows.extend(mesh(bench)?);
    rows.extend(windows(bench)?);
    rows.extend(throughput(bench)?);
    rows.extend(fixes(bench)?);
    Ok(rows)
}

/// How many requests a listener keeps.
fn listener(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    // Ten nodes with one socket to each other, all at the same moment: nine SYNs at each listener.
    let crowd = ["nodes=10", "sockets=1", "start_spread=0"];
    let kept = |rule: &str| {
        let p = bench.params(PRESET, &[AT_ONCE, &crowd, &[rule, SHORT]].concat())?;
        let cookies = bench.each(|seed| {
            let outcome = run(&p, seed, 0, &mut ());
            9.0 - outcome.cookies as f64 / 10.0
        })?;
        Ok::<_, Error>((p, cookies))
    };
    let (_, old) = kept("later_rule=0")?;
    let (p, later) = kept("later_rule=1")?;
    let figure = "requests kept of 9 at once, backlog 5";
    Ok(vec![
        CheckRow::new(CASE, figure, "", (Theirs::Article, 5.0), old, Band::By(0.0)),
        CheckRow::new(
            CASE,
            format!("{figure}, kernel of 2025"),
            "",
            (Theirs::ClosedForm, f64::from(p.queue_limit() + 1)),
            later,
            Band::By(0.0),
        )
        .note(
            "Since January 2025 the request queue is full at more than the backlog, as the accept \
             queue has always been; on 6.18 the seventh gets the first cookie, as measured.",
        ),
    ])
}

/// How many runs have a cookie, against sockets per peer and nodes.
fn mesh(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    const LUCK: &str = "The article gives no share of bad runs, nor how many sockets a node opens and \
        how close together nodes start, on which it depends. This is the formula for nodes that start \
        within 1 ms (0.2 ms for seven) and connect at once, with handshakes of 0.1 ms.";
    let mut rows = Vec::new();
    for (what, set) in [
        ("4 nodes, 1 socket per peer", &["sockets=1"][..]),
        ("4 nodes, 2 sockets per peer", &["sockets=2"]),
        ("4 nodes, 3 sockets per peer", &["sockets=3"]),
        ("4 nodes, 6 sockets per peer", &["sockets=6"]),
        ("3 nodes, 3 sockets per peer", &["nodes=3", "sockets=3"]),
        ("6 nodes, 1 socket per peer", &["nodes=6", "sockets=1"]),
        (
            "7 nodes, 1 socket per peer",
            &["nodes=7", "sockets=1", "start_spread=0.2"],
        ),
        (
            "4 nodes, 2 sockets, kernel of 2025",
            &["sockets=2", "later_rule=1"],
        ),
        (
            "4 nodes, 3 sockets, kernel of 2025",
            &["sockets=3", "later_rule=1"],
        ),
    ] {
        let p = bench.params(PRESET, &[AT_ONCE, set].concat())?;
        // No formula: none of these, unless the mechanism was changed.
        let odds = closed_form::runs_with_cookie(&p).unwrap_or(f64::NAN);
        rows.push(
            CheckRow::new(
                CASE,
                format!("runs with options lost: {what}"),
                "%",
                (Theirs::ClosedForm, odds * 100.0),
                share(bench, &p, |s| s.with_lost)?,
                Band::By(2.5),
            )
            .note(LUCK),
        );
    }
    Ok(rows)
}

/// Congestion windows of sockets with and without options.
fn windows(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    const BAND: &str = "The article's 90 to 99.5 % as its middle and half of its width. Both windows grow \
        to twice what may be in flight: 65,535 bytes without scaling, else what the application \
        sends at once (1 MiB, assumed) or the receiver's buffer holds, from 0.64 MB on for 90 %.";
    let smaller = |all: &[Outcome]| {
        let share = |o: &Outcome| o.smaller().unwrap_or(0.0) * 100.0;
        all.iter().map(share).collect::<Vec<_>>()
    };
    let row = |figure: &str, value, theirs, values, by| {
        CheckRow::new(CASE, figure, "%", (theirs, value), values, Band::By(by))
    };
    let (_, plain) = shown(bench, &[])?;
    let figure = "largest cwnd, smaller than every other's by";
    let mut rows = vec![row(figure, 94.75, Theirs::Article, smaller(&plain), 4.75).fitted(BAND)];
    for (what, window, set) in [
        (
            "0.64 MB offered",
            0.64e6,
            ["tcp_rmem=1280000", "message=16384"],
        ),
        (
            "13 MB offered",
            13e6,
            ["tcp_rmem=26000000", "message=65536"],
        ),
    ] {
        let (_, all) = shown(bench, &set)?;
        rows.push(row(
            &format!("the same, {what}"),
            closed_form::smaller(window) * 100.0,
            Theirs::ClosedForm,
            smaller(&all),
            0.3,
        ));
    }
    let (_, lossy) = shown(bench, &["loss=0.00003"])?;
    rows.push(
        row(
            "the same, 1 segment in 33,000 lost at random",
            94.75,
            Theirs::Article,
            smaller(&lossy),
            4.75,
        )
        .fitted(
            "With the same 1 MiB. The other rows are without losses, an assumption that matters. So many one of the \
             article's good sockets had retransmitted, over weeks: in most runs the band still holds, \
             in some it does not. At 1 in 2,000, as another had, it holds in none of twenty seeds (4 to \
             86 %): losses were not spread evenly, or the slow windows were smaller still.",
        ),
    );
    rows.push(
        CheckRow::new(
            CASE,
            "cwnd of the slow socket",
            "segments",
            (Theirs::Article, 10.0),
            plain.iter().map(|o| o.most_windows().0 as f64).collect(),
            Band::By(3.0),
        )
        .differs(
            92.0,
            "The article prints a socket that had sent nothing for 1.2 s and nothing twice: after an \
             idle time Linux goes back to 10, and sets ssthresh to 3/4 of what the window was. Its \
             ssthresh of 21 says 28. Here it sends all the time.",
        ),
    );
    Ok(rows)
}

/// What a slow link costs the cluster.
fn throughput(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    const RTT: &str = "Needs an assumption: a round trip of 1 ms under load, and that the load of the \
        slow link does not go elsewhere, which the article's 10 % say as well.";
    let (p, slow) = shown(bench, &[])?;
    let (_, fast) = shown(bench, &["shown=2"])?;
    let (later, slower) = shown(bench, &["loaded_rtt=1000"])?;
    let asked = p.asked() / 1e6 * f64::from(2 * p.links() * p.data_sockets);
    // What each slow link takes off, MB/s.
    let lost = |all: &[Outcome]| -> Vec<f64> {
        let of = |o: &Outcome| {
            let links = o.slow.iter().filter(|slow| **slow).count().max(1);
            (asked - o.throughput()) / links as f64
        };
        all.iter().map(of).collect()
    };
    let percent = |mb: Vec<f64>| mb.iter().map(|mb| mb / asked * 100.0).collect::<Vec<_>>();
    let row = |figure: &str, unit, theirs, value, values, tolerance| {
        CheckRow::new(CASE, figure, unit, (theirs, value), values, tolerance)
    };
    let figure = "throughput lost by a slow link";
    Ok(vec![
        row(
            "fast runs: throughput / what is asked",
            "",
            Theirs::Derived,
            1.0,
            fast.iter().map(|o| o.throughput() / asked).collect(),
            Band::By(0.01),
        ),
        row(
            figure,
            "%",
            Theirs::Article,
            10.0,
            percent(lost(&slow)),
            Band::By(2.0),
        )
        .differs(
            7.0,
            "At 0.541 ms, the round trip of the slow socket that the article prints, which was idle \
             then. Its 10 % need 0.79 ms under load, or a run with two slow links.",
        ),
        row(
            &format!("{figure}, 1 ms"),
            "%",
            Theirs::Article,
            10.0,
            percent(lost(&slower)),
            Band::By(2.0),
        )
        .fitted(RTT),
        row(
            &format!("{figure}, 1 ms"),
            "MB/s",
            Theirs::Article,
            250.0,
            lost(&slower),
            Band::By(50.0),
        )
        .fitted(RTT),
        row(
            figure,
            "MB/s",
            Theirs::ClosedForm,
            closed_form::short(&p),
            lost(&slow),
            Band::Share(0.03),
        ),
        row(
            &format!("{figure}, 1 ms"),
            "MB/s",
            Theirs::ClosedForm,
            closed_form::short(&later),
            lost(&slower),
            Band::Share(0.03),
        ),
    ])
}

/// What made it go away.
fn fixes(bench: &Bench) -> Result<Vec<CheckRow>, Error> {
    let row = |figure: &str, theirs, set: &[&str]| {
        let p = bench.params(PRESET, set)?;
        let share = share(bench, &p, |s| s.with_lost)?;
        let theirs = (theirs, 0.0);
        Ok::<_, Error>(CheckRow::new(
            CASE,
            figure,
            "%",
            theirs,
            share,
            Band::By(0.0),
        ))
    };
    Ok(vec![
        row(
            "runs with options lost: backlog 128",
            Theirs::Article,
            &["backlog=128"],
        )?,
        row(
            "runs with options lost: timestamps",
            Theirs::Derived,
            &["tcp_timestamps=1"],
        )?
        .note(
            "The article does not say so, but its sockets have no timestamps, and only then are \
             options lost: tcp_clear_options is called for SYNs without them.",
        ),
    ])
}

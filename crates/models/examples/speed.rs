//! Prints how long models take: 60 s of case A, two weeks of case B, two minutes of case E, and a
//! sweep of a hundred runs against one after the other.

use std::time::Instant;

use models::{Error, Range, find, sweep};

/// Runs per measurement; the shortest is told, as others may use the CPUs meanwhile.
const ROUNDS: u64 = 11;

fn main() -> Result<(), Error> {
    let model = find("illumos-time-wait")?;
    let parameters = model.parameters()?;
    for (what, set) in [
        ("collapse", "loopback_fix=0"),
        ("5,850 connections/s to the end", "loopback_fix=1"),
        ("the same, with TIME_WAIT", "tcp_iss_incr=1"),
    ] {
        let mut values = parameters.defaults();
        parameters.set(&mut values, "duration=60")?;
        parameters.set(&mut values, set)?;
        let took = least(|seed| model.run(&values, seed).map(drop))?;
        println!("60 s of case A, {what}: {took:.1} ms");
    }
    let dce = find("illumos-dce")?;
    for preset in ["dce-flame-graph", "more-buckets", "reclaim-threshold"] {
        let values = dce.parameters()?.preset(preset)?;
        let took = least(|seed| dce.run(&values, seed).map(drop))?;
        println!("14 days of case B and 30 s of lookups, {preset}: {took:.1} ms");
    }

    let search = find("freebsd-tcptw")?;
    let values = search.parameters()?.defaults();
    let took = least(|seed| search.run(&values, seed).map(drop))?;
    println!("120 s of case E, and 240 s before: {took:.1} ms");
    let values = parameters.defaults();
    let range = Range::parse(model, "clients=1..400", 100)?;
    let one = Instant::now();
    for clients in 0..100 {
        let mut values = values.clone();
        parameters.set(&mut values, &format!("clients={}", 1 + clients * 4))?;
        model.run(&values, 1)?;
    }
    let one = one.elapsed().as_secs_f64();
    let all = Instant::now();
    sweep(model, &values, &range, 1, 1)?;
    let all = all.elapsed().as_secs_f64();
    println!(
        "a sweep of 100 runs of 20 s: {:.0} ms, {:.1} times as fast as one after the other",
        all * 1e3,
        one / all
    );
    Ok(())
}

fn least(run: impl Fn(u64) -> Result<(), Error>) -> Result<f64, Error> {
    let mut least = f64::INFINITY;
    for seed in 1..=ROUNDS {
        let began = Instant::now();
        run(seed)?;
        least = least.min(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(least)
}

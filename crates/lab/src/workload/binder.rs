//! The binder: asks for one port over and over, as a program does that wants to know whether it is
//! free.

use std::time::{Duration, Instant};

use rustix::net::bind;
use rustix::net::sockopt::set_socket_reuseaddr;

use super::args::BinderArgs;
use super::report::{BinderReport, Spread, count, errno_name};
use super::socket::tcp_socket;
use crate::{Error, Stop};

/// How often the flag that ends the binder is looked at.
const TICK: Duration = Duration::from_millis(10);

/// Binds and closes at its rate until the flag is set or its time is over.
pub(super) fn run(args: &BinderArgs, stop: &Stop) -> Result<BinderReport, Error> {
    let mut report = BinderReport {
        role: "binder".to_string(),
        name: args.common.name.clone(),
        ..BinderReport::default()
    };
    let mut took_us = Vec::new();
    let begin = Instant::now() + Duration::from_secs_f64(args.after_ms / 1000.0);
    let end = begin + Duration::from_secs_f64(args.seconds);
    let mut next = begin;
    while !stop.is_set() && next < end {
        let now = Instant::now();
        if now < next {
            std::thread::sleep((next - now).min(TICK));
            continue;
        }
        took_us.push(ask(args, &mut report)?);
        // One that is late does not catch up: the rate is what it is at most.
        next = next.max(now) + Duration::from_secs_f64(1.0 / args.rate);
    }
    report.bind_us = Spread::of(took_us);
    Ok(report)
}

/// One question; what bind(2) took, µs.
fn ask(args: &BinderArgs, report: &mut BinderReport) -> Result<f32, Error> {
    let fd = tcp_socket(&args.bind).map_err(Error::io("making a socket"))?;
    set_socket_reuseaddr(&fd, args.reuse).map_err(Error::io("setting SO_REUSEADDR"))?;
    let before = Instant::now();
    let bound = bind(&fd, &args.bind);
    let took = before.elapsed();
    report.asked += 1;
    match bound {
        Ok(()) => report.bound += 1,
        Err(e) => count(&mut report.failed, errno_name(e)),
    }
    Ok(took.as_secs_f32() * 1e6)
}

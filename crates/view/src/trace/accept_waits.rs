//! `trace accepts --histogram`: how long connections waited for accept(), listener by listener.

use std::collections::BTreeMap;
use std::io;

use recording::Addr;

use crate::columns::{Unit, Value, columns, heads, left, right};
use crate::screen::Screen;

/// Listeners counted.
const MAX_LISTENERS: usize = 4_096;
/// Steps of a power of two, from 1 µs on: the last one holds whatever took longer than half an hour.
const STEPS: usize = 32;
/// The longest bar.
const BAR: u64 = 40;

/// How many connections of a listener waited for this long.
pub(crate) struct Waited {
    /// The last of all.
    time_ns: u64,
    netns: u32,
    at: (Addr, u16),
    step: usize,
    count: u64,
    /// The count of its listener's largest step.
    most: u64,
}

columns! {
    Waited = "accept-wait" {
        text NETNS AT FROM BELOW COUNT SHAPE;
        json TIME NETNS AT FROM BELOW COUNT;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.time_ns);
    NETNS: heads::NETNS => |l, _| Value::Netns(l.netns);
    /// The address and port that were connected to.
    AT: left("LISTENER", 21, &["local_addr", "local_port"], Unit::Address) => |l, _| Value::Endpoint(l.at.0, l.at.1);
    /// Connections that waited at least so long,
    FROM: right("FROM(ms)", 9, &["at_least_ns"], Unit::Ns) => |l, _| at_least_ns(l.step).into();
    /// and less than this.
    BELOW: right("BELOW(ms)", 9, &["below_ns"], Unit::Ns)
        => |l, _| (l.step + 1 < STEPS).then(|| at_least_ns(l.step + 1)).into();
    /// How many.
    COUNT: right("COUNT", 9, &["count"], Unit::Count) => |l, _| l.count.into();
    /// The same as a bar, of the listener's largest count.
    SHAPE: left("", 40, &[], Unit::Words) => |l, _| bar(l.count, l.most).into();
}

/// The waits of all listeners.
#[derive(Default)]
pub(super) struct Waits {
    by_listener: BTreeMap<(u32, Addr, u16), [u64; STEPS]>,
    left_out: u64,
    last_ns: u64,
}

impl Waits {
    pub(super) fn add(&mut self, time_ns: u64, netns: u32, at: (Addr, u16), ns: u64) {
        self.last_ns = self.last_ns.max(time_ns);
        let key = (netns, at.0, at.1);
        if self.by_listener.len() >= MAX_LISTENERS && !self.by_listener.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let counts = self.by_listener.entry(key).or_default();
        counts[step(ns)] += 1;
    }

    pub(super) fn show(&self, screen: &mut Screen) -> io::Result<()> {
        for ((netns, addr, port), counts) in &self.by_listener {
            let most = counts.iter().copied().max().unwrap_or(0);
            let used = |n: &u64| *n > 0;
            let from = counts.iter().position(used).unwrap_or(0);
            let to = counts.iter().rposition(used).unwrap_or(0);
            for (step, count) in counts.iter().enumerate().take(to + 1).skip(from) {
                screen.show(&Waited {
                    time_ns: self.last_ns,
                    netns: *netns,
                    at: (*addr, *port),
                    step,
                    count: *count,
                    most,
                })?;
            }
        }
        match self.left_out {
            0 => Ok(()),
            n => screen.more(&format!(
                "{n} connections of further listeners are not shown"
            )),
        }
    }
}

/// The first one begins at 0.
fn at_least_ns(step: usize) -> u64 {
    match step {
        0 => 0,
        step => 1_000 << (step - 1),
    }
}

fn step(ns: u64) -> usize {
    let us = ns / 1_000;
    (u64::BITS - us.leading_zeros()).min(STEPS as u32 - 1) as usize
}

fn bar(count: u64, most: u64) -> String {
    let length = (count * BAR).div_ceil(most.max(1)).min(BAR);
    "#".repeat(length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_meet_where_one_begins() {
        for s in 0..STEPS - 1 {
            assert_eq!(step(at_least_ns(s)), s);
            assert_eq!(step(at_least_ns(s + 1) - 1), s);
        }
        assert_eq!(step(u64::MAX), STEPS - 1);
        assert_eq!(
            (bar(1, 1_000), bar(1_000, 1_000).len(), bar(0, 0)),
            ("#".into(), 40, "".into())
        );
    }
}

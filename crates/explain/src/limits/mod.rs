//! Every number that decides an answer, declared once: its value, unit, basis and why. The book prints them.
//!
//! A number that only bounds memory, display or advice is not a limit. It stays where it is used.

mod connects;
mod findings;
mod host;
mod page;
mod paths;
mod services;
mod transfers;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::ptr;

pub use connects::*;
pub use findings::*;
pub use host::*;
pub use page::page;
pub use paths::*;
pub use services::*;
pub use transfers::*;

/// Microseconds, milliseconds and seconds in ns, and KiB in bytes, for the tables.
const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;
const KIB: u64 = 1_024;

/// A number that decides an answer.
#[derive(Debug)]
pub struct Limit {
    /// Its name in the code and in `tcpwhy-lab limits`.
    pub name: &'static str,
    /// Its declared value, in its unit. A time is in ns.
    pub value: f64,
    /// What it counts or measures.
    pub unit: Unit,
    /// Where the number comes from.
    pub basis: Basis,
    /// What is compared with it, and why it is this number.
    pub why: &'static str,
}

/// What a limit counts or measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A part of a whole; 1 is the whole.
    Share,
    /// A ratio of two amounts.
    Times,
    /// A time, in ns.
    Time,
    /// Bytes.
    Bytes,
    /// Standard deviations.
    Deviations,
    /// A rate per second.
    PerSecond,
    /// TCP segments.
    Segments,
    /// Packets.
    Packets,
    /// Connections, or attempts to connect.
    Connections,
    /// Requests with their answers.
    Exchanges,
    /// Addresses.
    Addresses,
    /// Samples.
    Samples,
    /// Events.
    Events,
    /// Anything else that can be counted.
    Count,
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The kernel's own number, or measured on the kernel.
    Kernel,
    /// A standard, or a formula from the literature.
    Rfc,
    /// It follows from how the mechanism works.
    Mechanism,
    /// It follows from how the data is sampled, or from statistics.
    Sampling,
    /// It is what people notice, ask about or want.
    People,
    /// Nothing yet: its reason would justify half or twice the value as well.
    Guess,
}

impl Basis {
    /// All of them, the strongest first.
    pub const ALL: [Basis; 6] = [
        Basis::Kernel,
        Basis::Rfc,
        Basis::Mechanism,
        Basis::Sampling,
        Basis::People,
        Basis::Guess,
    ];
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Basis::Kernel => "kernel",
            Basis::Rfc => "RFC",
            Basis::Mechanism => "mechanism",
            Basis::Sampling => "sampling",
            Basis::People => "people",
            Basis::Guess => "guess",
        })
    }
}

/// The limits of one subject.
#[derive(Debug)]
pub struct Table {
    /// The subject.
    pub title: &'static str,
    /// The limits, in the order of their declaration.
    pub limits: &'static [&'static Limit],
}

/// The limits, by subject.
pub const TABLES: &[Table] = &[
    MATTERS, COUNTS, EPISODES, RESOURCES, SYNS, FIREWALLS, LISTENERS, PORTS, LOSS, DROPS, QUEUES,
    WINDOWS, OPTIONS, NAGLE, CPUS, LOOKUPS, EXCHANGES, RESETS, REQUESTS,
];

/// All limits.
pub fn all() -> impl Iterator<Item = &'static Limit> {
    TABLES.iter().flat_map(|table| table.limits.iter().copied())
}

/// What happens when a thread reads a limit.
#[derive(Clone, Copy)]
enum Sweep {
    Off,
    /// One limit is multiplied by a factor.
    Scaled(&'static Limit, f64),
    /// The names of the limits that are read are recorded.
    Watched,
}

thread_local! {
    static SWEEP: Cell<Sweep> = const { Cell::new(Sweep::Off) };
    static READ: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// Runs something while this thread sweeps. Restores the previous mode afterwards, also after a panic.
fn sweeping<T>(how: Sweep, what: impl FnOnce() -> T) -> T {
    struct Before(Sweep);
    impl Drop for Before {
        fn drop(&mut self) {
            SWEEP.set(self.0);
        }
    }
    let _before = Before(SWEEP.replace(how));
    what()
}

/// Runs something with one limit multiplied by a factor, on this thread: what would `explain` say if the number were
/// different? Only the sweep over the corpus uses it.
pub fn scaled<T>(limit: &'static Limit, factor: f64, what: impl FnOnce() -> T) -> T {
    sweeping(Sweep::Scaled(limit, factor), what)
}

/// Runs something and records the names of the limits that it reads, on this thread. No other limit can change its
/// result.
pub fn watched<T>(what: impl FnOnce() -> T) -> (T, BTreeSet<&'static str>) {
    READ.take();
    let done = sweeping(Sweep::Watched, what);
    (done, READ.take())
}

impl Limit {
    /// The number in force, in the limit's unit. A time is in ns.
    pub fn number(&self) -> f64 {
        match SWEEP.get() {
            Sweep::Off => self.value,
            Sweep::Scaled(limit, factor) if ptr::eq(limit, self) => self.value * factor,
            Sweep::Scaled(..) => self.value,
            Sweep::Watched => {
                READ.with_borrow_mut(|read| read.insert(self.name));
                self.value
            }
        }
    }

    /// The factor by which the number might just as well be higher or lower: 2 for a guess ([`Basis::Guess`]), and for
    /// how often or how much of something people mind ([`Basis::People`]), as half of it has the same cause; else 1.
    pub(crate) fn slack(&self) -> f64 {
        match (self.basis, self.unit) {
            (Basis::Guess, _) => 2.0,
            (Basis::People, unit) if unit != Unit::Time => 2.0,
            _ => 1.0,
        }
    }

    /// The share, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.check(&[Unit::Share]);
        self.number()
    }

    /// A factor, or a number of standard deviations.
    pub fn times(&self) -> f64 {
        self.check(&[Unit::Times, Unit::Deviations]);
        self.number()
    }

    /// The count, as a whole number.
    pub fn count(&self) -> u64 {
        debug_assert!(
            !matches!(self.unit, Unit::Share | Unit::Time | Unit::Bytes),
            "{} is no count",
            self.name
        );
        self.number().round() as u64
    }

    /// The count, to compare with a length.
    pub fn as_usize(&self) -> usize {
        self.count() as usize
    }

    /// The count, to compare with a number of samples.
    pub fn as_u32(&self) -> u32 {
        self.count() as u32
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.check(&[Unit::Bytes]);
        self.number().round() as u64
    }

    /// The time in ns.
    pub fn ns(&self) -> u64 {
        self.check(&[Unit::Time]);
        self.number().round() as u64
    }

    /// The time in µs.
    pub fn us(&self) -> u32 {
        (self.ns() / US) as u32
    }

    /// The time in ms.
    pub fn ms(&self) -> u64 {
        self.ns() / MS
    }

    /// The time in seconds.
    pub fn s(&self) -> f64 {
        self.ns() as f64 / S as f64
    }

    /// Whether a part is at least this share of the whole.
    pub fn reached(&self, part: impl Amount, whole: impl Amount) -> bool {
        part.amount() >= self.share() * whole.amount()
    }

    /// Whether a part is more than this share of the whole.
    pub fn exceeded(&self, part: impl Amount, whole: impl Amount) -> bool {
        part.amount() > self.share() * whole.amount()
    }

    fn check(&self, units: &[Unit]) {
        debug_assert!(
            units.contains(&self.unit),
            "{} is of {:?}",
            self.name,
            self.unit
        );
    }
}

/// An amount that can be a part or a whole.
pub trait Amount {
    /// The amount as a floating-point number.
    fn amount(self) -> f64;
}

macro_rules! amounts {
    ($($kind:ty)+) => {$(
        impl Amount for $kind {
            fn amount(self) -> f64 {
                self as f64
            }
        }
    )+};
}

amounts! { u32 u64 usize f64 }

/// Declares a table of limits: its subject, then for each limit its why and `NAME = value, unit, basis;`.
macro_rules! limits {
    ($table:ident = $title:literal; $($(#[doc = $why:literal])+ $name:ident = $value:expr, $unit:ident, $basis:ident;)+) => {
        $(
            $(#[doc = $why])+
            pub static $name: crate::limits::Limit = crate::limits::Limit {
                name: stringify!($name),
                value: $value as f64,
                unit: crate::limits::Unit::$unit,
                basis: crate::limits::Basis::$basis,
                why: concat!($($why),+),
            };
        )+
        pub(super) const $table: crate::limits::Table = crate::limits::Table {
            title: $title,
            limits: &[$(&$name),+],
        };
    };
}
use limits;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_limit() {
        let names: BTreeSet<&str> = all().map(|limit| limit.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn a_value_is_of_its_unit() {
        for limit in all() {
            let Limit {
                name, value, unit, ..
            } = limit;
            assert!(value.is_finite() && *value > 0.0, "{name}");
            let fits = match unit {
                Unit::Share => *value <= 1.0,
                Unit::Times | Unit::Deviations | Unit::PerSecond | Unit::Count => true,
                _ => value.fract() == 0.0,
            };
            assert!(fits, "{name}: {value} of {unit:?}");
        }
    }

    #[test]
    fn a_limit_is_scaled_alone_and_for_a_while() {
        let stall = || (STALL.ns(), STALL.s(), OFTEN.count(), NOTICED.ms());
        assert_eq!(stall(), (3_000_000_000, 3.0, 5, 200));
        let half = scaled(&STALL, 0.5, stall);
        assert_eq!(half, (1_500_000_000, 1.5, 5, 200));
        let nested = scaled(&STALL, 2.0, || scaled(&NOTICED, 2.0, stall).3);
        assert_eq!(nested, 400);
        let elsewhere = scaled(&STALL, 2.0, || std::thread::spawn(|| STALL.ns()).join());
        assert_eq!(elsewhere.ok(), Some(3_000_000_000), "another thread");
        let panicked = std::panic::catch_unwind(|| scaled(&STALL, 2.0, || panic!("on purpose")));
        assert!(panicked.is_err());
        assert_eq!(stall().0, 3_000_000_000);
    }

    #[test]
    fn what_is_read_is_noted() {
        let (read, names) = watched(|| (STALL.ns(), MOST.reached(1_u32, 1_u32)));
        assert_eq!(read, (3_000_000_000, true));
        assert_eq!(names, BTreeSet::from(["MOST", "STALL"]));
        STALL.ns();
        assert_eq!(watched(|| ()).1, BTreeSet::new());
    }

    #[test]
    fn a_share_is_reached_and_then_exceeded() {
        assert!(MOST.reached(1_u32, 2_u64) && !MOST.exceeded(1_usize, 2.0));
        assert!(MOST.exceeded(3_u64, 5_u64) && !MOST.reached(2_u64, 5_u64));
    }
}

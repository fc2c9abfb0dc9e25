//! A stretch of a recording's time: which rows fall into it.

use arrow_array::{Array, RecordBatch, UInt64Array};

use crate::table::TableInfo;

/// Tables whose rows are written once and stay true.
pub(crate) const ONCE: &[&str] = &[
    "holder",
    "setting",
    "interface_address",
    "host_name",
    "cgroup",
    "stack",
    "frame",
];

/// Tables of samples whose rises are told from the first sample on: the one before is needed; how far it lies
/// before, ns.
const SAMPLED: &[&str] = &["listener", "resource", "cpu", "interrupt", "process"];
const SAMPLED_NS: u64 = 1_000_000_000;
/// Tables of what is counted now and then, and holds until it is counted again; how long that takes, ns.
const COUNTED: &[&str] = &["table_size", "port_use", "epoll"];
const COUNTED_NS: u64 = 6_000_000_000;

/// When a row happened, and of a life when the changes before its last one did.
pub(crate) const TIMES: &[&str] = &["time_ns", "connect_ns", "established_ns"];

/// From one moment to another, both included, ns of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Span {
    /// The part of it that counts for a table: what is said once was said before as well, and what is
    /// sampled had a value when it began.
    pub(crate) fn of(self, table: &TableInfo) -> Span {
        let is_of = |tables: &[&str]| tables.contains(&table.name);
        let earlier = match () {
            () if is_of(ONCE) => u64::MAX,
            () if is_of(COUNTED) => COUNTED_NS,
            () if is_of(SAMPLED) => SAMPLED_NS,
            () => 0,
        };
        Span {
            from_ns: self.from_ns.saturating_sub(earlier),
            ..self
        }
    }

    /// Whether the moment is within.
    pub(crate) fn holds(self, time_ns: u64) -> bool {
        (self.from_ns..=self.to_ns).contains(&time_ns)
    }

    /// Whether anything of what lasts from one moment to another is within.
    pub(crate) fn meets(self, first_ns: u64, last_ns: u64) -> bool {
        first_ns <= self.to_ns && last_ns >= self.from_ns
    }
}

/// When the earliest change that each row tells of happened, and the last; `None` without times.
pub(crate) fn times(batch: &RecordBatch) -> Option<impl Iterator<Item = (u64, u64)>> {
    let column = |name: &&str| {
        let column = batch.column_by_name(name)?;
        column.as_any().downcast_ref::<UInt64Array>().cloned()
    };
    let last = column(&TIMES[0])?;
    let earlier: Vec<UInt64Array> = TIMES[1..].iter().filter_map(column).collect();
    Some((0..batch.num_rows()).map(move |row| {
        let time_ns = last.value(row);
        let earlier = earlier.iter().filter(|c| c.is_valid(row));
        let first_ns = earlier.map(|c| c.value(row)).fold(time_ns, u64::min);
        (first_ns, time_ns)
    }))
}

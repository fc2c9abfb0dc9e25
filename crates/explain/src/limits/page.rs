//! The limits as the book and `tcpwhy-lab limits` print them.

use std::fmt::Write;

use analysis::words::{bytes, count, figure};

use super::{Basis, Limit, TABLES, Unit, all};

/// The book's page of limits, as Markdown. `make docs` writes it.
pub fn page() -> String {
    let mut page = String::from(
        "# The limits\n\n\
         Made from `crates/explain/src/limits/`; `make docs` writes it.\n\n\
         Every number that decides what `tcpwhy explain` says, listed once, with its basis: where the number comes \
         from. A guess is a number whose reason would justify half or twice the value as well. A measurement that \
         misses a guess by less than that does not rule a cause out; the answer is `cannot-tell`.\n\
         `tcpwhy-lab limits --sweep` says which findings of [the corpus](corpus.md) would change with it.\n\n\
         | basis | limits |\n|---|---:|\n",
    );
    for basis in Basis::ALL {
        let n = all().filter(|limit| limit.basis == basis).count();
        let _ = writeln!(page, "| {basis} | {n} |");
    }
    let _ = writeln!(page, "| all | {} |", all().count());
    for table in TABLES {
        let _ = write!(
            page,
            "\n## {}\n\n| limit | value | basis | why |\n|---|---:|---|---|\n",
            table.title
        );
        for limit in table.limits {
            let Limit { name, basis, .. } = limit;
            let why = limit.why().replace("[`", "`").replace("`]", "`");
            let _ = writeln!(page, "| `{name}` | {} | {basis} | {why} |", limit.told());
        }
    }
    page
}

impl Limit {
    /// Its value in the usual notation: `3 s`, `0.1 %`, `10 ×`, `20 segments`.
    pub fn told(&self) -> String {
        self.with(self.value)
    }

    /// Another value in its unit, in the same notation.
    pub(crate) fn with(&self, value: f64) -> String {
        let of = |one: &str, many: &str| {
            format!(
                "{} {}",
                figure(value),
                if value == 1.0 { one } else { many }
            )
        };
        match self.unit {
            Unit::Share => format!("{} %", figure(value * 100.0)),
            Unit::Times => format!("{} ×", figure(value)),
            Unit::Time => time(value),
            Unit::Bytes => bytes(value as u64),
            Unit::Deviations => format!("{} σ", figure(value)),
            Unit::PerSecond => format!("{} /s", figure(value)),
            Unit::Segments => of("segment", "segments"),
            Unit::Packets => of("packet", "packets"),
            Unit::Connections => of("connection", "connections"),
            Unit::Exchanges => of("exchange", "exchanges"),
            Unit::Addresses => of("address", "addresses"),
            Unit::Samples => of("sample", "samples"),
            Unit::Events => of("event", "events"),
            Unit::Count => figure(value),
        }
    }

    /// What is compared with it and why it is this number, on one line.
    pub fn why(&self) -> String {
        self.why.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Unit {
    /// Its name in JSON, where a time is in ms.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Share => "share",
            Unit::Times => "times",
            Unit::Time => "ms",
            Unit::Bytes => "bytes",
            Unit::Deviations => "deviations",
            Unit::PerSecond => "per second",
            Unit::Segments => "segments",
            Unit::Packets => "packets",
            Unit::Connections => "connections",
            Unit::Exchanges => "exchanges",
            Unit::Addresses => "addresses",
            Unit::Samples => "samples",
            Unit::Events => "events",
            Unit::Count => "count",
        }
    }
}

/// A time in the largest unit in which it is at least 1.
fn time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    match units.into_iter().find(|(unit, _)| ns >= *unit) {
        Some((unit, name)) => format!("{} {name}", figure(ns / unit)),
        None => format!("{} ns", count(ns as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LOSS_GOVERNS, MATHIS, OFTEN_TO_ONE, PORT_TRY, SCHEDULERS_TURN, STALL};
    use super::*;

    #[test]
    fn a_value_is_written_as_people_do() {
        let told = [&STALL, &SCHEDULERS_TURN, &PORT_TRY].map(Limit::told);
        assert_eq!(told, ["3 s", "1 ms", "65 ns"]);
        let told = [&LOSS_GOVERNS, &MATHIS, &OFTEN_TO_ONE].map(Limit::told);
        assert_eq!(told, ["0.1 %", "1.22 ×", "20 events"]);
    }
}

//! Sentences of numbers: each is written once, and brings its name, its unit and its rows along.

use std::fmt;

use analysis::words;
use recording::RowRef;

use crate::finding::{Number, Step};

/// A number as a sentence tells it, and the rows that it rests on.
#[derive(Clone, Debug)]
pub(crate) struct Quantity {
    number: Number,
    says: String,
    rows: Vec<RowRef>,
}

impl Quantity {
    /// A count: `2,410`.
    pub(crate) fn count(n: impl Into<u64>) -> Quantity {
        let n = n.into();
        Quantity::new(n, words::count(n))
    }

    /// A count and its noun: `2,410 packets`.
    pub(crate) fn of(n: impl Into<u64>, noun: &str) -> Quantity {
        let n = n.into();
        Quantity::new(n, words::plural(n, noun))
    }

    /// A share of 0..1, in per cent: `97 %`.
    pub(crate) fn share(share: f64) -> Quantity {
        Quantity::new(share, words::percent(share))
    }

    /// A duration given in µs: `10.4 ms`.
    pub(crate) fn us(us: u32) -> Quantity {
        Quantity::new(us, words::duration(u64::from(us) * 1_000))
    }

    /// A duration in µs that was computed and not measured as such: `10.4 ms`.
    pub(crate) fn real_us(us: f64) -> Quantity {
        Quantity::new(us, words::duration((us * 1e3) as u64))
    }

    /// A duration given in ns: `10.4 ms`; the number is in ms.
    pub(crate) fn ns(ns: u64) -> Quantity {
        Quantity::new(ns as f64 / 1e6, words::duration(ns))
    }

    /// Bytes: `64 kB`.
    pub(crate) fn bytes(n: impl Into<u64>) -> Quantity {
        let n = n.into();
        Quantity::new(n, words::bytes(n))
    }

    /// A rate given in bytes per second: `8.1 Mbit/s`.
    pub(crate) fn rate(bytes_per_s: f64) -> Quantity {
        Quantity::new(bytes_per_s, words::bit_rate(bytes_per_s))
    }

    /// How often: `once`, `3 times`.
    pub(crate) fn times(n: impl Into<u64>) -> Quantity {
        let n = n.into();
        let says = match n {
            1 => "once".to_string(),
            n => format!("{} times", words::count(n)),
        };
        Quantity::new(n, says)
    }

    /// A number in words of its own.
    pub(crate) fn new(number: impl Into<Number>, says: impl Into<String>) -> Quantity {
        Quantity {
            number: number.into(),
            says: says.into(),
            rows: Vec::new(),
        }
    }

    /// The same, resting on these rows.
    pub(crate) fn rows(mut self, rows: impl IntoIterator<Item = RowRef>) -> Quantity {
        self.rows.extend(rows);
        self
    }

    /// The step, with this number under a name.
    pub(crate) fn told(&self, name: &'static str, mut step: Step) -> Step {
        step.numbers.0.push((name.into(), self.number.clone()));
        step.rows(self.rows.iter().copied())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.says)
    }
}

/// A sentence with the quantities in it: `say!("It held {entries} of {limit}.", entries, limit)` is a step whose
/// numbers are `entries` and `limit`, and whose rows are theirs. A quantity that is used only here is made here:
/// `say!("{lost} were lost.", lost = Quantity::of(n, "segment"))`.
macro_rules! say {
    ($text:literal $(, $name:ident $(= $quantity:expr)?)* $(,)?) => {{
        $($(let $name = $quantity;)?)*
        let step = $crate::finding::Step::new(format!($text));
        $(let step = $name.told(stringify!($name), step);)*
        step
    }};
}
pub(crate) use say;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_brings_its_numbers_and_rows() {
        let row = RowRef {
            table: "counter",
            segment: 1,
            row: 2,
        };
        let dropped = Quantity::of(2_410u64, "packet").rows([row]);
        let share = Quantity::share(0.971);
        let step = say!("It dropped {dropped} ({share}).", dropped, share);
        assert_eq!(step.says, "It dropped 2,410 packets (97 %).");
        let numbers = [
            ("dropped".into(), Number::Count(2_410)),
            ("share".into(), Number::Real(0.971)),
        ];
        assert_eq!(step.numbers.0, numbers);
        assert_eq!(step.rows, [row]);
    }
}

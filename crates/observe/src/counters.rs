//! Source `counters`: every SNMP, TcpExt, IpExt and MPTcpExt counter of a namespace.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use recording::tables::Counter;
use recording::{TableWriter, Text, counter, monotonic_ns};

use crate::error::Error;
use crate::procfile::ProcFile;

/// Pairs of a line of names and a line of values, as the calling thread's namespace has them. No packet
/// comes or goes without a change in the first.
const SNMP: &str = "/proc/thread-self/net/snmp";
const NETSTAT: &str = "/proc/thread-self/net/netstat";

/// Told in every sample, changed or not: readers learn from it when samples were taken, which a
/// rate needs.
const ALWAYS: &str = counter::IN_SEGS;

/// Namespaces that are gone are remembered among so many: one may come back, and numbers are given anew.
const MOST_NAMESPACES: usize = 4_096;

/// The values seen last, per namespace.
#[derive(Default)]
pub struct Counters {
    names: Names,
    last: HashMap<u32, Last>,
    hasher: RandomState,
    file: ProcFile,
}

/// The counters that there are, each once for all namespaces.
#[derive(Default)]
struct Names {
    numbers: HashMap<Text, HashMap<Text, usize>>,
    /// By number.
    texts: Vec<(Text, Text)>,
}

impl Names {
    fn known(&self, group: &str, name: &str) -> Option<usize> {
        self.numbers.get(group)?.get(name).copied()
    }

    fn number(&mut self, group: &str, name: &str) -> usize {
        if let Some(number) = self.known(group, name) {
            return number;
        }
        let (group, name) = (Text::from(group), Text::from(name));
        self.texts.push((group.clone(), name.clone()));
        let number = self.texts.len() - 1;
        self.numbers.entry(group).or_default().insert(name, number);
        number
    }
}

#[derive(Default)]
struct Last {
    /// Hash of the text of `SNMP`.
    snmp: Option<u64>,
    /// By the number of the counter.
    values: Vec<i64>,
}

/// Of a counter that was never seen. None can be so low.
const NEVER: i64 = i64::MIN;

/// What a sample tells of a namespace.
pub struct Counted {
    /// A packet came or went since the last one.
    pub moved: bool,
    /// It is another one than it was then: numbers of namespaces that are gone are given anew.
    pub another: bool,
}

impl Counters {
    /// Writes the counters of the calling thread's namespace `netns` that changed. In a `young` one, made since
    /// the recording began, all that is counted is new. In one `without` sockets and packets nothing else counts
    /// either, and no more is read.
    pub fn sample(
        &mut self,
        netns: u32,
        young: bool,
        without: bool,
        rows: &mut TableWriter<Counter>,
    ) -> Result<Counted, Error> {
        let unread = |path| {
            move |why| Error::System {
                what: format!("reading {path}"),
                why,
            }
        };
        let last = self.last.entry(netns).or_default();
        let text = self.file.read(SNMP).map_err(unread(SNMP))?;
        let another = last.fell(&self.names, parse(&text));
        if another {
            *last = Last::default();
        }
        let young = young || another;
        let hash = Some(self.hasher.hash_one(&*text));
        let moved = std::mem::replace(&mut last.snmp, hash) != hash;
        let always = |(group, name, _): &_| (*group, *name) == counter::parts(ALWAYS);
        let told = parse(&text).filter(|value| moved || always(value));
        let names = &mut self.names;
        last.update(names, netns, young, monotonic_ns(), told, |row| {
            rows.push(row)
        })?;
        if moved || !without {
            let text = self.file.read(NETSTAT).map_err(unread(NETSTAT))?;
            let all = parse(&text);
            last.update(names, netns, young, monotonic_ns(), all, |row| {
                rows.push(row)
            })?;
        }
        Ok(Counted { moved, another })
    }

    /// Where there are too many, those go that are not there any more.
    pub fn forget(&mut self, is_there: impl Fn(u32) -> bool) {
        if self.last.len() > MOST_NAMESPACES {
            self.last.retain(|netns, _| is_there(*netns));
        }
    }
}

impl Last {
    fn before(&self, number: usize) -> Option<i64> {
        let value = self.values.get(number).copied();
        value.filter(|value| *value != NEVER)
    }

    fn set(&mut self, number: usize, value: i64) {
        if number >= self.values.len() {
            self.values.resize(number + 1, NEVER);
        }
        self.values[number] = value;
    }

    /// Whether what can only rise has fallen.
    fn fell<'t>(
        &self,
        names: &Names,
        mut values: impl Iterator<Item = (&'t str, &'t str, i64)>,
    ) -> bool {
        let (group, name) = counter::parts(ALWAYS);
        let now = values.find(|value| (value.0, value.1) == (group, name));
        let before = names.known(group, name).and_then(|n| self.before(n));
        now.zip(before).is_some_and(|(now, before)| now.2 < before)
    }

    fn update<'t, E>(
        &mut self,
        names: &mut Names,
        netns: u32,
        young: bool,
        time_ns: u64,
        values: impl Iterator<Item = (&'t str, &'t str, i64)>,
        mut push: impl FnMut(Counter) -> Result<(), E>,
    ) -> Result<(), E> {
        for (group, name, value) in values {
            let number = names.number(group, name);
            let before = self.before(number).or(young.then_some(0));
            // A counter that was never seen is told unless it is zero: then nothing happened.
            let changed = before.map_or(value != 0, |before| before != value);
            if changed || (group, name) == counter::parts(ALWAYS) {
                let (group, name) = names.texts[number].clone();
                push(Counter {
                    time_ns,
                    netns,
                    group,
                    name,
                    value,
                    delta: before.map(|before| value.wrapping_sub(before)),
                })?;
            }
            self.set(number, value);
        }
        Ok(())
    }
}

/// `Group: name name …` followed by `Group: value value …`. Signed, as `Tcp MaxConn` is -1.
fn parse(text: &str) -> impl Iterator<Item = (&str, &str, i64)> {
    let mut lines = text.lines();
    let pairs = std::iter::from_fn(move || Some((lines.next()?, lines.next()?)));
    pairs.flat_map(|(names, values)| {
        let (group, names) = names.split_once(':').unwrap_or(("", ""));
        let (again, values) = values.split_once(':').unwrap_or((" ", ""));
        let fits = group == again;
        let cells = names
            .split_ascii_whitespace()
            .zip(values.split_ascii_whitespace());
        cells
            .filter(move |_| fits)
            .filter_map(move |(name, value)| Some((group, name, value.parse().ok()?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Tcp: RtoMin MaxConn ActiveOpens\nTcp: 200 -1 7\n\
                        TcpExt: A B\nTcpExt: 0 3\n";

    /// Of the one namespace that there is.
    #[derive(Default)]
    struct One {
        names: Names,
        last: Last,
    }

    impl One {
        fn fell(&self, text: &str) -> bool {
            self.last.fell(&self.names, parse(text))
        }
    }

    fn rows(c: &mut One, text: &str) -> Vec<(String, i64, Option<i64>)> {
        let mut rows = Vec::new();
        let push = |r: Counter| -> Result<(), ()> {
            rows.push((format!("{}.{}", r.group, r.name), r.value, r.delta));
            Ok(())
        };
        let names = &mut c.names;
        c.last
            .update(names, 1, false, 0, parse(text), push)
            .unwrap();
        rows
    }

    #[test]
    fn first_sample_has_no_delta_and_later_ones_only_changes() {
        let mut c = One::default();
        let first = rows(&mut c, SNMP);
        assert!(first.contains(&("Tcp.MaxConn".into(), -1, None)));
        assert!(first.contains(&("TcpExt.B".into(), 3, None)));
        assert!(
            !first.iter().any(|r| r.0 == "TcpExt.A"),
            "zero says nothing"
        );
        let later = rows(&mut c, &SNMP.replace("-1 7", "-1 9").replace("0 3", "1 3"));
        assert_eq!(
            later,
            [
                ("Tcp.ActiveOpens".into(), 9, Some(2)),
                ("TcpExt.A".into(), 1, Some(1))
            ]
        );
    }

    #[test]
    fn every_sample_leaves_a_row() {
        let mut c = One::default();
        let text = "Tcp: InSegs OutSegs\nTcp: 0 0\n";
        assert_eq!(rows(&mut c, text), [("Tcp.InSegs".into(), 0, None)]);
        assert_eq!(rows(&mut c, text), [("Tcp.InSegs".into(), 0, Some(0))]);
    }

    #[test]
    fn a_young_namespace_counts_from_zero() {
        let mut deltas = Vec::new();
        let push = |r: Counter| -> Result<(), ()> {
            deltas.extend(r.delta);
            Ok(())
        };
        Last::default()
            .update(
                &mut Names::default(),
                1,
                true,
                0,
                parse("Tcp: A B\nTcp: 0 5\n"),
                push,
            )
            .unwrap();
        assert_eq!(deltas, [5]);
    }

    #[test]
    fn a_namespace_with_the_number_of_one_that_is_gone_counts_less() {
        let text = "Tcp: RtoMin InSegs\nTcp: 200 7\n";
        let mut c = One::default();
        assert!(!c.fell(text));
        rows(&mut c, text);
        assert!(!c.fell(text) && !c.fell(&text.replace('7', "8")));
        assert!(c.fell(&text.replace('7', "3")));
    }

    #[test]
    fn lines_that_do_not_pair_are_passed_over() {
        assert_eq!(parse("Tcp: A\nUdp: 1\nTcp: B\n").count(), 0);
        assert_eq!(parse("no colon\nat all").count(), 0);
    }
}

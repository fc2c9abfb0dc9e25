//! Source `counters`: every SNMP, TcpExt, IpExt and MPTcpExt counter of a namespace.

use std::collections::HashMap;

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

/// The values seen last, per namespace.
#[derive(Default)]
pub struct Counters {
    last: HashMap<u32, Last>,
    file: ProcFile,
}

#[derive(Default)]
struct Last {
    /// The text of `SNMP`.
    snmp: String,
    values: HashMap<(Text, Text), i64>,
}

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
        let another = last.fell(parse(&text));
        if another {
            *last = Last::default();
        }
        let young = young || another;
        let moved = last.snmp != text;
        if moved {
            last.snmp.clear();
            last.snmp.push_str(&text);
        }
        let always = |(group, name, _): &_| (*group, *name) == counter::parts(ALWAYS);
        let told = parse(&text).filter(|value| moved || always(value));
        last.update(netns, young, monotonic_ns(), told, |row| rows.push(row))?;
        if moved || !without {
            let text = self.file.read(NETSTAT).map_err(unread(NETSTAT))?;
            let all = parse(&text);
            last.update(netns, young, monotonic_ns(), all, |row| rows.push(row))?;
        }
        Ok(Counted { moved, another })
    }
}

impl Last {
    /// Whether what can only rise has fallen.
    fn fell<'t>(&self, mut values: impl Iterator<Item = (&'t str, &'t str, i64)>) -> bool {
        let (group, name) = counter::parts(ALWAYS);
        let now = values.find(|value| (value.0, value.1) == (group, name));
        let before = self.values.get(&(Text::from(group), Text::from(name)));
        now.zip(before).is_some_and(|(now, before)| now.2 < *before)
    }

    fn update<'t, E>(
        &mut self,
        netns: u32,
        young: bool,
        time_ns: u64,
        values: impl Iterator<Item = (&'t str, &'t str, i64)>,
        mut push: impl FnMut(Counter) -> Result<(), E>,
    ) -> Result<(), E> {
        for (group, name, value) in values {
            let key = (Text::from(group), Text::from(name));
            let before = self.values.get(&key).copied().or(young.then_some(0));
            // A counter that was never seen is told unless it is zero: then nothing happened.
            let changed = before.map_or(value != 0, |before| before != value);
            if changed || (group, name) == counter::parts(ALWAYS) {
                push(Counter {
                    time_ns,
                    netns,
                    group: key.0.clone(),
                    name: key.1.clone(),
                    value,
                    delta: before.map(|before| value.wrapping_sub(before)),
                })?;
            }
            self.values.insert(key, value);
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

    fn rows(c: &mut Last, text: &str) -> Vec<(String, i64, Option<i64>)> {
        let mut rows = Vec::new();
        let push = |r: Counter| -> Result<(), ()> {
            rows.push((format!("{}.{}", r.group, r.name), r.value, r.delta));
            Ok(())
        };
        c.update(1, false, 0, parse(text), push).unwrap();
        rows
    }

    #[test]
    fn first_sample_has_no_delta_and_later_ones_only_changes() {
        let mut c = Last::default();
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
        let mut c = Last::default();
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
            .update(1, true, 0, parse("Tcp: A B\nTcp: 0 5\n"), push)
            .unwrap();
        assert_eq!(deltas, [5]);
    }

    #[test]
    fn a_namespace_with_the_number_of_one_that_is_gone_counts_less() {
        let text = "Tcp: RtoMin InSegs\nTcp: 200 7\n";
        let mut c = Last::default();
        assert!(!c.fell(parse(text)));
        rows(&mut c, text);
        assert!(!c.fell(parse(text)) && !c.fell(parse(&text.replace('7', "8"))));
        assert!(c.fell(parse(&text.replace('7', "3"))));
    }

    #[test]
    fn lines_that_do_not_pair_are_passed_over() {
        assert_eq!(parse("Tcp: A\nUdp: 1\nTcp: B\n").count(), 0);
        assert_eq!(parse("no colon\nat all").count(), 0);
    }
}

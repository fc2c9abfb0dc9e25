//! What stands for itself in a recording: the means of its tables, load, memory.

use std::collections::BTreeMap;

use recording::tables::{Resource, TableSize};
use recording::{Error, Recording, Text};

/// Quantities followed per recording.
const MAX_GAUGES: usize = 4_096;

/// One quantity of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauge {
    sum: f64,
    n: u64,
    pub(super) unit: String,
    pub(super) limit: Option<f64>,
}

impl Gauge {
    fn add(&mut self, value: f64, limit: Option<f64>) {
        self.sum += value;
        self.n += 1;
        self.limit = limit;
    }

    pub(super) fn mean(&self) -> f64 {
        self.sum / self.n.max(1) as f64
    }
}

/// What stands for itself in a recording: of counters only the pace would tell.
pub(super) fn read(recording: &Recording) -> Result<BTreeMap<String, Gauge>, Error> {
    let mut gauges: BTreeMap<String, Gauge> = BTreeMap::new();
    let mut add = |name: String, unit: &str, value: f64, limit: Option<f64>| {
        if gauges.len() < MAX_GAUGES || gauges.contains_key(&name) {
            let gauge = gauges.entry(name).or_insert_with(|| Gauge {
                unit: unit.into(),
                ..Gauge::default()
            });
            gauge.add(value, limit);
        }
    };
    for batch in recording.scan::<Resource>()? {
        for (_, row) in batch?.rows() {
            // A process has another number next time.
            if row.cumulative || row.netns != 0 || row.instance.contains('/') {
                continue;
            }
            let name = match &*row.instance {
                "" => row.metric.to_string(),
                instance => format!("{} of {instance}", row.metric),
            };
            add(name, &row.unit, row.value, row.limit);
        }
    }
    let mut sizes: BTreeMap<Text, Size> = BTreeMap::new();
    for batch in recording.scan::<TableSize>()? {
        for (_, row) in batch?.rows() {
            if sizes.len() < MAX_GAUGES || sizes.contains_key(&row.structure) {
                sizes.entry(row.structure.clone()).or_default().add(&row);
            }
        }
    }
    let sizes = sizes.into_iter();
    gauges.extend(sizes.map(|(name, size)| (format!("entries of {name}"), size.whole())));
    Ok(gauges)
}

/// One lookup structure: as the host has it, and summed over the namespaces, round by round.
#[derive(Default)]
struct Size {
    host: Gauge,
    namespaces: Gauge,
    /// When, entries of all so far, and the limit, which is that of one namespace.
    round: Option<(u64, f64, Option<f64>)>,
}

impl Size {
    fn add(&mut self, row: &TableSize) {
        let (entries, limit) = (row.entries as f64, row.limit.map(|limit| limit as f64));
        if row.netns == 0 {
            self.host.add(entries, limit);
            return;
        }
        match &mut self.round {
            Some((time_ns, sum, of_one)) if *time_ns == row.time_ns => {
                *sum += entries;
                *of_one = None;
            }
            _ => {
                self.end_round();
                self.round = Some((row.time_ns, entries, limit));
            }
        }
    }

    fn end_round(&mut self) {
        if let Some((_, sum, limit)) = self.round.take() {
            self.namespaces.add(sum, limit);
        }
    }

    fn whole(mut self) -> Gauge {
        self.end_round();
        let gauge = match self.host.n {
            0 => self.namespaces,
            _ => self.host,
        };
        Gauge {
            unit: "count".into(),
            ..gauge
        }
    }
}

//! What a load measured of itself, and two of its rounds side by side.

use serde::Serialize;

use crate::link::Counters;
use crate::workload::{BinderReport, ClientReport, ServerReport};

/// The load's own figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Workload {
    /// Per client.
    pub clients: Vec<ClientReport>,
    /// Per server.
    pub servers: Vec<ServerReport>,
    /// Per binder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub binders: Vec<BinderReport>,
    /// Per emulated link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkReport>,
}

/// What an emulated link did to packets.
#[derive(Clone, Debug, Serialize)]
pub struct LinkReport {
    /// The nodes it joins.
    pub between: [String; 2],
    /// From the first to the second.
    pub there: Counters,
    /// From the second to the first.
    pub back: Counters,
}

/// A figure of one client or binder, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The client or binder.
    pub client: String,
    /// What was measured, with its unit.
    pub figure: String,
    /// Before the changes; none when there was nothing to measure.
    pub before: Option<f64>,
    /// After them.
    pub after: Option<f64>,
}

/// The figures of the clients and binders of two rounds, side by side.
pub(crate) fn figures(before: &Workload, after: &Workload) -> Vec<Figure> {
    let mut figures = Vec::new();
    for was in &before.clients {
        let Some(is) = after.clients.iter().find(|c| c.name == was.name) else {
            continue;
        };
        for (name, value) in FIGURES {
            let (before, after) = (value(was), value(is));
            if before.is_some() || after.is_some() {
                figures.push(Figure {
                    client: was.name.clone(),
                    figure: (*name).to_string(),
                    before,
                    after,
                });
            }
        }
    }
    for was in &before.binders {
        let is = after.binders.iter().find(|b| b.name == was.name);
        for (name, value) in BINDER_FIGURES {
            figures.push(Figure {
                client: was.name.clone(),
                figure: (*name).to_string(),
                before: value(was),
                after: is.and_then(value),
            });
        }
    }
    figures
}

/// Whether some client or binder has a figure of that name.
pub(crate) fn is_figure(name: &str) -> bool {
    let clients = FIGURES.iter().map(|(figure, _)| *figure);
    let mut all = clients.chain(BINDER_FIGURES.iter().map(|(figure, _)| *figure));
    all.any(|figure| figure == name)
}

/// What is worth comparing of a binder.
const BINDER_FIGURES: &[(&str, Reading<BinderReport>)] = &[
    ("bind() calls", |b| Some(b.asked as f64)),
    ("bind p50, µs", |b| b.bind_us.map(|s| s.p50)),
    ("bind p99, µs", |b| b.bind_us.map(|s| s.p99)),
];

/// Takes a figure out of a report, if it is there.
type Reading<R> = fn(&R) -> Option<f64>;

/// What is worth comparing of a client.
const FIGURES: &[(&str, Reading<ClientReport>)] = &[
    ("connections failed", |c| {
        Some(c.connections.failed.values().sum::<u64>() as f64)
    }),
    ("connections unfinished", |c| {
        Some(c.connections.unfinished as f64)
    }),
    ("requests answered", |c| {
        // A stream has no requests.
        let r = &c.requests;
        (r.answered + r.unfinished > 0).then_some(r.answered as f64)
    }),
    ("connect p50, ms", |c| c.connect_ms.map(|s| s.p50)),
    ("connect p90, ms", |c| c.connect_ms.map(|s| s.p90)),
    ("connect p99, ms", |c| c.connect_ms.map(|s| s.p99)),
    ("request p50, ms", |c| c.request_ms.map(|s| s.p50)),
    ("request p99, ms", |c| c.request_ms.map(|s| s.p99)),
    ("throughput, Mbit/s", |c| Some(c.mbit_per_s)),
];

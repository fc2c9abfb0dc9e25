//! What the client has seen so far, and the report it makes of it.

use std::time::{Duration, Instant};

use crate::workload::report::{ClientReport, Connections, Requests, Spread, count, round};
use crate::workload::waits::{Outages, Waited};

/// What a connection came to.
pub(super) struct Past {
    /// Megabits per second while it had something to do, if it moved enough to say.
    pub(super) rate_mbit: Option<f32>,
    /// How long its endless transfer ran; none without one.
    pub(super) streaming: Duration,
    /// What it had not finished, and since when.
    pub(super) unfinished: Option<(Unfinished, Duration)>,
}

/// What a connection is in the midst of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    Connect,
    Request,
    /// One that ends only with the connection.
    Transfer,
}

/// Figures under way. Times are kept one by one: a client opens a bounded number of connections.
#[derive(Default)]
pub(super) struct Tally {
    first: Option<Instant>,
    connections: Connections,
    requests: Requests,
    connect_ms: Vec<f32>,
    request_ms: Vec<f32>,
    answer_ms: Vec<f32>,
    rates: Vec<f32>,
    waited: Waited,
    connect_outages: Outages,
    request_outages: Outages,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
}

impl Tally {
    pub(super) fn started(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.connections.started += 1;
    }

    pub(super) fn connected(&mut self, took: Duration) {
        self.connections.connected += 1;
        self.connect_ms.push(ms(took));
        self.waited.connects.add(f64::from(ms(took)));
        self.connect_outages.succeeded(Instant::now());
    }

    /// A connect that began then could not be made.
    pub(super) fn connect_failed(&mut self, began: Instant, reason: impl Into<String>) {
        count(&mut self.connections.failed, reason);
        self.connect_outages.failed(began, Instant::now());
    }

    /// A response is complete; `since_open` when it was the connection's first.
    pub(super) fn answered(&mut self, took: Duration, since_open: Option<Duration>) {
        self.requests.answered += 1;
        self.request_ms.push(ms(took));
        self.answer_ms.extend(since_open.map(ms));
        self.waited.requests.add(f64::from(ms(took)));
        self.request_outages.succeeded(Instant::now());
    }

    /// A request that began then was broken off; a connection without one, when it has none.
    pub(super) fn request_failed(&mut self, began: Option<Instant>, reason: impl Into<String>) {
        count(&mut self.requests.failed, reason);
        if let Some(began) = began {
            self.request_outages.failed(began, Instant::now());
        }
    }

    /// A connection is over.
    pub(super) fn ended(&mut self, past: Past) {
        self.rates.extend(past.rate_mbit);
        self.waited.streaming_s += past.streaming.as_secs_f64();
    }

    /// The time is over for a connection.
    pub(super) fn give_up(&mut self, past: Past) {
        if let Some((unfinished, waited)) = past.unfinished {
            let waited = f64::from(ms(waited));
            match unfinished {
                Unfinished::Connect => {
                    self.connections.unfinished += 1;
                    self.waited.connects.add(waited);
                }
                Unfinished::Request => {
                    self.requests.unfinished += 1;
                    self.waited.requests.add(waited);
                }
                Unfinished::Transfer => self.requests.unfinished += 1,
            }
        }
        self.ended(past);
    }

    pub(super) fn report(mut self, name: String, start: Instant) -> ClientReport {
        let sums = self
            .connect_outages
            .sums(self.request_outages, Instant::now());
        (self.waited.outage_s, self.waited.failing_s) = sums;
        let seconds = self.first.unwrap_or(start).elapsed().as_secs_f64();
        let bits = (self.bytes_sent + self.bytes_received) as f64 * 8.0;
        ClientReport {
            role: "client".to_string(),
            name,
            seconds: round(seconds),
            connections: self.connections,
            requests: self.requests,
            connect_ms: Spread::of(self.connect_ms),
            request_ms: Spread::of(self.request_ms),
            answer_ms: Spread::of(self.answer_ms),
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            mbit_per_s: if seconds > 0.0 {
                round(bits / 1e6 / seconds)
            } else {
                0.0
            },
            connection_mbit_per_s: Spread::of(self.rates),
            waited: self.waited,
        }
    }
}

fn ms(took: Duration) -> f32 {
    took.as_secs_f32() * 1000.0
}

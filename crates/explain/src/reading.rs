//! A recording that has been read once, for uses beyond the explanation.

use std::collections::BTreeMap;

use ahash::AHashSet;
use analysis::stats::median;
use analysis::{Conn, ConnId, Sampled, Side, Story};
use recording::{Addr, Error, Recording, SourceName};

use crate::compare::{self, run, sockets};
use crate::explanation::Explanation;
use crate::modes::{modes, syn_schedule_of};
use crate::options::Options;
use crate::run::of_story;

/// What a recording tells, in memory; bounded, whatever its size.
#[derive(Debug)]
pub struct Reading {
    pub(crate) story: Story,
    /// It is of Linux.
    linux: bool,
}

/// A connect() that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// Network namespace.
    pub netns: u32,
    /// When it was called, ns of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// How long it took to be established, ns.
    pub took_ns: u64,
    /// SYNs that it retransmitted.
    pub retries: u32,
}

/// Connects that took about as long as each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How many.
    pub count: u64,
    /// Their median, ns.
    pub median_ns: u64,
    /// How many SYNs they retransmitted, in the median; `None` when retransmissions were not recorded.
    pub retries: Option<u32>,
}

/// One end of a connection that was sampled.
#[derive(Clone, Debug)]
pub struct End {
    /// Network namespace.
    pub netns: u32,
    /// Local address and port.
    pub local: (Addr, u16),
    /// Remote address and port.
    pub remote: (Addr, u16),
    /// Process and command name of the caller of connect(), or of the holder of the listener.
    pub owner: Option<(u32, String)>,
    /// It was accepted (false: it called connect()); `None` when it is older than the recording.
    pub accepted: Option<bool>,
    /// The port that says what the connection is for.
    pub service: u16,
    /// When it was first and last sampled, ns of CLOCK_MONOTONIC.
    pub sampled_ns: (u64, u64),
    /// Bytes it had moved, both ways, by its last sample.
    pub bytes: u64,
    /// It is slow among its like.
    pub slow: bool,
}

impl Reading {
    /// Reads a recording.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn of(recording: &Recording) -> Result<Reading, Error> {
        let story = Story::read(recording)?;
        let settings = story.settings.all();
        let linux = settings.keys().any(|name| name.starts_with("net."));
        Ok(Reading {
            linux: linux || recording.manifest.producer == "live",
            story,
        })
    }

    /// What is derived from it.
    pub fn story(&self) -> &Story {
        &self.story
    }

    /// Says why TCP is slow in it; `recording` is the one that was read.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn explain(&self, recording: &Recording, options: &Options) -> Result<Explanation, Error> {
        of_story(&self.story, recording, options)
    }

    /// What it gives to compare with others, under a name; `explanation` is what it said.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn run(
        &self,
        name: String,
        recording: &Recording,
        explanation: &Explanation,
    ) -> Result<compare::Run, Error> {
        compare::Run::of(name, recording, &self.story, explanation)
    }

    /// The connects that succeeded, in no particular order.
    pub fn connects(&self) -> impl Iterator<Item = Connect> + '_ {
        self.story.conns.iter().filter_map(|conn| {
            Some(Connect {
                netns: conn.netns,
                start_ns: conn.start_ns,
                took_ns: conn.connect_ns()?,
                retries: conn.syn_retries,
            })
        })
    }

    /// The clusters that the times of its connects form, the shortest first.
    pub fn clusters(&self) -> Vec<Cluster> {
        let mut took: Vec<u64> = self.connects().map(|c| c.took_ns).collect();
        let modes = modes(&mut took);
        let mut retries: Vec<Vec<u32>> = vec![Vec::new(); modes.len()];
        for connect in self.connects() {
            // Modes lie apart by a share: that whose median is nearest in that sense.
            let far = |i: &usize| {
                let share = connect.took_ns.max(1) as f64 / modes[*i].median_ns.max(1) as f64;
                share.ln().abs()
            };
            let above = modes.partition_point(|m| m.median_ns < connect.took_ns);
            let both = above.saturating_sub(1)..modes.len().min(above + 1);
            let near = both.min_by(|a, b| far(a).total_cmp(&far(b)));
            if let Some(near) = near {
                retries[near].push(connect.retries);
            }
        }
        let seen = self.story.health.sees(&SourceName::Retransmits);
        let clusters = modes
            .iter()
            .zip(&mut retries)
            .map(|(mode, retries)| Cluster {
                count: mode.count,
                median_ns: mode.median_ns,
                retries: median(retries).filter(|_| seen),
            });
        clusters.collect()
    }

    /// When Linux retransmits an unanswered SYN in the namespace from which most connects went out, ns after the
    /// first; empty for the model of another kernel.
    pub fn syn_schedule(&self) -> Vec<u64> {
        if !self.linux {
            return Vec::new();
        }
        let mut by_netns: BTreeMap<u32, u64> = BTreeMap::new();
        for conn in self.story.conns.iter().filter(|c| c.side == Side::Opened) {
            *by_netns.entry(conn.netns).or_default() += 1;
        }
        let most = by_netns.into_iter().max_by_key(|(_, n)| *n);
        most.map_or(Vec::new(), |(netns, _)| {
            syn_schedule_of(&self.story, netns, None)
        })
    }

    /// The sampled ends, and what tells the slow among them from their like, if any are slow.
    pub fn ends(&self) -> (Vec<End>, Option<compare::Sockets>) {
        let senders = run::sockets(&self.story);
        let (split, slow) = sockets::compare(&[&senders]).unzip();
        let slow: AHashSet<ConnId> = slow.into_iter().flatten().flatten().collect();
        let conns = self.story.conns.iter().enumerate();
        let ends = conns.filter_map(|(id, conn)| {
            let slow = slow.contains(&(id as ConnId));
            self.end(conn, self.story.samples(conn)?, slow)
        });
        (ends.collect(), split)
    }

    fn end(&self, conn: &Conn, samples: &Sampled, slow: bool) -> Option<End> {
        let last = &samples.last;
        Some(End {
            netns: conn.netns,
            local: (conn.local.addr, conn.local.port),
            remote: (conn.remote.addr, conn.remote.port),
            owner: self.story.owner(conn),
            accepted: match conn.side {
                Side::Accepted => Some(true),
                Side::Opened => Some(false),
                Side::Older => None,
            },
            service: run::service(conn),
            sampled_ns: (samples.first.time_ns, last.time_ns),
            bytes: last.bytes_acked.saturating_add(last.bytes_received),
            slow,
        })
    }
}

//! What a recorder on the simulated host would have written: the table, the CPUs, the profile.

use recording::tables::{Cpu, Interrupt, Resource, TableSize};
use recording::{SourceName, counter};
use synth::{Counters, HOST, Sink, Tables, settings, table_size};

use super::cache::Cache;
use super::growth::Day;
use super::observer::Observer;
use super::outcome::Second;
use super::params::{DAY_S, Params, S};
use super::path::Path;
use super::profile::{Profiler, USER_SHARE};
use crate::clock::{SEGMENT_NS, START_NS};

/// What is computed, by the names of the recorder's sources.
const COMPUTED: &[(SourceName, &str)] = &[
    (
        SourceName::Counters,
        "connections opened and accepted: each is a lookup; reclaims",
    ),
    (
        SourceName::Settings,
        "the tunings, where the kernel has them",
    ),
    (SourceName::Tables, "the destination cache"),
    (
        SourceName::Cpus,
        "time of each CPU: lookups, and a fixed share besides",
    ),
    (SourceName::Resources, "load averages"),
    (
        SourceName::Profile,
        "what each CPU is at: lookups, and a fixed share besides",
    ),
    (SourceName::ProfileSymbols, "the functions around a lookup"),
];

/// What is counted, in this order: connects, accepts, reclaims, entries reclaimed.
const COUNTED: [&str; 4] = [
    counter::ACTIVE_OPENS,
    counter::PASSIVE_OPENS,
    "Ip.ip_dce_reclaim_calls",
    "Ip.ip_dce_reclaim_deleted",
];

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    p: &'a Params,
    tables: &'a mut Tables,
    profiler: Profiler,
    /// Since boot.
    cpus: Vec<Spent>,
    /// Of `interrupt_cpu`.
    interrupts: f64,
    counters: Counters,
}

/// Time of a CPU, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    user: f64,
    system: f64,
    interrupt: f64,
    idle: f64,
}

impl Spent {
    /// Adds a while: what lookups took of it, and the shares that are besides.
    fn add(
        &mut self,
        all: f64,
        in_threads: f64,
        in_interrupts: f64,
        threads: f64,
        interrupts: f64,
    ) {
        let in_interrupts = in_interrupts.min(all);
        let in_threads = in_threads.min(all - in_interrupts);
        let rest = all - in_interrupts - in_threads;
        let (threads, interrupts) = (rest.min(all * threads), rest.min(all * interrupts));
        self.user += threads * USER_SHARE;
        self.system += in_threads + threads * (1.0 - USER_SHARE);
        self.interrupt += in_interrupts + interrupts;
        self.idle += (rest - threads - interrupts).max(0.0);
    }
}

impl<'a> Recorder<'a> {
    pub(super) fn new(p: &'a Params, seed: u64, tables: &'a mut Tables) -> Recorder<'a> {
        tables.manifest.start_ns = START_NS + p.uptime_ns();
        let host = (HOST, "host".to_string());
        tables.describe(("illumos", p.cpus), [host], COMPUTED);
        Recorder {
            p,
            tables,
            profiler: Profiler::new(p, seed),
            cpus: vec![Spent::default(); p.cpus as usize],
            interrupts: 0.0,
            counters: Counters::default(),
        }
    }

    /// Ends the recording.
    pub(super) fn finish(self) {
        self.tables.manifest.end_ns = self.time_ns(self.p.end_ns());
    }

    /// A time since it is looked at, on the recording's clock, which begins when the host boots.
    fn time_ns(&self, now_ns: u64) -> u64 {
        START_NS + self.p.uptime_ns() + now_ns
    }

    /// Adds a while to what a CPU did, and the interrupts that it took: one for each packet that came while it
    /// was in none.
    fn spend(&mut self, cpu: usize, all: f64, in_threads: f64, in_interrupts: f64) {
        let (threads, interrupts) = self.besides(cpu);
        let spent = &mut self.cpus[cpu];
        let before = spent.interrupt;
        spent.add(all, in_threads, in_interrupts, threads, interrupts);
        if cpu == self.p.interrupt_cpu as usize {
            let in_none = all - (spent.interrupt - before);
            self.interrupts += in_none / 1e9 * self.p.packet_rate;
        }
    }

    /// What a CPU does besides lookups: threads, interrupts.
    fn besides(&self, cpu: usize) -> (f64, f64) {
        if cpu == self.p.interrupt_cpu as usize {
            (0.0, self.p.base_interrupt())
        } else {
            (self.p.base_threads(), 0.0)
        }
    }

    /// What the CPUs did until it is looked at.
    fn since_boot(&mut self, days: &[Day]) {
        let p = self.p;
        let (mut from, mut passes) = (0.0, 0.0);
        let rates = [false, true].map(|here| p.lookups_of_cpu(here));
        for (nth, day) in days.iter().enumerate() {
            let until = ((nth as f64 + 1.0) * DAY_S).min(p.uptime_s());
            let all = (until - from) * 1e9;
            // What one lookup per second takes.
            let each = (until - from) * (passes + day.passes) / 2.0 * p.entry_walk;
            for cpu in 0..self.cpus.len() {
                let here = cpu == p.interrupt_cpu as usize;
                let (in_threads, in_interrupts) = rates[usize::from(here)];
                self.spend(cpu, all, in_threads * each, in_interrupts * each);
            }
            (from, passes) = (until, day.passes);
        }
    }

    fn settings(&mut self) {
        let p = self.p;
        // The kernel of the case has neither.
        if !p.reclaims() && p.ip_dce_hash_size == 256 {
            return;
        }
        let all = [
            ("ip_dce_hash_size", p.ip_dce_hash_size),
            ("_dce_reclaim_threshold", p.dce_reclaim_threshold),
            ("_dce_reclaim_fraction", p.dce_reclaim_fraction),
        ];
        let has = all.into_iter().filter(|(_, value)| *value > 0);
        self.tables.extend(settings(self.time_ns(0), HOST, has));
    }

    fn table(&mut self, time_ns: u64, entries: u64, longest: u32) {
        self.tables.add(TableSize {
            buckets: Some(self.p.ip_dce_hash_size.into()),
            longest_chain: Some(longest.into()),
            ..table_size(time_ns, HOST, "dce", entries)
        });
    }

    fn times(&mut self, time_ns: u64) {
        let ms = |ns: f64| (ns / 1e6).round() as u64;
        for (cpu, spent) in (0..).zip(&self.cpus) {
            self.tables.add(Cpu {
                time_ns,
                cpu,
                user_ms: ms(spent.user),
                system_ms: ms(spent.system),
                irq_ms: ms(spent.interrupt),
                idle_ms: ms(spent.idle),
                ..Cpu::default()
            });
        }
        self.tables.add(Interrupt {
            time_ns,
            cpu: self.p.interrupt_cpu,
            kind: "irq".into(),
            line: "igb_intr_rx".into(),
            device: "igb_intr_rx".into(),
            count: self.interrupts.round() as u64,
        });
    }

    fn loads(&mut self, time_ns: u64, loads: [f64; 3]) {
        for (metric, value) in ["load1", "load5", "load15"].into_iter().zip(loads) {
            self.tables.add(Resource {
                time_ns,
                netns: 0,
                resource: "cpu".into(),
                instance: "".into(),
                aspect: "saturation".into(),
                metric: metric.into(),
                // As uptime prints it.
                value: (value * 100.0).round() / 100.0,
                unit: "count".into(),
                cumulative: false,
                limit: Some(f64::from(self.p.cpus)),
            });
        }
    }
}

impl Observer for Recorder<'_> {
    fn begins(&mut self, days: &[Day], cache: &Cache) {
        let (p, time_ns) = (self.p, self.time_ns(0));
        self.profiler.begins(p, cache, self.tables, time_ns);
        self.settings();
        self.since_boot(days);
        let so_far = |per_s: f64| (per_s * p.uptime_s()).round() as i64;
        self.table(time_ns, cache.entries(), cache.longest());
        self.times(time_ns);
        let counted = [
            so_far(p.connect_rate),
            so_far(p.worker_accept_rate + p.interrupt_accept_rate),
            days.iter().map(|day| day.reclaims as i64).sum(),
            0,
        ];
        for (name, value) in COUNTED.into_iter().zip(counted) {
            let row = self.counters.begin(time_ns, HOST, name, value);
            self.tables.extend((value != 0).then_some(row));
        }
    }

    fn walks(&mut self, cpu: u32, path: Path, now_ns: u64, until_ns: u64) {
        self.profiler.walks(cpu, path, now_ns, until_ns);
    }

    fn second(&mut self, now_ns: u64, second: &Second) {
        let time_ns = self.time_ns(now_ns);
        for (cpu, busy) in second.cpus.iter().enumerate() {
            self.spend(
                cpu,
                S as f64,
                busy.thread_ns as f64,
                busy.interrupt_ns as f64,
            );
        }
        self.table(time_ns, second.entries, second.longest);
        self.times(time_ns);
        self.loads(time_ns, second.loads);
        let by = [
            second.connects,
            second.accepts,
            second.reclaims,
            second.deleted,
        ];
        for (name, by) in COUNTED.into_iter().zip(by) {
            let row = self.counters.sample_one(time_ns, HOST, name, by as i64);
            self.tables.extend(row);
        }
        let start_ns = self.time_ns(0);
        self.profiler.until(self.p, now_ns, start_ns, self.tables);
        if now_ns.is_multiple_of(SEGMENT_NS) {
            self.tables.seal();
        }
    }
}

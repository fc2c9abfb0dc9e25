//! What a recorder on the simulated host would have written: the table, the CPUs, the profile.

use recording::SourceName;
use recording::counter;
use recording::tables::{Counter, Cpu, Resource, Setting, TableSize};

use super::cache::Cache;
use super::growth::Day;
use super::outcome::Second;
use super::params::{DAY_S, Params, S};
use super::probe::Probe;
use super::profile::{Profiler, USER_SHARE};
use super::sim::Path;
use crate::tables::{SEGMENT_NS, START_NS, Tables};

/// The namespace of the host.
const HOST: u32 = 4_026_531_840;

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

/// Watches the simulation and writes rows.
pub(super) struct Recorder<'a> {
    p: &'a Params,
    tables: &'a mut Tables,
    profiler: Profiler,
    /// Since boot.
    cpus: Vec<Spent>,
    counters: [(&'static str, i64); 4],
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
        tables.starts(p.uptime_ns());
        tables.host("illumos", p.cpus);
        tables.namespace(HOST, "host");
        for (name, gives) in COMPUTED {
            tables.computes(name.clone(), gives);
        }
        Recorder {
            p,
            tables,
            profiler: Profiler::new(p, seed),
            cpus: vec![Spent::default(); p.cpus as usize],
            counters: [
                (counter::ACTIVE_OPENS, 0),
                (counter::PASSIVE_OPENS, 0),
                ("Ip.ip_dce_reclaim_calls", 0),
                ("Ip.ip_dce_reclaim_deleted", 0),
            ],
        }
    }

    /// Ends the recording.
    pub(super) fn finish(self) {
        self.tables.ends(self.p.uptime_ns() + self.p.end_ns());
    }

    /// A time since it is looked at, on the recording's clock, which begins when the host boots.
    fn time_ns(&self, now_ns: u64) -> u64 {
        START_NS + self.p.uptime_ns() + now_ns
    }

    /// What a CPU does besides lookups: threads, interrupts.
    fn besides(&self, cpu: usize) -> (f64, f64) {
        match cpu == self.p.interrupt_cpu as usize {
            true => (0.0, self.p.base_interrupt()),
            false => (self.p.base_threads(), 0.0),
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
                let (threads, interrupts) = self.besides(cpu);
                let spent = &mut self.cpus[cpu];
                spent.add(
                    all,
                    in_threads * each,
                    in_interrupts * each,
                    threads,
                    interrupts,
                );
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
        let settings = [
            ("ip_dce_hash_size", p.ip_dce_hash_size),
            ("_dce_reclaim_threshold", p.dce_reclaim_threshold),
            ("_dce_reclaim_fraction", p.dce_reclaim_fraction),
        ];
        let has = |value: u32| value > 0;
        for (name, value) in settings.into_iter().filter(|(_, value)| has(*value)) {
            self.tables.add(Setting {
                time_ns: self.time_ns(0),
                netns: HOST,
                name: name.into(),
                value: value.to_string().into(),
            });
        }
    }

    fn table(&mut self, time_ns: u64, entries: u64, longest: u32) {
        self.tables.add(TableSize {
            time_ns,
            netns: HOST,
            structure: "dce".into(),
            entries,
            buckets: Some(self.p.ip_dce_hash_size.into()),
            longest_chain: Some(longest.into()),
            ..TableSize::default()
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

    /// The counters, with what they rose by; `None` in the first sample.
    fn count(&mut self, time_ns: u64, by: Option<[u64; 4]>) {
        for (nth, (name, value)) in self.counters.iter_mut().enumerate() {
            let delta = by.map(|by| by[nth] as i64);
            *value += delta.unwrap_or(0);
            if delta.unwrap_or(*value) == 0 {
                continue;
            }
            let (group, name) = counter::parts(name);
            self.tables.add(Counter {
                time_ns,
                netns: HOST,
                group: group.into(),
                name: name.into(),
                value: *value,
                delta,
            });
        }
    }
}

impl Probe for Recorder<'_> {
    fn begins(&mut self, days: &[Day], cache: &Cache) {
        let (p, time_ns) = (self.p, self.time_ns(0));
        self.profiler.begins(p, cache, self.tables, time_ns);
        self.settings();
        self.since_boot(days);
        let so_far = |per_s: f64| (per_s * p.uptime_s()).round() as i64;
        self.counters[0].1 = so_far(p.connect_rate);
        self.counters[1].1 = so_far(p.worker_accept_rate + p.interrupt_accept_rate);
        self.counters[2].1 = days.iter().map(|day| day.reclaims as i64).sum();
        self.table(time_ns, cache.entries(), cache.longest());
        self.times(time_ns);
        self.count(time_ns, None);
    }

    fn walks(&mut self, cpu: u32, path: Path, now_ns: u64, until_ns: u64) {
        self.profiler.walks(cpu, path, now_ns, until_ns);
    }

    fn second(&mut self, now_ns: u64, second: &Second) {
        let time_ns = self.time_ns(now_ns);
        for (cpu, busy) in second.cpus.iter().enumerate() {
            let (threads, interrupts) = self.besides(cpu);
            let (in_threads, in_interrupts) = (busy.thread_ns as f64, busy.interrupt_ns as f64);
            let spent = &mut self.cpus[cpu];
            spent.add(S as f64, in_threads, in_interrupts, threads, interrupts);
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
        self.count(time_ns, Some(by));
        let start_ns = self.time_ns(0);
        self.profiler.until(self.p, now_ns, start_ns, self.tables);
        if now_ns.is_multiple_of(SEGMENT_NS) {
            self.tables.seal();
        }
    }
}

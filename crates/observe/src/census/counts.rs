//! Rows of `port_use` and `table_size`: of one namespace, and of what namespaces share.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use recording::tables::{PortUse, TableSize};
use recording::{TableWriter, Text};

use super::ports::Range;
use super::slabs::{self, Slabs};
use super::structures::{STRUCTURES, all_neighbours};
use super::verdicts::Verdicts;
use super::walk::Walk;
use crate::error::Error;
use crate::kernel::defects;
use crate::pace::thread_cpu;
use crate::patience::Patience;
use crate::procfile::ProcFile;
use crate::sockstat::{self, SockStat};
use crate::wire::tw_census;

/// Counts, and writes what it counts.
pub struct Counts<'o> {
    /// When the round began: the time of all its rows.
    pub time_ns: u64,
    walk: Result<Walk<'o>, Error>,
    file: ProcFile,
    ports: TableWriter<PortUse>,
    sizes: TableWriter<TableSize>,
    names: HashMap<String, Text>,
    slabs: Slabs,
    /// CPU time that it took to read them.
    slabs_took: Duration,
    /// What came of each structure.
    pub verdicts: Verdicts,
    /// Entries, so far in this round, of tables that namespaces share; their buckets and limit.
    shared: BTreeMap<&'static str, Size>,
}

#[derive(Clone, Copy, Default)]
struct Size {
    entries: u64,
    buckets: Option<u64>,
    limit: Option<u64>,
    longest_chain: Option<u64>,
    bytes: Option<u64>,
}

/// Slab caches are hundreds; past this, memory matters more.
const MAX_NAMES: usize = 1 << 14;
/// Where all CPUs wait while slabs are counted, what takes longer than this is not done again.
const DEAR_SLABS: Duration = Duration::from_millis(5);

/// What came of a walk over the sockets.
enum Counted {
    All(tw_census),
    /// Without the program that walks.
    CannotBe,
    BrokenOff,
}

impl<'o> Counts<'o> {
    /// Counts with `walk`; without it only what needs no walk over the sockets.
    pub fn new(
        walk: Result<Walk<'o>, Error>,
        ports: TableWriter<PortUse>,
        sizes: TableWriter<TableSize>,
    ) -> Counts<'o> {
        Counts {
            time_ns: 0,
            walk,
            file: ProcFile::default(),
            ports,
            sizes,
            names: HashMap::new(),
            slabs: Slabs::default(),
            slabs_took: Duration::ZERO,
            verdicts: Verdicts::default(),
            shared: BTreeMap::new(),
        }
    }

    /// Everything of the calling thread's namespace `netns`; how many sockets were left out of
    /// the counts of ports. `None` when the patience was over before its sockets were counted.
    pub fn of_namespace(&mut self, netns: u32, patience: Patience) -> Result<Option<u64>, Error> {
        let census = match self.ports(netns, patience)? {
            Counted::All(census) => Some(census),
            Counted::CannotBe => None,
            Counted::BrokenOff => return Ok(None),
        };
        if let Some(census) = &census {
            self.hashes(netns, census)?;
        }
        self.time_wait(netns)?;
        for s in STRUCTURES {
            let counted = (s.count)(&mut self.file);
            self.verdicts.note(&s.name, s.without, &counted);
            let Ok(entries) = counted else {
                continue;
            };
            let (buckets, limit) = (s.size)(&mut self.file);
            let size = Size {
                entries,
                buckets,
                limit,
                ..Size::default()
            };
            self.push(netns, s.name.as_str(), size)?;
            if buckets.is_some() {
                // The limit is each namespace's own.
                self.share(
                    s.name.as_str(),
                    Size {
                        limit: None,
                        ..size
                    },
                );
            }
        }
        Ok(Some(census.map_or(0, |c| c.uncounted)))
    }

    /// Walks the sockets and writes who holds how many ports.
    fn ports(&mut self, netns: u32, patience: Patience) -> Result<Counted, Error> {
        let Ok(walk) = &mut self.walk else {
            return Ok(Counted::CannotBe);
        };
        // The walk goes through the table of all namespaces, to find nothing.
        if sockstat::sockets(&mut self.file) == Some(0) {
            return Ok(Counted::All(tw_census::default()));
        }
        let range = Range::read(&mut self.file);
        // Without a range no port lies in it.
        let bounds = range.map_or((1, 0), |r| (r.low, r.high));
        let (time_ns, ports) = (self.time_ns, &mut self.ports);
        let counted = walk.count(bounds, patience, |to, n| {
            match range {
                Some(range) if range.tells(n) => ports.push(range.row(time_ns, netns, to, n))?,
                _ => {}
            }
            Ok(())
        });
        Ok(counted?.map_or(Counted::BrokenOff, Counted::All))
    }

    /// What hinders the walk over the sockets.
    pub fn obstacle(&self) -> Option<&Error> {
        self.walk.as_ref().err()
    }

    /// The hash tables of TCP itself.
    fn hashes(&mut self, netns: u32, census: &tw_census) -> Result<(), Error> {
        let known = |n: u32| (n > 0).then_some(u64::from(n));
        // Negative where the namespace uses the host's table. Kernels before 6.1 have that one
        // only, and no such setting.
        let setting = self.file.read("/proc/sys/net/ipv4/tcp_ehash_entries").ok();
        let setting = setting.and_then(|text| text.trim().parse::<i64>().ok());
        let buckets = known(census.ehash_buckets).or(setting.map(i64::unsigned_abs));
        let connections = u64::from(census.connections) + u64::from(census.time_wait);
        let ehash = Size {
            entries: connections + u64::from(census.requests),
            buckets,
            longest_chain: Some(census.longest_chain.into()),
            ..Size::default()
        };
        self.push(netns, "ehash", ehash)?;
        // The host's first namespace shows the table that it shares as its own.
        let first = Path::new("/proc/sys/net/ipv4/tcp_mem").exists();
        if first || setting.is_none_or(|entries| entries < 0) {
            // Chains mix the sockets of namespaces; the longest of all was not seen.
            self.share(
                "ehash",
                Size {
                    longest_chain: None,
                    ..ehash
                },
            );
        }
        for (name, entries, buckets) in [
            ("bhash", census.ports, known(census.bhash_buckets)),
            (
                "listener-hash",
                census.listeners,
                known(census.lhash2_buckets),
            ),
        ] {
            let size = Size {
                entries: entries.into(),
                buckets,
                ..Size::default()
            };
            self.push(netns, name, size)?;
            self.share(name, size);
        }
        let requests = Size {
            entries: census.requests.into(),
            ..Size::default()
        };
        self.push(netns, "requests", requests)
    }

    fn time_wait(&mut self, netns: u32) -> Result<(), Error> {
        let Some(stat) = SockStat::read(&mut self.file) else {
            return Ok(());
        };
        let time_wait = Size {
            entries: stat.time_wait,
            limit: self.file.number("/proc/sys/net/ipv4/tcp_max_tw_buckets"),
            ..Size::default()
        };
        self.push(netns, "time-wait", time_wait)
    }

    fn share(&mut self, name: &'static str, size: Size) {
        let sum = self.shared.entry(name).or_default();
        sum.entries += size.entries;
        sum.buckets = sum.buckets.or(size.buckets);
    }

    /// What namespaces share. Only when `all` were counted are their sums those of the tables.
    pub fn of_host(&mut self, all: bool, with_slabs: bool) -> Result<(), Error> {
        let shared = std::mem::take(&mut self.shared);
        for (name, size) in shared.into_iter().filter(|_| all) {
            self.push(0, name, size)?;
        }
        for (name, v6) in [("neighbours", false), ("neighbours6", true)] {
            if let Some((entries, limit)) = all_neighbours(&mut self.file, v6) {
                let size = Size {
                    entries,
                    limit,
                    ..Size::default()
                };
                self.push(0, name, size)?;
            }
        }
        if with_slabs {
            self.slabs()?;
        }
        Ok(())
    }

    fn slabs_are_dear(&self) -> bool {
        self.slabs_took > DEAR_SLABS && defects::slabs_stall()
    }

    /// What is said once slabs take too long.
    pub fn dear_slabs(&self) -> Option<String> {
        let took_ms = self.slabs_took.as_secs_f64() * 1e3;
        self.slabs_are_dear()
            .then(|| format!("reading /proc/slabinfo took {took_ms:.0} ms of CPU: once is enough"))
    }

    fn slabs(&mut self) -> Result<(), Error> {
        if self.slabs_are_dear() {
            return Ok(());
        }
        let began = thread_cpu();
        let read = self.file.read("/proc/slabinfo");
        self.slabs_took = thread_cpu().saturating_sub(began);
        let read = read.map(|text| slabs::parse(&text, rustix::param::page_size() as u64));
        slabs::note(&mut self.verdicts, &read);
        for slab in self.slabs.choose(read.unwrap_or_default()) {
            let size = Size {
                entries: slab.objects,
                bytes: Some(slab.bytes),
                ..Size::default()
            };
            self.push(0, &format!("slab:{}", slab.name), size)?;
        }
        Ok(())
    }

    fn push(&mut self, netns: u32, name: &str, size: Size) -> Result<(), Error> {
        let structure = match self.names.get(name) {
            Some(known) => known.clone(),
            None => {
                let new = Text::from(name);
                if self.names.len() < MAX_NAMES {
                    self.names.insert(name.into(), new.clone());
                }
                new
            }
        };
        let row = TableSize {
            time_ns: self.time_ns,
            netns,
            structure,
            entries: size.entries,
            buckets: size.buckets,
            limit: size.limit,
            longest_chain: size.longest_chain,
            bytes: size.bytes,
        };
        Ok(self.sizes.push(row)?)
    }

    /// Seals everything: rounds are rare, and someone may be watching.
    pub fn seal(&mut self) -> Result<(), Error> {
        self.ports.seal()?;
        Ok(self.sizes.seal()?)
    }
}

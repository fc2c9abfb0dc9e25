//! Addresses of processes, alive or not, to functions and files.

use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use recording::Text;
use rustix::io::Errno;

use super::elf::Functions;
use super::files::{FileId, Files};
use super::perf_map::PerfMap;
use super::process::{Mapping, Maps};
use super::{Place, hex};
use crate::foreign::{self, Process};
use crate::pace::thread_cpu;
use recording::cut;

/// What is known of processes and their files. Everything of theirs is read here.
#[derive(Default)]
pub struct Resolver {
    processes: HashMap<u32, Seen>,
    files: Files,
    notes: Vec<String>,
    reading: Reading,
}

/// The answer to some addresses of a process.
#[derive(Debug, Default)]
pub struct Resolved {
    /// One for each address.
    pub places: Vec<Place>,
    /// More is known of the process than when it was asked about before.
    pub changed: bool,
    /// Some files are left for later: what is not named now may be when it is asked again.
    pub later: bool,
    /// Files that were not read, and why.
    pub notes: Vec<String>,
}

struct Seen {
    maps: Option<Maps>,
    /// When the process was started: another may have its number by now.
    started: Option<u64>,
    looked: Instant,
    /// For how long a mapping that is missing is taken to be missing.
    patience: Duration,
    /// Which files its mappings are of, by their first address; `None` for one that is not read.
    files: HashMap<u64, Option<FileId>>,
    made: Made,
}

/// What the process tells of code that it made.
#[derive(Default)]
struct Made {
    map: Option<PerfMap>,
    looked: Option<Instant>,
    patience: Duration,
    /// Its map is refused: not said again.
    refused: bool,
}

impl Seen {
    fn has(&self, address: u64) -> bool {
        let maps = self.maps.as_ref();
        maps.is_some_and(|m| m.find(address).is_some())
    }
}

const MAX_PROCESSES: usize = 1024;
/// A process that lacks a mapping, as it has since loaded a library or executed another program, is
/// looked at again so soon, and after twice the time whenever that was in vain: code without frame
/// pointers gives addresses that are no code...
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// ... but not later than this.
const LOOK_AGAIN_AT_LAST: Duration = Duration::from_secs(1);
/// All are looked at again so often, as their numbers are given to others.
const OLD: Duration = Duration::from_secs(10);
/// Its map of made code is looked at again so soon when it lacks something, and later when in vain.
const MAP_AGAIN: Duration = Duration::from_secs(1);
const MAP_AGAIN_AT_LAST: Duration = Duration::from_secs(8);
/// Bytes that the maps of made code of all processes may take.
const MAX_MADE: usize = 64 << 20;
/// How the kernel marks a file that has no name any more.
const DELETED: &str = " (deleted)";
/// A module's name can be four kilobytes.
const MAX_MODULE: usize = 512;

/// What reading files may take of a CPU: some at the beginning, when all are new, and then a part of it.
struct Reading {
    began: Instant,
    spent: Duration,
    /// Some were not read for that.
    later: bool,
}

const READING_AT_FIRST: Duration = Duration::from_secs(5);
const READING_ONE_PART_IN: u32 = 10;

impl Default for Reading {
    fn default() -> Reading {
        Reading {
            began: Instant::now(),
            spent: Duration::ZERO,
            later: false,
        }
    }
}

impl Reading {
    fn may(&mut self, notes: &mut Vec<String>) -> bool {
        let may = self.spent <= READING_AT_FIRST + self.began.elapsed() / READING_ONE_PART_IN;
        if !may {
            self.later = true;
            notes.push(
                "some functions of programs are not named, or late: reading all files takes too long".into(),
            );
        }
        may
    }

    fn took<T>(&mut self, read: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let result = read();
        self.spent += thread_cpu().saturating_sub(before);
        result
    }
}

impl Resolver {
    /// Where addresses of a process are.
    pub fn resolve(&mut self, pid: u32, addresses: &[u64]) -> Resolved {
        let mut changed = self.meet(pid);
        let places = addresses
            .iter()
            .map(|&address| self.place(pid, address, &mut changed));
        Resolved {
            places: places.collect(),
            changed,
            later: std::mem::take(&mut self.reading.later),
            notes: std::mem::take(&mut self.notes),
        }
    }

    /// Looks at a process before it may have gone; whether others were forgotten for it, whose numbers
    /// may be given to new ones.
    fn meet(&mut self, pid: u32) -> bool {
        if self.processes.contains_key(&pid) {
            return false;
        }
        let many = self.processes.len() >= MAX_PROCESSES;
        if many {
            self.processes.clear();
        }
        self.look(pid);
        many
    }

    /// What is known of a process that has gone is kept. Whether it is another one than before.
    fn look(&mut self, pid: u32) -> bool {
        let process = Process::open(pid);
        let maps = process.as_ref().ok().and_then(|p| Maps::of(p).ok());
        let started = process.and_then(|p| p.started()).ok();
        let looked = Instant::now();
        let before = self.processes.remove(&pid);
        let (known, was) = (before.is_some(), before.as_ref().and_then(|b| b.started));
        let other = known && maps.is_some() && was != started;
        let seen = match (maps, before) {
            (None, Some(before)) => Seen { looked, ..before },
            (Some(maps), Some(before)) if before.started == started => Seen {
                maps: Some(maps),
                looked,
                files: HashMap::new(),
                ..before
            },
            (maps, _) => Seen {
                maps,
                started,
                looked,
                patience: LOOK_AGAIN,
                files: HashMap::new(),
                made: Made::default(),
            },
        };
        self.processes.insert(pid, seen);
        other
    }

    /// Looks again if what is known of a process is old, or lacks the address; whether more is known.
    fn renew(&mut self, pid: u32, address: u64) -> bool {
        let Some(seen) = self.processes.get(&pid) else {
            return self.look(pid);
        };
        let lacked = !seen.has(address);
        if seen.looked.elapsed() <= if lacked { seen.patience } else { OLD } {
            return false;
        }
        let other = self.look(pid);
        let Some(seen) = self.processes.get_mut(&pid).filter(|_| lacked) else {
            return other;
        };
        if seen.has(address) {
            // What was asked in the meantime and not found is there now, too.
            seen.patience = LOOK_AGAIN;
            return true;
        }
        seen.patience = LOOK_AGAIN_AT_LAST.min(seen.patience * 2);
        other
    }

    fn place(&mut self, pid: u32, address: u64, changed: &mut bool) -> Place {
        *changed |= self.renew(pid, address);
        let unknown = Place {
            function: hex(address),
            module: "".into(),
            offset: 0,
        };
        let Some(seen) = self.processes.get_mut(&pid) else {
            return unknown;
        };
        let Some(within) = seen.maps.as_ref().and_then(|m| m.find(address)) else {
            return unknown;
        };
        let mapping = within.mapping;
        let module: Text = cut(&mapping.name, MAX_MODULE).into();
        let (reading, notes) = (&mut self.reading, &mut self.notes);
        let found = if mapping.is_made() {
            let (found, grown) = seen.made.find(pid, address, reading, notes);
            *changed |= grown;
            found
        } else if mapping.is_file() {
            let known = &mut seen.files;
            let functions = functions(pid, mapping, &mut self.files, known, reading, notes);
            functions.and_then(|f| f.find(within.offset))
        } else if mapping.name == "[vdso]" {
            let vdso = self.files.vdso(mapping);
            vdso.and_then(|f| f.find(within.offset))
        } else {
            None
        };
        // Within a file the place is the same in every process.
        let address = if mapping.is_file() {
            within.offset
        } else {
            address
        };
        if mapping.is_made() {
            self.keep_within_bounds(pid);
        }
        match found {
            Some((function, offset)) => Place {
                function: function.into(),
                module,
                offset,
            },
            None => Place {
                function: hex(address),
                module,
                offset: 0,
            },
        }
    }

    /// Lets go of what other processes told of code that they made, when all is too much.
    fn keep_within_bounds(&mut self, pid: u32) {
        let bytes = |seen: &Seen| seen.made.map.as_ref().map_or(0, PerfMap::bytes);
        if self.processes.values().map(bytes).sum::<usize>() > MAX_MADE {
            let others = self.processes.iter_mut().filter(|(p, _)| **p != pid);
            others.for_each(|(_, seen)| seen.made.map = None);
        }
    }
}

/// The functions of the file behind a mapping.
fn functions(
    pid: u32,
    mapping: &Mapping,
    files: &mut Files,
    known: &mut HashMap<u64, Option<FileId>>,
    reading: &mut Reading,
    notes: &mut Vec<String>,
) -> Option<Rc<Functions>> {
    match known.get(&mapping.start) {
        Some(None) => return None,
        Some(Some(id)) => {
            if let Some(functions) = files.get(*id) {
                return functions;
            }
        }
        None => {}
    }
    if !reading.may(notes) {
        return None;
    }
    let read = reading.took(|| files.read(pid, mapping));
    let id = read.unwrap_or_else(|why| {
        let name = as_a_word(&mapping.name);
        notes.push(format!(
            "functions of {name} (process {pid}) are not named: {why}"
        ));
        None
    });
    known.insert(mapping.start, id);
    files.get(id?).flatten()
}

impl Made {
    /// The function at an address, and whether more was told than before.
    fn find(
        &mut self,
        pid: u32,
        address: u64,
        reading: &mut Reading,
        notes: &mut Vec<String>,
    ) -> (Option<(String, u64)>, bool) {
        let look = |map: &Option<PerfMap>| {
            let (name, offset) = map.as_ref()?.find(address)?;
            Some((name.to_string(), offset))
        };
        let found = look(&self.map);
        let waiting = self.looked.is_some_and(|at| at.elapsed() < self.patience);
        if found.is_some() || self.refused || waiting || !reading.may(notes) {
            return (found, false);
        }
        self.looked = Some(Instant::now());
        let read = reading.took(|| match &mut self.map {
            Some(map) => map.renew().map_err(|e| e.to_string()),
            None => {
                self.map = map_of(pid)?;
                Ok(self.map.is_some())
            }
        });
        let grown = read.unwrap_or_else(|why| {
            notes.push(format!(
                "functions that process {pid} made are not named: its perf map {why}"
            ));
            self.refused = true;
            false
        });
        self.patience = if grown {
            MAP_AGAIN
        } else {
            MAP_AGAIN_AT_LAST.min(self.patience * 2).max(MAP_AGAIN)
        };
        if grown && self.map.as_ref().is_some_and(|map| map.cut) {
            notes.push(format!(
                "functions that process {pid} made are named by the end of its perf map only, \
                 which is too large"
            ));
        }
        (look(&self.map), grown)
    }
}

/// The map of the code that a process made; `None` when it keeps none.
fn map_of(pid: u32) -> Result<Option<PerfMap>, String> {
    let process = Process::open(pid).map_err(|e| e.to_string())?;
    let who = process.who().map_err(|e| e.to_string())?;
    let path = format!("/tmp/perf-{}.map", who.own_pid);
    let plain = match process.named(&path) {
        Ok(plain) => plain,
        Err(e) if has_gone(&e) => return Ok(None),
        Err(e) => return Err(format!("{path} is not read: {}", foreign::why(&e))),
    };
    if !plain.is_of(who.uid) {
        return Err(format!(
            "{path} is not read: it is not a file of the process's own user {} alone",
            who.uid
        ));
    }
    let read = plain.open().and_then(PerfMap::read);
    read.map(Some)
        .map_err(|e| format!("{path} is not read: {}", foreign::why(&e)))
}

/// A file's name without blanks, as the kernel's tables of mounts have them: who redacts a note knows where it ends.
fn as_a_word(name: &str) -> String {
    let (path, gone) = match name.strip_suffix(DELETED) {
        Some(path) => (path, DELETED),
        None => (name, ""),
    };
    path.replace(char::is_whitespace, "\\040") + gone
}

/// Whether something, or its process, is not there any more.
fn has_gone(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn some_function_of_ours() -> u64 {
        std::hint::black_box(some_function_of_ours as fn() -> u64 as usize as u64)
    }

    fn resolve(resolver: &mut Resolver, pid: u32, address: u64) -> Place {
        let mut resolved = resolver.resolve(pid, &[address]);
        assert_eq!(resolved.notes, [""; 0]);
        resolved.places.remove(0)
    }

    #[test]
    fn functions_of_this_process_are_named() {
        let address = some_function_of_ours() + 1;
        let place = resolve(&mut Resolver::default(), std::process::id(), address);
        assert!(
            place.function.contains("some_function_of_ours"),
            "{place:?}"
        );
        assert!(place.module.contains("observe"), "{place:?}");
        assert_eq!(place.offset, 1);
    }

    #[test]
    fn a_process_that_is_gone_still_has_an_address() {
        let place = resolve(&mut Resolver::default(), u32::MAX - 1, 0x1234);
        assert_eq!((&*place.function, &*place.module), ("0x1234", ""));
    }

    #[test]
    fn a_process_that_lacks_a_mapping_is_looked_at_ever_less_often() {
        let pid = std::process::id();
        let mut resolver = Resolver::default();
        resolver.meet(pid);
        let mut patience = Vec::new();
        for _ in 0..6 {
            let seen = resolver.processes.get_mut(&pid).unwrap();
            seen.looked -= seen.patience + Duration::from_millis(1);
            resolver.renew(pid, 1);
            patience.push(resolver.processes[&pid].patience.as_millis());
        }
        assert_eq!(patience, [200, 400, 800, 1000, 1000, 1000]);

        // As if it had been looked at before it executed this program.
        let seen = resolver.processes.get_mut(&pid).unwrap();
        seen.maps = None;
        seen.looked -= Duration::from_secs(2);
        assert!(resolver.renew(pid, some_function_of_ours()));
        assert_eq!(resolver.processes[&pid].patience, LOOK_AGAIN);
    }

    #[test]
    fn a_number_that_another_process_got_is_another_process() {
        let pid = std::process::id();
        let mut resolver = Resolver::default();
        resolver.meet(pid);
        let seen = resolver.processes.get_mut(&pid).unwrap();
        seen.made.refused = true;
        resolver.look(pid);
        assert!(resolver.processes[&pid].made.refused, "the same process");
        let seen = resolver.processes.get_mut(&pid).unwrap();
        seen.started = seen.started.map(|at| at - 1);
        resolver.look(pid);
        assert!(!resolver.processes[&pid].made.refused);
    }

    #[test]
    fn a_file_is_one_word_of_a_note() {
        assert_eq!(as_a_word("/opt/x"), "/opt/x");
        assert_eq!(
            as_a_word("/opt/a b\tc (deleted)"),
            "/opt/a\\040b\\040c (deleted)"
        );
    }

    #[test]
    fn reading_has_a_share_of_the_time() {
        let mut reading = Reading::default();
        assert!(reading.may(&mut Vec::new()));
        reading.spent = READING_AT_FIRST + Duration::from_secs(600);
        let mut notes = Vec::new();
        assert!(!reading.may(&mut notes) && notes.len() == 1);
        reading.began -= Duration::from_secs(6001);
        assert!(reading.may(&mut notes));
    }
}

//! User stacks: addresses of processes, alive or not, to functions and files.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolizer};
use recording::{Error, Text};

use super::process::Maps;
use super::{MAX_STACKS, Place, Stacks, hash, hex};

/// Finds functions in the files that processes execute. Belongs to one thread.
pub struct UserSymbols {
    symbolizer: Symbolizer,
    files: HashSet<PathBuf>,
    processes: HashMap<u32, Seen>,
    places: HashMap<(u32, u64), Place>,
    stacks: HashMap<u64, Option<u64>>,
}

struct Seen {
    maps: Option<Maps>,
    looked: Instant,
}

/// A file's symbols can be tens of megabytes: after this many files all are let go.
const MAX_FILES: usize = 64;
const MAX_PROCESSES: usize = 1024;
/// A process that loads libraries or executes another program is looked at again so often...
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// ... and all are, as their numbers are given to others.
const OLD: Duration = Duration::from_secs(10);

impl Default for UserSymbols {
    fn default() -> Self {
        UserSymbols {
            symbolizer: symbolizer(),
            files: HashSet::new(),
            processes: HashMap::new(),
            places: HashMap::new(),
            stacks: HashMap::new(),
        }
    }
}

fn symbolizer() -> Symbolizer {
    let builder = Symbolizer::builder();
    builder
        .enable_code_info(false)
        .enable_inlined_fns(false)
        .build()
}

impl UserSymbols {
    /// Looks at a process before it may have gone. Cheap for one that is known.
    pub fn meet(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        if self.processes.len() >= MAX_PROCESSES {
            // Whose number is given to a new process must not live on in these, either.
            self.processes.clear();
            self.places.clear();
            self.stacks.clear();
        }
        self.look(pid);
    }

    /// What is known of a process that has gone is kept.
    fn look(&mut self, pid: u32) {
        let before = self.processes.remove(&pid).and_then(|seen| seen.maps);
        let seen = Seen {
            maps: Maps::read(pid).or(before),
            looked: Instant::now(),
        };
        self.processes.insert(pid, seen);
    }

    /// The id of a stack of a process, innermost address first.
    pub fn stack(
        &mut self,
        pid: u32,
        addresses: &[u64],
        stacks: &Stacks,
    ) -> Result<Option<u64>, Error> {
        let key = hash((pid, addresses));
        if let Some(known) = self.stacks.get(&key) {
            return Ok(*known);
        }
        self.meet(pid);
        let places: Vec<Place> = addresses
            .iter()
            .enumerate()
            // Callers' addresses are where they return to: the call is before that.
            .map(|(depth, &address)| self.place(pid, address.wrapping_sub((depth > 0).into())))
            .collect();
        let id = stacks.places(&places)?;
        if self.stacks.len() >= MAX_STACKS {
            self.stacks.clear();
        }
        self.stacks.insert(key, id);
        Ok(id)
    }

    fn place(&mut self, pid: u32, address: u64) -> Place {
        if let Some(known) = self.places.get(&(pid, address)) {
            return known.clone();
        }
        let place = self.find(pid, address);
        if self.places.len() >= MAX_STACKS {
            self.places.clear();
        }
        self.places.insert((pid, address), place.clone());
        place
    }

    fn find(&mut self, pid: u32, address: u64) -> Place {
        let unknown = |module: &str| Place {
            function: hex(address),
            module: module.into(),
            offset: 0,
        };
        let stale = self.processes.get(&pid).is_none_or(|seen| {
            let missing = seen.maps.as_ref().is_none_or(|m| m.find(address).is_none());
            seen.looked.elapsed() > if missing { LOOK_AGAIN } else { OLD }
        });
        if stale {
            self.look(pid);
        }
        let seen = self.processes.get(&pid);
        let maps = seen.and_then(|seen| seen.maps.as_ref());
        let Some(within) = maps.and_then(|m| m.find(address)) else {
            return unknown("");
        };
        if let Some(path) = within.open
            && !self.files.contains(path)
        {
            if self.files.len() >= MAX_FILES {
                self.files.clear();
                self.symbolizer = symbolizer();
            }
            self.files.insert(path.clone());
        }
        let module: Text = within.name.into();
        let (source, input) = match within.open {
            Some(path) => (
                Source::Elf(Elf::new(path)),
                Input::FileOffset(within.offset),
            ),
            // Code made while running: the process may keep /tmp/perf-PID.map.
            None => {
                let process = Process::new(Pid::from(pid));
                (Source::Process(process), Input::AbsAddr(address))
            }
        };
        let found = self.symbolizer.symbolize_single(&source, input);
        match found.ok().and_then(|s| s.into_sym().map(Sym::into_owned)) {
            Some(sym) => Place {
                function: (&*sym.name).into(),
                module,
                offset: sym.offset as u64,
            },
            // Within the file the place is the same in every process.
            None if within.open.is_some() => Place {
                function: hex(within.offset),
                module,
                offset: 0,
            },
            None => unknown(within.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn some_function_of_ours() -> u64 {
        std::hint::black_box(some_function_of_ours as fn() -> u64 as usize as u64)
    }

    #[test]
    fn functions_of_this_process_are_named() {
        let mut symbols = UserSymbols::default();
        let place = symbols.place(std::process::id(), some_function_of_ours() + 1);
        assert!(
            place.function.contains("some_function_of_ours"),
            "{place:?}"
        );
        assert!(place.module.contains("observe"), "{place:?}");
        assert_eq!(place.offset, 1);
    }

    #[test]
    fn a_process_that_is_gone_still_has_an_address() {
        let mut symbols = UserSymbols::default();
        let place = symbols.place(u32::MAX - 1, 0x1234);
        assert_eq!((&*place.function, &*place.module), ("0x1234", ""));
    }
}

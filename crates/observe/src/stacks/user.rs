//! User stacks: addresses of processes, alive or not, to functions and files.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ahash::AHashMap;
use blazesym::Pid;
use blazesym::symbolize::source::{Elf, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolizer};
use recording::{Error, Text};

use super::process::Maps;
use super::{KnownFrame, MAX_STACKS, Place, Stacks, hash, hex};

/// Finds functions in the files that processes execute. Belongs to one thread.
pub struct UserSymbols {
    symbolizer: Symbolizer,
    files: HashSet<PathBuf>,
    processes: HashMap<u32, Seen>,
    frames: AHashMap<(u32, u64), KnownFrame>,
    stacks: AHashMap<u64, Option<u64>>,
}

struct Seen {
    maps: Option<Maps>,
    looked: Instant,
    /// For how long a mapping that is missing is taken to be missing.
    patience: Duration,
}

impl Seen {
    fn has(&self, address: u64) -> bool {
        let maps = self.maps.as_ref();
        maps.is_some_and(|m| m.find(address).is_some())
    }
}

/// A file's symbols can be tens of megabytes: after this many files all are let go.
const MAX_FILES: usize = 64;
const MAX_PROCESSES: usize = 1024;
/// A process that lacks a mapping, as it has since loaded a library or executed another program, is
/// looked at again so soon, and after twice the time whenever that was in vain: code without frame
/// pointers gives addresses that are no code...
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// ... but not later than this.
const LOOK_AGAIN_AT_LAST: Duration = Duration::from_secs(1);
/// All are looked at again so often, as their numbers are given to others.
const OLD: Duration = Duration::from_secs(10);

impl Default for UserSymbols {
    fn default() -> Self {
        UserSymbols {
            symbolizer: symbolizer(),
            files: HashSet::new(),
            processes: HashMap::new(),
            frames: AHashMap::new(),
            stacks: AHashMap::new(),
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
            self.frames.clear();
            self.stacks.clear();
        }
        self.look(pid);
    }

    /// What is known of a process that has gone is kept.
    fn look(&mut self, pid: u32) {
        let before = self.processes.remove(&pid);
        let patience = before.as_ref().map_or(LOOK_AGAIN, |seen| seen.patience);
        let seen = Seen {
            maps: Maps::read(pid).or(before.and_then(|seen| seen.maps)),
            looked: Instant::now(),
            patience,
        };
        self.processes.insert(pid, seen);
    }

    /// Looks again if what is known of a process is old, or lacks the address.
    fn renew(&mut self, pid: u32, address: u64) {
        let Some(seen) = self.processes.get(&pid) else {
            return self.look(pid);
        };
        let lacked = !seen.has(address);
        if seen.looked.elapsed() <= if lacked { seen.patience } else { OLD } {
            return;
        }
        self.look(pid);
        let Some(seen) = self.processes.get_mut(&pid).filter(|_| lacked) else {
            return;
        };
        if seen.has(address) {
            // What was asked in the meantime and not found is there now, too.
            seen.patience = LOOK_AGAIN;
            self.frames.clear();
            self.stacks.clear();
        } else {
            seen.patience = LOOK_AGAIN_AT_LAST.min(seen.patience * 2);
        }
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
        let frames = addresses.iter().enumerate().map(|(depth, &address)| {
            // Callers' addresses are where they return to: the call is before that.
            self.frame(pid, address.wrapping_sub((depth > 0).into()), stacks)
        });
        let frames = frames.collect::<Result<Vec<KnownFrame>, Error>>()?;
        let id = stacks.stack(&frames)?;
        if self.stacks.len() >= MAX_STACKS {
            self.stacks.clear();
        }
        self.stacks.insert(key, id);
        Ok(id)
    }

    fn frame(&mut self, pid: u32, address: u64, stacks: &Stacks) -> Result<KnownFrame, Error> {
        if let Some(&known) = self.frames.get(&(pid, address)) {
            return Ok(known);
        }
        let frame = stacks.frame(self.place(pid, address))?;
        if self.frames.len() >= MAX_STACKS {
            self.frames.clear();
        }
        self.frames.insert((pid, address), frame);
        Ok(frame)
    }

    fn place(&mut self, pid: u32, address: u64) -> Place {
        let place = |function: Text, module: Text, offset: u64| Place {
            function,
            module,
            offset,
        };
        let unknown = |module: &str| place(hex(address), module.into(), 0);
        self.renew(pid, address);
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
            Some(sym) => place((&*sym.name).into(), module, sym.offset as u64),
            // Within the file the place is the same in every process.
            None if within.open.is_some() => place(hex(within.offset), module, 0),
            None => unknown(within.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Role;
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

    #[test]
    fn a_process_that_lacks_a_mapping_is_looked_at_ever_less_often() {
        let pid = std::process::id();
        let mut symbols = UserSymbols::default();
        symbols.meet(pid);
        let mut patience = Vec::new();
        for _ in 0..6 {
            let seen = symbols.processes.get_mut(&pid).unwrap();
            seen.looked -= seen.patience + Duration::from_millis(1);
            symbols.renew(pid, 1);
            patience.push(symbols.processes[&pid].patience.as_millis());
        }
        assert_eq!(patience, [200, 400, 800, 1000, 1000, 1000]);

        // As if it had been looked at before it executed this program.
        let unknown = KnownFrame {
            id: None,
            role: Role::Other,
        };
        symbols.frames.insert((pid, 1), unknown);
        let seen = symbols.processes.get_mut(&pid).unwrap();
        seen.maps = None;
        seen.looked -= Duration::from_secs(2);
        symbols.renew(pid, some_function_of_ours());
        assert_eq!(symbols.processes[&pid].patience, LOOK_AGAIN);
        assert!(symbols.frames.is_empty());
    }
}

//! User stacks: found in what is known already, or asked of the thread that reads processes.

use std::collections::HashSet;
use std::time::Duration;

use ahash::AHashMap;
use recording::{Error, HealthKind, SourceName};

use super::resolver::{Resolved, Resolver};
use super::{KnownFrame, MAX_REMEMBERED, Place, Stacks, hash, hex};
use crate::aside::{Aside, Said};
use crate::health::HealthLog;
use crate::space;

/// Names the functions of processes. Belongs to one thread.
pub struct UserSymbols {
    /// `None` where the kernel's numbers of processes are not those of /proc.
    aside: Option<Aside<Vec<u64>, Resolved>>,
    frames: AHashMap<(u32, u64), KnownFrame>,
    stacks: AHashMap<u64, Option<u64>>,
    notes: Notes,
}

/// What shall be said once each.
#[derive(Default)]
struct Notes {
    said: HashSet<String>,
    new: Vec<String>,
}

/// Symbols are asked for now and then, and a program's may take a while to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Different notes of one recording: files may come and go for days.
const MAX_NOTES: usize = 32;

impl Notes {
    fn add(&mut self, note: String) {
        if self.said.len() < MAX_NOTES && self.said.insert(note.clone()) {
            self.new.push(note);
        }
    }
}

impl Default for UserSymbols {
    fn default() -> Self {
        let aside = || {
            Aside::new("symbols", PATIENCE, || {
                let mut resolver = Resolver::default();
                Box::new(move |pid, addresses: Vec<u64>| resolver.resolve(pid, &addresses))
            })
        };
        UserSymbols {
            aside: space::pids_are_ours().then(aside),
            frames: AHashMap::new(),
            stacks: AHashMap::new(),
            notes: Notes::default(),
        }
    }
}

impl UserSymbols {
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
        // Callers' addresses are where they return to: the call is before that.
        let callees = addresses.iter().enumerate();
        let addresses: Vec<u64> = callees
            .map(|(depth, &address)| address.wrapping_sub((depth > 0).into()))
            .collect();
        let known = |address: &u64| self.frames.get(&(pid, *address)).copied();
        let mut frames: Vec<Option<KnownFrame>> = addresses.iter().map(known).collect();
        let unknown = addresses.iter().zip(&frames);
        let unknown: Vec<u64> = unknown
            .filter(|(_, frame)| frame.is_none())
            .map(|(&address, _)| address)
            .collect();
        // What is late may be there the next time.
        let mut lasts = true;
        if !unknown.is_empty() {
            let places;
            (places, lasts) = self.places(pid, &unknown);
            if self.frames.len() + places.len() > MAX_REMEMBERED {
                self.frames.clear();
            }
            let missing = frames.iter_mut().filter(|frame| frame.is_none());
            for ((frame, place), address) in missing.zip(places).zip(unknown) {
                let found = stacks.frame(place)?;
                *frame = Some(found);
                if lasts {
                    self.frames.insert((pid, address), found);
                }
            }
        }
        let frames: Vec<KnownFrame> = frames.into_iter().flatten().collect();
        let id = stacks.stack(&frames)?;
        if self.stacks.len() >= MAX_REMEMBERED {
            self.stacks.clear();
        }
        if lasts {
            self.stacks.insert(key, id);
        }
        Ok(id)
    }

    /// Where addresses of a process are, and whether that is all that will be told of them.
    fn places(&mut self, pid: u32, addresses: &[u64]) -> (Vec<Place>, bool) {
        let Some(aside) = self.aside.as_mut() else {
            return (unnamed(addresses), true);
        };
        let said = aside.ask(pid, addresses.to_vec());
        for shunned in aside.shunned() {
            let note = format!(
                "functions of process {shunned} are not named: reading its files took too long"
            );
            self.notes.add(note);
        }
        match said {
            Said::Answer(resolved) => {
                if resolved.changed {
                    self.frames.clear();
                    self.stacks.clear();
                }
                resolved.notes.into_iter().for_each(|n| self.notes.add(n));
                (resolved.places, !resolved.later)
            }
            Said::Late => {
                let note =
                    "some functions of programs are not named: their files were not read in time";
                self.notes.add(note.into());
                (unnamed(addresses), false)
            }
            Said::Never => (unnamed(addresses), true),
        }
    }

    /// Says which files were not read since this was asked last, and why.
    pub fn say_notes(&mut self, health: &HealthLog) -> Result<(), Error> {
        for note in std::mem::take(&mut self.notes.new) {
            health.say(SourceName::Profile, HealthKind::Partial, 1, note)?;
        }
        Ok(())
    }
}

fn unnamed(addresses: &[u64]) -> Vec<Place> {
    let place = |address: &u64| Place {
        function: hex(*address),
        module: "".into(),
        offset: 0,
    };
    addresses.iter().map(place).collect()
}

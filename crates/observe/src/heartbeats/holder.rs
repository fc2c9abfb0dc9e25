//! Who holds the sockets whose messages were late: looked up when there is one, which is rare.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use libbpf_rs::OpenObject;
use recording::Text;

use crate::holders::{Holders, Of};
use crate::pace::{Allowance, Pace};

/// To look takes every open file of the host: no more often than this.
const EVERY: Duration = Duration::from_secs(5);
/// It may use one part in so many of a CPU.
const MOST: u32 = 100;
/// Sockets that are remembered.
const SOCKETS: usize = 1 << 16;

/// What is known of who holds what.
pub struct HeldBy<'o> {
    /// `None` until it is loaded, and where open files cannot be read.
    holders: Option<Holders<'o>>,
    object: Option<&'o mut MaybeUninit<OpenObject>>,
    /// Process and its name, by inode of the socket, when last looked.
    known: HashMap<u64, (u32, Text)>,
    looked: Option<Instant>,
    pace: Pace,
}

impl<'o> HeldBy<'o> {
    /// Knows nothing yet.
    pub fn new(object: &'o mut MaybeUninit<OpenObject>, allowance: Allowance) -> HeldBy<'o> {
        HeldBy {
            holders: None,
            object: Some(object),
            known: HashMap::new(),
            looked: None,
            pace: Pace::new(EVERY, MOST, allowance),
        }
    }

    /// Loads the program that reads open files.
    pub fn load(&mut self) {
        let object = self.object.take();
        self.holders = object.and_then(|object| Holders::load(object, Of::All).ok());
    }

    /// Looks anew when one of these sockets is not known, unless that was done a moment ago.
    pub fn look(&mut self, mut inodes: impl Iterator<Item = u64>) {
        let Some(holders) = &self.holders else {
            return;
        };
        let every = self.pace.interval;
        let lately = self.looked.is_some_and(|at| at.elapsed() < every);
        if lately || inodes.all(|inode| self.known.contains_key(&inode)) {
            return;
        }
        self.looked = Some(Instant::now());
        self.pace.begin();
        let known = &mut self.known;
        known.clear();
        // Of several, the first told: the parent of a server's workers has the least pid. What fails here is
        // a name that is missing.
        let _ = holders.each(|inode, pid, comm| {
            if known.len() < SOCKETS {
                known.entry(inode).or_insert((pid, comm));
            }
        });
        // Names that are missing say it.
        self.pace.end();
    }

    /// Who holds it.
    pub fn of(&self, inode: u64) -> Option<(u32, Text)> {
        self.known.get(&inode).cloned()
    }
}

//! Which process holds which socket, from the kernel's open-file iterator: of TCP it is the source `holders`.

use std::mem::MaybeUninit;

use ahash::{AHashSet, RandomState};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use recording::tables::Holder;
use recording::{TableWriter, Text, monotonic_ns};

use crate::error::{Error, bpf_error};
use crate::iter;
use crate::wire::holders::{HoldersSkel, HoldersSkelBuilder};
use crate::wire::{text, tw_holder};

/// The loaded iterator, and what it has told already.
pub struct Holders<'o> {
    // The link needs the loaded object.
    _skel: HoldersSkel<'o>,
    link: Link,
    /// Hashes of the pairs that were there at the last walk.
    known: AHashSet<u64>,
    hasher: RandomState,
}

/// Which sockets are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Those of TCP.
    Streams,
    /// Those of UDP as well.
    All,
}

/// Pairs remembered so that they are not told twice: 9 bytes each. Past this, memory matters more.
const MAX_KNOWN: usize = 1 << 20;

impl<'o> Holders<'o> {
    /// Loads the iterator.
    pub fn load(object: &'o mut MaybeUninit<OpenObject>, of: Of) -> Result<Holders<'o>, Error> {
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "loading the open-file iterator".into(),
            why: bpf_error(&e),
        };
        let mut open = HoldersSkelBuilder::default().open(object).map_err(failed)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.datagrams = of == Of::All;
        }
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.dump.attach().map_err(failed)?;
        Ok(Holders {
            _skel: skel,
            link,
            known: AHashSet::new(),
            hasher: RandomState::new(),
        })
    }

    /// Hands every pair that there is now to `each`: inode, process, and its name.
    pub fn each(&self, mut each: impl FnMut(u64, u32, Text)) -> Result<(), Error> {
        iter::run(&self.link, "the open-file iterator", |h: &tw_holder| {
            each(h.inode, h.pid, text(&h.comm).into());
            Ok(())
        })
    }

    /// Writes a row for every pair of process and socket not told before; calls `each` with the
    /// inode and the process of every pair there is now.
    pub fn dump(
        &mut self,
        rows: &mut TableWriter<Holder>,
        mut each: impl FnMut(u64, u32),
    ) -> Result<(), Error> {
        let (known, hasher) = (&self.known, &self.hasher);
        let mut now = AHashSet::with_capacity(known.len());
        iter::run(&self.link, "the open-file iterator", |h: &tw_holder| {
            each(h.inode, h.pid);
            let pair = hasher.hash_one((h.inode, h.pid));
            let first = now.len() >= MAX_KNOWN || now.insert(pair);
            if first && !known.contains(&pair) {
                rows.push(Holder {
                    time_ns: monotonic_ns(),
                    inode: h.inode,
                    pid: h.pid,
                    comm: Text::from(text(&h.comm)),
                    fd: h.fd,
                })?;
            }
            Ok(())
        })?;
        self.known = now;
        Ok(())
    }
}

//! The slots in which connections wait for their end: an array of the kernel's, mapped here.

use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::MapCore;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::Error;
use crate::wire::{tw_life, tw_slot, tw_slot_word};

const FREE: u64 = tw_slot_word::TW_SLOT_FREE.0 as u64;
const BUSY: u64 = tw_slot_word::TW_SLOT_BUSY.0 as u64;
const LEAST_ID: u64 = tw_slot_word::TW_SLOT_LEAST_ID.0 as u64;

/// The array `slots` of the programs. They and we follow one rule: whoever changes a slot's word
/// from the socket's id to busy has the rest of it, until the word is changed again.
pub struct Lives {
    slots: NonNull<tw_slot>,
    count: NonZeroUsize,
}

// SAFETY: the memory is shared with the kernel's CPUs anyway; see the rule above.
unsafe impl Send for Lives {}

impl Lives {
    /// Maps the array.
    pub fn map(array: &impl MapCore) -> Result<Lives, Error> {
        let count = NonZeroUsize::new(array.max_entries() as usize)
            .filter(|n| n.is_power_of_two() && array.value_size() as usize == size_of::<tw_slot>());
        let mapping = |why: std::io::Error| Error::System {
            what: "mapping the slots of connections".into(),
            why,
        };
        let count = count.ok_or_else(|| mapping(std::io::ErrorKind::InvalidData.into()))?;
        let bytes = count.get() * size_of::<tw_slot>();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else is touched.
        let at = unsafe {
            mmap(
                null_mut(),
                bytes,
                rights,
                MapFlags::SHARED,
                array.as_fd(),
                0,
            )
        };
        let at = at.map_err(|e| mapping(e.into()))?;
        match NonNull::new(at.cast::<tw_slot>()) {
            Some(slots) => Ok(Lives { slots, count }),
            None => Err(mapping(std::io::ErrorKind::InvalidData.into())),
        }
    }

    /// Takes the connection of this socket, whose slot this is, if it waits.
    pub fn take(&self, sock: u64, slot: u32) -> Option<tw_life> {
        if sock < LEAST_ID {
            return None;
        }
        self.take_from(slot as usize & (self.count.get() - 1), sock)
    }

    /// Takes all that wait.
    pub fn take_all(&self) -> impl Iterator<Item = tw_life> {
        (0..self.count.get()).filter_map(|slot| {
            let word = self.word(slot).load(Ordering::Relaxed);
            (word >= LEAST_ID).then(|| self.take_from(slot, word))?
        })
    }

    fn take_from(&self, slot: usize, sock: u64) -> Option<tw_life> {
        let word = self.word(slot);
        word.compare_exchange(sock, BUSY, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: within the mapping, and ours by the rule; any bytes make a life.
        let life = unsafe { (&raw const (*self.slots.as_ptr().add(slot)).life).read_volatile() };
        word.store(FREE, Ordering::Release);
        Some(life)
    }

    fn word(&self, slot: usize) -> &AtomicU64 {
        debug_assert!(slot < self.count.get());
        // SAFETY: within the mapping, aligned as the array is; the word is only used atomically.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.slots.as_ptr().add(slot)).word) }
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        let bytes = self.count.get() * size_of::<tw_slot>();
        // SAFETY: mapped by us with this length; nothing refers to it any more.
        let _ = unsafe { munmap(self.slots.as_ptr().cast::<c_void>(), bytes) };
    }
}

//! The addresses of each namespace's interfaces.

use std::collections::BTreeSet;

use recording::Addr;
use recording::tables::InterfaceAddress;

/// Addresses kept. Anybody may give his own namespaces as many as he likes.
const MAX_ADDRESSES: usize = 100_000;

/// All addresses that interfaces had, by namespace.
#[derive(Debug, Default)]
pub struct Addresses(BTreeSet<(u32, Addr)>);

impl Addresses {
    /// Takes an address.
    pub(crate) fn add(&mut self, row: &InterfaceAddress) {
        if self.0.len() < MAX_ADDRESSES {
            self.0.insert((row.netns, row.addr));
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Addr)> {
        self.0.iter().copied()
    }

    /// Whether an interface of the namespace had the address.
    pub fn has(&self, netns: u32, addr: Addr) -> bool {
        self.0.contains(&(netns, addr))
    }
}

//! Loads the counting iterator and runs it for the calling thread's namespace.

use std::io::Read;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject};

use crate::error::{Error, bpf_error};
use crate::filter::Filter;
use crate::wire::census::{CensusSkel, CensusSkelBuilder};
use crate::wire::{read, same, tw_census, tw_destination, tw_port_count};

/// The loaded iterator.
pub struct Walk<'o> {
    skel: CensusSkel<'o>,
    link: Link,
}

/// Destinations taken out of the map with one call.
const BATCH: u32 = 4096;

impl<'o> Walk<'o> {
    /// Loads the iterator. Ports are counted of sockets that `filter` wants, tables of all.
    pub fn load(
        object: &'o mut MaybeUninit<OpenObject>,
        filter: &Filter,
    ) -> Result<Walk<'o>, Error> {
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "loading the socket counter".into(),
            why: bpf_error(&e),
        };
        let mut open = CensusSkelBuilder::default().open(object).map_err(failed)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.filter = same(&filter.wire().map_err(Error::Usage)?);
        }
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.count.attach().map_err(failed)?;
        Ok(Walk { skel, link })
    }

    /// Counts the sockets of the calling thread's namespace, whose ports are chosen from `range`.
    /// Calls `each` with every destination.
    pub fn count(
        &mut self,
        range: (u16, u16),
        mut each: impl FnMut(&tw_destination, &tw_port_count) -> Result<(), Error>,
    ) -> Result<tw_census, Error> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.census = tw_census {
                range_low: range.0.into(),
                range_high: range.1.into(),
                ..tw_census::default()
            };
            bss.listening = [0; 1 << 10];
            bss.ports = [0; 1 << 10];
            (bss.chain_bucket, bss.chain_length) = (0, 0);
        }
        let mut iter = Iter::new(&self.link).map_err(|e| Error::Bpf {
            what: "starting the socket counter".into(),
            why: bpf_error(&e),
        })?;
        // The program writes nothing; the kernel pauses after every million sockets, not at the
        // end only, with the error that asks to go on.
        loop {
            match iter.read(&mut [0; 64]) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(EAGAIN) => {}
                Err(why) => {
                    return Err(Error::System {
                        what: "running the socket counter".into(),
                        why,
                    });
                }
            }
        }
        drop(iter);
        self.destinations(&mut each)?;
        let bss = self.skel.maps.bss_data.as_deref();
        Ok(bss.map(|bss| bss.census).unwrap_or_default())
    }

    /// Hands out the counts and empties the map.
    fn destinations(
        &self,
        each: &mut impl FnMut(&tw_destination, &tw_port_count) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let map = &self.skel.maps.destinations;
        let batches = map.lookup_and_delete_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let batches = batches.map_err(|e| Error::Bpf {
            what: "reading the counts of ports".into(),
            why: bpf_error(&e),
        })?;
        for (key, value) in batches {
            if let (Some(key), Some(value)) = (read(&key), read(&value)) {
                each(&key, &value)?;
            }
        }
        Ok(())
    }
}

const EAGAIN: i32 = rustix::io::Errno::AGAIN.raw_os_error();

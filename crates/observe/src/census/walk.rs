//! Loads the counting iterator and runs it for the calling thread's namespace.

use std::collections::HashMap;
use std::io::Read;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags, OpenObject};

use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::iter::EAGAIN;
use crate::patience::Patience;
use crate::wire::census::{CensusSkel, CensusSkelBuilder};
use crate::wire::{read, same, tw_census, tw_destination, tw_port_count};

/// The loaded iterator.
pub struct Walk<'o> {
    skel: CensusSkel<'o>,
    link: Link,
}

/// Destinations of a namespace that are counted; sockets to others are counted as uncounted. The map
/// takes memory only for what there is, 7 MiB at most.
pub const MOST_DESTINATIONS: u32 = 1 << 16;
/// Destinations taken out of the map with one call.
const BATCH: u32 = 4096;

impl<'o> Walk<'o> {
    /// Loads the iterator. Ports are counted of sockets that `filter` wants, to at most `most`
    /// destinations; tables of all.
    pub fn load(
        object: &'o mut MaybeUninit<OpenObject>,
        filter: &Filter,
        most: u32,
    ) -> Result<Walk<'o>, Error> {
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "loading the socket counter".into(),
            why: bpf_error(&e),
        };
        let mut open = CensusSkelBuilder::default().open(object).map_err(failed)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.filter = same(&filter.wire().map_err(Error::Usage)?);
        }
        let destinations = &mut open.maps.destinations;
        destinations.set_max_entries(most).map_err(failed)?;
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.count.attach().map_err(failed)?;
        Ok(Walk { skel, link })
    }

    /// Counts the sockets of the calling thread's namespace, whose ports are chosen from `range`.
    /// Calls `each` with every destination. `None` when the patience was over before all were counted.
    pub fn count(
        &mut self,
        range: (u16, u16),
        patience: Patience,
        mut each: impl FnMut(&tw_destination, &tw_port_count) -> Result<(), Error>,
    ) -> Result<Option<tw_census>, Error> {
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
        let whole = loop {
            if patience.is_over() {
                break false;
            }
            match iter.read(&mut [0; 64]) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(EAGAIN) => {}
                Err(why) => {
                    return Err(Error::System {
                        what: "running the socket counter".into(),
                        why,
                    });
                }
            }
        };
        drop(iter);
        if !whole {
            return self.destinations(&mut |_, _| Ok(())).map(|()| None);
        }
        self.destinations(&mut each)?;
        let bss = self.skel.maps.bss_data.as_deref();
        Ok(bss.map(|bss| bss.census))
    }

    /// Hands out the counts and empties the map.
    fn destinations(
        &self,
        each: &mut impl FnMut(&tw_destination, &tw_port_count) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "reading the counts of ports".into(),
            why: bpf_error(&e),
        };
        let served = &self.skel.maps.served;
        let batches = served.lookup_and_delete_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let mut served = HashMap::new();
        for (key, value) in batches.map_err(failed)? {
            if let (Ok(n), Some(to)) = (value.as_slice().try_into(), read::<tw_destination>(&key)) {
                served.insert(key, (to, u32::from_ne_bytes(n)));
            }
        }
        let map = &self.skel.maps.destinations;
        let batches = map.lookup_and_delete_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        for (key, value) in batches.map_err(failed)? {
            let there = served.remove(&key).map_or(0, |(_, n)| n);
            if let (Some(key), Some(value)) = (read(&key), read::<tw_port_count>(&value)) {
                let value = tw_port_count {
                    server_time_wait: there,
                    ..value
                };
                each(&key, &value)?;
            }
        }
        // Clients that are elsewhere, or have closed everything.
        for (to, there) in served.into_values() {
            let value = tw_port_count {
                server_time_wait: there,
                ..tw_port_count::default()
            };
            each(&to, &value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use super::*;
    use crate::patience::Moments;

    #[test]
    #[ignore = "needs root: make test-live"]
    fn sockets_beyond_the_most_destinations_are_counted_as_such() {
        crate::error::quiet_libbpf();
        let conns: Vec<_> = (0..20)
            .map(|_| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                (listener, client)
            })
            .collect();
        let mut object = MaybeUninit::uninit();
        let mut walk = Walk::load(&mut object, &Filter::default(), 8).unwrap();
        let moments = Moments::begin(None, Arc::default());
        for _ in 0..2 {
            let mut counted = 0;
            let census = walk.count((1, 65535), moments.between(), |_, _| {
                counted += 1;
                Ok(())
            });
            // Other tests and programs have connections here, too.
            assert_eq!(counted, 8, "the map is emptied after each walk");
            assert!(census.unwrap().unwrap().uncounted >= 12);
        }
        drop(conns);
    }
}

//! Source `owners`: the processes that hold TCP sockets, and how many files each has open.

use std::collections::HashMap;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};

use crate::error::{Error, bpf_error};
use crate::iter;
use crate::wire::owners::{OwnersSkel, OwnersSkelBuilder};
use crate::wire::tw_owner;

/// The loaded iterator.
pub struct Owners<'o> {
    skel: OwnersSkel<'o>,
    link: Link,
}

impl<'o> Owners<'o> {
    /// Loads the iterator.
    pub fn load(object: &'o mut MaybeUninit<OpenObject>) -> Result<Owners<'o>, Error> {
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "loading the open-file counter".into(),
            why: bpf_error(&e),
        };
        let open = OwnersSkelBuilder::default().open(object).map_err(failed)?;
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.count.attach().map_err(failed)?;
        Ok(Owners { skel, link })
    }

    /// The processes that hold TCP sockets, by pid.
    pub fn walk(&mut self) -> Result<HashMap<u32, tw_owner>, Error> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.current = tw_owner::default();
        }
        let mut found: HashMap<u32, tw_owner> = HashMap::new();
        iter::run(&self.link, "the open-file counter", |owner: &tw_owner| {
            // Threads with files of their own come apart from their process: the limit holds
            // for each, so the fullest counts.
            let known = found.entry(owner.pid).or_insert(*owner);
            if owner.files > known.files {
                *known = *owner;
            }
            Ok(())
        })?;
        Ok(found)
    }
}

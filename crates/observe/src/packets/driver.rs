//! Loads the filter that finds control packets, once per namespace, all with one ring.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use recording::{Source, SourceName, Verdict};

use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::wire::packets::{PacketsSkel, PacketsSkelBuilder};
use crate::wire::same;

/// Which packets to record.
#[derive(Clone, Debug)]
pub struct PacketOptions {
    /// Of which namespaces, ports and addresses; a packet has no process.
    pub filter: Filter,
    /// Size of the ring buffer, bytes.
    pub ring_bytes: u32,
    /// Time between looks for new namespaces.
    pub interval: Duration,
}

/// Twelve packets a connection on loopback: this holds more than a second of 2,500 a second.
const MAX_RING_BYTES: u32 = 4 << 20;

/// Loads the filter for one namespace; `like` has the ring and the counters to share.
pub fn load<'o>(
    object: &'o mut MaybeUninit<OpenObject>,
    options: &PacketOptions,
    netns: u32,
    like: Option<&PacketsSkel>,
) -> Result<PacketsSkel<'o>, Error> {
    let failed = |e: libbpf_rs::Error| Error::Bpf {
        what: "loading the packet filter".into(),
        why: bpf_error(&e),
    };
    let mut open = PacketsSkelBuilder::default().open(object).map_err(failed)?;
    match like {
        Some(like) => {
            let (ring, lost) = (like.maps.ring.as_fd(), like.maps.lost.as_fd());
            open.maps.ring.reuse_fd(ring).map_err(failed)?;
            open.maps.lost.reuse_fd(lost).map_err(failed)?;
        }
        None => {
            let bytes = options.ring_bytes.min(MAX_RING_BYTES);
            open.maps.ring.set_max_entries(bytes).map_err(failed)?;
        }
    }
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return Err(Error::Bpf {
            what: "loading the packet filter".into(),
            why: "its read-only data is missing".into(),
        });
    };
    rodata.netns = netns;
    rodata.filter = same(&options.filter.wire().map_err(Error::Usage)?);
    open.load().map_err(failed)
}

/// What the filter gives, with a verdict.
pub fn sources(verdict: Verdict) -> Vec<Source> {
    vec![Source::optional(
        SourceName::Packets,
        "SYN, SYN-ACK, RST and FIN with their options, on the wire of every namespace",
        verdict,
    )]
}

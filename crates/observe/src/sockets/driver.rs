//! Loads the socket iterator and reads it for the calling thread's namespace.

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, OpenObject, ProgramInput};
use recording::tables::{Listener, Socket};
use recording::{TableWriter, Verdict};

use super::decode::Decoder;
use crate::error::{Error, bpf_error};
use crate::iter::EAGAIN;
use crate::kernel::KernelBtf;
use crate::pace::thread_cpu;
use crate::patience::Patience;
use crate::wire::sockets::{SocketsSkel, SocketsSkelBuilder};
use crate::wire::{read, tw_listener, tw_record, tw_socket};

/// Where the rows go.
pub struct SocketRows {
    /// All but listeners.
    pub sockets: TableWriter<Socket>,
    /// Listeners.
    pub listeners: TableWriter<Listener>,
}

/// The loaded iterator.
pub struct Sockets<'o> {
    skel: SocketsSkel<'o>,
    link: Link,
    /// Whether accept queues may be looked at between two dumps.
    looks: bool,
    /// Listeners that are not, told already.
    unwatched: u64,
    decoder: Decoder,
}

/// Listeners are forgotten that were not dumped for so long, or so many times the time between dumps.
const FORGOTTEN: Duration = Duration::from_secs(60);
const FORGOTTEN_DUMPS: u32 = 3;
/// By which a program goes through a map; Linux 5.13.
const GOES_THROUGH: &str = "for_each_map_elem";

/// The kernel fills at most 32 KiB a read.
const READ_BYTES: usize = 64 << 10;
/// Chunks read and not decoded yet; bounds memory.
const CHUNKS_AHEAD: usize = 64;

impl<'o> Sockets<'o> {
    /// Loads the iterator, for dumps so long after each other.
    pub fn load(
        object: &'o mut MaybeUninit<OpenObject>,
        sock_key: [u64; 2],
        btf: &KernelBtf,
        interval: Duration,
        decoder: Decoder,
    ) -> Result<Sockets<'o>, Error> {
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "loading the socket iterator".into(),
            why: bpf_error(&e),
        };
        let looks = btf.has_helper(GOES_THROUGH);
        let mut open = SocketsSkelBuilder::default().open(object).map_err(failed)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.sock_key = sock_key;
            rodata.looks = looks;
            let forgotten = FORGOTTEN.max(interval.saturating_mul(FORGOTTEN_DUMPS));
            // The kernel compares it with a sign.
            let forgotten = u64::try_from(forgotten.as_nanos()).unwrap_or(u64::MAX);
            rodata.forgotten_ns = forgotten.min(i64::MAX as u64);
        }
        open.progs.look.set_autoload(looks);
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.dump.attach().map_err(failed)?;
        Ok(Sockets {
            skel,
            link,
            looks,
            unwatched: 0,
            decoder,
        })
    }

    /// Whether connections that wait for accept() are seen between two dumps.
    pub fn may_look(&self) -> Verdict {
        if self.looks {
            Verdict::Attached
        } else {
            Verdict::Unsupported(format!(
                "programs of this kernel have no {GOES_THROUGH} (Linux 5.13)"
            ))
        }
    }

    /// Notes at every listener that was dumped how long the first in its accept queue has waited.
    pub fn look(&self) -> Result<(), Error> {
        if !self.looks {
            return Ok(());
        }
        let ran = self.skel.progs.look.test_run(ProgramInput::default());
        ran.map(|_| ()).map_err(|e| Error::Bpf {
            what: "looking at accept queues".into(),
            why: bpf_error(&e),
        })
    }

    /// Listeners since the last call at which it cannot, as there are too many.
    pub fn newly_unwatched(&mut self) -> u64 {
        let all = self
            .skel
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.unwatched);
        all - std::mem::replace(&mut self.unwatched, all)
    }

    /// Jiffies at the start of the last dump.
    pub fn last_dump(&self) -> u32 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.now)
    }

    /// Writes a row for every socket of the calling thread's namespace; with the jiffy `since`, only
    /// for connections that moved since then and for all that are neither ESTABLISHED nor TIME_WAIT.
    /// Calls `listener` with the inode of each listener's file. CPU time of the walk, which another
    /// thread made, and whether it came to its end before the patience did.
    pub fn dump(
        &mut self,
        since: Option<u32>,
        rows: &mut SocketRows,
        patience: Patience,
        mut listener: impl FnMut(u64),
    ) -> Result<(Duration, bool), Error> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.full_dump = since.is_none().into();
            bss.since = since.unwrap_or(0);
        }
        let iter = Iter::new(&self.link).map_err(|e| Error::Bpf {
            what: "starting the socket iterator".into(),
            why: bpf_error(&e),
        })?;
        // The kernel walks while we decode: a snapshot is the truer the shorter the walk.
        let (send, chunks) = sync_channel(CHUNKS_AHEAD);
        thread::scope(|scope| {
            let walk = scope.spawn(move || {
                let whole = read_all(iter, &send, patience);
                (thread_cpu(), whole)
            });
            let mut pending = Vec::new();
            for chunk in chunks {
                let bytes = chunk.map_err(|why| Error::System {
                    what: "reading the socket iterator".into(),
                    why,
                })?;
                pending.extend_from_slice(&bytes);
                let used = self.records(&pending, rows, &mut listener)?;
                pending.drain(..used);
            }
            walk.join().map_err(|_| Error::Thread("walk"))
        })
    }

    /// Writes the whole records at the start of `bytes`; how many bytes they were.
    fn records(
        &mut self,
        bytes: &[u8],
        rows: &mut SocketRows,
        listener: &mut impl FnMut(u64),
    ) -> Result<usize, Error> {
        let mut at = 0;
        loop {
            let bytes = &bytes[at..];
            let Some(kind) = bytes.first_chunk::<4>() else {
                return Ok(at);
            };
            if u32::from_ne_bytes(*kind) == tw_record::TW_RECORD_LISTENER.0 {
                let Some(record) = read::<tw_listener>(bytes) else {
                    return Ok(at);
                };
                listener(record.inode);
                rows.listeners.push(self.decoder.listener(&record))?;
                at += size_of::<tw_listener>();
            } else {
                let Some(record) = read::<tw_socket>(bytes) else {
                    return Ok(at);
                };
                rows.sockets.push(self.decoder.socket(&record))?;
                at += size_of::<tw_socket>();
            }
        }
    }
}

/// Reads the iterator; whether to its end.
fn read_all(mut iter: Iter, send: &SyncSender<io::Result<Vec<u8>>>, patience: Patience) -> bool {
    let mut buffer = vec![0; READ_BYTES];
    while !patience.is_over() {
        let chunk = match iter.read(&mut buffer) {
            Ok(0) => return true,
            Ok(n) => Ok(buffer[..n].to_vec()),
            Err(e) if e.raw_os_error() == Some(EAGAIN) => continue,
            Err(e) => Err(e),
        };
        let failed = chunk.is_err();
        // Nobody listens any more when decoding has failed.
        if send.send(chunk).is_err() || failed {
            return true;
        }
    }
    false
}

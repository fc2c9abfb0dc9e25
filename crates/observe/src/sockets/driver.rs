//! Loads the socket iterator and reads it for the calling thread's namespace.

use std::io::Read;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, OpenObject};
use recording::tables::{Listener, Socket};
use recording::{TableWriter, monotonic_ns};

use super::decode::Decoder;
use crate::error::{Error, bpf_error};
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
    decoder: Decoder,
    buffer: Vec<u8>,
}

/// The kernel fills at most 32 KiB a read.
const READ_BYTES: usize = 64 << 10;

impl<'o> Sockets<'o> {
    /// Loads the iterator.
    pub fn load(
        object: &'o mut MaybeUninit<OpenObject>,
        sock_key: [u64; 2],
        decoder: Decoder,
    ) -> Result<Sockets<'o>, Error> {
        let failed = |e: libbpf_rs::Error| Error::Bpf {
            what: "loading the socket iterator".into(),
            why: bpf_error(&e),
        };
        let mut open = SocketsSkelBuilder::default().open(object).map_err(failed)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.sock_key = sock_key;
        }
        let skel = open.load().map_err(failed)?;
        let link = skel.progs.dump.attach().map_err(failed)?;
        Ok(Sockets {
            skel,
            link,
            decoder,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Jiffies at the start of the last dump.
    pub fn last_dump(&self) -> u32 {
        self.skel.maps.bss_data.as_deref().map_or(0, |bss| bss.now)
    }

    /// Writes a row for every socket of the calling thread's namespace; without `full`, only for
    /// connections that moved since the jiffy `since` and for all that are not ESTABLISHED.
    /// Calls `listener` with the inode of each listener's file.
    pub fn dump(
        &mut self,
        full: bool,
        since: u32,
        rows: &mut SocketRows,
        mut listener: impl FnMut(u64),
    ) -> Result<(), Error> {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.full_dump = full.into();
            bss.since = since;
        }
        let mut iter = Iter::new(&self.link).map_err(|e| Error::Bpf {
            what: "starting the socket iterator".into(),
            why: bpf_error(&e),
        })?;
        let mut filled = 0;
        loop {
            let n = iter
                .read(&mut self.buffer[filled..])
                .map_err(|why| Error::System {
                    what: "reading the socket iterator".into(),
                    why,
                })?;
            if n == 0 {
                return Ok(());
            }
            filled += n;
            let used = self.records(monotonic_ns(), filled, rows, &mut listener)?;
            self.buffer.copy_within(used..filled, 0);
            filled -= used;
        }
    }

    /// Writes the whole records among the first `filled` bytes; how many bytes they were.
    fn records(
        &mut self,
        time_ns: u64,
        filled: usize,
        rows: &mut SocketRows,
        listener: &mut impl FnMut(u64),
    ) -> Result<usize, Error> {
        let mut at = 0;
        loop {
            let bytes = &self.buffer[at..filled];
            let Some(kind) = bytes.first_chunk::<4>() else {
                return Ok(at);
            };
            if u32::from_ne_bytes(*kind) == tw_record::TW_RECORD_LISTENER.0 {
                let Some(record) = read::<tw_listener>(bytes) else {
                    return Ok(at);
                };
                listener(record.inode);
                rows.listeners
                    .push(self.decoder.listener(time_ns, &record))?;
                at += size_of::<tw_listener>();
            } else {
                let Some(record) = read::<tw_socket>(bytes) else {
                    return Ok(at);
                };
                rows.sockets.push(self.decoder.socket(time_ns, &record))?;
                at += size_of::<tw_socket>();
            }
        }
    }
}

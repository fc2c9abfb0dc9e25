//! The recording that a model writes: its tables, its manifest, in an order that gives the same bytes.

use std::path::Path;

use recording::tables::{
    Call, Counter, Cpu, Event, Frame, Holder, Listener, PortUse, Process, Resource, Sample,
    Setting, Socket, Stack, TableSize, Thread, ThreadSleep, Wait,
};
use recording::{
    FORMAT, Host, Manifest, Namespace, Source, SourceName, Table, TableWriter, Verdict, Writer,
};

use crate::{Error, Values};

/// The virtual time 0 on the recording's clock, ns: no row has the time 0, which readers may take
/// for "never".
pub(crate) const START_NS: u64 = 1_000_000_000_000;
/// Segments are sealed at multiples of this in virtual time, never by the host's clock.
pub(crate) const SEGMENT_NS: u64 = 10_000_000_000;

/// A recording being written by a model. What fails is kept and told by [`finish`](Tables::finish),
/// so that a model's code is about the model.
pub(crate) struct Tables {
    writer: Writer,
    manifest: Manifest,
    lanes: Lanes,
    failed: Option<recording::Error>,
}

/// A table that comes into being with its first row.
struct Lane<T: Table>(Option<TableWriter<T>>);

macro_rules! lanes {
    ($($field:ident: $row:ident),+ $(,)?) => {
        struct Lanes { $($field: Lane<$row>,)+ }

        impl Lanes {
            fn new() -> Lanes {
                Lanes { $($field: Lane(None),)+ }
            }
            fn seal(&mut self) -> Result<(), recording::Error> {
                $(if let Some(writer) = &mut self.$field.0 { writer.seal()?; })+
                Ok(())
            }
        }

        $(impl Row for $row {
            fn lane(tables: &mut Tables) -> (&Writer, &mut Option<TableWriter<$row>>) {
                (&tables.writer, &mut tables.lanes.$field.0)
            }
        })+
    };
}

/// A row of a table that models write.
pub(crate) trait Row: Table {
    #[doc(hidden)]
    fn lane(tables: &mut Tables) -> (&Writer, &mut Option<TableWriter<Self>>);
}

lanes! {
    events: Event,
    sockets: Socket,
    listeners: Listener,
    holders: Holder,
    processes: Process,
    threads: Thread,
    sleeps: ThreadSleep,
    waits: Wait,
    sizes: TableSize,
    port_uses: PortUse,
    counters: Counter,
    settings: Setting,
    calls: Call,
    cpus: Cpu,
    resources: Resource,
    samples: Sample,
    stacks: Stack,
    frames: Frame,
}

impl Tables {
    pub(crate) fn create(
        dir: &Path,
        model: &str,
        values: &Values,
        seed: u64,
    ) -> Result<Tables, Error> {
        let all = values.all().map(|(name, value)| (name.to_string(), value));
        let manifest = Manifest {
            format: FORMAT,
            tcpwhy: env!("CARGO_PKG_VERSION").into(),
            producer: format!("model {model}"),
            parameters: all.chain([("seed".into(), seed.to_string())]).collect(),
            start_ns: START_NS,
            end_ns: START_NS,
            ..Manifest::default()
        };
        Ok(Tables {
            writer: Writer::create(dir, &manifest)?,
            manifest,
            lanes: Lanes::new(),
            failed: None,
        })
    }

    /// Says which kernel this is taken for, and on how many CPUs.
    pub(crate) fn host(&mut self, kernel: &str, cpus: u32) {
        self.manifest.host = Host {
            name: "computed".into(),
            kernel: kernel.into(),
            cpus,
            ..Host::default()
        };
    }

    pub(crate) fn namespace(&mut self, inode: u32, name: &str) {
        let name = name.into();
        self.manifest.namespaces.push(Namespace { inode, name });
    }

    /// A source that the model computes, named as the recorder's.
    pub(crate) fn computes(&mut self, name: SourceName, gives: &str) {
        let source = Source::required(name, gives, Verdict::Attached);
        self.manifest.sources.push(source);
    }

    /// Adds a row; its time is on the recording's clock.
    pub(crate) fn add<T: Row>(&mut self, row: T) {
        if self.failed.is_some() {
            return;
        }
        let (writer, table) = T::lane(self);
        let pushed = match table {
            Some(table) => table.push(row),
            None => writer
                .table::<T>()
                .and_then(|made| table.insert(made).push(row)),
        };
        self.failed = pushed.err();
    }

    /// Ends a segment of every table.
    pub(crate) fn seal(&mut self) {
        if self.failed.is_none() {
            self.failed = self.lanes.seal().err();
        }
    }

    /// The virtual time at which the recording begins, ns; it is 0 unless said.
    pub(crate) fn starts(&mut self, virtual_ns: u64) {
        self.manifest.start_ns = START_NS + virtual_ns;
    }

    /// The virtual time at which the recording ends, ns.
    pub(crate) fn ends(&mut self, virtual_ns: u64) {
        self.manifest.end_ns = START_NS + virtual_ns;
    }

    /// Completes the recording, or says what went wrong while it was written.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.seal();
        if let Some(failed) = self.failed.take() {
            return Err(failed.into());
        }
        self.manifest.complete = true;
        self.writer.manifest(&self.manifest)?;
        Ok(())
    }

    /// Removes what was written.
    pub(crate) fn discard(self) {
        self.writer.discard();
    }
}

//! Rows on their way to disk: written as they come, or collected to be changed first.

use std::path::Path;

use recording::tables::*;
use recording::{
    Error, Host, Manifest, Namespace, Source, SourceName, Table, TableWriter, Verdict, Writer,
};

/// Where rows go; their order is that of each table for itself.
pub trait Sink {
    /// Adds a row.
    fn add<T: Row>(&mut self, row: T);

    /// Adds rows.
    fn extend<T: Row>(&mut self, rows: impl IntoIterator<Item = T>) {
        for row in rows {
            self.add(row);
        }
    }
}

/// A row of any table.
pub trait Row: Table + Clone {
    #[doc(hidden)]
    fn lane(lanes: &mut Lanes) -> &mut Lane<Self>;
    #[doc(hidden)]
    fn collected(rows: &mut Collected) -> &mut Vec<Self>;
}

/// The writer of a table that has rows; boxed, as each holds the builders of all its columns.
type Lane<T> = Option<Box<TableWriter<T>>>;

macro_rules! each_table {
    ($($field:ident: $row:ident,)+) => {
        /// The writers of the tables that have rows.
        #[doc(hidden)]
        #[derive(Default)]
        pub struct Lanes { $($field: Lane<$row>,)+ }

        impl Lanes {
            fn seal(&mut self) -> Result<(), Error> {
                $(if let Some(writer) = &mut self.$field { writer.seal()?; })+
                Ok(())
            }
        }

        $(impl Row for $row {
            fn lane(lanes: &mut Lanes) -> &mut Lane<$row> {
                &mut lanes.$field
            }
            fn collected(rows: &mut Collected) -> &mut Vec<$row> {
                &mut rows.$field
            }
        })+

        /// Rows of every table, which may be changed before they are written.
        #[derive(Clone, Debug, Default)]
        pub struct Collected {
            $(#[doc = concat!("[`", stringify!($row), "`]s.")] pub $field: Vec<$row>,)+
        }

        impl Collected {
            /// As the recorder writes them: each table in order of time.
            pub(crate) fn write(&self, tables: &mut Tables) {
                $(
                    let mut rows = self.$field.clone();
                    rows.sort_by_key(|row| row.time_ns);
                    tables.extend(rows);
                )+
            }
        }
    };
}
each_table! {
    events: Event,
    packets: Packet,
    calls: Call,
    sockets: Socket,
    listeners: Listener,
    holders: Holder,
    port_uses: PortUse,
    requests: Request,
    request_times: RequestTime,
    exchanges: Exchange,
    gaps: Gap,
    heartbeats: Heartbeat,
    processes: Process,
    cgroups: Cgroup,
    threads: Thread,
    sleeps: ThreadSleep,
    epolls: Epoll,
    waits: Wait,
    signals: Signal,
    samples: Sample,
    stacks: Stack,
    frames: Frame,
    cpus: Cpu,
    interrupts: Interrupt,
    resources: Resource,
    table_sizes: TableSize,
    counters: Counter,
    settings: Setting,
    interface_addresses: InterfaceAddress,
    host_names: HostName,
    health: Health,
}

/// A recording being written, row by row: a table comes into being with its first row. What fails is
/// kept and told by [`sealed`](Tables::sealed), so that a producer's code is about what it produces.
pub struct Tables {
    /// The manifest; written once more at the end.
    pub manifest: Manifest,
    writer: Writer,
    lanes: Lanes,
    failed: Option<Error>,
}

impl Tables {
    /// Begins the recording `dir`, which must not exist yet.
    pub fn create(dir: &Path, manifest: Manifest) -> Result<Tables, Error> {
        Ok(Tables {
            writer: Writer::create(dir, &manifest)?,
            manifest,
            lanes: Lanes::default(),
            failed: None,
        })
    }

    /// Says what is computed: a kernel on so many CPUs, its namespaces, and what each source gives.
    pub fn describe(
        &mut self,
        (kernel, cpus): (&str, u32),
        namespaces: impl IntoIterator<Item = (u32, String)>,
        gives: &[(SourceName, &str)],
    ) {
        self.manifest.host = Host {
            name: "computed".into(),
            kernel: kernel.into(),
            cpus,
            ..Host::default()
        };
        let namespaces = namespaces.into_iter();
        self.manifest.namespaces = namespaces
            .map(|(inode, name)| Namespace { inode, name })
            .collect();
        let source = |(name, gives): &(SourceName, &str)| {
            Source::required(name.clone(), gives, Verdict::Attached)
        };
        self.manifest.sources = gives.iter().map(source).collect();
    }

    /// Ends a segment of every table.
    pub fn seal(&mut self) {
        if self.failed.is_none() {
            self.failed = self.lanes.seal().err();
        }
    }

    /// Ends a segment of every table, and says what went wrong so far.
    pub fn sealed(&mut self) -> Result<(), Error> {
        self.seal();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Completes the recording.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.sealed()?;
        self.manifest.complete = true;
        self.writer.manifest(&self.manifest)
    }

    /// Removes what was written.
    pub fn discard(self) {
        self.writer.discard();
    }
}

impl Sink for Tables {
    fn add<T: Row>(&mut self, row: T) {
        if self.failed.is_some() {
            return;
        }
        let table = T::lane(&mut self.lanes);
        let pushed = match table {
            Some(table) => table.push(row),
            None => {
                (self.writer.table::<T>()).and_then(|made| table.insert(Box::new(made)).push(row))
            }
        };
        self.failed = pushed.err();
    }
}

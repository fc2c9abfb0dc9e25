//! Rows of several tables in one order of time, from a finished recording or a live one: a view
//! that reads these cannot tell which.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::cell::Value;
use crate::events::Events;
use crate::table::{Table, TableInfo};
use crate::tables::{self, Event};
use crate::{Batch, Error, Recording, RowRef, Scan, Segment};

/// Tables that explain rows of others by id. Their rows are given as soon as there are any,
/// whatever their time: who asks for a name wants it before the row that refers to it.
const AHEAD: &[&str] = &["holder", "process", "stack", "frame"];

/// The first sample of these tells what was there before anything happened; see [`Rows::foretell`].
const FORETOLD: &[&str] = &["listener", "socket"];
/// The first sample of all namespaces takes at most so long, ns.
const FIRST_SAMPLE_NS: u64 = 500_000_000;

/// What reads a table: events come as the steps of lives, the others as they are.
macro_rules! lane {
    (Steps, $table:ident) => {
        Steps
    };
    (Plain, $table:ident) => {
        Plain::<tables::$table>
    };
}

macro_rules! rows {
    ($($table:ident: $lane:ident),+ $(,)?) => {
        /// A row of any table.
        #[derive(Clone, Debug)]
        pub enum Row { $(
            #[doc = concat!("A row of [`tables::", stringify!($table), "`].")]
            $table(Box<tables::$table>),
        )+ }

        impl Row {
            /// When it happened or was sampled, ns of CLOCK_MONOTONIC.
            pub fn time_ns(&self) -> u64 {
                match self { $( Row::$table(row) => row.time_ns, )+ }
            }

            /// Whether it is of a table whose rows are given ahead of their time.
            pub fn comes_ahead(&self) -> bool {
                match self { $( Row::$table(_) => AHEAD.contains(&tables::$table::INFO.name), )+ }
            }

            /// Its table's name, documentation and columns.
            pub fn info(&self) -> TableInfo {
                match self { $( Row::$table(_) => tables::$table::INFO, )+ }
            }

            /// Its columns in order: name and value.
            pub fn cells(&self) -> Vec<(&'static str, Value<'_>)> {
                match self { $( Row::$table(row) => row.cells(), )+ }
            }
        }

        $( impl From<tables::$table> for Row {
            fn from(row: tables::$table) -> Row { Row::$table(Box::new(row)) }
        } )+

        /// The rows at these places of a segment, which must be in order.
        fn at(
            recording: &Recording,
            table: &str,
            segment: u32,
            rows: &[u32],
        ) -> Result<Vec<(RowRef, Row)>, Error> {
            $( if table == tables::$table::INFO.name {
                let found = recording.rows_at::<tables::$table>(segment, rows)?;
                return Ok(found.into_iter().map(|(at, row)| (at, row.into())).collect());
            } )+
            Ok(Vec::new())
        }

        fn lanes(
            wanted: &[&str],
            recording: Option<&Recording>,
        ) -> Result<Vec<Box<dyn Lane>>, Error> {
            let mut lanes: Vec<Box<dyn Lane>> = Vec::new();
            $( if wanted.contains(&tables::$table::INFO.name) {
                lanes.push(Box::new(<lane!($lane, $table)>::open(recording)?));
            } )+
            Ok(lanes)
        }
    };
}
rows!(
    Event: Steps,
    Packet: Plain,
    Call: Plain,
    Socket: Plain,
    Listener: Plain,
    Holder: Plain,
    PortUse: Plain,
    Request: Plain,
    RequestTime: Plain,
    Exchange: Plain,
    Gap: Plain,
    Heartbeat: Plain,
    Process: Plain,
    Cgroup: Plain,
    Thread: Plain,
    ThreadSleep: Plain,
    Epoll: Plain,
    Wait: Plain,
    Signal: Plain,
    Sample: Plain,
    Stack: Plain,
    Frame: Plain,
    Cpu: Plain,
    Interrupt: Plain,
    Resource: Plain,
    TableSize: Plain,
    Counter: Plain,
    Setting: Plain,
    InterfaceAddress: Plain,
    HostName: Plain,
    Health: Plain,
    Finding: Plain,
    Episode: Plain,
    Answer: Plain,
);

impl Recording {
    /// The rows at these places, whatever their tables; those that are nowhere are left out. Of a
    /// segment only the pages that hold one of them are decoded.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn pick(
        &self,
        places: impl IntoIterator<Item = RowRef>,
    ) -> Result<BTreeMap<RowRef, Row>, Error> {
        let mut wanted: BTreeMap<(&str, u32), BTreeSet<u32>> = BTreeMap::new();
        for place in places {
            let segment = wanted.entry((place.table, place.segment)).or_default();
            segment.insert(place.row);
        }
        let mut picked = BTreeMap::new();
        for ((table, segment), rows) in wanted {
            let rows: Vec<u32> = rows.into_iter().collect();
            picked.extend(at(self, table, segment, &rows)?);
        }
        Ok(picked)
    }
}

/// Rows of some tables, merged by time.
pub struct Rows {
    lanes: Vec<Box<dyn Lane>>,
    /// What is given before everything else.
    foretold: VecDeque<Row>,
}

impl From<Vec<Box<dyn Lane>>> for Rows {
    fn from(lanes: Vec<Box<dyn Lane>>) -> Rows {
        Rows {
            lanes,
            foretold: VecDeque::new(),
        }
    }
}

impl Rows {
    /// Gives the first sample of listeners and sockets before everything else, and in its place once more: whoever
    /// asks whose an older connection is wants it before the event that is about it. Whether there was one.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn foretell(&mut self) -> Result<bool, Error> {
        for lane in &mut self.lanes {
            if FORETOLD.contains(&lane.table()) {
                self.foretold.extend(lane.first()?);
            }
        }
        Ok(!self.foretold.is_empty())
    }

    /// Of a recording on disk; the names of the tables that are wanted.
    ///
    /// # Errors
    ///
    /// A name that is no table, or a directory that cannot be read.
    pub fn of(recording: &Recording, tables: &[&str]) -> Result<Rows, Error> {
        Ok(Rows::from(lanes(tables, Some(recording))?))
    }

    /// Of a live recording, whose segments are [`add`](Rows::add)ed as they come.
    ///
    /// # Errors
    ///
    /// A name that is no table.
    pub fn live(tables: &[&str]) -> Result<Rows, Error> {
        Ok(Rows::from(lanes(tables, None)?))
    }

    /// Adds a segment; of a table that is not wanted, nothing.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn add(&mut self, segment: &Segment) -> Result<(), Error> {
        let mut lanes = self.lanes.iter_mut();
        match lanes.find(|l| l.table() == segment.table()) {
            Some(lane) => lane.add(segment),
            None => Ok(()),
        }
    }

    /// The next row in order of time that is not later than `until_ns`. Rows of the same time come
    /// in the order in which the tables are declared.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn next(&mut self, until_ns: u64) -> Result<Option<Row>, Error> {
        if let Some(row) = self.foretold.pop_front() {
            return Ok(Some(row));
        }
        let mut first: Option<(u64, usize)> = None;
        for (i, lane) in self.lanes.iter_mut().enumerate() {
            let Some(time) = lane.head()? else { continue };
            if AHEAD.contains(&lane.table()) {
                return Ok(lane.pop());
            }
            if time <= until_ns && first.is_none_or(|(least, _)| time < least) {
                first = Some((time, i));
            }
        }
        Ok(first.and_then(|(_, i)| self.lanes[i].pop()))
    }
}

/// The rows of one table.
trait Lane {
    fn table(&self) -> &'static str;
    fn add(&mut self, segment: &Segment) -> Result<(), Error>;
    /// The time of the next row.
    fn head(&mut self) -> Result<Option<u64>, Error>;
    /// The row whose time `head` told.
    fn pop(&mut self) -> Option<Row>;
    /// The rows of the first sample, which stay.
    fn first(&mut self) -> Result<Vec<Row>, Error> {
        Ok(Vec::new())
    }
}

/// Rows as they are.
struct Plain<T: Table> {
    scan: Option<Scan<T>>,
    batches: VecDeque<Batch<T>>,
    /// Next row of the first batch.
    next: usize,
    head: Option<T>,
}

impl<T: Table> Plain<T> {
    fn open(recording: Option<&Recording>) -> Result<Plain<T>, Error> {
        Ok(Plain {
            scan: recording.map(Recording::scan).transpose()?,
            batches: VecDeque::new(),
            next: 0,
            head: None,
        })
    }
}

impl<T: Table> Lane for Plain<T>
where
    Row: From<T>,
{
    fn table(&self) -> &'static str {
        T::INFO.name
    }

    fn add(&mut self, segment: &Segment) -> Result<(), Error> {
        if let Some(batch) = segment.rows() {
            self.batches.push_back(batch?);
        }
        Ok(())
    }

    fn head(&mut self) -> Result<Option<u64>, Error> {
        while self.head.is_none() {
            match self.batches.front() {
                Some(batch) if self.next < batch.len() => {
                    self.head = Some(batch.row(self.next).1);
                    self.next += 1;
                }
                Some(_) => {
                    self.batches.pop_front();
                    self.next = 0;
                }
                None => match self.scan.as_mut().and_then(Iterator::next) {
                    Some(batch) => self.batches.push_back(batch?),
                    None => return Ok(None),
                },
            }
        }
        Ok(self.head.as_ref().map(T::time_ns))
    }

    fn pop(&mut self) -> Option<Row> {
        self.head.take().map(Row::from)
    }

    fn first(&mut self) -> Result<Vec<Row>, Error> {
        let Some(first_ns) = self.head()? else {
            return Ok(Vec::new());
        };
        let until_ns = first_ns.saturating_add(FIRST_SAMPLE_NS);
        let batches = self.batches.iter();
        let rows = batches.flat_map(|batch| (0..batch.len()).map(|nth| batch.row(nth).1));
        Ok(rows
            .take_while(|row| row.time_ns() <= until_ns)
            .map(Row::from)
            .collect())
    }
}

/// Events, whole lives taken apart.
struct Steps {
    read: Option<Events>,
    live: VecDeque<Box<dyn Iterator<Item = (RowRef, Event)>>>,
    head: Option<Event>,
}

impl Steps {
    fn open(recording: Option<&Recording>) -> Result<Steps, Error> {
        Ok(Steps {
            read: recording.map(Recording::events).transpose()?,
            live: VecDeque::new(),
            head: None,
        })
    }
}

impl Lane for Steps {
    fn table(&self) -> &'static str {
        Event::INFO.name
    }

    fn add(&mut self, segment: &Segment) -> Result<(), Error> {
        if let Some(batch) = segment.rows() {
            self.live.push_back(Box::new(Events::of(batch?)));
        }
        Ok(())
    }

    fn head(&mut self) -> Result<Option<u64>, Error> {
        while self.head.is_none() {
            if let Some(events) = &mut self.read {
                match events.next().transpose()? {
                    Some((_, event)) => self.head = Some(event),
                    None => return Ok(None),
                }
            } else if let Some(events) = self.live.front_mut() {
                match events.next() {
                    Some((_, event)) => self.head = Some(event),
                    None => drop(self.live.pop_front()),
                }
            } else {
                return Ok(None);
            }
        }
        Ok(self.head.as_ref().map(|e| e.time_ns))
    }

    fn pop(&mut self) -> Option<Row> {
        self.head.take().map(Row::from)
    }
}

//! The waist of tcpwhy: what a recording is, and the only code that reads or writes one.
//!
//! A recording is a directory `NAME.tcpwhy/` with a `manifest.json` and, per table, Parquet
//! segments that are sealed by rename; or all of that as one file, `NAME.tcpw`. Producers (`observe`) append rows; consumers (`explain`,
//! `view`) scan them; neither knows the other. Every table is declared once, in [`tables`]: its
//! Rust row, its Arrow schema, its writer, its reader and its page in the book come from that one
//! declaration.

#![doc = include_str!("../README.md")]
#![warn(clippy::missing_errors_doc)]

mod addr;
mod ahead;
mod backquotes;
mod cell;
mod cgroups;
mod chunks;
mod clock;
mod copy;
pub mod counter;
mod docs;
pub mod drop_reason;
mod error;
mod events;
mod feed;
mod files;
mod filter;
mod guard;
mod home;
mod leg;
mod limits;
mod manifest;
mod mapping;
mod owner;
mod pack;
mod pages;
mod read;
mod redact;
mod replace;
mod row_ref;
mod rows;
mod scan;
mod scratch;
pub mod scrub;
mod segment;
mod span;
mod stacks;
pub mod sysctl;
mod table;
pub mod tables;
mod text;
mod thrift;
mod unpack;
pub mod vocabulary;
mod window;
mod word;
mod write;

pub use addr::Addr;
pub use ahead::Ahead;
pub use backquotes::without_backquotes;
pub use cell::Value;
#[doc(hidden)]
pub use cell::{Cell, TextBuilder};
pub use clock::{clock_is_known, monotonic_ns};
pub use docs::{tables_json, tables_page};
pub use error::Error;
pub use events::Events;
pub use feed::{Feed, Next, Segment};
pub use filter::{Filter, Prefix};
pub use home::{Home, is_host_name, is_name};
pub use limits::cut;
pub use manifest::{FORMAT, Host, Intent, Manifest, Namespace, OwnCost, Ran, Source, Verdict};
pub use owner::Owner;
pub use pack::{PACKED, is_recording, pack};
pub use read::Recording;
pub use redact::Redactor;
pub use replace::replace;
pub use row_ref::RowRef;
pub use rows::{Row, Rows};
pub use scan::{Batch, Scan};
pub use scratch::{ASIDE, Scratch, UNPACKED, left, sweep};
pub use stacks::{Place, Stacks};
#[doc(hidden)]
pub use table::Columnar;
pub use table::{Column, Table, TableInfo, Unit};
pub use text::Text;
pub use unpack::is_packed;
pub use vocabulary::{
    CallKind, EventKind, FileKind, HealthKind, RetransmitKind, Role, SignalName, SourceName,
    TcpState, Timed, Transport, Waker,
};
pub use window::Window;
pub use word::{VocabularyInfo, Word};
pub use write::{TableWriter, Writer};

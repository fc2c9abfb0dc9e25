//! `stat tables`: how full the kernel's lookup structures on the TCP path are.

use std::io;

use analysis::structures;
use recording::tables::TableSize;
use recording::{Filter, Row, Table, Text};

use super::largest::{Largest, Ranked};
use super::rounds::Sampler;
use crate::columns::{Unit, Value, columns, heads, json, left, right, row};
use crate::screen::Screen;

/// Structures shown per report.
const MAX_ROWS: usize = 1 << 16;
/// A lookup that walks longer chains than this costs more than the packet.
const LONG_CHAIN: f64 = 10.0;
/// Close to its limit, in percent.
const NEARLY_FULL: f64 = 80.0;

/// A lookup structure.
pub(crate) struct Structure {
    pub(crate) row: TableSize,
    /// Entries when it was first sampled, where that is kept.
    pub(crate) at_first: Option<u64>,
}

columns! {
    Structure = "table_size" {
        text TIME NETNS STRUCTURE ENTRIES BUCKETS MEAN LONGEST LIMIT LIMIT_SHARE BYTES NOTES;
        json TIME ROW NETNS MEAN LIMIT_SHARE LONG_CHAINS;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.row.time_ns);
    ROW: row(TableSize::INFO) => |l, _| Value::Row(l.row.cells());
    NETNS: heads::NETNS => |l, _| Value::Netns(l.row.netns);
    /// Name of the structure.
    STRUCTURE: left("STRUCTURE", 28, &["structure"], Unit::Name) => |l, _| (&l.row.structure).into();
    /// Entries that it has.
    ENTRIES: right("ENTRIES", 10, &["entries"], Unit::Count) => |l, _| l.row.entries.into();
    /// Buckets of a hash table.
    BUCKETS: right("BUCKETS", 9, &["buckets"], Unit::Count) => |l, _| l.row.buckets.into();
    /// Entries ÷ buckets: the chain that a lookup walks on average.
    MEAN: right("MEAN", 7, &["mean_chain"], Unit::Ratio) => |l, _| l.mean_chain().into();
    /// The longest chain.
    LONGEST: right("LONGEST", 7, &["longest_chain"], Unit::Count) => |l, _| l.row.longest_chain.into();
    /// Most entries that it may have.
    LIMIT: right("LIMIT", 10, &["limit"], Unit::Count) => |l, _| l.row.limit.into();
    /// Entries ÷ limit.
    LIMIT_SHARE: right("LIMIT%", 6, &["limit_percent"], Unit::Percent) => |l, _| l.limit_percent().into();
    /// Memory that it takes.
    BYTES: right("BYTES", 12, &["bytes"], Unit::Bytes) => |l, _| l.row.bytes.into();
    /// `LONG CHAINS`: above 10 on average; `NEARLY FULL`: from 80 % of its limit on.
    NOTES: left("NOTES", 1, &[], Unit::Words) => |l, _| l.notes().into();
    /// Chains above 10 on average.
    LONG_CHAINS: json(&["long_chains"], Unit::Flag) => |l, _| l.has_long_chains().into();
}

impl Structure {
    fn mean_chain(&self) -> Option<f64> {
        structures::chain(self.row.entries, self.row.buckets)
    }

    fn limit_percent(&self) -> Option<f64> {
        Some(structures::share(self.row.entries, self.row.limit)? * 100.0)
    }

    fn has_long_chains(&self) -> bool {
        self.mean_chain().is_some_and(|mean| mean > LONG_CHAIN)
    }

    fn notes(&self) -> String {
        let nearly_full = self.limit_percent().is_some_and(|full| full >= NEARLY_FULL);
        let all = [
            (self.has_long_chains(), "LONG CHAINS"),
            (nearly_full, "NEARLY FULL"),
        ];
        let notes = all
            .iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, note)| *note);
        notes.collect::<Vec<_>>().join(", ")
    }
}

/// By its entries.
impl Ranked for Structure {
    fn rank(&self) -> f64 {
        self.row.entries as f64
    }
}

#[derive(Default)]
pub(super) struct Tables {
    /// By when they came: that is how the host's tables are listed.
    now: Largest<usize, Structure, MAX_ROWS>,
    came: usize,
}

impl Sampler for Tables {
    /// Namespace and structure.
    type Key = (u32, Text);

    fn tables(&self) -> Vec<&'static str> {
        vec!["table_size"]
    }

    fn key(&mut self, row: &Row, filter: &Filter) -> Option<Self::Key> {
        let Row::TableSize(row) = row else {
            return None;
        };
        // What belongs to the whole host belongs to each namespace, too.
        let asked = row.netns == 0 || filter.netns_ok(row.netns);
        asked.then(|| (row.netns, row.structure.clone()))
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::TableSize(row) = row {
            let structure = Structure {
                row: *row,
                at_first: None,
            };
            self.now.insert(self.came, structure);
            self.came += 1;
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let (now, left_out) = self.now.take();
        let Some(time_ns) = shown_ns else {
            return Ok(());
        };
        for line in now.values() {
            screen.show(line)?;
        }
        left_out.show::<Structure>(time_ns, screen)?;
        screen.end_report();
        Ok(())
    }
}

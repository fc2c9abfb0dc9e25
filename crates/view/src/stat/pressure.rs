//! The table of `stat use`: a line for each resource with its worst utilisation, saturation and error, the
//! worst resource first.

use std::collections::BTreeMap;
use std::io;

use analysis::words::{self, plural};
use recording::tables::Resource;

use super::checked::Checked;
use crate::columns::{Unit, columns, left};
use crate::how::How;
use crate::numbers::{bits_per_s, tenth};
use crate::screen::Screen;

/// Lines of the table: a screen of 24 has room for what is above and below, too.
const SHOWN: usize = 19;
/// A resource used up to this share of its limit is marked.
const USED: f64 = 0.8;
/// An interface without a known speed ranks as if this share of a limit were used.
const BUSY: f64 = 0.02;
/// A limit up to which text has numbers, not a share.
const FEW: f64 = 1_000.0;
/// A resource that something waited for during this share of the time is marked.
const WAITED: f64 = 0.2;

/// Columns of the resource's name.
const PLACE: usize = 26;

/// A resource: the worst of each aspect.
pub(crate) struct Pressed {
    resource: String,
    cells: [Option<Cell>; 3],
}

/// A metric, how bad it is, and its words.
#[derive(Clone, Debug)]
struct Cell {
    rank: f64,
    /// The larger comes first among equals.
    value: f64,
    marked: bool,
    says: String,
}

columns! {
    Pressed = "use" {
        text MARK RESOURCE UTILISATION SATURATION ERRORS;
        json MARK;
    }
    /// `!`: it fails, work waits for it (20 % of the time, or as many as its limit), or 80 % of it are used.
    MARK: left("", 1, &[], Unit::Words) => |l, _| (if l.is_marked() { "!" } else { "" }).into();
    /// Resource, which one of its kind, and `@` with its namespace.
    RESOURCE: left("RESOURCE", PLACE, &[], Unit::Words) => |l, _| shortened(&l.resource).into();
    /// How much of it is used: share of its limit where it has one.
    UTILISATION: left("UTILISATION", 17, &[], Unit::Name) => |l, _| l.says(0);
    /// What waits for it, or finds no room.
    SATURATION: left("SATURATION", 24, &[], Unit::Name) => |l, _| l.says(1);
    /// What fails.
    ERRORS: left("ERRORS", 1, &[], Unit::Name) => |l, _| l.says(2);
}

impl Pressed {
    fn says(&self, aspect: usize) -> crate::columns::Value<'_> {
        self.cells[aspect].as_ref().map(|c| c.says.as_str()).into()
    }

    fn is_marked(&self) -> bool {
        self.cells.iter().flatten().any(|c| c.marked)
    }

    /// The worst that is said of it, and among equals the larger value.
    fn rank(&self) -> (bool, f64, f64) {
        let worst = |of: fn(&Cell) -> f64| {
            let cells = self.cells.iter().flatten();
            cells.map(of).fold(0.0, f64::max)
        };
        (self.is_marked(), worst(|c| c.rank), worst(|c| c.value))
    }
}

/// The lines of one report, or of a whole recording each at its worst.
#[derive(Default)]
pub(super) struct Table {
    resources: BTreeMap<String, [Option<Cell>; 3]>,
    between_ns: Option<(u64, u64)>,
    samples: u64,
}

impl Table {
    /// A sample of this time begins.
    pub(super) fn sample(&mut self, time_ns: u64) {
        let first = self.between_ns.map_or(time_ns, |(first, _)| first);
        self.between_ns = Some((first, time_ns));
        self.samples += 1;
    }

    /// Adds a line of the checklist.
    pub(super) fn add(&mut self, line: &Checked, how: &How) {
        let r = &line.row;
        let place = match (&*r.instance, r.netns) {
            ("", 0) => r.resource.to_string(),
            // The metric says what it has: open files.
            (instance, 0) if r.metric.starts_with("process_") => instance.to_string(),
            (instance, 0) => format!("{} {instance}", r.resource),
            ("", netns) => format!("{}@{}", r.resource, how.netns(netns)),
            (instance, netns) => format!("{instance}@{}", how.netns(netns)),
        };
        let cells = self.resources.entry(place).or_default();
        let aspect = match &*r.aspect {
            "utilisation" => 0,
            "saturation" => 1,
            _ => 2,
        };
        let Some(cell) = cell(line, aspect) else {
            return;
        };
        let worse = |known: &Cell| (cell.rank, cell.value) > (known.rank, known.value);
        if cells[aspect].as_ref().is_none_or(worse) {
            cells[aspect] = Some(cell);
        }
    }

    /// Prints it, and starts over.
    pub(super) fn show(&mut self, screen: &mut Screen) -> io::Result<()> {
        let Table {
            resources,
            between_ns: Some((first, last)),
            samples,
        } = std::mem::take(self)
        else {
            return Ok(());
        };
        let at = |ns| screen.how.time(ns);
        let title = match samples {
            1 => format!("{} {}", at(last), screen.how.zone_name),
            n => format!(
                "{} to {} {}: each at its worst of {n} samples",
                at(first),
                at(last),
                screen.how.zone_name
            ),
        };
        let of = resources.len();
        let lines = resources.into_iter();
        let lines = lines.map(|(resource, cells)| Pressed { resource, cells });
        let mut lines: Vec<_> = lines
            .filter(|l| l.cells.iter().any(Option::is_some))
            .collect();
        lines.sort_by(|a, b| {
            let (a, b) = (a.rank(), b.rank());
            (b.0.cmp(&a.0)).then(b.1.total_cmp(&a.1).then(b.2.total_cmp(&a.2)))
        });
        screen.more(&title)?;
        for line in lines.iter().take(SHOWN) {
            screen.show(line)?;
        }
        let further = lines.len().saturating_sub(SHOWN);
        let idle = of - lines.len();
        let left_out = [
            (further, "further in use"),
            (idle, "where everything is zero"),
        ];
        let left_out = left_out.iter().filter(|(n, _)| *n > 0);
        let left_out: Vec<_> = left_out.map(|(n, what)| format!("{n} {what}")).collect();
        if !left_out.is_empty() {
            let resources = plural(of as u64, "resource");
            screen.more(&format!(
                "of {resources} not shown: {}; --all shows every line",
                left_out.join(", ")
            ))?;
        }
        Ok(())
    }
}

/// What a line says of its resource; nothing of what is zero.
fn cell(line: &Checked, aspect: usize) -> Option<Cell> {
    let value = line.value().filter(|v| *v > 0.0)?;
    let share = line.used_percent().map(|percent| percent / 100.0);
    let row = &line.row;
    let time = matches!(&*row.unit, "ms" | "%");
    let (rank, marked) = match (aspect, share) {
        (0, Some(share)) => (share, share >= USED),
        // How much went through an interface is worth more than that it hardly used its limit.
        (0, None) if row.cumulative => (BUSY, false),
        (0, None) => (0.0, false),
        // Pages that are read for the first time are such faults.
        (1, None) if &*row.metric == "major_faults" => (0.1, false),
        (1, Some(share)) => (share, share >= if time { WAITED } else { 1.0 }),
        // Time without a limit, or what waits just now, is not a sign by itself.
        (1, None) if time || !row.cumulative => (0.1, false),
        (1, None) => (1.5, true),
        _ => (2.0, true),
    };
    Some(Cell {
        rank,
        value,
        marked,
        says: says(row, value, share),
    })
}

/// A name of at most as many letters as there is room for: its middle says least.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let Some(over) = letters.len().checked_sub(PLACE).filter(|n| *n > 0) else {
        return name.to_string();
    };
    let (head, tail) = (PLACE / 2, PLACE / 2 + over + 1);
    let part = |letters: &[char]| letters.iter().collect::<String>();
    format!("{}…{}", part(&letters[..head]), part(&letters[tail..]))
}

/// A metric in few words.
fn says(row: &Resource, value: f64, share: Option<f64>) -> String {
    let metric = &*row.metric;
    let name = ["_ms", "_bytes", "_events"];
    let name = name.iter().find_map(|unit| metric.strip_suffix(unit));
    let name = name.unwrap_or(metric);
    let name = name.strip_prefix("process_").unwrap_or(name);
    match (&*row.unit, share, row.cumulative) {
        ("count", Some(_), false) if row.limit.is_some_and(|limit| limit <= FEW) => {
            let limit = row.limit.map(short).unwrap_or_default();
            format!("{name} {} of {limit}", short(value))
        }
        // Two clocks make it a little more than all.
        (_, Some(share), _) if &*row.aspect == "utilisation" && share > 1.0 && share < 1.05 => {
            format!("{name} 100 %")
        }
        (_, Some(share), _) => format!("{name} {} %", tenth(share * 100.0)),
        ("bytes", None, true) => format!("{name} {}", bits_per_s((value * 8.0) as u64)),
        ("bytes", None, false) => format!("{name} {}", words::bytes(value as u64)),
        ("count", None, true) => format!("{name} {}/s", short(value)),
        ("count", None, false) => format!("{name} {}", short(value)),
        (unit, None, true) => format!("{name} {} {unit}/s", short(value)),
        (unit, None, false) => format!("{name} {} {unit}", short(value)),
    }
}

fn short(value: f64) -> String {
    match value {
        v if v.abs() >= 100.0 => words::count(v.round().clamp(0.0, 1e18) as u64),
        v if v.fract() == 0.0 => format!("{v:.0}"),
        v => tenth(v),
    }
}

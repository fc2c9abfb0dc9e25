//! Settings per namespace, with those of the host behind them.

use std::collections::{BTreeMap, BTreeSet};

use recording::tables::Setting;
use recording::{Error, Recording, RowRef, Text};

use crate::bounded::BoundedMap;

/// More than this do not come from a real host: 10,000 namespaces with 30 settings.
const MAX_SETTINGS: usize = 300_000;

/// The settings in force at the end of the recording.
#[derive(Debug, Default)]
pub struct Settings {
    values: BoundedMap<(u32, Box<str>), (Text, RowRef), MAX_SETTINGS>,
}

/// A setting and the row that says so.
#[derive(Clone, Debug)]
pub struct Value {
    /// As sysctl prints it.
    pub text: Text,
    pub row: RowRef,
}

impl Value {
    /// The value as a number; of several, the `index`-th.
    pub fn number(&self, index: usize) -> Option<u64> {
        self.text.split_whitespace().nth(index)?.parse().ok()
    }
}

impl Settings {
    /// How often something found no room.
    pub fn folded(&self) -> u64 {
        self.values.folded()
    }

    pub(crate) fn read(recording: &Recording) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        for batch in recording.scan::<Setting>()? {
            for (at, row) in batch?.rows() {
                let key = (row.netns, Box::from(&*row.name));
                let value = (row.value, at);
                if let Some(known) = settings.values.first_come(key, || value.clone()) {
                    *known = value;
                }
            }
        }
        Ok(settings)
    }

    /// A setting of the namespace, else of the whole host.
    pub fn get(&self, netns: u32, name: &str) -> Option<Value> {
        let find = |netns| self.values.get(&(netns, Box::from(name)));
        let (text, row) = find(netns).or_else(|| find(0))?;
        Some(Value {
            text: text.clone(),
            row: *row,
        })
    }

    /// The values of each setting, over all namespaces.
    pub fn all(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for ((_, name), (value, _)) in self.values.iter() {
            let values = all.entry(name.to_string()).or_default();
            values.insert(value.to_string());
        }
        all
    }

    /// Settings whose names end with `end`, by namespace, with the part of the name before it.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (u32, &'a str)> {
        let names = self.values.iter().map(|((netns, name), _)| (*netns, name));
        names.filter_map(move |(netns, name)| Some((netns, name.strip_suffix(end)?)))
    }

    /// The number that a setting of one number holds.
    pub fn number(&self, netns: u32, name: &str) -> Option<u64> {
        self.get(netns, name)?.number(0)
    }
}

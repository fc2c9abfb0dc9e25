//! Source `settings`: the sysctls that matter to TCP, of a namespace and of the host, and the settings of
//! the host's interfaces.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use recording::sysctl::{OF_HOST, OF_NAMESPACE};
use recording::tables::Setting;
use recording::{TableWriter, Text, monotonic_ns};

use crate::error::Error;
use crate::nic;

/// The values seen last, per namespace; those of the host are of namespace 0.
#[derive(Default)]
pub struct Settings {
    last: HashMap<u32, BTreeMap<Text, Text>>,
    /// Names and values, each once for all namespaces.
    texts: HashSet<Text>,
}

/// Texts that are kept: any user may set values in namespaces of his own.
const MOST_TEXTS: usize = 1 << 14;

impl Settings {
    /// Writes the settings of the calling thread's namespace `netns` that changed.
    pub fn of_namespace(
        &mut self,
        netns: u32,
        rows: &mut TableWriter<Setting>,
    ) -> Result<(), Error> {
        self.sample(netns, OF_NAMESPACE, rows)
    }

    /// Writes the settings of the host that changed.
    pub fn of_host(&mut self, rows: &mut TableWriter<Setting>) -> Result<(), Error> {
        self.sample(0, OF_HOST, rows)
    }

    /// Writes the settings of the host's interfaces that changed.
    pub fn of_interfaces(&mut self, rows: &mut TableWriter<Setting>) -> Result<(), Error> {
        nic::settings()
            .into_iter()
            .try_for_each(|(name, value)| self.note(0, &name, &value, rows))
    }

    fn sample(
        &mut self,
        netns: u32,
        names: &[&'static str],
        rows: &mut TableWriter<Setting>,
    ) -> Result<(), Error> {
        for &name in names {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            let Ok(value) = fs::read_to_string(path) else {
                continue;
            };
            let value: Vec<&str> = value.split_ascii_whitespace().collect();
            self.note(netns, name, &value.join(" "), rows)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        netns: u32,
        name: &str,
        value: &str,
        rows: &mut TableWriter<Setting>,
    ) -> Result<(), Error> {
        let last = self.last.get(&netns).and_then(|last| last.get(name));
        if last.is_some_and(|last| **last == *value) {
            return Ok(());
        }
        let (name, value) = (self.text(name), self.text(value));
        let of_namespace = self.last.entry(netns).or_default();
        of_namespace.insert(name.clone(), value.clone());
        let time_ns = monotonic_ns();
        Ok(rows.push(Setting {
            time_ns,
            netns,
            name,
            value,
        })?)
    }

    fn text(&mut self, text: &str) -> Text {
        if let Some(text) = self.texts.get(text) {
            return text.clone();
        }
        if self.texts.len() >= MOST_TEXTS {
            self.texts.clear();
        }
        let text = Text::from(text);
        self.texts.insert(text.clone());
        text
    }

    /// Forgets namespaces that are not there any more.
    pub fn forget(&mut self, is_there: impl Fn(u32) -> bool) {
        self.last.retain(|netns, _| *netns == 0 || is_there(*netns));
    }
}

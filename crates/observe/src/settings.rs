//! Source `settings`: the sysctls that matter to TCP, of a namespace and of the host, and the settings of
//! the host's interfaces.

use std::collections::HashMap;
use std::fs;

use recording::sysctl::{OF_HOST, OF_NAMESPACE};
use recording::tables::Setting;
use recording::{TableWriter, Text, monotonic_ns};

use crate::error::Error;
use crate::nic;

/// The values seen last.
#[derive(Default)]
pub struct Settings {
    last: HashMap<(u32, Text), Text>,
}

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
        let all = nic::settings().into_iter();
        all.map(|(name, value)| (name.into(), value.into()))
            .try_for_each(|(name, value)| self.note(0, name, value, rows))
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
            self.note(netns, name.into(), value.join(" ").into(), rows)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        netns: u32,
        name: Text,
        value: Text,
        rows: &mut TableWriter<Setting>,
    ) -> Result<(), Error> {
        let key = (netns, name.clone());
        if self.last.get(&key) == Some(&value) {
            return Ok(());
        }
        self.last.insert(key, value.clone());
        let time_ns = monotonic_ns();
        Ok(rows.push(Setting {
            time_ns,
            netns,
            name,
            value,
        })?)
    }
}

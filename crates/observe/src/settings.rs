//! Source `settings`: the sysctls that matter to TCP, of a namespace and of the host.

use std::collections::HashMap;
use std::fs;

use recording::sysctl::{OF_HOST, OF_NAMESPACE};
use recording::tables::Setting;
use recording::{TableWriter, Text, monotonic_ns};

use crate::error::Error;

/// The values seen last.
#[derive(Default)]
pub struct Settings {
    last: HashMap<(u32, &'static str), Text>,
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
            let value = Text::from(value.join(" "));
            if self.last.get(&(netns, name)) != Some(&value) {
                rows.push(Setting {
                    time_ns: monotonic_ns(),
                    netns,
                    name: name.into(),
                    value: value.clone(),
                })?;
                self.last.insert((netns, name), value);
            }
        }
        Ok(())
    }
}

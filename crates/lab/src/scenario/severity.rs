//! How severe a scenario's fault is, for the exam: which numbers of its file decide that, and what can be
//! told of it from where.

use serde::Deserialize;
use toml::{Table, Value};

use super::change;

/// The severities between which a lever is described: `mild` at the first, `severe` at the second.
pub(crate) const LADDER: [f64; 2] = [0.3, 30.0];

/// Makes a scenario a template of the exam.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Severity {
    /// What is changed in the file.
    pub(crate) levers: Vec<Lever>,
    /// Ids of the causes that are right where both sides are recorded; that of the truth when empty.
    #[serde(default)]
    pub(crate) tells: Vec<String>,
    /// Those that are right where only the clients' nodes are recorded; none when nothing can be told from
    /// there. Absent: it is not asked.
    pub(crate) client_tells: Option<Vec<String>>,
    /// The same of the servers' nodes.
    pub(crate) server_tells: Option<Vec<String>>,
    /// Ids of causes that may be told too: another way of telling the same.
    #[serde(default)]
    pub(crate) may: Vec<String>,
    /// It costs microseconds each time: it counts by how many times as long everything takes.
    #[serde(default)]
    pub(crate) by_factor: bool,
    /// The clients that it hurts, where that is not all that connect to what the truth names.
    #[serde(default)]
    pub(crate) hurts: Vec<String>,
    /// The fault still shows when the recording begins some seconds after it.
    #[serde(default)]
    pub(crate) may_be_older: bool,
}

/// One value of the file that the exam changes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lever {
    /// Where it stands: `links/0/path/loss`.
    at: String,
    /// Its value at the least severity of the ladder, and at the greatest; between them it grows or falls by
    /// equal factors. Absent: it stays as it is.
    mild: Option<Value>,
    severe: Option<Value>,
    /// Its value where the fault is taken away; absent: as with it.
    harmless: Option<Value>,
    /// It is a part of a text: this, in which `{}` stands for the value, replaces …
    put: Option<String>,
    /// … this.
    find: Option<String>,
}

/// What of a scenario's fault is planted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Dose {
    /// As its file has it.
    #[default]
    AsWritten,
    /// So severe, on the ladder.
    Times(f64),
    /// What would be so severe, taken away.
    Without(f64),
}

impl Severity {
    /// Pulls the levers in a scenario's file.
    pub(super) fn apply(&self, table: &mut Table, dose: Dose) -> Result<(), String> {
        let (Dose::Times(times) | Dose::Without(times)) = dose else {
            return Ok(());
        };
        for lever in &self.levers {
            let value = lever.value(times)?;
            let taken = lever
                .harmless
                .clone()
                .filter(|_| dose != Dose::Times(times));
            let Some(value) = taken.or(value) else {
                continue;
            };
            lever.set(table, value)?;
        }
        Ok(())
    }
}

impl Lever {
    /// Its value at a severity of the ladder.
    fn value(&self, times: f64) -> Result<Option<Value>, String> {
        let (Some(mild), Some(severe)) = (&self.mild, &self.severe) else {
            return Ok(None);
        };
        if mild == severe {
            return Ok(Some(mild.clone()));
        }
        let number = |v: &Value| v.as_float().or_else(|| v.as_integer().map(|i| i as f64));
        let (low, high) = number(mild)
            .zip(number(severe))
            .filter(|(low, high)| *low > 0.0 && *high > 0.0)
            .ok_or_else(|| format!("{}: mild and severe must be numbers above 0", self.at))?;
        let [first, last] = LADDER;
        let way = (times / first).ln() / (last / first).ln();
        let value = low * (high / low).powf(way.clamp(0.0, 1.0));
        Ok(Some(match mild {
            Value::Integer(_) => Value::Integer(value.round() as i64),
            _ => Value::Float(value),
        }))
    }

    fn set(&self, table: &mut Table, value: Value) -> Result<(), String> {
        let place = change::place(table, &self.at)?;
        *place = match (&self.put, &self.find, place.as_str()) {
            (Some(put), Some(find), Some(text)) if text.contains(find.as_str()) => {
                let value = value.as_str().map_or(value.to_string(), String::from);
                Value::String(text.replace(find.as_str(), &put.replace("{}", &value)))
            }
            (None, None, _) => value,
            _ => return Err(format!("{}: there is no `{:?}`", self.at, self.find)),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [nodes.server]
        nft = "numgen random mod 100 < 40 drop"
        [nodes.server.sysctl]
        "net.ipv4.tcp_syncookies" = 1
        [[links]]
        path = { loss = 0.5, queue_kb = 10 }
    "#;

    fn pulled(lever: &str, dose: Dose) -> Result<Table, String> {
        let lever: Lever = toml::from_str(lever).unwrap();
        let severity = Severity {
            levers: vec![lever],
            tells: Vec::new(),
            client_tells: None,
            server_tells: None,
            may: Vec::new(),
            by_factor: false,
            hurts: Vec::new(),
            may_be_older: false,
        };
        let mut table: Table = FILE.parse().unwrap();
        severity.apply(&mut table, dose).map(|()| table)
    }

    #[test]
    fn a_lever_moves_by_equal_factors_up_and_down() {
        let loss = |lever: &str, dose| {
            let table = pulled(lever, dose).unwrap();
            table["links"][0]["path"]["loss"].as_float().unwrap()
        };
        let up = "at = \"links/0/path/loss\"\nmild = 0.001\nsevere = 0.1\nharmless = 0.0";
        assert_eq!(loss(up, Dose::AsWritten), 0.5);
        assert_eq!(loss(up, Dose::Times(0.3)), 0.001);
        assert!((loss(up, Dose::Times(3.0)) - 0.01).abs() < 1e-12);
        assert!((loss(up, Dose::Times(30.0)) - 0.1).abs() < 1e-12);
        assert_eq!(loss(up, Dose::Without(3.0)), 0.0);
        let down = "at = \"links/0/path/loss\"\nmild = 0.1\nsevere = 0.001";
        assert!((loss(down, Dose::Without(3.0)) - 0.01).abs() < 1e-12);
    }

    #[test]
    fn whole_numbers_stay_whole_and_texts_take_them() {
        let queue = "at = \"links/0/path/queue_kb\"\nmild = 100\nsevere = 1";
        let table = pulled(queue, Dose::Times(3.0)).unwrap();
        assert_eq!(table["links"][0]["path"]["queue_kb"].as_integer(), Some(10));
        let rule = "at = \"nodes/server/nft\"\nmild = 10\nsevere = 1000\nfind = \"100 < 40\"\nput = \"10000 < {}\"";
        let table = pulled(rule, Dose::Times(3.0)).unwrap();
        let nft = table["nodes"]["server"]["nft"].as_str().unwrap();
        assert_eq!(nft, "numgen random mod 10000 < 100 drop");
        let sysctl = "at = \"nodes/server/sysctl/net.ipv4.tcp_syncookies\"\nharmless = 0";
        let without = pulled(sysctl, Dose::Without(3.0)).unwrap();
        let sysctl = &without["nodes"]["server"]["sysctl"]["net.ipv4.tcp_syncookies"];
        assert_eq!(sysctl.as_integer(), Some(0));
    }

    #[test]
    fn what_is_not_there_is_said() {
        for (lever, says) in [
            ("at = \"links/7/path/loss\"\nharmless = 0.0", "links/7"),
            (
                "at = \"links/0/path/loss\"\nmild = 0.0\nsevere = 1.0",
                "above 0",
            ),
            (
                "at = \"nodes/server/nft\"\nharmless = 1\nfind = \"accept\"\nput = \"{}\"",
                "accept",
            ),
        ] {
            let error = pulled(lever, Dose::Without(3.0)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}

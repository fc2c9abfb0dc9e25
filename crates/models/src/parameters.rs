//! A model's parameters: one definition each, read from its TOML file; values checked against it.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Error;

/// One parameter: everything there is to know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Its name; of a kernel's tuning the kernel's own.
    pub name: String,
    /// The unit of its value; empty for a plain number.
    pub unit: String,
    /// Its value unless another is set.
    pub default: f64,
    /// The least that is allowed.
    pub min: f64,
    /// The most that is allowed.
    pub max: f64,
    /// Only whole numbers are allowed.
    #[serde(default)]
    pub whole: bool,
    /// What it says.
    pub doc: String,
}

/// A set of values with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// What it stands for.
    pub doc: String,
    /// The values that are not the default.
    #[serde(rename = "set")]
    pub values: BTreeMap<String, f64>,
}

/// The parameters of a model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    #[serde(skip)]
    model: &'static str,
    /// The parameters, in the order of the file.
    #[serde(rename = "parameter")]
    pub all: Vec<Parameter>,
    /// The presets, in the order of the file; the first has the defaults.
    #[serde(rename = "preset")]
    pub presets: Vec<Preset>,
}

/// A value for every parameter of a model, each within its range.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    model: &'static str,
    values: BTreeMap<String, Number>,
}

/// A number that is told whole where the parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Parameters {
    /// Reads a model's file. The error is a mistake in that file.
    pub(crate) fn read(model: &'static str, text: &str) -> Result<Parameters, Error> {
        let wrong = |why: String| Error::Definition { model, why };
        let mut read: Parameters =
            toml::from_str(text).map_err(|e| wrong(e.message().to_string()))?;
        read.model = model;
        for p in &read.all {
            p.check(&p.default.to_string(), p.default)
                .map_err(|e| wrong(e.to_string()))?;
        }
        for preset in &read.presets {
            read.preset(&preset.name)
                .map_err(|e| wrong(e.to_string()))?;
        }
        Ok(read)
    }

    /// Every parameter at its default.
    pub fn defaults(&self) -> Values {
        let values = self.all.iter().map(|p| (p.name.clone(), p.of(p.default)));
        Values {
            model: self.model,
            values: values.collect(),
        }
    }

    /// The values of a preset.
    pub fn preset(&self, name: &str) -> Result<Values, Error> {
        let preset = self.presets.iter().find(|p| p.name == name);
        let preset = preset.ok_or_else(|| {
            let known: Vec<&str> = self.presets.iter().map(|p| p.name.as_str()).collect();
            Error::UnknownPreset {
                model: self.model,
                name: name.into(),
                known: known.join(", "),
            }
        })?;
        let mut values = self.defaults();
        for (name, value) in &preset.values {
            self.put(&mut values, name, *value)?;
        }
        Ok(values)
    }

    /// Sets what `name=value` says.
    pub fn set(&self, values: &mut Values, assignment: &str) -> Result<(), Error> {
        let split = assignment.split_once('=');
        let (name, value) = split.ok_or_else(|| {
            Error::Malformed(
                assignment.into(),
                "of the form NAME=VALUE, as in clients=333",
            )
        })?;
        let parameter = self.named(name.trim())?;
        let number = parameter.parse(value.trim())?;
        self.put(values, &parameter.name, number)
    }

    /// Sets one parameter.
    pub(crate) fn put(&self, values: &mut Values, name: &str, value: f64) -> Result<(), Error> {
        let parameter = self.named(name)?;
        parameter.check(&value.to_string(), value)?;
        values
            .values
            .insert(parameter.name.clone(), parameter.of(value));
        Ok(())
    }

    /// The parameter of a name.
    pub fn named(&self, name: &str) -> Result<&Parameter, Error> {
        let found = self.all.iter().find(|p| p.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.all.iter().map(|p| p.name.as_str()).collect();
            Error::UnknownParameter {
                model: self.model,
                name: name.into(),
                known: known.join(", "),
            }
        })
    }
}

impl Parameter {
    /// The allowed range in words.
    pub fn allowed(&self) -> String {
        let unit = match self.unit.is_empty() {
            true => String::new(),
            false => format!(" {}", self.unit),
        };
        let whole = if self.whole { ", whole" } else { "" };
        format!("{} to {}{unit}{whole}", self.min, self.max)
    }

    pub(crate) fn parse(&self, value: &str) -> Result<f64, Error> {
        let number: f64 = value.parse().map_err(|_| self.refuse(value))?;
        self.check(value, number)?;
        Ok(number)
    }

    fn check(&self, said: &str, value: f64) -> Result<(), Error> {
        let fits = (self.min..=self.max).contains(&value) && (!self.whole || value.fract() == 0.0);
        fits.then_some(()).ok_or_else(|| self.refuse(said))
    }

    fn refuse(&self, value: &str) -> Error {
        Error::Value {
            name: self.name.clone(),
            value: value.into(),
            allowed: self.allowed(),
        }
    }

    fn of(&self, value: f64) -> Number {
        match self.whole {
            true => Number::Whole(value as u64),
            false => Number::Real(value),
        }
    }
}

impl Values {
    /// Each name with its value, in the order of names.
    pub fn all(&self) -> impl Iterator<Item = (&str, String)> {
        self.values.iter().map(|(name, value)| {
            let value = match value {
                Number::Whole(n) => n.to_string(),
                Number::Real(n) => n.to_string(),
            };
            (name.as_str(), value)
        })
    }

    /// The values as a model's own structure. The error is a parameter that the file has and the
    /// structure has not, or the reverse.
    pub(crate) fn typed<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let wrong = |e: String| Error::Definition {
            model: self.model,
            why: e,
        };
        let table = toml::Table::try_from(&self.values).map_err(|e| wrong(e.to_string()))?;
        table
            .try_into()
            .map_err(|e: toml::de::Error| wrong(e.message().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        parameter = [
          { name = "rate", unit = "1/s", default = 2.5, min = 0.5, max = 10, doc = "x" },
          { name = "clients", unit = "", default = 3, min = 0, max = 9, whole = true, doc = "x" },
        ]
        preset = [{ name = "many", doc = "x", set = { clients = 9 } }]
    "#;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Typed {
        rate: f64,
        clients: u64,
    }

    fn complaint(assignment: &str) -> String {
        let p = Parameters::read("m", FILE).unwrap();
        let mut values = p.defaults();
        p.set(&mut values, assignment).unwrap_err().to_string()
    }

    #[test]
    fn values_are_defaults_then_preset_then_what_is_set() {
        let p = Parameters::read("m", FILE).unwrap();
        let mut values = p.preset("many").unwrap();
        p.set(&mut values, "rate=4").unwrap();
        let typed: Typed = values.typed().unwrap();
        assert_eq!(
            typed,
            Typed {
                rate: 4.0,
                clients: 9
            }
        );
        let told: Vec<_> = values.all().collect();
        assert_eq!(told, [("clients", "9".into()), ("rate", "4".into())]);
    }

    #[test]
    fn what_cannot_be_is_one_line_with_what_can() {
        assert_eq!(complaint("rate=-1"), "rate=-1: allowed is 0.5 to 10 1/s");
        assert_eq!(complaint("rate=NaN"), "rate=NaN: allowed is 0.5 to 10 1/s");
        assert_eq!(
            complaint("clients=2.5"),
            "clients=2.5: allowed is 0 to 9, whole"
        );
        assert_eq!(
            complaint("clients=many"),
            "clients=many: allowed is 0 to 9, whole"
        );
        assert_eq!(
            complaint("buckets=1"),
            "m has no parameter `buckets`; it has rate, clients"
        );
        assert!(complaint("clients").contains("NAME=VALUE"));
        let unknown = Parameters::read("m", FILE).unwrap().preset("few");
        assert_eq!(
            unknown.unwrap_err().to_string(),
            "m has no preset `few`; it has many"
        );
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        for (from, to) in [
            ("default = 3", "default = 30"),
            ("clients = 9", "clints = 9"),
        ] {
            let broken = FILE.replace(from, to);
            let error = Parameters::read("m", &broken).unwrap_err();
            assert!(matches!(error, Error::Definition { .. }), "{error}");
        }
    }
}

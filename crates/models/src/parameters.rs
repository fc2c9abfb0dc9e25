//! A model's parameters: each declared once with `params!`; values checked against that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;

/// One parameter: everything there is to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its name; of a kernel's tuning the kernel's own.
    pub name: &'static str,
    /// The unit of its value; empty for a plain number.
    pub unit: &'static str,
    /// Its value unless another is set.
    pub default: f64,
    /// The least that is allowed.
    pub min: f64,
    /// The most that is allowed.
    pub max: f64,
    /// Only whole numbers are allowed.
    pub whole: bool,
    /// What it says.
    pub doc: &'static str,
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
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    model: &'static str,
    /// The parameters, in the order of their declaration.
    pub all: &'static [Parameter],
    /// The presets, in the order of their file; the first has the defaults.
    pub presets: Vec<Preset>,
}

/// The text of a model's `presets.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Presets {
    preset: Vec<Preset>,
}

/// A value for every parameter of a model, each within its range.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    model: &'static str,
    values: BTreeMap<&'static str, Number>,
}

/// A number that is told whole where the parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Number {
    Whole(u64),
    Real(f64),
}

/// A structure whose fields are a model's parameters, declared with `params!`.
pub(crate) trait Declared: Sized {
    /// Its parameters, in the order of the fields.
    const ALL: &'static [Parameter];

    /// The values as fields. The error is that they are another model's.
    fn read(values: &Values) -> Result<Self, Error>;
}

/// The type of a parameter's field.
pub(crate) trait Field {
    /// Only whole numbers are allowed.
    const WHOLE: bool;

    /// The field's value, of one that was checked to be within the range.
    fn of(value: f64) -> Self;
}

macro_rules! fields {
    ($whole:literal: $($ty:ty),+) => { $(
        impl Field for $ty {
            const WHOLE: bool = $whole;

            fn of(value: f64) -> $ty {
                value as $ty
            }
        }
    )+ };
}
fields!(true: u8, u16, u32, u64);
fields!(false: f64);

/// Declares a model's parameters once. Each: doc comment, name, type (an integer's values are
/// whole), default, range and, unless it is a plain number, unit. What the user calls it follows
/// `as` where that is no name of Rust.
macro_rules! params {
    (
        $(#[doc = $struct_doc:literal])+
        $struct_vis:vis struct $params:ident { $(
            $(#[doc = $doc:literal])+
            $vis:vis $field:ident $(as $name:literal)? : $ty:ty
                = $default:literal in $min:literal..=$max:literal $(, $unit:literal)? ;
        )+ }
    ) => {
        $(#[doc = $struct_doc])+
        #[derive(Clone, Debug)]
        $struct_vis struct $params { $( $(#[doc = $doc])+ $vis $field: $ty, )+ }

        // Every value has the field's type, and a default is one that is allowed.
        $( const _: () = {
            let (min, default, max): ($ty, $ty, $ty) = ($min, $default, $max);
            assert!(min <= default && default <= max, stringify!($field));
        }; )+

        impl $crate::parameters::Declared for $params {
            const ALL: &'static [$crate::Parameter] = &[ $( $crate::Parameter {
                name: params!(@name $field $($name)?),
                unit: concat!($($unit)?),
                default: $default as f64,
                min: $min as f64,
                max: $max as f64,
                whole: <$ty as $crate::parameters::Field>::WHOLE,
                doc: concat!($($doc),+).trim_ascii(),
            }, )+ ];

            fn read(values: &$crate::Values) -> Result<Self, $crate::Error> {
                Ok($params { $( $field: values.field(params!(@name $field $($name)?))?, )+ })
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
}
pub(crate) use params;

impl Parameters {
    /// A model's parameters, with the presets of its file. The error is a mistake in that file.
    pub(crate) fn read(
        model: &'static str,
        all: &'static [Parameter],
        presets: &str,
    ) -> Result<Parameters, Error> {
        let wrong = |why: String| Error::Presets { model, why };
        let Presets { preset } =
            toml::from_str(presets).map_err(|e| wrong(e.message().to_string()))?;
        let read = Parameters {
            model,
            all,
            presets: preset,
        };
        for preset in &read.presets {
            read.preset(&preset.name)
                .map_err(|e| wrong(e.to_string()))?;
        }
        Ok(read)
    }

    /// Every parameter at its default.
    pub fn defaults(&self) -> Values {
        let values = self.all.iter().map(|p| (p.name, p.of(p.default)));
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
        self.put(values, parameter.name, number)
    }

    /// Sets one parameter.
    pub(crate) fn put(&self, values: &mut Values, name: &str, value: f64) -> Result<(), Error> {
        let parameter = self.named(name)?;
        parameter.check(&value.to_string(), value)?;
        values.values.insert(parameter.name, parameter.of(value));
        Ok(())
    }

    /// The parameter of a name.
    pub fn named(&self, name: &str) -> Result<&'static Parameter, Error> {
        let found = self.all.iter().find(|p| p.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.all.iter().map(|p| p.name).collect();
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
        let unit = if self.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", self.unit)
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
            name: self.name.into(),
            value: value.into(),
            allowed: self.allowed(),
        }
    }

    fn of(&self, value: f64) -> Number {
        if self.whole {
            Number::Whole(value as u64)
        } else {
            Number::Real(value)
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
            (*name, value)
        })
    }

    /// A parameter's value as its field's.
    pub(crate) fn field<T: Field>(&self, name: &'static str) -> Result<T, Error> {
        match self.values.get(name) {
            Some(Number::Whole(n)) => Ok(T::of(*n as f64)),
            Some(Number::Real(n)) => Ok(T::of(*n)),
            None => Err(Error::UnknownParameter {
                model: self.model,
                name: name.into(),
                known: self.values.keys().copied().collect::<Vec<_>>().join(", "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESETS: &str = r#"preset = [{ name = "many", doc = "x", set = { "all.clients" = 9 } }]"#;

    params! {
        /// What a test sets.
        struct Typed {
            /// So many
            /// come.
            rate: f64 = 2.5 in 0.5..=10.0, "1/s";
            /// Of whom.
            clients as "all.clients": u16 = 3 in 0..=9;
        }
    }

    fn read(presets: &str) -> Result<Parameters, Error> {
        Parameters::read("m", Typed::ALL, presets)
    }

    fn complaint(assignment: &str) -> String {
        let p = read(PRESETS).unwrap();
        let mut values = p.defaults();
        p.set(&mut values, assignment).unwrap_err().to_string()
    }

    #[test]
    fn a_declaration_says_all_there_is_to_know() {
        let [rate, clients] = Typed::ALL else {
            panic!("{:?}", Typed::ALL);
        };
        assert_eq!((rate.name, rate.unit, rate.whole), ("rate", "1/s", false));
        assert_eq!((rate.min, rate.default, rate.max), (0.5, 2.5, 10.0));
        assert_eq!(rate.doc, "So many come.");
        let name = (clients.name, clients.unit, clients.whole);
        assert_eq!(name, ("all.clients", "", true));
    }

    #[test]
    fn values_are_defaults_then_preset_then_what_is_set() {
        let p = read(PRESETS).unwrap();
        let mut values = p.preset("many").unwrap();
        p.set(&mut values, "rate=4").unwrap();
        let typed = Typed::read(&values).unwrap();
        assert_eq!((typed.rate, typed.clients), (4.0, 9));
        let told: Vec<_> = values.all().collect();
        assert_eq!(told, [("all.clients", "9".into()), ("rate", "4".into())]);
    }

    #[test]
    fn what_cannot_be_is_one_line_with_what_can() {
        for (assignment, says) in [
            ("rate=-1", "rate=-1: allowed is 0.5 to 10 1/s"),
            ("rate=NaN", "rate=NaN: allowed is 0.5 to 10 1/s"),
            (
                "all.clients=2.5",
                "all.clients=2.5: allowed is 0 to 9, whole",
            ),
            (
                "all.clients=many",
                "all.clients=many: allowed is 0 to 9, whole",
            ),
            (
                "buckets=1",
                "m has no parameter `buckets`; it has rate, all.clients",
            ),
        ] {
            assert_eq!(complaint(assignment), says);
        }
        assert!(complaint("rate").contains("NAME=VALUE"));
        assert_eq!(
            read(PRESETS)
                .unwrap()
                .preset("few")
                .unwrap_err()
                .to_string(),
            "m has no preset `few`; it has many"
        );
    }

    #[test]
    fn a_preset_of_what_there_is_not_is_refused() {
        for set in ["clients = 9", "rate = 11", "rate = true"] {
            let broken = PRESETS.replace("\"all.clients\" = 9", set);
            let error = read(&broken).unwrap_err();
            assert!(matches!(error, Error::Presets { .. }), "{error}");
        }
    }
}

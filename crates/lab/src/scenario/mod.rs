//! Scenarios: faults as data, each with its truth.

mod change;
mod check;
mod check_program;
mod load;
mod merge;
mod program;
mod severity;
mod spec;
mod suite;
mod vary;

use std::fs;
use std::path::Path;

use serde::Deserialize;

pub use program::ProgramSpec;
pub(crate) use severity::{Dose, LADDER, Severity};
pub(crate) use spec::Sysctl;
pub use spec::{
    AccountTruth, BinderSpec, ClientSpec, FixTruth, HogSpec, Less, LinkSpec, NodeSpec, RunsTruth,
    Scenario, ServerSpec, Suite, Tbf, Truth,
};
pub use suite::{Check, checks, packs};

use crate::Error;

/// The name and the file of a scenario.
macro_rules! scenario {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../scenarios/", $name, "/scenario.toml")),
        )
    };
}

/// All scenarios, healthy ones first. This is the one list of them.
const ALL: &[(&str, &str)] = &[
    scenario!("healthy-churn"),
    scenario!("healthy-bulk"),
    scenario!("clumsy-kernel"),
    scenario!("clumsy-kernel-33"),
    scenario!("clumsy-kernel-fast-retry"),
    scenario!("clumsy-kernel-rfc1337"),
    scenario!("clumsy-kernel-nat"),
    scenario!("healthy-table"),
    scenario!("healthy-keepalive"),
    scenario!("healthy-idle"),
    scenario!("healthy-resets"),
    scenario!("healthy-path"),
    scenario!("delayed-requests"),
    scenario!("delayed-requests-exponential"),
    scenario!("delayed-requests-script"),
    scenario!("firewall-drops-syn"),
    scenario!("firewall-drops-data"),
    scenario!("path-drops-syn"),
    scenario!("conntrack-full"),
    scenario!("healthy-busy"),
    scenario!("accept-queue-overflow"),
    scenario!("syn-queue-overflow"),
    scenario!("syn-cookies"),
    scenario!("middlebox-strips-options"),
    scenario!("refused"),
    scenario!("reset-unread-data"),
    scenario!("reset-by-application"),
    scenario!("injected-reset"),
    scenario!("injected-reset-midway"),
    scenario!("growing-table"),
    scenario!("growing-table-nft"),
    scenario!("port-search"),
    scenario!("port-search-time-wait"),
    scenario!("port-search-bind"),
    scenario!("bind-beside-children"),
    scenario!("ports-exhausted"),
    scenario!("cookie-crumbs"),
    scenario!("qdisc-drop"),
    scenario!("path-loss"),
    scenario!("tail-loss"),
    scenario!("pmtu-black-hole"),
    scenario!("path-outage"),
    scenario!("peer-gone"),
    scenario!("bufferbloat"),
    scenario!("nagle-delayed-ack"),
    scenario!("slow-reader"),
    scenario!("receive-buffer-small"),
    scenario!("send-buffer-small"),
    scenario!("zero-window"),
    scenario!("reordering"),
    scenario!("reverse-path"),
    scenario!("time-wait-full"),
    scenario!("slow-application"),
    scenario!("slow-peer"),
    scenario!("cpu-contention"),
    scenario!("cpu-quota"),
    scenario!("softirq-starvation"),
    scenario!("healthy-scanned"),
    scenario!("healthy-drained"),
    scenario!("healthy-services"),
    scenario!("slow-accept"),
    scenario!("slow-accept-older"),
    scenario!("descriptors-exhausted"),
    scenario!("accept-imbalance"),
    scenario!("cpu-saturated"),
    scenario!("accept-stall"),
    scenario!("accept-queue-standing"),
    scenario!("refused-now-and-then"),
    scenario!("refused-by-rule"),
    scenario!("path-drops-syn-impatient"),
    scenario!("path-loss-short"),
    scenario!("slow-consumer"),
    scenario!("many-pods"),
    scenario!("cpu-quota-bursts"),
    scenario!("idle-timeout"),
    scenario!("reset-by-peer"),
    scenario!("half-open"),
    scenario!("syn-flood"),
    scenario!("snat-ports"),
    scenario!("healthy-pool"),
    scenario!("healthy-short"),
    scenario!("healthy-bursts"),
    scenario!("healthy-access"),
    scenario!("healthy-redis"),
    scenario!("healthy-proxy"),
    scenario!("healthy-postgres"),
    scenario!("healthy-iperf3"),
    scenario!("redis-slow-command"),
    scenario!("nginx-descriptors"),
    scenario!("haproxy-maxconn"),
    scenario!("nginx-slow-upstream"),
    scenario!("nginx-upstream-elsewhere"),
    scenario!("nginx-upstream-refused"),
    scenario!("nginx-path-loss"),
    scenario!("nginx-shaped"),
    scenario!("iperf3-path-loss"),
    scenario!("postgres-lock"),
    scenario!("nginx-keepalive"),
];

/// What a list of scenarios shows.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Summary {
    /// By which it is run.
    pub name: &'static str,
    /// One line.
    pub title: String,
    /// One paragraph.
    pub about: String,
    /// Id of the planted cause, or `healthy`.
    pub cause: String,
    /// Ids of what else it must be told of: other faults, and what harms nobody.
    pub beside: Vec<String>,
    /// Which suite of tests runs it.
    pub suite: Suite,
}

/// Every scenario there is.
pub fn list() -> Result<Vec<Summary>, Error> {
    ALL.iter()
        .map(|(name, _)| {
            let scenario = Scenario::load(name, 1)?;
            let truth = scenario.truth;
            Ok(Summary {
                name,
                title: scenario.title,
                about: scenario.about,
                cause: truth.cause,
                beside: [truth.beside, truth.notes].concat(),
                suite: scenario.suite,
            })
        })
        .collect()
}

fn text_of(name: &str) -> Result<&'static str, Error> {
    let known = ALL.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, text)| *text)
        .ok_or_else(|| Error::UnknownScenario(name.to_string()))
}

/// What of a file is other than it is written.
#[derive(Clone, Copy, Default)]
struct How<'c> {
    changes: &'c [String],
    dose: Dose,
}

impl Scenario {
    /// The scenario of that name, or of that file (`x.toml`), with what varies drawn from `seed`.
    pub fn load(name: &str, seed: u64) -> Result<Scenario, Error> {
        Scenario::load_changed(name, seed, &[])
    }

    /// The same with values of its file changed: `links/0/path/loss=0.05`.
    pub fn load_changed(name: &str, seed: u64, changes: &[String]) -> Result<Scenario, Error> {
        let how = How {
            changes,
            ..How::default()
        };
        let path = Path::new(name);
        if path.extension().is_none_or(|ends| ends != "toml") {
            return Scenario::parse_as(name, text_of(name)?, seed, how);
        }
        let text = fs::read_to_string(path).map_err(Error::io(format!("reading {name}")))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        Scenario::parse_as(&stem, &text, seed, how)
    }

    /// The same with so much of its fault as the exam asks for.
    pub(crate) fn load_dosed(name: &str, seed: u64, dose: Dose) -> Result<Scenario, Error> {
        let how = How {
            dose,
            ..How::default()
        };
        Scenario::parse_as(name, text_of(name)?, seed, how)
    }

    /// A scenario from the text of its file, with what varies drawn from `seed`.
    pub fn parse(name: &str, text: &str, seed: u64) -> Result<Scenario, Error> {
        Scenario::parse_as(name, text, seed, How::default())
    }

    fn parse_as(name: &str, text: &str, seed: u64, how: How) -> Result<Scenario, Error> {
        let wrong = |why: String| Error::Scenario {
            name: name.to_string(),
            why,
        };
        let mut table: toml::Table = text
            .parse()
            .map_err(|e: toml::de::Error| wrong(e.to_string()))?;
        for change in how.changes {
            change::make(&mut table, change).map_err(wrong)?;
        }
        vary::draw(&mut table, seed).map_err(wrong)?;
        if let Some(severity) = table.get("severity").cloned() {
            let severity = Severity::deserialize(severity).map_err(|e| wrong(e.to_string()))?;
            severity.apply(&mut table, how.dose).map_err(wrong)?;
        }
        let mut scenario = Scenario::deserialize(table).map_err(|e| wrong(e.to_string()))?;
        scenario.name = name.to_string();
        scenario.about = scenario
            .about
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        scenario.check().map_err(wrong)?;
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_listed_and_sound_for_every_seed() {
        let mut listed: Vec<String> = ALL.iter().map(|(name, _)| name.to_string()).collect();
        for (name, _) in ALL {
            for seed in 0..50 {
                let scenario = Scenario::load(name, seed).unwrap();
                assert!(scenario.about.len() > 100, "{name} wants a paragraph");
                let times = LADDER[seed as usize % 2];
                for dose in [Dose::Times(times), Dose::Without(times)] {
                    Scenario::load_dosed(name, seed, dose).unwrap();
                }
            }
        }
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut there: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        listed.sort();
        there.sort();
        assert_eq!(listed, there);
    }

    #[test]
    fn an_unknown_scenario_says_where_to_look() {
        let error = Scenario::load("nowhere.toml", 1).unwrap_err().to_string();
        assert!(error.contains("nowhere.toml"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        fs::write(&path, text_of("refused").unwrap()).unwrap();
        let mine = Scenario::load(&path.to_string_lossy(), 1).unwrap();
        assert_eq!(mine.title, Scenario::load("refused", 1).unwrap().title);
        let error = Scenario::load("nonsense", 1).unwrap_err().to_string();
        assert!(
            error.contains("nonsense") && error.contains("lab list"),
            "{error}"
        );
    }
}

//! tests/kernels.toml: which kernels, what runs in each, what is expected.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;

/// Starts the load that a recording with all parts watches; given up after a minute. The guest's
/// shell prefers an `ip` of its own, which knows no namespaces.
const SERVER: &str = "\
/usr/bin/ip netns add load
/usr/bin/ip -n load link set lo up
tcpwhy-lab lab-workload server --name load --netns load --listen 0.0.0.0:7000 >/out/server.out 2>&1 &
server=$!
for _ in $(seq 300); do grep -q ready /out/server.out && break; sleep 0.2; done";

/// An emulated processor makes each sample cost many times what it does elsewhere: it gets the CPU for as many.
const RECORD: &str = "--record='--max-cpu 200'";

/// Its other side: short connections, few, for a few seconds.
const CLIENT: &str = "tcpwhy-lab lab-workload client --netns load --connect 127.0.0.1:7000 \
    --rate 50 --concurrency 20 --seconds 8";

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    pub guest_seconds: u64,
    pub step_seconds: u64,
    pub modules: Vec<String>,
    pub scenario: Vec<Scenario>,
    /// Tables that must have rows where the source is attached.
    pub rows: BTreeMap<String, String>,
    pub kernel: Vec<Kernel>,
    pub situation: Vec<Situation>,
}

impl Kernel {
    /// The finding that a scenario must lead to here.
    pub fn finding<'k>(&'k self, scenario: &'k Scenario) -> &'k str {
        self.tells.get(&scenario.name).unwrap_or(&scenario.finding)
    }
}

/// A scenario of the lab and the finding that it must lead to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    pub finding: String,
    /// Values of its file that are others, as `lab run --set` takes them.
    #[serde(default)]
    pub set: Vec<String>,
}

/// A kernel, by the Debian suite that has it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    pub suite: String,
    /// The processor, as qemu names it.
    pub cpu: String,
    /// What its release begins with.
    pub series: String,
    /// Sources that it does not have, each with words of the reason that doctor gives.
    pub lacks: BTreeMap<String, String>,
    /// Scenarios of which it tells something else, for want of these sources: what; or nothing.
    #[serde(default)]
    pub tells: BTreeMap<String, String>,
}

/// A restricted host, made in the guest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    pub name: String,
    pub setup: String,
    pub run: String,
    pub undo: String,
    /// Words that the answer must contain.
    pub says: String,
}

impl Matrix {
    pub fn load() -> Matrix {
        let path = super::workspace().join("tests/kernels.toml");
        let text = fs::read_to_string(&path).expect("tests/kernels.toml can be read");
        toml::from_str(&text).unwrap_or_else(|e| panic!("tests/kernels.toml: {e}"))
    }

    /// The script for the guest. Each step leaves NAME.out, .err, .code and .seconds in /out.
    pub fn script(&self) -> String {
        let mut lines = vec![
            format!(
                "step() {{\n  name=$1; shift\n  since=$(date +%s)\n  echo \"$name: $*\" >/dev/console\n  \
                 timeout -s KILL {} \"$@\" >/out/$name.out 2>/out/$name.err </dev/null\n  \
                 echo $? >/out/$name.code\n  \
                 echo $(($(date +%s) - since)) >/out/$name.seconds\n}}",
                self.step_seconds
            ),
            "step doctor tcpwhy doctor --json".into(),
            "step doctor-text tcpwhy doctor".into(),
        ];
        for (i, scenario) in self.scenario.iter().enumerate() {
            let name = &scenario.name;
            let kept = format!("/tmp/keep/{name}-1.tcpwhy");
            let set: String = scenario.set.iter().map(|s| format!(" --set {s}")).collect();
            lines.push(format!(
                "step scenario-{i} tcpwhy lab run {name} --json {RECORD} --keep /tmp/keep{set}"
            ));
            // The first is explained again, in the guest and on this host; of the others those that went wrong can
            // be looked at. All of them do not fit the guest's memory.
            lines.push(match i {
                0 => format!(
                    "step explain tcpwhy explain {kept} --json\ncp -r {kept} /out/kept.tcpwhy"
                ),
                _ => format!(
                    "grep -q '\"cause\":\"{}\"' /out/scenario-{i}.out || cp -r {kept} /out/{name}.tcpwhy",
                    scenario.finding
                ),
            });
            lines.push("rm -rf /tmp/keep".into());
        }
        let parts = optional_parts();
        if !parts.is_empty() {
            // The server stays: its sockets are there in the first and in the last sample.
            lines.push(SERVER.into());
            lines.push(format!(
                "step parts tcpwhy record -o /tmp/parts.tcpwhy --with {} -- {CLIENT}",
                parts.join(",")
            ));
            lines.push("kill $server; wait $server".into());
            lines.push("step parts-explain tcpwhy explain /tmp/parts.tcpwhy".into());
            lines.push("cp -r /tmp/parts.tcpwhy /out/parts.tcpwhy".into());
        }
        for (i, situation) in self.situation.iter().enumerate() {
            lines.push(format!("{} 2>>/out/setup.err", situation.setup));
            lines.push(format!("step situation-{i} {}", situation.run));
            lines.push(format!("{} 2>>/out/setup.err", situation.undo));
        }
        lines.join("\n") + "\n"
    }
}

/// Parts of a recording that the user has to ask for.
pub fn optional_parts() -> Vec<&'static str> {
    let optional = observe::Part::ALL.iter();
    let optional = optional.filter(|p| observe::Part::by_default().all(|part| part != p.0));
    optional.map(|p| p.1).collect()
}

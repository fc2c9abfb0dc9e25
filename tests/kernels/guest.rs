//! One booted kernel: what it said, and what is wrong with that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use recording::{Recording, Source, Verdict};
use serde_json::Value;

use super::spec::{Kernel, Matrix};

/// As it is packaged: an emulated processor makes minutes of what a debug build takes seconds for.
fn program() -> PathBuf {
    super::workspace().join("dist/tcpwhy")
}

/// What a guest left behind.
pub struct Guest {
    pub kernel: Kernel,
    /// As `uname -r` has it.
    pub release: String,
    pub took: Duration,
    out: PathBuf,
}

/// What came of a scenario.
pub struct Outcome {
    /// Causes found, in the order of the findings.
    pub found: Vec<String>,
    /// What the lab's judge has against it, a line each.
    pub why: Vec<String>,
    /// Why there are none, in one line.
    pub error: String,
    pub seconds: u64,
}

impl Guest {
    /// Boots it and runs everything.
    pub fn boot(matrix: &Matrix, kernel: &Kernel) -> Result<Guest, String> {
        let home = super::workspace()
            .join("target/kernels")
            .join(&kernel.suite);
        let (out, script) = (home.join("out"), home.join("guest.sh"));
        fs::create_dir_all(&home).map_err(|e| e.to_string())?;
        fs::write(&script, matrix.script()).map_err(|e| e.to_string())?;
        let began = Instant::now();
        let _ = fs::remove_dir_all(&out);
        let run = Command::new(super::workspace().join("tools/kernels"))
            .arg(&kernel.suite)
            .args([&program(), &script, &out])
            .arg(matrix.guest_seconds.to_string())
            .args(&matrix.modules)
            .env("GUEST_CPU", &kernel.cpu)
            .output()
            .map_err(|e| format!("tools/kernels: {e}"))?;
        if !run.status.success() {
            return Err(String::from_utf8_lossy(&run.stderr).trim().to_string());
        }
        Ok(Guest {
            kernel: kernel.clone(),
            release: read(&out, "kernel"),
            took: began.elapsed(),
            out,
        })
    }

    /// Every source as `tcpwhy doctor --json` lists it.
    pub fn sources(&self) -> Vec<Source> {
        let doctor: Value =
            serde_json::from_str(&read(&self.out, "doctor.out")).unwrap_or_default();
        serde_json::from_value(doctor["sources"].clone()).unwrap_or_default()
    }

    /// Why nothing can be recorded.
    pub fn obstacle(&self) -> Option<String> {
        let doctor = read(&self.out, "doctor.out");
        match serde_json::from_str::<Value>(&doctor) {
            Ok(doctor) => doctor["obstacle"].as_str().map(String::from),
            Err(_) => Some(format!("no answer: {}", read(&self.out, "doctor.err"))),
        }
    }

    /// What came of the scenario of this index.
    pub fn outcome(&self, scenario: usize) -> Outcome {
        let run: Value =
            serde_json::from_str(&read(&self.out, &format!("scenario-{scenario}.out")))
                .unwrap_or_default();
        let causes = run["findings"].as_array().into_iter().flatten();
        let why = run["why"].as_array().into_iter().flatten();
        Outcome {
            why: why.filter_map(|w| Some(w.as_str()?.to_string())).collect(),
            found: causes
                .filter_map(|f| Some(f["cause"].as_str()?.to_string()))
                .collect(),
            error: read(&self.out, &format!("scenario-{scenario}.err")),
            seconds: self.seconds(&format!("scenario-{scenario}")),
        }
    }

    /// How doctor took the situation of this index: the obstacle, or what is missing that was
    /// there before.
    pub fn answer(&self, situation: usize) -> String {
        let name = format!("situation-{situation}");
        let out = read(&self.out, &format!("{name}.out"));
        let Ok(doctor) = serde_json::from_str::<Value>(&out) else {
            return format!(
                "no answer: {out} {}",
                read(&self.out, &format!("{name}.err"))
            );
        };
        if let Some(obstacle) = doctor["obstacle"].as_str() {
            return format!("nothing can be recorded: {obstacle}");
        }
        let before = self.sources();
        let now: Vec<Source> =
            serde_json::from_value(doctor["sources"].clone()).unwrap_or_default();
        let changed = now.iter().filter(|s| !before.contains(s));
        let missing: Vec<String> = changed
            .filter_map(|s| match &s.verdict {
                Verdict::Attached => None,
                Verdict::Unsupported(why) | Verdict::Failed(why) => {
                    Some(format!("no `{}`: {why}", s.name))
                }
            })
            .collect();
        if missing.is_empty() {
            "all sources as before".into()
        } else {
            missing.join("; ")
        }
    }

    /// The sources of the recording with all optional parts; `None` when there was none.
    pub fn parts(&self) -> Option<Vec<Source>> {
        Some(self.recording()?.manifest.sources)
    }

    /// Records that it lost.
    pub fn lost(&self) -> Option<u64> {
        Some(self.parts()?.iter().map(|s| s.lost).sum())
    }

    /// The recording with all optional parts.
    fn recording(&self) -> Option<Recording> {
        Recording::open(&self.out.join("parts.tcpwhy")).ok()
    }

    /// Tables without a row though their source is attached.
    fn empty(&self, matrix: &Matrix) -> Vec<String> {
        let Some(recording) = self.recording() else {
            return vec!["no recording with all parts".into()];
        };
        let attached = |name: &String| {
            let mut sources = recording.manifest.sources.iter();
            sources.any(|s| s.name.as_str() == *name && s.verdict == Verdict::Attached)
        };
        let rows = |table: &str| -> u64 {
            let segments = recording.segments(table).unwrap_or_default();
            let rows = segments
                .iter()
                .filter_map(|n| recording.segment_rows(table, *n).ok()?);
            rows.sum()
        };
        let tables = matrix.rows.iter();
        let empty = tables.filter(|(table, source)| attached(source) && rows(table) == 0);
        empty
            .map(|(table, source)| format!("{source} is attached, but table {table} has no rows"))
            .collect()
    }

    /// Seconds that doctor took.
    pub fn doctor_seconds(&self) -> u64 {
        self.seconds("doctor")
    }

    fn seconds(&self, step: &str) -> u64 {
        read(&self.out, &format!("{step}.seconds"))
            .parse()
            .unwrap_or(0)
    }

    /// Some lines for who waits.
    pub fn summary(&self) -> String {
        let sources = self.sources();
        let attached = |s: &&Source| s.verdict == Verdict::Attached;
        format!(
            "  {}: {} of {} sources, {} s",
            self.release,
            sources.iter().filter(attached).count(),
            sources.len(),
            self.took.as_secs()
        )
    }

    /// Everything that is not as expected, a line each.
    pub fn wrong(&self, matrix: &Matrix) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.release.starts_with(&self.kernel.series) {
            wrong.push(format!("it is not {}", self.kernel.series));
        }
        wrong.extend(self.obstacle());
        let sources = self.sources();
        for source in sources.iter().chain(self.parts().iter().flatten()) {
            wrong.extend(self.unexpected(source));
        }
        for name in self.kernel.lacks.keys() {
            if !sources.iter().any(|s| s.name.as_str() == *name) {
                wrong.push(format!("doctor knows no source {name}"));
            }
        }
        for (i, scenario) in matrix.scenario.iter().enumerate() {
            let outcome = self.outcome(i);
            let finding = self.kernel.finding(scenario);
            if !finding.is_empty() && !outcome.found.iter().any(|f| f == finding) {
                wrong.push(format!(
                    "scenario {}: found {:?}, not {finding}; {}",
                    scenario.name, outcome.found, outcome.error
                ));
            }
        }
        wrong.extend(self.kernel_complains());
        wrong.extend(self.elsewhere());
        wrong.extend(self.empty(matrix));
        for step in ["explain", "parts", "parts-explain"] {
            let code = read(&self.out, &format!("{step}.code"));
            if !code.is_empty() && code != "0" {
                let why = read(&self.out, &format!("{step}.err"));
                wrong.push(format!("{step}: exit code {code}: {why}"));
            }
        }
        for (i, situation) in matrix.situation.iter().enumerate() {
            let answer = self.answer(i);
            if !answer.contains(&situation.says) {
                wrong.push(format!("{}: doctor says {answer}", situation.name));
            }
        }
        let name = format!("{} ({})", self.kernel.suite, self.release);
        wrong.iter().map(|w| format!("{name}: {w}")).collect()
    }

    fn unexpected(&self, source: &Source) -> Option<String> {
        let lacks = self.kernel.lacks.get(source.name.as_str());
        match (&source.verdict, lacks) {
            (Verdict::Attached, None) => None,
            (Verdict::Attached, Some(_)) => {
                Some(format!("{} works, which was not expected", source.name))
            }
            (Verdict::Unsupported(why), Some(words)) if why.contains(words.as_str()) => None,
            (Verdict::Unsupported(why), _) => Some(format!(
                "{} is unsupported, which tests/kernels.toml does not expect: {why}",
                source.name
            )),
            (Verdict::Failed(why), _) => Some(format!("{} failed: {why}", source.name)),
        }
    }

    /// What its kernel said that none may ever say of us: an oops, a warning, a lockup.
    fn kernel_complains(&self) -> Option<String> {
        const WORDS: [&str; 5] = [
            "BUG: ",
            "Oops: ",
            "WARNING: ",
            "general protection",
            "self-detected stall",
        ];
        let console = read(&self.out, "console");
        let said = console
            .lines()
            .find(|line| WORDS.iter().any(|word| line.contains(word)));
        said.map(|line| format!("its kernel says: {}", line.trim()))
    }

    /// A recording tells the same here as where it was made.
    fn elsewhere(&self) -> Option<String> {
        let there = read(&self.out, "explain.out");
        let kept = self.out.join("kept.tcpwhy");
        let here = Command::new(program())
            .arg("explain")
            .arg(kept)
            .arg("--json")
            .output()
            .ok()?;
        let findings = |text: &str| -> Vec<Value> {
            let lines = text.lines().filter_map(|l| serde_json::from_str(l).ok());
            lines.filter(|v: &Value| v["cause"].is_string()).collect()
        };
        let here = String::from_utf8_lossy(&here.stdout);
        (findings(&here) != findings(&there))
            .then(|| "explain says something else on this host than in the guest".into())
    }
}

fn read(out: &Path, name: &str) -> String {
    let text = fs::read(out.join(name)).unwrap_or_default();
    String::from_utf8_lossy(&text).trim().to_string()
}

//! What a recording is of, what was looked at, how whole it is, how the host was set.

use std::collections::BTreeMap;

use analysis::timeline::Axis;
use analysis::words::count;
use explain::{Answer, Explanation, Holds, Id, Summary};
use recording::{Error, Intent, Manifest, Recording, Text, Verdict, tables};

use super::page::{Facts, Note, Overview, Setting, Source, Symptom};
use super::{Names, Thinned, short};
use crate::text::REDACTED;

/// Namespaces, sources and settings that a page has.
const MAX_NAMESPACES: usize = 1_000;
const MAX_SOURCES: usize = 200;
const MAX_SETTINGS: usize = 3_000;
/// Later values of a setting.
const MAX_CHANGES: usize = 50;

/// What the recording is of.
pub(super) fn facts(manifest: &Manifest, thinned: &mut Thinned) -> Facts {
    let m = manifest;
    let all = m.namespaces.len();
    thinned.say(all > MAX_NAMESPACES, || {
        format!("The page names {MAX_NAMESPACES} of {all} network namespaces.")
    });
    let start_ns = i128::from(m.start_ns) + i128::from(m.clock_offset_ns);
    Facts {
        host: if m.redacted {
            format!("{} (redacted: {REDACTED})", short(&m.host.name))
        } else {
            short(&m.host.name)
        },
        kernel: short(&m.host.kernel),
        machine: short(&m.host.machine),
        cpus: m.host.cpus,
        hz: m.host.hz,
        producer: short(&m.producer),
        parameters: m
            .parameters
            .iter()
            .map(|(k, v)| (short(k), short(v)))
            .collect(),
        tcpwhy: short(&m.tcpwhy),
        start_unix_ms: (start_ns / 1_000_000) as f64,
        length_s: m.length().as_secs_f64(),
        complete: m.complete,
        command_line: m.command_line.iter().map(|a| short(a)).collect(),
        namespaces: m
            .namespaces
            .iter()
            .take(MAX_NAMESPACES)
            .map(|n| (n.inode, short(&n.name)))
            .collect(),
        cost: cost(m),
    }
}

fn cost(m: &Manifest) -> Vec<String> {
    let c = &m.cost;
    // A computed recording cost its host nothing.
    if c.user_ms == 0 && c.system_ms == 0 && c.max_rss_bytes == 0 {
        return Vec::new();
    }
    let seconds = m.length().as_secs_f64().max(1e-3);
    let ms = c.user_ms.saturating_add(c.system_ms);
    let share = ms as f64 / 10.0 / seconds;
    vec![
        format!(
            "The recorder used {} ms of CPU ({} in user mode, {} in the kernel), {share:.1} % of one \
             CPU; what the programs in the kernel used is not in it.",
            count(ms),
            count(c.user_ms),
            count(c.system_ms)
        ),
        format!(
            "It took {} MB of memory at most, and {} MB in the kernel for the ring.",
            count(c.max_rss_bytes >> 20),
            count(c.ring_bytes >> 20)
        ),
        format!(
            "The longest round of samples took {} µs, the longest snapshot of a namespace {} µs.",
            count(c.longest_round_us),
            count(c.longest_snapshot_us)
        ),
    ]
}

/// What was looked at.
pub(super) fn overview(explanation: &Explanation) -> Overview {
    let summary = &explanation.summary;
    let waits = summary.waits.iter().flat_map(|w| &w.ended_by);
    let walks = summary.waits.iter().flat_map(|w| &w.walks);
    let titles = explain::causes().iter().map(|c| (c.id, c.title));
    let titles: BTreeMap<Id, &str> = titles.collect();
    Overview {
        counts: counts(summary),
        symptoms: summary
            .symptoms
            .iter()
            .map(|s| Symptom {
                says: s.says.clone(),
                count: s.count as f64,
                means: s.means.clone().unwrap_or_default(),
            })
            .collect(),
        tested: summary
            .causes
            .iter()
            .filter(|a| a.answer != Holds::CannotTell)
            .map(|Answer { cause: id, .. }| {
                (
                    id.to_string(),
                    titles.get(id).copied().unwrap_or("").to_string(),
                )
            })
            .collect(),
        cannot_tell: summary
            .causes
            .iter()
            .filter(|a| a.answer == Holds::CannotTell)
            .map(|a| (a.cause.to_string(), a.because.clone().unwrap_or_default()))
            .collect(),
        waits: waits
            .map(|e| (e.what.to_string(), e.count as f64, e.longest_ms))
            .collect(),
        walks: walks
            .map(|w| w.hops.iter().map(|hop| hop.says.clone()).collect())
            .collect(),
    }
}

fn counts(summary: &Summary) -> Vec<(String, String)> {
    let c = &summary.connections;
    let all = [
        ("connections opened", c.opened, true),
        ("connections accepted", c.accepted, true),
        ("older than the recording", c.older, false),
        ("failed", c.failed, true),
        ("refused", c.refused, false),
        ("without an answer at the end", c.pending, false),
        ("counted, not examined", c.folded, false),
        ("listeners", summary.listeners, true),
        ("events", summary.events, true),
        ("counters", summary.counters, true),
    ];
    let told = all.into_iter().filter(|(_, n, always)| *always || *n > 0);
    told.map(|(label, n, _)| (label.into(), count(n))).collect()
}

/// What the recording lacks, and what was left out when it was explained.
pub(super) fn health(explanation: &Explanation) -> Vec<Note> {
    let summary = &explanation.summary;
    let cut = (!summary.complete).then(|| Note {
        source: "recorder".into(),
        hole: true,
        says: crate::text::CUT_SHORT.into(),
    });
    let notes = summary.health.iter().map(|note| Note {
        source: short(&note.source),
        hole: note.kind.is_hole(),
        says: note.says.clone(),
    });
    cut.into_iter().chain(notes).collect()
}

/// The sources with their verdicts.
pub(super) fn sources(manifest: &Manifest) -> Vec<Source> {
    let sources = manifest.sources.iter().take(MAX_SOURCES).map(|s| {
        let (verdict, because) = match (&s.verdict, &s.shed) {
            (Verdict::Attached, Some(why)) => ("switched off", why.as_str()),
            (Verdict::Attached, None) => ("attached", ""),
            (Verdict::Unsupported(why), _) => ("unsupported", why.as_str()),
            (Verdict::Failed(why), _) => ("failed", why.as_str()),
        };
        Source {
            name: short(s.name.as_str()),
            gives: short(&s.gives),
            required: s.intent == Intent::Required,
            verdict: verdict.into(),
            because: short(because),
            lost: s.lost as f64,
        }
    });
    sources.collect()
}

/// Settings in force, with what they were changed to.
pub(super) fn settings(
    recording: &Recording,
    axis: Axis,
    names: &Names,
    thinned: &mut Thinned,
) -> Result<Vec<Setting>, Error> {
    let mut all: BTreeMap<(u32, Text), Setting> = BTreeMap::new();
    let mut left_out = 0_u64;
    for batch in recording.scan::<tables::Setting>()? {
        for (_, row) in batch?.rows() {
            let key = (row.netns, row.name.clone());
            if let Some(setting) = all.get_mut(&key) {
                let last = setting
                    .changes
                    .last()
                    .map_or(&setting.value, |(_, value)| value);
                let value = short(&row.value);
                if *last != value && setting.changes.len() < MAX_CHANGES {
                    setting.changes.push((axis.seconds(row.time_ns), value));
                }
            } else if all.len() < MAX_SETTINGS {
                let setting = Setting {
                    netns: names.netns(row.netns),
                    name: short(&row.name),
                    value: short(&row.value),
                    changes: Vec::new(),
                };
                all.insert(key, setting);
            } else {
                left_out += 1;
            }
        }
    }
    thinned.say(left_out > 0, || {
        format!("The page has the first {MAX_SETTINGS} settings; {left_out} more are recorded.")
    });
    Ok(all.into_values().collect())
}

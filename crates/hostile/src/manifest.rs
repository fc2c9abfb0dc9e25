//! Manifests that are well-formed JSON and say wrong things.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use crate::one;

/// Spoils the manifest.
pub(crate) fn mutate(dir: &Path, rng: &mut Pcg64Mcg) -> Result<String> {
    let path = dir.join("manifest.json");
    let text = fs::read_to_string(&path)?;
    let (text, what) = match rng.random_range(0..12) {
        0 => (text[..text.len() / 2].to_string(), "half".into()),
        1 => ("[".repeat(200_000), "deep".into()),
        2 => (
            format!("{{\"format\":{}}}", "[".repeat(100_000)),
            "deep format".into(),
        ),
        _ => {
            let mut json: Value = serde_json::from_str(&text).context("parsing the manifest")?;
            let what = spoil(&mut json, rng);
            (json.to_string(), what)
        }
    };
    fs::write(path, text)?;
    Ok(format!("manifest: {what}"))
}

fn spoil(json: &mut Value, rng: &mut Pcg64Mcg) -> String {
    let place = place(json, rng);
    let (parent, key) = place.rsplit_once('/').unwrap_or(("", ""));
    if rng.random_ratio(1, 12)
        && let Some(Value::Object(map)) = json.pointer_mut(parent)
    {
        map.remove(key);
        return format!("{place} removed");
    }
    match json.pointer_mut(&place) {
        Some(Value::Array(list)) if !list.is_empty() && rng.random_ratio(1, 2) => {
            let times = *one(rng, &[100, 2_000, 70_000, 380_000]);
            let first = list[0].clone();
            list.extend(std::iter::repeat_n(first, times));
            format!("{place}: {times} more")
        }
        Some(at) => {
            *at = value(rng);
            format!("{place}: {:.40}", at.to_string())
        }
        None => "nothing".into(),
    }
}

/// Somewhere in it, as a JSON pointer.
fn place(json: &Value, rng: &mut Pcg64Mcg) -> String {
    let (mut place, mut at) = (String::new(), json);
    while place.is_empty() || rng.random_ratio(3, 4) {
        let keys: Vec<String> = match at {
            Value::Object(map) => map.keys().cloned().collect(),
            Value::Array(list) => (0..list.len()).map(|i| i.to_string()).collect(),
            _ => break,
        };
        if keys.is_empty() {
            break;
        }
        place += &format!("/{}", one(rng, &keys));
        at = json.pointer(&place).unwrap_or(&Value::Null);
    }
    place
}

fn value(rng: &mut Pcg64Mcg) -> Value {
    match rng.random_range(0..14) {
        0 => Value::Null,
        1 => json!(0),
        2 => json!(u64::MAX),
        3 => json!(i64::MIN),
        4 => json!(-1),
        5 => json!(1e308),
        6 => json!(u32::MAX),
        7 => json!(""),
        8 => json!("x".repeat(1_000_000)),
        9 => json!("\u{1b}[2J\u{202e}<script>\u{0}\n"),
        10 => json!([]),
        11 => json!({}),
        12 => json!(vec![0; 1_000_000]),
        _ => json!(true),
    }
}

//! Stacks of other tools: DTrace's aggregations, `perf script`, and folded stacks.

use std::io::{self, BufRead, Cursor, Read};

use inferno::collapse::{Collapse, dtrace, perf};

use super::Profile;
use super::profile::clean;

/// Input beyond this is refused: what was meant to be a profile is something else.
const MAX_BYTES: u64 = 1 << 30;
/// Deeper stacks keep their outermost and innermost frames; `perf` gives 127 unless told otherwise, and a graph of
/// more cannot be read.
const MAX_DEPTH: usize = 1024;
/// What stands for the frames between.
const CUT: &str = "…";

/// Reads what another tool wrote: which format it is shows in the text.
pub fn read_foreign(input: impl Read) -> io::Result<Profile> {
    let mut text = Vec::new();
    input.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(wrong("it is larger than 1 GiB"));
    }
    // Function names of other hosts need not be UTF-8.
    let text = String::from_utf8_lossy(&text).into_owned();
    let profile = folded(&text);
    if !profile.stacks.is_empty() {
        return Ok(profile);
    }
    let collapsed = collapse(perf::Folder::default(), &text);
    let collapsed = collapsed.or_else(|| collapse(dtrace::Folder::default(), &text));
    let profile = collapsed.transpose()?.map(|text| folded(&text));
    let profile = profile.unwrap_or_default();
    if profile.stacks.is_empty() {
        Err(wrong(
            "it holds no stacks that are known: those of `perf script`, of DTrace's stack(), or \
         folded ones (`a;b;c 42`)",
        ))
    } else {
        Ok(profile)
    }
}

/// The stacks folded, if this is the tool's format.
fn collapse(mut tool: impl Collapse, text: &str) -> Option<io::Result<String>> {
    if tool.is_applicable(text) != Some(true) {
        return None;
    }
    let mut folded = Vec::new();
    let done = tool.collapse(Cursor::new(text.as_bytes()), &mut folded);
    Some(done.map(|()| String::from_utf8_lossy(&folded).into_owned()))
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Folded stacks, if every line that says anything is one.
fn folded(text: &str) -> Profile {
    let mut profile = Profile::default();
    for line in text.as_bytes().lines() {
        let Ok(line) = line else { break };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.rsplit_once(' ');
        let parsed = parsed.and_then(|(stack, n)| Some((stack, n.parse::<u64>().ok()?)));
        let Some((stack, n)) = parsed.filter(|(stack, _)| !stack.trim().is_empty()) else {
            return Profile::default();
        };
        let known = profile.stacks.entry(of_frames(stack)).or_default();
        *known = known.saturating_add(n);
        profile.samples = profile.samples.saturating_add(n);
    }
    profile
}

/// The stack with clean names, and not too deep.
fn of_frames(stack: &str) -> String {
    let frames: Vec<&str> = stack.split(';').collect();
    if frames.len() <= MAX_DEPTH {
        return joined(&frames);
    }
    let (outer, inner) = (MAX_DEPTH / 2, frames.len() - MAX_DEPTH / 2);
    let (outer, inner) = (joined(&frames[..outer]), joined(&frames[inner..]));
    format!("{outer};{CUT};{inner}")
}

fn joined(frames: &[&str]) -> String {
    let names: Vec<String> = frames.iter().map(|f| clean(f)).collect();
    names.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_stack_keeps_both_its_ends() {
        let deep: Vec<String> = (0..5_000).map(|n| format!("f{n}")).collect();
        let cut = of_frames(&deep.join(";"));
        let frames: Vec<&str> = cut.split(';').collect();
        assert_eq!(frames.len(), MAX_DEPTH + 1);
        assert_eq!(frames[511..514], ["f511", CUT, "f4488"]);
        assert_eq!(frames[MAX_DEPTH], "f4999");
        let whole = deep[..MAX_DEPTH].join(";");
        assert_eq!(of_frames(&whole), whole);
        assert_eq!(of_frames("a"), "a");
    }
}

//! The functions of chosen stacks. `recording::Stacks` keeps the first 65,536 stacks of a recording, whatever they
//! belong to: too few for a profile of many CPUs, which needs the stacks of its samples.

use ahash::{AHashMap, AHashSet};
use recording::tables::{Frame, Stack};
use recording::{Error, Recording, Text};

/// The functions of the wanted stacks, down to `depth` frames, as `intern` keeps them; it may
/// leave one out.
///
/// # Errors
///
/// A segment that is damaged, or cannot be read; the error names the file.
pub fn functions<T: Clone>(
    recording: &Recording,
    wanted: &AHashSet<u64>,
    depth: u32,
    mut intern: impl FnMut(Text) -> Option<T>,
) -> Result<AHashMap<u64, Vec<T>>, Error> {
    let mut frames: AHashMap<u64, Vec<u64>> = AHashMap::new();
    for batch in recording.scan::<Stack>()? {
        for (_, row) in batch?.rows() {
            if wanted.contains(&row.stack) && row.depth < depth {
                let frames = frames.entry(row.stack).or_default();
                if frames.len() < depth as usize {
                    frames.push(row.frame);
                }
            }
        }
    }
    let needed: AHashSet<u64> = frames.values().flatten().copied().collect();
    let mut function_of: AHashMap<u64, T> = AHashMap::new();
    for batch in recording.scan::<Frame>()? {
        for (_, row) in batch?.rows() {
            if needed.contains(&row.frame)
                && let Some(function) = intern(row.function)
            {
                function_of.insert(row.frame, function);
            }
        }
    }
    let functions = |frames: Vec<u64>| {
        let known = frames.iter().filter_map(|f| function_of.get(f));
        known.cloned().collect()
    };
    let stacks = frames.into_iter();
    Ok(stacks.map(|(stack, f)| (stack, functions(f))).collect())
}

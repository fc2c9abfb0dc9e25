//! Kernel stacks as lines: one function with its offset per frame.

use ahash::AHashMap;
use recording::{Row, Text};

/// Stacks and frames kept; a host has some thousand.
const MAX_STACKS: usize = 1 << 16;
/// The kernel gives 127 frames at most.
const MAX_DEPTH: usize = 128;

/// The tables that it reads.
pub(super) const TABLES: &[&str] = &["stack", "frame"];

/// The stacks seen so far.
#[derive(Default)]
pub(super) struct Stacks {
    frames: AHashMap<u64, (Text, u64)>,
    /// Frames of a stack with their depth.
    stacks: AHashMap<u64, Vec<(u32, u64)>>,
}

impl Stacks {
    /// Keeps a row of its tables.
    pub(super) fn take(&mut self, row: &Row) {
        match row {
            Row::Frame(f) if self.frames.len() < MAX_STACKS => {
                let frame = (f.function.clone(), f.offset);
                self.frames.insert(f.frame, frame);
            }
            Row::Stack(s) => {
                let room = self.stacks.len() < MAX_STACKS;
                if room || self.stacks.contains_key(&s.stack) {
                    let frames = self.stacks.entry(s.stack).or_default();
                    if frames.len() < MAX_DEPTH {
                        frames.push((s.depth, s.frame));
                    }
                }
            }
            _ => {}
        }
    }

    /// The functions of a stack, the innermost first.
    pub(super) fn functions(&self, stack: u64) -> Option<Vec<String>> {
        let mut frames = self.stacks.get(&stack)?.clone();
        frames.sort_unstable();
        let name = |(_, frame): &(u32, u64)| match self.frames.get(frame) {
            Some((function, offset)) => format!("{function}+{offset:#x}"),
            None => "?".into(),
        };
        Some(frames.iter().map(name).collect())
    }
}

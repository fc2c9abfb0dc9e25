//! Stacks by id: what the tables `stack` and `frame` say together.

use std::collections::HashMap;

use crate::tables::{Frame, Stack};
use crate::{Error, Recording, Text};

/// Stacks, and frames, that are kept; the recorder keeps no more than twice as many.
const MAX_STACKS: usize = 1 << 16;
/// The kernel gives 127 frames at most.
const MAX_DEPTH: usize = 128;

/// The stacks seen so far; memory is bounded, whatever a recording holds.
#[derive(Debug, Default)]
pub struct Stacks {
    frames: HashMap<u64, Place>,
    /// Frames of a stack with their depth.
    stacks: HashMap<u64, Vec<(u32, u64)>>,
}

/// Where in a program, or in the kernel, a frame is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Function.
    pub function: Text,
    /// `kernel`, a kernel module, or the file.
    pub module: Text,
    /// Distance from the function's start, bytes.
    pub offset: u64,
}

impl Stacks {
    /// All stacks of a recording.
    ///
    /// # Errors
    ///
    /// A segment that is damaged, or cannot be read; the error names the file.
    pub fn read(recording: &Recording) -> Result<Stacks, Error> {
        let mut stacks = Stacks::default();
        for batch in recording.scan::<Frame>()? {
            batch?.rows().for_each(|(_, row)| stacks.frame(&row));
        }
        for batch in recording.scan::<Stack>()? {
            batch?.rows().for_each(|(_, row)| stacks.stack(&row));
        }
        Ok(stacks)
    }

    /// Keeps a row of `frame`.
    pub fn frame(&mut self, row: &Frame) {
        if self.frames.len() < MAX_STACKS {
            let place = Place {
                function: row.function.clone(),
                module: row.module.clone(),
                offset: row.offset,
            };
            self.frames.insert(row.frame, place);
        }
    }

    /// Keeps a row of `stack`.
    pub fn stack(&mut self, row: &Stack) {
        let room = self.stacks.len() < MAX_STACKS;
        if room || self.stacks.contains_key(&row.stack) {
            let frames = self.stacks.entry(row.stack).or_default();
            if frames.len() < MAX_DEPTH {
                frames.push((row.depth, row.frame));
            }
        }
    }

    /// The frames of a stack, the innermost first; `None` for a frame that is not known.
    pub fn places(&self, stack: u64) -> Option<Vec<Option<&Place>>> {
        let mut frames = self.stacks.get(&stack)?.clone();
        frames.sort_unstable();
        Some(frames.iter().map(|(_, f)| self.frames.get(f)).collect())
    }
}

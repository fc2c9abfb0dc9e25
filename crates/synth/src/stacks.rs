//! Stacks and their frames, by ids that count from 1.

use recording::Place;
use recording::tables::{Frame, Stack};

use crate::Sink;

/// The frames so far, each once, and how many stacks there are.
#[derive(Clone, Debug, Default)]
pub struct StackIds {
    frames: Vec<Place>,
    stacks: u64,
}

impl StackIds {
    /// Writes a stack, its innermost function first, and gives its id.
    pub fn add(
        &mut self,
        time_ns: u64,
        places: impl IntoIterator<Item = Place>,
        to: &mut impl Sink,
    ) -> u64 {
        self.stacks += 1;
        for (depth, place) in (0..).zip(places) {
            let known = self.frames.iter().position(|f| *f == place);
            let nth = known.unwrap_or(self.frames.len());
            let frame = nth as u64 + 1;
            if known.is_none() {
                self.frames.push(place.clone());
                to.add(Frame {
                    time_ns,
                    frame,
                    function: place.function,
                    module: place.module,
                    offset: place.offset,
                });
            }
            to.add(Stack {
                time_ns,
                stack: self.stacks,
                depth,
                frame,
            });
        }
        self.stacks
    }
}

/// A function of the kernel itself, and how far into it the next one is called.
pub fn kernel(function: &str, offset: u64) -> Place {
    Place {
        function: function.into(),
        module: "kernel".into(),
        offset,
    }
}

//! Stacks: addresses from the kernel to the tables `stack` and `frame`, every stack and frame once.

mod context;
mod process;
mod user;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use recording::tables::{Frame, Stack};
use recording::{Error, TableWriter, Text, Writer, monotonic_ns};

use crate::health::HealthLog;
use crate::kernel::{Callers, Symbols};
pub use context::{By, Context};
pub use user::UserSymbols;

/// The tables, shared by the threads that see stacks. Only a stack never seen before costs more
/// than a look-up.
#[derive(Clone)]
pub struct Stacks(Arc<Mutex<Book>>);

/// A kernel stack that is in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelStack {
    /// Its id; `None` when there are more different stacks than are kept.
    pub id: Option<u64>,
    /// What it says of its context.
    pub context: Context,
}

/// Different stacks, and frames, that are kept: each costs some tens of bytes of memory. A busy host
/// has hundreds of kernel stacks; user stacks can be many more.
const MAX_STACKS: usize = 1 << 17;

struct Book {
    writer: Writer,
    tables: Option<(TableWriter<Stack>, TableWriter<Frame>)>,
    symbols: Result<Symbols, String>,
    /// By the hash of their addresses.
    kernel: HashMap<u64, KernelStack>,
    stacks: HashSet<u64>,
    frames: HashSet<u64>,
    dropped: u64,
}

/// One frame: what the table `frame` holds of it.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Place {
    /// Function, or the address in hexadecimal.
    pub function: Text,
    /// `kernel`, the kernel module, or the file.
    pub module: Text,
    /// From the function's start, bytes.
    pub offset: u64,
}

impl Stacks {
    /// Stacks for `writer`; its tables are made when the first stack comes. Reads the kernel's
    /// symbols, which takes a good part of a second.
    pub fn new(writer: &Writer) -> Stacks {
        Stacks(Arc::new(Mutex::new(Book {
            writer: writer.clone(),
            tables: None,
            symbols: Symbols::load(),
            kernel: HashMap::new(),
            stacks: HashSet::new(),
            frames: HashSet::new(),
            dropped: 0,
        })))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A kernel stack, innermost address first.
    pub fn kernel(&self, addresses: &[u64]) -> Result<KernelStack, Error> {
        self.book().kernel(addresses)
    }

    /// The id of a stack whose frames are known already, innermost first.
    pub fn places(&self, places: &[Place]) -> Result<Option<u64>, Error> {
        self.book().add(places)
    }

    /// Reads the kernel's symbols anew, once our own programs are loaded: their functions are among
    /// them then. Nobody is kept waiting meanwhile.
    pub fn reload_symbols(&self) {
        let symbols = Symbols::load();
        self.book().symbols = symbols;
    }

    /// The kernel function that `address` lies in.
    pub fn function(&self, address: u64) -> Option<Text> {
        self.book().symbols.as_ref().ok()?.function(address)
    }

    /// Where the functions are that tell who called, and whether functions have names at all.
    pub fn callers(&self) -> Callers {
        Callers::of(&self.book().symbols)
    }

    /// Says how many stacks were not kept since this was asked last.
    pub fn say_dropped(&self, health: &HealthLog) -> Result<(), Error> {
        match std::mem::take(&mut self.book().dropped) {
            0 => Ok(()),
            n => health.say("stacks", "dropped", n, "too many different stacks"),
        }
    }

    /// Makes what was added readable when it is time; a reader that follows gets it at once, so
    /// that no row refers to a stack that comes later. Call it before writing such rows.
    pub fn hand_over(&self) -> Result<(), Error> {
        self.book()
            .each_table(TableWriter::hand_over, TableWriter::hand_over)
    }

    /// Makes everything added readable.
    pub fn seal(&self) -> Result<(), Error> {
        self.book().each_table(TableWriter::seal, TableWriter::seal)
    }
}

impl Book {
    fn kernel(&mut self, addresses: &[u64]) -> Result<KernelStack, Error> {
        let hash = hash(addresses);
        if let Some(&known) = self.kernel.get(&hash) {
            return Ok(known);
        }
        let symbols = self.symbols.as_ref().ok();
        let mut places: Vec<Place> = addresses
            .iter()
            .map(|&address| kernel_place(symbols, address))
            .collect();
        context::strip(&mut places);
        let context = match symbols {
            Some(_) => Context::of(&places),
            None => Context::default(),
        };
        let stack = KernelStack {
            id: self.add(&places)?,
            context,
        };
        if self.kernel.len() < MAX_STACKS {
            self.kernel.insert(hash, stack);
        }
        Ok(stack)
    }

    fn add(&mut self, places: &[Place]) -> Result<Option<u64>, Error> {
        let id = hash(places);
        if self.stacks.contains(&id) {
            return Ok(Some(id));
        }
        if self.stacks.len() >= MAX_STACKS || self.frames.len() >= MAX_STACKS {
            self.dropped += 1;
            return Ok(None);
        }
        if self.tables.is_none() {
            self.tables = Some((self.writer.table()?, self.writer.table()?));
        }
        let Some((stack_rows, frame_rows)) = &mut self.tables else {
            return Ok(None);
        };
        let time_ns = monotonic_ns();
        for (depth, place) in places.iter().enumerate() {
            let frame = hash(place);
            if self.frames.insert(frame) {
                frame_rows.push(Frame {
                    time_ns,
                    frame,
                    function: place.function.clone(),
                    module: place.module.clone(),
                    offset: place.offset,
                })?;
            }
            stack_rows.push(Stack {
                time_ns,
                stack: id,
                depth: depth as u32,
                frame,
            })?;
        }
        self.stacks.insert(id);
        Ok(Some(id))
    }

    fn each_table(
        &mut self,
        stacks: impl Fn(&mut TableWriter<Stack>) -> Result<(), Error>,
        frames: impl Fn(&mut TableWriter<Frame>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match &mut self.tables {
            Some((stack_rows, frame_rows)) => {
                // Frames first: a stack refers to them.
                frames(frame_rows)?;
                stacks(stack_rows)
            }
            None => Ok(()),
        }
    }
}

fn kernel_place(symbols: Option<&Symbols>, address: u64) -> Place {
    match symbols.and_then(|s| s.place(address)) {
        Some(place) => Place {
            function: place.function.into(),
            module: place.module.unwrap_or("kernel").into(),
            offset: place.offset,
        },
        None => Place {
            function: hex(address),
            module: "kernel".into(),
            offset: 0,
        },
    }
}

fn hex(address: u64) -> Text {
    format!("{address:#x}").into()
}

/// The same in every process of this build, and for the same input.
fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

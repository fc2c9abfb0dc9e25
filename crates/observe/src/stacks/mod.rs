//! Stacks: addresses from the kernel to the tables `stack` and `frame`, every stack and frame once.

mod context;
mod demangle;
mod elf;
mod files;
mod perf_map;
mod process;
mod resolver;
mod user;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use ahash::{AHashMap, AHashSet};
use recording::tables::{Frame, Stack};
use recording::{Error, HealthKind, SourceName, TableWriter, Text, Writer, monotonic_ns};

use crate::health::HealthLog;
use crate::kernel::{Callers, Symbols};
use context::Role;
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
/// What is looked up again and again is remembered so that it need not be found again: a busy host has some thousands
/// of such stacks and frames. All of it is forgotten at once where somebody has more.
const MAX_REMEMBERED: usize = 1 << 15;

struct Book {
    writer: Writer,
    tables: Option<(TableWriter<Stack>, TableWriter<Frame>)>,
    /// `None` until somebody asks for them.
    symbols: Option<Result<Symbols, String>>,
    /// The kernel's frames, by address.
    kernel_frames: AHashMap<u64, KnownFrame>,
    /// By the hash of their addresses.
    kernel_stacks: AHashMap<u64, KernelStack>,
    /// Those in the tables.
    stacks: AHashSet<u64>,
    frames: AHashSet<u64>,
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

/// A frame of which all is known that a stack with it needs.
#[derive(Clone, Copy, Debug)]
pub struct KnownFrame {
    /// `None` when there are more different frames than are kept.
    id: Option<u64>,
    role: Role,
}

impl Stacks {
    /// Stacks for `writer`; its tables are made when the first stack comes, and the kernel's symbols are read, which takes a
    /// good part of a second, when they are first asked for: other parts attach meanwhile.
    pub fn new(writer: &Writer) -> Stacks {
        Stacks(Arc::new(Mutex::new(Book {
            writer: writer.clone(),
            tables: None,
            symbols: None,
            kernel_frames: AHashMap::new(),
            kernel_stacks: AHashMap::new(),
            stacks: AHashSet::new(),
            frames: AHashSet::new(),
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

    /// Takes a frame into the tables, if it is not there yet.
    pub fn frame(&self, place: Place) -> Result<KnownFrame, Error> {
        self.book().frame(place)
    }

    /// The id of a stack of such frames, innermost first; `None` when there are more different stacks
    /// than are kept.
    pub fn stack(&self, frames: &[KnownFrame]) -> Result<Option<u64>, Error> {
        self.book().stack(frames)
    }

    /// Reads the kernel's symbols anew, once our own programs are loaded: their functions are among
    /// them then. Nobody is kept waiting meanwhile.
    pub fn reload_symbols(&self) {
        let symbols = Symbols::load();
        let mut book = self.book();
        book.symbols = Some(symbols);
        book.kernel_frames.clear();
    }

    /// The kernel function that `address` lies in.
    pub fn function(&self, address: u64) -> Option<Text> {
        self.book().symbols().as_ref().ok()?.function(address)
    }

    /// Where the functions are that tell who called, and whether functions have names at all.
    pub fn callers(&self) -> Callers {
        Callers::of(self.book().symbols())
    }

    /// Says how many stacks were not kept since this was asked last.
    pub fn say_dropped(&self, health: &HealthLog) -> Result<(), Error> {
        match std::mem::take(&mut self.book().dropped) {
            0 => Ok(()),
            n => health.say(
                SourceName::Stacks,
                HealthKind::Dropped,
                n,
                "too many different stacks",
            ),
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
    fn symbols(&mut self) -> &Result<Symbols, String> {
        self.symbols.get_or_insert_with(Symbols::load)
    }

    fn kernel(&mut self, addresses: &[u64]) -> Result<KernelStack, Error> {
        let hash = hash(addresses);
        if let Some(&known) = self.kernel_stacks.get(&hash) {
            return Ok(known);
        }
        let frames = addresses.iter().map(|&address| self.kernel_frame(address));
        let frames = frames.collect::<Result<Vec<KnownFrame>, Error>>()?;
        let tracing = context::tracing(frames.iter().map(|f| f.role));
        let frames = &frames[tracing..];
        let context = match self.symbols() {
            Ok(_) => Context::of(frames.iter().map(|f| f.role)),
            Err(_) => Context::default(),
        };
        let stack = KernelStack {
            id: self.stack(frames)?,
            context,
        };
        if self.kernel_stacks.len() >= MAX_REMEMBERED {
            self.kernel_stacks.clear();
        }
        self.kernel_stacks.insert(hash, stack);
        Ok(stack)
    }

    fn kernel_frame(&mut self, address: u64) -> Result<KnownFrame, Error> {
        if let Some(&known) = self.kernel_frames.get(&address) {
            return Ok(known);
        }
        let symbols = self.symbols().as_ref().ok();
        let place = match symbols.and_then(|s| s.place(address)) {
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
        };
        let frame = self.frame(place)?;
        if self.kernel_frames.len() >= MAX_REMEMBERED {
            self.kernel_frames.clear();
        }
        self.kernel_frames.insert(address, frame);
        Ok(frame)
    }

    fn frame(&mut self, place: Place) -> Result<KnownFrame, Error> {
        let id = hash(&place);
        let role = Role::of(&place.function);
        if !self.frames.contains(&id) {
            if self.frames.len() >= MAX_STACKS {
                return Ok(KnownFrame { id: None, role });
            }
            self.tables()?.1.push(Frame {
                time_ns: monotonic_ns(),
                frame: id,
                function: place.function,
                module: place.module,
                offset: place.offset,
            })?;
            self.frames.insert(id);
        }
        let id = Some(id);
        Ok(KnownFrame { id, role })
    }

    fn stack(&mut self, frames: &[KnownFrame]) -> Result<Option<u64>, Error> {
        let Some(frames) = frames.iter().map(|f| f.id).collect::<Option<Vec<u64>>>() else {
            self.dropped += 1;
            return Ok(None);
        };
        let id = hash(&frames);
        if self.stacks.contains(&id) {
            return Ok(Some(id));
        }
        if self.stacks.len() >= MAX_STACKS {
            self.dropped += 1;
            return Ok(None);
        }
        let time_ns = monotonic_ns();
        let rows = &mut self.tables()?.0;
        for (depth, frame) in (0..).zip(frames) {
            rows.push(Stack {
                time_ns,
                stack: id,
                depth,
                frame,
            })?;
        }
        self.stacks.insert(id);
        Ok(Some(id))
    }

    fn tables(&mut self) -> Result<&mut (TableWriter<Stack>, TableWriter<Frame>), Error> {
        let made = match self.tables.take() {
            Some(made) => made,
            None => (self.writer.table()?, self.writer.table()?),
        };
        Ok(self.tables.insert(made))
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

fn hex(address: u64) -> Text {
    format!("{address:#x}").into()
}

/// The same in every process of this build, and for the same input.
fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

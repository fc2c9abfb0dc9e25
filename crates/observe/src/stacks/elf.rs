//! Functions of an ELF file: where they are, from its symbol tables, and their names when asked.
//!
//! The file is whoever's: it is read, never mapped (a mapped file that its owner cuts is a SIGBUS for
//! who reads it), and no number in it makes us read or keep more than our own bounds.

use std::fs::File;
use std::io::Cursor;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use object::Endianness;
use object::elf::{FileHeader32, FileHeader64, PT_LOAD, SHN_UNDEF, STT_FUNC, STT_GNU_IFUNC};
use object::elf::{SHT_DYNSYM, SHT_SYMTAB};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::read::{ReadCache, ReadCacheOps, ReadRef};

use super::demangle::demangle;

/// The functions of a file.
pub struct Functions {
    data: Data,
    /// Where the names begin.
    names: u64,
    /// By address, then by size.
    functions: Vec<Function>,
    /// All that the file has: what has no size ends where the next begins.
    complete: bool,
    segments: Vec<Segment>,
}

/// What is read.
pub enum Data {
    /// An open file.
    File(File),
    /// An image in memory.
    Image(Vec<u8>),
}

#[derive(Clone, Copy)]
struct Function {
    address: u64,
    /// Zero when the file does not say: up to the next one.
    size: u32,
    /// From the beginning of the names.
    name: u32,
}

/// A part of the file that is loaded.
struct Segment {
    file: Range<u64>,
    address: u64,
}

/// Bytes read at once: a symbol table of 2.8 million symbols.
const MAX_READ: u64 = 64 << 20;
/// Functions of a file that are kept, 16 bytes each; a browser with all symbols has a million.
pub const MAX_FUNCTIONS: usize = 2 << 20;
const MAX_SEGMENTS: usize = 256;
/// Bytes of a symbol that are looked at.
const MAX_SYMBOL: usize = 2048;
/// Functions before an address among which the one is looked for that it lies in.
const MAX_BACK: usize = 8;
/// How far a function reaches that does not say how large it is.
const MAX_GUESS: u64 = 64 << 10;

impl Functions {
    /// Reads where the functions are; the error says what is wrong with the file.
    pub fn read(data: Data) -> Result<Functions, String> {
        let tables = match &data {
            Data::File(file) => tables(file),
            Data::Image(image) => tables(Cursor::new(image)),
        }?;
        Ok(Functions {
            data,
            names: tables.names,
            functions: tables.functions,
            complete: tables.complete,
            segments: tables.segments,
        })
    }

    /// The function at an offset in the file, and the distance from its start.
    pub fn find(&self, offset: u64) -> Option<(String, u64)> {
        let segment = self.segments.iter().find(|s| s.file.contains(&offset))?;
        let address = (offset - segment.file.start).checked_add(segment.address)?;
        let after = self.functions.partition_point(|f| f.address <= address);
        let before = self.functions[..after].iter().rev().take(MAX_BACK);
        // One that says how large it is comes first: labels lie in functions.
        let within = |f: &&Function| address - f.address < u64::from(f.size);
        let found = before.clone().find(within);
        // What a library exports is few of its functions: no guesses there.
        let far = if self.complete { MAX_GUESS } else { 0 };
        let guess = |f: &&Function| f.size == 0 && address - f.address <= far;
        let found = found.or_else(|| before.clone().next().filter(guess))?;
        Some((self.name(found.name)?, address - found.address))
    }

    fn name(&self, at: u32) -> Option<String> {
        let mut bytes = [0; MAX_SYMBOL];
        let n = self.data.read_at(&mut bytes, self.names + u64::from(at))?;
        let end = bytes[..n].iter().position(|b| *b == 0).unwrap_or(n);
        (end > 0).then(|| demangle(&bytes[..end]))
    }

    /// How many there are: what it costs to keep them.
    pub fn len(&self) -> usize {
        self.functions.len()
    }
}

impl Data {
    /// As many bytes as there are; `None` when there are none.
    fn read_at(&self, to: &mut [u8], at: u64) -> Option<usize> {
        match self {
            Data::File(file) => file.read_at(to, at).ok(),
            Data::Image(image) => {
                let from = image.get(usize::try_from(at).ok()?..)?;
                let n = from.len().min(to.len());
                to[..n].copy_from_slice(&from[..n]);
                Some(n)
            }
        }
    }
}

struct Tables {
    names: u64,
    functions: Vec<Function>,
    complete: bool,
    segments: Vec<Segment>,
}

fn tables(data: impl ReadCacheOps) -> Result<Tables, String> {
    let cache = ReadCache::new(data);
    let bounded = Bounded(&cache);
    let class = bounded.read_bytes_at(0, 5);
    let read = match class {
        Ok([0x7f, b'E', b'L', b'F', 1]) => tables_of::<FileHeader32<Endianness>, _>(bounded),
        Ok([0x7f, b'E', b'L', b'F', 2]) => tables_of::<FileHeader64<Endianness>, _>(bounded),
        _ => return Err("it is not an ELF file".into()),
    };
    read.map_err(|e| format!("it is not a whole ELF file: {e}"))
}

fn tables_of<'d, Elf: FileHeader, R: ReadRef<'d>>(data: R) -> object::Result<Tables> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?.iter();
    let loaded = segments.filter(|p| p.p_type(endian) == PT_LOAD);
    let segments = loaded.take(MAX_SEGMENTS).map(|p| {
        let (start, size) = p.file_range(endian);
        Segment {
            file: start..start.saturating_add(size),
            address: p.p_vaddr(endian).into(),
        }
    });
    let segments: Vec<Segment> = segments.collect();
    let sections = header.sections(endian, data)?;
    let (mut names, mut functions) = table(&sections, endian, data, SHT_SYMTAB)?;
    let complete = !functions.is_empty();
    if !complete {
        (names, functions) = table(&sections, endian, data, SHT_DYNSYM)?;
    }
    functions.sort_unstable_by_key(|f| (f.address, f.size));
    functions.dedup_by_key(|f| (f.address, f.size));
    Ok(Tables {
        names,
        functions,
        complete,
        segments,
    })
}

/// Where the names are, and the functions in a symbol table of this type.
fn table<'d, Elf: FileHeader, R: ReadRef<'d>>(
    sections: &SectionTable<'d, Elf, R>,
    endian: Elf::Endian,
    data: R,
    kind: object::elf::SectionType,
) -> object::Result<(u64, Vec<Function>)> {
    let symbols = sections.symbols(endian, data, kind)?;
    if symbols.is_empty() {
        return Ok((0, Vec::new()));
    }
    let names = sections.section(symbols.string_section())?;
    let is_function = |s: &&Elf::Sym| {
        let kind = s.st_type();
        (kind == STT_FUNC || kind == STT_GNU_IFUNC) && s.st_shndx(endian) != SHN_UNDEF
    };
    let functions = symbols.iter().filter(is_function).map(|s| {
        let size: u64 = s.st_size(endian).into();
        Function {
            address: s.st_value(endian).into(),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            name: s.st_name(endian),
        }
    });
    let functions = functions.take(MAX_FUNCTIONS).collect();
    Ok((names.sh_offset(endian).into(), functions))
}

/// A file of which no more than [`MAX_READ`] is read at once.
struct Bounded<'c, R: ReadCacheOps>(&'c ReadCache<R>);

impl<R: ReadCacheOps> Clone for Bounded<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R: ReadCacheOps> Copy for Bounded<'_, R> {}

impl<'c, R: ReadCacheOps> ReadRef<'c> for Bounded<'c, R> {
    fn len(self) -> Result<u64, ()> {
        self.0.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'c [u8], ()> {
        if size > MAX_READ {
            return Err(());
        }
        self.0.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'c [u8], ()> {
        self.0.read_bytes_at_until(range, delimiter)
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::Maps;
    use super::*;
    use crate::foreign::Process;

    #[inline(never)]
    fn a_function_of_this_file() -> u64 {
        std::hint::black_box(a_function_of_this_file as fn() -> u64 as usize as u64)
    }

    fn image() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn our_own_functions_are_found_in_file_and_image() {
        let address = a_function_of_this_file();
        let me = Process::open(std::process::id()).unwrap();
        let maps = Maps::of(&me).unwrap();
        let offset = maps.find(address).unwrap().offset;
        let file = File::open("/proc/self/exe").unwrap();
        for data in [Data::File(file), Data::Image(image())] {
            let functions = Functions::read(data).unwrap();
            let (name, at) = functions.find(offset + 1).unwrap();
            assert!(name.ends_with("::a_function_of_this_file"), "{name}");
            assert_eq!(at, 1);
            assert_eq!(functions.find(u64::MAX), None);
            assert!(functions.len() > 100);
        }
    }

    #[test]
    fn a_file_that_is_cut_after_it_was_read_has_no_names() {
        let address = a_function_of_this_file();
        let me = Process::open(std::process::id()).unwrap();
        let offset = Maps::of(&me).unwrap().find(address).unwrap().offset;
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&image(), 0).unwrap();
        let functions = Functions::read(Data::File(file.try_clone().unwrap())).unwrap();
        assert!(functions.find(offset).is_some());
        file.set_len(4096).unwrap();
        assert_eq!(functions.find(offset), None);
    }

    /// Every header field of a real file, cut and changed: an answer or an error, nothing else.
    #[test]
    fn files_that_lie_are_read_or_refused() {
        let whole = image();
        let at = |field: usize| u64::from_le_bytes(whole[field..field + 8].try_into().unwrap());
        let sections = at(0x28) as usize;
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            (seed >> 33) as usize
        };
        let mut read = 0;
        for round in 0..45 {
            let mut lies = whole.clone();
            let places = [next() % 64, 64 + next() % 600, sections + next() % 2000];
            let place = places[round % 3].min(lies.len() - 8);
            let value = [0u64, 1, u64::MAX, 1 << 40, next() as u64][round % 5];
            lies[place..place + 8].copy_from_slice(&value.to_le_bytes());
            if let Ok(functions) = Functions::read(Data::Image(lies)) {
                read += 1;
                let _ = functions.find(0x1000);
                let _ = functions.find(next() as u64 % whole.len() as u64);
            }
        }
        assert!(read > 0, "none could be read");
        for cut in [0, 4, 5, 63, 64, 200, sections] {
            assert!(
                Functions::read(Data::Image(whole[..cut].to_vec())).is_err(),
                "{cut}"
            );
        }
    }

    #[test]
    fn a_file_of_which_a_table_is_a_terabyte_is_refused() {
        let mut lies = image();
        let sections = u64::from_le_bytes(lies[0x28..0x30].try_into().unwrap()) as usize;
        let count = u16::from_le_bytes(lies[0x3c..0x3e].try_into().unwrap()) as usize;
        for section in 0..count {
            let at = sections + section * 64;
            let kind = u32::from_le_bytes(lies[at + 4..at + 8].try_into().unwrap());
            if kind == 2 || kind == 11 {
                lies[at + 32..at + 40].copy_from_slice(&(1u64 << 40).to_le_bytes());
            }
        }
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&lies, 0).unwrap();
        file.set_len(2 << 40).unwrap();
        assert!(Functions::read(Data::File(file)).is_err());
    }
}

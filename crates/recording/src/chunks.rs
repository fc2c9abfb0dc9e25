//! A segment's file as the Parquet library reads it: by position, never beyond its end, never more
//! at a time than a page may have. A small one is read once: a quiet table has thousands of them, each
//! of which would be read three times a column otherwise.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::limits;

/// Bytes read at a time where the library asks for no number of them: for a page's header.
const BUFFER: usize = 128;
/// A file no larger is read as a whole: as much as one page of ours.
const SMALL: u64 = 64 << 10;

/// A file, and how long it was when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    file: Arc<File>,
    length: u64,
    /// All of it; `None` of one that is large, or that cannot be read, which every read then says.
    whole: Option<Bytes>,
}

impl Chunks {
    /// Of a file of `length` bytes.
    pub(crate) fn of(file: File, length: u64) -> Chunks {
        let mut whole = vec![0; if length <= SMALL { length as usize } else { 0 }];
        let read = !whole.is_empty() && file.read_exact_at(&mut whole, 0).is_ok();
        Chunks {
            file: Arc::new(file),
            length,
            whole: read.then(|| whole.into()),
        }
    }

    /// How long it is, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Fills `bytes` with what stands at `at`.
    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let Some(whole) = &self.whole else {
            return self.file.read_exact_at(bytes, at);
        };
        let from = usize::try_from(at).ok().and_then(|at| whole.get(at..));
        let there = from.and_then(|from| from.get(..bytes.len()));
        bytes.copy_from_slice(there.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let from = From {
            chunks: self.clone(),
            at: start,
        };
        Ok(BufReader::with_capacity(BUFFER, from))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        let inside = end.is_some_and(|end| end <= self.length);
        if !inside || length as u64 > limits::PAGE.max(limits::FOOTER) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start}, of {}",
                self.length
            )));
        }
        if let Some(whole) = &self.whole {
            // It is inside.
            return Ok(whole.slice(start as usize..end.unwrap_or(start) as usize));
        }
        let mut bytes = vec![0; length];
        self.read_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// The file from somewhere on.
pub(crate) struct From {
    chunks: Chunks,
    at: u64,
}

impl Read for From {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = match &self.chunks.whole {
            Some(whole) => {
                let at = usize::try_from(self.at).unwrap_or(usize::MAX);
                let mut left = &whole[at.min(whole.len())..];
                left.read(bytes)?
            }
            None => self.chunks.file.read_at(bytes, self.at)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(length: u64) -> (File, Chunks) {
        let file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let chunks = Chunks::of(file.try_clone().unwrap(), length);
        (file, chunks)
    }

    /// The bytes from 5 on, by each way to read them.
    fn read(chunks: &Chunks) -> [Option<Vec<u8>>; 3] {
        let mut at = vec![0; 4];
        let at = chunks.read_at(&mut at, 5).ok().map(|()| at);
        let bytes = chunks.get_bytes(5, 4).ok().map(|bytes| bytes.to_vec());
        let mut from = vec![0; 4];
        let all = chunks.get_read(5).unwrap().read_exact(&mut from);
        [at, bytes, all.ok().map(|()| from)]
    }

    #[test]
    fn a_small_file_is_read_once_and_a_large_one_where_it_is_asked_for() {
        let there = || Some(vec![5, 6, 7, 8]);
        for length in [9, SMALL, SMALL + 1] {
            let (file, chunks) = written(length);
            assert_eq!(read(&chunks), [there(), there(), there()], "{length}");
            // What is read from it now is nothing.
            file.set_len(0).unwrap();
            let told = if length <= SMALL { there() } else { None };
            assert_eq!(
                read(&chunks),
                [told.clone(), told.clone(), told],
                "{length}"
            );
        }
    }

    #[test]
    fn nothing_is_read_beyond_the_end() {
        for length in [0, 8, SMALL + 1] {
            let (_, chunks) = written(length);
            let mut bytes = [0; 2];
            assert!(
                chunks
                    .read_at(&mut bytes, length.saturating_sub(1))
                    .is_err()
            );
            assert!(chunks.read_at(&mut bytes, u64::MAX).is_err());
            assert!(chunks.get_bytes(length, 1).is_err());
            let mut rest = Vec::new();
            chunks
                .get_read(length + 5)
                .unwrap()
                .read_to_end(&mut rest)
                .unwrap();
            assert_eq!(rest, [0; 0]);
        }
    }
}

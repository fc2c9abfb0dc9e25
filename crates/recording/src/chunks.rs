//! A segment's file as the Parquet library reads it: by position, never beyond its end, never more
//! at a time than a page may have.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::limits;

/// Bytes read at a time where the library asks for no number of them: for a page's header.
const BUFFER: usize = 128;

/// A file, and how long it was when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    file: Arc<File>,
    length: u64,
}

impl Chunks {
    /// Of a file of `length` bytes.
    pub(crate) fn of(file: File, length: u64) -> Chunks {
        let file = Arc::new(file);
        Chunks { file, length }
    }

    /// How long it is, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Fills `bytes` with what stands at `at`.
    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
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
        let read = self.chunks.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

//! Reading a BPF iterator whose program writes records of one type.

use std::io::Read;

use libbpf_rs::{Iter, Link};

use crate::error::{Error, bpf_error};
use crate::wire::{Record, read};

/// As much as the kernel's own buffer gives at once, and more.
const BUFFER: usize = 64 << 10;

/// Runs the iterator once and hands every record to `each`; `what` names it in an error.
pub fn run<R: Record>(
    link: &Link,
    what: &str,
    mut each: impl FnMut(&R) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut iter = Iter::new(link).map_err(|e| Error::Bpf {
        what: format!("starting {what}"),
        why: bpf_error(&e),
    })?;
    let mut buffer = vec![0; BUFFER];
    let mut filled = 0;
    loop {
        let n = iter
            .read(&mut buffer[filled..])
            .map_err(|why| Error::System {
                what: format!("reading {what}"),
                why,
            })?;
        if n == 0 {
            return Ok(());
        }
        filled += n;
        let mut used = 0;
        while let Some(record) = read::<R>(&buffer[used..filled]) {
            used += size_of::<R>();
            each(&record)?;
        }
        // A record may be cut by the end of a read.
        buffer.copy_within(used..filled, 0);
        filled -= used;
    }
}

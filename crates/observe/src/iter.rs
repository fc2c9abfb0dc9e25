//! Reading a BPF iterator whose program writes records of one type.

use std::io::Read;

use libbpf_rs::{Iter, Link};

use crate::error::{Error, bpf_error};
use crate::wire::{Record, read};

/// What a read answers where the kernel has looked at a million objects without an output: it is to go on.
pub const EAGAIN: i32 = rustix::io::Errno::AGAIN.raw_os_error();
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
        let n = match iter.read(&mut buffer[filled..]) {
            Ok(n) => n,
            Err(e) if e.raw_os_error() == Some(EAGAIN) => continue,
            Err(why) => {
                return Err(Error::System {
                    what: format!("reading {what}"),
                    why,
                });
            }
        };
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

//! Which file an address of a process belongs to, from /proc/PID/maps.

use std::io::{self, BufRead, BufReader, Read};

use crate::foreign::Process;

/// The executable mappings of a process, as they were when it was looked at; outlive it.
pub struct Maps(Vec<Mapping>);

/// An executable mapping.
#[derive(Debug)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// Of its start in the file, bytes.
    pub offset: u64,
    /// Number of the file's device, as the kernel writes it: `major:minor` in hexadecimal.
    pub device: String,
    /// Of the file; zero for what is none.
    pub inode: u64,
    /// The name as the process sees it, or the kernel's name such as `[vdso]`.
    pub name: String,
}

/// A mapping and the place in its file.
pub struct Within<'a> {
    /// The mapping.
    pub mapping: &'a Mapping,
    /// Offset in the file, bytes.
    pub offset: u64,
}

/// More mappings than this are not code that somebody reads about.
const MAX_MAPPINGS: usize = 4096;
/// A process may have 65,530 mappings, each of a file with a name of 4 KiB.
const MAX_BYTES: u64 = 16 << 20;

impl Maps {
    /// Of a process that runs; an error when it does not any more.
    pub fn of(process: &Process) -> io::Result<Maps> {
        let mut text = BufReader::new(process.file("maps")?.take(MAX_BYTES));
        let (mut maps, mut line) = (Vec::new(), Vec::new());
        while maps.len() < MAX_MAPPINGS {
            line.clear();
            if text.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let line = String::from_utf8_lossy(&line);
            maps.extend(parse(line.trim_end_matches('\n')));
        }
        Ok(Maps(maps))
    }

    /// Where an address lies.
    pub fn find(&self, address: u64) -> Option<Within<'_>> {
        let after = self.0.partition_point(|m| m.start <= address);
        let mapping = self.0.get(after.checked_sub(1)?)?;
        (address < mapping.end).then(|| Within {
            mapping,
            offset: (address - mapping.start).wrapping_add(mapping.offset),
        })
    }
}

impl Mapping {
    /// Whether it is of a file that has a name.
    pub fn is_file(&self) -> bool {
        self.inode != 0 && self.name.starts_with('/') && !self.is_made()
    }

    /// Whether it is memory in which a process makes code, whatever it calls it.
    pub fn is_made(&self) -> bool {
        let name = &*self.name;
        name.is_empty() || name.starts_with("[anon") || name.starts_with("/memfd:")
    }
}

fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    if words.next()?.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (device, inode) = (words.next()?, words.next()?);
    let name = words.next().unwrap_or_default().trim_start();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset,
        device: device.into(),
        inode: inode.parse().ok()?,
        name: name.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read_whatever_the_file_is_called() {
        let line = "55d0c0a00000-55d0c0b00000 r-xp 00001000 fe:00 1234      /opt/a b (deleted)";
        let m = parse(line).unwrap();
        assert_eq!(
            (m.start, m.end, m.offset),
            (0x55d0c0a00000, 0x55d0c0b00000, 0x1000)
        );
        assert_eq!(
            (&*m.name, &*m.device, m.inode),
            ("/opt/a b (deleted)", "fe:00", 1234)
        );
        assert!(m.is_file() && !m.is_made());
        assert!(parse(&line.replace("r-xp", "rw-p")).is_none());
        assert!(parse("").is_none() && parse("x-y r-xp").is_none());
        let anonymous = parse("1000-2000 r-xp 00000000 00:00 0").unwrap();
        assert!(anonymous.is_made() && !anonymous.is_file());
        let code = parse("1000-2000 r-xp 0 00:01 9 /memfd:doublemapper (deleted)").unwrap();
        assert!(code.is_made() && !code.is_file());
    }

    #[test]
    fn our_own_code_is_found() {
        let me = Process::open(std::process::id()).unwrap();
        let maps = Maps::of(&me).unwrap();
        let here = maps
            .find(our_own_code_is_found as fn() as usize as u64)
            .unwrap();
        assert!(here.mapping.is_file(), "{:?}", here.mapping);
        assert!(maps.find(0).is_none() && maps.find(u64::MAX).is_none());
    }
}

//! Which file an address of a process belongs to, from /proc/PID/maps.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The executable mappings of a process, as they were when it was looked at; outlive it.
pub struct Maps(Vec<Mapping>);

struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    /// Where the file can be opened; `None` for what is not a file.
    open: Option<PathBuf>,
    /// The name as the process sees it, or the kernel's name such as `[vdso]`.
    name: String,
}

/// A file and the place in it.
pub struct Within<'a> {
    /// Where the file can be opened; `None` for what is not a file.
    pub open: Option<&'a PathBuf>,
    /// Its name as the process sees it.
    pub name: &'a str,
    /// Offset in the file, bytes.
    pub offset: u64,
}

/// More mappings than this are not code that somebody reads about.
const MAX_MAPPINGS: usize = 4096;

impl Maps {
    /// Of a process that runs; `None` when it does not any more.
    pub fn read(pid: u32) -> Option<Maps> {
        let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let maps = text.lines().filter_map(parse);
        let mut maps: Vec<(Mapping, u64)> = maps.take(MAX_MAPPINGS).collect();
        for (mapping, inode) in &mut maps {
            mapping.open = place(pid, &mapping.name, *inode);
        }
        Some(Maps(maps.into_iter().map(|m| m.0).collect()))
    }

    /// Where an address lies.
    pub fn find(&self, address: u64) -> Option<Within<'_>> {
        let after = self.0.partition_point(|m| m.start <= address);
        let mapping = self.0.get(after.checked_sub(1)?)?;
        (address < mapping.end).then(|| Within {
            open: mapping.open.as_ref(),
            name: &mapping.name,
            offset: address - mapping.start + mapping.offset,
        })
    }
}

/// An executable mapping and the inode of its file.
fn parse(line: &str) -> Option<(Mapping, u64)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    if words.next()?.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (_device, inode) = (words.next()?, words.next()?);
    let name = words.next().unwrap_or_default().trim_start();
    let mapping = Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset,
        open: None,
        name: name.into(),
    };
    Some((mapping, inode.parse().ok()?))
}

/// Where the file of a mapping can be opened: by its own name when that is the same file here, so
/// that processes share what is known of it; else in the process's file system.
fn place(pid: u32, name: &str, inode: u64) -> Option<PathBuf> {
    if !name.starts_with('/') || inode == 0 {
        return None;
    }
    let same = |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.ino() == inode);
    let here = PathBuf::from(name);
    let there = PathBuf::from(format!("/proc/{pid}/root{name}"));
    [here, there].into_iter().find(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read_whatever_the_file_is_called() {
        let line = "55d0c0a00000-55d0c0b00000 r-xp 00001000 fe:00 1234      /opt/a b (deleted)";
        let (m, inode) = parse(line).unwrap();
        assert_eq!(
            (m.start, m.end, m.offset),
            (0x55d0c0a00000, 0x55d0c0b00000, 0x1000)
        );
        assert_eq!((&*m.name, inode), ("/opt/a b (deleted)", 1234));
        assert!(parse(&line.replace("r-xp", "rw-p")).is_none());
        assert!(parse("").is_none() && parse("x-y r-xp").is_none());
        assert_eq!(parse("1000-2000 r-xp 00000000 00:00 0").unwrap().0.name, "");
    }

    #[test]
    fn our_own_code_is_found() {
        let maps = Maps::read(std::process::id()).unwrap();
        let here = maps
            .find(our_own_code_is_found as fn() as usize as u64)
            .unwrap();
        assert!(here.open.is_some(), "{}", here.name);
        assert!(maps.find(0).is_none() && maps.find(u64::MAX).is_none());
    }
}

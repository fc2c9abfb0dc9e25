//! The functions of the files that processes execute, read once whoever executes them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::rc::Rc;

use rustix::fs::FsWord;

use super::elf::{Data, Functions};
use super::process::Mapping;
use crate::foreign::{self, Plain, Process};

/// A file as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
    size: i64,
    written: (i64, u64),
}

/// What is known of files; `None` of one that has no functions to tell.
#[derive(Default)]
pub struct Files {
    known: HashMap<FileId, Option<Rc<Functions>>>,
    /// Functions of all of them.
    functions: usize,
    vdso: Option<Option<Rc<Functions>>>,
}

/// Each is held open: after this many all are let go.
const MAX_FILES: usize = 64;
/// And after this many functions, of 16 bytes.
const MAX_FUNCTIONS: usize = 4 << 20;
/// Hosts of containers have thousands of mounts, some with lines of kilobytes.
const MAX_MOUNTS: usize = 8 << 20;
/// File systems that differ in what they tell of a file in its mapping and by its name.
const TELL_OTHERWISE: &[FsWord] = &[OVERLAYFS, BTRFS];
const OVERLAYFS: FsWord = 0x794c_7630;
const BTRFS: FsWord = 0x9123_683e;

impl Files {
    /// What is known of a file, if anything.
    pub fn get(&self, id: FileId) -> Option<Option<Rc<Functions>>> {
        self.known.get(&id).cloned()
    }

    /// Finds the file behind a mapping and reads its functions, unless they are known. The error says
    /// why the file is not read; `Ok(None)` is a process that has gone with its file.
    pub fn read(&mut self, pid: u32, mapping: &Mapping) -> Result<Option<FileId>, String> {
        let Some(plain) = find(pid, mapping)? else {
            return Ok(None);
        };
        let id = id(&plain);
        if self.known.contains_key(&id) {
            return Ok(Some(id));
        }
        let file = plain.open().map_err(|e| foreign::why(&e))?;
        let read = Functions::read(Data::File(file));
        let (functions, result) = match read {
            Ok(functions) => (Some(Rc::new(functions)), Ok(Some(id))),
            Err(why) => (None, Err(why)),
        };
        let more = functions.as_ref().map_or(0, |f| f.len());
        if self.known.len() >= MAX_FILES || self.functions + more > MAX_FUNCTIONS {
            self.known.clear();
            self.functions = 0;
        }
        self.functions += more;
        self.known.insert(id, functions);
        result
    }

    /// The kernel's own code in every process: ours has the same, if it is of the same size.
    pub fn vdso(&mut self, mapping: &Mapping) -> Option<Rc<Functions>> {
        let ours = self.vdso.get_or_insert_with(|| own_vdso(mapping));
        ours.clone()
    }
}

fn id(plain: &Plain) -> FileId {
    let s = &plain.stat;
    FileId {
        device: s.st_dev,
        inode: s.st_ino,
        size: s.st_size,
        written: (s.st_mtime, s.st_mtime_nsec),
    }
}

/// The file behind a mapping: itself if we may, else what has its name and is the same.
fn find(pid: u32, mapping: &Mapping) -> Result<Option<Plain>, String> {
    let process = Process::open(pid);
    if let Ok(process) = &process {
        if is_fuse(process, &mapping.device) {
            return Err("it is on a file system of a process's making (FUSE), \
                        which need not answer"
                .into());
        }
        match process.mapped(mapping.start, mapping.end) {
            Ok(plain) => return Ok(Some(plain)),
            Err(e) if e.kind() == io::ErrorKind::Other => return Err(e.to_string()),
            Err(_) => {}
        }
    }
    let there = process.and_then(|process| process.named(&mapping.name));
    let same = |plain: &Plain| is_same(plain, mapping);
    if let Ok(plain) = &there
        && same(plain)
    {
        return Ok(there.ok());
    }
    let here = foreign::named(&mapping.name);
    if let Ok(plain) = &here
        && same(plain)
    {
        return Ok(here.ok());
    }
    match there.err() {
        Some(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(e.to_string()),
        _ => Ok(None),
    }
}

/// Whether a file that was found by name is the mapped one.
fn is_same(plain: &Plain, mapping: &Mapping) -> bool {
    let (major, minor) = (
        rustix::fs::major(plain.stat.st_dev),
        rustix::fs::minor(plain.stat.st_dev),
    );
    plain.stat.st_ino == mapping.inode
        && (format!("{major:02x}:{minor:02x}") == mapping.device || plain.is_on(TELL_OTHERWISE))
}

/// Whether a device is FUSE as the process's mounts tell, which asks the file system nothing. Those have
/// no device of their own: their major number is zero.
fn is_fuse(process: &Process, device: &str) -> bool {
    let Some(device) = device.strip_prefix("00:") else {
        return false;
    };
    let Ok(minor) = u32::from_str_radix(device, 16) else {
        return false;
    };
    let mounts = foreign::text(process.file("mountinfo"), MAX_MOUNTS);
    mounts.is_ok_and(|mounts| fuse_in(&mounts, minor))
}

fn fuse_in(mountinfo: &str, minor: u32) -> bool {
    let device = format!("0:{minor}");
    mountinfo.lines().any(|line| {
        let kind = line.split_once(" - ").map_or("", |(_, kind)| kind);
        kind.starts_with("fuse") && line.split(' ').nth(2) == Some(&device)
    })
}

fn own_vdso(theirs: &Mapping) -> Option<Rc<Functions>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|l| l.ends_with("[vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    if end - start != theirs.end - theirs.start {
        return None;
    }
    let memory = fs::File::open("/proc/self/mem").ok()?;
    let mut image = vec![0; (end - start) as usize];
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut image, start).ok()?;
    Functions::read(Data::Image(image)).ok().map(Rc::new)
}

fn hex(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::super::process::Maps;
    use super::*;

    #[test]
    fn fuse_is_told_from_the_mounts() {
        let mounts = "25 1 0:22 / /sys rw - sysfs sysfs rw\n\
                      30 1 0:40 / /home/a/m rw shared:9 - fuse.sshfs h: rw,user_id=1\n\
                      31 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      bad";
        assert!(fuse_in(mounts, 40));
        assert!(!fuse_in(mounts, 22) && !fuse_in(mounts, 4) && !fuse_in("", 0));
    }

    /// What is done without the right to the mapping itself.
    #[test]
    fn a_file_found_by_its_name_is_the_mapped_one() {
        let maps = Maps::of(&Process::open(std::process::id()).unwrap()).unwrap();
        let here = fuse_in as fn(&str, u32) -> bool as usize as u64;
        let mapping = maps.find(here).unwrap().mapping;
        let plain = foreign::named(&mapping.name).unwrap();
        assert!(is_same(&plain, mapping), "{mapping:?} {:?}", plain.stat);
        let other = foreign::named("/etc/passwd").unwrap();
        assert!(!is_same(&other, mapping));
    }

    #[test]
    fn the_kernels_own_code_has_names() {
        let text = fs::read_to_string("/proc/self/maps").unwrap();
        let line = text.lines().find(|l| l.ends_with("[vdso]")).unwrap();
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (start, end) = (hex(start).unwrap(), hex(end).unwrap());
        let maps = Maps::of(&Process::open(std::process::id()).unwrap()).unwrap();
        let vdso = Files::default().vdso(maps.find(start).unwrap().mapping);
        let vdso = vdso.expect("it is ours");
        let names: Vec<String> = (0..end - start)
            .step_by(16)
            .filter_map(|at| vdso.find(at).map(|(name, _)| name))
            .collect();
        assert!(
            names.iter().any(|n| n.contains("clock_gettime")),
            "{names:?}"
        );
    }
}

//! Walks over the sockets with which programs keep something: by all open files, or, where this kernel does not take the
//! socket of a file for one, by the sockets of each namespace.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenProgramMut};

use crate::error::Error;
use crate::netns::{self, Home};
use crate::procfile::ProcFile;
use crate::wire::Record;
use crate::wire::files::FilesSkelBuilder;
use crate::{iter, sockstat};

/// The program of an object that walks open files; those that walk sockets have names that begin so.
const BY_FILES: &str = "dump";
const BY_SOCKETS: &str = "dump_";

/// Whether the notes on a file's socket may be read. Tried once.
fn by_files() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let mut object = MaybeUninit::uninit();
        let open = FilesSkelBuilder::default().open(&mut object);
        open.and_then(OpenSkel::load).is_ok()
    })
}

/// Whether it is a program that walks, and if so, whether it is the one that this kernel takes.
pub fn is_wanted(program: &OsStr) -> Option<bool> {
    let name = program.to_str()?;
    if name == BY_FILES {
        Some(by_files())
    } else if name.starts_with(BY_SOCKETS) {
        Some(!by_files())
    } else {
        None
    }
}

/// Leaves out the programs that walk in the way that this kernel does not take.
pub fn choose(program: &mut OpenProgramMut) {
    if is_wanted(program.name()) == Some(false) {
        program.set_autoload(false);
    }
}

/// The walk, attached.
pub struct Noted {
    links: Vec<Link>,
    by_files: bool,
    /// No sockets but those of TCP are walked.
    only_tcp: bool,
    /// The namespaces that are visited; none for all.
    netns: Vec<u32>,
}

impl Noted {
    /// Attaches those of an object's programs that were loaded to walk.
    pub fn attach<'o>(
        programs: impl Iterator<Item = libbpf_rs::ProgramMut<'o>>,
        netns: &[u32],
    ) -> Result<Noted, libbpf_rs::Error> {
        let mut links = Vec::new();
        let mut only_tcp = true;
        for program in programs.filter(|p| is_wanted(p.name()) == Some(true)) {
            only_tcp &= program.name() == "dump_tcp";
            links.push(program.attach()?);
        }
        Ok(Noted {
            links,
            by_files: by_files(),
            only_tcp,
            netns: netns.to_vec(),
        })
    }

    /// Walks once, and hands every record to `each`; `what` names it in an error.
    pub fn each<R: Record>(
        &self,
        what: &str,
        each: impl FnMut(&R) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let each = RefCell::new(each);
        let walk = || {
            let run = |link| iter::run(link, what, |record| each.borrow_mut()(record));
            self.links.iter().try_for_each(run)
        };
        if self.by_files {
            return walk();
        }
        let failed = |why| Error::System {
            what: format!("starting {what}"),
            why,
        };
        let home = Home::remember().map_err(failed)?;
        let mut file = ProcFile::default();
        for (inode, there) in netns::find() {
            if !self.netns.is_empty() && !self.netns.contains(&inode) {
                continue;
            }
            // A walk goes through the table that all namespaces share.
            let visited = home.visit(&there, || match sockstat::sockets(&mut file) {
                Some(0) if self.only_tcp => Ok(()),
                _ => walk(),
            });
            // Of one that cannot be entered the walks over sockets tell.
            if let Ok(walked) = visited {
                walked?;
            }
        }
        Ok(())
    }
}

//! Who is told of findings as they come and go: the terminal or log that `serve` writes to, and the journal.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use alerts::Change;
use alerts::render::journal;

/// Who is told.
pub struct Receivers {
    journal: Option<OwnedFd>,
    /// What is printed goes to the journal already.
    is_logged: bool,
}

impl Receivers {
    /// Connects to them, while this process may: to the journal at its socket, if there is one.
    pub fn connect(journal: &Path) -> Receivers {
        let journal = connect(journal);
        Receivers {
            // systemd says so of a service whose output is the journal.
            is_logged: journal.is_some() && std::env::var_os("JOURNAL_STREAM").is_some(),
            journal,
        }
    }

    /// Tells all of them.
    pub fn tell(&self, change: &Change) {
        let alert = change.alert();
        if !self.is_logged {
            cli::say(&format!("tcpwhy: {}", journal::message(alert)));
        }
        if let Some(journal) = &self.journal {
            // A journal that hangs keeps nobody waiting: the socket does not block.
            let sent = rustix::io::write(journal, &journal::datagram(alert));
            if let Err(why) = sent {
                let of = &alert.fingerprint;
                cli::say(&format!(
                    "tcpwhy: the journal was not told of finding {of}: {why}"
                ));
            }
        }
    }
}

/// Connected once: this process makes no sockets later on.
fn connect(path: &Path) -> Option<OwnedFd> {
    let is_socket = fs::metadata(path).is_ok_and(|at| at.file_type().is_socket());
    let socket = UnixDatagram::unbound().ok().filter(|_| is_socket)?;
    socket.connect(path).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket.into())
}

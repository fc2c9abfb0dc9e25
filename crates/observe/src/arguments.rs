//! The arguments of processes, read by a thread that nobody waits for: whose they are decides how long they are, and
//! whether reading them ever ends.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use recording::{Text, scrub};

use crate::aside::{Aside, Said};
use crate::foreign::{self, Process};

/// They can be of any length; this much is read, and this much of it tells who it is.
const READ: usize = 4096;
const TOLD: usize = 512;
/// A program may change its own, as PostgreSQL and sshd do to say what they are at.
const AGAIN: Duration = Duration::from_secs(10);
/// To read them takes microseconds, unless somebody holds up who looks.
const PATIENCE: Duration = Duration::from_millis(20);

/// What is known of them.
pub struct Arguments {
    aside: Aside<(), Option<Text>>,
    known: HashMap<u32, Known>,
    /// A process has kept us waiting in this round: no other is asked about.
    late: bool,
    /// Those that were told.
    given_up: HashSet<u32>,
}

struct Known {
    /// When the process was started: its number may be another's by now.
    started: u64,
    read: Instant,
    text: Text,
}

impl Default for Arguments {
    fn default() -> Arguments {
        Arguments {
            aside: Aside::new("arguments", PATIENCE, || Box::new(|pid, ()| read(pid))),
            known: HashMap::new(),
            late: false,
            given_up: HashSet::new(),
        }
    }
}

impl Arguments {
    /// A round over these processes begins; others are forgotten.
    pub fn begin(&mut self, pids: &BTreeSet<u32>) {
        self.late = false;
        self.known.retain(|pid, _| pids.contains(pid));
    }

    /// Those of a process that was started then; empty as long as they cannot be told.
    pub fn of(&mut self, pid: u32, started: u64) -> Text {
        let known = self.known.get(&pid).filter(|k| k.started == started);
        if let Some(known) = known.filter(|k| self.late || k.read.elapsed() < AGAIN) {
            return known.text.clone();
        }
        let before = known.map(|known| known.text.clone()).unwrap_or_default();
        if self.late {
            return before;
        }
        let text = match self.aside.ask(pid, ()) {
            Said::Answer(Some(text)) => text,
            Said::Answer(None) | Said::Never => before,
            Said::Late => {
                self.late = true;
                return before;
            }
        };
        let read = Instant::now();
        let known = Known {
            started,
            read,
            text: text.clone(),
        };
        self.known.insert(pid, known);
        text
    }

    /// A process that is not asked about any more, once.
    pub fn newly_given_up(&mut self) -> Option<u32> {
        let shunned = self.aside.shunned().iter();
        let new = shunned.copied().find(|pid| !self.given_up.contains(pid))?;
        self.given_up.insert(new);
        Some(new)
    }
}

fn read(pid: u32) -> Option<Text> {
    let process = Process::open(pid).ok()?;
    // One more than is told says that there is more.
    let bytes = foreign::bytes(process.file("cmdline"), READ + 1).ok()?;
    Some(command_line(&bytes).into())
}

/// Arguments joined by blanks, without secrets. Those are looked for before anything is cut: half
/// a URL does not show that it holds a password.
fn command_line(bytes: &[u8]) -> String {
    let read = &bytes[..bytes.len().min(READ)];
    // Of a longer one the last argument may be half.
    let whole = match read.iter().rposition(|&b| b == 0) {
        Some(end) if read.len() < bytes.len() => &read[..end],
        _ => read,
    };
    let words = whole.split(|&b| b == 0).filter(|w| !w.is_empty());
    let words = scrub::arguments(words.map(String::from_utf8_lossy)).join(" ");
    let mut end = words.len().min(TOLD);
    while !words.is_char_boundary(end) {
        end -= 1;
    }
    words[..end].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_joined_and_cut() {
        assert_eq!(command_line(b"nginx: master\0-g\0\0"), "nginx: master -g");
        assert_eq!(command_line(&[b'x'; 4096]).len(), TOLD);
        assert_eq!(command_line(&[b'x'; 5000]).len(), TOLD);
        let long = [
            &b"a\0--b="[..],
            &[b'x'; 4082],
            b"\0https://joe:secret@host/",
        ]
        .concat();
        assert!(command_line(&long).starts_with("a --b=xxx"));
        assert_eq!(
            command_line(b"server\0--password\0two words\0--port\080"),
            "server --password *** --port 80"
        );
    }

    #[test]
    fn those_of_another_process_of_the_same_number_are_others() {
        let me = std::process::id();
        let mut arguments = Arguments::default();
        arguments.begin(&BTreeSet::from([me]));
        let mut of = |started| loop {
            let text = arguments.of(me, started);
            if !std::mem::take(&mut arguments.late) {
                break text;
            }
        };
        assert!(!of(1).is_empty());
        assert!(!of(2).is_empty());
        arguments.begin(&BTreeSet::new());
        assert!(arguments.known.is_empty());
    }
}

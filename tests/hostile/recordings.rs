//! Recordings made to hurt: each is read, or refused in one line that names the file, in little time
//! and memory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostile::{Bomb, Ended, Limits, Outcome};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");

/// A fraction of this is used; a loaded machine gets the rest.
const LIMITS: Limits = Limits {
    memory: 2 << 30,
    time: Duration::from_secs(60),
};
const MOST_MEMORY: u64 = 300 << 20;

struct Scratch {
    dir: tempfile::TempDir,
    whole: PathBuf,
}

impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole.tcpwhy");
        hostile::base(&whole).unwrap();
        Scratch { dir, whole }
    }

    /// A copy to spoil.
    fn copy(&self, name: &str) -> PathBuf {
        let to = self.dir.path().join(name);
        hostile::copy(&self.whole, &to).unwrap();
        to
    }

    /// What comes of reading it, one at a time, as what is written lies in one place; it ended, in bounds, with one line if it was refused.
    fn read(&self, verb: &[&str], recording: &Path) -> Outcome {
        let both = (recording, self.whole.as_path());
        let tcpwhy = Path::new(HOSTILE).with_file_name("tcpwhy");
        assert!(tcpwhy.is_file(), "first: cargo build --workspace --bins");
        let scratch = self.dir.path();
        let outcome = hostile::run_apart(HOSTILE.as_ref(), &tcpwhy, verb, both, scratch, LIMITS);
        let outcome = outcome.unwrap();
        let wrong = outcome.wrong(MOST_MEMORY);
        assert_eq!(wrong, None, "{verb:?} {}: {outcome:?}", recording.display());
        outcome
    }

    /// It is refused in one line that holds `needle`.
    fn refused(&self, recording: &Path, needle: &str) {
        let outcome = self.read(&["explain", "R"], recording);
        assert_eq!(outcome.ended, Ended::Code(1), "{needle}: {outcome:?}");
        let complaint = &outcome.complaint;
        assert!(complaint.contains(needle), "{needle}: {complaint}");
        assert!(
            complaint.contains(recording.to_str().unwrap()),
            "{complaint}"
        );
    }
}

fn segment(recording: &Path) -> PathBuf {
    recording.join("event/000001.parquet")
}

#[test]
fn a_whole_one_is_read() {
    let scratch = Scratch::new();
    for verb in hostile::VERBS {
        let outcome = scratch.read(verb, &scratch.whole);
        let ended = match verb[0] {
            // Where there is no terminal.
            "top" => Ended::Code(1),
            _ => Ended::Code(0),
        };
        assert_eq!(outcome.ended, ended, "{verb:?}: {outcome:?}");
    }
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let scratch = Scratch::new();
    let fifo = |at: &Path| {
        fs::remove_file(at).unwrap();
        mknodat(CWD, at, FileType::Fifo, Mode::RUSR, 0).unwrap();
    };
    let link = |at: &Path, to: &str| {
        fs::remove_file(at).unwrap();
        symlink(to, at).unwrap();
    };
    let r = scratch.copy("fifo-segment");
    fifo(&segment(&r));
    scratch.refused(&r, "a FIFO, not a regular file");
    let r = scratch.copy("fifo-manifest");
    fifo(&r.join("manifest.json"));
    scratch.refused(&r, "a FIFO, not a regular file");
    for to in ["/proc/kmsg", "/dev/zero", "/etc/passwd", "other.parquet"] {
        let r = scratch.copy(&format!("link-{}", to.replace('/', "-")));
        fs::copy(segment(&r), r.join("event/other.parquet.kept")).unwrap();
        link(&segment(&r), to);
        scratch.refused(&r, "a symbolic link, not a regular file");
        let r = scratch.copy(&format!("manifest-link-{}", to.replace('/', "-")));
        link(&r.join("manifest.json"), to);
        scratch.refused(&r, "a symbolic link, not a regular file");
    }
    let r = scratch.copy("table-link");
    fs::rename(r.join("event"), r.join("real")).unwrap();
    symlink("real", r.join("event")).unwrap();
    scratch.refused(&r, "event: damaged: not a directory");
    let r = scratch.copy("directory");
    fs::remove_file(segment(&r)).unwrap();
    fs::create_dir(segment(&r)).unwrap();
    scratch.refused(&r, "a directory, not a regular file");
}

#[test]
fn bombs_do_not_go_off() {
    let scratch = Scratch::new();
    for bomb in Bomb::ALL {
        let r = scratch.copy(&format!("{bomb:?}"));
        bomb.plant(&r).unwrap();
        for verb in [
            &["explain", "R"][..],
            &["report", "R", "--json"],
            &["trace", "states", "--from", "R"],
        ] {
            let outcome = scratch.read(verb, &r);
            // A text is cut, at a kilobyte.
            assert!(outcome.written < 20 << 20, "{bomb:?} {verb:?}: {outcome:?}");
        }
        let needle = match bomb {
            Bomb::Page => "that claims 2147483647",
            Bomb::Groups => "the footer cannot be read",
            Bomb::Rows => "claims 2000000 rows in",
            Bomb::Pages => "pages or more for 50000 rows",
            Bomb::Namespaces => "240000 namespaces, more than",
            Bomb::LongTexts | Bomb::SpilledTexts | Bomb::DistinctTexts => continue,
        };
        scratch.refused(&r, needle);
    }
}

#[test]
fn a_panic_of_the_library_is_one_line() {
    let scratch = Scratch::new();
    let r = scratch.copy("panic");
    let page = hostile::data_page(&segment(&r), "kind").unwrap();
    let whole = fs::read(segment(&r)).unwrap();
    // After its header comes the width of the keys: there are none of 255 bits.
    let mut gave_up = 0;
    for at in page + 15..page + 60 {
        let mut bytes = whole.clone();
        bytes[at] = 0xff;
        fs::write(segment(&r), bytes).unwrap();
        let outcome = scratch.read(&["trace", "drops", "--from", "R"], &r);
        gave_up += u32::from(
            outcome
                .complaint
                .contains("the Parquet reader gave up on it"),
        );
    }
    assert!(
        gave_up > 0,
        "none of them made it panic: this tests nothing"
    );
}

#[test]
fn what_no_recording_has_does_not_get_out_of_a_file() {
    let scratch = Scratch::new();
    for (name, bytes, needle) in hostile::hostile_files(&scratch.whole).unwrap() {
        let file = scratch.dir.path().join(format!("{name}.tcpw"));
        fs::write(&file, bytes).unwrap();
        scratch.refused(&file, needle);
        for verb in [&["stat", "use", "--from", "R"][..], &["compare", "B", "R"]] {
            let outcome = scratch.read(verb, &file);
            assert_eq!(
                outcome.ended,
                Ended::Code(1),
                "{name} {verb:?}: {outcome:?}"
            );
        }
    }
}

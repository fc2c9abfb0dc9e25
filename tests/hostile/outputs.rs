//! Files that verbs write: never through somebody's link, never onto a FIFO or a device.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{TCPWHY, arg, stderr, stdout};

/// What each verb that writes a file is told, but for the file.
struct Written {
    _dir: tempfile::TempDir,
    verbs: Vec<Vec<String>>,
}

fn verbs() -> Written {
    let dir = tempfile::tempdir().unwrap();
    let recording = crate::depth::model(dir.path());
    let folded = dir.path().join("a.folded");
    fs::write(&folded, "main;read 3\nmain;write 4\n").unwrap();
    let sweep = "model run freebsd-tcptw --set duration=1 --sweep load=0..1 --steps 2 --plot";
    let verbs = [
        format!("report {} -o", arg(&recording)),
        format!("report {} --json -o", arg(&recording)),
        format!("flame {} -o", arg(&folded)),
        sweep.to_string(),
    ];
    let words = |verb: &String| verb.split(' ').map(String::from).collect();
    Written {
        verbs: verbs.iter().map(words).collect(),
        _dir: dir,
    }
}

/// Runs a verb with its file; one that waits for ever is ended, and fails.
fn to(verb: &[String], file: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "60", TCPWHY]).args(verb);
    command.arg(file).output().unwrap()
}

fn names(dir: &Path) -> Vec<PathBuf> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    names.sort();
    names
}

#[test]
fn a_link_that_waits_at_the_name_is_replaced() {
    let written = verbs();
    for verb in &written.verbs {
        let dir = tempfile::tempdir().unwrap();
        let (victim, file) = (dir.path().join("victim"), dir.path().join("out"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &file).unwrap();
        let output = to(verb, &file);
        assert!(output.status.success(), "{verb:?}: {}", stderr(&output));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{verb:?}");
        assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{verb:?}");
        assert!(fs::metadata(&file).unwrap().len() > 100, "{verb:?}");
        assert_eq!(names(dir.path()), [file, victim], "nothing beside it");
    }
}

#[test]
fn a_fifo_and_a_device_are_refused() {
    let written = verbs();
    for verb in &written.verbs {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("out");
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        for (file, what) in [(fifo.as_path(), "FIFO"), (Path::new("/dev/full"), "device")] {
            let output = to(verb, file);
            let says = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{verb:?} {file:?}: {says}");
            assert_eq!(says.lines().count(), 1, "{verb:?}: {says}");
            assert!(
                says.contains(&format!("is a {what}; name a file")),
                "{says}"
            );
        }
        assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    }
}

#[test]
fn a_dash_is_standard_output_and_nothing_else_is_on_it() {
    let written = verbs();
    for verb in &written.verbs {
        for file in ["-", "/dev/stdout"] {
            let output = to(verb, Path::new(file));
            assert!(output.status.success(), "{verb:?}: {}", stderr(&output));
            let text = stdout(&output);
            let begins = ["<!doctype html>", "{", "<?xml", "<svg"];
            let begins = begins.iter().any(|b| text.starts_with(b));
            assert!(begins, "{verb:?}: {}", &text[..80.min(text.len())]);
            // Licences follow the page.
            let ends = ["</html>", "-->", "}", "</svg>"];
            assert!(
                ends.iter().any(|e| text.trim_end().ends_with(e)),
                "{verb:?}"
            );
        }
        let output = to(verb, Path::new("/dev/null"));
        assert!(output.status.success(), "{verb:?}: {}", stderr(&output));
    }
}

#[test]
fn where_no_file_can_be_made_it_says_so() {
    let written = verbs();
    for verb in &written.verbs {
        let output = to(verb, Path::new("/proc/out.html"));
        let says = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{verb:?}: {says}");
        assert_eq!(says.lines().count(), 1, "{says}");
        assert!(says.contains("writing /proc/out.html: "), "{says}");
    }
}

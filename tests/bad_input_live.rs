//! Bad input to what records: one clear line, the right exit code, and nothing left behind.

use std::fs;

use crate::common::{TCPWHY, arg, need_root, one_event, one_line, stderr, stdout};

#[test]
fn a_namespace_that_is_not_there() {
    need_root();
    one_line(
        &["explain", "--for", "1s", "--netns", "no-such-ns"],
        "no-such-ns",
    );
}

#[test]
fn a_command_that_does_not_exist_leaves_nothing_behind() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let command = "/nonexistent/program";
    one_line(
        &["explain", "--", command],
        "/nonexistent/program: command not found",
    );
    one_line(
        &["record", "-o", arg(&path), "--", command],
        "command not found",
    );
    assert!(!path.exists());
}

#[test]
fn a_recording_is_never_overwritten() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = one_event(dir.path());
    one_line(
        &["record", "-o", arg(&path), "--for", "1s"],
        "exists already",
    );
    assert!(path.join("event/000001.parquet").exists());
}

#[test]
fn without_root_recording_says_what_to_do() {
    need_root();
    // As nobody, who can neither read the build directory nor record.
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("tcpwhy");
    fs::copy(TCPWHY, &copy).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.path(), open).unwrap();
    for (verb, where_to) in [("explain", true), ("doctor", false)] {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        let output = command.arg(&copy).arg(verb).output().unwrap();
        let text = if where_to {
            stderr(&output)
        } else {
            stdout(&output)
        };
        assert!(text.contains("run it with sudo"), "{verb}: {text}");
        assert_eq!(output.status.code(), Some(1), "{verb}");
    }
}

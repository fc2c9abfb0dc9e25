//! Surroundings in which nothing can be recorded: the error names the cause and what to do.

use std::process::Command;

use crate::common::{TCPWHY, arg, need_root, stderr};

/// What a shell prints to standard error that ends in our binary; in a mount namespace of its own.
fn complaint(script: &str) -> String {
    let script = script.replace("TCPWHY", TCPWHY);
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("tcpwhy: "), "{text}");
    last.to_string()
}

#[test]
fn without_proc_that_is_what_it_says() {
    need_root();
    let text = complaint("umount -l /proc && exec TCPWHY record -o /tmp/none.tcpwhy");
    assert!(text.contains("/proc is not mounted here"), "{text}");
    assert!(!text.contains("CAP_"), "{text}");
    let covered = "mount -t tmpfs none /proc && exec TCPWHY record -o /tmp/none.tcpwhy";
    assert!(complaint(covered).contains("/proc is not mounted here"));
}

#[test]
fn with_too_few_open_files_it_says_how_many_are_needed() {
    need_root();
    // Which file is the last one differs: libbpf survives the want of some, and fails later.
    for few in 16..32 {
        let script = format!("ulimit -n {few}; exec TCPWHY record -o /tmp/none-$$.tcpwhy");
        let text = complaint(&script);
        assert!(text.contains("ulimit -n "), "{few}: {text}");
        assert!(
            text.contains(&format!("may have {few} open")),
            "{few}: {text}"
        );
        assert!(!text.contains("doctor"), "{few}: {text}");
    }
}

#[test]
fn a_low_soft_limit_is_raised_for_the_recorder_and_not_for_what_it_runs() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let (path, limit) = (dir.path().join("r.tcpwhy"), dir.path().join("limit"));
    let script = format!(
        "ulimit -S -n 32; exec {TCPWHY} record -o {} -- sh -c 'ulimit -n >{}'",
        arg(&path),
        arg(&limit)
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(limit).unwrap(), "32\n");
}

#[test]
fn a_full_disk_is_told_once() {
    need_root();
    let text = complaint(
        "mount -t tmpfs -o size=64k none /mnt && dd if=/dev/zero of=/mnt/full bs=1k 2>/dev/null; \
         exec TCPWHY record -o /mnt/r.tcpwhy --for 30s",
    );
    assert_eq!(text.matches("MB are free on its disk").count(), 1, "{text}");
}

//! Programs whose files go or change under a profile: what they run is named by what they run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{arg, begin, finish, need_root, rows, stacks, wait_until};
use recording::tables::{Health, Sample};
use rustix::fs::{CWD, Mode, mkfifoat};

const SOURCE: &str = "\
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
volatile unsigned long n;
__attribute__((noinline)) void spins_here(void) { for (;;) n++; }
int main(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); puts(\"ready\"); fflush(stdout); spins_here(); }
";

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn used(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split(' ').nth(12).unwrap().parse().unwrap()
    }
}

/// A program at the place of whose file there is something else by now: its function is named.
fn assert_named_after(replace: impl Fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
    fs::write(&source, SOURCE).unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-O1", "-o", arg(&program), arg(&source)]).status();
    assert!(built.unwrap().success());
    let child = Command::new(&program).stdout(Stdio::piped()).spawn();
    let running = Running(child.unwrap());
    wait_until("it runs", || running.used() > 0);
    fs::remove_file(&program).unwrap();
    replace(&program);
    let path = dir.path().join("r.tcpwhy");
    let child = begin(&path, &["--with", "profile", "--profile-hz", "499"]);
    let until = running.used() + 50;
    wait_until("it has run", || running.used() >= until);
    finish(child);
    let stacks = stacks(&path);
    let samples = rows::<Sample>(&path);
    let of_it = samples.iter().filter(|s| s.pid == running.0.id());
    let functions = of_it.filter_map(|s| stacks[&s.user_stack?].first());
    let functions: BTreeSet<&String> = functions.collect();
    let named = functions.iter().any(|f| *f == "spins_here");
    assert!(named, "{functions:?}: {:?}", rows::<Health>(&path));
}

#[test]
fn a_program_that_was_deleted_is_named() {
    need_root();
    assert_named_after(|_| ());
}

#[test]
fn a_program_at_whose_place_is_a_fifo_is_named() {
    need_root();
    assert_named_after(|p| mkfifoat(CWD, p, Mode::RUSR).unwrap());
}

#[test]
fn a_program_at_whose_place_is_a_link_to_a_device_is_named() {
    need_root();
    assert_named_after(|p| std::os::unix::fs::symlink("/dev/zero", p).unwrap());
}

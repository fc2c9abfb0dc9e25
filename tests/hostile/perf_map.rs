//! Perf maps of processes that mean ill: root's recording ends, stays small, and tells nobody's secrets.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{arg, begin, need_root, rows, stacks, wait_until};
use recording::Recording;
use recording::tables::{Health, Sample};
use rustix::process::{Pid, Signal, kill_process};

/// A line of a perf map that is only root's to read.
const SECRET: &str = "0 ffffffffffffffff ROOT_SECRET_hash\n";

/// A process of nobody that runs code which it made, and its perf map; both end with this.
struct Jit {
    child: Child,
    map: PathBuf,
}

impl Jit {
    /// Runs `mode` of jit.c, built in `dir`, which anybody may enter.
    fn run(dir: &Path, mode: &str, file: &Path) -> Jit {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        let (source, program) = (dir.join("jit.c"), dir.join("jit"));
        fs::write(&source, include_str!("jit.c")).unwrap();
        let built = Command::new("cc")
            .args(["-O1", "-o", arg(&program), arg(&source)])
            .status();
        assert!(built.unwrap().success());
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args([arg(&program), mode, arg(file)]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("/tmp/perf-"), "{mode}: {line:?}");
        let map = line.trim().into();
        Jit { child, map }
    }

    /// CPU time that it has used, in hundredths of a second.
    fn used(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1;
        fields.split(' ').nth(12).unwrap().parse().unwrap()
    }
}

impl Drop for Jit {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.map);
    }
}

/// What a recording told of a process.
struct Told {
    /// Functions of its user stacks.
    functions: Vec<String>,
    max_rss: u64,
}

/// Profiles the host until the recorder says `words`, and then until the process has run for a second
/// more.
fn profile(dir: &Path, jit: &Jit, words: &str) -> Told {
    let path = dir.join("r.tcpwhy");
    let with = ["--with", "profile", "--profile-hz", "499"];
    let child = begin(&path, &with);
    let says = |h: &Health| h.detail.contains(words);
    let said = || words.is_empty() || rows::<Health>(&path).iter().any(says);
    wait_until("the recorder says so", said);
    let until = jit.used() + 100;
    wait_until("it has run", || jit.used() >= until);
    end(child);
    let recording = Recording::open(&path).unwrap();
    assert!(recording.manifest.complete);
    let stacks = stacks(&path);
    let samples = rows::<Sample>(&path);
    let of_jit = samples.iter().filter(|s| s.pid == jit.child.id());
    let functions: Vec<String> = of_jit
        .filter_map(|s| stacks[&s.user_stack?].first().cloned())
        .collect();
    assert!(!functions.is_empty(), "no sample of it");
    Told {
        functions,
        max_rss: recording.manifest.cost.max_rss_bytes,
    }
}

/// As Ctrl-C does; a recorder that does not end is killed.
fn end(mut child: Child) {
    struct Ending<'c>(&'c mut Child);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let ending = Ending(&mut child);
    let pid = Pid::from_raw(ending.0.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    wait_until("the recording ends", || {
        ending.0.try_wait().unwrap().is_some_and(|s| {
            assert!(s.success());
            true
        })
    });
}

fn told_of(mode: &str, file: &str, words: &str) -> Told {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let file = match file {
        "secret" => secret.as_path(),
        other => Path::new(other),
    };
    let jit = Jit::run(dir.path(), mode, file);
    profile(dir.path(), &jit, words)
}

fn has(told: &Told, word: &str) -> bool {
    told.functions.iter().any(|f| f.contains(word))
}

#[test]
fn functions_of_a_jit_are_named() {
    need_root();
    let told = told_of("map", "-", "");
    assert!(has(&told, "LazyCompile:~made_here"), "{:?}", told.functions);
}

#[test]
fn a_fifo_keeps_nobody_waiting() {
    need_root();
    told_of("fifo", "-", "it is not a regular file");
}

#[test]
fn a_lease_keeps_nobody_waiting() {
    need_root();
    told_of("lease", "-", "holds a lease");
}

#[test]
fn a_link_leads_nowhere() {
    need_root();
    let told = told_of("symlink", "secret", "it is behind a link");
    assert!(!has(&told, "ROOT_SECRET"), "{:?}", told.functions);
}

#[test]
fn a_mount_of_roots_file_is_not_read() {
    need_root();
    let told = told_of("mount", "secret", "own user");
    assert!(!has(&told, "ROOT_SECRET"), "{:?}", told.functions);
}

#[test]
fn a_map_of_hundreds_of_megabytes_takes_little_memory() {
    need_root();
    let told = told_of("big", "-", "too large");
    assert!(told.max_rss < 300 << 20, "{} MB", told.max_rss >> 20);
    // What it was last told is kept.
    assert!(has(&told, "LazyCompile:~made_here"), "{:?}", told.functions);
}

#[test]
fn a_name_of_a_megabyte_is_cut() {
    need_root();
    let told = told_of("long", "-", "");
    assert!(has(&told, "long_name_"), "{:?}", told.functions.first());
    let longest = told.functions.iter().map(String::len).max();
    assert!(longest <= Some(512), "{longest:?}");
}

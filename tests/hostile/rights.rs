//! Recording with less than root has: what suffices, and what is said of what does not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::common::live::Space;
use crate::common::{TCPWHY, arg, need_root, rows, stderr, stdout};
use recording::tables::{Event, Health, Listener};
use recording::{Recording, Verdict};
use rustix::process::{Gid, Uid};
use tempfile::TempDir;

/// The binary where nobody may execute it, and a directory where nobody may write.
struct Nobody {
    dir: TempDir,
    binary: PathBuf,
}

const NOBODY: u32 = 65534;

impl Nobody {
    fn new() -> Nobody {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("tcpwhy");
        fs::copy(TCPWHY, &binary).unwrap();
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        rustix::fs::chown(dir.path(), Some(uid), Some(gid)).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Nobody { dir, binary }
    }

    /// Runs it with these capabilities and no others.
    fn run(&self, capabilities: &str, args: &[&str]) -> Output {
        let set = |sign: &str| {
            let names = capabilities.split_whitespace();
            let names: Vec<String> = names.map(|c| format!("{sign}{c}")).collect();
            [vec!["-all".to_string()], names].concat().join(",")
        };
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(format!("--inh-caps={}", set("+")));
        command.arg(format!("--ambient-caps={}", set("+")));
        command.arg(format!("--bounding-set={}", set("+")));
        command.arg("--no-new-privs");
        command.arg(&self.binary).args(args).env("NO_COLOR", "1");
        command.current_dir(self.dir.path()).output().unwrap()
    }

    fn record(&self, capabilities: &str, more: &[&str]) -> Recorded {
        let path = self.dir.path().join("r.tcpwhy");
        let args = ["record", "-o", arg(&path), "--for", "1s"];
        let output = self.run(capabilities, &[&args[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        Recorded(path)
    }
}

struct Recorded(PathBuf);

impl Recorded {
    fn verdict(&self, source: &str) -> Verdict {
        let sources = Recording::open(&self.0).unwrap().manifest.sources;
        let source = sources.into_iter().find(|s| s.name.as_str() == source);
        source.expect("the source is named").verdict
    }

    fn because(&self, source: &str) -> String {
        match self.verdict(source) {
            Verdict::Attached => String::new(),
            Verdict::Unsupported(why) | Verdict::Failed(why) => why,
        }
    }

    fn notes(&self) -> Vec<String> {
        let health = rows::<Health>(&self.0);
        health.iter().map(|h| h.detail.to_string()).collect()
    }

    fn says(&self, words: &str) -> bool {
        self.notes().iter().any(|n| n.contains(words))
    }
}

#[test]
fn what_is_lacking_is_named_one_by_one() {
    need_root();
    let nobody = Nobody::new();
    for (has, lacks) in [
        (
            "",
            &["CAP_BPF (to ", "CAP_PERFMON (to ", "run it with sudo"][..],
        ),
        ("bpf net_admin sys_ptrace", &["CAP_PERFMON (to "]),
        ("perfmon syslog", &["CAP_BPF (to "]),
    ] {
        let text = stderr(&nobody.run(has, &["record", "-o", "none.tcpwhy"]));
        for words in lacks {
            assert!(text.contains(words), "{has:?}: {text}");
        }
        assert_eq!(text.contains("CAP_BPF"), !has.contains("bpf"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let text = stdout(&nobody.run(has, &["doctor"]));
        assert!(text.contains(lacks[0]), "{text}");
    }
    assert!(!nobody.dir.path().join("none.tcpwhy").exists());
}

#[test]
fn two_capabilities_record_the_own_namespace_and_say_what_is_missing() {
    need_root();
    let nobody = Nobody::new();
    let other = Space::new("other");
    let all = "events,sockets,host,ports,calls,packets,waits,threads,requests,heartbeats,profile";
    let recorded = nobody.record("bpf perfmon", &["--with", all]);
    for source in ["state", "sockets", "counters", "waits", "profile", "calls"] {
        assert_eq!(recorded.verdict(source), Verdict::Attached, "{source}");
    }
    for (source, words) in [
        ("namespaces", "CAP_SYS_ADMIN"),
        ("symbols", "CAP_SYSLOG"),
        ("packets", "CAP_NET_RAW"),
        ("slabs", "CAP_DAC_READ_SEARCH"),
    ] {
        let why = recorded.because(source);
        assert!(why.contains(words), "{source}: {why}");
    }
    for capability in [
        "CAP_SYS_ADMIN (to enter network namespaces",
        "CAP_SYS_PTRACE (to ",
        "CAP_DAC_READ_SEARCH (to ",
        "CAP_SYSLOG (to ",
        "CAP_NET_ADMIN (to ",
        "CAP_NET_RAW (to ",
    ] {
        assert!(
            recorded.says(capability),
            "{capability}: {:?}",
            recorded.notes()
        );
    }
    let own = fs::metadata("/proc/self/ns/net").unwrap().ino() as u32;
    let namespaces = Recording::open(&recorded.0).unwrap().manifest.namespaces;
    let inodes: Vec<u32> = namespaces.iter().map(|n| n.inode).collect();
    assert_eq!(inodes, [own]);
    assert!(rows::<Listener>(&recorded.0).iter().all(|l| l.netns == own));
    assert!(rows::<Event>(&recorded.0).iter().all(|e| e.netns == own));

    let asked = other.inode().to_string();
    let output = nobody.run(
        "bpf perfmon",
        &["record", "-o", "none.tcpwhy", "--netns", &asked],
    );
    assert!(
        stderr(&output).contains("CAP_SYS_ADMIN"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn with_all_that_is_named_nothing_is_missing() {
    need_root();
    let nobody = Nobody::new();
    let capabilities = "bpf perfmon sys_admin sys_ptrace dac_read_search syslog net_admin net_raw";
    let with = [
        "--with",
        "calls,packets,waits,threads,requests,heartbeats,profile",
    ];
    let recorded = nobody.record(capabilities, &with);
    let as_root = tempfile::tempdir().unwrap();
    let root = Recorded(as_root.path().join("r.tcpwhy"));
    let args = ["record", "-o", arg(&root.0), "--for", "1s"];
    assert!(
        crate::common::run(&[&args[..], &with].concat())
            .status
            .success()
    );
    let sources = |r: &Recorded| {
        let sources = Recording::open(&r.0).unwrap().manifest.sources;
        let sources = sources.into_iter();
        sources.map(|s| (s.name, s.verdict)).collect::<Vec<_>>()
    };
    assert_eq!(sources(&recorded), sources(&root));
    assert!(!recorded.says("lacks CAP_"), "{:?}", recorded.notes());
}

#[test]
fn sys_admin_alone_records_and_names_what_hides_the_symbols() {
    need_root();
    let nobody = Nobody::new();
    let recorded = nobody.record("sys_admin", &[]);
    assert_eq!(recorded.verdict("state"), Verdict::Attached);
    assert_eq!(recorded.verdict("namespaces"), Verdict::Attached);
    let why = recorded.because("symbols");
    assert!(why.contains("lacks CAP_SYSLOG"), "{why}");
}

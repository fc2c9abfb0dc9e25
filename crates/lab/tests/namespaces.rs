//! Whatever happens to a run of the lab, nothing of it stays behind.

use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::common::{namespaces, need_root, pair, plant};
use lab::{Stop, clean_leftovers};
use rustix::process::{Pid, Signal, kill_process};

const EMULATED: &str = ", path = { delay_ms = 1.0 }";
const BUDGET: Duration = Duration::from_secs(60);

const SERVER: &str = r#"
    [[servers]]
    name = "lab-test-server"
    node = "server"
    port = 7000
"#;

#[test]
fn a_plant_goes_with_its_value() {
    need_root();
    let plant = plant(&pair(EMULATED, SERVER));
    let names: Vec<String> = plant
        .nodes()
        .values()
        .map(|n| n.name().to_string())
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|n| namespaces().contains(n)));
    drop(plant);
    assert!(!names.iter().any(|n| namespaces().contains(n)));
}

#[test]
fn a_panic_leaves_nothing() {
    need_root();
    let mut made = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut plant = plant(&pair(EMULATED, SERVER));
        plant.start_servers(&Stop::default()).unwrap();
        made.push((
            plant.server_pid("lab-test-server").unwrap(),
            plant.nodes()["server"].name().to_string(),
        ));
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let (pid, name) = &made[0];
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!namespaces().contains(name));
}

#[test]
fn a_sysctl_stays_in_its_namespace() {
    need_root();
    let name = "net.ipv4.tcp_syn_retries";
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_syn_retries").unwrap();
    let host = read();
    let plant = plant(&pair("", ""));
    plant.nodes()["client"].set_sysctl(name, "2").unwrap();
    assert_eq!(plant.nodes()["client"].sysctl(name).unwrap(), "2");
    assert_eq!(plant.nodes()["server"].sysctl(name).unwrap(), host.trim());
    assert_eq!(read(), host);
    let error = plant.nodes()["client"]
        .set_sysctl("net.ipv4.no_such", "1")
        .unwrap_err();
    assert!(error.to_string().contains("net.ipv4.no_such"), "{error}");
}

/// A process that holds a plant.
struct Holder {
    child: Child,
    /// Its server's pid.
    server: u32,
    /// Its namespaces.
    names: Vec<String>,
    /// Kept open: the helper still writes to it when it ends.
    _output: BufReader<ChildStdout>,
}

fn hold() -> Holder {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(pair(EMULATED, SERVER).as_bytes()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_lab-hold"))
        .arg(file.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut server = None;
    let mut names = Vec::new();
    for line in (&mut output).lines() {
        let line = line.unwrap();
        if let Some(name) = line.strip_prefix("netns ") {
            names.push(name.to_string());
        } else if let Some(number) = line.strip_prefix("pid ") {
            server = number.parse().ok();
        } else if line == "held" {
            break;
        }
    }
    Holder {
        child,
        server: server.expect("the holder says its server's pid"),
        names,
        _output: output,
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until a process is gone.
fn wait_gone(pid: u32) {
    let gone = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
    };
    Stop::default()
        .wait("the end of a server", BUDGET, || Ok(gone().then_some(())))
        .unwrap();
}

#[test]
fn ctrl_c_leaves_nothing() {
    need_root();
    for how in [Signal::INT, Signal::TERM] {
        let mut run = hold();
        signal(&run.child, how);
        let status = run.child.wait().unwrap();
        assert!(status.success(), "it ends by itself, so destructors run");
        assert!(!run.names.iter().any(|n| namespaces().contains(n)));
        wait_gone(run.server);
    }
}

#[test]
fn a_killed_run_is_cleaned_up_by_the_next_and_a_live_one_is_not() {
    need_root();
    let mut live = hold();
    let mut killed = hold();
    signal(&killed.child, Signal::KILL);
    killed.child.wait().unwrap();
    wait_gone(killed.server);
    assert!(killed.names.iter().all(|n| namespaces().contains(n)));

    clean_leftovers().unwrap();
    assert!(!killed.names.iter().any(|n| namespaces().contains(n)));
    assert!(live.names.iter().all(|n| namespaces().contains(n)));
    assert!(Path::new(&format!("/proc/{}", live.server)).exists());

    signal(&live.child, Signal::TERM);
    live.child.wait().unwrap();
}

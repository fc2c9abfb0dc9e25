//! What the privileged tests share.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::path::Path;

use lab::{Plant, Programs, Scenario, Stop};

/// Whether the tests may make namespaces; says so when not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

/// The workload of this build, and `tcpwhy` in place of the binary.
pub fn programs(tcpwhy: &Path) -> Programs {
    Programs {
        tcpwhy: tcpwhy.to_path_buf(),
        workload: vec![env!("CARGO_BIN_EXE_lab-workload").into()],
    }
}

/// Plants a scenario written in the test, with its links up.
pub fn plant(text: &str) -> Plant {
    let scenario = Scenario::parse("test", text, 1).unwrap();
    let plant = Plant::new(scenario, 1, programs(Path::new("/nonexistent"))).unwrap();
    plant.wait_joined(&Stop::default()).unwrap();
    plant
}

/// Two nodes, `client` and `server`, joined by `path`, and whatever `rest` adds.
pub fn pair(path: &str, rest: &str) -> String {
    format!(
        r#"
        title = "t"
        about = "a"
        links = [{{ between = ["client", "server"]{path} }}]
        clients = []
        [nodes.client]
        [nodes.server]
        [truth]
        cause = "healthy"
        {rest}
        "#
    )
}

/// The namespaces that exist on this machine.
pub fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten();
    entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect()
}

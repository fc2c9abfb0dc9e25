//! What the privileged tests share.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::io::{self, Write};
use std::path::Path;

use lab::{Plant, Programs, Scenario, Stop};

/// Ends the program, with one line, unless this is root: a test that was not run has not passed.
pub fn need_root() {
    if !rustix::process::geteuid().is_root() {
        // Past the test's own output, which would be lost.
        let _ = io::stderr().write_all(b"these tests need root: make test runs them so\n");
        std::process::exit(1);
    }
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

//! A view that is watching, and plain connections for it to see.
#![allow(dead_code)]

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::live::Space;
use super::{arg, json_lines, stderr, tcpwhy, wait_until};

/// A view that is watching.
pub struct Watching(pub Child);

impl Watching {
    /// Begins to watch.
    pub fn begin(args: &[&str]) -> Watching {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let mut args = args.to_vec();
        args.extend(["--ready-file", arg(&ready)]);
        let mut command = tcpwhy(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        wait_until("watching begins", || ready.exists());
        Watching(child)
    }

    /// Ctrl-C, and all that it printed; the last line of JSON, which says what was lost, apart.
    pub fn end(self) -> (Vec<Value>, Value) {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), Signal::INT).unwrap();
        let output = self.0.wait_with_output().unwrap();
        let says = stderr(&output);
        assert!(output.status.success(), "{says}");
        assert!(!says.contains(" failed: "), "{says}");
        let mut lines = json_lines(&output);
        let health = lines.pop().expect("a last line");
        assert_eq!(health["type"], "health");
        (lines, health)
    }

    /// The same of a run in which nothing may be lost.
    pub fn whole(self) -> Vec<Value> {
        let (lines, health) = self.end();
        assert_eq!(health["lost"], 0, "{health}");
        lines
    }
}

/// Opens `n` connections that the client closes first; both ends are in the namespace.
pub fn connections(netns: &Space, host: &str, n: usize) -> u16 {
    netns.inside(|| {
        let listener = TcpListener::bind((host, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        for _ in 0..n {
            let client = TcpStream::connect(at).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            drop(client);
            assert_eq!(server.read(&mut [0; 16]).unwrap(), 0);
        }
        at.port()
    })
}

/// How many lines are such.
pub fn count(lines: &[Value], is: impl Fn(&Value) -> bool) -> usize {
    lines.iter().filter(|l| is(l)).count()
}

//! A program nobody here wrote: nginx with a short backlog and a stalled worker, under ab.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{arg, json_lines, need_root, stderr, tcpwhy, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// nginx in the foreground, ended when dropped.
struct Nginx {
    master: Child,
    worker: u32,
    port: u16,
}

impl Nginx {
    fn start(dir: &Path) -> Nginx {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = dir.join("nginx.conf");
        let text = format!(
            "daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error.log;
             events {{ worker_connections 1024; }}
             http {{ access_log off; keepalive_timeout 0;
                     client_body_temp_path {0}/body; proxy_temp_path {0}/proxy;
                     fastcgi_temp_path {0}/fastcgi; uwsgi_temp_path {0}/uwsgi;
                     scgi_temp_path {0}/scgi;
                     server {{ listen 127.0.0.1:{port} backlog=5;
                               location / {{ return 200 ok; }} }} }}",
            dir.display()
        );
        fs::write(&config, text).unwrap();
        let master = Command::new("nginx")
            .arg("-c")
            .arg(&config)
            .stderr(Stdio::null())
            .spawn();
        let master = master.expect("nginx runs (make test installs it)");
        wait_until("nginx listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        // The master listens before it has forked the worker.
        let mut worker = None;
        wait_until("nginx has its worker", || {
            worker = first_child(master.id());
            worker.is_some()
        });
        Nginx {
            master,
            worker: worker.expect("waited for"),
            port,
        }
    }
}

/// The process that this one has forked first and that still lives.
fn first_child(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}

impl Nginx {
    /// Connections that wait for accept().
    fn waiting(&self) -> u32 {
        let port = format!("sport = :{}", self.port);
        let output = Command::new("ss").args(["-ltnH", &port]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let queue = text.split_whitespace().nth(1);
        queue.and_then(|n| n.parse().ok()).unwrap_or(0)
    }
}

/// CPU time that a process of one thread has had, ns.
fn cpu_ns(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

impl Drop for Nginx {
    fn drop(&mut self) {
        signal(self.worker, Signal::CONT);
        signal(self.master.id(), Signal::TERM);
        let _ = self.master.wait();
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

#[test]
fn a_stopped_worker_is_named() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(dir.path());
    let worker = nginx.worker;
    let ready = dir.path().join("ready");
    let explain = tcpwhy(&[
        "explain",
        "--for",
        "8s",
        "--json",
        "--ready-file",
        arg(&ready),
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    wait_until("the recording begins", || ready.exists());
    let url = format!("http://127.0.0.1:{}/", nginx.port);
    let mut ab = Command::new("ab")
        .args(["-q", "-r", "-c", "30", "-t", "6", "-n", "1000000", &url])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ab runs (make test installs it)");
    wait_until("ab is answered", || cpu_ns(worker) > 100_000_000);
    signal(worker, Signal::STOP);
    wait_until("the accept queue is full", || nginx.waiting() > 5);
    // For as long clients send their SYNs in vain.
    sleep(Duration::from_secs(3));
    signal(worker, Signal::CONT);
    let output = explain.wait_with_output().unwrap();
    ab.wait().unwrap();

    assert!(output.status.success(), "{}", stderr(&output));
    // The host may have other troubles of its own at the moment; ours must be told.
    let lines = json_lines(&output);
    let listener = format!("127.0.0.1:{}", nginx.port);
    let ours = lines.iter().find(|f| f["scope"]["listener"] == *listener);
    let finding = ours.unwrap_or_else(|| panic!("no finding of {listener}: {lines:#?}"));
    assert_eq!(finding["cause"], "accept-queue-overflow", "{finding:#}");
    let scope = &finding["scope"];
    assert_eq!(scope["comm"], "nginx");
    assert_eq!(scope["backlog"], 5);
    let pids = scope["pids"].as_array().unwrap();
    for pid in [worker, nginx.master.id()] {
        assert!(
            pids.iter().any(|p| p.as_u64() == Some(pid.into())),
            "{pid}: {scope:#}"
        );
    }
    assert_eq!(scope["pid"], worker, "the one that is stopped: {scope:#}");
}

//! What addresses are called: by a host name of another UTS namespace, and by `/etc/hosts` as its processes see it.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use observe::Part;
use recording::tables::HostName;

use crate::common::{Netns, need_root, record, rows};

/// Listens where it is told and waits for the end of its input.
const LISTENS: &str = "import socket, sys; s = socket.create_server(('127.0.0.1', 7200)); print('', flush=True); sys.stdin.read()";

#[test]
fn a_process_elsewhere_has_its_own_names() {
    need_root();
    let netns = Netns::new();
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost\n10.9.8.7 db-primary db\n").unwrap();
    let script = "mount --bind \"$0\" /etc/hosts && hostname uts-name && exec python3 -c \"$1\"";
    let mut process = netns.inside(|| {
        let mut command = Command::new("unshare");
        command.args(["--uts", "--mount", "sh", "-c", script]);
        command.arg(&hosts).arg(LISTENS);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    });
    let mut line = [0];
    std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut line).unwrap();
    let own = rustix::system::uname().nodename().to_owned();
    let (_, recorded) = record(Part::Sockets, &[netns.inode], || {
        thread::sleep(Duration::from_millis(300));
    });
    drop(process.stdin.take());
    process.wait().unwrap();
    let told: Vec<HostName> = rows(&recorded);
    let told = told.iter().filter(|row| row.netns == netns.inode);
    let mut told: Vec<String> = told
        .map(|row| {
            let addr = row.addr.map(|addr| addr.ip().to_string());
            format!("{} {}", addr.unwrap_or_default(), row.name)
        })
        .collect();
    told.sort();
    assert_eq!(told, [" uts-name", "10.9.8.7 db-primary"]);
    let now = rustix::system::uname().nodename().to_owned();
    assert_eq!(own, now, "the recorder's own is as it was");
}

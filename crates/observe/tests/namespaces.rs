//! Part `sockets` in namespaces that have no TCP socket: not walked, and nothing of them is missed.

use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use observe::Part;
use recording::tables::{Counter, Listener, Setting, Socket};
use recording::{HealthKind, tables::Health};

use crate::common::{Netns, need_root, record, rows};

/// Some rounds of samples, which are 100 ms apart.
const ROUNDS: Duration = Duration::from_millis(500);

#[test]
fn a_namespace_that_gets_sockets_is_sampled_from_then_on() {
    need_root();
    let (busy, empty) = (Netns::new(), Netns::new());
    let mut held = None;
    let (_, dir) = record(Part::Sockets, &[busy.inode, empty.inode], || {
        sleep(ROUNDS);
        // Nothing but a listener at first: no packet moves.
        let listener = busy.inside(|| TcpListener::bind("127.0.0.1:7000").unwrap());
        sleep(ROUNDS);
        let six = busy.inside(|| TcpListener::bind("[::1]:7006").unwrap());
        let client = busy.inside(|| TcpStream::connect("127.0.0.1:7000").unwrap());
        sleep(ROUNDS);
        held = Some((listener, six, client));
    });
    let listeners: Vec<Listener> = rows(&dir);
    assert!(listeners.iter().all(|l| l.netns == busy.inode));
    let times = |port: u16| listeners.iter().filter(|l| l.local_port == port).count();
    assert!(times(7000) >= 2, "{listeners:?}");
    assert!(times(7006) >= 1, "{listeners:?}");
    let queued = listeners.iter().map(|l| l.accept_queue).max();
    assert_eq!(queued, Some(1), "the connection waits for accept()");
    let sockets: Vec<Socket> = rows(&dir);
    assert_eq!(sockets.iter().filter(|s| s.netns == empty.inode).count(), 0);
    assert!(sockets.iter().any(|s| s.remote_port == 7000));

    // The empty one was visited all the same; its settings matter to nobody.
    let counters: Vec<Counter> = rows(&dir);
    let samples = counters.iter().filter(|c| c.netns == empty.inode);
    assert!(samples.filter(|c| &*c.name == "InSegs").count() >= 2);
    let settings: Vec<Setting> = rows(&dir);
    assert!(settings.iter().any(|s| s.netns == busy.inode));
    let health: Vec<Health> = rows(&dir);
    let mut partial = health.iter().filter(|h| h.what == HealthKind::Partial);
    // A round ends in time on a host that is busy with something else, and says so.
    let in_time = |h: &Health| h.detail.contains("took too long");
    assert!(partial.all(in_time), "{health:?}");
    drop(held);
}

#[test]
fn what_a_namespace_without_sockets_refuses_is_counted() {
    need_root();
    let netns = Netns::new();
    let (_, dir) = record(Part::Sockets, &[netns.inode], || {
        sleep(ROUNDS);
        netns.inside(|| TcpStream::connect("127.0.0.1:7000").unwrap_err());
        sleep(ROUNDS);
    });
    let counters: Vec<Counter> = rows(&dir);
    let rise = |group: &str, name: &str| -> i64 {
        let of = counters
            .iter()
            .filter(|c| &*c.group == group && &*c.name == name);
        of.filter_map(|c| c.delta).sum()
    };
    assert_eq!(rise("Tcp", "OutRsts"), 1);
    assert!(rise("IpExt", "InOctets") > 0, "also of the second file");
}

//! A command that did not wait for TCP is told so, and one that did is not.

use recording::tables::Wait;
use recording::{Ran, SourceName, Waker};

use crate::{CommandTime, explain};
use synth::{Dial, Fixture, START_NS, Task};

const PID: u32 = 4_711;
const S: u64 = 1_000_000_000;

fn at_s(s: u64) -> u64 {
    START_NS + s * S
}

/// A command that ran from the second second to the twelfth, and waited twice for 5 s.
fn looks_up(syscall: &str, waited_ns: u64) -> Fixture {
    let mut f = Fixture::new();
    f.manifest.ran = Some(Ran {
        pid: PID,
        start_ns: at_s(2),
        end_ns: Some(at_s(12)),
    });
    let netns = f.manifest.namespaces[0].inode;
    for end_s in [7, 12] {
        f.waits.push(Wait {
            syscall: Some(syscall.into()),
            waker: Waker::Timer,
            ..Task::new(PID, "curl").wait(at_s(end_s), netns, waited_ns)
        });
    }
    f
}

fn told(f: &Fixture) -> Option<CommandTime> {
    let written = f.write().expect("writes");
    explain(&written.recording).expect("reads").summary.command
}

#[test]
fn a_lookup_that_nobody_answers_is_no_tcp() {
    let told = told(&looks_up("poll", 5 * S + 3_000_000)).expect("it had no connection");
    assert_eq!((told.pid, told.comm.as_str()), (PID, "curl"));
    assert_eq!(
        (told.ran_s, told.without_tcp_s, told.waits),
        (10.0, 10.0, 2)
    );
    let says = "curl (pid 4711) had no TCP connection for 10 s of the 10 s that it ran: ";
    assert!(told.says.starts_with(says), "{}", told.says);
    assert!(told.says.contains("one of 2 such waits"), "{}", told.says);
    assert!(told.hint.is_some_and(|hint| hint.contains("name server")));
}

#[test]
fn the_name_server_is_told_where_it_is_known() {
    let mut f = looks_up("poll", 5 * S);
    for wait in &mut f.waits {
        wait.name_server = Some(synth::place("10.88.0.1:53").0);
    }
    let told = told(&f).expect("it had no connection");
    let says = "waited 5 s in poll for 10.88.0.1:53 (UDP, a name server), which did not answer, one of 2 such waits.";
    assert!(told.says.ends_with(says), "{}", told.says);
    assert_eq!(told.hint, None);
}

#[test]
fn what_is_no_lookup_is_not_called_one() {
    let told = told(&looks_up("recvfrom", 4 * S)).expect("it had no connection");
    assert_eq!(told.hint, None);
    // Who sleeps or waits for a child waits for nothing of the network.
    assert!(self::told(&looks_up("clock_nanosleep", 5 * S)).is_none());
    assert!(self::told(&looks_up("wait4", 5 * S)).is_none());
}

#[test]
fn who_has_a_connection_meanwhile_may_wait_for_it() {
    let mut f = looks_up("poll", 5 * S);
    f.dial(Dial {
        at_ms: 2_100.0,
        ends_ms: Some(11_000.0),
        ..Dial::default()
    });
    // Somebody else's, who was there before.
    assert!(told(&f).is_some());
    for pid in [PID, PID + 1] {
        for event in &mut f.events {
            event.pid = event.pid.map(|_| pid);
        }
        assert!(told(&f).is_none(), "its own, or a child's: {pid}");
    }
    // And of none that ran nothing is said.
    let mut f = looks_up("poll", 5 * S);
    f.manifest.ran = None;
    assert!(told(&f).is_none());
}

#[test]
fn what_may_not_have_been_recorded_is_not_denied() {
    let mut f = looks_up("poll", 5 * S);
    f.without(SourceName::States);
    assert!(told(&f).is_none());
    let mut f = looks_up("poll", 5 * S);
    f.manifest.asked.ports = vec![80];
    assert!(told(&f).is_none());
}

//! Who waits for a name server is told, and who waits for something else, or not long, is not.

use recording::tables::{Cgroup, Wait};
use recording::{Filter, Ran, Waker};

use crate::{NotTcp, Options, TimeOf, explain_with};
use synth::{Fixture, START_NS, Task};

const MS: u64 = 1_000_000;
const PID: u32 = 4_711;

/// Waits of `curl` for a name server, ms, ended by an answer or by a timer.
fn looks_up(waits: &[(u64, Waker)]) -> Fixture {
    let mut f = Fixture::new();
    let netns = f.manifest.namespaces[0].inode;
    for ((ms, waker), nth) in waits.iter().zip(1..) {
        f.waits.push(Wait {
            syscall: Some("poll".into()),
            waker: waker.clone(),
            name_server: Some(synth::place("10.88.0.1:53").0),
            ..Task::new(PID, "curl").wait(START_NS + nth * 6_000 * MS, netns, ms * MS)
        });
    }
    f
}

fn told(f: &Fixture, filter: Filter) -> Option<NotTcp> {
    let written = f.write().expect("writes");
    let options = Options::default().about(filter);
    let explained = explain_with(&written.recording, &options).expect("reads");
    explained.summary.not_tcp
}

fn says(f: &Fixture) -> Option<String> {
    told(f, Filter::default()).map(|told| told.says)
}

#[test]
fn who_waits_for_which_name_server_and_how_long() {
    let late = told(&looks_up(&[(2_500, Waker::Softirq)]), Filter::default()).expect("2.5 s");
    assert_eq!(late.whose, TimeOf::NameServer);
    let says_late = "curl (pid 4711) waited 2.5 s for 10.88.0.1:53 (UDP, a name server).";
    assert_eq!(late.says, says_late);
    let dead = looks_up(&[(5_000, Waker::Timer)]);
    let says_dead =
        "curl (pid 4711) waited 5 s for 10.88.0.1:53 (UDP, a name server); no answer came.";
    assert_eq!(says(&dead).as_deref(), Some(says_dead));
    let twice = looks_up(&[(5_000, Waker::Timer), (300, Waker::Softirq)]);
    let says_twice = "curl (pid 4711) waited 5.3 s for 10.88.0.1:53 (UDP, a name server), 2 times, 5 s at most; no answer \
                      came in 1 of them.";
    assert_eq!(says(&twice).as_deref(), Some(says_twice));
}

#[test]
fn several_processes_and_servers_are_told_together() {
    let mut f = looks_up(&[(5_000, Waker::Timer), (5_000, Waker::Timer)]);
    f.waits[1].pid += 1;
    f.waits[1].name_server = Some(synth::place("[fd88::1]:53").0);
    let expected = "2 curl processes (4711, 4712) waited 10 s for 10.88.0.1:53 and [fd88::1]:53 (UDP, name servers), 2 times, \
                    5 s at most; no answer came in any of them.";
    assert_eq!(says(&f).as_deref(), Some(expected));
}

#[test]
fn a_healthy_resolver_is_not_told() {
    // Quick ones however often, and a single one of a quarter of a second.
    assert_eq!(says(&looks_up(&vec![(150, Waker::Softirq); 20])), None);
    let one = looks_up(&[(250, Waker::Softirq)]);
    assert_eq!(says(&one), None);
    // But who asks about the program, or runs it, is told.
    let asked = Filter {
        comms: vec!["curl".into()],
        ..Filter::default()
    };
    assert!(told(&one, asked).is_some());
    let mut ran = looks_up(&[(250, Waker::Softirq)]);
    ran.manifest.ran = Some(Ran {
        pid: PID,
        start_ns: START_NS,
        end_ns: None,
    });
    assert!(says(&ran).is_some());
    let other = Filter {
        comms: vec!["nginx".into()],
        ..Filter::default()
    };
    let long = looks_up(&[(5_000, Waker::Timer)]);
    assert_eq!(told(&long, other), None);
}

#[test]
fn a_wait_for_something_else_is_not_called_a_lookup() {
    let mut f = looks_up(&[(5_000, Waker::Timer)]);
    f.waits[0].name_server = None;
    assert_eq!(says(&f), None);
}

#[test]
fn what_runs_the_program_is_told() {
    let mut f = looks_up(&[(2_500, Waker::Softirq)]);
    f.waits[0].cgroup = 77;
    let mut in_cgroup = |path: &str, name: Option<&str>| {
        f.cgroups = vec![Cgroup {
            time_ns: START_NS,
            cgroup: 77,
            path: path.into(),
            name: name.map(Into::into),
        }];
        says(&f).expect("2.5 s")
    };
    let unit = in_cgroup("/system.slice/shop.service", None);
    assert!(
        unit.starts_with("curl (pid 4711, unit shop.service) waited"),
        "{unit}"
    );
    let id = "0123456789abcdef".repeat(4);
    let named = in_cgroup(&format!("/docker/{id}"), Some("shop-1"));
    assert!(
        named.starts_with("curl (pid 4711, container shop-1) waited"),
        "{named}"
    );
    let login = in_cgroup("/user.slice/user-0.slice/session-3.scope", None);
    assert!(login.starts_with("curl (pid 4711) waited"), "{login}");
}

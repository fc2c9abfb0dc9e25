//! An address that has a name on the recorded host is told with it, once, wherever it stands.

use std::collections::BTreeSet;

use explain::{Explanation, explain};
use recording::tables::HostName;
use recording::{Addr, Text};
use synth::{Fixture, START_NS, cases};

/// What is said of a recording in which every address that was connected to has this name.
fn told(mut f: Fixture, name: Option<&str>) -> Explanation {
    let places: BTreeSet<(u32, Addr)> = f.events.iter().map(|e| (e.netns, e.remote_addr)).collect();
    for (netns, addr) in places {
        f.host_names.extend(name.map(|name| HostName {
            time_ns: START_NS,
            netns,
            addr: Some(addr),
            name: Text::from(name),
        }));
    }
    explain(&f.write().expect("it can be written")).expect("it reads")
}

#[test]
fn titles_and_services_name_the_address() {
    let mut named = 0;
    for case in [
        cases::refused,
        cases::silent,
        cases::lossy,
        cases::black_hole,
    ] {
        let (plain, with) = (told(case(), None), told(case(), Some("db-primary")));
        assert_eq!(plain.findings.len(), with.findings.len());
        for (plain, with) in plain.findings.iter().zip(&with.findings) {
            assert_eq!(plain.title, with.title.replacen(" (db-primary)", "", 1));
            named += usize::from(plain.title != with.title);
        }
        assert!(plain.account.iter().all(|s| s.name.is_none()));
        for service in &with.account {
            let is_there = service.at.addr.ip().is_unspecified() || service.name.is_some();
            let is_dialled = service.role == explain::account::Role::Client;
            assert!(is_there || !is_dialled, "{:?}", service.at);
        }
    }
    assert!(named > 0, "no title has an address");
}

#[test]
fn what_is_no_name_is_not_told() {
    for hostile in ["`id`", "a b", "10.0.0.1", "x\u{1b}[2J", &"a".repeat(65)] {
        let with = told(cases::refused(), Some(hostile));
        assert!(with.account.iter().all(|s| s.name.is_none()), "{hostile}");
        assert!(with.findings.iter().all(|f| !f.title.contains(hostile)));
    }
}

//! One finding per bottleneck, and none of what few of many clients have.

use crate::explanation::Explanation;
use synth::{Fixture, Flow, Listen, SERVER, cases};

/// A server that answers clients at these addresses, some over a path that loses packets.
fn serves(clients: &[(String, bool)]) -> Explanation {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    for (client, loses) in clients {
        let flow = match loses {
            true => cases::losing(),
            false => Flow::default(),
        };
        f.flow(Flow {
            from: format!("{client}:40000"),
            answers: true,
            ..flow
        });
    }
    f.seen_from(SERVER);
    crate::explain(&f.write().unwrap()).unwrap()
}

fn clients(prefix: &str, loses: &[bool]) -> Vec<(String, bool)> {
    let each = (1..).zip(loses);
    each.map(|(i, loses)| (format!("{prefix}.{i}"), *loses))
        .collect()
}

#[test]
fn what_most_paths_of_a_host_have_is_one_finding() {
    let mut paths = clients("10.1.0", &[true, true, false]);
    paths.extend(clients("10.2.0", &[true, true]));
    let e = serves(&paths);
    let titles: Vec<_> = e.findings.iter().map(|f| &*f.title).collect();
    assert_eq!(titles, ["4 of 5 paths of this host lose packets."]);
    let f = &e.findings[0];
    assert_eq!((f.impact.affected, f.impact.of), (4, 4));
    assert!(f.fix.contains("the way out of this host"), "{}", f.fix);
    assert!(
        f.evidence[0].says.contains("10.2.0.1"),
        "{}",
        f.evidence[0].says
    );
}

#[test]
fn what_most_paths_to_a_network_have_is_told_of_it() {
    let mut paths = clients("10.1.0", &[true, true, true, false]);
    for net in 2..5 {
        paths.extend(clients(&format!("10.{net}.0"), &[false; 3]));
    }
    let e = serves(&paths);
    assert_eq!(e.findings.len(), 1);
    let f = &e.findings[0];
    assert!(
        f.title.starts_with("3 of 4 paths to 10.1.0.0/24"),
        "{}",
        f.title
    );
    assert_eq!(f.scope.place(), "paths to 10.1.0.0/24");
}

#[test]
fn slow_lines_of_few_of_many_clients_on_the_internet_are_a_note() {
    let lines = |prefix: &str| {
        let net = |i: usize| clients(&format!("{prefix}.{i}"), &[i.is_multiple_of(6)]);
        (0..24).flat_map(net).collect::<Vec<_>>()
    };
    let e = serves(&lines("203.0"));
    assert!(e.findings.is_empty(), "{:?}", e.findings);
    assert_eq!(e.notes.len(), 4);
    assert!(e.notes[0].because.contains("this one's own line"));
    // In a network of one's own each is somebody's to mend.
    assert_eq!(serves(&lines("10.0")).findings.len(), 4);
    // And of few clients each is.
    let few = clients("203.0.113", &[true, false, false, false]);
    assert_eq!(serves(&few).findings.len(), 1);
}

//! Reports a process that answers late because its own connects fail under the finding about these connects: a proxy's
//! clients wait for its backend.

use analysis::{Conn, Story};

use crate::finding::{Finding, Step};
use crate::limits;
use crate::place::Place;

/// The findings, the most time lost first, without those that the same process's failing connects explain.
pub(crate) fn told_with_connects(story: &Story, ranked: Vec<Finding>) -> Vec<Finding> {
    let (late, mut others): (Vec<_>, Vec<_>) = ranked.into_iter().partition(|f| f.waits_for_others);
    let mut told = Vec::new();
    for late in late {
        let behind = |f: &Finding| late.scope.pid.map_or(0, |pid| failing(story, f, pid));
        // A note does not displace a finding.
        let causes = others.iter_mut().filter(|f| f.note.is_none());
        let most = causes.max_by_key(|f| behind(f));
        // There is at least one failed connect per late answer, or per second one if they are retried.
        match most.filter(|f| limits::MOST.reached(behind(f), late.impact.affected.max(1))) {
            Some(cause) => tell(cause, late),
            None => told.push(late),
        }
    }
    told.extend(others);
    told
}

/// How many of the connects in a finding belong to a process and failed or were retried.
fn failing(story: &Story, finding: &Finding, pid: u32) -> u64 {
    let own = |conn: &&Conn| {
        let late = conn.failed() || conn.syn_retries > 0 || conn.established_ns.is_none();
        conn.connects() && conn.pid == Some(pid) && late
    };
    let count = match &finding.place {
        Some(Place::At(netns, at)) => {
            let there = story.to(*at).map(|(_, c)| c);
            let there = there.filter(|c| netns.is_none_or(|n| n == c.netns));
            there.filter(own).count()
        }
        Some(Place::Listener(index)) => {
            let listener = story.listeners.all.get(*index as usize);
            let clients = listener.map_or(&[][..], |l| &l.clients);
            story.all(clients).map(|(_, c)| c).filter(own).count()
        }
        Some(place) => story.all(place.ids()).map(|(_, c)| c).filter(own).count(),
        None => 0,
    };
    count as u64
}

fn tell(cause: &mut Finding, late: Finding) {
    let rows = late.evidence.iter().flat_map(|step| step.rows.clone());
    let step = Step::new(format!("Its own clients wait for it: {}", late.title));
    cause.evidence.push(step.rows(rows));
    let who = late.scope.comm.as_deref().unwrap_or("its process");
    cause.impact.says = format!(
        "{} Clients of {who}: {}",
        cause.impact.says, late.impact.says
    );
    if late.lost_s.claimed() > cause.lost_s.claimed() {
        cause.lost_s = late.lost_s;
    }
}

#[cfg(test)]
mod tests {
    use crate::causes::testing::found;
    use crate::id::Id;
    use synth::{CLIENT, Dial, Fate, Fixture, Listen, RequestMix, SERVER};

    /// A server answers 30 requests late. Its thread waits in a call, and a process connects to a port without a
    /// listener.
    fn proxy(waits_in: &'static str, pid: u32) -> Fixture {
        let mut f = Fixture::new();
        f.listen(Listen::default());
        f.ask(RequestMix {
            slept_in: Some(waits_in),
            ..RequestMix::default()
        });
        for i in 0..60 {
            f.dial(Dial {
                client: Some(SERVER),
                server: Some(CLIENT),
                from: format!("10.79.0.1:{}", 50_000 + i),
                to: "10.79.0.2:9002",
                at_ms: 1_000.0 + f64::from(i) * 100.0,
                fate: Fate::Refused,
                ..Dial::default()
            });
        }
        for event in f.events.iter_mut().filter(|e| e.remote_port == 9_002) {
            event.pid = event.pid.map(|_| pid);
        }
        f
    }

    #[test]
    fn a_process_whose_connects_fail_is_late_for_that() {
        let both = [Id::SLOW_APPLICATION, Id::CONNECTION_REFUSED];
        let causes = |f: &Fixture| found(f).iter().map(|f| f.cause).collect::<Vec<_>>();
        // Another process's connects, or a lock, are not the reason.
        assert_eq!(causes(&proxy("epoll_wait", 4_000)), both);
        assert_eq!(causes(&proxy("futex", 812)), both);
        let all = found(&proxy("epoll_wait", 812));
        let [one] = &all[..] else {
            panic!("{all:#?}");
        };
        assert_eq!(one.cause, Id::CONNECTION_REFUSED);
        let says = |says: &str| one.evidence.iter().any(|s| s.says.starts_with(says));
        assert!(says("Its own clients wait for it: "), "{:?}", one.evidence);
        let lost = one.lost_s.seconds().expect("measured");
        assert!((35.0..37.0).contains(&lost), "{lost}");
    }
}

//! C50 is named for what is slow compared with its own median, kept from working, unread, or asked about: not for what
//! always takes as long.

use recording::tables::Request;
use recording::{Filter, Role};

use crate::causes::testing::{found, number, only, ruled_out};
use crate::{Change, Explanation, Level, Number, Options, explain, explain_with};
use synth::{CLIENT, Fixture, Listen, RequestMix, SERVER, START_NS, cases};

const ID: &str = "slow-application";

fn asked(asked: RequestMix) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.ask(asked);
    f
}

/// Every request takes 2 s.
fn steady() -> RequestMix {
    RequestMix {
        usual: (0, 0.0),
        slow: (30, 2_000.0),
        slept_in: Some("clock_nanosleep"),
        ..RequestMix::default()
    }
}

/// The answer to a question about a port.
fn about(f: &Fixture, port: u16) -> Explanation {
    let filter = Filter {
        ports: vec![port],
        ..Filter::default()
    };
    let written = f.write().expect("writes");
    explain_with(&written.recording, &Options::default().about(filter)).expect("reads")
}

#[test]
fn short_stalls_that_most_of_the_time_goes_to_are_told() {
    let stalls = |n, usual_ms, slow_ms| RequestMix {
        usual: (1_000 - n, usual_ms),
        slow: (n, slow_ms),
        ..RequestMix::default()
    };
    // 30 in 1,000 that take 50 ms: 84 % of the time.
    let f = only(&asked(stalls(30, 0.3, 50.0)), ID);
    assert_eq!((f.impact.affected, f.impact.of), (30, 1_000));
    // A fork for each new connection.
    let forks = RequestMix {
        accept_ms: 45.0,
        ..stalls(30, 0.3, 50.0)
    };
    assert!(found(&asked(forks)).is_empty());
    // 28 % of it; what a busy host gives; fewer than one in a hundred.
    for well in [
        stalls(30, 4.0, 50.0),
        stalls(30, 0.3, 25.0),
        stalls(9, 0.3, 100.0),
    ] {
        assert!(found(&asked(well)).is_empty());
    }
}

#[test]
fn requests_that_callers_give_up_are_told() {
    let given_up = |n, ms, usual| RequestMix {
        usual: (usual, 4.0),
        slow: (n, ms),
        slept_in: Some("clock_nanosleep"),
        given_up: true,
        ..RequestMix::default()
    };
    let f = only(&asked(given_up(30, 500.0, 970)), ID);
    assert_eq!((f.impact.affected, f.impact.of), (30, 1_000));
    assert!(
        f.title
            .ends_with("leaves 3 % of its requests unanswered, given up after 500 ms."),
        "{}",
        f.title
    );
    // The thread that read each request slept on long after that.
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(f.fix.contains("sleeps in clock_nanosleep"), "{}", f.fix);
    let busy = RequestMix {
        slept_in: None,
        ..given_up(30, 500.0, 970)
    };
    let f = only(&asked(busy), ID);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    // A few; soon after.
    for well in [(4, 500.0, 96), (30, 150.0, 970)] {
        let (n, ms, usual) = well;
        assert!(found(&asked(given_up(n, ms, usual))).is_empty(), "{well:?}");
    }
    // Nothing was ever answered, and the clients, which know how long they wait, are here; else it may be a protocol
    // without answers.
    let none = asked(given_up(30, 2_000.0, 0));
    assert!(
        only(&none, ID)
            .title
            .contains("leaves 100 % of its requests unanswered")
    );
    // Its process gives up requests of its own: the one that it asks is told.
    let mut proxy = none.clone();
    let asked = proxy
        .exchanges
        .iter_mut()
        .filter(|x| x.role == Role::Client);
    asked.for_each(|x| x.pid = Some(812));
    assert!(found(&proxy).iter().all(|f| f.cause != ID));
    let mut alone = none;
    alone.seen_from(SERVER);
    assert!(found(&alone).is_empty());
}

/// From the fifth second on it answers nothing, and this many requests wait at the end of each second.
fn falls_silent(waiting: [u64; 4]) -> Fixture {
    let mut f = asked(RequestMix {
        slow: (1, 4_000.0),
        slept_in: None,
        open: true,
        ..RequestMix::default()
    });
    let second = |nth: u64| START_NS + nth * 1_000_000_000;
    let mut later = Vec::new();
    for row in &mut f.requests {
        (row.time_ns, row.open) = (second(5), Some(0));
        later.extend((6..).zip(waiting).map(|(nth, open)| Request {
            time_ns: second(nth),
            netns: row.netns,
            role: row.role.clone(),
            addr: row.addr,
            port: row.port,
            open: Some(open),
            one_in: 1,
            ..Request::default()
        }));
    }
    f.requests.extend(later);
    f
}

#[test]
fn a_small_pool_that_waits_altogether_is_a_note() {
    let f = falls_silent([9, 9, 9, 9]);
    assert!(found(&f).is_empty());
    let notes = explain(&f.write().expect("writes")).expect("reads").notes;
    let title = "has answered nothing for 4 s, while 9 requests wait";
    assert!(notes.iter().any(|n| n.title.contains(title)), "{notes:?}");
    // One that waits alone is nothing.
    let alone = falls_silent([1, 1, 1, 1]).write().expect("writes");
    assert!(explain(&alone).expect("reads").notes.is_empty());
}

#[test]
fn a_service_that_answers_nothing_any_more_while_more_is_asked() {
    let f = only(&falls_silent([2, 9, 16, 23]), ID);
    assert!(
        f.title
            .contains("has answered nothing for 4 s, while 23 requests wait"),
        "{}",
        f.title
    );
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    // A pool that waits for something to come (BLPOP), when nothing comes.
    assert!(found(&falls_silent([8; 4])).is_empty());
    assert!(found(&falls_silent([2, 9, 0, 0])).is_empty());
    // Nothing waits any more: seconds without anything have no row.
    let mut over = falls_silent([2, 9, 16, 23]);
    for row in &mut over.requests {
        row.time_ns -= 4_000_000_000;
    }
    assert!(found(&over).is_empty());
}

#[test]
fn few_that_take_much_of_the_time_are_told() {
    let few = |n, usual_ms| RequestMix {
        usual: (9_900, usual_ms),
        slow: (n, 1_200.0),
        ..RequestMix::default()
    };
    // 40 in 10,000: half of the time. 9 are an accident.
    let f = only(&asked(few(40, 4.0)), ID);
    assert_eq!((f.impact.affected, f.impact.of), (40, 9_940));
    assert!(found(&asked(few(9, 4.0))).is_empty());
    // 12 in 100,000: half of the time again.
    let dear = RequestMix {
        usual: (99_988, 0.15),
        ..few(12, 0.0)
    };
    only(&asked(dear), ID);
    // 20 in 10,000 that take 2 % of the time.
    assert!(found(&asked(few(20, 119.0))).is_empty());
}

#[test]
fn some_that_take_much_longer_than_half_of_them() {
    let f = only(&asked(RequestMix::default()), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
    assert!(
        f.title.contains("1.2 s for 3 % of its requests (median 4"),
        "{}",
        f.title
    );
    assert_eq!((f.impact.affected, f.impact.of), (30, 1_000));
    assert_eq!(
        (f.scope.pid, f.scope.comm.as_deref()),
        (Some(812), Some("iperf3"))
    );
    assert!(f.fix.contains("lock"), "{}", f.fix);
    assert!(f.evidence.iter().any(|s| {
        s.says
            .contains("waiting for a lock or another thread (futex)")
    }));
    let faster = Change::AnswerFaster {
        at: "10.79.0.1:5000".into(),
    };
    assert_eq!(f.advice[0].change, Some(faster));
    assert!(ruled_out(&f, "path-loss").contains("0 segments"));
    // 36 s, less the median for each.
    let lost = f.lost_s.seconds().expect("they were measured");
    assert!((35.0..37.0).contains(&lost), "{lost}");
}

#[test]
fn the_server_alone_tells_it_too() {
    let here = RequestMix {
        here: [true, false],
        ..RequestMix::default()
    };
    let f = only(&asked(here), ID);
    assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
}

/// An event loop's clients wait for 4 s now and then; `open` of them in seconds in which nothing is answered.
fn silent(waiting: u64, open: &[u64]) -> Fixture {
    let mut f = asked(RequestMix {
        usual: (9_900, 4.0),
        slow: (waiting, 4_000.0),
        slept_in: None,
        ..RequestMix::default()
    });
    let all = f.requests.iter().find(|r| r.role == Role::Server);
    let all = all.expect("the server was recorded").clone();
    let start_ns = f.manifest.start_ns;
    for (second, open) in (3..).zip(open) {
        f.requests.push(Request {
            time_ns: start_ns + second * 1_000_000_000,
            netns: all.netns,
            role: all.role.clone(),
            addr: all.addr,
            port: all.port,
            open: Some(*open),
            one_in: 1,
            ..Request::default()
        });
    }
    f.requests.sort_by_key(|r| r.time_ns);
    f
}

#[test]
fn an_event_loop_that_answered_nobody_is_told_and_one_that_lets_some_wait_is_not() {
    let f = only(&silent(20, &[0, 20, 20, 20]), ID);
    let title = "answered nothing for at least 3 s: 20 requests took 4 s";
    assert!(f.title.contains(title), "{}", f.title);
    assert_eq!(f.confidence.level, Level::Medium, "{:?}", f.confidence);
    // All three that it has, for a fifth of the time: a stop, or a pool whose queue is empty. One alone waits for an event.
    let noted = |f: &Fixture| {
        assert!(found(f).is_empty());
        let notes = explain(&f.write().expect("writes")).expect("reads").notes;
        notes.into_iter().map(|n| n.title).collect::<Vec<_>>()
    };
    let notes = noted(&silent(3, &[0, 3, 3, 3]));
    let title = "answered nothing for at least 3 s: 3 requests took 4 s";
    assert!(notes[0].contains(title), "{notes:?}");
    assert!(noted(&silent(1, &[0, 1, 1, 1])).is_empty());
    // As many others wait while it answers: long polling. And two of twenty in a pause of the rest.
    assert!(found(&silent(20, &[0, 0, 0, 0])).is_empty());
    assert!(found(&silent(20, &[0, 2, 2, 2])).is_empty());
}

#[test]
fn what_always_takes_as_long_is_an_answer_and_no_finding() {
    let f = asked(steady());
    assert!(found(&f).is_empty());
    let explained = explain(&f.write().expect("writes")).expect("reads");
    assert!(explained.notes.is_empty(), "{:?}", explained.notes);
    // Unless the question was about it.
    let explained = about(&f, 5_000);
    let told = explained.findings.first().expect("it was asked about");
    assert_eq!(told.cause, ID);
    assert!(
        told.title
            .contains("took 2 s to answer, 100 % of it asleep in clock_nanosleep"),
        "{}",
        told.title
    );
    assert!(about(&f, 9).findings.is_empty());
}

#[test]
fn one_that_is_not_answered_is_told_to_whoever_asked() {
    let open = RequestMix {
        usual: (200, 4.0),
        slow: (1, 5_000.0),
        open: true,
        ..RequestMix::default()
    };
    let f = asked(open);
    assert!(found(&f).is_empty(), "merely awaiting an answer is none");
    let explained = about(&f, 5_000);
    let told = explained.findings.first().expect("it was asked about");
    assert!(
        told.title.contains("has not answered for 5 s"),
        "{}",
        told.title
    );
}

#[test]
fn who_names_a_namespace_alone_asks_about_no_answer_in_it() {
    let mut f = asked(steady());
    f.manifest.asked.netns = vec![SERVER];
    assert!(found(&f).is_empty());
    f.manifest.asked.ports = vec![5_000];
    only(&f, ID);
}

#[test]
fn a_command_asks_about_its_own_requests() {
    let mut f = asked(steady());
    let words = |line: &str| line.split(' ').map(String::from).collect();
    f.manifest.command_line = words("tcpwhy explain -- /usr/bin/wrk http://10.79.0.1:5000");
    only(&f, ID);
    // The requests came from a program of another name.
    for event in &mut f.events {
        if event.comm.as_deref() == Some("wrk") {
            event.comm = Some("other".into());
        }
    }
    f.manifest.command_line = words("tcpwhy explain -- ./load-test.sh");
    only(&f, ID);
    f.manifest.command_line = words("tcpwhy explain --for 10s");
    assert!(found(&f).is_empty());
}

#[test]
fn ordinary_spread_is_none() {
    for (usual, slow) in [
        // Ten times as long, but not noticeable.
        ((970, 4.0), (30, 150.0)),
        // Noticeable, but not ten times as long.
        ((970, 100.0), (30, 800.0)),
        // One in a thousand: any queue has that.
        ((4_999, 4.0), (5, 1_200.0)),
    ] {
        let f = asked(RequestMix {
            usual,
            slow,
            ..RequestMix::default()
        });
        assert!(found(&f).is_empty(), "{usual:?} {slow:?}");
    }
}

#[test]
fn an_event_loop_gives_a_note() {
    let untold = RequestMix {
        slept_in: None,
        ..RequestMix::default()
    };
    let explained = explain(&asked(untold).write().expect("writes")).expect("reads");
    assert!(explained.findings.is_empty(), "{:?}", explained.findings);
    let note = explained.notes.first().expect("a note");
    assert_eq!(note.cause, ID);
    assert!(note.because.contains("long polling"), "{}", note.because);
}

#[test]
fn threads_that_are_kept_from_working() {
    let waits = |awake, call| RequestMix {
        usual: (0, 0.0),
        slow: (40, 100.0),
        awake,
        slept_in: Some(call),
        ..RequestMix::default()
    };
    let runnable = only(&asked(waits([0.3, 0.7], "read")), ID);
    assert!(
        runnable.title.contains("70 ms of it waiting for a CPU"),
        "{}",
        runnable.title
    );
    let locked = only(&asked(waits([0.0, 0.0], "futex")), ID);
    assert!(
        locked.title.contains("waiting for a lock"),
        "{}",
        locked.title
    );
    assert!(found(&asked(waits([0.0, 0.0], "read"))).is_empty());
}

/// A thread waits for a future, which another one fulfils once a database has answered it.
#[test]
fn what_another_thread_fetched_is_no_lock() {
    let mut f = asked(RequestMix {
        usual: (0, 0.0),
        slow: (40, 100.0),
        awake: [0.0, 0.0],
        slept_in: Some("futex"),
        ..RequestMix::default()
    });
    let locked = |f: &Fixture| found(f).iter().any(|f| f.title.contains("lock"));
    assert!(locked(&f));
    let (database, port, _) = synth::place("10.79.0.9:5432");
    let fetched = f.waits.iter_mut().map(|wait| {
        wait.waker_tid = 9_000;
        recording::tables::Wait {
            tid: 9_000,
            time_ns: wait.time_ns - 1_000,
            syscall: Some("epoll_wait".into()),
            waker: recording::Waker::Softirq,
            cause_attempt: Some(0),
            cause_remote_addr: database,
            cause_remote_port: port,
            ..wait.clone()
        }
    });
    let fetched: Vec<_> = fetched.collect();
    f.waits.extend(fetched);
    assert!(locked(&f), "whoever sent that was asked nothing");
    let asks = Request {
        role: Role::Client,
        addr: database,
        port,
        ..f.requests[0].clone()
    };
    f.requests.push(asks);
    assert!(!locked(&f), "{:?}", found(&f));
}

#[test]
fn what_was_not_read_for_seconds() {
    let late = RequestMix {
        usual: (200, 4.0),
        slow: (1, 4_000.0),
        unread_ms: 3_900.0,
        ..RequestMix::default()
    };
    let f = only(&asked(late), ID);
    assert!(
        f.title.contains("has not read a request for 4 s"),
        "{}",
        f.title
    );
    assert_eq!(number(&f, "unread_ms"), &Number::Real(3_900.0));
    let sooner = RequestMix {
        slow: (1, 2_900.0),
        unread_ms: 2_800.0,
        ..late
    };
    assert!(found(&asked(sooner)).is_empty());
    // A transfer of which some always waits, and whose reader never stops.
    let mut transfer = asked(late);
    for x in &mut transfer.exchanges {
        x.unread_longest_ns = Some(x.unread_ns.min(20_000_000));
    }
    assert!(found(&transfer).is_empty());
}

/// Its thread waits for a CPU for most of the time, behind others: that explains it.
#[test]
fn contention_for_the_cpu_explains_it() {
    let waits = RequestMix {
        usual: (0, 0.0),
        slow: (40, 100.0),
        awake: [0.1, 0.9],
        ..RequestMix::default()
    };
    let mut f = asked(waits);
    f.thread(812, "iperf3", [0.1, 0.7]);
    for (pid, comm, from_ms, count) in [(812, "iperf3", 0, 1_000), (900, "batch", 0, 9_000)] {
        let at = synth::OnCpu {
            cpu: 1,
            pid,
            comm,
            softirq: false,
            stack: &[],
        };
        f.on_cpu(at, from_ms, count);
    }
    let told = only(&f, "cpu-contention");
    assert!(
        ruled_out(&told, ID).contains("waiting for a CPU"),
        "{:?}",
        told.ruled_out
    );
}

#[test]
fn without_requests_it_cannot_be_told() {
    let mut f = asked(RequestMix::default());
    f.manifest
        .sources
        .retain(|s| s.name != recording::SourceName::Requests);
    (f.requests, f.request_times, f.exchanges) = (Vec::new(), Vec::new(), Vec::new());
    let explained = explain(&f.write().expect("writes")).expect("reads");
    let answer = explained
        .summary
        .causes
        .iter()
        .find(|a| a.cause == ID)
        .expect("asked");
    assert_eq!(answer.record, ["requests"]);
    assert!(f.listeners.iter().any(|l| l.netns == SERVER));
}

/// A proxy in an event loop, and the service behind it.
fn proxy(behind: (u64, f64)) -> Fixture {
    let (times, behind_ms) = behind;
    let mut f = asked(RequestMix {
        slept_in: None,
        ..steady()
    });
    let mut behind = Fixture::new();
    behind.ask(RequestMix {
        here: [false, true],
        usual: (times - 1, behind_ms),
        slow: (1, behind_ms),
        ..RequestMix::default()
    });
    let at = "10.79.0.9".parse::<std::net::IpAddr>().expect("an address");
    f.requests.extend(behind.requests.drain(..).map(|mut r| {
        (r.netns, r.addr, r.port) = (SERVER, at.into(), 9_000);
        r
    }));
    f.request_times
        .extend(behind.request_times.drain(..).map(|mut r| {
            (r.netns, r.addr, r.port) = (SERVER, at.into(), 9_000);
            r
        }));
    f.exchanges.extend(behind.exchanges.drain(..).map(|mut x| {
        (x.netns, x.pid) = (SERVER, Some(812));
        (x.local_addr, x.local_port) = (
            "10.79.0.1"
                .parse::<std::net::IpAddr>()
                .expect("an address")
                .into(),
            50_000,
        );
        (x.remote_addr, x.remote_port) = (at.into(), 9_000);
        x
    }));
    f
}

#[test]
fn a_proxy_that_keeps_requests_is_told_from_one_whose_backend_does() {
    let told = |times, behind_ms| {
        let explanation = about(&proxy((times, behind_ms)), 5_000);
        let f = explanation.findings.iter().find(|f| f.cause == ID);
        let f = f.expect("a finding").clone();
        let step = f.evidence.iter().find(|s| {
            s.says
                .starts_with("Meanwhile it sent requests to 10.79.0.9:9000 itself")
        });
        assert!(step.is_some(), "{:?}", f.evidence);
        f.fix
    };
    let kept = told(30, 100.0);
    assert!(
        kept.contains("10.79.0.9:9000 answers it within 10"),
        "{kept}"
    );
    let awaited = told(30, 1_900.0);
    assert!(
        awaited.starts_with("Look at 10.79.0.9:9000: it takes 1."),
        "{awaited}"
    );
    // Neither: half of the time is the proxy's.
    let both = told(30, 1_100.0);
    assert!(both.contains("TCP is not involved"), "{both}");
    // Fast answers, but twenty of them for each request.
    let many = told(600, 95.0);
    assert!(many.contains("TCP is not involved"), "{many}");
}

/// Requests that began before the recording, or of which only the sockets tell.
#[test]
fn a_service_that_answers_nobody_is_seen_by_its_sockets() {
    let notes = |f: &Fixture| {
        let explained = explain(&f.write().expect("writes")).expect("reads");
        assert!(explained.findings.is_empty(), "{:#?}", explained.findings);
        explained.notes
    };
    // All asked before: a lock, or the workers of an empty queue.
    let before = [-900.0; 6];
    let f = cases::unanswered(&before, true);
    let told = notes(&f);
    assert_eq!(told.len(), 1, "{told:#?}");
    let title = &told[0].title;
    assert!(
        title.contains("has answered nothing for 10.9 s: 6 requests wait"),
        "{title}"
    );
    // It is the first line: a note under "No cause found" would hide that all stands still.
    let first = |f: &Fixture| {
        let explained = explain(&f.write().expect("writes")).expect("reads");
        explained.summary.not_tcp.map(|told| told.whose)
    };
    assert_eq!(first(&f), Some(crate::TimeOf::Standstill));
    assert_eq!(first(&cases::unanswered(&[-900.0; 4], true)), None);
    let asked = &about(&f, 5_000).findings;
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert_eq!(
        asked[0].since.as_ref().map(|s| s.began),
        Some(crate::moment::Began::Before)
    );
    // More and more ask, and nobody is answered.
    let arriving = [-900.0, 1_500.0, 2_000.0, 2_500.0, 3_000.0, 3_500.0];
    let mut f = cases::unanswered(&arriving, true);
    f.seen_from(SERVER);
    let told = only(&f, ID);
    assert_eq!(
        told.confidence.level,
        Level::Medium,
        "{:?}",
        told.confidence
    );
    assert_eq!((told.impact.affected, told.impact.of), (6, 6));
    assert_eq!(number(&told, "arrived"), &Number::Count(5));
    // A protocol that has no answers, as far as anybody can tell.
    let told = notes(&cases::unanswered(&arriving, false));
    assert!(
        told[0].because.contains("without answers"),
        "{}",
        told[0].because
    );
    // One is answered later than most have asked.
    let mut f = cases::unanswered(&arriving, true);
    let (last, said) = (f.sockets.len() - 2, Some(0));
    for row in &mut f.sockets[last..] {
        let (sent, received) = (row.last_data_sent_ms, row.last_data_recv_ms);
        if row.netns == SERVER {
            (row.last_data_sent_ms, row.last_data_recv_ms) = (said, sent.min(received));
        } else {
            (row.last_data_sent_ms, row.last_data_recv_ms) = (sent.min(received), said);
        }
        (row.last_ack_recv_ms, row.data_segs_out, row.data_segs_in) = (said, Some(2), Some(2));
    }
    assert!(notes(&f).is_empty());
    // Logins were answered at once: they are none of what waits.
    let answered = |f: &mut Fixture, took_ms: f64| {
        f.requests.push(Request {
            time_ns: START_NS + 9_000_000_000,
            netns: SERVER,
            role: Role::Server,
            addr: synth::place("10.79.0.1:5000").0,
            port: 5_000,
            exchanges: 5,
            think_ns: (5.0 * took_ms * 1e6) as u64,
            open: Some(6),
            one_in: 1,
            ..Request::default()
        });
        f.request_times.push(recording::tables::RequestTime {
            time_ns: START_NS + 9_000_000_000,
            netns: SERVER,
            role: Role::Server,
            addr: synth::place("10.79.0.1:5000").0,
            port: 5_000,
            what: recording::Timed::Response,
            at_least_ns: (took_ms * 1e6) as u64,
            below_ns: Some((took_ms * 1.03e6) as u64),
            count: 5,
        });
    };
    let mut f = cases::unanswered(&arriving, true);
    f.seen_from(SERVER);
    answered(&mut f, 4.0);
    assert_eq!(only(&f, ID).impact.affected, 6);
    // One that always takes seconds is slow, and hangs not.
    let mut f = cases::unanswered(&arriving, true);
    f.seen_from(SERVER);
    answered(&mut f, 2_000.0);
    assert!(notes(&f).is_empty());
    // A single one may wait for anything: only who asks is told.
    let f = cases::unanswered(&[-900.0], true);
    assert!(notes(&f).is_empty());
    let asked = &about(&f, 5_000).findings;
    assert_eq!(asked.len(), 1, "{asked:#?}");
}

#[test]
fn the_clients_of_a_service_that_answers_nobody_see_it_too() {
    let arriving = [-900.0, 1_500.0, 2_000.0, 2_500.0, 3_000.0, 3_500.0];
    let mut f = cases::unanswered(&arriving, true);
    f.seen_from(CLIENT);
    let told = only(&f, "slow-peer");
    assert!(
        told.title
            .starts_with("10.79.0.1:5000 has answered nothing for 10.9 s: 6 requests"),
        "{}",
        told.title
    );
    // What was sent may not have arrived.
    for row in &mut f.sockets {
        row.unacked = Some(1);
    }
    assert!(found(&f).is_empty());
}

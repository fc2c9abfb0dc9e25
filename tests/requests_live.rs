//! `--with requests`: what an exchange's time went with, against what the program at each end measured.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::live::{Done, Live, Space};
use crate::common::need_root;
use recording::tables::{Exchange, Request, RequestPart, RequestTime};
use recording::{Role, Timed};
use rustix::fs::sendfile;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{SpliceFlags, pipe, splice};

/// Exchanges of each case: the times of all together are compared.
const TIMES: u32 = 20;

/// A recording of exchanges in a namespace of the test's own.
struct Recorded {
    done: Done,
    /// What the server says it did, by its own clock: within what is told of it.
    worked: Duration,
    /// How long the client waited, by its own clock: what is told is within that.
    asked: Duration,
}

impl Recorded {
    /// Records while a server and a client each work on their end of one connection, in two threads.
    fn of(
        serve: impl FnOnce(TcpListener) -> Duration + Send,
        ask: impl FnOnce(SocketAddr) -> Duration + Send,
    ) -> Recorded {
        let space = Space::new("requests");
        let inode = space.inode().to_string();
        let live = Live::begin(&["--with", "requests", "--netns", &inode]);
        let (worked, asked) = space.inside(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let at = listener.local_addr().unwrap();
            thread::scope(|scope| {
                let (server, client) = (scope.spawn(|| serve(listener)), scope.spawn(|| ask(at)));
                let asked = client.join().unwrap();
                (server.join().unwrap(), asked)
            })
        });
        let done = live.end();
        done.assert_whole();
        Recorded {
            done,
            worked,
            asked,
        }
    }

    /// The sum of a column over the rows of one role.
    fn sum(&self, role: Role, column: fn(&Request) -> u64) -> u64 {
        let rows = self.done.rows::<Request>();
        rows.iter().filter(|r| r.role == role).map(column).sum()
    }

    fn time(&self, role: Role, column: fn(&Request) -> u64) -> Duration {
        Duration::from_nanos(self.sum(role, column))
    }

    fn whole(&self, role: Role) -> Duration {
        self.time(role, |r| {
            RequestPart::ALL.map(|part| r.part_ns(part)).iter().sum()
        })
    }

    /// What is told lies between what the server measured within it and what the client measured around it,
    /// however busy the host is.
    #[track_caller]
    fn assert_between(&self, what: &str, said: Duration) {
        let (least, most) = (self.worked, self.asked);
        let rows = self.done.rows::<Request>();
        let between = (least..=most).contains(&said);
        assert!(
            between,
            "{what}: {said:?}, not {least:?} to {most:?}: {rows:#?}"
        );
    }
}

/// Asks so many times; how long the answers took.
fn ask_and_wait(at: SocketAddr) -> Duration {
    let mut conn = TcpStream::connect(at).unwrap();
    conn.set_nodelay(true).unwrap();
    let began = Instant::now();
    for _ in 0..TIMES {
        conn.write_all(&[1; 100]).unwrap();
        conn.read_exact(&mut [0; 200]).unwrap();
    }
    began.elapsed()
}

/// Answers each request after `work`; how long all of that took.
fn answer_after(listener: &TcpListener, work: impl Fn()) -> Duration {
    let (mut conn, _) = listener.accept().unwrap();
    conn.set_nodelay(true).unwrap();
    let (mut request, mut worked) = ([0; 100], Duration::ZERO);
    while conn.read_exact(&mut request).is_ok() {
        let began = Instant::now();
        work();
        worked += began.elapsed();
        conn.write_all(&[2; 200]).unwrap();
    }
    worked
}

fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn what_nagles_algorithm_holds_has_not_left_and_nobody_owes_an_answer_yet() {
    need_root();
    let in_two_writes = |at| {
        let mut conn = TcpStream::connect(at).unwrap();
        let began = Instant::now();
        for _ in 0..TIMES {
            conn.write_all(&[1; 50]).unwrap();
            conn.write_all(&[1; 50]).unwrap();
            conn.read_exact(&mut [0; 200]).unwrap();
        }
        began.elapsed()
    };
    let recorded = Recorded::of(|l| answer_after(&l, || ()), in_two_writes);
    let unsent = recorded.time(Role::Client, |r| r.send_ns);
    // An ACK is delayed by 40 ms, of which the kernel's stamp may miss two ticks; the first ones are not.
    let least = Duration::from_millis(30) * (TIMES / 2);
    assert!(
        (least..=recorded.asked).contains(&unsent),
        "{unsent:?} of {:?}",
        recorded.asked
    );
    let at_once = Recorded::of(|l| answer_after(&l, || ()), ask_and_wait);
    let at_once = at_once.time(Role::Client, |r| r.send_ns);
    assert!(at_once * 4 < unsent, "{at_once:?}, {unsent:?}");
}

#[test]
fn a_server_that_sleeps_thinks_and_its_client_awaits_it() {
    need_root();
    let think = Duration::from_millis(20);
    let recorded = Recorded::of(|l| answer_after(&l, || thread::sleep(think)), ask_and_wait);
    for role in [Role::Server, Role::Client] {
        assert_eq!(
            recorded.sum(role.clone(), |r| r.exchanges),
            u64::from(TIMES)
        );
        recorded.assert_between("all of it", recorded.whole(role));
    }
    let thought = recorded.time(Role::Server, |r| r.think_ns);
    recorded.assert_between("thinking", thought);
    // On a host short of CPU the acknowledgement comes late, and until then the request counts as being sent.
    let awaited = recorded.time(Role::Client, |r| r.await_ns);
    let sent = recorded.time(Role::Client, |r| r.send_ns);
    recorded.assert_between("awaiting", sent + awaited);
    assert!(sent * 4 < awaited, "{sent:?} of {awaited:?}");
    // One thread did it, and did not run.
    assert_eq!(recorded.time(Role::Server, |r| r.think_alone_ns), thought);
    let ran = recorded.time(Role::Server, |r| r.think_cpu_ns);
    assert!(ran < thought / 4, "ran {ran:?} of {thought:?}");
    // The slowest is told, with its thread.
    let slow = recorded.done.rows::<Exchange>();
    let slow: Vec<_> = slow.iter().filter(|x| x.role == Role::Server).collect();
    assert!(slow.iter().any(|x| x.think_ns >= think.as_nanos() as u64));
    assert!(slow.iter().all(|x| x.pid == Some(std::process::id())));
}

/// As MySQL, SMTP and SSH do. A pool that connects ahead of its first request waits for nobody.
#[test]
fn the_first_word_of_a_server_is_awaited_since_the_handshake() {
    need_root();
    const PAUSE: Duration = Duration::from_millis(300);
    const CONNECTIONS: u32 = 4;
    let recorded = |greets: bool| {
        let serve = move |listener: TcpListener| {
            for _ in 0..CONNECTIONS {
                let (mut conn, _) = listener.accept().unwrap();
                if greets {
                    thread::sleep(PAUSE);
                    conn.write_all(b"220 ready").unwrap();
                }
                conn.read_exact(&mut [0; 4]).unwrap();
                conn.write_all(b"221 bye").unwrap();
            }
            PAUSE * CONNECTIONS
        };
        let ask = move |at| {
            let mut waited = Duration::ZERO;
            for _ in 0..CONNECTIONS {
                let began = Instant::now();
                let mut conn = TcpStream::connect(at).unwrap();
                if greets {
                    conn.read_exact(&mut [0; 9]).unwrap();
                } else {
                    thread::sleep(PAUSE);
                }
                waited += began.elapsed();
                conn.write_all(b"QUIT").unwrap();
                conn.read_exact(&mut [0; 7]).unwrap();
            }
            waited
        };
        Recorded::of(serve, ask)
    };
    let greeted = recorded(true);
    // The kernel keeps the moment of the handshake by the jiffy, of 10 ms at most.
    let jiffies = Duration::from_millis(10) * CONNECTIONS;
    for (role, said) in [
        (Role::Client, greeted.time(Role::Client, |r| r.await_ns)),
        (Role::Server, greeted.time(Role::Server, |r| r.think_ns)),
    ] {
        let (least, most) = (greeted.worked - jiffies, greeted.asked + 2 * jiffies);
        assert!(
            (least..=most).contains(&said),
            "{role:?}: {said:?}, not {least:?} to {most:?}"
        );
        assert_eq!(
            greeted.sum(role.clone(), |r| r.exchanges),
            u64::from(2 * CONNECTIONS),
            "{role:?}"
        );
    }
    let ahead = recorded(false);
    for role in [Role::Client, Role::Server] {
        assert_eq!(
            ahead.sum(role.clone(), |r| r.exchanges),
            u64::from(CONNECTIONS),
            "{role:?}"
        );
        assert!(
            ahead.whole(role.clone()) < PAUSE,
            "{role:?}: {:?}",
            ahead.whole(role.clone())
        );
    }
}

#[test]
fn a_server_that_computes_is_on_a_cpu_or_waits_for_one() {
    need_root();
    let think = Duration::from_millis(10);
    let recorded = Recorded::of(|l| answer_after(&l, || spin(think)), ask_and_wait);
    let thought = recorded.time(Role::Server, |r| r.think_ns);
    recorded.assert_between("thinking", thought);
    let busy = recorded.time(Role::Server, |r| r.think_cpu_ns + r.think_runqueue_ns);
    recorded.assert_between("on a CPU or waiting for one", busy);
}

#[test]
fn what_waits_to_be_read_and_to_be_accepted_is_told_apart_from_thinking() {
    need_root();
    let late = Duration::from_millis(30);
    let (asked, has_asked) = channel();
    let serve = move |listener: TcpListener| {
        // The request is there before accept() is called.
        has_asked.recv().unwrap();
        let mut slept = Duration::ZERO;
        let mut sleep = |time| {
            let began = Instant::now();
            thread::sleep(time);
            slept += began.elapsed();
        };
        sleep(late * 4);
        let (mut conn, _) = listener.accept().unwrap();
        conn.set_nodelay(true).unwrap();
        let mut request = [0; 100];
        // Looking at it is not reading it.
        while recv(&conn, &mut request, RecvFlags::PEEK).is_ok_and(|(n, _)| n > 0) {
            sleep(late);
            conn.read_exact(&mut request).unwrap();
            conn.write_all(&[2; 200]).unwrap();
        }
        slept
    };
    let ask = move |at: SocketAddr| {
        let mut conn = TcpStream::connect(at).unwrap();
        conn.set_nodelay(true).unwrap();
        let began = Instant::now();
        for _ in 0..TIMES {
            conn.write_all(&[1; 100]).unwrap();
            // Only the first is waited for.
            let _ = asked.send(());
            conn.read_exact(&mut [0; 200]).unwrap();
        }
        began.elapsed()
    };
    let recorded = Recorded::of(serve, ask);
    assert_eq!(
        recorded.sum(Role::Server, |r| r.exchanges),
        u64::from(TIMES)
    );
    let accept = recorded.time(Role::Server, |r| r.accept_ns);
    assert!(accept >= late * 4, "{accept:?}");
    let unread = recorded.time(Role::Server, |r| r.accept_ns + r.unread_ns);
    recorded.assert_between("not accepting and not reading", unread);
    let thought = recorded.time(Role::Server, |r| r.think_ns);
    assert!(thought < unread / 4, "{thought:?} of thinking");
}

#[test]
fn a_request_that_comes_in_pieces_is_received_and_one_that_nobody_answers_is_open() {
    need_root();
    let pause = Duration::from_millis(30);
    let serve = |listener: TcpListener| {
        let (mut conn, _) = listener.accept().unwrap();
        let mut request = [0; 300];
        conn.read_exact(&mut request).unwrap();
        conn.write_all(&[2; 200]).unwrap();
        // The second is read, and never answered.
        conn.read_exact(&mut request).unwrap();
        thread::sleep(Duration::from_millis(2500));
        Duration::ZERO
    };
    let ask = |at: SocketAddr| {
        let mut conn = TcpStream::connect(at).unwrap();
        conn.set_nodelay(true).unwrap();
        let began = Instant::now();
        for _ in 0..3 {
            conn.write_all(&[1; 100]).unwrap();
            thread::sleep(pause);
        }
        conn.read_exact(&mut [0; 200]).unwrap();
        let took = began.elapsed();
        conn.write_all(&[1; 300]).unwrap();
        thread::sleep(Duration::from_millis(2500));
        took
    };
    let recorded = Recorded::of(serve, ask);
    // What came was read a moment later, on a busy host a long one.
    let came = recorded.time(Role::Server, |r| r.receive_ns + r.unread_ns + r.accept_ns);
    assert!(
        (pause * 2..=recorded.asked + pause).contains(&came),
        "{came:?}"
    );
    assert!(recorded.sum(Role::Server, |r| r.receive_ns) > 0);
    let rows = recorded.done.rows::<Request>();
    for role in [Role::Server, Role::Client] {
        let mut of_role = rows.iter().filter(|r| r.role == role);
        assert!(of_role.any(|r| r.open == Some(1)), "{role}: {rows:#?}");
    }
    assert_eq!(recorded.sum(Role::Server, |r| r.overlapped), 0);
}

#[test]
fn answers_that_come_late_beside_other_requests_are_said_to_overlap() {
    need_root();
    let serve = |listener: TcpListener| {
        let (mut conn, _) = listener.accept().unwrap();
        conn.set_nodelay(true).unwrap();
        let mut request = [0; 100];
        for _ in 0..TIMES {
            // Two requests are under way before either is answered.
            conn.read_exact(&mut request).unwrap();
            conn.read_exact(&mut request).unwrap();
            for _ in 0..2 {
                thread::sleep(Duration::from_millis(5));
                conn.write_all(&[2; 200]).unwrap();
            }
        }
        Duration::ZERO
    };
    let ask = |at: SocketAddr| {
        let mut conn = TcpStream::connect(at).unwrap();
        conn.set_nodelay(true).unwrap();
        for _ in 0..TIMES {
            for _ in 0..2 {
                conn.write_all(&[1; 100]).unwrap();
                thread::sleep(Duration::from_millis(5));
            }
            conn.read_exact(&mut [0; 400]).unwrap();
        }
        Duration::ZERO
    };
    let recorded = Recorded::of(serve, ask);
    let overlapped = recorded.sum(Role::Server, |r| r.overlapped);
    let exchanges = recorded.sum(Role::Server, |r| r.exchanges);
    assert!(overlapped * 2 > exchanges, "{overlapped} of {exchanges}");
}

#[test]
fn what_is_spliced_and_what_is_sent_from_a_file_is_read_and_written() {
    need_root();
    let think = Duration::from_millis(20);
    let serve = move |listener: TcpListener| {
        let (conn, _) = listener.accept().unwrap();
        conn.set_nodelay(true).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[2; 200]).unwrap();
        let (out, into) = pipe().unwrap();
        let mut worked = Duration::ZERO;
        for nth in 0..TIMES {
            let n = splice(&conn, None, &into, None, 100, SpliceFlags::empty()).unwrap();
            assert_eq!(n, 100);
            rustix::io::read(&out, &mut [0; 100]).unwrap();
            let began = Instant::now();
            thread::sleep(think);
            worked += began.elapsed();
            let sent = match nth % 2 {
                0 => sendfile(&conn, &file, Some(&mut 0), 200).unwrap(),
                _ => {
                    rustix::io::write(&into, &[2; 200]).unwrap();
                    splice(&out, None, &conn, None, 200, SpliceFlags::empty()).unwrap()
                }
            };
            assert_eq!(sent, 200);
        }
        worked
    };
    let recorded = Recorded::of(serve, ask_and_wait);
    for role in [Role::Server, Role::Client] {
        let exchanges = recorded.sum(role.clone(), |r| r.exchanges);
        assert_eq!(exchanges, u64::from(TIMES), "{role}");
        assert_eq!(recorded.sum(role, |r| r.overlapped), 0);
    }
    let thought = recorded.time(Role::Server, |r| r.think_ns);
    recorded.assert_between("thinking", thought);
}

#[test]
fn who_has_said_that_it_asks_no_more_still_awaits_the_answer() {
    need_root();
    let serve = |listener: TcpListener| {
        let mut worked = Duration::ZERO;
        for _ in 0..TIMES / 4 {
            let (mut conn, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            conn.read_to_end(&mut request).unwrap();
            let began = Instant::now();
            thread::sleep(Duration::from_millis(30));
            worked += began.elapsed();
            // The FIN comes with the answer, or right behind it.
            conn.write_all(&[2; 200]).unwrap();
        }
        worked
    };
    let ask = |at: SocketAddr| {
        let mut asked = Duration::ZERO;
        for _ in 0..TIMES / 4 {
            let mut conn = TcpStream::connect(at).unwrap();
            let began = Instant::now();
            conn.write_all(&[1; 100]).unwrap();
            conn.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            conn.read_to_end(&mut answer).unwrap();
            asked += began.elapsed();
            assert_eq!(answer.len(), 200);
        }
        asked
    };
    let recorded = Recorded::of(serve, ask);
    for role in [Role::Server, Role::Client] {
        let exchanges = recorded.sum(role.clone(), |r| r.exchanges);
        assert_eq!(exchanges, u64::from(TIMES / 4), "{role}");
        assert_eq!(recorded.sum(role, |r| r.unanswered), 0);
    }
    let awaited = recorded.time(Role::Client, |r| r.await_ns);
    recorded.assert_between("awaiting", awaited);
}

#[test]
fn requests_that_are_given_up_are_told_with_the_time_that_they_waited() {
    need_root();
    let patience = Duration::from_millis(200);
    // Which the client gives up, by a FIN or a reset; what is a last word; and what the server ends.
    let serve = move |listener: TcpListener| {
        for nth in 0..6 {
            let (mut conn, _) = listener.accept().unwrap();
            conn.read_exact(&mut [0; 100]).unwrap();
            match nth {
                5 => thread::sleep(patience),
                // Until it has gone.
                _ => _ = conn.read(&mut [0; 1]),
            }
        }
        Duration::ZERO
    };
    let ask = move |at: SocketAddr| {
        let mut gave_up = Duration::ZERO;
        for nth in 0..6 {
            let mut conn = TcpStream::connect(at).unwrap();
            let began = Instant::now();
            conn.write_all(&[1; 100]).unwrap();
            match nth {
                0..=3 => thread::sleep(patience),
                5 => _ = conn.read(&mut [0; 1]),
                _ => {}
            }
            if nth % 2 == 1 {
                set_socket_linger(&conn, Some(Duration::ZERO)).unwrap();
            }
            if nth < 4 {
                gave_up += began.elapsed();
            }
        }
        gave_up
    };
    let recorded = Recorded::of(serve, ask);
    for role in [Role::Server, Role::Client] {
        let sum = |column| recorded.sum(role.clone(), column);
        assert_eq!(sum(|r| r.unanswered), 6, "{role}");
        assert_eq!(sum(|r| r.given_up.unwrap()), 4, "{role}");
        let waited = Duration::from_nanos(sum(|r| r.given_up_ns.unwrap()));
        let most = recorded.asked + patience;
        assert!((patience * 3..most).contains(&waited), "{role}: {waited:?}");
        let told = recorded.done.rows::<Exchange>();
        let told = told
            .iter()
            .filter(|x| x.role == role && x.given_up == Some(true));
        assert!(told.clone().count() >= 1, "{role}");
        assert!(told.clone().all(|x| x.open), "{role}");
    }
}

#[test]
fn pauses_between_the_pieces_of_an_answer_are_the_peers() {
    need_root();
    let serve = |listener: TcpListener| {
        let (mut conn, _) = listener.accept().unwrap();
        conn.set_nodelay(true).unwrap();
        let (mut request, mut worked) = ([0; 100], Duration::ZERO);
        while conn.read_exact(&mut request).is_ok() {
            for _ in 0..4 {
                let began = Instant::now();
                thread::sleep(Duration::from_millis(10));
                worked += began.elapsed();
                conn.write_all(&[2; 50]).unwrap();
            }
        }
        worked
    };
    let recorded = Recorded::of(serve, ask_and_wait);
    let thought = recorded.time(Role::Server, |r| r.think_ns);
    recorded.assert_between("thinking", thought);
    // The next piece may come before the one before it was read.
    let awaited = recorded.time(Role::Client, |r| r.await_ns + r.unread_ns);
    recorded.assert_between("awaiting and reading", awaited);
    assert_eq!(recorded.sum(Role::Client, |r| r.receive_ns), 0);
}

#[test]
fn requests_that_are_written_ahead_are_said_to_overlap() {
    need_root();
    let serve = |listener: TcpListener| {
        let (mut conn, _) = listener.accept().unwrap();
        conn.set_nodelay(true).unwrap();
        let mut request = [0; 100];
        while conn.read_exact(&mut request).is_ok() {
            thread::sleep(Duration::from_millis(2));
            conn.write_all(&[2; 200]).unwrap();
        }
        Duration::ZERO
    };
    let ask = |at: SocketAddr| {
        let mut conn = TcpStream::connect(at).unwrap();
        conn.set_nodelay(true).unwrap();
        for _ in 0..TIMES {
            conn.write_all(&[1; 500]).unwrap();
            conn.read_exact(&mut [0; 1000]).unwrap();
        }
        Duration::ZERO
    };
    let recorded = Recorded::of(serve, ask);
    let exchanges = recorded.sum(Role::Server, |r| r.exchanges);
    assert_eq!(recorded.sum(Role::Server, |r| r.overlapped), exchanges);
    assert!(exchanges > 0);
}

#[test]
fn beside_a_busy_service_each_request_of_a_quiet_one_is_counted() {
    need_root();
    const BUSY: u64 = 60_000;
    let space = Space::new("shares");
    let live = Live::begin(&["--with", "requests", "--netns", &space.inode().to_string()]);
    let (ports, took, asked) = space.inside(|| {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let at = listeners.each_ref().map(|l| l.local_addr().unwrap());
        let (done, is_done) = channel();
        thread::scope(|scope| {
            for listener in &listeners {
                scope.spawn(|| answer_after(listener, || ()));
            }
            let quiet = scope.spawn(move || {
                let (mut conn, mut asked) = (TcpStream::connect(at[1]).unwrap(), 0);
                while is_done.recv_timeout(Duration::from_millis(20)).is_err() {
                    conn.write_all(&[1; 100]).unwrap();
                    conn.read_exact(&mut [0; 200]).unwrap();
                    asked += 1;
                }
                asked
            });
            let began = Instant::now();
            let mut conn = TcpStream::connect(at[0]).unwrap();
            for _ in 0..BUSY {
                conn.write_all(&[1; 100]).unwrap();
                conn.read_exact(&mut [0; 200]).unwrap();
            }
            let took = began.elapsed();
            done.send(()).unwrap();
            (at.map(|at| at.port()), took, quiet.join().unwrap())
        })
    });
    let done = live.end();
    done.assert_whole();
    let [busy, quiet] = ports.map(|port| {
        let mut rows = done.rows::<Request>();
        rows.retain(|r| r.port == port);
        rows
    });
    for role in [Role::Server, Role::Client] {
        let sum = |rows: &[Request]| {
            let rows = rows.iter().filter(|r| r.role == role);
            rows.map(|r| r.exchanges).sum::<u64>()
        };
        assert_eq!(sum(&quiet), asked, "{role:?}");
        // Drawn by lot: ten times the spread of that.
        let counted = sum(&busy) as f64 / BUSY as f64;
        assert!((0.8..1.2).contains(&counted), "{role:?}: {counted}");
    }
    assert!(quiet.iter().all(|r| r.one_in == 1), "{quiet:#?}");
    if took < Duration::from_secs(8) {
        assert!(busy.iter().any(|r| r.one_in > 1), "{took:?}: {busy:#?}");
    }
}

#[test]
fn of_a_busy_service_each_late_answer_is_counted() {
    need_root();
    const BUSY: u32 = 60_000;
    const ONE_IN: u32 = 5_000;
    // A step of the histogram begins at the latter, and the kernel's stamps are no finer than a tick.
    const SLEEPS: Duration = Duration::from_millis(200);
    const LATE_NS: u64 = 9 << 24;
    let space = Space::new("late");
    let live = Live::begin(&["--with", "requests", "--netns", &space.inode().to_string()]);
    let (late, took) = space.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let answered = Cell::new(0_u32);
        thread::scope(|scope| {
            scope.spawn(move || {
                answer_after(&listener, || {
                    answered.set(answered.get() + 1);
                    if answered.get().is_multiple_of(ONE_IN) {
                        thread::sleep(SLEEPS);
                    }
                })
            });
            let (began, mut late) = (Instant::now(), 0);
            let mut conn = TcpStream::connect(at).unwrap();
            for _ in 0..BUSY {
                let asked = Instant::now();
                conn.write_all(&[1; 100]).unwrap();
                conn.read_exact(&mut [0; 200]).unwrap();
                late += u64::from(asked.elapsed().as_nanos() >= u128::from(LATE_NS));
            }
            (late, began.elapsed())
        })
    });
    let done = live.end();
    // A program that interrupts itself on a CPU is not run: of so many calls a few do, and it is said.
    let missed: u64 = done.manifest().sources.iter().map(|s| s.lost).sum();
    let counted = |role| {
        let rows = done.rows::<RequestTime>();
        let late = rows.iter().filter(|r| {
            (&r.role, &r.what) == (&role, &Timed::Response) && r.at_least_ns >= LATE_NS
        });
        late.map(|r| r.count).sum::<u64>()
    };
    let slept = u64::from(BUSY / ONE_IN);
    for (role, least) in [(Role::Client, late), (Role::Server, slept)] {
        let all = least.saturating_sub(missed)..=late;
        assert!(
            all.contains(&counted(role)),
            "{least} to {late}, less {missed}"
        );
    }
    if took < Duration::from_secs(8) {
        let rows = done.rows::<Request>();
        assert!(rows.iter().any(|r| r.one_in > 1), "{took:?}: {rows:#?}");
    }
}

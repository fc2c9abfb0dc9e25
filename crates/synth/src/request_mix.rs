//! Requests over the connections of a client to the listener of a fixture, as both of their ends tell them.

use recording::tables::{Exchange, Request, RequestTime, Wait};
use recording::{Role, Timed, Waker};

use crate::fixture::{at_ms, place};
use crate::{CLIENT, Dial, Fixture, SERVER, Task};

/// Connections that the requests go over.
const CONNECTIONS: u64 = 10;
/// Who answers, and who asks.
const ANSWERS: Task = Task::new(812, "iperf3");
const ASKS: Task = Task::new(77, "wrk");

/// Requests of which some are slow.
#[derive(Clone, Copy, Debug)]
pub struct RequestMix {
    /// Namespaces in which they are recorded: of the server, of the client.
    pub here: [bool; 2],
    /// How many take how long, ms.
    pub usual: (u64, f64),
    /// How many are slow, and how long these take, ms: the server thinks about them.
    pub slow: (u64, f64),
    /// Of that, the server had not read the request, ms.
    pub unread_ms: f64,
    /// Of that, its connection was not accepted, ms.
    pub accept_ms: f64,
    /// Of that, the end of the request had not left its client, ms.
    pub unsent_ms: f64,
    /// Of its thinking, its thread was on a CPU, and waited for one: shares.
    pub awake: [f64; 2],
    /// The call in which its thread slept, if one thread did nothing else.
    pub slept_in: Option<&'static str>,
    /// Slow ones are not answered.
    pub open: bool,
    /// Nor will they be: the client closed after that time.
    pub given_up: bool,
    /// Segments retransmitted in each slow one.
    pub retransmits: u32,
}

impl Default for RequestMix {
    fn default() -> RequestMix {
        RequestMix {
            here: [true, true],
            usual: (970, 4.0),
            slow: (30, 1_200.0),
            unread_ms: 0.0,
            accept_ms: 0.0,
            unsent_ms: 0.0,
            awake: [0.0, 0.0],
            slept_in: Some("futex"),
            open: false,
            given_up: false,
            retransmits: 0,
        }
    }
}

impl Fixture {
    /// Requests over ten connections, of which those that are slow are told one by one.
    pub fn ask(&mut self, asked: RequestMix) {
        let client = |i: u64| format!("10.79.0.2:{}", 40_000 + i);
        for i in 0..CONNECTIONS {
            self.dial(Dial {
                from: client(i),
                at_ms: 10.0,
                took_ms: 1.0,
                rtt_us: 1_000,
                ends_ms: None,
                client: asked.here[1].then_some(CLIENT),
                server: asked.here[0].then_some(SERVER),
                ..Dial::default()
            });
        }
        for (role, _) in [(Role::Server, 0), (Role::Client, 1)]
            .into_iter()
            .filter(|(_, i)| asked.here[*i])
        {
            let to = place("10.79.0.1:5000");
            let netns = if role == Role::Server { SERVER } else { CLIENT };
            self.sums(&role, netns, asked);
            for i in 0..asked.slow.0 {
                let (local, remote) = (to, place(&client(i % CONNECTIONS)));
                let (local, remote) = match role {
                    Role::Server => (local, remote),
                    _ => (remote, local),
                };
                let began_ns = at_ms(1_000.0 + i as f64 * 200.0);
                let parts = asked.parts(&role, asked.slow.1, asked.waited());
                let by = if role == Role::Server { ANSWERS } else { ASKS };
                self.exchanges.push(Exchange {
                    time_ns: began_ns + ns(asked.slow.1),
                    began_ns,
                    netns,
                    role: role.clone(),
                    family: 4,
                    local_addr: local.0,
                    local_port: local.1,
                    remote_addr: remote.0,
                    remote_port: remote.1,
                    pid: Some(by.pid),
                    tid: Some(by.pid + i as u32),
                    comm: Some(by.comm.into()),
                    open: asked.open || asked.given_up,
                    given_up: Some(asked.given_up),
                    retransmits: asked.retransmits,
                    accept_ns: parts.accept_ns,
                    unread_ns: parts.unread_ns,
                    think_ns: parts.think_ns,
                    // Its thread has not come back to one that was given up.
                    think_alone_ns: if asked.given_up {
                        0
                    } else {
                        parts.think_alone_ns
                    },
                    think_cpu_ns: parts.think_cpu_ns,
                    think_runqueue_ns: parts.think_runqueue_ns,
                    await_ns: parts.await_ns,
                    send_ns: parts.send_ns,
                    receive_ns: parts.receive_ns,
                    ..Exchange::default()
                });
                let awake = parts.think_cpu_ns + parts.think_runqueue_ns;
                let slept = parts.think_alone_ns.saturating_sub(awake);
                let longer = if asked.given_up { ns(1_000.0) } else { 0 };
                if let (Some(call), Role::Server) = (asked.slept_in, &role) {
                    self.waits.push(Wait {
                        tid: by.pid + i as u32,
                        syscall: Some(call.into()),
                        state: "S".into(),
                        waker: Waker::Task,
                        ..by.wait(began_ns + ns(asked.slow.1) + longer, netns, slept + longer)
                    });
                }
            }
        }
    }

    /// What all of them come to at one end.
    fn sums(&mut self, role: &Role, netns: u32, asked: RequestMix) {
        let (addr, port, _) = place("10.79.0.1:5000");
        let mut all = Request {
            time_ns: at_ms(9_000.0),
            netns,
            role: role.clone(),
            addr,
            port,
            one_in: 1,
            open: Some(if asked.open { asked.slow.0 } else { 0 }),
            retransmits: asked.slow.0 * u64::from(asked.retransmits),
            ..Request::default()
        };
        if asked.given_up {
            all.unanswered = asked.slow.0;
            all.given_up = Some(asked.slow.0);
            all.given_up_ns = Some(asked.slow.0 * ns(asked.slow.1));
        }
        let unanswered = asked.open || asked.given_up;
        let slow = if unanswered { 0 } else { asked.slow.0 };
        for (count, ms, waited) in [
            (asked.usual.0, asked.usual.1, [0.0; 3]),
            (slow, asked.slow.1, asked.waited()),
        ] {
            let parts = asked.parts(role, ms, waited);
            all.exchanges += count;
            all.accept_ns += count * parts.accept_ns;
            all.unread_ns += count * parts.unread_ns;
            all.think_ns += count * parts.think_ns;
            all.think_alone_ns += count * parts.think_alone_ns;
            all.think_cpu_ns += count * parts.think_cpu_ns;
            all.think_runqueue_ns += count * parts.think_runqueue_ns;
            all.await_ns += count * parts.await_ns;
            all.send_ns += count * parts.send_ns;
            all.receive_ns += count * parts.receive_ns;
            if count > 0 {
                self.request_times.push(RequestTime {
                    time_ns: at_ms(9_000.0),
                    netns,
                    role: role.clone(),
                    addr,
                    port,
                    what: Timed::Response,
                    at_least_ns: ns(ms) * 15 / 16,
                    below_ns: Some(ns(ms) * 17 / 16),
                    count,
                });
            }
        }
        if asked.given_up {
            // Of two seconds.
            let half = |n: Option<u64>| n.map(|n| n / 2);
            let (given_up, given_up_ns) = (half(all.given_up), half(all.given_up_ns));
            self.requests.push(Request {
                time_ns: at_ms(8_000.0),
                netns,
                role: role.clone(),
                addr,
                port,
                unanswered: all.unanswered / 2,
                given_up,
                given_up_ns,
                one_in: 1,
                ..Request::default()
            });
            all.unanswered -= all.unanswered / 2;
            all.given_up = all.given_up.zip(given_up).map(|(all, half)| all - half);
            all.given_up_ns = all
                .given_up_ns
                .zip(given_up_ns)
                .map(|(all, half)| all - half);
        }
        self.requests.push(all);
    }
}

impl RequestMix {
    /// What a slow one waited for.
    fn waited(&self) -> [f64; 3] {
        [self.unread_ms, self.accept_ms, self.unsent_ms]
    }

    /// What one of them took so long for, at one end.
    fn parts(&self, role: &Role, ms: f64, waited: [f64; 3]) -> Request {
        let [unread_ms, accept_ms, unsent_ms] = waited;
        if *role != Role::Server {
            return Request {
                send_ns: ns(unsent_ms),
                await_ns: ns(ms - unsent_ms),
                ..Request::default()
            };
        }
        let think_ns = ns(ms - unread_ms - accept_ms - unsent_ms);
        let alone = if self.slept_in.is_some() { think_ns } else { 0 };
        let part = |share: f64| (alone as f64 * share) as u64;
        Request {
            accept_ns: ns(accept_ms),
            receive_ns: ns(unsent_ms),
            unread_ns: ns(unread_ms),
            think_ns,
            think_alone_ns: alone,
            think_cpu_ns: part(self.awake[0]),
            think_runqueue_ns: part(self.awake[1]),
            ..Request::default()
        }
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6) as u64
}

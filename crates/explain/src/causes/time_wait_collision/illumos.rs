//! illumos: its sequence numbers wrap around with the connections of the host; it has its own tunables.

use ahash::{AHashMap, AHashSet};
use analysis::stats::{median, ratio};
use analysis::words::{count, duration, figure, fitting, rounded};
use analysis::{Conn, Endpoint, Side};
use recording::{RowRef, counter};

use super::case::Collision;
use crate::advice::Advice;
use crate::checks::same_count;
use crate::finding::{Check, Step};
use crate::limits;
use crate::shell;
use crate::undo::Undo;

const INCREMENT: &str = "tcp_iss_incr";
const INTERVAL: &str = "tcp_time_wait_interval";
/// The tuning of a well-known case: the increment, and ms of TIME_WAIT.
const ADVISED_TUNING: (u64, u64) = (25_000, 5_000);

/// The settings of an illumos host that connects.
pub(super) struct Illumos {
    netns: u32,
    /// Half of it is added for every connection, opened or accepted.
    increment: u64,
    strong: u64,
    time_wait_ms: u64,
    row: RowRef,
}

impl Collision<'_> {
    /// `None` where the host that connects is not illumos, or its settings are not recorded.
    pub(super) fn illumos(&self) -> Option<Illumos> {
        let settings = &self.story.settings;
        let netns = *self.client_netns().first()?;
        let increment = settings.get(netns, INCREMENT)?;
        let number = |name| settings.number(netns, name);
        Some(Illumos {
            netns,
            increment: increment.number(0)?,
            strong: number("tcp_strong_iss")?,
            time_wait_ms: number(INTERVAL)?,
            row: increment.row,
        })
    }
}

impl Collision<'_> {
    /// How many SYNs the refused connects that took this long had sent: hosts have schedules of their own.
    pub(super) fn tries_at(&self, took_ns: u64) -> u32 {
        let near = |c: &&Conn| {
            c.connect_ns()
                .is_some_and(|ns| !limits::ALIKE.reached(ns.abs_diff(took_ns), took_ns))
        };
        let tries = self
            .hit()
            .filter(near)
            .map(|c| c.syn_retries.saturating_add(1));
        tries.max().unwrap_or(1)
    }
}

/// The first sequence numbers of a connection that left a TIME_WAIT, and when its SYN was sent.
struct Left {
    client: u32,
    server: u32,
    start_ns: u64,
}

impl Illumos {
    /// How far the sequence numbers advance with a connection, and with time, per second.
    fn advances(&self, increment: u64) -> (f64, f64) {
        let clock = match self.strong {
            0 => increment as f64,
            // One per 4096 ns.
            _ => 1e9 / 4_096.0,
        };
        (increment as f64 / 2.0, clock)
    }

    /// When the host drew a sequence number: for every connection that it opened or accepted. In order; `None` when too
    /// many of its connections were not recorded.
    fn draws(&self, case: &Collision) -> Option<Vec<u64>> {
        let conns = case.story.conns.iter().filter(|c| c.netns == self.netns);
        let mut draws: Vec<u64> = conns
            .filter(|c| c.side != Side::Older)
            .map(|c| c.start_ns)
            .collect();
        draws.sort_unstable();
        let rise = |name| case.story.counters.rise(self.netns, name).by;
        let all = rise(counter::ACTIVE_OPENS).saturating_add(rise(counter::PASSIVE_OPENS));
        limits::NEARLY_ALL
            .reached(draws.len(), all)
            .then_some(draws)
    }

    /// For each refused SYN: draws since the SYN of the earlier connection of the same ends, and the time since, s.
    fn since(&self, case: &Collision) -> Option<Vec<(u64, f64)>> {
        let draws = self.draws(case)?;
        let until = |ns: u64| draws.partition_point(|t| *t <= ns) as u64;
        let uploads = case.uploads();
        let since = uploads.iter().map(|u| {
            let before = u.start_ns.saturating_sub(u.since_ns);
            let drawn = until(u.start_ns).saturating_sub(until(before));
            (drawn, u.since_ns as f64 / 1e9)
        });
        let since: Vec<_> = since.collect();
        (!since.is_empty()).then_some(since)
    }

    /// The host's connections replayed, in the order in which it drew their sequence numbers from a counter like its
    /// own: those that then seem older than what TIME_WAIT holds must be the refused ones.
    pub(super) fn sequence(&self, case: &Collision) -> Option<Check> {
        self.draws(case)?;
        // Otherwise the server has its own counter.
        let shares = case.server == Some(self.netns);
        let refused: AHashSet<_> = case.hit().map(|c| (c.local, c.start_ns)).collect();
        let conns = case.story.conns.iter();
        let conns = conns.filter(|c| c.netns == self.netns && c.side != Side::Older);
        let mut conns: Vec<&Conn> = conns.collect();
        conns.sort_by_key(|c| c.start_ns);
        let (each, clock) = self.advances(self.increment);
        let (mut counter, mut old) = (0_u32, 0);
        let mut connecting: AHashMap<Endpoint, u32> = AHashMap::new();
        let mut time_waits: AHashMap<Endpoint, Left> = AHashMap::new();
        for conn in conns {
            let at = (conn.start_ns as f64 / 1e9 * clock) as u64 as u32;
            if conn.side == Side::Accepted
                && let Some(client) = connecting.remove(&conn.remote)
            {
                if let Some(before) = time_waits.get(&conn.remote) {
                    // The next one lies beyond what the replaced one sent.
                    let missing = before.server.wrapping_sub(counter.wrapping_add(at)) as i32;
                    counter = counter.wrapping_add(missing.max(0) as u32);
                }
                counter = counter.wrapping_add(each as u32);
                let server = counter.wrapping_add(at);
                time_waits.insert(
                    conn.remote,
                    Left {
                        client,
                        server,
                        start_ns: conn.start_ns,
                    },
                );
                continue;
            }
            counter = counter.wrapping_add(each as u32);
            if conn.side != Side::Opened || conn.remote != case.at {
                continue;
            }
            let client = counter.wrapping_add(at);
            let lasts = |b: &&Left| {
                conn.start_ns.saturating_sub(b.start_ns)
                    < self.time_wait_ms.saturating_mul(1_000_000)
            };
            let before = time_waits.get(&conn.local).filter(lasts);
            old += u64::from(before.is_some_and(|b| client.wrapping_sub(b.client) as i32 <= 0));
            if refused.contains(&(conn.local, conn.start_ns)) {
                // Its reset ends the TIME_WAIT.
                time_waits.remove(&conn.local);
            }
            if shares {
                connecting.insert(conn.local, client);
            } else {
                time_waits.insert(
                    conn.local,
                    Left {
                        client,
                        server: 0,
                        start_ns: conn.start_ns,
                    },
                );
            }
        }
        Some(same_count(
            "refused SYNs = SYNs whose replayed sequence number lies behind that of the earlier connection: half of \
             tcp_iss_incr for each connection opened or accepted, the clock, and a leap where a TIME_WAIT is \
             replaced",
            old,
            refused.len() as u64,
            "SYNs",
        ))
    }

    /// No SYN is refused before the sequence numbers have gone half around: from then on each reused port meets a
    /// TIME_WAIT whose numbers lie that far back.
    pub(super) fn onset(&self, case: &Collision) -> Option<Check> {
        // Otherwise the draws before the recording are missing.
        case.broke?;
        let draws = self.draws(case)?;
        let began = case
            .story
            .all(&case.clients)
            .map(|(_, c)| c.start_ns)
            .min()?;
        let measured = case.first_ns.checked_sub(began)? as f64 / 1e9;
        let before = draws.partition_point(|t| *t <= case.first_ns);
        let before = before - draws.partition_point(|t| *t < began);
        let per_s = ratio(before as f64, measured)?;
        let (each, clock) = self.advances(self.increment);
        let expected = limits::SEQUENCE_HALF.number() / (each * per_s + clock);
        Some(Check {
            formula: format!(
                "onset: half of the sequence space ÷ ({} draws per second × half of tcp_iss_incr + the \
                 clock) = from the first connect until the first refused SYN",
                figure(per_s)
            ),
            expected: rounded(expected),
            measured: rounded(measured),
            unit: "s".into(),
            agrees: (measured - expected).abs() <= expected * limits::ALIKE.share(),
            tolerance: "± 20 %: a port must also be reused".into(),
        })
    }

    /// How far the sequence numbers had gone when a port was reused.
    pub(super) fn step(&self, case: &Collision) -> Option<Step> {
        let since = self.since(case)?;
        let drawn = median(&mut since.iter().map(|(drawn, _)| *drawn).collect::<Vec<_>>())?;
        let (each, _) = self.advances(self.increment);
        let half = (limits::SEQUENCE_HALF.number() / each) as u64;
        let step = Step::new(format!(
            "Between the SYN of the earlier connection and the refused one the host drew {} sequence numbers \
             (median), {} apart ({INCREMENT}={}), one for each connection opened or accepted: {} of them cover half \
             of the sequence space, and a number that is ahead by more than half looks old.",
            count(drawn),
            count(each as u64),
            self.increment,
            count(half),
        ))
        .number("drawn", drawn)
        .number("half_around", half)
        .rows([self.row]);
        Some(step)
    }

    pub(super) fn fix(&self, case: &Collision) -> String {
        let at = case.at;
        if case.at.is_loopback() {
            fitting([
            format!(
                "Keep connections to {at} open (keep-alive), or use a kernel whose loopback leaves no TIME_WAIT."
            ),
            "Keep connections open (keep-alive), or use a kernel whose loopback leaves no TIME_WAIT."
                .into(),
        ])
        } else {
            fitting([
                format!(
                    "Keep connections open (keep-alive), or set {INCREMENT}={} and {INTERVAL}={}.",
                    ADVISED_TUNING.0, ADVISED_TUNING.1
                ),
                "Keep connections open (keep-alive, a pool).".into(),
            ])
        }
    }

    pub(super) fn advice(&self, case: &Collision) -> Vec<Advice> {
        let mut advice = Vec::new();
        if case.at.is_loopback() {
            advice.push(Advice {
                action: "Use a kernel that does not put loopback connections into TIME_WAIT: a path that does not \
                         leave the host cannot delay segments."
                    .into(),
                command: None,
                r#where: "the host; illumos has it since 2016 at the latest".into(),
                risk: "The risk of a new kernel.".into(),
                undo: None,
                expected: "Loopback leaves no TIME_WAIT, and no SYN is refused.".into(),
                change: None,
            });
        }
        advice.push(self.tune(case));
        advice
    }

    fn tune(&self, case: &Collision) -> Advice {
        let rise = |name| case.story.counters.rise(self.netns, name).by;
        let opens = rise(counter::ACTIVE_OPENS).saturating_add(rise(counter::PASSIVE_OPENS));
        let sides = if case.at.is_loopback() { 2.0 } else { 1.0 };
        let per_s = (opens as f64 / case.story.seconds()).max(case.full_rate() * sides);
        let half_turn = |increment: u64| {
            let (each, clock) = self.advances(increment);
            limits::SEQUENCE_HALF.number() / (each * per_s + clock)
        };
        let ns = |seconds: f64| duration((seconds * 1e9) as u64);
        let (increment, time_wait_ms) = ADVISED_TUNING;
        let (increment, time_wait_ms) = (
            increment.min(self.increment),
            time_wait_ms.min(self.time_wait_ms),
        );
        Advice {
            action: format!(
                "Make sequence numbers advance more slowly ({INCREMENT}={increment}) and TIME_WAIT end earlier \
                 ({INTERVAL}={time_wait_ms}, in ms)."
            ),
            command: shell!(
                "ndd -set /dev/tcp {INCREMENT} {increment}; ndd -set /dev/tcp {INTERVAL} {time_wait_ms}",
                INCREMENT,
                increment,
                INTERVAL,
                time_wait_ms
            ),
            r#where: "the host that connects, and the host that closes".into(),
            risk: "Sequence numbers become easier to guess, and delayed segments may reach a new connection: not for \
                   a host exposed to the internet."
                .into(),
            undo: shell!(
                "ndd -set /dev/tcp {INCREMENT} {was}; ndd -set /dev/tcp {INTERVAL} {lasted}",
                INCREMENT,
                was = self.increment,
                INTERVAL,
                lasted = self.time_wait_ms
            )
            .map(Undo::from),
            expected: format!(
                "At {} draws per second it takes {} to cover half of the sequence space; now {}. A SYN is refused \
                 only if that is shorter than TIME_WAIT: {}, now {}.",
                figure(per_s),
                ns(half_turn(increment)),
                ns(half_turn(self.increment)),
                ns(time_wait_ms as f64 / 1e3),
                ns(self.time_wait_ms as f64 / 1e3),
            ),
            change: None,
        }
    }
}

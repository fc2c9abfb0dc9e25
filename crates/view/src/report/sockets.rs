//! Sockets over time: who owns them, what they agreed on, how they sent.

use ahash::AHashMap;
use analysis::timeline::Axis;
use explain::{End, Reading};
use recording::{Addr, Error, Recording, TcpState, tables};

use super::pack::pack;
use super::page::{Measure, Packed, Socket, Sockets};
use super::{Names, Thinned, short};
use crate::numbers::endpoint;

/// Sockets and samples that a page has.
const MAX_SOCKETS: usize = 10_000;
const MAX_SAMPLES: usize = 300_000;
/// Outliers that are named.
const NAMED: usize = 8;

const ATTRIBUTES: &[&str] = &[
    "owner",
    "port",
    "side",
    "state",
    "congestion control",
    "SACK",
    "window scaling",
    "timestamps",
    "ECN",
    "remote address",
    "namespace",
];

type Key = (u32, Addr, u16, Addr, u16);

/// One socket, and some of its samples.
struct Followed<'e> {
    end: &'e End,
    last: Option<tables::Socket>,
    samples: Vec<Sample>,
    seen: u64,
}

/// What is kept of a sample.
struct Sample {
    time_ns: u64,
    cwnd: Option<u32>,
    rtt_us: Option<u32>,
    acked: Option<u64>,
    received: Option<u64>,
    resent: Option<u32>,
    unacked: Option<u32>,
    unread: Option<u32>,
    unsent: Option<u32>,
}

/// The sockets of a recording; `None` when none was sampled.
pub(super) fn sockets(
    recording: &Recording,
    reading: &Reading,
    axis: Axis,
    names: &Names,
    thinned: &mut Thinned,
) -> Result<Option<Sockets>, Error> {
    let (mut ends, split) = reading.ends();
    if ends.is_empty() {
        return Ok(None);
    }
    let total = ends.len();
    ends.sort_by_key(|end| (!end.slow, std::cmp::Reverse(end.bytes)));
    ends.truncate(MAX_SOCKETS);
    // Ports are used again: those of one key are told apart by when they were sampled.
    let mut by_key: AHashMap<Key, Vec<usize>> = AHashMap::new();
    for (i, end) in ends.iter().enumerate() {
        let key = (
            end.netns,
            end.local.0,
            end.local.1,
            end.remote.0,
            end.remote.1,
        );
        by_key.entry(key).or_default().push(i);
    }
    for of_key in by_key.values_mut() {
        of_key.sort_by_key(|i| ends[*i].sampled_ns);
    }
    let mut followed: Vec<Followed> = ends.iter().map(Followed::new).collect();
    let every = follow(recording, &by_key, &mut followed)?;
    followed.retain(|f| !f.samples.is_empty());
    // Those of one process stand together.
    followed.sort_by_cached_key(|f| (owner(f), f.end.service, name(f.end), f.end.sampled_ns));
    thinned.say(total > ends.len(), || {
        format!(
            "The page has {} of {total} sockets: the slow ones and those that moved most bytes.",
            ends.len()
        )
    });
    thinned.say(every > 1, || {
        format!("The page has one sample in {every} of each socket; rates are between those.")
    });
    let mut outliers = Vec::new();
    if let Some(split) = &split {
        outliers.push(crate::compare::slow_sentence(split));
        let telling = split.attributes.iter().take(NAMED);
        outliers.extend(telling.map(crate::compare::attribute_sentence));
    }
    Ok(Some(Sockets {
        total: total as f64,
        attributes: ATTRIBUTES.iter().map(|a| (*a).into()).collect(),
        time_s: times(&followed, axis),
        measures: measures(&followed),
        sockets: told(&followed, names),
        outliers,
    }))
}

/// Gives every socket its samples; keeps one in so many of each, and returns that number.
fn follow(
    recording: &Recording,
    by_key: &AHashMap<Key, Vec<usize>>,
    followed: &mut [Followed],
) -> Result<u64, Error> {
    let mut every = 1;
    let mut kept = 0;
    for batch in recording.scan::<tables::Socket>()? {
        for (_, row) in batch?.rows() {
            let key = (
                row.netns,
                row.local_addr,
                row.local_port,
                row.remote_addr,
                row.remote_port,
            );
            let of_key = by_key.get(&key).filter(|_| row.congestion.is_some());
            let Some(at) = of_key.and_then(|all| at(all, followed, row.time_ns)) else {
                continue;
            };
            let socket = &mut followed[at];
            if socket.seen.is_multiple_of(every) {
                socket.samples.push(sample(&row));
                kept += 1;
            }
            socket.seen += 1;
            socket.last = Some(row);
            if kept > MAX_SAMPLES {
                every *= 2;
                kept = 0;
                for socket in followed.iter_mut() {
                    let mut nth = 0;
                    socket.samples.retain(|_| {
                        nth += 1;
                        nth % 2 == 1
                    });
                    kept += socket.samples.len();
                }
            }
        }
    }
    Ok(every)
}

/// Which of the sockets of one key was sampled then.
fn at(of_key: &[usize], followed: &[Followed], time_ns: u64) -> Option<usize> {
    let later = of_key.partition_point(|i| followed[*i].end.sampled_ns.0 <= time_ns);
    let at = *of_key.get(later.checked_sub(1)?)?;
    (time_ns <= followed[at].end.sampled_ns.1).then_some(at)
}

impl<'e> Followed<'e> {
    fn new(end: &'e End) -> Followed<'e> {
        Followed {
            end,
            last: None,
            samples: Vec::new(),
            seen: 0,
        }
    }
}

fn sample(row: &tables::Socket) -> Sample {
    Sample {
        time_ns: row.time_ns,
        cwnd: row.cwnd,
        rtt_us: row.rtt_us.filter(|us| *us > 0),
        acked: row.bytes_acked,
        received: row.bytes_received,
        resent: row.total_retrans,
        unacked: row.unacked,
        unread: row.recv_queue,
        unsent: row.send_queue,
    }
}

fn times(followed: &[Followed], axis: Axis) -> Packed {
    let samples = followed.iter().flat_map(|f| &f.samples);
    pack(samples.map(|s| Some(axis.seconds(s.time_ns))), 0.001)
}

fn measures(followed: &[Followed]) -> Vec<Measure> {
    let each = |name: &str, unit: &str, scale: f64, value: fn(&Sample) -> Option<f64>| Measure {
        name: name.into(),
        unit: unit.into(),
        values: pack(
            followed.iter().flat_map(|f| f.samples.iter().map(value)),
            scale,
        ),
    };
    let rate = |name: &str, of: fn(&Sample) -> Option<u64>| {
        let rates = followed.iter().flat_map(|f| {
            let before = std::iter::once(None).chain(f.samples.iter().map(Some));
            before
                .zip(&f.samples)
                .map(|(before, now)| mbit_per_s(before?, now, of))
        });
        Measure {
            name: name.into(),
            unit: "Mbit/s".into(),
            values: pack(rates, 0.001),
        }
    };
    vec![
        each("cwnd", "segments", 1.0, |s| s.cwnd.map(f64::from)),
        each("rtt", "ms", 0.001, |s| {
            s.rtt_us.map(|us| f64::from(us) / 1e3)
        }),
        rate("rate sent", |s| s.acked),
        rate("rate received", |s| s.received),
        each("retransmitted", "segments", 1.0, |s| {
            s.resent.map(f64::from)
        }),
        each("unacknowledged", "segments", 1.0, |s| {
            s.unacked.map(f64::from)
        }),
        each("unread", "bytes", 1.0, |s| s.unread.map(f64::from)),
        each("unsent", "bytes", 1.0, |s| s.unsent.map(f64::from)),
    ]
}

fn mbit_per_s(before: &Sample, now: &Sample, of: fn(&Sample) -> Option<u64>) -> Option<f64> {
    let bytes = of(now)?.checked_sub(of(before)?)?;
    let ns = now
        .time_ns
        .checked_sub(before.time_ns)
        .filter(|ns| *ns > 0)?;
    Some(bytes as f64 * 8e3 / ns as f64)
}

fn name(end: &End) -> String {
    let [local, remote] = [end.local, end.remote].map(|(addr, port)| endpoint(addr, port));
    format!("{local} → {remote}")
}

fn owner(socket: &Followed) -> String {
    match &socket.end.owner {
        Some((pid, comm)) => short(&format!("{comm}/{pid}")),
        None => "unknown".into(),
    }
}

fn told(followed: &[Followed], names: &Names) -> Vec<Socket> {
    let mut first = 0;
    let sockets = followed.iter().map(|f| {
        let count = f.samples.len() as u32;
        let socket = Socket {
            name: name(f.end),
            attributes: attributes(f, names),
            first,
            count,
            outlier: f.end.slow,
        };
        first += count;
        socket
    });
    sockets.collect()
}

/// The values of [`ATTRIBUTES`], in their order.
fn attributes(socket: &Followed, names: &Names) -> Vec<String> {
    let last = socket.last.as_ref();
    let text = |of: fn(&tables::Socket) -> Option<String>| {
        let value = last.and_then(of);
        short(&value.unwrap_or_else(|| "unknown".into()))
    };
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_string();
    // What a connection will agree on is open while it opens.
    let agreed = last.filter(|s| s.state != TcpState::SynSent);
    let flag =
        |of: fn(&tables::Socket) -> Option<bool>| agreed.and_then(of).map_or("unknown".into(), yes);
    let side = match socket.end.accepted {
        Some(true) => "accepted",
        Some(false) => "opened",
        None => "older than the recording",
    };
    vec![
        owner(socket),
        socket.end.service.to_string(),
        side.into(),
        text(|s| Some(s.state.to_string())),
        text(|s| Some(s.congestion.as_ref()?.to_string())),
        flag(|s| s.sack),
        flag(|s| s.window_scaling),
        flag(|s| s.timestamps),
        flag(|s| s.ecn),
        socket.end.remote.0.to_string(),
        names.netns(socket.end.netns),
    ]
}

//! `stat listeners`: both queues of every listener, what it dropped, and how fast it accepts.

use std::io;

use ahash::AHashMap;
use analysis::owners::{self, Owner, Owners, Place};
use analysis::{AcceptQueue, Activity};
use recording::tables::Listener;
use recording::{Addr, Filter, Row, Table};

use super::largest::{Largest, Ranked};
use super::rounds::{Sampler, per_s};
use crate::columns::{Unit, Value, columns, heads, left, right, row};
use crate::screen::Screen;

/// Listeners followed.
const MAX_LISTENERS: usize = 1 << 16;

/// A listener: its last sample, whose it is, and what became of it in some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listening {
    pub(crate) row: Listener,
    pub(crate) owner: Owner,
    /// The time; `None` before there are two samples.
    pub(crate) over_ns: Option<u64>,
    /// Packets that were dropped at it.
    pub(crate) dropped: u32,
    /// Connections that it accepted, where that is known.
    pub(crate) accepted: Option<u64>,
    /// How many more processes accept there.
    pub(crate) more_owners: usize,
    /// Its accept queue, sample by sample, where it is followed.
    pub(crate) queue: Vec<f64>,
}

columns! {
    Listening = "listener" {
        text TIME NETNS LOCAL ACCEPTQ BACKLOG WAITED SYNQ YOUNG DROPS DROP_RATE ACCEPT_RATE PID COMM NOTES;
        json TIME ROW NETNS PID COMM DROP_RATE ACCEPT_RATE;
    }
    TIME: heads::TIME => |l, _| Value::Time(l.row.time_ns);
    ROW: row(Listener::INFO) => |l, _| Value::Row(l.row.cells());
    NETNS: heads::NETNS => |l, _| Value::Netns(l.row.netns);
    /// Address and port listened on.
    LOCAL: heads::LOCAL => |l, _| Value::Endpoint(l.row.local_addr, l.row.local_port);
    /// Connections that wait for accept() (ss: Recv-Q).
    ACCEPTQ: right("ACCEPTQ", 7, &["accept_queue"], Unit::Count) => |l, _| l.row.accept_queue.into();
    /// Limit of that queue (ss: Send-Q); one more than this may wait.
    BACKLOG: right("BACKLOG", 7, &["backlog"], Unit::Count) => |l, _| l.row.backlog.into();
    /// The longest wait of one of them seen since the previous sample; empty if it was not checked.
    WAITED: right("WAITED(ms)", 10, &["accept_wait_ms"], Unit::Ms) => |l, _| l.row.accept_wait_ms.into();
    /// Connections in SYN_RECV: their handshake is not complete.
    SYNQ: right("SYNQ", 6, &["syn_queue"], Unit::Count) => |l, _| l.row.syn_queue.into();
    /// Those among them whose SYN-ACK was not retransmitted yet.
    YOUNG: right("YOUNG", 6, &["syn_queue_young"], Unit::Count) => |l, _| l.row.syn_queue_young.into();
    /// Packets dropped at this listener since it was made.
    DROPS: right("DROPS", 8, &["drops"], Unit::Count) => |l, _| l.row.drops.into();
    /// The same since the report before.
    DROP_RATE: right("DROPS/s", 8, &["drops_per_s"], Unit::PerSecond) => |l, _| l.per_s(Some(l.dropped.into())).into();
    /// Handshakes completed, where state changes are recorded and one socket only listens there.
    ACCEPT_RATE: right("ACCEPTED/s", 10, &["accepted_per_s"], Unit::PerSecond)
        => |l, _| l.per_s(l.accepted).into();
    PID: heads::PID => |l, _| l.owner.pid.into();
    COMM: heads::COMM => |l, _| l.owner.comm.as_ref().into();
    /// What is wrong with it, or unusual.
    NOTES: left("NOTES", 1, &[], Unit::Words) => |l, _| l.notes().into();
}

impl Listening {
    /// How many a second.
    pub(crate) fn per_s(&self, n: Option<u64>) -> Option<f64> {
        per_s(n? as f64, self.over_ns?)
    }

    fn notes(&self) -> String {
        let all = [
            (AcceptQueue::of(&self.row).is_full(), "accept queue full"),
            (self.row.synflood_warned, "SYN flooding logged"),
            (self.row.reuseport, "reuseport"),
        ];
        let notes = all
            .iter()
            .filter(|(holds, _)| *holds)
            .map(|(_, note)| *note);
        notes.collect::<Vec<_>>().join(", ")
    }

    fn passes(&self, f: &Filter) -> bool {
        let l = &self.row;
        f.ports_ok(l.local_port, 0)
            && (f.addrs_ok(l.local_addr, l.local_addr) || l.local_addr.is_any())
            && self.owner.passes(f)
    }
}

pub(super) struct Listeners {
    owners: Owners,
    /// The round, in the order of the report.
    now: Largest<(u32, u16, Addr, u64), Listener, MAX_LISTENERS>,
    /// Drops and time of each socket in the last report.
    shown: AHashMap<(u32, u64), (u32, u64)>,
    /// Connections established between the last two rounds, by where they were accepted; and those
    /// established since this round was sampled, which count for the next.
    accepted: AHashMap<Place, u64>,
    accepted_since: AHashMap<Place, u64>,
    /// State changes are recorded, too.
    events: bool,
}

/// By how full its accept queue is.
impl Ranked for Listener {
    fn rank(&self) -> f64 {
        AcceptQueue::of(self).share()
    }
}

impl Listeners {
    pub(super) fn new(events: bool) -> Listeners {
        Listeners {
            owners: Owners::default(),
            now: Largest::default(),
            shown: AHashMap::new(),
            accepted: AHashMap::new(),
            accepted_since: AHashMap::new(),
            events,
        }
    }
}

impl Sampler for Listeners {
    /// Namespace and socket.
    type Key = (u32, u64);

    fn tables(&self) -> Vec<&'static str> {
        let tables = owners::TABLES.iter().copied();
        tables.filter(|t| *t != "socket").collect()
    }

    fn key(&mut self, row: &Row, filter: &Filter) -> Option<Self::Key> {
        self.owners.learn(row);
        match row {
            Row::Event(e) if Activity::of(e) == Some(Activity::Accepted) => {
                let place = (self.owners).listening_place(e.netns, e.local_addr, e.local_port)?;
                let accepted = if self.now.is_empty() {
                    &mut self.accepted
                } else {
                    &mut self.accepted_since
                };
                *accepted.entry(place).or_default() += 1;
                None
            }
            Row::Listener(l) => filter.netns_ok(l.netns).then_some((l.netns, l.sock)),
            _ => None,
        }
    }

    fn add(&mut self, row: Row, _: &mut Screen) -> io::Result<()> {
        if let Row::Listener(l) = row {
            self.now
                .insert((l.netns, l.local_port, l.local_addr, l.sock), *l);
        }
        Ok(())
    }

    fn close(&mut self, shown_ns: Option<u64>, screen: &mut Screen) -> io::Result<()> {
        let (now, left_out) = self.now.take();
        let since = std::mem::take(&mut self.accepted_since);
        let Some(time_ns) = shown_ns else {
            for (place, n) in since {
                *self.accepted.entry(place).or_default() += n;
            }
            return Ok(());
        };
        // With several sockets at one place, it is not known which one took a connection.
        let mut sharing: AHashMap<Place, u32> = AHashMap::new();
        for l in now.values() {
            *sharing.entry(place(l)).or_default() += 1;
        }
        let accepted = std::mem::replace(&mut self.accepted, since);
        for row in now.into_values() {
            let key = (row.netns, row.sock);
            let before = self.shown.get(&key).copied();
            if self.shown.len() < MAX_LISTENERS || before.is_some() {
                self.shown.insert(key, (row.drops, row.time_ns));
            }
            let over_ns = before.map(|(_, ns)| row.time_ns.saturating_sub(ns));
            let drops = before.map(|(drops, _)| row.drops.saturating_sub(drops));
            let alone = sharing.get(&place(&row)) == Some(&1);
            let n = accepted.get(&place(&row)).copied().unwrap_or(0);
            let line = Listening {
                owner: self.owners.of_listening(&row),
                more_owners: 0,
                over_ns,
                dropped: drops.unwrap_or(0),
                accepted: Some(n).filter(|_| alone && self.events),
                queue: Vec::new(),
                row,
            };
            if line.passes(&screen.how.filter) {
                screen.show(&line)?;
            }
        }
        left_out.show::<Listening>(time_ns, screen)?;
        screen.end_report();
        Ok(())
    }
}

fn place(l: &Listener) -> Place {
    (l.netns, l.local_addr, l.local_port)
}

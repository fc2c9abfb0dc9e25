//! `tcpwhy trace`: one line per event, one question per view.

pub(crate) mod accept_waits;
pub(crate) mod accepts;
pub(crate) mod connects;
pub(crate) mod drops;
pub(crate) mod gaps;
pub(crate) mod handshakes;
pub(crate) mod resets;
pub(crate) mod retransmits;
mod stacks;
pub(crate) mod states;
pub(crate) mod timeline;
pub(crate) mod timewait;
pub(crate) mod wakeups;

use std::io;

use analysis::owners::{self, Owner, Owners};
use recording::tables::Event;
use recording::{Filter, Row};

use crate::columns::{Line, Unit, Value, columns, heads, json, left};
use crate::screen::Screen;
use crate::view::View;

/// What can be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Segments retransmitted.
    Retransmits,
    /// Resets sent and received.
    Resets,
    /// SYNs that met a TIME_WAIT socket.
    TimeWait,
    /// Threads woken after a sleep of at least this long, ns.
    Wakeups(u64),
    /// Connections established, or not.
    Handshakes,
    /// TCP packets thrown away.
    Drops,
    /// Changes of state.
    States,
    /// All that happened to connections.
    Timeline,
    /// connect() calls.
    Connects,
    /// Connections accepted; whether accept() calls are recorded, too.
    Accepts(bool),
    /// Messages that came at regular intervals and then were late.
    Gaps,
    /// How long they waited for accept(), listener by listener.
    AcceptWaits,
}

/// The view.
pub fn view(what: What) -> Box<dyn View> {
    match what {
        What::Retransmits => Events::boxed(retransmits::Retransmits),
        What::Resets => Events::boxed(resets::Resets::default()),
        What::TimeWait => Box::<timewait::TimeWait>::default(),
        What::Wakeups(least_ns) => Box::new(wakeups::Wakeups::new(least_ns)),
        What::Handshakes => Box::<handshakes::Handshakes>::default(),
        What::Drops => Events::boxed(drops::Drops),
        What::States => Events::boxed(states::States::default()),
        What::Timeline => Box::<timeline::Timeline>::default(),
        What::Connects => Box::<connects::Connects>::default(),
        What::Accepts(true) => Box::new(accepts::Accepts::with_calls()),
        What::Gaps => Box::<gaps::Gaps>::default(),
        What::AcceptWaits => Box::new(accepts::Accepts::histogram()),
        What::Accepts(false) => Box::<accepts::Accepts>::default(),
    }
}

/// A line about an event: the event, whose connection it is about, and what a view adds.
pub(crate) struct About<X> {
    pub(crate) event: Event,
    pub(crate) owner: Owner,
    pub(crate) more: X,
}

impl<X: 'static> About<X> {
    columns! {
        TIME: heads::TIME => |l, _| Value::Time(l.event.time_ns);
        /// Process that owns the socket: it called connect(), or accepts at its listener.
        PID: heads::PID => |l, _| l.owner.pid.into();
        COMM: heads::COMM => |l, _| l.owner.comm.as_ref().into();
        /// Its cgroup v2 id.
        CGROUP: json(&["cgroup"], Unit::Id) => |l, _| l.owner.cgroup.into();
        NETNS: heads::NETNS_OF_SEVERAL => |l, _| Value::Netns(l.event.netns);
        /// 4 or 6.
        FAMILY: json(&["family"], Unit::Id) => |l, _| l.event.family.into();
        LOCAL: heads::LOCAL => |l, _| Value::Endpoint(l.event.local_addr, l.event.local_port);
        REMOTE: heads::REMOTE => |l, _| Value::Endpoint(l.event.remote_addr, l.event.remote_port);
        /// State of this host's socket.
        STATE: left("STATE", 12, &["state"], Unit::Name) => |l, _| l.event.state.as_ref().into();
        /// Why, by the kernel's own name.
        REASON: left("REASON", 24, &["reason"], Unit::Name) => |l, _| l.event.reason.as_ref().into();
        /// Whether the connection was made from a SYN cookie.
        COOKIE: left("COOKIE", 6, &["cookie"], Unit::Flag) => |l, _| l.event.cookie.into();
    }

    /// Whether the filter asks for its connection and its owner.
    fn passes(&self, filter: &Filter) -> bool {
        let e = &self.event;
        filter.netns_ok(e.netns)
            && filter.ports_ok(e.local_port, e.remote_port)
            && filter.addrs_ok(e.local_addr, e.remote_addr)
            && self.owner.passes(filter)
    }
}

/// A view that shows some events, each by itself and with its owner.
trait Lines {
    /// What it adds to an event.
    type More: 'static;

    /// What it adds to this event; `None` when it does not show it.
    fn more(&mut self, event: &Event) -> Option<Self::More>;
    /// Lines below that of the event.
    fn below(_more: &Self::More, _screen: &mut Screen) -> io::Result<()> {
        Ok(())
    }
    /// Tables that it reads beside events.
    fn more_tables(&self) -> &'static [&'static str] {
        &[]
    }
    /// A row of one of those.
    fn learn(&mut self, _row: &Row) {}
}

struct Events<L> {
    owners: Owners,
    lines: L,
}

impl<L: Lines + 'static> Events<L>
where
    About<L::More>: Line,
{
    fn boxed(lines: L) -> Box<dyn View> {
        let owners = Owners::default();
        Box::new(Events { owners, lines })
    }
}

impl<L: Lines> View for Events<L>
where
    About<L::More>: Line,
{
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, self.lines.more_tables()].concat()
    }

    fn take(&mut self, row: Row, screen: &mut Screen) -> io::Result<()> {
        self.owners.learn(&row);
        self.lines.learn(&row);
        let Row::Event(event) = row else {
            return Ok(());
        };
        let Some(more) = self.lines.more(&event) else {
            return Ok(());
        };
        let owner = self.owners.of_event(&event);
        let line = About {
            event: *event,
            owner,
            more,
        };
        if line.passes(&screen.how.filter) {
            screen.show(&line)?;
            L::below(&line.more, screen)?;
        }
        Ok(())
    }
}

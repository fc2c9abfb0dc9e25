//! `tcpwhy trace`: one line per event, one question per view.

mod accepts;
mod connects;
mod drops;
mod handshakes;
mod resets;
mod retransmits;
mod stacks;
mod states;
mod timewait;
mod wakeups;

use std::io;

use analysis::owners::{self, Owner, Owners};
use recording::tables::Event;
use recording::{Addr, Filter, Row};
use serde::Serialize;

use crate::screen::{How, Screen};
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
    /// Threads woken after a sleep of at least so long, ns.
    Wakeups(u64),
    /// Connections established, or not.
    Handshakes,
    /// TCP packets thrown away.
    Drops,
    /// Changes of state.
    States,
    /// connect() calls.
    Connects,
    /// Connections accepted; whether accept() calls are recorded, too.
    Accepts(bool),
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
        What::Connects => Box::<connects::Connects>::default(),
        What::Accepts(true) => Box::new(accepts::Accepts::with_calls()),
        What::Accepts(false) => Box::<accepts::Accepts>::default(),
    }
}

/// A view that prints some events, each by itself and with its owner.
trait EventLines {
    /// Whether it shows this event.
    fn shows(&mut self, event: &Event) -> bool;
    /// Prints it.
    fn line(&mut self, event: &Event, owner: &Owner, screen: &mut Screen) -> io::Result<()>;
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

impl<L: EventLines + 'static> Events<L> {
    fn boxed(lines: L) -> Box<dyn View> {
        let owners = Owners::default();
        Box::new(Events { owners, lines })
    }
}

impl<L: EventLines> View for Events<L> {
    fn tables(&self) -> Vec<&'static str> {
        [owners::TABLES, self.lines.more_tables()].concat()
    }

    fn take(&mut self, row: &Row, screen: &mut Screen) -> io::Result<()> {
        self.owners.learn(row);
        self.lines.learn(row);
        let Row::Event(event) = row else {
            return Ok(());
        };
        if !self.lines.shows(event) {
            return Ok(());
        }
        let owner = self.owners.of_event(event);
        let filter = &screen.how.filter;
        if event_ok(event, filter) && owner.passes(filter) {
            self.lines.line(event, &owner, screen)?;
        }
        Ok(())
    }
}

/// Whether the filter asks for the connection of an event.
fn event_ok(e: &Event, filter: &Filter) -> bool {
    filter.netns_ok(e.netns)
        && filter.ports_ok(e.local_port, e.remote_port)
        && filter.addrs_ok(e.local_addr, e.remote_addr)
}

/// Both ends of a connection, for JSON.
#[derive(Clone, Debug, Serialize)]
struct Ends {
    netns: u32,
    netns_name: Option<String>,
    family: u8,
    local_addr: Addr,
    local_port: u16,
    remote_addr: Addr,
    remote_port: u16,
}

impl Ends {
    fn of(e: &Event, how: &How) -> Ends {
        Ends {
            netns: e.netns,
            netns_name: how.names.get(&e.netns).cloned(),
            family: e.family,
            local_addr: e.local_addr,
            local_port: e.local_port,
            remote_addr: e.remote_addr,
            remote_port: e.remote_port,
        }
    }
}

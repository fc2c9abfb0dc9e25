//! A reader on another host: all that this host sees of it is the window that its senders wait for.

use std::collections::BTreeMap;

use analysis::stats::median;
use analysis::words::rounded;
use recording::Addr;

use super::{BULK, CAUSE, MIN_RWND, SPARE};
use crate::places::path::{End, ends, rate, rwnd_share, sample_rows, senders};
use crate::vocabulary::*;

/// The ends that send from a namespace to a host which holds them back.
pub(super) struct Remote<'a> {
    story: &'a Story,
    netns: u32,
    to: Addr,
    held: Vec<End<'a>>,
    /// Transfers to it, held back or not.
    all: u64,
}

/// Whether it moved enough to judge by, to another host, by windows that are not those of old stacks.
fn sends_away(end: &End) -> bool {
    let scaled = end.conn.agreed.is_some_and(|a| a.window_scaling);
    end.conn.peer.is_none() && scaled && end.transfer.acked() >= BULK && end.transfer.samples >= 2
}

pub(super) fn places(story: &Story) -> Vec<Remote<'_>> {
    let mut places: BTreeMap<(u32, Addr), Vec<End>> = BTreeMap::new();
    let away = ends(story).filter(|e| sends_away(e) && !e.conn.remote.is_loopback());
    for end in away {
        let key = (end.conn.netns, end.conn.remote.addr);
        places.entry(key).or_default().push(end);
    }
    let places = places.into_iter().map(|((netns, to), ends)| Remote {
        story,
        netns,
        to,
        all: ends.len() as u64,
        held: ends
            .into_iter()
            .filter(|e| rwnd_share(&[*e]) >= MIN_RWND)
            .collect(),
    });
    places.filter(|r| !r.held.is_empty()).collect()
}

pub(super) fn judge(remote: &Remote) -> Finding {
    let (story, to) = (remote.story, remote.to);
    let waited = Quantity::share(rwnd_share(&remote.held));
    let n = remote.held.len() as u64;
    let resource = format!("path to {to}");
    let scope = senders(story, remote.netns, &remote.held, Some(resource));
    let room = remote.window();
    let is_small = room.as_ref().is_some_and(|w| !w.has_room());
    let sent = Quantity::rate(rate(&remote.held));
    let (title, fix) = match is_small {
        false => (
            format!("The peer {to} reads too slowly: senders wait {waited} of their busy time."),
            format!("Record on {to}, too: its application reads more slowly than data comes."),
        ),
        true => (
            format!("The window of {to} is too small for the path: senders wait {waited}."),
            format!("Raise the receive buffer at {to} (tcp_rmem, or no SO_RCVBUF)."),
        ),
    };
    let says = format!(
        "{} of {} to it waited {waited} of their busy time for its window, at {sent} in all.",
        Quantity::count(n),
        Quantity::of(remote.all, "transfer")
    );
    let held = remote.held.iter().map(|e| e.conn);
    Case::new(story, CAUSE, scope.clone())
        .layer(Layer::Peer)
        .placed(Place::ends(&remote.held))
        .title([title, format!("{to} holds its senders back.")])
        .fix([fix, "See why the peer's window is closed.".into()])
        .affects(
            Impact::of(n, remote.all, "connections", says),
            Lost::states(story, held, &[State::PeerWindow], 1.0),
        )
        .because("the kernel counts the time in which the peer's window let nothing pass")
        .at_most(
            Level::Medium,
            "the reader is not on this host: its application reads too slowly, or its receive buffer \
             is too small",
        )
        .steps([say!(
            "{senders} waited {rwnd_limited} of the time with something to send for the window of the \
             peer.",
            senders = Quantity::of(n, "sender"),
            rwnd_limited = waited.rows(sample_rows(&remote.held))
        )])
        .steps(room.as_ref().map(Window::step))
        .advise([advice(remote, &scope, room.filter(|_| is_small))])
        .verify(format!(
            "`ss -ti dst {to}` shows rwnd_limited below {} of busy.",
            Quantity::share(MIN_RWND)
        ))
}

/// The widest window of a sender, and what it would let pass.
struct Window {
    bytes: u32,
    rtt_us: u32,
    /// Bytes per second that were acknowledged.
    rate: f64,
    row: Option<RowRef>,
}

impl Remote<'_> {
    /// That of the sender in the middle, by what its window would let pass.
    fn window(&self) -> Option<Window> {
        let windows = self.held.iter().filter_map(|e| {
            let bytes = self.story.samples(e.conn)?.snd_wnd_max;
            let rtt_us = e.transfer.min_rtt_us;
            let row = e.transfer.rows.first().copied();
            let rate = e.transfer.rate();
            (bytes > 0 && rtt_us > 0).then_some(Window {
                bytes,
                rtt_us,
                rate,
                row,
            })
        });
        let mut windows: Vec<Window> = windows.collect();
        let usual = median(&mut windows.iter().map(Window::allowed).collect::<Vec<_>>())?;
        let nearest = |w: &Window| (w.allowed() - usual).abs();
        windows.sort_by(|a, b| nearest(a).total_cmp(&nearest(b)));
        windows.into_iter().next()
    }
}

impl Window {
    /// What it lets pass once per round trip, bytes per second.
    fn allowed(&self) -> f64 {
        f64::from(self.bytes) / f64::from(self.rtt_us) * 1e6
    }

    /// Far more would pass than did: it was closed, and not too small.
    fn has_room(&self) -> bool {
        self.rate * SPARE <= self.allowed()
    }

    fn step(&self) -> Step {
        let says = match self.has_room() {
            true => "it was closed in between: the application reads slowly",
            false => {
                "it was filled once per round trip: the receive buffer is too small for the path"
            }
        };
        say!(
            "At its widest the window was {window}, which once per {min_rtt_us} lets {allowed} pass; \
             {rate} passed: {says}.",
            window = Quantity::bytes(self.bytes).rows(self.row),
            min_rtt_us = Quantity::us(self.rtt_us),
            allowed = Quantity::rate(rounded(self.allowed())),
            rate = Quantity::rate(rounded(self.rate))
        )
    }
}

fn advice(remote: &Remote, scope: &Scope, small: Option<Window>) -> Advice {
    let to = remote.to;
    let look = command_in(&scope.netns, &format!("ss -ti dst {to}"));
    match small {
        Some(window) => Advice::to(format!(
            "Let the receivers at {to} have a larger buffer: raise the maximum of net.ipv4.tcp_rmem \
             there, and do not set SO_RCVBUF."
        ))
        .by(look)
        .at("the receiving host; the command shows rwnd_limited here")
        .risk("Each connection may take so much memory.")
        .effect("The rate of a transfer rises with the window, until the path is full.")
        .change(Change::ReceiveBuffer {
            to: to.to_string(),
            bytes: u64::from(window.bytes) * 2,
        }),
        None => Advice::to(format!(
            "Record on {to} to see what its application does between reads, and make it read as data \
             comes."
        ))
        .by(look)
        .at("the receiving host; the command shows rwnd_limited here")
        .risk("What was held back here then waits in its memory: bound it.")
        .effect("The senders are no longer held to what it reads; the path then decides.")
        .change(Change::ReadFaster {
            listener: to.to_string(),
        }),
    }
}

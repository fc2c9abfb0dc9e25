//! An end's life as `observe` folds it: one row when it ends, or a row for each step that is told before.

use recording::TcpState;
use recording::tables::Event;

use crate::{End, Task};

/// An end from its opening on. Its steps become rows when something else is told of it, or when a
/// segment is sealed meanwhile; else its whole life is one row. Times are on the recording's clock, ns.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The end.
    pub end: End,
    /// When the handshake was over for it.
    pub established_ns: Option<u64>,
    /// Segments that it retransmitted.
    pub retransmits: u32,
    /// It called connect(), rather than a listener.
    outbound: bool,
    /// Who did, and when; `None` when that was before the recording, or of an accepted connection.
    connect: Option<(Task<'static>, u64)>,
    /// Its steps so far are rows.
    told: bool,
}

impl Life {
    fn new(end: End, outbound: bool, established_ns: Option<u64>) -> Life {
        Life {
            end,
            established_ns,
            retransmits: 0,
            outbound,
            connect: None,
            told: false,
        }
    }

    /// A task connects.
    pub fn connects(end: End, by: Task<'static>, time_ns: u64) -> Life {
        Life {
            connect: Some((by, time_ns)),
            ..Life::new(end, true, None)
        }
    }

    /// A listener has a connection.
    pub fn accepted(end: End, time_ns: u64) -> Life {
        Life::new(end, false, Some(time_ns))
    }

    /// It began before the recording, in which a sample tells of it; it called connect(), or a listener
    /// has it.
    pub fn older(end: End, outbound: bool, established_ns: Option<u64>) -> Life {
        Life {
            told: true,
            ..Life::new(end, outbound, established_ns)
        }
    }

    /// The rows of its steps so far that are not written yet.
    pub fn tell(&mut self) -> impl Iterator<Item = Event> + use<> {
        let untold = !std::mem::replace(&mut self.told, true);
        let life = *self;
        let connect = life.connect.map(|(by, at)| life.end.connect(at, by));
        let steps = connect.into_iter().chain(life.opening());
        steps.filter(move |_| untold)
    }

    /// Its handshake is over; a row when it has been told of before.
    pub fn establish(&mut self, time_ns: u64) -> Option<Event> {
        self.established_ns = Some(time_ns);
        self.opening().filter(|_| self.told)
    }

    fn opening(&self) -> Option<Event> {
        let from = if self.outbound {
            TcpState::SynSent
        } else {
            TcpState::SynRecv
        };
        let opened = |at| self.end.change(at, from, TcpState::Established);
        self.established_ns.map(|at| Event {
            retransmits: Some(self.retransmits),
            ..opened(at)
        })
    }

    /// The row of its end, after it sent and received so many bytes; with its whole life when that
    /// is not told yet.
    pub fn close(self, time_ns: u64, from: TcpState, [sent, received]: [u64; 2]) -> Event {
        let established_ns = self.established_ns.filter(|_| !self.told);
        let connect = self.connect.filter(|_| established_ns.is_some());
        Event {
            pid: connect.map(|(by, _)| by.pid),
            comm: connect.map(|(by, _)| by.comm.into()),
            connect_ns: connect.map(|(_, at)| at),
            established_ns,
            retransmits: Some(self.retransmits),
            bytes_acked: Some(sent),
            bytes_received: Some(received),
            ..self.end.change(time_ns, from, TcpState::Close)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: Task = Task::new(7, "client");

    fn end() -> End {
        End {
            netns: 1,
            sock: 2,
            family: 4,
            local: (Default::default(), 40_000),
            remote: (Default::default(), 80),
        }
    }

    fn texts(rows: impl IntoIterator<Item = Event>) -> Vec<String> {
        rows.into_iter().map(|row| format!("{row:?}")).collect()
    }

    fn connected() -> Life {
        let mut life = Life::connects(end(), BY, 10);
        assert!(life.establish(20).is_none(), "nothing was told so far");
        life
    }

    #[test]
    fn a_whole_life_is_taken_apart_into_the_rows_that_tell_it_step_by_step() {
        for mut life in [connected(), Life::accepted(end(), 20)] {
            let whole = life.close(30, TcpState::LastAck, [500, 400]);
            let steps: Vec<Event> = life.tell().collect();
            let last = life.close(30, TcpState::LastAck, [500, 400]);
            assert_eq!(texts(whole.steps()), texts(steps.into_iter().chain([last])));
        }
    }

    #[test]
    fn what_was_told_is_not_told_again() {
        let mut life = connected();
        assert_eq!(life.tell().count(), 2);
        assert_eq!(life.tell().count(), 0);
        let mut late = Life::connects(end(), BY, 10);
        assert_eq!(late.tell().count(), 1);
        assert!(late.establish(20).is_some());
    }
}

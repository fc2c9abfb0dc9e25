//! The rows to be written: a record as it is, a whole life, or one that is taken apart.

use crate::wire::{tw_bits, tw_event, tw_kind, tw_life};

/// A row to be written.
#[derive(Clone, Copy)]
pub struct Step {
    /// The record; of a life its end, with what the others told.
    pub event: tw_event,
    /// When connect() was called; 0 when not a life or not known.
    pub connect_ns: u64,
    /// When the connection was established; 0 when not a life.
    pub established_ns: u64,
    /// The kernel stack, as in the table `stack`.
    pub stack: Option<u64>,
}

const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const CLOSE: u8 = 7;

impl From<tw_event> for Step {
    fn from(event: tw_event) -> Step {
        Step {
            event,
            connect_ns: 0,
            established_ns: 0,
            stack: None,
        }
    }
}

impl Step {
    /// One row of a life that has ended; of one that has not, a row for each thing that happened. What happened before
    /// the recording began, at `from_ns`, is not told.
    pub fn of_life(life: &tw_life, from_ns: u64) -> impl Iterator<Item = Step> + use<> {
        let (event, whole) = (life.event, life.event.state == CLOSE);
        // Without its connect() one would be taken for accepted: of a handshake all is told or nothing.
        let is_older = life.connect_ns > 0 && life.connect_ns < from_ns;
        let told = |ns: u64| if is_older || ns < from_ns { 0 } else { ns };
        let (connect_ns, established_ns) = (told(life.connect_ns), told(life.established_ns));
        let row = |event: tw_event| Some(Step::from(event));
        let [first, second] = match (whole, connect_ns, established_ns) {
            (false, 0, 0) => [None, None],
            (true, ..) => [
                Some(Step {
                    connect_ns,
                    established_ns,
                    ..Step::from(event)
                }),
                None,
            ],
            (false, 0, _) => [row(established(event, SYN_RECV, established_ns)), None],
            (false, _, 0) => [row(connect(event, connect_ns)), None],
            (false, ..) => [
                row(connect(event, connect_ns)),
                row(established(event, SYN_SENT, established_ns)),
            ],
        };
        first.into_iter().chain(second)
    }
}

/// The connect() by which a connection was opened.
fn connect(life: tw_event, time_ns: u64) -> tw_event {
    tw_event {
        time_ns,
        old_state: CLOSE,
        state: SYN_SENT,
        bits: tw_bits::TW_HAS_SOCK.0 as u8,
        ..life
    }
}

fn established(life: tw_event, from: u8, time_ns: u64) -> tw_event {
    tw_event {
        time_ns,
        old_state: from,
        state: ESTABLISHED,
        ..life
    }
}

/// Whether something happened to a connection that is not a change of its state.
pub fn disturbs(e: &tw_event) -> bool {
    u32::from(e.kind) != tw_kind::TW_STATE.0 && u32::from(e.bits) & tw_bits::TW_HAS_SOCK.0 != 0
}

/// Where a life belongs among the steps so far: at the end; when it was given up because something
/// happened to the connection, before that.
pub fn place(life: &tw_life, steps: &[Step]) -> usize {
    let has_ended = life.event.state == CLOSE;
    let began_ns = [life.connect_ns, life.established_ns];
    let later = |s: &Step| {
        s.event.sock == life.event.sock && began_ns.iter().all(|ns| s.event.time_ns >= *ns)
    };
    let disturbed = (!has_ended).then(|| steps.iter().position(later));
    disturbed.flatten().unwrap_or(steps.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(state: u8, connect_ns: u64, established_ns: u64) -> Vec<Step> {
        rows_since(0, state, connect_ns, established_ns)
    }

    fn rows_since(from_ns: u64, state: u8, connect_ns: u64, established_ns: u64) -> Vec<Step> {
        let life = tw_life {
            event: tw_event {
                time_ns: 9,
                pid: 42,
                mss: 1460,
                state,
                old_state: 5,
                bits: (tw_bits::TW_HAS_SOCK.0 | tw_bits::TW_SACK.0) as u8,
                ..tw_event::default()
            },
            connect_ns,
            established_ns,
        };
        Step::of_life(&life, from_ns).collect()
    }

    #[test]
    fn what_happened_before_the_recording_began_is_not_told() {
        let ended = |connect_ns, established_ns| {
            let rows = rows_since(3, CLOSE, connect_ns, established_ns);
            assert_eq!((rows.len(), rows[0].event.time_ns), (1, 9));
            (rows[0].connect_ns, rows[0].established_ns)
        };
        assert_eq!(ended(3, 4), (3, 4));
        assert_eq!(ended(0, 2), (0, 0), "accepted before");
        assert_eq!(ended(2, 4), (0, 0), "not taken for accepted");
        assert!(rows_since(3, ESTABLISHED, 1, 2).is_empty());
        assert!(rows_since(3, ESTABLISHED, 1, 4).is_empty());
        assert!(rows_since(3, SYN_SENT, 2, 0).is_empty());
        assert_eq!(rows_since(3, ESTABLISHED, 3, 4).len(), 2);
    }

    #[test]
    fn a_life_that_has_ended_is_one_row() {
        let rows = rows(CLOSE, 3, 4);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.connect_ns, row.established_ns), (3, 4));
        assert_eq!((row.event.time_ns, row.event.pid), (9, 42));
    }

    #[test]
    fn one_that_has_not_is_a_row_for_each_change() {
        let times = |rows: &[Step]| -> Vec<(u64, u8, u8)> {
            let change = |s: &Step| (s.event.time_ns, s.event.old_state, s.event.state);
            rows.iter().map(change).collect()
        };
        let opened = rows(ESTABLISHED, 3, 4);
        let changes = [(3, CLOSE, SYN_SENT), (4, SYN_SENT, ESTABLISHED)];
        assert_eq!(times(&opened), changes);
        assert!(opened.iter().all(|s| s.established_ns == 0), "not lives");
        let sack = |s: &Step| u32::from(s.event.bits) & tw_bits::TW_SACK.0 != 0;
        assert_eq!((sack(&opened[0]), sack(&opened[1])), (false, true));
        let accepted = rows(ESTABLISHED, 0, 4);
        assert_eq!(times(&accepted), [(4, SYN_RECV, ESTABLISHED)]);
        assert_eq!(times(&rows(SYN_SENT, 3, 0)), changes[..1]);
    }

    #[test]
    fn a_life_that_is_given_up_comes_before_what_disturbed_it() {
        let event = |sock, time_ns| {
            Step::from(tw_event {
                sock,
                time_ns,
                ..tw_event::default()
            })
        };
        let steps = [event(7, 2), event(8, 9), event(7, 9)];
        let life = |sock, state| tw_life {
            event: tw_event {
                sock,
                state,
                ..tw_event::default()
            },
            connect_ns: 3,
            established_ns: 0,
        };
        assert_eq!(
            place(&life(7, SYN_SENT), &steps),
            2,
            "not before its predecessor"
        );
        assert_eq!(place(&life(9, SYN_SENT), &steps), 3);
        assert_eq!(
            place(&life(7, CLOSE), &steps),
            3,
            "a whole one is told at its end"
        );
    }
}

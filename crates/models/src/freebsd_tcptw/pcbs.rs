//! The lists of connections per local port (inpcbport), and the look-up that walks them.

/// One connection, or what is left of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pcb {
    /// Counts connections from 1, in the order in which they came.
    pub(super) id: u64,
    /// This host made it.
    pub(super) outbound: bool,
    pub(super) state: State,
    /// When a TIME_WAIT of it may be ended, ns.
    pub(super) recyclable_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Live,
    TimeWait,
    /// No more in the list.
    Gone,
}

/// All connections with one local port.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    /// The oldest first: the kernel's list from its tail.
    pcbs: Vec<Pcb>,
    gone: usize,
    /// A socket listens there, at the tail: it is older than what it accepted.
    listens: bool,
}

/// What one look-up of a port did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walk {
    /// Entries passed, over all restarts.
    pub(super) passed: u64,
    /// TIME_WAITs ended.
    pub(super) purged: u64,
    /// Somebody has the port.
    pub(super) taken: bool,
}

impl List {
    pub(super) fn listen(&mut self) {
        self.listens = true;
    }

    pub(super) fn listens(&self) -> bool {
        self.listens
    }

    /// Entries of the list.
    pub(super) fn len(&self) -> usize {
        self.pcbs.len() - self.gone + usize::from(self.listens)
    }

    /// Adds a connection at the head; it is younger than all others.
    pub(super) fn insert(&mut self, pcb: Pcb) {
        self.pcbs.push(pcb);
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Pcb> {
        let at = self.pcbs.binary_search_by_key(&id, |pcb| pcb.id).ok()?;
        let pcb = &mut self.pcbs[at];
        (pcb.state != State::Gone).then_some(pcb)
    }

    /// Takes a connection out of the list.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let Some(pcb) = self.get_mut(id) else {
            return false;
        };
        pcb.state = State::Gone;
        self.gone += 1;
        self.compact();
        true
    }

    /// Connections, the oldest first.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Pcb> {
        self.pcbs.iter().filter(|pcb| pcb.state != State::Gone)
    }

    /// in_pcblookup_local(): passes the list from its head and, when it purges, ends every TIME_WAIT
    /// that may be ended, beginning at the head again after each (`restart`).
    ///
    /// The walk is counted, not walked: what is in front of a TIME_WAIT when its turn comes are the
    /// entries that stay, as all others in front of it are gone by then. Each purge passes these and
    /// the TIME_WAIT itself, the last walk all that stays.
    pub(super) fn look_up(&mut self, now_ns: u64, purge: bool, restart: bool) -> Walk {
        let (mut stay, mut walk) = (0, Walk::default());
        for pcb in self.pcbs.iter_mut().rev() {
            let recyclable = pcb.state == State::TimeWait && pcb.recyclable_ns < now_ns;
            match pcb.state {
                State::Gone => {}
                _ if purge && recyclable => {
                    walk.purged += 1;
                    walk.passed += if restart { stay + 1 } else { 1 };
                    pcb.state = State::Gone;
                    self.gone += 1;
                }
                _ => stay += 1,
            }
        }
        stay += u64::from(self.listens);
        walk.passed += stay;
        walk.taken = stay > 0;
        self.compact();
        walk
    }

    fn compact(&mut self) {
        if self.gone * 2 > self.pcbs.len() {
            self.pcbs.retain(|pcb| pcb.state != State::Gone);
            self.gone = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(states: &[(State, bool)], listens: bool) -> List {
        let mut list = List::default();
        for (nth, (state, recyclable)) in states.iter().enumerate() {
            list.insert(Pcb {
                id: nth as u64 + 1,
                outbound: false,
                state: *state,
                recyclable_ns: if *recyclable { 0 } else { u64::MAX },
            });
        }
        list.listens = listens;
        list
    }

    /// The loop of in_pcb.c 1.125 word for word, hop by hop.
    fn walked(list: &List, purge: bool) -> (Walk, Vec<u64>) {
        let mut entries: Vec<_> = list.all().rev().cloned().collect();
        let mut walk = Walk::default();
        'retry: loop {
            for at in 0..entries.len() {
                walk.passed += 1;
                let may = entries[at].state == State::TimeWait && entries[at].recyclable_ns < 1;
                if purge && may {
                    entries.remove(at);
                    walk.purged += 1;
                    continue 'retry;
                }
            }
            let listener = u64::from(list.listens);
            walk.passed += listener;
            walk.taken = entries.len() as u64 + listener > 0;
            return (walk, entries.iter().map(|pcb| pcb.id).rev().collect());
        }
    }

    proptest! {
        #[test]
        fn counting_a_walk_comes_to_what_walking_comes_to(
            entries in prop::collection::vec((0u8..3, any::<bool>()), 0..60),
            purge in any::<bool>(),
            listens in any::<bool>(),
        ) {
            let state = |n| [State::Live, State::TimeWait, State::Connecting][usize::from(n)];
            let entries: Vec<_> = entries.into_iter().map(|(n, old)| (state(n), old)).collect();
            let mut list = list(&entries, listens);
            let (walk, left) = walked(&list, purge);
            let no_restart = list.clone().look_up(1, purge, false);
            prop_assert_eq!(list.look_up(1, purge, true), walk);
            prop_assert_eq!(list.all().map(|pcb| pcb.id).collect::<Vec<_>>(), left);
            // Without the restart every entry is passed once.
            let len = entries.len() as u64 + u64::from(listens);
            prop_assert_eq!(no_restart.passed, len);
            prop_assert_eq!(no_restart.purged, walk.purged);
            prop_assert_eq!(list.len() as u64, len - walk.purged);
            // A second look-up finds nothing to purge.
            prop_assert_eq!(list.look_up(1, purge, true).purged, 0);
        }
    }

    #[test]
    fn live_connections_in_front_make_it_quadratic() {
        let young = [(State::Live, false); 100];
        let waits = [(State::TimeWait, true); 50];
        let mut front = list(&[&waits[..], &young].concat(), true);
        let walk = front.look_up(1, true, true);
        assert_eq!((walk.passed, walk.purged), (50 * 101 + 101, 50));
        // The other way round each TIME_WAIT is the first.
        let mut behind = list(&[&young[..], &waits].concat(), true);
        assert_eq!(behind.look_up(1, true, true).passed, 50 + 101);
    }

    #[test]
    fn what_leaves_the_list_is_found_no_more() {
        let mut list = list(&[(State::Live, false); 9], false);
        for id in [4, 9, 1, 2, 3, 5, 6] {
            assert!(list.remove(id));
            assert!(!list.remove(id) && list.get_mut(id).is_none());
        }
        assert_eq!((list.len(), list.all().count()), (2, 2));
        assert!(list.get_mut(7).is_some() && list.get_mut(10).is_none());
    }
}

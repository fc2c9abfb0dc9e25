//! Where a thread's time went: one split for everything that shows or judges it.

use recording::tables::Thread;

/// What a thread does: at every moment one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Microstate {
    /// On a CPU in user mode.
    User,
    /// On a CPU in the kernel.
    System,
    /// Runnable, and waiting for a CPU.
    Runqueue,
    /// Asleep in a system call.
    Sleep,
    /// Waiting for a lock (futex).
    Lock,
    /// Uninterruptible, mostly disk.
    Disk,
    /// In a page fault.
    Fault,
    /// Stopped or traced.
    Stopped,
}

impl Microstate {
    /// All of them, in display order.
    pub const ALL: [Microstate; 8] = [
        Microstate::User,
        Microstate::System,
        Microstate::Runqueue,
        Microstate::Sleep,
        Microstate::Lock,
        Microstate::Disk,
        Microstate::Fault,
        Microstate::Stopped,
    ];
}

/// The time of a thread over some rows, by what it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Microstates {
    over_ns: u64,
    spent_ns: [u64; Microstate::ALL.len()],
}

impl Microstates {
    /// The microstates of a row.
    pub fn of(row: &Thread) -> Microstates {
        let of = |state| match state {
            Microstate::User => row.user_ns,
            Microstate::System => row.system_ns,
            Microstate::Runqueue => row.runqueue_ns,
            Microstate::Sleep => row.sleep_ns,
            Microstate::Lock => row.lock_ns,
            Microstate::Disk => row.disk_ns,
            Microstate::Fault => row.fault_ns,
            Microstate::Stopped => row.stopped_ns,
        };
        Microstates {
            over_ns: row.interval_ns,
            spent_ns: Microstate::ALL.map(of),
        }
    }

    /// Adds those of another period.
    pub fn add(&mut self, more: Microstates) {
        self.over_ns = self.over_ns.saturating_add(more.over_ns);
        for (sum, ns) in self.spent_ns.iter_mut().zip(more.spent_ns) {
            *sum = sum.saturating_add(ns);
        }
    }

    /// The same over a longer time, for the rest of which there is no data.
    pub fn within(self, over_ns: u64) -> Microstates {
        Microstates {
            over_ns: self.over_ns.max(over_ns),
            ..self
        }
    }

    /// The time that they cover, ns.
    pub fn over_ns(&self) -> u64 {
        self.over_ns
    }

    /// Time in one state, ns.
    pub fn ns(&self, state: Microstate) -> u64 {
        self.spent_ns[state as usize]
    }

    /// Share of the time in one state, percent.
    pub fn percent(&self, state: Microstate) -> f64 {
        self.percent_of(self.ns(state))
    }

    /// Share of the time that something else took, percent.
    pub fn percent_of(&self, ns: u64) -> f64 {
        ns as f64 * 100.0 / self.over_ns.max(1) as f64
    }

    /// Time on a CPU, ns.
    pub fn on_cpu_ns(&self) -> u64 {
        let user = self.ns(Microstate::User);
        user.saturating_add(self.ns(Microstate::System))
    }

    /// Time in which it ran or wanted to, ns.
    pub fn busy_ns(&self) -> u64 {
        let waited = self.ns(Microstate::Runqueue);
        self.on_cpu_ns().saturating_add(waited)
    }

    /// Time in which it worked or was kept from working, ns. Sleep is neither, nor is waiting for a lock, as idle
    /// threads of a pool do.
    pub fn restless_ns(&self) -> u64 {
        let rests = |state| matches!(state, Microstate::Sleep | Microstate::Lock);
        let all = Microstate::ALL.into_iter().filter(|state| !rests(*state));
        all.fold(0, |sum, state| sum.saturating_add(self.ns(state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_where_its_column_says() {
        let row = Thread {
            interval_ns: 100,
            user_ns: 1,
            system_ns: 2,
            runqueue_ns: 3,
            sleep_ns: 40,
            lock_ns: 50,
            disk_ns: 2,
            fault_ns: 1,
            stopped_ns: 1,
            ..Thread::default()
        };
        let mut spent = Microstates::of(&row);
        let each = Microstate::ALL.map(|state| spent.ns(state));
        assert_eq!(each, [1, 2, 3, 40, 50, 2, 1, 1]);
        assert_eq!((spent.on_cpu_ns(), spent.busy_ns()), (3, 6));
        assert_eq!(spent.restless_ns(), 10);
        spent.add(Microstates::of(&row));
        assert_eq!(spent.percent(Microstate::Lock), 50.0);
        assert_eq!((spent.over_ns(), spent.restless_ns()), (200, 20));
        // Shares are of the whole time; time without data is neither rest nor work.
        let longer = spent.within(1_000);
        assert_eq!(longer.percent(Microstate::Lock), 10.0);
        assert_eq!(longer.restless_ns(), 20);
        assert_eq!(spent.within(10).over_ns(), 200);
    }
}

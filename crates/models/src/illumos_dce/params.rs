//! The parameters of the model, and what follows from them.

use crate::Error;
use crate::parameters::params;

params! {
    /// The parameters of illumos-dce. Tunings have the kernel's own names (/etc/system, ipadm).
    pub(super) struct Params {
        // Time.

        /// How long the host has been up when it is looked at: 14 days 7:24 in case B. Until then
        /// only the table is simulated, day by day.
        pub(super) uptime: f64 = 14.3083 in 0.001..=60.0, "d";

        /// How long it is looked at: every lookup is simulated, and recorded. The article's DTrace
        /// counted for about 30 s.
        pub(super) duration: u64 = 30 in 1..=600, "s";

        // The load.

        /// Addresses per second that the host has never talked to (Poisson). Case B: 24,973,067
        /// entries in 14 days 7:24.
        pub(super) new_destinations: f64 = 20.2 in 0.0..=200.0, "1/s";

        /// Addresses that it talks to again and again, back ends and clients. How many is not
        /// known; it matters only after a reclaim.
        pub(super) returning_destinations: u32 = 1_000 in 0..=100_000;

        /// Share of these that came right after boot: they lie at the ends of their chains, and a
        /// lookup walks all of it. The others came at any time since.
        pub(super) returning_since_boot: f64 = 1.0 in 0.0..=1.0;

        /// Lookups per second from connect(), in the threads of the application: (1216 + 5826) in
        /// 30 s.
        pub(super) connect_rate: f64 = 234.73 in 0.0..=10_000.0, "1/s";

        /// Lookups per second for connections accepted, in worker threads of the kernel
        /// (squeue_worker): 2211 in 30 s.
        pub(super) worker_accept_rate: f64 = 73.7 in 0.0..=10_000.0, "1/s";

        /// Lookups per second for connections accepted, in the interrupt that brings the packet:
        /// 14081 in 30 s.
        pub(super) interrupt_accept_rate: f64 = 469.37 in 0.0..=10_000.0, "1/s";

        /// Share of the interrupts' lookups on one CPU. The article does not tell it; this one
        /// makes that CPU as busy as the article says. Of the interrupts on the two CPUs that
        /// receive (mpstat) it has 0.76 after boot, 0.41 after 14 days.
        pub(super) interrupt_share: f64 = 0.48 in 0.0..=1.0;

        /// CPUs.
        pub(super) cpus: u32 = 24 in 2..=256;

        /// The CPU to which the interrupts of the outer network interface are bound. Threads keep
        /// away from it.
        pub(super) interrupt_cpu: u32 = 23 in 0..=255;

        /// Load average without lookups: CPUs that threads use, over all. Case B: 2.5 hours after
        /// boot.
        pub(super) base_load: f64 = 0.19 in 0.0..=100.0;

        /// How busy interrupts keep interrupt_cpu without lookups. Case B: 2.5 hours after boot.
        base_interrupt: f64 = 5.0 in 0.0..=100.0, "%";

        /// Packets per second that come to interrupt_cpu; one that comes while it is in an interrupt makes none of
        /// its own. From the 3,329 interrupts per second of mpstat 2.5 hours after boot, ÷ the 95 % in which it is in
        /// none. It changes what is counted, no time.
        pub(super) packet_rate: f64 = 3_504.0 in 0.0..=1e6, "1/s";

        // The kernel.

        /// Time to pass one entry of a chain; most lie outside of the caches. Makes the lookup of
        /// case B 2.9 ms if all lookups walk whole chains; if entries that are found lie anywhere,
        /// 60 ns do the same.
        pub(super) entry_walk: f64 = 30.0 in 0.1..=1_000.0, "ns";

        /// Buckets of the destination cache, a power of two. 256 in the kernel of case B, where it
        /// cannot be set; 1024 and set in /etc/system since 2012.
        pub(super) ip_dce_hash_size: u32 = 256 in 1..=1_048_576;

        /// Entries in a bucket from which on the cache is reclaimed. 0: the kernel of case B, which
        /// reclaims only when memory is low. The kernel of 2012 has 32.
        pub(super) dce_reclaim_threshold as "_dce_reclaim_threshold": u32 = 0 in 0..=100_000;

        /// A reclaim deletes one entry in so many.
        pub(super) dce_reclaim_fraction as "_dce_reclaim_fraction": u32 = 3 in 1..=8;

        /// 0: the lookup that meets a bucket above the threshold reclaims. Else the later kernel,
        /// whose worker reclaims at such an interval and leaves at most twice the threshold in a
        /// bucket. That one no longer frees entries when memory is low.
        pub(super) ip_dce_reclaim_interval: u64 = 0 in 0..=3_600, "s";

        /// The work-around: for so long, just before it is looked at, lotsfree is above freemem, so
        /// that the kernel takes memory for low. It then has its caches reclaimed once, and again
        /// every 15 s.
        lotsfree_raised: f64 = 0.0 in 0.0..=3_600.0, "s";

        // How it is recorded.

        /// Samples of each CPU per second. They change nothing.
        pub(super) profile_rate: u64 = 97 in 1..=997, "1/s";
    }
}

pub(super) const S: u64 = 1_000_000_000;
pub(super) const DAY_S: f64 = 86_400.0;
/// How often the memory allocator has its caches reclaimed while memory is low (kmem_reap_interval).
const REAP_INTERVAL_S: f64 = 15.0;
/// At most so many times the threshold stay in a bucket (ip_dce_reclaim_threshold_hard).
const HARD: u32 = 2;

impl Params {
    /// Whether the values go together; the error says which do not.
    pub(super) fn together(&self) -> Result<(), Error> {
        Error::together(
            self.ip_dce_hash_size.is_power_of_two(),
            format!(
                "ip_dce_hash_size={}: allowed is a power of two",
                self.ip_dce_hash_size
            ),
        )?;
        Error::together(
            self.interrupt_cpu < self.cpus,
            format!(
                "interrupt_cpu={}: allowed is 0 to {}, as there are {} CPUs",
                self.interrupt_cpu,
                self.cpus - 1,
                self.cpus
            ),
        )?;
        Error::together(
            self.new_destinations <= self.lookups(),
            format!(
                "new_destinations={}: allowed is at most the lookups per second, which are {:.1}",
                self.new_destinations,
                self.lookups()
            ),
        )?;
        Error::together(
            self.base_load <= f64::from(self.cpus),
            format!(
                "base_load={}: allowed is at most the number of CPUs, which is {}",
                self.base_load, self.cpus
            ),
        )?;
        Ok(())
    }

    /// Lookups per second.
    pub(super) fn lookups(&self) -> f64 {
        self.thread_lookups() + self.interrupt_accept_rate
    }

    /// Those in threads.
    pub(super) fn thread_lookups(&self) -> f64 {
        self.connect_rate + self.worker_accept_rate
    }

    /// Those in interrupts on `interrupt_cpu`.
    pub(super) fn interrupt_cpu_lookups(&self) -> f64 {
        self.interrupt_accept_rate * self.interrupt_share
    }

    /// Lookups per second of a CPU, in threads and in interrupts: of the interrupts', or another.
    pub(super) fn lookups_of_cpu(&self, interrupts: bool) -> (f64, f64) {
        let others = f64::from(self.cpus - 1);
        let here = self.interrupt_cpu_lookups();
        if interrupts {
            (0.0, here)
        } else {
            (
                self.thread_lookups() / others,
                (self.interrupt_accept_rate - here) / others,
            )
        }
    }

    /// Share of the lookups that are for an address never seen.
    pub(super) fn new_share(&self) -> f64 {
        match self.lookups() {
            0.0 => 0.0,
            lookups => self.new_destinations / lookups,
        }
    }

    /// Share of `interrupt_cpu` that interrupts take without lookups.
    pub(super) fn base_interrupt(&self) -> f64 {
        self.base_interrupt / 100.0
    }

    /// Share of each other CPU that threads take without lookups.
    pub(super) fn base_threads(&self) -> f64 {
        (self.base_load / f64::from(self.cpus - 1)).min(1.0)
    }

    pub(super) fn uptime_s(&self) -> f64 {
        self.uptime * DAY_S
    }

    pub(super) fn uptime_ns(&self) -> u64 {
        (self.uptime_s() * S as f64).round() as u64
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.duration * S
    }

    /// Time to pass so many entries, ns.
    pub(super) fn walk_ns(&self, entries: u64) -> u64 {
        (entries as f64 * self.entry_walk).round() as u64
    }

    /// The kernel reclaims what has outgrown a threshold.
    pub(super) fn reclaims(&self) -> bool {
        self.dce_reclaim_threshold > 0
    }

    /// The lookup that meets too full a bucket reclaims.
    pub(super) fn reclaims_inline(&self) -> bool {
        self.reclaims() && self.ip_dce_reclaim_interval == 0
    }

    /// The most that a reclaim leaves in a bucket.
    pub(super) fn most_kept(&self) -> Option<u32> {
        (self.ip_dce_reclaim_interval > 0 && self.reclaims())
            .then(|| self.dce_reclaim_threshold * HARD)
    }

    /// Probability that a reclaim leaves an entry.
    pub(super) fn stays(&self) -> f64 {
        1.0 - 1.0 / f64::from(self.dce_reclaim_fraction)
    }

    /// Reclaims of the work-around.
    pub(super) fn reclaims_for_memory(&self) -> u32 {
        if self.lotsfree_raised > 0.0 && self.ip_dce_reclaim_interval == 0 {
            1 + (self.lotsfree_raised / REAP_INTERVAL_S) as u32
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::illumos_dce::MODEL;
    use crate::simulation::Simulation;
    use crate::testing::Set;

    #[test]
    fn values_that_do_not_go_together_are_one_line() {
        for (set, says) in [
            (
                "ip_dce_hash_size=1000",
                "ip_dce_hash_size=1000: allowed is a power of two",
            ),
            (
                "interrupt_cpu=24",
                "interrupt_cpu=24: allowed is 0 to 23, as there are 24 CPUs",
            ),
            ("base_load=30", "at most the number of CPUs, which is 24"),
        ] {
            let error = Params::refused(&[set]);
            assert!(error.contains(says), "{error}");
        }
        let few = Params::refused(&[
            "connect_rate=0",
            "worker_accept_rate=0",
            "interrupt_accept_rate=9",
        ]);
        assert!(few.contains("at most the lookups per second"), "{few}");
    }

    #[test]
    fn values_that_cannot_be_are_one_line_with_the_range() {
        for (set, says) in [
            ("ip_dce_hash_size=0", "allowed is 1 to 1048576, whole"),
            ("new_destinations=-1", "allowed is 0 to 200 1/s"),
            (
                "_dce_reclaim_threshold=1.5",
                "allowed is 0 to 100000, whole",
            ),
            ("uptime=100", "allowed is 0.001 to 60 d"),
            ("buckets=1", "illumos-dce has no parameter `buckets`"),
        ] {
            let error = Params::refused(&[set]);
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn memory_that_is_low_for_two_seconds_is_one_reclaim() {
        assert_eq!(Params::with(&[]).reclaims_for_memory(), 0);
        assert_eq!(
            Params::with(&["lotsfree_raised=2"]).reclaims_for_memory(),
            1
        );
        assert_eq!(
            Params::with(&["lotsfree_raised=180"]).reclaims_for_memory(),
            13
        );
        // The kernel with the worker has no such callback.
        let later = ["lotsfree_raised=2", "ip_dce_reclaim_interval=60"];
        assert_eq!(Params::with(&later).reclaims_for_memory(), 0);
    }

    #[test]
    fn presets_are_sound() {
        let parameters = MODEL.parameters().unwrap();
        for preset in &parameters.presets {
            Params::of(&parameters.preset(&preset.name).unwrap()).unwrap();
        }
    }
}

//! The parameters of the model, and what follows from them.

use crate::Error;
use crate::parameters::params;

params! {
    /// The parameters of illumos-time-wait. Tunings have the kernel's own names (ndd /dev/tcp) and
    /// defaults.
    pub(super) struct Params {
        // The load.

        /// How long is simulated. The load begins with an empty TIME_WAIT list.
        pub(super) duration: u64 = 20 in 1..=3_600, "s";

        /// When the load begins, into the first second of netstat.
        pub(super) start: f64 = 0.17 in 0.0..=1.0, "s";

        /// So many seconds at the beginning are left out of the figures, but not of the seconds.
        pub(super) warm_up: u64 = 0 in 0..=3_600, "s";

        /// Closed-loop clients: each connects anew as soon as its connection is closed.
        pub(super) clients: u32 = 100 in 0..=10_000;

        /// The closed-loop clients stop after so many connects of theirs in all (ab -n); 0: never.
        pub(super) connects: u64 = 0 in 0..=100_000_000;

        /// Requests of an open load, each with a connection of its own, at random moments
        /// (Poisson).
        pub(super) request_rate: f64 = 0.0 in 0.0..=50_000.0, "1/s";

        /// Requests over each connection of a closed-loop client; more than 1 is HTTP keep-alive.
        pub(super) requests_per_connection: u32 = 1 in 1..=1_000_000;

        /// Bytes of one request.
        pub(super) request_bytes: u32 = 82 in 1..=100_000, "bytes";

        /// Requests that the server's one thread answers per second; they wait in the order of
        /// arrival.
        pub(super) capacity: f64 = 5_850.0 in 1.0..=100_000.0, "1/s";

        /// One way between client and server.
        pub(super) path_delay: f64 = 5.0 in 0.0..=100_000.0, "us";

        /// Source addresses over which the clients are spread.
        pub(super) client_addresses: u32 = 1 in 1..=1_000;

        /// 1: each client address is a host of its own, with its own sequence numbers; 0: all are
        /// on the server's host, over loopback.
        separate_hosts: u64 = 0 in 0..=1;

        /// Connections per second that the connecting host opens or accepts besides (Poisson): each
        /// draws an initial sequence number.
        pub(super) background_iss_rate: f64 = 0.0 in 0.0..=100_000.0, "1/s";

        /// Share of the connects that come from hosts whose tcp_rexmit_interval_initial is 3000.
        pub(super) older_clients: f64 = 0.0 in 0.0..=1.0;

        /// Probability that the reset which would end a TIME_WAIT is lost or filtered.
        pub(super) reset_loss: f64 = 0.0 in 0.0..=1.0;

        // The kernel.

        /// Initial sequence numbers: 0 counter and seconds, 1 counter, nanoseconds and a random
        /// part, 2 as 1 and a hash of the connection's ends.
        pub(super) tcp_strong_iss: u64 = 1 in 0..=2;

        /// Half of it is added to the counter for every connection opened and for every one
        /// accepted.
        pub(super) tcp_iss_incr: u32 = 250_000 in 1..=250_000;

        /// Lowest port that connect() chooses.
        pub(super) tcp_smallest_anon_port: u16 = 32_768 in 1_024..=65_535;

        /// Highest port that connect() chooses.
        pub(super) tcp_largest_anon_port: u16 = 65_535 in 1_024..=65_535;

        /// 1: the search for a port begins at a random one; 0: at the one after the last.
        tcp_random_anon_port: u64 = 1 in 0..=1;

        /// How long a connection stays in TIME_WAIT.
        pub(super) tcp_time_wait_interval: u64 = 60_000 in 1_000..=600_000, "ms";

        /// Interval at which expired TIME_WAITs are collected: one stays until the next multiple of
        /// it. 0: exactly tcp_time_wait_interval.
        pub(super) time_wait_collector: u64 = 5_000 in 0..=60_000, "ms";

        /// 1: the later kernel, in which a loopback connection does not enter TIME_WAIT.
        loopback_fix: u64 = 0 in 0..=1;

        /// Receive window of a TIME_WAIT, before rounding up to whole segments.
        pub(super) tcp_recv_hiwat: u32 = 128_000 in 2_048..=1_073_741_824, "bytes";

        /// From it the first retransmission timeout follows: 1.125 times as long.
        pub(super) tcp_rexmit_interval_initial: u64 = 1_000 in 1..=20_000, "ms";

        /// The least retransmission timeout.
        pub(super) tcp_rexmit_interval_min: u64 = 400 in 1..=20_000, "ms";

        /// The greatest retransmission timeout.
        pub(super) tcp_rexmit_interval_max: u64 = 60_000 in 1..=7_200_000, "ms";
    }
}

/// tcp_rexmit_interval_initial of the older hosts, ms.
pub(super) const OLDER_INITIAL_MS: u64 = 3_000;
/// A segment over loopback carries 8 kB.
const LOOPBACK_MSS: u32 = 8_192;

pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000_000_000;

impl Params {
    /// Whether the values go together; the error says which do not.
    pub(super) fn together(&self) -> Result<(), Error> {
        Error::together(
            self.tcp_smallest_anon_port < self.tcp_largest_anon_port,
            format!(
                "tcp_smallest_anon_port={}: allowed is less than tcp_largest_anon_port, which is {}",
                self.tcp_smallest_anon_port, self.tcp_largest_anon_port
            ),
        )?;
        let most = self.ports() * self.client_addresses / 2;
        Error::together(
            self.clients <= most,
            format!(
                "clients={}: allowed is 0 to {most}, half of the ports that {} addresses have",
                self.clients, self.client_addresses
            ),
        )?;
        Error::together(
            self.warm_up < self.duration,
            format!(
                "warm_up={}: allowed is less than the duration, which is {} s",
                self.warm_up, self.duration
            ),
        )?;
        Error::together(
            self.tcp_rexmit_interval_min <= self.tcp_rexmit_interval_max,
            format!(
                "tcp_rexmit_interval_min={}: allowed is at most tcp_rexmit_interval_max, which is {}",
                self.tcp_rexmit_interval_min, self.tcp_rexmit_interval_max
            ),
        )?;
        Ok(())
    }

    /// Ports that connect() chooses from.
    pub(super) fn ports(&self) -> u32 {
        u32::from(self.tcp_largest_anon_port) - u32::from(self.tcp_smallest_anon_port) + 1
    }

    pub(super) fn loopback(&self) -> bool {
        self.separate_hosts == 0
    }

    pub(super) fn random_ports(&self) -> bool {
        self.tcp_random_anon_port == 1
    }

    /// Whether a connection leaves a TIME_WAIT.
    pub(super) fn leaves_time_wait(&self) -> bool {
        self.loopback_fix == 0 || !self.loopback()
    }

    /// Hosts that connect.
    pub(super) fn client_hosts(&self) -> u32 {
        if self.loopback() {
            1
        } else {
            self.client_addresses
        }
    }

    pub(super) fn service_ns(&self) -> u64 {
        (S as f64 / self.capacity).round() as u64
    }

    pub(super) fn delay_ns(&self) -> u64 {
        (self.path_delay * 1e3).round() as u64
    }

    pub(super) fn start_ns(&self) -> u64 {
        (self.start * S as f64).round() as u64
    }

    /// Whether figures are made of what begins at `at_ns`.
    pub(super) fn counts(&self, at_ns: u64) -> bool {
        at_ns >= self.warm_up * S
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.duration * S
    }

    /// The window in which a TIME_WAIT takes a SYN for data of its own connection, bytes.
    pub(super) fn window(&self) -> u32 {
        self.tcp_recv_hiwat.next_multiple_of(LOOPBACK_MSS)
    }

    /// When the TIME_WAIT of a connection that closed at `closed_ns` is collected.
    pub(super) fn expiry_ns(&self, closed_ns: u64) -> u64 {
        let exact = closed_ns + self.tcp_time_wait_interval * MS;
        match self.time_wait_collector {
            0 => exact,
            every => exact.next_multiple_of(every * MS),
        }
    }

    /// The timeout after the SYN that was sent for the `attempt`-th time (0 the first): smoothed
    /// round trip and deviation start at 4 and 1/2 of the initial interval, which makes
    /// 4/8 + 1/2 + 4/32 = 1.125 of it (tcp_init_values, tcp_timers.c); doubled each time.
    pub(super) fn timeout_ns(&self, older: bool, attempt: u32) -> u64 {
        let initial = if older {
            OLDER_INITIAL_MS
        } else {
            self.tcp_rexmit_interval_initial
        };
        let base = (initial * MS * 9 / 8).max(self.tcp_rexmit_interval_min * MS);
        let backed_off = base.saturating_mul(1 << attempt.min(32));
        backed_off.min(self.tcp_rexmit_interval_max * MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::illumos_time_wait::MODEL;
    use crate::simulation::Simulation;
    use crate::testing::Set;

    #[test]
    fn syns_are_sent_again_at_1_125_and_3_375_of_the_initial_interval() {
        let p = Params::with(&[]);
        let (first, second) = (p.timeout_ns(false, 0), p.timeout_ns(false, 1));
        assert_eq!((first, first + second), (1_125 * MS, 3_375 * MS));
        assert_eq!(p.timeout_ns(true, 0), 3_375 * MS);
        assert_eq!(p.timeout_ns(false, 40), 60_000 * MS);
        let tuned = [
            "tcp_rexmit_interval_initial=150",
            "tcp_rexmit_interval_min=25",
        ];
        assert_eq!(Params::with(&tuned).timeout_ns(false, 0), 168_750_000);
        // The minimum holds: 1.125 × 150 ms is below it.
        assert_eq!(Params::with(&tuned[..1]).timeout_ns(false, 0), 400 * MS);
    }

    #[test]
    fn time_wait_is_collected_at_multiples() {
        let p = Params::with(&[]);
        assert_eq!(p.expiry_ns(S), 65 * S);
        assert_eq!(p.expiry_ns(5 * S), 65 * S);
        assert_eq!(
            Params::with(&["time_wait_collector=0"]).expiry_ns(S),
            61 * S
        );
    }

    #[test]
    fn values_that_do_not_go_together_are_one_line() {
        let ports = Params::refused(&["tcp_smallest_anon_port=65535"]);
        assert!(
            ports.contains("allowed is less than tcp_largest_anon_port"),
            "{ports}"
        );
        let few = ["clients=200", "tcp_smallest_anon_port=65500"];
        let clients = Params::refused(&few);
        assert!(clients.contains("allowed is 0 to 18"), "{clients}");
        assert!(Params::try_with(&["tcp_rexmit_interval_max=100"]).is_err());
    }

    #[test]
    fn presets_are_sound() {
        let parameters = MODEL.parameters().unwrap();
        for preset in &parameters.presets {
            Params::of(&parameters.preset(&preset.name).unwrap()).unwrap();
        }
    }
}

//! The parameters of the model, and what follows from them.

use crate::Error;
use crate::parameters::params;

params! {
    /// The parameters of freebsd-tcptw. Tunings have the kernel's own names (sysctl) and the
    /// defaults of FreeBSD 6.
    pub(super) struct Params {
        // The load: services that others connect to, and connections that this host makes.

        /// How long is simulated.
        pub(super) duration: u64 = 120 in 1..=36_000, "s";

        /// So long the same load has been there before: the lists fill in it.
        pub(super) lead_in: u64 = 240 in 0..=3_600, "s";

        /// Every rate is multiplied by it.
        pub(super) load: f64 = 1.0 in 0.0..=20.0;

        /// Where the first service listens; the other four listen on the next ports.
        pub(super) service_port: u16 = 60_000 in 1_024..=65_500;

        /// Connections per second to service 1 (Poisson). Chosen: it leaves the 5,501 TIME_WAITs
        /// that case E purges at one port.
        rate_1: f64 = 91.683 in 0.0..=5_000.0, "1/s";

        /// How long a connection to service 1 is open on average. Chosen: it gives the 64,984,631
        /// list entries of case E.
        dwell_1: f64 = 129.16 in 0.0..=600.0, "s";

        /// Connections per second to service 2 (Poisson). Chosen: it leaves the 524 TIME_WAITs that
        /// case E purges at one port.
        rate_2: f64 = 8.7333 in 0.0..=5_000.0, "1/s";

        /// How long a connection to service 2 is open on average. Chosen: it gives the 9,382 list
        /// entries of case E.
        dwell_2: f64 = 1.9318 in 0.0..=600.0, "s";

        /// Connections per second to service 3 (Poisson). Chosen: it leaves the 9,836 TIME_WAITs
        /// that case E purges at one port.
        rate_3: f64 = 163.933 in 0.0..=5_000.0, "1/s";

        /// How long a connection to service 3 is open on average. Chosen: it gives the 2,084,890
        /// list entries of case E.
        dwell_3: f64 = 1.2868 in 0.0..=600.0, "s";

        /// Connections per second to service 4 (Poisson). Chosen: it leaves the 20 TIME_WAITs that
        /// case E purges at one port.
        rate_4: f64 = 0.33333 in 0.0..=5_000.0, "1/s";

        /// How long a connection to service 4 is open on average. Chosen: it gives the 569 list
        /// entries of case E.
        dwell_4: f64 = 78.408 in 0.0..=600.0, "s";

        /// Connections per second to service 5 (Poisson). Chosen: it leaves the 745 TIME_WAITs that
        /// case E purges at one port.
        rate_5: f64 = 12.4167 in 0.0..=5_000.0, "1/s";

        /// How long a connection to service 5 is open on average. Chosen: it gives the 19,998 list
        /// entries of case E.
        dwell_5: f64 = 2.0785 in 0.0..=600.0, "s";

        /// Share of that time which is random (exponential); 0: each is open equally long.
        pub(super) spread: f64 = 0.05 in 0.0..=1.0;

        /// Bytes that the host sends over a connection.
        pub(super) reply_bytes: u32 = 20_000 in 0..=2_000_000_000, "bytes";

        /// Bytes that it receives.
        pub(super) request_bytes: u32 = 500 in 0..=2_000_000_000, "bytes";

        /// Packets that come in for a connection during its life.
        pub(super) packets: u32 = 10 in 1..=10_000;

        /// Connections per second that the host makes (Poisson). Chosen: with it all TIME_WAITs are
        /// the 25,000 of case E.
        outbound_rate: f64 = 140.0 in 0.0..=5_000.0, "1/s";

        /// How long each of them is open on average. Chosen: with it all connections are the
        /// 40,000 of case E.
        pub(super) outbound_life: f64 = 20.0 in 0.0..=600.0, "s";

        /// Share of them that this host closes first, which leaves the TIME_WAIT here.
        pub(super) outbound_first: f64 = 1.0 in 0.0..=1.0;

        /// Processes that make them, in turn; each calls connect() without waiting for the
        /// handshake.
        pub(super) workers: u32 = 4 in 1..=1_000;

        /// About where the search for a port has come to when the recording begins.
        pub(super) next_port: u16 = 50_000 in 1_024..=65_535;

        // The kernel.

        /// 1: in_pcblookup_local() ends TIME_WAITs that it passes (in_pcb.c 1.125); 0: backed out.
        purge_in_lookup: u64 = 1 in 0..=1;

        /// 1: after each of them it begins again at the head of the list; 0: it goes on. (A theory;
        /// the kernel restarts.)
        restart: u64 = 1 in 0..=1;

        /// What an entry of a list costs. Chosen: 30 with all of it in the cache, 100 with none.
        pub(super) hop: f64 = 60.0 in 1.0..=10_000.0, "ns";

        /// Lowest port that connect() chooses.
        pub(super) first as "net.inet.ip.portrange.first": u16 = 49_152 in 1_024..=65_535;

        /// Highest port that connect() chooses.
        pub(super) last as "net.inet.ip.portrange.last": u16 = 65_535 in 1_024..=65_535;

        /// 1: the search for a port begins at a random one, unless randomcps forbids it.
        pub(super) randomized as "net.inet.ip.portrange.randomized": u64 = 1 in 0..=1;

        /// With more ports chosen in a second than this, it begins at the one after the last.
        pub(super) randomcps as "net.inet.ip.portrange.randomcps": u64 = 10 in 0..=1_000_000, "1/s";

        /// It begins at a random one again when there were no more for so long.
        pub(super) randomtime as "net.inet.ip.portrange.randomtime": u64 = 45 in 0..=3_600, "s";

        /// Half of the time that a connection stays in TIME_WAIT.
        pub(super) msl as "net.inet.tcp.msl": u64 = 30_000 in 1..=600_000, "ms";

        /// Packets that may wait while TCP cannot take them; the others are dropped.
        pub(super) intr_queue_maxlen as "net.inet.ip.intr_queue_maxlen": u64 = 50 in 0..=100_000;
    }
}

pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000_000_000;

/// Services: as many as case E's connect() met.
pub(super) const SERVICES: u16 = 5;
/// tcp_twrecycleable: what an initial sequence number is taken to advance per second, this host's own
/// (ISN_BYTES_PER_SECOND) and the other side's (MS_ISN_BYTES_PER_SECOND).
const OWN_ISN_PER_S: u64 = 1_048_576;
const OTHER_ISN_PER_S: u64 = 250_000;

impl Params {
    /// Whether the values go together; the error says which do not.
    pub(super) fn together(&self) -> Result<(), Error> {
        Error::together(
            self.first < self.last,
            format!(
                "net.inet.ip.portrange.first={}: allowed is less than net.inet.ip.portrange.last, \
                 which is {}",
                self.first, self.last
            ),
        )?;
        // All of them are kept, and a mistyped load must not take the memory of the host.
        let open = |(rate, dwell): (f64, f64)| rate * (dwell + self.time_wait_ns() as f64 / 1e9);
        let pcbs: f64 = self.services().map(open).sum::<f64>()
            + open((self.outbound_rate(), self.outbound_life)).min(f64::from(self.ports()));
        Error::together(
            pcbs <= MOST_PCBS,
            format!(
                "load={}: allowed are rates that make at most {MOST_PCBS} connections open or in \
                 TIME_WAIT at once, and these make {pcbs:.0}",
                self.load
            ),
        )?;
        Ok(())
    }

    /// Connections per second to each service, and how long each is open on average, s.
    pub(super) fn services(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = [
            (self.rate_1, self.dwell_1),
            (self.rate_2, self.dwell_2),
            (self.rate_3, self.dwell_3),
            (self.rate_4, self.dwell_4),
            (self.rate_5, self.dwell_5),
        ];
        let load = self.load;
        all.into_iter()
            .map(move |(rate, dwell)| (rate * load, dwell))
    }

    /// One of them, from 0 on; none beyond.
    pub(super) fn service(&self, nth: u16) -> (f64, f64) {
        self.services().nth(nth.into()).unwrap_or((0.0, 0.0))
    }

    pub(super) fn outbound_rate(&self) -> f64 {
        self.outbound_rate * self.load
    }

    /// Ports that connect() chooses from.
    pub(super) fn ports(&self) -> u32 {
        u32::from(self.last) - u32::from(self.first) + 1
    }

    pub(super) fn purges(&self) -> bool {
        self.purge_in_lookup == 1
    }

    pub(super) fn restarts(&self) -> bool {
        self.restart == 1
    }

    pub(super) fn time_wait_ns(&self) -> u64 {
        2 * self.msl * MS
    }

    /// When the recording begins, on the simulation's clock.
    pub(super) fn origin_ns(&self) -> u64 {
        self.lead_in * S
    }

    pub(super) fn end_ns(&self) -> u64 {
        (self.lead_in + self.duration) * S
    }

    /// What a walk past so many entries takes, ns.
    pub(super) fn walk_ns(&self, passed: u64) -> u64 {
        (passed as f64 * self.hop).round() as u64
    }

    /// Packets that come in per second.
    pub(super) fn packets_per_s(&self) -> f64 {
        let rate = self.services().map(|(rate, _)| rate).sum::<f64>() + self.outbound_rate();
        rate * f64::from(self.packets)
    }

    /// From which age on a connection's TIME_WAIT may be ended (tcp_twrecycleable), ns: the sequence
    /// numbers of a new one would be beyond those used. SYN and FIN count as one each.
    pub(super) fn recyclable_after_ns(&self, sent: u32, received: u32) -> u64 {
        let until = |bytes: u32, per_s: u64| (u64::from(bytes) + 2) * S / per_s;
        until(sent, OWN_ISN_PER_S).max(until(received, OTHER_ISN_PER_S))
    }
}

/// Connections kept at most, about 100 MB.
const MOST_PCBS: f64 = 3e6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;
    use crate::testing::Set;

    #[test]
    fn a_time_wait_is_recyclable_when_its_sequence_numbers_are_behind() {
        let p = Params::with(&[]);
        // A reply of 20 kB: 19 ms.
        assert_eq!(p.recyclable_after_ns(20_000, 500) / MS, 19);
        // What was received counts four times as much.
        assert_eq!(p.recyclable_after_ns(0, 249_998), S);
        assert_eq!(p.recyclable_after_ns(1_048_574, 0), S);
    }

    #[test]
    fn values_that_do_not_go_together_are_one_line() {
        let wrong = |set: &[&str]| Params::refused(set);
        let range = wrong(&["net.inet.ip.portrange.first=65535"]);
        assert!(
            range.ends_with("less than net.inet.ip.portrange.last, which is 65535"),
            "{range}"
        );
        let load = wrong(&["rate_1=5000", "dwell_1=600", "load=20"]);
        assert!(load.starts_with("load=20: allowed are rates"), "{load}");
        for (set, says) in [
            ("hop=0", "hop=0: allowed is 1 to 10000 ns"),
            ("rate_3=-1", "rate_3=-1: allowed is 0 to 5000 1/s"),
            ("restart=2", "restart=2: allowed is 0 to 1, whole"),
        ] {
            assert_eq!(wrong(&[set]), says);
        }
    }

    #[test]
    fn presets_are_sound() {
        let parameters = super::super::MODEL.parameters().unwrap();
        for preset in &parameters.presets {
            Params::of(&parameters.preset(&preset.name).unwrap()).unwrap();
        }
    }
}

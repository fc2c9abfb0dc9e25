//! The parameters of the model, typed, and what follows from them.

use serde::Deserialize;

use crate::{Error, Values};

/// As in `parameters.toml`, which says what each is and its unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Params {
    pub(super) duration: u64,
    pub(super) lead_in: u64,
    pub(super) load: f64,
    pub(super) service_port: u16,
    rate_1: f64,
    rate_2: f64,
    rate_3: f64,
    rate_4: f64,
    rate_5: f64,
    dwell_1: f64,
    dwell_2: f64,
    dwell_3: f64,
    dwell_4: f64,
    dwell_5: f64,
    pub(super) spread: f64,
    pub(super) reply_bytes: u32,
    pub(super) request_bytes: u32,
    pub(super) packets: u32,
    outbound_rate: f64,
    pub(super) outbound_life: f64,
    pub(super) outbound_first: f64,
    pub(super) workers: u32,
    pub(super) next_port: u16,
    purge_in_lookup: u64,
    restart: u64,
    pub(super) hop: f64,
    #[serde(rename = "net.inet.ip.portrange.first")]
    pub(super) first: u16,
    #[serde(rename = "net.inet.ip.portrange.last")]
    pub(super) last: u16,
    #[serde(rename = "net.inet.ip.portrange.randomized")]
    pub(super) randomized: u64,
    #[serde(rename = "net.inet.ip.portrange.randomcps")]
    pub(super) randomcps: u64,
    #[serde(rename = "net.inet.ip.portrange.randomtime")]
    pub(super) randomtime: u64,
    #[serde(rename = "net.inet.tcp.msl")]
    pub(super) msl: u64,
    #[serde(rename = "net.inet.ip.intr_queue_maxlen")]
    pub(super) intr_queue_maxlen: u64,
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
    pub(super) fn of(values: &Values) -> Result<Params, Error> {
        let p: Params = values.typed()?;
        Error::together(
            p.first < p.last,
            format!(
                "net.inet.ip.portrange.first={}: allowed is less than net.inet.ip.portrange.last, \
                 which is {}",
                p.first, p.last
            ),
        )?;
        // All of them are kept, and a mistyped load must not take the memory of the host.
        let open = |(rate, dwell): (f64, f64)| rate * (dwell + p.time_wait_ns() as f64 / 1e9);
        let pcbs: f64 = p.services().map(open).sum::<f64>()
            + open((p.outbound_rate(), p.outbound_life)).min(f64::from(p.ports()));
        Error::together(
            pcbs <= MOST_PCBS,
            format!(
                "load={}: allowed are rates that make at most {MOST_PCBS} connections open or in \
                 TIME_WAIT at once, and these make {pcbs:.0}",
                p.load
            ),
        )?;
        Ok(p)
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
    use super::super::testing::{params, try_params};
    use super::*;

    #[test]
    fn a_time_wait_is_recyclable_when_its_sequence_numbers_are_behind() {
        let p = params(&[]);
        // A reply of 20 kB: 19 ms.
        assert_eq!(p.recyclable_after_ns(20_000, 500) / MS, 19);
        // What was received counts four times as much.
        assert_eq!(p.recyclable_after_ns(0, 249_998), S);
        assert_eq!(p.recyclable_after_ns(1_048_574, 0), S);
    }

    #[test]
    fn values_that_do_not_go_together_are_one_line() {
        let wrong = |set: &[&str]| try_params(set).unwrap_err().to_string();
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

//! A socket's details in the words of `ss -tin`, and what is derived from them.

use recording::tables::Socket;

use crate::numbers::bits_per_s;

/// A slow-start threshold that was never set.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// The time since something that never happened.
const NEVER_MS: u32 = u32::MAX / 1000;

/// What the kernel does not say but its numbers tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Derived {
    /// cwnd × mss ÷ rtt: what the window lets through.
    pub(crate) send_bits_per_s: Option<u64>,
    /// Segments delivered in the last rate sample ÷ its time.
    pub(crate) delivery_bits_per_s: Option<u64>,
    /// Pacing rate ÷ send rate: the kernel means 2 in slow start and 1.2 after it.
    pub(crate) pacing_ratio: Option<f64>,
    /// Share of the busy time that waited for the peer's window.
    pub(crate) rwnd_limited_percent: Option<f64>,
    /// Share of the busy time that waited for the send buffer.
    pub(crate) sndbuf_limited_percent: Option<f64>,
}

/// Bits a second that a window of `cwnd` segments lets through.
fn send_bits_per_s(cwnd: u32, mss: u32, rtt_us: u32) -> Option<f64> {
    (rtt_us > 0).then(|| f64::from(cwnd) * f64::from(mss) * 8e6 / f64::from(rtt_us))
}

impl Derived {
    pub(crate) fn of(s: &Socket) -> Derived {
        let send = match (s.cwnd, s.snd_mss, s.rtt_us) {
            (Some(cwnd), Some(mss), Some(rtt)) => send_bits_per_s(cwnd, mss, rtt),
            _ => None,
        };
        let delivery = match (s.rate_delivered, s.snd_mss, s.rate_interval_us) {
            (Some(n), Some(mss), Some(us)) => send_bits_per_s(n, mss, us),
            _ => None,
        };
        let paced = s.pacing_rate.filter(|rate| *rate != u64::MAX && *rate > 0);
        let ratio = |rate: u64| {
            let send = send.filter(|send| *send > 0.0)?;
            Some((rate as f64 * 8.0 / send * 100.0).round() / 100.0)
        };
        let share = |us: Option<u64>| {
            let busy = s.busy_us.filter(|busy| *busy > 0)?;
            Some((us? as f64 * 1000.0 / busy as f64).round() / 10.0)
        };
        let whole = |rate: f64| rate as u64;
        Derived {
            send_bits_per_s: send.map(whole),
            delivery_bits_per_s: delivery.filter(|rate| *rate > 0.0).map(whole),
            pacing_ratio: paced.and_then(ratio),
            rwnd_limited_percent: share(s.rwnd_limited_us),
            sndbuf_limited_percent: share(s.sndbuf_limited_us),
        }
    }
}

/// The details in the order of `ss`; what is zero there is left out here, too.
pub(crate) fn words(s: &Socket, d: &Derived) -> String {
    let mut all = Words(String::new());
    all.flag(s.timestamps, "ts");
    all.flag(s.sack, "sack");
    all.flag(s.ecn, "ecn");
    all.add(s.congestion.as_deref().filter(|c| !c.is_empty()));
    if s.window_scaling == Some(true) {
        all.pair("wscale", s.snd_wscale.zip(s.rcv_wscale), ',');
    }
    all.ms("rto", s.rto_us);
    all.some("backoff", s.backoff);
    if let (Some(rtt), Some(var)) = (s.rtt_us, s.rttvar_us) {
        all.add(Some(&format!("rtt:{}/{}", ms(rtt), ms(var))));
    }
    all.ms("ato", s.ato_us.filter(|us| *us > 0));
    all.some("mss", s.snd_mss);
    all.some("pmtu", s.pmtu);
    all.some("rcvmss", s.rcv_mss);
    all.some("advmss", s.advmss);
    all.some("cwnd", s.cwnd);
    all.some("ssthresh", s.snd_ssthresh.filter(|v| *v < NO_SSTHRESH));
    all.some("bytes_sent", s.bytes_sent);
    all.some("bytes_retrans", s.bytes_retrans);
    all.some("bytes_acked", s.bytes_acked);
    all.some("bytes_received", s.bytes_received);
    all.some("segs_out", s.segs_out);
    all.some("segs_in", s.segs_in);
    all.some("data_segs_out", s.data_segs_out);
    all.some("data_segs_in", s.data_segs_in);
    all.rate("send", d.send_bits_per_s);
    let ever = |ms: Option<u32>| ms.filter(|ms| *ms < NEVER_MS);
    all.some("lastsnd", ever(s.last_data_sent_ms));
    all.some("lastrcv", ever(s.last_data_recv_ms));
    all.some("lastack", ever(s.last_ack_recv_ms));
    let paced = s.pacing_rate.filter(|r| *r != u64::MAX && *r > 0);
    all.rate("pacing_rate", paced.map(|r| r.saturating_mul(8)));
    if let Some(ratio) = d.pacing_ratio {
        all.add(Some(&format!("pacing_ratio:{ratio}")));
    }
    all.rate("delivery_rate", d.delivery_bits_per_s);
    all.some("delivered", s.delivered);
    all.some("delivered_ce", s.delivered_ce);
    all.flag(s.rate_app_limited, "app_limited");
    if let Some(us) = s.busy_us.filter(|us| *us > 0) {
        all.add(Some(&format!("busy:{}ms", us / 1000)));
    }
    all.limited("rwnd_limited", s.rwnd_limited_us, d.rwnd_limited_percent);
    all.limited(
        "sndbuf_limited",
        s.sndbuf_limited_us,
        d.sndbuf_limited_percent,
    );
    all.some("unacked", s.unacked);
    if let (Some(now), Some(total)) = (s.retrans, s.total_retrans)
        && (now, total) != (0, 0)
    {
        all.add(Some(&format!("retrans:{now}/{total}")));
    }
    all.some("lost", s.lost);
    all.some("sacked", s.sacked);
    all.some("dsack_dups", s.dsack_dups);
    all.some("reordering", s.reordering.filter(|n| *n != 3));
    all.some("reord_seen", s.reord_seen);
    all.ms("rcv_rtt", s.rcv_rtt_us.filter(|us| *us > 0));
    all.some("rcv_space", s.rcv_space);
    all.some("rcv_ssthresh", s.rcv_ssthresh);
    all.some("notsent", s.notsent_bytes);
    all.ms("minrtt", s.min_rtt_us.filter(|us| *us > 0));
    all.some("rcv_ooopack", s.rcv_ooopack);
    all.some("snd_wnd", s.snd_wnd);
    all.some("rcv_wnd", s.rcv_wnd);
    all.some("drops", s.drops);
    all.some("rehash", s.timeout_rehash);
    all.some("total_rto", s.total_rto);
    all.some("total_rto_recoveries", s.total_rto_recoveries);
    if let Some(ms) = s.total_rto_time_ms.filter(|ms| *ms > 0) {
        all.add(Some(&format!("total_rto_time:{ms}ms")));
    }
    all.some("received_ce", s.received_ce);
    all.flag(s.nodelay, "nodelay");
    all.flag(s.corked, "corked");
    let trouble = s.ca_state.as_deref().filter(|state| *state != "Open");
    if let Some(state) = trouble {
        all.add(Some(&format!("ca_state:{state}")));
    }
    all.0
}

fn ms(us: u32) -> String {
    let text = format!("{}.{:03}", us / 1000, us % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

struct Words(String);

impl Words {
    fn add(&mut self, word: Option<&str>) {
        if let Some(word) = word {
            if !self.0.is_empty() {
                self.0.push(' ');
            }
            self.0.push_str(word);
        }
    }
    fn flag(&mut self, flag: Option<bool>, name: &str) {
        self.add(Some(name).filter(|_| flag == Some(true)));
    }
    /// A number unless it is zero.
    fn some<N: ToString + Default + PartialEq>(&mut self, name: &str, value: Option<N>) {
        if let Some(value) = value.filter(|v| *v != N::default()) {
            self.add(Some(&format!("{name}:{}", value.to_string())));
        }
    }
    fn ms(&mut self, name: &str, us: Option<u32>) {
        if let Some(us) = us {
            self.add(Some(&format!("{name}:{}", ms(us))));
        }
    }
    fn pair(&mut self, name: &str, pair: Option<(u8, u8)>, between: char) {
        if let Some((a, b)) = pair {
            self.add(Some(&format!("{name}:{a}{between}{b}")));
        }
    }
    fn rate(&mut self, name: &str, rate: Option<u64>) {
        if let Some(rate) = rate.filter(|r| *r > 0) {
            self.add(Some(&format!("{name}:{}", bits_per_s(rate))));
        }
    }
    fn limited(&mut self, name: &str, us: Option<u64>, percent: Option<f64>) {
        if let (Some(us), Some(percent)) = (us.filter(|us| *us > 0), percent) {
            self.add(Some(&format!("{name}:{}ms({percent}%)", us / 1000)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The four send rates that `ss` printed in the article on SYN cookies, in Mbit/s.
    #[test]
    fn the_send_rates_of_the_article() {
        for (cwnd, mss, rtt_us, mbit) in [
            (10, 8940, 46, 15_547.8),
            (10, 8940, 2975, 240.4),
            (293, 1460, 183, 18_700.8),
            (10, 1440, 541, 212.9),
        ] {
            let rate = send_bits_per_s(cwnd, mss, rtt_us).unwrap() / 1e6;
            assert!((rate - mbit).abs() < 0.1, "{rate} for {mbit}");
        }
        assert_eq!(send_bits_per_s(10, 1440, 0), None);
    }

    #[test]
    fn pacing_is_told_against_the_send_rate() {
        let socket = |pacing_rate| Socket {
            cwnd: Some(10),
            snd_mss: Some(1440),
            rtt_us: Some(541),
            pacing_rate: Some(pacing_rate),
            ..Socket::default()
        };
        // 212.9 Mbit/s are 26.6 MB/s.
        let ratio = |rate| Derived::of(&socket(rate)).pacing_ratio;
        assert_eq!(ratio(53_235_000), Some(2.0));
        assert_eq!(ratio(31_941_000), Some(1.2));
        assert_eq!(ratio(u64::MAX), None, "not paced");
    }

    #[test]
    fn timeouts_are_told_as_ss_does() {
        let socket = Socket {
            timeout_rehash: Some(2),
            total_rto: Some(3),
            total_rto_recoveries: Some(1),
            total_rto_time_ms: Some(620),
            received_ce: Some(0),
            ..Socket::default()
        };
        let told = "rehash:2 total_rto:3 total_rto_recoveries:1 total_rto_time:620ms";
        assert_eq!(words(&socket, &Derived::default()), told);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let empty = Socket::default();
        assert_eq!(words(&empty, &Derived::of(&empty)), "");
        let some = Socket {
            rto_us: Some(204_000),
            rtt_us: Some(110),
            rttvar_us: Some(55),
            window_scaling: Some(true),
            snd_wscale: Some(7),
            rcv_wscale: Some(10),
            ..empty
        };
        assert_eq!(
            words(&some, &Derived::default()),
            "wscale:7,10 rto:204 rtt:0.11/0.055"
        );
    }
}

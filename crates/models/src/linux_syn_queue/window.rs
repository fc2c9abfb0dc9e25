//! The congestion window of one sender: slow start, CUBIC, and what a loss does to it.

/// Segments that a connection may send at first (TCP_INIT_CWND).
pub(super) const FIRST: f64 = 10.0;
/// After a loss the window is multiplied by this (CUBIC's beta, 717 of 1024).
const BETA: f64 = 717.0 / 1_024.0;
/// CUBIC's C, segments per second cubed.
const C: f64 = 0.4;
/// What Reno with that factor would gain per round trip, segments: 3 (1 - beta) / (1 + beta).
const RENO: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The slow-start threshold that was never set.
const UNSET: f64 = 2_147_483_647.0;

/// A congestion window, segments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    cwnd: f64,
    threshold: f64,
    /// CUBIC: the window before the last loss, when it began to grow again (s), how long it takes
    /// to be there again (s), and what Reno would have by now.
    before: f64,
    since: Option<f64>,
    back: f64,
    reno: f64,
}

impl Window {
    pub(super) fn new() -> Window {
        Window {
            cwnd: FIRST,
            threshold: UNSET,
            before: 0.0,
            since: None,
            back: 0.0,
            reno: 0.0,
        }
    }

    /// Whole segments.
    pub(super) fn segments(&self) -> u64 {
        self.cwnd as u64
    }

    /// The slow-start threshold, segments; 2147483647 when it was never set.
    pub(super) fn threshold(&self) -> u32 {
        self.threshold as u32
    }

    /// A round trip without loss ends at `now_s`: `sent` segments were acknowledged.
    pub(super) fn acknowledged(&mut self, now_s: f64, rtt_s: f64, sent: u64) {
        let sent = sent as f64;
        if self.cwnd < self.threshold {
            // tcp_is_cwnd_limited: in slow start it grows to twice what was in flight.
            let most = (2.0 * sent).min(self.threshold).max(self.cwnd);
            self.cwnd = (self.cwnd + sent).min(most);
            return;
        }
        // Later only while it is what holds the sender.
        if sent >= self.cwnd.floor() {
            self.avoid(now_s, rtt_s, sent);
        }
    }

    fn avoid(&mut self, now_s: f64, rtt_s: f64, sent: f64) {
        let since = *self.since.get_or_insert_with(|| {
            self.back = ((self.before - self.cwnd).max(0.0) / C).cbrt();
            self.before = self.before.max(self.cwnd);
            self.reno = self.cwnd;
            now_s - rtt_s
        });
        let aim = self.before + C * (now_s - since - self.back).powi(3);
        let aim = aim.min(1.5 * self.cwnd);
        let share = sent / self.cwnd;
        self.reno += RENO * share;
        self.cwnd += ((aim - self.cwnd) * share).max(0.01 * share);
        self.cwnd = self.cwnd.max(self.reno);
    }

    /// A loss was noticed by duplicate ACKs.
    pub(super) fn cut(&mut self) {
        // Fast convergence: who loses before it is back leaves room for others.
        self.before = if self.cwnd < self.before {
            self.cwnd * (1.0 + BETA) / 2.0
        } else {
            self.cwnd
        };
        self.threshold = (self.cwnd * BETA).max(2.0);
        self.cwnd = self.threshold;
        self.since = None;
    }

    /// A loss was noticed by the retransmission timer.
    pub(super) fn timeout(&mut self) {
        self.cut();
        self.cwnd = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many round trips of `rtt_s` with at most `most` segments in flight.
    fn rounds(window: &mut Window, most: u64, n: u32, rtt_s: f64) {
        for nth in 1..=n {
            let sent = window.segments().min(most);
            window.acknowledged(f64::from(nth) * rtt_s, rtt_s, sent);
        }
    }

    #[test]
    fn slow_start_stops_at_twice_what_the_receiver_lets_in_flight() {
        let mut window = Window::new();
        rounds(&mut window, 45, 4, 1e-3);
        assert_eq!(window.segments(), 90);
        rounds(&mut window, 45, 1_000, 1e-3);
        assert_eq!(window.segments(), 90);
    }

    /// After a loss at 1,280 segments.
    fn cut() -> Window {
        let mut window = Window::new();
        rounds(&mut window, 100_000, 7, 1e-3);
        assert_eq!(window.segments(), 1_280);
        window.cut();
        assert_eq!((window.segments(), window.threshold()), (896, 896));
        window
    }

    #[test]
    fn after_a_loss_it_grows_back_to_where_it_was() {
        // After the cube root of 384 / 0.4 s; Reno would take 725 round trips.
        let mut window = cut();
        rounds(&mut window, 100_000, 98, 0.1);
        assert!((1_270..=1_290).contains(&window.segments()), "{window:?}");
        // On a short path those are over sooner.
        let mut window = cut();
        rounds(&mut window, 100_000, 725, 1e-3);
        assert!((1_270..=1_290).contains(&window.segments()), "{window:?}");
        // Not while the receiver's window is what holds it.
        let mut window = cut();
        rounds(&mut window, 45, 10_000, 1e-3);
        assert_eq!(window.segments(), 896);
    }

    #[test]
    fn a_timeout_starts_over() {
        let mut window = cut();
        window.timeout();
        assert_eq!((window.segments(), window.threshold()), (1, 627));
        rounds(&mut window, 100_000, 10, 1e-3);
        assert_eq!(window.segments(), 627);
    }
}

//! A listening socket: its request queue, its accept queue, and what it answers a SYN.
//!
//! In the order of `tcp_conn_request` of Linux 4.x: cookies are decided on before the accept queue is
//! looked at, which drops the SYN even so.

use super::params::Params;

/// What waits at a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listener {
    /// Half-open connections: SYN received, not yet acknowledged by the client.
    pub(super) requests: u32,
    /// Connections that wait for accept().
    pub(super) waiting: u32,
}

/// What becomes of a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A SYN-ACK, and a request is kept.
    Kept,
    /// A SYN-ACK with a cookie; nothing is kept. Whether the queue was full.
    Cookie { full: bool },
    /// Nothing.
    Dropped(Full),
}

/// Why a SYN is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The request queue is full and cookies are off (TCPReqQFullDrop).
    Requests,
    /// The accept queue is full (ListenOverflows). Whether a cookie would have been sent.
    Accept { cookie: bool },
    /// Cookies are off, and the last quarter of tcp_max_syn_backlog is for known peers.
    LastQuarter,
}

impl Listener {
    /// A SYN arrives.
    pub(super) fn syn(&mut self, p: &Params) -> Answer {
        let full = self.requests >= p.most_requests();
        let cookie = p.tcp_syncookies == 2 || (full && p.tcp_syncookies == 1);
        if full && !cookie {
            return Answer::Dropped(Full::Requests);
        }
        if !self.has_room(p) {
            return Answer::Dropped(Full::Accept { cookie });
        }
        if cookie {
            return Answer::Cookie { full };
        }
        let (most, kept) = (p.tcp_max_syn_backlog, p.tcp_max_syn_backlog / 4);
        if p.tcp_syncookies == 0 && most.saturating_sub(self.requests) < kept {
            return Answer::Dropped(Full::LastQuarter);
        }
        self.requests += 1;
        Answer::Kept
    }

    /// The ACK that ends a handshake arrives, of a request or of a cookie; false when the accept
    /// queue is full: then it is dropped, and the request stays.
    pub(super) fn ack(&mut self, p: &Params, cookie: bool) -> bool {
        if !self.has_room(p) {
            return false;
        }
        self.requests -= u32::from(!cookie);
        self.waiting += 1;
        true
    }

    /// The application takes a connection.
    pub(super) fn accept(&mut self) {
        self.waiting -= 1;
    }

    /// One more may wait than the limit says: full is "more than".
    fn has_room(&self, p: &Params) -> bool {
        self.waiting <= p.queue_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Set;

    fn answers(set: &[&str], syns: u32) -> Vec<Answer> {
        let p = Params::with(set);
        let mut listener = Listener::default();
        (0..syns).map(|_| listener.syn(&p)).collect()
    }

    fn kept(answers: &[Answer]) -> usize {
        answers.iter().filter(|a| **a == Answer::Kept).count()
    }

    #[test]
    fn the_sixth_request_gets_a_cookie_and_today_the_seventh() {
        let old = answers(&[], 9);
        assert_eq!((kept(&old), old[5]), (5, Answer::Cookie { full: true }));
        let today = answers(&["later_rule=1"], 9);
        assert_eq!((kept(&today), today[6]), (6, Answer::Cookie { full: true }));
        // A backlog of 0 let nobody in without a cookie before that rule.
        assert_eq!(kept(&answers(&["backlog=0"], 3)), 0);
        assert_eq!(kept(&answers(&["backlog=0", "later_rule=1"], 3)), 1);
    }

    #[test]
    fn without_cookies_it_drops_and_with_2_it_always_sends_them() {
        let off = answers(&["tcp_syncookies=0"], 7);
        assert_eq!(off[5], Answer::Dropped(Full::Requests));
        let always = answers(&["tcp_syncookies=2"], 1);
        assert_eq!(always, [Answer::Cookie { full: false }]);
        // The last quarter of 100 is kept free: 76 get in.
        let known = answers(
            &["tcp_syncookies=0", "backlog=128", "tcp_max_syn_backlog=100"],
            90,
        );
        assert_eq!(kept(&known), 76);
        assert_eq!(known[76], Answer::Dropped(Full::LastQuarter));
    }

    #[test]
    fn one_more_than_the_backlog_waits_for_accept() {
        let p = Params::with(&[]);
        let mut listener = Listener::default();
        for _ in 0..6 {
            assert_eq!(listener.syn(&p), Answer::Kept);
            assert!(listener.ack(&p, false));
        }
        assert_eq!((listener.requests, listener.waiting), (0, 6));
        let full = Full::Accept { cookie: false };
        assert_eq!(listener.syn(&p), Answer::Dropped(full));
        assert!(!listener.ack(&p, true));
        listener.accept();
        assert!(listener.ack(&p, true));
    }
}

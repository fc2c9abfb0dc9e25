//! Ends are joined to their own other end, or to none.

use proptest::prelude::*;
use recording::RowRef;

use super::*;
use crate::conn::{Outcome, Sample};

const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "10.0.0.2:80";

fn at(text: &str) -> Endpoint {
    let at: std::net::SocketAddr = text.parse().unwrap();
    Endpoint::new(at.ip().into(), at.port())
}

/// Ends of connections, fed in order.
#[derive(Default)]
struct Ends {
    pairs: Pairs,
    conns: Vec<Conn>,
    samples: Vec<Sampled>,
}

impl Ends {
    fn add(&mut self, netns: u32, side: Side, local: &str, remote: &str) -> ConnId {
        let mut conn = Conn::new(netns, side, at(local), at(remote));
        conn.outcome = Outcome::Open;
        self.conns.push(conn);
        let id = self.conns.len() as ConnId - 1;
        match side {
            Side::Older => self.pairs.wait(id, &self.conns),
            _ => self.pairs.established(id, &mut self.conns),
        }
        id
    }

    fn older(&mut self, netns: u32, local: &str, remote: &str) -> ConnId {
        self.add(netns, Side::Older, local, remote)
    }

    /// Both ends, the one that connects first.
    fn new_pair(&mut self, [client, server]: [u32; 2], from: &str, to: &str) -> [ConnId; 2] {
        [
            self.add(client, Side::Opened, from, to),
            self.add(server, Side::Accepted, to, from),
        ]
    }

    fn sampled(&mut self, id: ConnId, sent: u32, received: u32) {
        let sample = Sample {
            row: RowRef {
                table: "socket",
                segment: 0,
                row: id,
            },
            time_ns: 0,
            bytes_acked: 0,
            bytes_received: 0,
            busy_us: 0,
            rwnd_limited_us: 0,
            rtt_us: 0,
            heard_ns: None,
            spoke_ns: None,
            peer_closed: false,
            closed: false,
            unaccepted: false,
            all_acked: true,
        };
        self.conns[id as usize].sampled = Some(self.samples.len() as u32);
        self.samples.push(Sampled {
            first: sample,
            last: sample,
            cwnd_max: 0,
            snd_wnd_max: 0,
            isns: Some(Isns { sent, received }),
            ledger: None,
        });
    }

    /// Samples of both ends of a connection whose SYNs had these numbers.
    fn sampled_both(&mut self, [client, server]: [ConnId; 2], syn: u32, syn_ack: u32) {
        self.sampled(client, syn, syn_ack.wrapping_add(1));
        self.sampled(server, syn_ack.wrapping_add(1), syn.wrapping_add(1));
    }

    /// The other end of each, in order.
    fn peers(mut self) -> Vec<Option<ConnId>> {
        self.pairs.finish(&mut self.conns, &self.samples);
        self.conns.iter().map(|c| c.peer).collect()
    }
}

#[test]
fn the_two_ends_of_a_connection_find_each_other_whichever_is_seen_first() {
    let mut ends = Ends::default();
    ends.new_pair([1, 2], CLIENT, SERVER);
    ends.older(2, "10.0.0.2:81", CLIENT);
    ends.older(1, CLIENT, "10.0.0.2:81");
    assert_eq!(ends.peers(), [Some(1), Some(0), Some(3), Some(2)]);
}

#[test]
fn loopback_is_another_in_each_namespace() {
    let (a, b) = ("127.0.0.1:40000", "127.0.0.1:15001");
    let mut ends = Ends::default();
    ends.older(1, a, b);
    ends.older(2, b, a);
    ends.older(2, a, b);
    assert_eq!(ends.peers(), [None, Some(2), Some(1)]);
}

#[test]
fn an_address_in_several_namespaces_is_the_own_one_first_and_otherwise_nobodys() {
    let mut ends = Ends::default();
    for netns in [1, 2] {
        ends.older(netns, CLIENT, SERVER);
    }
    ends.older(3, SERVER, CLIENT);
    assert_eq!(ends.peers(), [None; 3], "which of two?");

    let mut ends = Ends::default();
    for netns in [1, 2] {
        ends.older(netns, CLIENT, SERVER);
    }
    ends.older(2, SERVER, CLIENT);
    assert_eq!(ends.peers(), [None, Some(2), Some(1)]);
}

#[test]
fn a_tuple_that_is_used_again_is_another_connection() {
    let mut ends = Ends::default();
    let client = ends.add(1, Side::Opened, CLIENT, SERVER);
    ends.pairs.ended(client, &ends.conns);
    ends.add(2, Side::Accepted, SERVER, CLIENT);
    assert_eq!(ends.peers(), [None, None]);
}

#[test]
fn ends_that_are_translated_find_each_other_after_they_have_ended() {
    let mut ends = Ends::default();
    let client = ends.add(1, Side::Opened, CLIENT, "10.96.0.1:80");
    let server = ends.add(2, Side::Accepted, SERVER, "10.0.0.9:1024");
    ends.sampled_both([client, server], 7, 70);
    ends.pairs.ended(client, &ends.conns);
    ends.pairs.ended(server, &ends.conns);
    assert_eq!(ends.peers(), [Some(1), Some(0)]);
}

#[test]
fn sequence_numbers_tell_who_is_whose_where_addresses_do_not() {
    let mut ends = Ends::default();
    // Two bridges with the same addresses, all older than the recording.
    let clients = [1, 2].map(|netns| ends.older(netns, CLIENT, SERVER));
    let servers = [3, 4].map(|netns| ends.older(netns, SERVER, CLIENT));
    ends.sampled_both([clients[0], servers[1]], 1_000, u32::MAX);
    ends.sampled_both([clients[1], servers[0]], u32::MAX, 7);
    assert_eq!(ends.peers(), [Some(3), Some(2), Some(1), Some(0)]);
}

#[test]
fn ends_that_were_joined_by_address_are_parted_when_their_numbers_differ() {
    let mut ends = Ends::default();
    let [client, server] = ends.new_pair([1, 2], CLIENT, SERVER);
    let real = ends.older(3, SERVER, CLIENT);
    ends.sampled_both([client, real], 500, 900);
    ends.sampled(server, 11, 12);
    assert_eq!(ends.peers(), [Some(real), None, Some(client)]);
}

#[test]
fn copies_of_one_socket_are_nobodys() {
    let mut ends = Ends::default();
    let client = ends.older(1, CLIENT, "10.96.0.1:80");
    let server = ends.older(2, SERVER, CLIENT);
    let copy = ends.older(3, SERVER, "10.0.0.9:1");
    ends.sampled_both([client, server], 500, 900);
    ends.sampled(copy, 901, 501);
    assert_eq!(ends.peers(), [None; 3]);
}

proptest! {
    /// Whatever the order and the numbers, translated connections are joined to their own other ends, and to
    /// no one else's.
    #[test]
    fn translated_connections_are_joined_by_their_numbers(
        isns in prop::collection::hash_set((any::<u32>(), any::<u32>()), 1..40),
        seed in any::<u64>(),
    ) {
        let isns: Vec<(u32, u32)> = isns.into_iter().collect();
        let apart = |a: u32, b: u32| a.wrapping_sub(b).wrapping_add(2) > 4;
        for (i, a) in isns.iter().enumerate() {
            for b in &isns[..=i] {
                prop_assume!(i == 0 || a == b || apart(a.0, b.0) || apart(a.1, b.1));
                prop_assume!(apart(a.0, b.1) || apart(a.1, b.0));
            }
        }
        let mut order: Vec<(usize, bool)> =
            (0..isns.len()).flat_map(|n| [(n, false), (n, true)]).collect();
        order.sort_by_key(|(n, server)| (*n as u64 * 2 + u64::from(*server) + 1).wrapping_mul(seed | 1));
        let mut ends = Ends::default();
        for (n, server) in &order {
            let (syn, syn_ack) = isns[*n];
            let port = 10_000 + n;
            if *server {
                let from = format!("10.0.0.1:{port}");
                let id = ends.older(2, "10.244.0.9:80", &from);
                ends.sampled(id, syn_ack.wrapping_add(1), syn.wrapping_add(1));
            } else {
                let id = ends.older(1, &format!("10.0.0.1:{port}"), "10.96.0.1:443");
                ends.sampled(id, syn, syn_ack.wrapping_add(1));
            }
        }
        for (id, peer) in ends.peers().into_iter().enumerate() {
            let (n, server) = order[id];
            let other = order.iter().position(|end| *end == (n, !server));
            prop_assert_eq!(peer, other.map(|id| id as ConnId));
        }
    }
}

//! What the lost SYNs of a place offered and the others did not: ECN. A SYN that is retransmitted no longer offers it
//! (tcp_ecn_fallback), so a box that drops such SYNs drops the first of each connect and passes the second.

use analysis::Netns;
use recording::{RowRef, sysctl};

use crate::actions::set_sysctl;
use crate::advice::Advice;
use crate::finding::Step;
use crate::limits;
use crate::places::unanswered_syns::UnansweredSyns;
use crate::say::{Quantity, say};

/// Values of tcp_ecn with which connects offer it: ECN (1, 4) or AccECN (3).
const LINUX_OFFERS: [u64; 3] = [1, 3, 4];

/// ECN is agreed to where a peer offers it, and not offered.
const LINUX_ACCEPTS_ONLY: u64 = 2;

/// A place that loses the first SYN of connects and none of their second.
pub(crate) struct EcnOffer {
    /// Connects that were established with their second SYN, and all that were established.
    second: u64,
    established: u64,
    /// SYNs that this host dropped there, and how many of these offered ECN.
    dropped: (u64, u64),
    dropped_rows: Vec<RowRef>,
    /// The setting of the clients' namespace.
    setting: Option<(u64, RowRef)>,
}

impl EcnOffer {
    /// What tells it; `None` where SYNs are lost whatever they offer, or where none offers it.
    pub(crate) fn of(place: &UnansweredSyns) -> Option<EcnOffer> {
        let clients = place.story.all(&place.clients).map(|(_, c)| c);
        let established = clients.filter(|c| c.established_ns.is_some() && c.connects());
        let (mut second, mut all) = (0_u64, 0_u64);
        for conn in established {
            all += 1;
            second += u64::from(conn.syn_retries == 1);
        }
        let groups = || place.firewalled();
        let dropped: u64 = groups().map(|g| g.count).sum();
        let offering: u64 = groups().map(|g| g.offer_ecn).sum();
        let setting = place.client_netns().and_then(|netns| {
            let known = place.story.settings.get(netns, sysctl::TCP_ECN)?;
            Some((known.number(0)?, known.row))
        });
        let offer = EcnOffer {
            second,
            established: all,
            dropped: (dropped, offering),
            dropped_rows: place.firewall_rows(),
            setting: setting.filter(|(value, _)| LINUX_OFFERS.contains(value)),
        };
        // One connect in ten may lose a SYN, or none, by chance: all of them lose just the first.
        let always_first =
            second >= limits::FAILED_AGAIN.count() && limits::NEARLY_ALL.reached(second, all);
        let seen = offering >= limits::FAILED_AGAIN.count()
            && limits::NEARLY_ALL.reached(offering, dropped);
        let offers = if dropped > 0 {
            seen
        } else {
            offer.setting.is_some()
        };
        // Where the drops are seen, their SYNs tell, even of clients elsewhere.
        let holds = offers && (always_first || seen && all == 0);
        holds.then_some(offer)
    }

    /// Whether the lost SYNs themselves were seen.
    pub(crate) fn is_seen(&self) -> bool {
        self.dropped.1 > 0
    }

    /// What to change at the clients meanwhile.
    pub(crate) fn advice(&self, netns: &Netns) -> Advice {
        let risk = "Connects from there no longer use ECN: congestion shows as loss, as it did before ECN.";
        let effect = "The first SYN of each connect passes: connect() takes a round trip instead of 1 s or more.";
        set_sysctl(
            netns,
            sysctl::TCP_ECN,
            LINUX_ACCEPTS_ONLY,
            risk,
            effect.into(),
        )
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        let first = (self.second > 0).then(|| {
            say!(
                "{second} of {established} got through with their second SYN, none of the others lost more: the first is \
                 always lost, the second never. A retransmitted SYN no longer offers ECN (tcp_ecn_fallback).",
                second = Quantity::count(self.second),
                established = Quantity::of(self.established, "established connect")
            )
        });
        let seen = self.is_seen().then(|| {
            say!(
                "{offering} of {dropped} that were dropped offered ECN (ECE and CWR set).",
                offering = Quantity::count(self.dropped.1).rows(self.dropped_rows.iter().copied()),
                dropped = Quantity::of(self.dropped.0, "SYN")
            )
        });
        let setting = self.setting.map(|(value, row)| {
            let name = sysctl::TCP_ECN;
            say!(
                "Connects here offer ECN: {name} is {tcp_ecn}.",
                tcp_ecn = Quantity::count(value).rows([row])
            )
        });
        [first, seen, setting].into_iter().flatten().collect()
    }
}

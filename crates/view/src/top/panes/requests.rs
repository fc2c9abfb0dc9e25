//! Requests: how long they took and whose time it was, the services that took most time first.

use analysis::account::Role;
use analysis::stats::ratio;

use super::{Content, OWNER, Shown, goes, stays, warning_if, who};
use crate::columns::{Unit, Value, columns, left, right};
use crate::how::How;
use crate::numbers::{rate, us_in_ms};
use crate::style::Look;
use crate::top::snapshot::{Service, Snapshot};
use crate::top::state::Target;
use crate::top::table::letters;

const BAR: usize = 20;
/// Whose the letters are: application, TCP, network, network or peer, peer.
const WHOSE: [char; 5] = ['A', 'T', 'N', '?', 'P'];

impl Service {
    columns! {
        /// `server`: this host answers; `client`: it asks.
        ROLE: left("ROLE", 6, &[], Unit::Name) => |l, _| l.role().into();
        /// Where a server listens, and a client connects to.
        AT: left("AT", 21, &[], Unit::Address) => |l, _| Value::Endpoint(l.key.2.addr, l.key.2.port);
        /// Requests answered per second.
        RATE: right("REQ/s", 6, &[], Unit::Words) => |l, _| rate(l.per_s()).into();
        /// Half took no longer.
        P50: right("P50", 8, &[], Unit::Words) => |l, _| l.told.response.map(|p| us_in_ms(p.p50_s * 1e6)).into();
        /// 99 in 100 took no longer.
        P99: right("P99", 8, &[], Unit::Words) => |l, _| l.told.response.map(|p| us_in_ms(p.p99_s * 1e6)).into();
        /// Whose time it was, a letter for each twentieth: A application, T TCP, N network, P peer, ? network or peer.
        BAR: left("WHOSE TIME", BAR, &[], Unit::Words) => |l, _| letters(&l.whose(), BAR).into();
        /// Share of the time that was our application's: not accepting, not reading, service time (a client: writing).
        APP: right("APP%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.whose_s.application).into();
        /// Of the time of all: data waited for accept() and the first read after it.
        ACCEPT: right("ACC%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.spent_s.accept).into();
        /// Data waited to be read.
        READ: right("READ%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.spent_s.unread).into();
        /// Our application worked on the answer; on the request, at a client.
        THINK: right("THINK%", 6, &[], Unit::Percent) => |l, _| l.percent(l.told.spent_s.think).into();
        /// Of THINK% the thread ran, as far as one thread did nothing else.
        CPU: right("CPU%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.thinking.cpu).into();
        /// Of THINK% the thread waited for a CPU, as far as one thread did nothing else.
        RUNQUEUE: right("RUNQ%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.thinking.runqueue).into();
        /// TCP here: repairing losses; windows and buffers that held data back.
        TCP: right("TCP%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.whose_s.tcp).into();
        /// The network: a round trip for each exchange, and what came piecemeal.
        NET: right("NET%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.whose_s.network).into();
        /// The other end.
        PEER: right("PEER%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.whose_s.peer).into();
        /// Network or peer, where no round trip tells them apart.
        EITHER: right("N|P%", 5, &[], Unit::Percent) => |l, _| l.percent(l.told.whose_s.network_or_peer).into();
        /// Not answered for a second or longer.
        OPEN: right("OPEN", 5, &[], Unit::Count) => |l, _| l.told.open.into();
        OWNER: OWNER => |l, _| who(&l.owner).into();
    }

    pub(in crate::top) fn role(&self) -> &'static str {
        match self.key.1 {
            Role::Server => "server",
            Role::Client => "client",
            Role::Unknown => "-",
        }
    }

    pub(in crate::top) fn per_s(&self) -> f64 {
        ratio(self.told.exchanges as f64, self.over_s).unwrap_or(0.0)
    }

    fn percent(&self, s: f64) -> Option<f64> {
        Some(ratio(s, self.told.spent_s.total())? * 100.0)
    }

    /// Shares of 1, with their letters.
    fn whose(&self) -> [(f64, char); 5] {
        let w = &self.told.whose_s;
        let parts = [w.application, w.tcp, w.network, w.network_or_peer, w.peer];
        let share = |i: usize| ratio(parts[i], self.told.spent_s.total()).unwrap_or(0.0);
        std::array::from_fn(|i| (share(i), WHOSE[i]))
    }
}

pub(super) const COLUMNS: &[Shown<Service>] = &[
    stays(Service::ROLE),
    stays(Service::AT),
    stays(Service::RATE),
    goes(1, Service::P50),
    stays(Service::P99),
    goes(6, Service::BAR).looking(|_| Look::Command),
    stays(Service::APP),
    goes(4, Service::ACCEPT),
    goes(4, Service::READ),
    goes(4, Service::THINK),
    goes(3, Service::CPU),
    goes(3, Service::RUNQUEUE),
    goes(1, Service::TCP),
    goes(1, Service::NET),
    goes(1, Service::PEER),
    goes(2, Service::EITHER),
    goes(5, Service::OPEN).looking(|l| warning_if(l.told.open > 0)),
    goes(7, Service::OWNER),
];

pub(super) fn content(snapshot: &Snapshot, live: bool, how: &How) -> Content {
    let lines = snapshot.requests.iter();
    let lines = lines.map(|s| (Target::Service(s.key), s.clone()));
    let nothing = match (snapshot.has("request"), live) {
        (true, _) => "No request was answered in this window.",
        (false, true) => {
            "No request was seen. (Are they recorded? Not on every kernel: see `tcpwhy doctor`.)"
        }
        (false, false) => "This recording has no requests: record it `--with requests`.",
    };
    let note = "where most time went first; A application, T TCP, N network, P peer, ? either";
    Content::of(COLUMNS, lines, how, note.into(), nothing)
}

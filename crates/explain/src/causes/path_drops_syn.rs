//! C09: SYNs, or the answers to them, get lost on the path, or at a host that is not this one.

mod answers;

use analysis::words::{count, duration, list, plural};

use crate::actions::former_sysctl;
use crate::limits;
use crate::modes::{modes, step, syn_schedule_of};
use crate::places::ecn_offer::EcnOffer;
use crate::places::other_ports::{Hosts, OtherPorts};
use crate::places::unanswered_syns::UnansweredSyns;
use crate::vocabulary::*;

pub(crate) const CAUSE: Cause = Cause {
    id: Id::PATH_DROPS_SYN,
    number: "C09",
    title: "the path drops SYNs",
    page: include_str!("path_drops_syn.md"),
    layer: Layer::Network,
    ground: Ground::Connections,
    needs: &[&[SourceName::States], &[SourceName::Retransmits]],
    seen_from: || {
        "3 unanswered SYNs, 5 % of the connects; or one that hangs for 3 s, or that was asked about"
            .into()
    },
    signature: &[
        "connection timed out to one address, others work",
        "SYN sent three times, no answer; SYN retries are dropped, a new connection gets through",
        "dial tcp: i/o timeout; connect timed out; upstream timed out while connecting",
    ],
    rivals: &[
        Id::LOCAL_FIREWALL_DROP,
        Id::ACCEPT_QUEUE_OVERFLOW,
        Id::SYN_QUEUE_OVERFLOW,
        Id::TIME_WAIT_COLLISION,
        Id::PATH_LOSS,
        Id::ROUTE_OR_NEIGHBOUR_FAILURE,
    ],
    explains: &[],
    told_with: None,
    no: Some(no),
    rule_out,
    symptom: Some(Symptom::Connects),
    find: |whole| {
        let story = whole.story;
        let hosts = Hosts::of(story);
        let inquiry = &whole.inquiry;
        let syns = whole.silent().iter();
        let syns = syns.filter_map(|p| judge(p, &hosts, p.is_asked(inquiry)));
        let answers = whole.lost_answers().iter();
        syns.chain(answers.filter_map(|lost| answers::judge(lost, inquiry)))
            .collect()
    },
};

/// Timeouts no longer than this, ms: twice the first.
const ADVISED_RTO_MAX_MS: u64 = 2_000;

fn no(asked: &Asked) -> Option<Step> {
    few_retried(asked)
        .or_else(|| dropped_here(asked))
        .or_else(|| refused_by_time_wait(asked))
        .or_else(|| no_syn_lost(asked))
}

fn rule_out(whole: &Whole) -> Verdict {
    let says = |silent: &Quantity, of: u64| {
        say!(
            "{silent} of {connects} got no answer to a SYN",
            silent,
            connects = Quantity::of(of, "connect")
        )
    };
    let places = whole.silent().iter().map(|place| {
        let times = &place.times;
        let (n, of) = (times.silent(), times.total());
        let silent = Quantity::count(n).rows(times.rows.iter().copied());
        // A small share of the attempts refutes nothing that took much of the time.
        let share = (!took_much(place))
            .then(|| Test::share(n, of, &limits::FAILED_SHARE, says(&silent, of)));
        let again = Test::events(n, of, &limits::FAILED_AGAIN, says(&silent, of));
        let many = std::iter::once(again).chain(share);
        // One that hangs is enough, or one that the user asked about.
        let one = is_enough(place) || place.is_asked(&whole.inquiry);
        let many = many.filter(|_| !one);
        let unanswered = times.unanswered_syns();
        let (dropped, rows) = dropped_of(place);
        let here = say!(
            "this host dropped {dropped_here} of connects to {at}; {unanswered} had no answer",
            at = Quantity::new(place.at.to_string(), place.at.to_string()),
            dropped_here = Quantity::of(dropped, "packet").rows(rows),
            unanswered = Quantity::of(unanswered, "SYN")
        );
        every(many.chain([Test::share(dropped, unanswered, &limits::MOST, here).below()]))
    });
    let of = whole.connects();
    let none = || {
        every([Test::events(
            0,
            of,
            &limits::FAILED_AGAIN,
            says(&Quantity::count(0u64), of),
        )])
    };
    Verdict::nearest_or(places, none, NO_CONNECT)
}

/// Hardly a SYN was retransmitted; for calls that took long, in their namespace.
fn few_retried(asked: &Asked) -> Option<Step> {
    if let Place::Calls(calls) = asked.place {
        let conns = asked.story.conns.iter();
        let retried = conns.filter(|c| c.netns == calls.netns && c.syn_retries > 0);
        let n = retried.count() as u64;
        let retried = Quantity::of(n, "connect");
        return (n < limits::FAILED_AGAIN.count())
            .then(|| say!("{retried} retransmitted a SYN", retried));
    }
    let place = asked
        .silent()
        .filter(|p| p.hanging(limits::STALL.ns()).is_empty())?;
    let (silent, connects) = (place.times.silent(), place.times.total());
    (!many(place) && connects > 0).then(|| {
        say!(
            "{retried} of {connects} got no answer to a SYN",
            retried = Quantity::count(silent),
            connects = Quantity::of(connects, "connect")
        )
    })
}

/// One connect is enough that hangs.
fn is_enough(place: &UnansweredSyns) -> bool {
    !place.hanging(limits::STALL.ns()).is_empty()
}

/// Enough of the connects had a SYN that nothing answered, or these took enough of the time.
fn many(place: &UnansweredSyns) -> bool {
    let (silent, connects) = (place.times.silent(), place.times.total());
    silent >= limits::FAILED_AGAIN.count()
        && (limits::FAILED_SHARE.reached(silent, connects) || took_much(place))
}

/// A caller that waits starts few connects meanwhile, and many quick ones came before: the time tells what the share of
/// the connects hides.
fn took_much(place: &UnansweredSyns) -> bool {
    let (waited, of) = place.waited_of();
    waited > 0 && limits::MUCH_OF_TIME.reached(waited, of)
}

/// What this host dropped of connects to a place: SYNs, or the answers to them; with some rows.
fn dropped_of(place: &UnansweredSyns) -> (u64, Vec<RowRef>) {
    let syns = place.drops_here().max(place.listener_drops());
    let rows = place.drop_rows().into_iter().chain(place.answer_rows());
    let dropped = syns.saturating_add(place.answers_dropped());
    (dropped, rows.take(SHOWN_ROWS).collect())
}

fn dropped_here(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    let (dropped, rows) = dropped_of(place);
    let unanswered = place.times.unanswered_syns();
    (dropped > 0 && limits::MOST.reached(dropped, unanswered)).then(|| {
        say!(
            "this host dropped {dropped_here} of connects to it; {unanswered} had no answer",
            dropped_here = Quantity::of(dropped, "packet").rows(rows),
            unanswered = Quantity::of(unanswered, "SYN")
        )
    })
}

/// The SYNs were not lost: TIME_WAIT sockets got them, or their answers came back.
fn refused_by_time_wait(asked: &Asked) -> Option<Step> {
    let place = asked.silent()?;
    let answered = place.strays + place.half_open;
    let retried = place.times.silent();
    (answered >= limits::FAILED_AGAIN.count() && limits::MOST.reached(answered, retried)).then(
        || {
            say!(
                "{retried} got no answer to a SYN, and {seen} of existing sockets were seen",
                retried = Quantity::of(retried, "connect"),
                seen = Quantity::of(answered, "refusal and answer")
            )
        },
    )
}

/// For ends that send: connections between the same addresses were established.
fn no_syn_lost(asked: &Asked) -> Option<Step> {
    let (connections, retried) = asked.on_the_way()?;
    (retried < limits::FAILED_AGAIN.count() || !limits::FAILED_SHARE.reached(retried, connections))
        .then(|| {
            say!(
                "{retried} of {connections} on this path retransmitted a SYN",
                retried = Quantity::count(retried),
                connections = Quantity::of(connections, "connection")
            )
        })
}

fn is_lost_elsewhere(silent: &UnansweredSyns, others: &OtherPorts, asked: bool) -> bool {
    let n = silent.times.silent();
    let (resent, established) = silent.data_resent();
    // As shares: resent ÷ established against silent ÷ all.
    // Clients of a full accept queue retransmit data as well: the last ACK of their handshake was dropped.
    let data_too = resent * silent.times.total() * limits::TWICE.count() > n * established
        && !others.are_well();
    // A server that ends while SYNs are under way refuses a few.
    let clients = silent.story.all(&silent.clients).map(|(_, c)| c);
    let refused = clients.filter(|c| c.refused.is_some()).count() as u64;
    let unanswered = silent.times.unanswered_syns();
    let are_few = |known: u64| !limits::MOST.reached(known, unanswered);
    (many(silent) || is_enough(silent) || asked)
        && !data_too
        && !limits::MOST.reached(refused, n)
        && !silent.is_rejected()
        // Nothing known here explains most of them.
        && are_few(silent.drops_here())
        && are_few(silent.answers_dropped())
        && are_few(silent.listener_drops())
        && are_few(silent.strays.saturating_add(silent.half_open))
        && are_few(silent.synacks_repeated)
}

fn judge(silent: &UnansweredSyns, hosts: &Hosts, asked: bool) -> Option<Finding> {
    let (story, at) = (silent.story, silent.at);
    let netns = silent.client_netns().unwrap_or(0);
    let clients = story.all(&silent.clients).map(|(_, c)| c);
    let others = hosts.other_ports(netns, at, clients);
    if !story.health.sees(&SourceName::Retransmits) || !is_lost_elsewhere(silent, &others, asked) {
        return None;
    }
    // Without them it is unknown whether this host dropped them.
    let sees_drops = story.health.sees(&SourceName::Drops);
    let (n, of) = (silent.times.silent(), silent.times.total());
    let here = silent.listener().is_some();
    let where_lost = match sees_drops {
        false => "on the path or on this host",
        true if here => "on the path",
        true => "beyond this host",
    };
    let hanging = silent.hanging(limits::STALL.ns());
    let stuck = hanging.first().filter(|_| !many(silent));
    let stuck_title = stuck.map(|(_, c)| {
        let until = c.ended_ns.unwrap_or(story.end_ns);
        let connects = plural(hanging.len() as u64, "connect");
        let at_least = if c.side == Side::Older {
            " or more"
        } else {
            ""
        };
        let waited = duration(until.saturating_sub(c.start_ns));
        match c.ended_ns {
            Some(_) => format!("{connects} to {at} gave up: no answer for {waited}{at_least}."),
            None => format!(
                "{connects} to {at} hang{}: no answer for {waited}{at_least}.",
                if hanging.len() == 1 { "s" } else { "" },
            ),
        }
    });
    let did = match silent.times.gave_up_ns() {
        Some(after) if silent.times.retried == 0 => format!("gave up after {}", duration(after)),
        Some(_) => "retried or gave up".into(),
        None => "retried".into(),
    };
    let ecn = EcnOffer::of(silent);
    let own = !here && others.are_well() && ecn.is_none();
    let what = if ecn.is_some() {
        "SYNs that offer ECN"
    } else {
        "SYNs"
    };
    let case = Case::new(story, CAUSE, silent.scope(netns))
        .placed(silent.place())
        .title(match stuck_title {
            Some(title) => [title.clone(), title],
            None if own => [
                format!(
                    "{at} leaves SYNs unanswered, other ports of that host answer: {} of {} connects {did}.",
                    count(n),
                    count(of)
                ),
                format!("{at} leaves SYNs unanswered: {} connects {did}.", count(n)),
            ],
            None => [
                format!(
                    "{what} to {at} are lost {where_lost}: {} of {} connects {did}.",
                    count(n),
                    count(of)
                ),
                format!(
                    "{what} to {at} are lost {where_lost}: {} connects {did}.",
                    count(n)
                ),
            ],
        })
        .because(match (plural(silent.times.retries + of, "SYN"), sees_drops) {
            (syns, true) => format!("{syns} left this host, which was not seen to drop any of them"),
            (syns, false) => format!("{n} of {of} connects sent {syns} in total, and nothing refused them"),
        })
        .at_most_if(
            Level::Low,
            !sees_drops,
            "packets dropped on this host were not recorded: a firewall here looks the same",
        )
        .affects(
            silent.times.impact(silent.times.retries, of),
            silent.times.lost(story, 0),
        )
        .if_asked(silent.times.delayed_ids().to_vec(), false)
        .steps(silent.times.step())
        .steps(clusters_step(silent))
        .steps(if own { Some(others.step()) } else { data_step(silent) })
        .checks(silent.times.retry_check())
        .checks(silent.times.timer_check(story))
        .checks(accepted_check(silent))
        .steps(ecn.iter().flat_map(EcnOffer::steps))
        .advise(ecn.iter().map(|ecn| ecn.advice(&story.netns(netns))))
        .advise(advice(silent, own, sees_drops));
    let case = match here {
        true => case
            .fix([format!(
                "Find the firewall or load balancer on the path to {at} that drops SYNs."
            )])
            .because("the server is on this host too, and never saw the lost SYNs"),
        false if own => case
            .layer(Layer::Peer)
            .fix([format!(
                "Look at the accept queue of {at} on its host (`ss -ltn`: Recv-Q above Send-Q); then look for a \
                 firewall that limits that port."
            )])
            .at_most(
                Level::Low,
                "the server is not on this host: its full queue and a firewall for that port look the same",
            ),
        false => case
            .fix([
                format!(
                    "Record on the host of {at}, too; then look for a firewall or load balancer \
                     before it."
                ),
                "Record on the server's host, too; then look for a firewall before it.".into(),
            ])
            .at_most(
                if ecn.is_some() { Level::Medium } else { Level::Low },
                "the server is not on this host: a full queue or a firewall there looks the same",
            ),
    };
    let case = if sees_drops {
        case
    } else {
        case.fix([format!(
        "Check whether a firewall of this host drops SYNs to {at}; then record on the host of {at}, too."
    )])
    };
    let case = if ecn.is_some() {
        case.fix([
            format!("Have the box before {at} that drops SYNs with ECE and CWR pass them; until then set tcp_ecn=2 here."),
            "Have the box that drops SYNs with ECE and CWR pass them; until then set tcp_ecn=2.".into(),
        ])
    } else {
        case
    };
    Some(case.verify(sentence!(
        "`tcpwhy trace connects` shows connects to {at} with one SYN each; TCPSynRetrans stays.",
        at
    )))
}

/// When the late ones got through.
fn clusters_step(silent: &UnansweredSyns) -> Option<Step> {
    let netns = silent.client_netns()?;
    let schedule = syn_schedule_of(silent.story, netns, None);
    let late = silent.story.all(&silent.clients).map(|(_, c)| c);
    let late = late.filter(|c| c.syn_retries > 0);
    let mut took: Vec<u64> = late.clone().filter_map(Conn::connect_ns).collect();
    let of = silent.times.total() as f64;
    let told = modes(&mut took).into_iter().filter_map(|m| {
        let nth = step(&schedule, m.median_ns)? + 2;
        let (late, after) = (count(m.count), duration(m.median_ns));
        Some(format!("{late} at {after} (SYN {nth})"))
    });
    let told: Vec<String> = told.collect();
    let modes = list(&told);
    let twice = late.clone().filter(|c| c.syn_retries > 1).count() as f64 / of;
    let once = silent.times.retried as f64 / of;
    let by_chance = Quantity::share(once * once);
    (!told.is_empty()).then(|| {
        say!(
            "Delayed connects completed when Linux retransmits SYNs: {modes}; {lost_once} lost one SYN or more, \
             {lost_twice} two or more ({by_chance} if losses were independent).",
            lost_once = Quantity::share(once).rows(late.filter_map(Conn::row).take(1)),
            lost_twice = Quantity::share(twice)
        )
    })
}

/// Packets of established connections are not lost.
fn data_step(silent: &UnansweredSyns) -> Option<Step> {
    let (resent, of) = silent.data_resent();
    let clients = silent.story.all(&silent.clients).map(|(_, c)| c);
    let made = clients.filter(|c| c.established_ns.is_some());
    let established = Quantity::of(of, "connection").rows(made.filter_map(Conn::row).take(1));
    (of > 0).then(|| {
        say!(
            "{data_resent} of {established} that were established retransmitted data: a far smaller share than lost \
             SYNs.",
            established,
            data_resent = Quantity::count(resent)
        )
    })
}

/// What the server on this host accepted is what got through.
fn accepted_check(silent: &UnansweredSyns) -> Option<Check> {
    silent.listener()?;
    let clients = silent.story.all(&silent.clients).map(|(_, c)| c);
    let through = clients.filter(|c| c.established_ns.is_some());
    let seen = through.clone().filter(|c| c.peer.is_some()).count() as u64;
    let formula = "connects that succeeded = handshakes that the server saw";
    let through = through.count() as u64;
    Some(same_count(formula, through, seen, "handshakes"))
}

/// Until the path is repaired: timeouts after the first need not double at once.
fn sooner(silent: &UnansweredSyns) -> Option<Advice> {
    let netns = silent.client_netns()?;
    let settings = &silent.story.settings;
    let now = settings.number(netns, sysctl::TCP_SYN_LINEAR_TIMEOUTS);
    let risk = "More SYNs towards a peer that is down.";
    let expected = "A connect that loses two SYNs completes after 2.05 s, not 3.04; one that loses three after 3.07 \
                    s, not 7.28 (measured).";
    (now == Some(0)).then(|| {
        let netns = silent.story.netns(netns);
        set_sysctl(
            &netns,
            sysctl::TCP_SYN_LINEAR_TIMEOUTS,
            4,
            risk,
            expected.into(),
        )
    })
}

/// The first timeout is a constant: only a BPF program of the cgroup sets another.
fn first_timeout(silent: &UnansweredSyns) -> Option<Advice> {
    let story = silent.story;
    let number = |name| story.settings.number(silent.client_netns()?, name);
    let linear = match number(sysctl::TCP_SYN_LINEAR_TIMEOUTS) {
        Some(n) => format!("{}={n} now", sysctl::TCP_SYN_LINEAR_TIMEOUTS),
        None => format!(
            "{}: {}",
            sysctl::TCP_SYN_LINEAR_TIMEOUTS,
            linux(6, 5).told(story)
        ),
    };
    let kernel = linux(4, 13).told(story);
    silent.client_netns()?;
    Some(
        Advice::to(format!(
            "Or have a BPF program of the cgroup return less than a second for BPF_SOCK_OPS_TIMEOUT_INIT ({kernel})."
        ))
        .by(shell!("bpftool cgroup tree"))
        .at("the cgroup of the client; the command shows its programs (sock_ops)")
        .risk(
            "A timeout below the round trip retransmits every SYN needlessly, and the connection begins with a \
             smaller window.",
        )
        .effect(format!(
            "The first SYN is retransmitted after that time, not 1 s; tcp_syn_linear_timeouts sets how many timeouts \
             follow at the same interval ({linear}). rto_min of a route and tcp_rto_min_us apply to data only."
        )),
    )
}

/// Connects that lose more SYNs than there are linear timeouts wait ever longer.
fn capped(silent: &UnansweredSyns) -> Option<Advice> {
    let (story, netns) = (silent.story, silent.client_netns()?);
    let number = |name| story.settings.number(netns, name);
    let linear = number(sysctl::TCP_SYN_LINEAR_TIMEOUTS).unwrap_or(0);
    let clients = story.all(&silent.clients).map(|(_, c)| c);
    let most = clients.map(|c| u64::from(c.syn_retries)).max()?;
    // The timeouts of connects that lost no more have not doubled.
    if most <= linear + 1 {
        return None;
    }
    let kernel = linux(6, 15).told(story);
    let risk = "It also applies to the data of all connections of the namespace: a dead peer is tried more often.";
    let expected = format!(
        "Timeouts stop doubling at 2 s ({kernel}): a SYN lost for the fourth time is retransmitted after 7 s, not \
         15, where all timeouts double; for the seventh after 9 s, not 11, where the first four do not (measured)."
    );
    match number(sysctl::TCP_RTO_MAX_MS) {
        Some(now) if now > ADVISED_RTO_MAX_MS => {
            let of = story.netns(netns);
            let advice = set_sysctl(
                &of,
                sysctl::TCP_RTO_MAX_MS,
                ADVISED_RTO_MAX_MS,
                risk,
                expected,
            );
            Some(Advice {
                // The loss remains: not for a program to apply.
                change: None,
                undo: Some(former_sysctl(story, netns, sysctl::TCP_RTO_MAX_MS)),
                ..advice
            })
        }
        Some(_) => None,
        None => Some(
            Advice::to(format!(
                "Cap the timeouts: {}={ADVISED_RTO_MAX_MS} ({kernel}).",
                sysctl::TCP_RTO_MAX_MS
            ))
            .at("the client's namespace, on a kernel that has the sysctl")
            .risk(risk)
            .effect(expected),
        ),
    }
}

/// The path passes SYNs to other ports.
fn look_there(at: Endpoint) -> Advice {
    Advice::to(format!(
        "On the host of {at}, check whether its accept queue is full (Recv-Q above Send-Q), and why its program does \
         not accept; then whether a rule limits new connections to port {}.",
        at.port
    ))
    .by(shell!("ss -ltn 'sport = :{port}'", port = at.port))
    .at(format!("the host of {at}; `tcpwhy explain` there distinguishes the two"))
    .risk("A limit of new connections may be there for a reason: raise it above the real rate, do not remove it.")
}

fn look_on_the_way(silent: &UnansweredSyns) -> Advice {
    let at = silent.at;
    let netns = silent.story.netns(silent.client_netns().unwrap_or(0));
    let trace = shell!(
        "traceroute -n -T -p {port} {addr}",
        port = at.port,
        addr = at.addr
    );
    Advice::to(format!(
        "Find the hop that drops SYNs to port {} (a rule, a limit of new connections per second, SYN-flood \
         protection), and allow them.",
        at.port
    ))
    .by(command_in(&netns, trace))
    .at(format!(
        "the devices on the path from {}; the last hop that answers is the one before it",
        namespace(&netns)
    ))
    .risk(
        "SYN-flood protection is there for a reason: raise its limit above the real rate, do not remove \
         it.",
    )
}

/// Where nothing shows what this host drops.
fn look_here(silent: &UnansweredSyns) -> Advice {
    let netns = silent.story.netns(silent.client_netns().unwrap_or(0));
    Advice::to(format!(
        "Check whether a rule of this host drops SYNs to port {}: its counter rises with each.",
        silent.at.port
    ))
    .by(command_in(&netns, shell!("nft list ruleset")))
    .at(format!(
        "{}; `iptables-save -c` where rules were created with iptables",
        namespace(&netns)
    ))
    .risk("None: the command only reads.")
    .effect("One suspect less: the kernel reports such drops since Linux 5.17.")
}

fn advice(silent: &UnansweredSyns, own: bool, sees_drops: bool) -> Vec<Advice> {
    let at = silent.at;
    let lost = silent.times.silent() as f64 / silent.times.total().max(1) as f64;
    let first = if own {
        look_there(at)
    } else {
        look_on_the_way(silent)
    };
    let first = first
        .effect(format!(
            "The {} of connects that lost a SYN take one round trip instead of 1 s or more, or instead of failing.",
            Quantity::share(lost)
        ))
        .change(Change::PassSyns { at: at.to_string() });
    // An earlier retransmission helps where some get through.
    let some_pass = silent.times.unanswered < silent.times.silent();
    let until_then = [sooner(silent), first_timeout(silent), capped(silent)];
    let until_then = until_then.into_iter().filter(|_| some_pass);
    std::iter::once(first)
        .chain((!sees_drops).then(|| look_here(silent)))
        .chain(until_then.flatten())
        .collect()
}

#[cfg(test)]
mod tests;

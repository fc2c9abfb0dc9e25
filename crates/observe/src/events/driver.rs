//! Loads and attaches the tracepoints, drains the ring, counts what was lost.

use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, RingBuffer};
use recording::{Intent, Source, SourceName, Verdict};

use crate::error::{Error, bpf_error};
use crate::events::lives::Lives;
use crate::events::second::Second;
use crate::filter::{Filter, WireFilter};
use crate::kernel::{Callers, KernelBtf, MISSED, Missed, Names, hz};
use crate::ring::{Count, RING_FULL, ring};
use crate::wire::events::{EventsSkel, EventsSkelBuilder, OpenEventsSkel};
use crate::wire::{read, tw_caller, tw_event, tw_kind, tw_life, tw_range, tw_reset};

/// What to watch and how.
#[derive(Clone, Debug)]
pub struct EventOptions {
    /// What to watch.
    pub filter: Filter,
    /// Size of the ring buffer, bytes: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Record every state change, also those between ESTABLISHED and CLOSE.
    pub all_states: bool,
    /// Random numbers behind the ids of sockets.
    pub sock_key: [u64; 2],
    /// Another recording goes on until this one has begun: what comes before is kept, too, so that a handshake that begins in
    /// the one and ends in the other is whole. Whoever reads both cuts where this one begins.
    pub follows: bool,
}

/// One tracepoint: its program, what it gives, what the kernel must pass.
struct Tracepoint {
    source: SourceName,
    gives: &'static str,
    intent: Intent,
    tracepoint: &'static str,
    program: &'static str,
    /// Where there is a second one, which takes what the first missed, and the two that fold.
    more: Option<More>,
    kind: tw_kind,
    /// It is called for every lookup of a route, also for packets in interrupts: what interrupts the program is no
    /// connect(), so that a run that did not happen lost nothing.
    lookup: bool,
    /// Arguments without which the program is of no use, and why.
    args: usize,
    needs: &'static str,
}

/// The further programs of a tracepoint.
struct More {
    /// Called after the program; takes what it missed.
    second: &'static str,
    /// The same two, where lives are folded.
    folding: [&'static str; 2],
}

impl Tracepoint {
    /// The program that is called first, and the one that takes what it missed.
    fn programs(&self, fold: bool) -> (&'static str, Option<&'static str>) {
        match &self.more {
            None => (self.program, None),
            Some(more) if fold => (more.folding[0], Some(more.folding[1])),
            Some(more) => (self.program, Some(more.second)),
        }
    }

    fn has(&self, program: &str, fold: bool) -> bool {
        let (first, second) = self.programs(fold);
        first == program || second == Some(program)
    }
}

const TRACEPOINTS: &[Tracepoint] = &[
    Tracepoint {
        source: SourceName::States,
        gives: "connections opened, accepted, refused and closed; SYN cookies; lost options",
        intent: Intent::Required,
        tracepoint: "inet_sock_set_state",
        program: "on_state",
        more: Some(More {
            second: "on_state_missed",
            folding: ["on_state_fold", "on_state_fold_missed"],
        }),
        kind: tw_kind::TW_STATE,
        lookup: false,
        args: 3,
        needs: "Linux 4.16",
    },
    Tracepoint {
        source: SourceName::Retransmits,
        gives: "retransmitted segments and what sent them",
        intent: Intent::Optional,
        tracepoint: "tcp_retransmit_skb",
        program: "on_retransmit",
        more: None,
        kind: tw_kind::TW_RETRANSMIT,
        lookup: false,
        args: 2,
        needs: "Linux 4.16",
    },
    Tracepoint {
        source: SourceName::SynAckRetransmits,
        gives: "SYN-ACKs retransmitted",
        intent: Intent::Optional,
        tracepoint: "tcp_retransmit_synack",
        program: "on_retransmit_synack",
        more: None,
        kind: tw_kind::TW_SYNACK_RETRANSMIT,
        lookup: false,
        args: 2,
        needs: "Linux 4.16",
    },
    Tracepoint {
        source: SourceName::ResetsSent,
        gives: "resets sent by this host, with the reason where the kernel gives it (6.10)",
        intent: Intent::Optional,
        tracepoint: "tcp_send_reset",
        program: "on_send_reset",
        more: None,
        kind: tw_kind::TW_RESET_SENT,
        lookup: false,
        args: 2,
        needs: "Linux 4.16",
    },
    Tracepoint {
        source: SourceName::ResetsReceived,
        gives: "resets received",
        intent: Intent::Optional,
        tracepoint: "tcp_receive_reset",
        program: "on_receive_reset",
        more: None,
        kind: tw_kind::TW_RESET_RECEIVED,
        lookup: false,
        args: 1,
        needs: "Linux 4.16",
    },
    Tracepoint {
        source: SourceName::Drops,
        gives: "packets dropped by this host, with reason and place",
        intent: Intent::Optional,
        tracepoint: "kfree_skb",
        program: "on_drop",
        more: None,
        kind: tw_kind::TW_DROP,
        lookup: false,
        args: 3,
        needs: "Linux 5.17",
    },
    Tracepoint {
        source: SourceName::NoRoutes,
        gives: "IPv4 connects that a route of this host rejects (blackhole, prohibit, unreachable)",
        intent: Intent::Optional,
        tracepoint: "fib_table_lookup",
        program: "on_no_route",
        more: None,
        kind: tw_kind::TW_NO_ROUTE,
        lookup: true,
        args: 4,
        needs: "Linux 4.18",
    },
    Tracepoint {
        source: SourceName::NoRoutes6,
        gives: "IPv6 connects that a route of this host rejects",
        intent: Intent::Optional,
        tracepoint: "fib6_table_lookup",
        program: "on_no_route6",
        more: None,
        kind: tw_kind::TW_NO_ROUTE,
        lookup: true,
        args: 4,
        needs: "Linux 5.3",
    },
];

/// State changes that the default recording leaves out: the steps of an orderly close, which
/// the last change tells as well (FIN_WAIT2 → CLOSE closed first, LAST_ACK → CLOSE second).
const ORDERLY_CLOSE: &[(u32, u32)] = &[(1, 4), (1, 8), (4, 5), (4, 11), (8, 9)];

/// The loaded tracepoint programs.
pub struct Events<'o> {
    skel: EventsSkel<'o>,
    fold: bool,
    links: Vec<Link>,
    second: Second,
    /// What each tracepoint gives and whether it works.
    pub sources: Vec<Source>,
}

/// A record of the ring.
pub enum Told<'r> {
    /// As it is.
    Event(&'r tw_event),
    /// A reset, with the kernel stack that sent it, innermost first.
    Reset(&'r tw_event, &'r [u64]),
    /// A whole life, or as much as is known of one.
    Life(&'r tw_life),
}

impl Told<'_> {
    /// When it happened; of a life, the last of it.
    pub fn time_ns(&self) -> u64 {
        match self {
            Told::Event(event) | Told::Reset(event, _) => event.time_ns,
            Told::Life(life) => life.event.time_ns,
        }
    }
}

/// Records lost so far, per tracepoint.
#[derive(Default)]
pub struct Losses {
    /// The ring was full.
    full: [Count; TRACEPOINTS.len()],
    /// The program was not run.
    missed: [MissedRuns; TRACEPOINTS.len()],
    programs: Missed,
    /// What a second program took of these.
    caught: Count,
}

/// The tracepoint that has a second program.
const STATE: usize = 0;

/// Runs of a program that did not happen, and what was lost by that.
#[derive(Clone, Copy, Default)]
struct MissedRuns {
    runs: u64,
    lost: u64,
}

impl MissedRuns {
    /// What was lost since the last call, when a second program took so many in all.
    fn news(&mut self, caught: u64) -> u64 {
        let lost = self.runs.saturating_sub(caught).max(self.lost);
        lost - std::mem::replace(&mut self.lost, lost)
    }
}

impl<'o> Events<'o> {
    /// Loads and attaches what this kernel allows. Fails only when a required one does not work.
    pub fn attach(
        objects: &'o mut [MaybeUninit<OpenObject>; 2],
        options: &EventOptions,
        btf: &KernelBtf,
        names: &Names,
        callers: &Callers,
    ) -> Result<Events<'o>, Error> {
        let ranges = &callers.ranges;
        let mut verdicts: Vec<Verdict> = TRACEPOINTS
            .iter()
            .map(|t| supported(t, btf, names))
            .collect();

        let [first, second] = objects;
        let mut fold = !options.all_states;
        let open_all = open(first, options, btf, names, ranges, wanted(&verdicts, fold))?;
        let mut skel = match open_all.load() {
            Ok(skel) => skel,
            Err(_) => {
                // Before Linux 5.12 there is no compare and swap: every change is a row of its own.
                if fold {
                    let mut alone = MaybeUninit::uninit();
                    let only = |program: &str| TRACEPOINTS[STATE].has(program, true);
                    let open = open(&mut alone, options, btf, names, ranges, only)?;
                    fold = open.load().is_ok();
                }
                // A program that this kernel's verifier rejects must not take the others with it:
                // try each alone, then load those that it accepts.
                for (t, verdict) in TRACEPOINTS.iter().zip(&mut verdicts) {
                    if *verdict == Verdict::Attached {
                        let mut alone = MaybeUninit::uninit();
                        let only = |program: &str| t.has(program, fold);
                        let open = open(&mut alone, options, btf, names, ranges, only)?;
                        if let Err(e) = open.load() {
                            *verdict = Verdict::Failed(bpf_error(&e));
                        }
                    }
                }
                let open = open(second, options, btf, names, ranges, wanted(&verdicts, fold))?;
                open.load().map_err(|e| Error::Bpf {
                    what: "loading the tracepoint programs".into(),
                    why: bpf_error(&e),
                })?
            }
        };
        let mut links = Vec::new();
        let mut second = None;
        for program in skel.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let Some(i) = TRACEPOINTS.iter().position(|t| t.has(&name, fold)) else {
                continue;
            };
            if verdicts[i] == Verdict::Attached {
                match program.attach() {
                    Ok(link) if TRACEPOINTS[i].programs(fold).1 == Some(&*name) => {
                        second = Some(link);
                    }
                    Ok(link) => links.push(link),
                    Err(e) => verdicts[i] = Verdict::Failed(bpf_error(&e)),
                }
            }
        }
        let mut sources = Vec::new();
        for (t, verdict) in TRACEPOINTS.iter().zip(verdicts) {
            if let (Intent::Required, Verdict::Unsupported(why) | Verdict::Failed(why)) =
                (t.intent, &verdict)
            {
                return Err(Error::Bpf {
                    what: format!("attaching tracepoint {}", t.tracepoint),
                    why: why.clone(),
                });
            }
            let source = Source::optional(t.source.clone(), t.gives, verdict);
            sources.push(Source {
                intent: t.intent,
                ..source
            });
        }
        sources.push(refusals(btf, &sources));
        sources.push(Source::optional(
            SourceName::Symbols,
            "who called: SYN cookies told from normal handshakes, kinds of retransmits, where \
             packets were dropped",
            callers.verdict.clone(),
        ));
        Ok(Events {
            skel,
            fold,
            links,
            second: Second::new(second),
            sources,
        })
    }

    /// Stops watching; what is in the ring stays.
    pub fn detach(&mut self) {
        self.links.clear();
        self.second.end();
    }

    /// The ring; each `drain` hands the records that are in it to `each`.
    pub fn ring<'r>(&self, mut each: impl FnMut(Told) + 'r) -> Result<RingBuffer<'r>, Error> {
        ring(&self.skel.maps.ring, move |bytes| {
            if let Some(reset) = read::<tw_reset>(bytes) {
                let frames = reset.frames.iter().position(|f| *f == 0);
                let frames = &reset.frames[..frames.unwrap_or(reset.frames.len())];
                each(Told::Reset(&reset.event, frames));
            } else if let Some(life) = read::<tw_life>(bytes) {
                each(Told::Life(&life));
            } else if let Some(event) = read::<tw_event>(bytes) {
                each(Told::Event(&event));
            }
        })
    }

    /// Where connections wait for their end; `None` when every change is a record.
    pub fn lives(&self) -> Result<Option<Lives>, Error> {
        let map = || Lives::map(&self.skel.maps.slots);
        self.fold.then(map).transpose()
    }

    /// Records lost since the last call, in which the ring gave so many: source, how many, why.
    pub fn newly_lost(
        &mut self,
        losses: &mut Losses,
        records: u64,
    ) -> Result<Vec<(SourceName, u64, &'static str)>, Error> {
        let mut news = Vec::new();
        for (t, count) in TRACEPOINTS.iter().zip(&mut losses.full) {
            match count.news(&self.skel.maps.lost, t.kind.0)? {
                0 => {}
                n => news.push((t.source.clone(), n, RING_FULL)),
            }
        }
        let before = losses.missed[STATE].runs;
        for (program, count) in losses.programs.news(self.skel.object()) {
            let first = |t: &Tracepoint| t.programs(self.fold).0 == program;
            let first = TRACEPOINTS.iter().position(first);
            if let Some(i) = first.filter(|i| !TRACEPOINTS[*i].lookup) {
                losses.missed[i].runs += count;
            }
        }
        let missed = losses.missed[STATE].runs - before;
        let caught = losses.caught.news(&self.skel.maps.caught, 0)?;
        let programs = &self.skel.progs;
        let second = if self.fold {
            &programs.on_state_fold_missed
        } else {
            &programs.on_state_missed
        };
        self.second.look(second, records, missed, caught);
        for (t, missed) in TRACEPOINTS.iter().zip(&mut losses.missed) {
            let caught = t.more.as_ref().map_or(0, |_| losses.caught.total);
            match missed.news(caught) {
                0 => {}
                n => news.push((t.source.clone(), n, MISSED)),
            }
        }
        Ok(news)
    }

    /// The sources with what each has lost.
    pub fn sources_with(&self, losses: &Losses) -> Vec<Source> {
        let mut sources = self.sources.clone();
        let lost = losses.full.iter().zip(losses.missed);
        for (source, (full, missed)) in sources.iter_mut().zip(lost) {
            source.lost = full.total + missed.lost;
        }
        sources
    }
}

/// Resets for packets that no socket took, such as refused connects: older kernels pass them over.
fn refusals(btf: &KernelBtf, sources: &[Source]) -> Source {
    let sent = sources.iter().find(|s| s.name == SourceName::ResetsSent);
    let sent = sent.map_or(Verdict::Attached, |s| s.verdict.clone());
    // The kernel reports them since it tells reasons.
    let told = btf.tracepoint_args("tcp_send_reset") >= Some(3);
    let verdict = match sent {
        Verdict::Attached if !told => Verdict::Unsupported(
            "this kernel's tcp_send_reset tells only of resets sent by sockets (all: Linux 6.10)"
                .into(),
        ),
        sent => sent,
    };
    let gives = "resets sent for packets that belong to no socket, such as refused connects";
    Source::optional(SourceName::ResetsUnmatched, gives, verdict)
}

/// Whether a program is among those with a good verdict.
fn wanted(verdicts: &[Verdict], fold: bool) -> impl Fn(&str) -> bool + '_ {
    move |program| {
        let verdict = TRACEPOINTS
            .iter()
            .zip(verdicts)
            .find(|(t, _)| t.has(program, fold));
        verdict.is_some_and(|(_, verdict)| *verdict == Verdict::Attached)
    }
}

fn supported(t: &Tracepoint, btf: &KernelBtf, names: &Names) -> Verdict {
    match btf.tracepoint_args(t.tracepoint) {
        None => Verdict::Unsupported(format!(
            "this kernel has no tracepoint {} ({})",
            t.tracepoint, t.needs
        )),
        Some(_) if t.program == "on_drop" && !names.has_drop_reasons() => {
            Verdict::Unsupported(format!("this kernel gives no drop reasons ({})", t.needs))
        }
        Some(n) if n < t.args => Verdict::Unsupported(format!(
            "this kernel's {} passes {n} of {} arguments ({})",
            t.tracepoint, t.args, t.needs
        )),
        Some(_) => Verdict::Attached,
    }
}

fn open<'o>(
    object: &'o mut MaybeUninit<OpenObject>,
    options: &EventOptions,
    btf: &KernelBtf,
    names: &Names,
    ranges: &[tw_range],
    wanted: impl Fn(&str) -> bool,
) -> Result<OpenEventsSkel<'o>, Error> {
    let opening = |e: libbpf_rs::Error| Error::Bpf {
        what: "opening the tracepoint programs".into(),
        why: bpf_error(&e),
    };
    let mut open = EventsSkelBuilder::default().open(object).map_err(opening)?;
    open.maps
        .ring
        .set_max_entries(options.ring_bytes)
        .map_err(opening)?;
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = program.name().to_str().is_some_and(&wanted);
        program.set_autoload(wanted);
    }
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return Err(Error::Bpf {
            what: "opening the tracepoint programs".into(),
            why: "their read-only data is missing".into(),
        });
    };
    rodata.sock_key = options.sock_key;
    let n = ranges.len().min(rodata.ranges.len());
    rodata.ranges[..n].copy_from_slice(&ranges[..n]);
    rodata.n_ranges = n as u32;
    let cookie = u64::from(tw_caller::TW_CALLER_COOKIE.0);
    rodata.n_cookie_ranges = ranges[..n].iter().filter(|r| r.caller == cookie).count() as u32;
    rodata.filter = options.filter.wire().map_err(Error::Usage)?;
    // TCP_SYNCOOKIE_VALID is two minutes; the second is for rounding. Without HZ, never too old.
    rodata.cookie_jiffies = hz().map_or(u32::MAX, |hz| hz.saturating_mul(121));
    rodata.state_wanted = [!0; 16];
    if !options.all_states {
        for &(old, new) in ORDERLY_CLOSE {
            rodata.state_wanted[old as usize] &= !(1 << new);
        }
    }
    // Arguments that came later: the kernel's BTF says whether they are there.
    rodata.reset_has_reason = btf.tracepoint_args("tcp_send_reset") >= Some(3);
    rodata.retransmit_has_err = btf.tracepoint_args("tcp_retransmit_skb") >= Some(3);
    rodata.kfree_has_sock = btf.tracepoint_args("kfree_skb") >= Some(4);
    let reason = |name| names.drop_reason_number(name).unwrap_or(-1);
    rodata.reason_unspecified = reason("NOT_SPECIFIED");
    rodata.reason_consumed = reason("SKB_CONSUMED");
    rodata.reason_queue_purge = reason("QUEUE_PURGE");
    Ok(open)
}

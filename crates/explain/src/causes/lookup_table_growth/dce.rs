//! illumos' destination cache: it evicts nothing unless memory is low, and has its own tunables.

use analysis::stats::ratio;
use analysis::words::{count, figure, fitting, percent, rounded};

use super::Walk;
use crate::limits;
use crate::vocabulary::*;

/// The 2012 kernel's buckets, and the number of entries in one from which on the cache is reclaimed.
const ILLUMOS_BUCKETS: u64 = 1_024;
const ILLUMOS_THRESHOLD: u64 = 32;
/// Buckets for a host that must do without reclaims.
const ADVISED_BUCKETS: u64 = 65_536;

/// The rate at which it grows, and what that gives since boot.
struct SinceBoot {
    per_s: f64,
    days: f64,
    entries: f64,
}

impl Walk<'_> {
    /// `None` unless the rate measured here, kept up since boot, gives what it holds. The recording's clock begins when
    /// the host boots.
    fn since_boot(&self) -> Option<SinceBoot> {
        let (first, full) = (&self.size.first, &self.size.fullest);
        let added = full.entries.saturating_sub(first.entries);
        let ns = full.time_ns.saturating_sub(first.time_ns);
        let seconds = full.time_ns as f64 / 1e9;
        let per_s = ratio(added as f64, ns as f64 / 1e9)?;
        let entries = per_s * seconds;
        let fits =
            (entries - full.entries as f64).abs() <= limits::ALIKE.share() * full.entries as f64;
        (self.kind.structure == "dce" && added >= limits::ENOUGH.count() && fits).then_some(
            SinceBoot {
                per_s,
                days: seconds / 86_400.0,
                entries,
            },
        )
    }

    /// Nothing is ever evicted: that closes the chain.
    pub(super) fn never_forgets(&self) -> Option<Check> {
        let grown = self.since_boot()?;
        let entries = self.kind.entries;
        Some(Check {
            formula: format!(
                "{} new {entries} per second × {} days since boot = {entries} held, if none is ever \
                 removed",
                figure(grown.per_s),
                figure(grown.days)
            ),
            expected: rounded(grown.entries),
            measured: rounded(self.size.fullest.entries as f64),
            unit: entries.into(),
            agrees: true,
            tolerance: format!(
                "within {}: the rate is measured over seconds",
                percent(limits::ALIKE.share())
            ),
        })
    }

    pub(super) fn never_forgets_step(&self) -> Option<Step> {
        let grown = self.since_boot()?;
        Some(say!(
            "It grows by {added_per_s} per second, and the host has been up for {days_since_boot} days: it \
             holds everything ever added, and nothing was removed.",
            added_per_s = Quantity::new(grown.per_s, figure(grown.per_s))
                .rows([self.size.first.row, self.size.fullest.row]),
            days_since_boot = Quantity::new(grown.days, figure(grown.days))
        ))
    }

    pub(super) fn dce_fix(&self) -> String {
        fitting([
            format!(
                "Reclaim the cache from {ILLUMOS_THRESHOLD} entries in a bucket on \
                 (_dce_reclaim_threshold={ILLUMOS_THRESHOLD})."
            ),
            format!("Set _dce_reclaim_threshold={ILLUMOS_THRESHOLD}."),
        ])
    }

    pub(super) fn dce_advice(&self) -> Vec<Advice> {
        let bounded = Advice::to(format!(
            "Use a kernel that reclaims the cache once a bucket holds more than \
             _dce_reclaim_threshold={ILLUMOS_THRESHOLD} entries, with ip_dce_hash_size={ILLUMOS_BUCKETS}."
        ))
        .by(shell!("ipadm set-prop -p _dce_reclaim_threshold={ILLUMOS_THRESHOLD} ip", ILLUMOS_THRESHOLD))
        .undo(Some(
            "note first what `ipadm show-prop -p _dce_reclaim_threshold ip` shows, to restore it later",
        ))
        .at("the host; illumos has both since 2012")
        .risk(
            "Cached path MTUs and round trips are dropped with their addresses, and learnt again.",
        )
        .effect(format!(
            "Chains of about {ILLUMOS_THRESHOLD} entries, not {}: about {} of a CPU is free again.",
            figure(self.longest),
            self.of_a_cpu()
        ));
        let wider = Advice::to(format!("Or give it {} buckets.", count(ADVISED_BUCKETS)))
            .by(shell!(
                "echo 'set ip:ip_dce_hash_size={ADVISED_BUCKETS}' >> /etc/system",
                ADVISED_BUCKETS
            ))
            .undo(Some("delete the line from /etc/system, and reboot"))
            .at("a kernel that has the setting; it takes a reboot, which empties the cache")
            .risk("The cache still grows, and its chains with it, only more slowly.")
            .effect(self.shorter_with(ADVISED_BUCKETS));
        let now = Advice::to(
            "Without a reboot: set lotsfree above freemem, so that the kernel considers memory low, then \
             set it back.",
        )
        .by(shell!("echo 'freemem/E; lotsfree/E' | mdb -k"))
        .at("the host; the command shows both, `mdb -kw` and `lotsfree/Z VALUE` set one")
        .risk("Meanwhile other caches are emptied too, and processes may be paged out.")
        .effect(
            "A third of the entries is deleted at once, and again every 15 s: 12 rounds, 3 minutes, leave \
             one in a hundred. Then the cache grows again.",
        );
        vec![bounded, wider, now]
    }
}

//! What a story counted and did not keep, in words: nothing is left out unsaid.

use super::Story;
use crate::connections::MAX_CONNECTIONS;
use crate::words;

impl Story {
    /// What was counted and not kept: how often, and what, in words; empty when all was kept.
    pub fn folded(&self) -> Vec<(u64, String)> {
        // Named one by one, so that what is added to the story says what it folds, or that it folds nothing.
        let Story {
            start_ns: _,
            end_ns: _,
            conns: _,
            homes: _,
            host_names: _,
            samples: _,
            exchanges: _,
            listeners,
            packets,
            counters,
            settings,
            processes,
            waits,
            refusals,
            resets,
            series,
            structures,
            profile,
            ports,
            binds,
            searches,
            denied,
            unrouted,
            threads,
            cpus,
            interrupts,
            resources,
            health: _, // Tells its own.
            tally,
            transfers,
            drops,
            devices,
            sleeps,
            heartbeats,
            requests,
            troubles: _, // Of any time and any kind.
            sums: _,
            folded_ends: _, // Of connections, which are counted.
            names: _,
            index: _,
            addresses: _,
            kernel: _,
            signals,
        } = self;
        let kept = words::count(MAX_CONNECTIONS as u64);
        let connections = format!(
            "connections beyond {kept} were counted but not examined one by one, beginning with those that ended well"
        );
        let of = |n: u64, says: &str| (n, says.to_string());
        let all = [
            (tally.folded, connections),
            of(
                tally.unsampled,
                "samples of further connections were not examined",
            ),
            of(
                packets.folded,
                "drops and resets at the places with fewest were counted and not examined",
            ),
            of(
                listeners.folded,
                "samples of further listeners were not examined",
            ),
            of(
                counters.folded,
                "samples of further counters were not examined",
            ),
            of(
                refusals.folded,
                "further SYNs retransmitted or refused by TIME_WAIT were not examined",
            ),
            of(
                resets.folded,
                "further resets were counted and not examined",
            ),
            of(
                series.folded,
                "further changes of counters were not compared",
            ),
            of(
                requests.folded(),
                "requests of the listeners and destinations that took least time were not examined",
            ),
            of(
                signals.folded,
                "signals that stopped processes, the oldest of all, were not examined",
            ),
            of(
                waits.folded,
                "waits, the shortest of all, were not examined",
            ),
            of(binds.folded, "further bind() calls were not examined"),
            of(searches.folded, "further connect() calls were not examined"),
            of(
                denied.folded,
                "further calls that found no descriptor were not examined",
            ),
            of(
                unrouted.folded,
                "further connect() calls without a route were not examined",
            ),
            of(settings.folded(), "further settings were not examined"),
            of(
                processes.folded(),
                "samples of the processes that did least were not examined",
            ),
            of(
                structures.folded(),
                "samples of the least lookup structures were not examined",
            ),
            of(
                profile.folded,
                "samples of the CPU profile were not examined",
            ),
            of(
                ports.folded(),
                "counts of ports to the destinations with fewest were not examined",
            ),
            of(
                threads.folded(),
                "accounts of the threads that waited least for a CPU were not examined",
            ),
            of(cpus.folded(), "times of further CPUs were not examined"),
            of(
                interrupts.folded(),
                "counts of the rarest interrupts were not examined",
            ),
            of(
                resources.folded(),
                "values of resources that did not change were not examined",
            ),
            of(
                transfers.folded(),
                "samples of the least transfers were not examined",
            ),
            of(
                drops.folded(),
                "drops between the ends with fewest were not examined",
            ),
            of(
                devices.folded(),
                "counts of the interfaces that sent least were not examined",
            ),
            of(
                heartbeats.folded(),
                "late heartbeats, the least late of all, were not examined",
            ),
            of(
                sleeps.folded(),
                "sleeps of the processes that slept least were not examined",
            ),
        ];
        all.into_iter().filter(|(n, _)| *n > 0).collect()
    }
}

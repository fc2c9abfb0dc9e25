//! The sources of the sampler: what each gives, and its verdict.

use recording::{Source, SourceName, Verdict};

use crate::{rights, space};

/// The sampled sources; what is not of processes works whenever sampling works at all.
pub fn sources(looks: Verdict, holders: Verdict) -> Vec<Source> {
    let here = space::pids_verdict();
    let holders = match &here {
        Verdict::Attached => holders,
        not_here => not_here.clone(),
    };
    vec![
        Source::optional(
            SourceName::Namespaces,
            "network namespaces other than the own",
            if rights::may_visit() {
                here.clone()
            } else {
                Verdict::Unsupported(
                    "this process lacks CAP_SYS_ADMIN (to enter them): only the own is recorded"
                        .into(),
                )
            },
        ),
        Source::required(
            SourceName::Sockets,
            "every TCP socket with all of tcp_info, listeners with their queues, TIME_WAIT",
            Verdict::Attached,
        ),
        Source::optional(
            SourceName::AcceptWaits,
            "how long connections waited for accept(), also between two samples",
            looks,
        ),
        Source::optional(
            SourceName::Holders,
            "which processes hold which sockets, also those older than the recording",
            holders,
        ),
        Source::required(
            SourceName::Counters,
            "every SNMP and TcpExt counter of every network namespace",
            Verdict::Attached,
        ),
        Source::required(
            SourceName::Settings,
            "the sysctls that matter to TCP, and the addresses of interfaces",
            Verdict::Attached,
        ),
        Source::optional(
            SourceName::Processes,
            "state and CPU time of the processes that listen, and what cgroups are called",
            here,
        ),
    ]
}

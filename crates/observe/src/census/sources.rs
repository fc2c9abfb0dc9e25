//! What the sources of this part give, and whether this kernel has them.

use std::mem::MaybeUninit;

use recording::{Source, SourceName, Verdict};

use super::slabs;
use super::structures::STRUCTURES;
use super::verdicts::Verdicts;
use super::walk::{MOST_DESTINATIONS, Walk};
use crate::error::Error;
use crate::filter::Filter;
use crate::procfile::ProcFile;

/// The sources with their verdicts. An `obstacle` hinders the walk over the sockets; `uncounted`
/// sockets are missing from the counts of ports.
pub fn sources(obstacle: Option<&Error>, verdicts: &Verdicts, uncounted: u64) -> Vec<Source> {
    let walked = match obstacle {
        None => Verdict::Attached,
        Some(e) => Verdict::Failed(e.reason()),
    };
    let mut sources = vec![
        Source::optional(
            SourceName::Ports,
            "local ports in use to each destination, against the range they are chosen from",
            walked.clone(),
        )
        .with_lost(uncounted),
        Source::optional(
            SourceName::Tables,
            "entries and buckets of TCP's hash tables: connections, ports, listeners, TIME_WAIT",
            walked,
        ),
    ];
    for s in STRUCTURES {
        sources.push(Source::optional(
            s.name.clone(),
            s.gives,
            verdicts.of(&s.name),
        ));
    }
    let gives = "what the kernel keeps of everything: the largest and fastest growing caches";
    sources.push(Source::optional(
        SourceName::Slabs,
        gives,
        verdicts.of(&SourceName::Slabs),
    ));
    sources
}

/// Tries everything in the own namespace and lets go again.
pub fn checkup() -> Vec<Source> {
    let mut object = MaybeUninit::uninit();
    let mut file = ProcFile::default();
    let mut verdicts = Verdicts::default();
    let walk = Walk::load(&mut object, &Filter::default(), MOST_DESTINATIONS);
    for s in STRUCTURES {
        verdicts.note(&s.name, s.without, &(s.count)(&mut file));
    }
    slabs::note(&mut verdicts, &file.read("/proc/slabinfo"));
    sources(walk.as_ref().err(), &verdicts, 0)
}

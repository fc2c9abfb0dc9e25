//! Loads and attaches the programs that watch system calls.

use std::mem::MaybeUninit;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapType, OpenObject};
use recording::{CallKind, Source, SourceName, Verdict};

use super::syscalls;
use crate::error::{Error, bpf_error};
use crate::filter::{Filter, WireFilter};
use crate::kernel::KernelBtf;
use crate::wire::calls::{CallsSkel, CallsSkelBuilder};
use crate::wire::same;

/// Which calls to record.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// Of whom, on what.
    pub filter: Filter,
    /// Size of the ring buffer, bytes.
    pub ring_bytes: u32,
    /// Those that take at least so long; zero means all.
    pub over: Duration,
    /// Only these families, by the names of the table; empty means all.
    pub only: &'static [CallKind],
    /// Random numbers behind the ids of sockets.
    pub sock_key: [u64; 2],
}

/// Records are rare unless all are asked for; this holds 30,000.
const MAX_RING_BYTES: u32 = 4 << 20;

/// A tracepoint: its name, the program, and whether it serves `port-search` only. Calls are seen to
/// begin last: else one whose end is not watched yet would be missed.
const TRACEPOINTS: &[(&str, &str, bool)] = &[
    ("sys_exit", "on_exit", false),
    ("net_dev_queue", "on_packet", true),
    ("inet_sock_set_state", "on_state", true),
    ("sys_enter", "on_enter", false),
];

/// The attached programs.
pub struct Calls<'o> {
    /// The loaded object.
    pub skel: CallsSkel<'o>,
    /// Drop them to stop watching; what is in the ring stays.
    pub links: Vec<Link>,
    /// What they give.
    pub sources: Vec<Source>,
}

impl<'o> Calls<'o> {
    /// Attaches what this kernel allows. The error says why no call can be watched.
    pub fn attach(
        objects: &'o mut [MaybeUninit<OpenObject>; 2],
        options: &CallOptions,
    ) -> Result<Calls<'o>, Error> {
        let [first, second] = objects;
        let (mut skel, mut search) = match load(first, options, true) {
            Ok(skel) => (skel, Verdict::Attached),
            Err(Error::Usage(why)) => return Err(Error::Usage(why)),
            // Without what tells the search for a port, the rest may still load.
            Err(e) => {
                let why = e.reason();
                (load(second, options, false)?, Verdict::Failed(why))
            }
        };
        let mut links = Vec::new();
        for t in TRACEPOINTS {
            let mut programs = skel.object_mut().progs_mut();
            let Some(program) = programs.find(|p| p.name() == t.1) else {
                continue;
            };
            if t.2 && search != Verdict::Attached {
                continue;
            }
            match program.attach() {
                Ok(link) => links.push(link),
                Err(e) if t.2 => search = Verdict::Failed(bpf_error(&e)),
                Err(e) => {
                    return Err(Error::Bpf {
                        what: format!("attaching tracepoint {}", t.0),
                        why: bpf_error(&e),
                    });
                }
            }
        }
        Ok(Calls {
            skel,
            links,
            sources: sources(Verdict::Attached, search),
        })
    }
}

/// What the programs give, with a verdict on all of it and one on the search for a port.
pub fn sources(calls: Verdict, search: Verdict) -> Vec<Source> {
    vec![
        Source::optional(
            SourceName::Calls,
            "system calls on TCP sockets that take long or fail; the backlog of every listen()",
            calls,
        ),
        Source::optional(
            SourceName::PortSearch,
            "how long connect() looks for a free local port",
            search,
        ),
    ]
}

/// What stands in the way of watching calls here, if anything does.
pub fn obstacle(btf: &KernelBtf) -> Option<String> {
    if let Ok(false) = MapType::TaskStorage.is_supported() {
        return Some("this kernel's programs cannot keep notes with a task (Linux 5.12)".into());
    }
    let missing = TRACEPOINTS
        .iter()
        .find(|t| !t.2 && btf.tracepoint_args(t.0).is_none())?;
    Some(format!("this kernel has no tracepoint {}", missing.0))
}

fn load<'o>(
    object: &'o mut MaybeUninit<OpenObject>,
    options: &CallOptions,
    search: bool,
) -> Result<CallsSkel<'o>, Error> {
    let failed = |e: libbpf_rs::Error| Error::Bpf {
        what: "loading the system call programs".into(),
        why: bpf_error(&e),
    };
    let mut open = CallsSkelBuilder::default().open(object).map_err(failed)?;
    let ring_bytes = options.ring_bytes.min(MAX_RING_BYTES);
    open.maps.ring.set_max_entries(ring_bytes).map_err(failed)?;
    for mut program in open.open_object_mut().progs_mut() {
        let of_search = TRACEPOINTS.iter().any(|t| t.2 && program.name() == t.1);
        program.set_autoload(search || !of_search);
    }
    let Some(rodata) = open.maps.rodata_data.as_deref_mut() else {
        return Err(Error::Bpf {
            what: "loading the system call programs".into(),
            why: "their read-only data is missing".into(),
        });
    };
    rodata.sock_key = options.sock_key;
    rodata.filter = same(&options.filter.wire().map_err(Error::Usage)?);
    rodata.kinds = syscalls::kinds(options.only);
    rodata.call_over_ns = u64::try_from(options.over.as_nanos()).unwrap_or(u64::MAX);
    open.load().map_err(failed)
}

//! The load: a small TCP client and server whose every habit is a parameter.
//!
//! They run as processes of their own (a hidden verb of the binary, or `lab-workload`), so that
//! they have a pid and a command name that a diagnosis can name, and a namespace to live in.

mod args;
mod binder;
mod client;
mod hog;
mod poller;
mod report;
mod server;
mod socket;
mod speaks;
mod waits;
mod wire;

use std::ffi::CString;
use std::path::Path;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};

use rustix::thread::{CpuSet, sched_setaffinity};

pub use args::{
    BinderArgs, ClientArgs, Closer, Common, HogArgs, PortRange, Role, ServerArgs, Stream,
    WorkloadArgs,
};
pub use report::{BinderReport, ClientReport, Connections, Requests, ServerReport, Spread};
pub use speaks::Speaks;
pub use waits::{Waited, Waits};

use crate::{Error, Stop};

/// File descriptors one process may use; more needs more processes.
const MAX_FILES: u64 = 20_000;

/// Runs one process of the load to its end. It prints one JSON line when it has ended; a server
/// prints `ready` first, once it listens. Wants a process of its own: it moves namespace, takes
/// the signals and renames the process.
pub fn workload_main(args: WorkloadArgs) -> Result<(), Error> {
    let stop = Stop::on_signals()?;
    match args.role {
        Role::Server(args) => {
            settle(&args.common)?;
            args.files.map_or(Ok(()), allow_files)?;
            print_line(&server::run(&args, &stop)?)
        }
        Role::Client(args) => {
            settle(&args.common)?;
            print_line(&client::run(&args, &stop)?)
        }
        Role::Binder(args) => {
            settle(&args.common)?;
            print_line(&binder::run(&args, &stop)?)
        }
        Role::Hog(args) => {
            settle(&args.common)?;
            hog::run(&args, &stop);
            Ok(())
        }
    }
}

/// Makes this process what its arguments say, before it opens a socket.
fn settle(common: &Common) -> Result<(), Error> {
    if let Some(parent) = common.parent {
        set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(Error::io("tying the workload to its parent"))?;
        // The parent may have died before the kernel knew that we care.
        if getppid().map(Pid::as_raw_nonzero).map(|p| p.get() as u32) != Some(parent) {
            return Err(Error::Interrupted);
        }
    }
    if let Some(netns) = &common.netns {
        crate::netns::enter(&Path::new("/run/netns").join(netns))
            .map_err(Error::io(format!("entering namespace {netns}")))?;
    }
    if let Some(cpu) = common.cpu {
        let mut cpus = CpuSet::new();
        // A CPU beyond those that the set can name is none of this host either.
        if (cpu as usize) < CpuSet::MAX_CPU {
            cpus.set(cpu as usize);
        }
        sched_setaffinity(None, &cpus).map_err(Error::io(format!("moving to CPU {cpu}")))?;
    }
    let name = CString::new(common.name.as_str()).unwrap_or_default();
    rustix::thread::set_name(&name).map_err(Error::io("naming the process"))?;
    allow_files(MAX_FILES)
}

/// Sets how many descriptors it may have open, as far as it is allowed to.
fn allow_files(most: u64) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: Some(limit.maximum.map_or(most, |maximum| maximum.min(most))),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, wanted).map_err(Error::io("setting the limit of open files"))
}

fn print_line(report: &impl serde::Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(report).map_err(Error::io("writing the report"))?;
    println!("{line}");
    Ok(())
}

//! Starts the thread that fills a part of a recording.

use recording::Writer;

use crate::calls::{self, CallOptions};
use crate::census::take_census;
use crate::error::Error;
use crate::events::EventOptions;
use crate::health::HealthLog;
use crate::heartbeats::{self, HeartbeatOptions};
use crate::options::Options;
use crate::pace::Allowance;
use crate::packets::{self, PacketOptions};
use crate::part::Part;
use crate::patience::Moments;
use crate::profile;
use crate::requests::{self, RequestOptions};
use crate::sampler::{SampleOptions, sample};
use crate::stacks::Stacks;
use crate::tasks::{self, TaskOptions};
use crate::usage::{UsageOptions, watch_usage};
use crate::watcher::watch;
use crate::worker::Worker;

impl Part {
    /// Starts the thread that attaches and fills it; `None` when the thread of another part does.
    pub(crate) fn start(
        self,
        options: &Options,
        sock_key: [u64; 2],
        writer: &Writer,
        stacks: &Stacks,
        health: &HealthLog,
        moments: &Moments,
    ) -> Result<Option<Worker>, Error> {
        let (health, stacks) = (health.clone(), stacks.clone());
        let allowance = Allowance::of(options.max_cpu);
        let started = match self {
            Part::Events => {
                let options = EventOptions {
                    filter: options.filter.clone(),
                    ring_bytes: options.ring_bytes,
                    all_states: options.all_states,
                    sock_key,
                    follows: options.sock_key.is_some(),
                };
                let table = writer.table()?;
                Worker::start("watcher", moments, move |c| {
                    watch(&options, table, stacks, &health, &c)
                })
            }
            Part::Sockets => {
                let options = SampleOptions {
                    netns: options.filter.netns.clone(),
                    interval: options.interval,
                    allowance,
                    sock_key,
                };
                let writer = writer.clone();
                Worker::start("sampler", moments, move |c| {
                    sample(&options, &writer, &health, &c)
                })
            }
            Part::Host => {
                let options = UsageOptions {
                    netns: options.filter.netns.clone(),
                    interval: options.interval,
                    allowance,
                };
                let writer = writer.clone();
                Worker::start("host", moments, move |c| {
                    watch_usage(&options, &writer, &health, &c)
                })
            }
            Part::Ports => {
                let (filter, writer) = (options.filter.clone(), writer.clone());
                Worker::start("ports", moments, move |c| {
                    take_census(&filter, allowance, &writer, &health, &c)
                })
            }
            Part::Calls => {
                let options = CallOptions {
                    filter: options.filter.clone(),
                    ring_bytes: options.ring_bytes,
                    over: options.call_over,
                    only: options.calls_only,
                    sock_key,
                };
                let table = writer.table()?;
                Worker::start("calls", moments, move |c| {
                    calls::watch(&options, table, &health, &c)
                })
            }
            Part::Packets => {
                let options = PacketOptions {
                    filter: options.filter.clone(),
                    ring_bytes: options.ring_bytes,
                    interval: options.interval,
                };
                let table = writer.table()?;
                Worker::start("packets", moments, move |c| {
                    packets::watch(&options, allowance, table, &health, &c)
                })
            }
            // Both rest on the same tracepoints.
            Part::Threads if options.parts.contains(&Part::Waits) => return Ok(None),
            Part::Waits | Part::Threads => {
                let options = TaskOptions {
                    filter: options.filter.clone(),
                    waits: self == Part::Waits,
                    threads: options.parts.contains(&Part::Threads),
                    wait_over: options.wait_over,
                    interval: options.interval,
                    // Long waits are few beside the events of a busy host.
                    ring_bytes: (options.ring_bytes / 4).max(4096),
                    sock_key,
                };
                let writer = writer.clone();
                Worker::start("tasks", moments, move |c| {
                    tasks::watch(&options, allowance, &writer, stacks, &health, &c)
                })
            }
            Part::Requests => {
                let options = RequestOptions {
                    filter: options.filter.clone(),
                    // One record a second and service, at most a few.
                    ring_bytes: (options.ring_bytes / 16).max(4096),
                    sock_key,
                };
                let writer = writer.clone();
                Worker::start("requests", moments, move |c| {
                    requests::watch(&options, allowance, &writer, &health, &c)
                })
            }
            Part::Heartbeats => {
                let options = HeartbeatOptions {
                    filter: options.filter.clone(),
                    sock_key,
                };
                let writer = writer.clone();
                Worker::start("heartbeats", moments, move |c| {
                    heartbeats::watch(&options, allowance, &writer, &health, &c)
                })
            }
            Part::Profile => {
                let (how, filter) = (options.profile.clone(), options.filter.clone());
                let ring = (options.ring_bytes / 4).max(4096);
                let table = writer.table()?;
                Worker::start("profiler", moments, move |c| {
                    profile::watch(&how, &filter, ring, table, stacks, &health, &c)
                })
            }
        };
        started.map(Some)
    }
}

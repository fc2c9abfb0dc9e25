#![doc = include_str!("../README.md")]

mod counters;
mod dial;
mod end;
mod fixture;
mod flow;
mod host;
mod life;
mod machine;
mod request_mix;
mod reset;
mod stacks;
mod tables;
mod task;

pub mod cases;

pub use counters::Counters;
pub use dial::{Dial, Fate};
pub use end::{End, Endpoint, Opening};
pub use fixture::{CLIENT, Fixture, Listen, SERVER, START_NS, Written, place};
pub use flow::Flow;
pub use host::{
    ACK, HOST, LEAST_NS, LEAST_PORTS, Listening, PERIOD_NS, PSH_ACK, RST_ACK, SYN, manifest,
    settings, table_size,
};
pub use life::Life;
pub use machine::OnCpu;
pub use request_mix::RequestMix;
pub use reset::Broken;
pub use stacks::{StackIds, kernel};
pub use tables::{Collected, Row, Sink, Tables};
pub use task::Task;

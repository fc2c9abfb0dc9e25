//! The lab: faults planted on the real kernel, in network namespaces of its own, with the truth
//! about them, so that what tcpwhy says can be checked. It drives the built binary as a user
//! does, and changes nothing outside the namespaces it made.

mod command;
mod corpus;
mod engine;
mod error;
mod exam;
mod figures;
mod fix;
mod host_time;
mod judge;
mod leftovers;
mod link;
mod look;
mod netns;
mod outcome;
mod plant;
mod printed;
mod process;
mod recorder;
mod repeat;
mod report;
mod scenario;
mod shield;
mod situations;
mod stop;
mod workload;

pub use corpus::{CorpusShelf, Kept, RecordedTruth, Subject, record_subject, subjects};
pub use engine::{RunOptions, run, run_pack};
pub use error::Error;
pub use exam::{
    AGAIN, Bin, ExamOptions, Fault, Felt, Found, GRADING, Grade, Group, Keep, Part, Progress, Row,
    Score, Side, Sitting, Sittings, Situation, exam, exam_markdown, noticed, render_grade,
    render_sitting,
};
pub use figures::{Figure, LinkReport, Workload};
pub use leftovers::clean_leftovers;
pub use link::{Counters, Link, Wire};
pub use netns::Netns;
pub use outcome::{Change, Fix, Kind, Outcome, Pack, Printed, Round};
pub use plant::{Load, Plant, Programs};
pub use repeat::{Repeated, RunLine, render_runs, repeat};
pub use report::render;
pub use scenario::{
    AccountTruth, BinderSpec, Check, ClientSpec, FixTruth, Less, LinkSpec, NodeSpec, ProgramSpec,
    RunsTruth, Scenario, ServerSpec, Suite, Summary, Tbf, Truth, checks, list, packs,
};
pub use situations::{
    Composed, GRADED, Mark, Marked, Mechanism, Met, Played, Right, Said, Sat, SituationGrade,
    SituationOptions, Tally, Told, UNTOLD, answers, explain_again, render_composed, render_marked,
    render_situations, situations, situations_markdown,
};
pub use stop::Stop;
pub use workload::{
    BinderArgs, BinderReport, ClientArgs, ClientReport, Closer, Common, Connections, HogArgs,
    PortRange, Requests, Role, ServerArgs, ServerReport, Speaks, Spread, Stream, Waited, Waits,
    WorkloadArgs, workload_main,
};

//! The small vocabulary that causes are written in: `use crate::vocabulary::*`.

pub(crate) use analysis::account::State;
pub(crate) use analysis::{Conn, ConnId, Endpoint, Netns, Outcome, Side, Story};
pub(crate) use recording::{RowRef, SourceName, counter, sysctl};

pub(crate) use crate::actions::{
    buffer_sizes, command_in, forget_path, larger_most, repair_path, set_sysctl,
};
pub(crate) use crate::advice::{Advice, Change};
pub(crate) use crate::asked::Asked;
pub(crate) use crate::case::Case;
pub(crate) use crate::cause::{CONNTRACK_DROPS, Cause, Ground, LISTENER_DROPS, ToldWith};
pub(crate) use crate::checks::{at_least, same_count};
pub(crate) use crate::correlated_counters::Symptom;
pub(crate) use crate::finding::{Check, Finding, Impact, Latency, Level, Role, Scope, Step};
pub(crate) use crate::found::{Found, MAX_PER_CAUSE};
pub(crate) use crate::id::Id;
pub(crate) use crate::kernel::linux;
pub(crate) use crate::layer::Layer;
pub(crate) use crate::lost::Lost;
pub(crate) use crate::place::Place;
pub(crate) use crate::places::listener::SHOWN_ROWS;
pub(crate) use crate::say::{Quantity, say};
pub(crate) use crate::scope::{
    application, culprit, named, named_short, namespace, owners, process,
};
pub(crate) use crate::shell::ShellCommand;
pub(crate) use crate::undo::Undo;
pub(crate) use crate::verdict::{Answered, Test, Verdict, every};
pub(crate) use crate::whole::{
    NO_ARRIVAL, NO_CONNECT, NO_CONNECTION, NO_PACKET, NO_PATH, NO_TRANSFER, NOT_COUNTED, Whole,
};
pub(crate) use crate::{sentence, shell};

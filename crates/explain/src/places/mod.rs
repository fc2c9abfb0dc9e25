//! Places that causes look at, with what several of them derive there: listeners, paths, SYNs that were not answered or
//! refused, resets, processes and their run queues, port searches.

pub(crate) mod accept_waits;
pub(crate) mod dropped_here;
pub(crate) mod ecn_offer;
pub(crate) mod hanging;
pub(crate) mod interfaces;
pub(crate) mod listener;
pub(crate) mod losses;
pub(crate) mod lost_answers;
pub(crate) mod lost_syn;
pub(crate) mod meanwhile;
pub(crate) mod options;
pub(crate) mod other_ports;
pub(crate) mod outage;
pub(crate) mod path;
pub(crate) mod peer_resets;
pub(crate) mod port_search;
pub(crate) mod process;
pub(crate) mod receivers;
pub(crate) mod refusals;
pub(crate) mod reset_ends;
pub(crate) mod runqueue;
pub(crate) mod server_resets;
pub(crate) mod slow_exchanges;
pub(crate) mod standing_queue;
pub(crate) mod syn_timer;
pub(crate) mod tracking;
pub(crate) mod unanswered_syns;
pub(crate) mod unspoken;
pub(crate) mod window;

//! What the built command records of this host, and shows of it: root, and one test at a time.

mod bad_input_live;
mod budget_live;
mod calls;
mod common;
mod heartbeats_live;
mod nginx;
mod packed_live;
mod packets;
mod profile_live;
mod recording_live;
mod requests_live;
mod serve_live;
mod situations_live;
mod stat_live;
mod tasks_live;
mod top_live;
mod trace_live;
mod translated_live;
mod views_live;

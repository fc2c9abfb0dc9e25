//! What the views make of recordings.

mod agreement;
mod common;
mod compare;
mod flame;
mod json;
mod report;
mod report_flame;
mod report_verdict;
mod stat;
mod text;
mod top;
mod top_trouble;
mod trace;

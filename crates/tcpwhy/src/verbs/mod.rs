//! One file per verb.

pub mod compare;
pub mod doctor;
pub mod explain;
pub mod findings;
pub mod flame;
pub mod record;
pub mod report;
pub mod serve;
pub mod show;
pub mod stat;
pub mod top;
pub mod trace;

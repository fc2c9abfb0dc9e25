//! One file per verb.

pub mod doctor;
pub mod record;

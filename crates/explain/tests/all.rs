//! Recordings explained from end to end.

mod episodes;
mod hostile;
mod json;
mod names;
mod requests;
mod since;
mod verdicts;
mod whole;

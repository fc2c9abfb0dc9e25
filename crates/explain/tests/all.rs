//! Recordings explained from end to end.

mod episodes;
mod hostile;
mod since;
mod whole;

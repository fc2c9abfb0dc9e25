//! Recordings explained from end to end.

mod hostile;
mod since;
mod whole;

//! Recordings explained from end to end.

mod episodes;
mod hostile;
mod imports;
mod json;
mod since;
mod whole;

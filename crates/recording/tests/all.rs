//! Recordings written, read and damaged.

mod damage;
mod packed;
mod round_trip;
mod spellings;
mod within;

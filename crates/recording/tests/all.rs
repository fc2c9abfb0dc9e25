//! Recordings written, read and damaged.

mod damage;
mod round_trip;
mod spellings;
mod within;

//! slow_reader

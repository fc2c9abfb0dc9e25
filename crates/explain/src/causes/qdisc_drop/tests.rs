//! qdisc_drop

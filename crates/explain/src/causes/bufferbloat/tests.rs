//! bufferbloat

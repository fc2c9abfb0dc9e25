//! nagle_delayed_ack

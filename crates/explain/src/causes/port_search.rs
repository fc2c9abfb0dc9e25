//! What the causes about local ports share: the kernel's search for one.

/// The kernel functions that look for a local port, or check one: connect(), then bind().
pub(super) const FUNCTIONS: &[&str] = &[
    "__inet_hash_connect",
    "__inet_check_established",
    "__inet6_check_established",
    "inet_csk_get_port",
    "inet_csk_find_open_port",
    "inet_bhash2_conflict",
    "inet_csk_bind_conflict",
];

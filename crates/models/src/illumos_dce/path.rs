//! From where the table is looked into.

/// From where a lookup is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    /// connect(), in a thread of the application.
    Connect,
    /// A connection is accepted, in a worker thread of the kernel.
    Worker,
    /// A connection is accepted, in the interrupt that brings its packet.
    Interrupt,
}

impl Path {
    pub(super) fn in_thread(self) -> bool {
        self != Path::Interrupt
    }
}

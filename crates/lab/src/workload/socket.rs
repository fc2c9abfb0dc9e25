//! Making the workload's sockets, each with its own settings, and moving bytes through them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size, set_socket_reuseaddr, set_socket_reuseport,
    set_tcp_congestion, set_tcp_nodelay,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, send, socket_with,
};

/// Bytes moved by one call at most.
pub(super) const CHUNK: usize = 256 * 1024;

/// What every socket is.
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// A socket that does nothing yet.
pub(super) fn tcp_socket(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    socket_with(family, SocketType::STREAM, FLAGS, None)
}

/// A socket that listens. Its congestion control and receive buffer pass on to what it accepts.
pub(super) fn listener(
    address: &SocketAddr,
    backlog: u32,
    congestion: Option<&String>,
    (rcvbuf, shares_port): (Option<u32>, bool),
) -> Result<OwnedFd, Errno> {
    let fd = tcp_socket(address)?;
    set_socket_reuseaddr(&fd, true)?;
    if shares_port {
        set_socket_reuseport(&fd, true)?;
    }
    if let Some(bytes) = rcvbuf {
        set_socket_recv_buffer_size(&fd, bytes as usize)?;
    }
    if let Some(name) = congestion {
        set_tcp_congestion(&fd, name)?;
    }
    bind(&fd, address)?;
    listen(&fd, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(fd)
}

/// The next connection that waits; `None` when none does.
pub(super) fn accept(listener: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    match accept_with(listener, FLAGS) {
        Ok(fd) => {
            set_tcp_nodelay(&fd, true)?;
            Ok(Some(fd))
        }
        Err(Errno::AGAIN) => Ok(None),
        // The client gave up while it waited: Linux tells so, and there may be others.
        Err(Errno::CONNABORTED) => accept(listener),
        Err(e) => Err(e),
    }
}

/// Has close() throw away what is not sent, and send a reset.
pub(super) fn reset_on_close(fd: &OwnedFd) -> Result<(), Errno> {
    set_socket_linger(fd, Some(Duration::ZERO))
}

/// A socket that has begun to connect.
pub(super) fn connecting(
    to: &SocketAddr,
    from: Option<SocketAddr>,
    congestion: Option<&String>,
    nodelay: bool,
) -> Result<OwnedFd, Errno> {
    let fd = tcp_socket(to)?;
    set_tcp_nodelay(&fd, nodelay)?;
    if let Some(name) = congestion {
        set_tcp_congestion(&fd, name)?;
    }
    if let Some(from) = from {
        // To choose a port, bind(2) wants one that nobody has.
        if from.port() != 0 {
            set_socket_reuseaddr(&fd, true)?;
        }
        bind(&fd, &from)?;
    }
    match connect(&fd, to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(e) => Err(e),
    }
}

/// What one attempt to read or write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// So many bytes.
    Bytes(usize),
    /// Nothing just now.
    Blocked,
    /// The peer has closed.
    End,
    /// The connection is broken.
    Failed(Errno),
}

/// Reads once.
pub(super) fn read_some(fd: &OwnedFd, buffer: &mut [u8]) -> Moved {
    match recv(fd, buffer, RecvFlags::empty()) {
        Ok((0, _)) => Moved::End,
        Ok((n, _)) => Moved::Bytes(n),
        Err(Errno::AGAIN | Errno::INTR) => Moved::Blocked,
        Err(e) => Moved::Failed(e),
    }
}

/// Writes once.
pub(super) fn write_some(fd: &OwnedFd, bytes: &[u8]) -> Moved {
    match send(fd, bytes, SendFlags::NOSIGNAL) {
        Ok(n) => Moved::Bytes(n),
        Err(Errno::AGAIN | Errno::INTR) => Moved::Blocked,
        Err(e) => Moved::Failed(e),
    }
}

//! A packet socket that runs a filter on every packet of a namespace and keeps none.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An open packet socket. While it is open, its namespace exists.
pub struct Tap {
    _socket: OwnedFd,
}

impl Tap {
    /// Opens one in the calling thread's namespace, on all its interfaces, also later ones.
    pub fn open(filter: BorrowedFd) -> io::Result<Tap> {
        let socket = deaf(filter)?;
        // ETH_P_ALL: a socket for one protocol sees no packets that leave.
        // SAFETY: integers only: all zeros are a value.
        let mut all: libc::sockaddr_ll = unsafe { zeroed() };
        all.sll_family = libc::AF_PACKET as u16;
        all.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        let address = (&raw const all).cast::<libc::sockaddr>();
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` points to `len` bytes that live through the call.
        match unsafe { libc::bind(socket.as_raw_fd(), address, len) } {
            0 => Ok(Tap { _socket: socket }),
            _ => Err(io::Error::last_os_error()),
        }
    }
    /// Whether one can be opened; receives nothing.
    pub fn try_out(filter: BorrowedFd) -> io::Result<()> {
        deaf(filter).map(drop)
    }
}

/// A packet socket with the filter in place, which receives nothing until it is bound.
fn deaf(filter: BorrowedFd) -> io::Result<OwnedFd> {
    // SOCK_DGRAM: packets come without their link header, whatever the device.
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    attach(socket.as_fd(), filter)?;
    Ok(socket)
}

fn attach(socket: BorrowedFd, filter: BorrowedFd) -> io::Result<()> {
    let program = filter.as_raw_fd();
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is one int, which lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_BPF,
            (&raw const program).cast(),
            len,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

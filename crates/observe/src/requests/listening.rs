//! Where somebody listens already: the ports of every namespace, from sock_diag.

use std::io;

use crate::filter::Filter;
use crate::netlink::{self, SOCK_DIAG};
use crate::netns::{self, Home};
use crate::patience::Patience;

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// One bit per state; TCP_LISTEN is 10.
const LISTEN: u32 = 1 << 10;
/// `inet_diag_req_v2` after its first 8 bytes: the states, then what sockets are asked for: all.
const REST: usize = 52;
/// Where the local port is in an `inet_diag_msg`: after family, state, timer and retransmits.
const PORT_AT: usize = 4;

/// Namespace and port of every listener.
#[derive(Default)]
pub struct Listening {
    /// Those that were found.
    pub all: Vec<(u32, u16)>,
    /// Namespaces that could not be asked: how many, and why the first.
    pub unasked: Option<(u64, io::Error)>,
}

impl Listening {
    /// Asks every namespace that is watched.
    pub fn find(filter: &Filter, patience: Patience) -> Listening {
        let mut listening = Listening::default();
        let home = match Home::remember() {
            Ok(home) => home,
            Err(why) => {
                listening.lacks(why);
                return listening;
            }
        };
        for (netns, at) in netns::find() {
            if !filter.netns.is_empty() && !filter.netns.contains(&netns) {
                continue;
            }
            if patience.is_over() {
                listening.lacks(io::Error::other("it took too long at the beginning"));
                continue;
            }
            match home.visit(&at, listening_here) {
                Ok(Ok(ports)) => {
                    let here = ports.into_iter().map(|port| (netns, port));
                    listening.all.extend(here);
                }
                Ok(Err(why)) => listening.lacks(why),
                // It may have ended since it was found; one that may not be visited is in no table.
                Err(_) => {}
            }
        }
        listening
    }

    fn lacks(&mut self, why: io::Error) {
        let (n, _) = self.unasked.get_or_insert((0, why));
        *n += 1;
    }
}

/// Of the calling thread's namespace.
fn listening_here() -> io::Result<Vec<u16>> {
    let mut ports = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let mut request = vec![family, IPPROTO_TCP, 0, 0];
        request.extend(LISTEN.to_ne_bytes());
        request.resize(4 + REST, 0);
        netlink::dump(SOCK_DIAG, BY_FAMILY, &request, |_, answer| {
            if let Some(&[high, low]) = answer.get(PORT_AT..PORT_AT + 2) {
                ports.push(u16::from_be_bytes([high, low]));
            }
        })?;
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listeners_of_both_families_are_found() {
        let four = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = four.local_addr().unwrap().port();
        let found = listening_here().unwrap();
        assert!(found.contains(&port), "{port} is not among {found:?}");
        if let Ok(six) = TcpListener::bind("[::1]:0") {
            let port = six.local_addr().unwrap().port();
            assert!(listening_here().unwrap().contains(&port));
        }
    }
}

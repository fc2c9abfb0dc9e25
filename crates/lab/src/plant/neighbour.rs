//! Another namespace on the host, with a connection that does nothing: a pod that is well.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use recording::Owner;

use crate::Error;
use crate::netns::Netns;

/// The port of every neighbour's listener: pods share nothing, and use the same ports.
const PORT: u16 = 15_001;

/// A namespace, a listener in it, and both ends of a connection to it.
#[derive(Debug)]
pub(super) struct Neighbour {
    _sockets: (TcpListener, [TcpStream; 2]),
    netns: Netns,
}

impl Neighbour {
    pub(super) fn new(owner: &Owner, number: u32) -> Result<Neighbour, Error> {
        let netns = Netns::create(owner, &format!("pod-{number}"))?;
        let sockets = netns.inside(|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
            let client = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
            let (server, _) = listener.accept()?;
            Ok((listener, [client, server]))
        })?;
        Ok(Neighbour {
            _sockets: sockets,
            netns,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.netns.name()
    }
}

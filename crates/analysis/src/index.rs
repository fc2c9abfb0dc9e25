//! Which connections have these addresses, go this way, or belong to this process or service, and which listeners are
//! the fullest: each index is built after all connections are read, and only when it is needed.

use std::hash::Hash;
use std::sync::OnceLock;

use ahash::AHashMap;

use crate::account::ServiceKey;
use crate::conn::{Conn, ConnId};
use crate::place::Endpoint;
use crate::stalls::Way;

/// Connections by one of their properties, in the order of their ids.
#[derive(Debug)]
pub(crate) struct By<K>(OnceLock<AHashMap<K, Vec<ConnId>>>);

impl<K> Default for By<K> {
    fn default() -> By<K> {
        By(OnceLock::new())
    }
}

impl<K: Hash + Eq> By<K> {
    /// Those that have it; `property` says what one has, if it has any.
    pub(crate) fn find(
        &self,
        conns: &[Conn],
        sought: &K,
        property: impl Fn(&Conn) -> Option<K>,
    ) -> &[ConnId] {
        let by = self.0.get_or_init(|| {
            let mut by: AHashMap<K, Vec<ConnId>> = AHashMap::new();
            for (id, conn) in (0..).zip(conns) {
                if let Some(key) = property(conn) {
                    by.entry(key).or_default().push(id);
                }
            }
            by
        });
        by.get(sought).map_or(&[], |ids| ids)
    }
}

/// Connections by what they are looked up by, and the listeners of each namespace, the fullest first.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) ends: By<(u32, Endpoint, Endpoint)>,
    pub(crate) ways: By<Way>,
    pub(crate) remotes: By<Endpoint>,
    pub(crate) pids: By<u32>,
    pub(crate) namespaces: By<u32>,
    pub(crate) services: By<ServiceKey>,
    pub(crate) fullest: OnceLock<AHashMap<u32, Vec<u32>>>,
}

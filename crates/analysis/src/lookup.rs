//! The connections of a story that have these addresses, go this way, or belong to this process or service, in the
//! order of their ids, and the fullest listeners: found without going through all of them.

use std::cmp::Reverse;

use ahash::AHashMap;

use crate::account::{self, ServiceKey};
use crate::conn::{Conn, ConnId};
use crate::packets::What;
use crate::place::Endpoint;
use crate::stalls::Way;
use crate::story::Story;

impl Story {
    /// Between these addresses, one after the other.
    pub fn between(
        &self,
        netns: u32,
        local: Endpoint,
        remote: Endpoint,
    ) -> impl Iterator<Item = (ConnId, &Conn)> + Clone {
        let ends = |c: &Conn| Some((c.netns, c.local, c.remote));
        let sought = (netns, local, remote);
        self.all(self.index.ends.find(&self.conns, &sought, ends))
    }

    /// Connections with this other end, in any namespace.
    pub fn to(&self, remote: Endpoint) -> impl Iterator<Item = (ConnId, &Conn)> + Clone {
        let remotes = |c: &Conn| Some(c.remote);
        self.all(self.index.remotes.find(&self.conns, &remote, remotes))
    }

    /// That go this way.
    pub fn on_way(&self, way: Way) -> impl Iterator<Item = (ConnId, &Conn)> + Clone {
        let ways = |c: &Conn| Some((c.netns, c.local.addr, c.remote.addr));
        self.all(self.index.ways.find(&self.conns, &way, ways))
    }

    /// That this process opened, or held as the recording began.
    pub fn of_pid(&self, pid: u32) -> impl Iterator<Item = (ConnId, &Conn)> + Clone {
        self.all(self.index.pids.find(&self.conns, &pid, |c| c.pid))
    }

    /// Of this namespace.
    pub fn of_netns(&self, netns: u32) -> impl Iterator<Item = (ConnId, &Conn)> + Clone {
        let namespaces = |c: &Conn| Some(c.netns);
        self.all(self.index.namespaces.find(&self.conns, &netns, namespaces))
    }

    /// Of this service.
    pub fn of_service(&self, service: ServiceKey) -> impl Iterator<Item = (ConnId, &Conn)> + Clone {
        let services = |c: &Conn| Some(account::service(self, c));
        self.all(self.index.services.find(&self.conns, &service, services))
    }

    /// The listeners of a namespace, the fullest first: first those whose accept queue was seen to be crowded, then
    /// the others, and in each group those with most last ACKs dropped first.
    pub fn fullest_listeners(&self, netns: u32) -> &[u32] {
        let fullest = self.index.fullest.get_or_init(|| {
            let mut by_netns: AHashMap<u32, Vec<u32>> = AHashMap::new();
            for (index, listener) in (0..).zip(&self.listeners.all) {
                by_netns.entry(listener.netns).or_default().push(index);
            }
            for of_netns in by_netns.values_mut() {
                of_netns.sort_by_cached_key(|index| {
                    let listener = &self.listeners.all[*index as usize];
                    let dropped = self.packets_at(*index, What::LateAckDropped);
                    let dropped: u64 = dropped.map(|g| g.count).sum();
                    Reverse((listener.crowded_samples().0 > 0, dropped))
                });
            }
            by_netns
        });
        fullest.get(&netns).map_or(&[], |indices| indices)
    }
}

#[cfg(test)]
mod tests {
    use synth::cases;

    use super::*;

    #[test]
    fn what_is_looked_up_is_what_a_walk_over_all_finds() {
        for fixture in [cases::churn(), cases::refused(), cases::bulk()] {
            let written = fixture.write().unwrap();
            let story = Story::read(&written.recording).unwrap();
            let walked = |is: &dyn Fn(&Conn) -> bool| -> Vec<ConnId> {
                let all = (0..).zip(&story.conns);
                all.filter(|(_, c)| is(c)).map(|(id, _)| id).collect()
            };
            fn ids<'a>(found: impl Iterator<Item = (ConnId, &'a Conn)>) -> Vec<ConnId> {
                found.map(|(id, _)| id).collect()
            }
            assert!(!story.conns.is_empty());
            for one in story.conns.iter().step_by(story.conns.len().div_ceil(20)) {
                let ends = (one.netns, one.local, one.remote);
                assert_eq!(
                    ids(story.between(one.netns, one.local, one.remote)),
                    walked(&|c| (c.netns, c.local, c.remote) == ends)
                );
                assert_eq!(
                    ids(story.to(one.remote)),
                    walked(&|c| c.remote == one.remote)
                );
                let way = |c: &Conn| (c.netns, c.local.addr, c.remote.addr);
                assert_eq!(ids(story.on_way(way(one))), walked(&|c| way(c) == way(one)));
                assert_eq!(
                    ids(story.of_netns(one.netns)),
                    walked(&|c| c.netns == one.netns)
                );
                let service = account::service(&story, one);
                assert_eq!(
                    ids(story.of_service(service)),
                    walked(&|c| account::service(&story, c) == service)
                );
                if let Some(pid) = one.pid {
                    assert_eq!(ids(story.of_pid(pid)), walked(&|c| c.pid == Some(pid)));
                }
            }
            assert_eq!(story.of_pid(u32::MAX).count(), 0);
        }
    }
}

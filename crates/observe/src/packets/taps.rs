//! The packet sockets of a recording: one in every namespace, as namespaces come and go.

use std::collections::{BTreeMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Instant;

use recording::{HealthKind, Namespace, SourceName};

use super::driver::{PacketOptions, load};
use super::tap::Tap;
use crate::error::Error;
use crate::health::HealthLog;
use crate::netns::{self, Found, Home};
use crate::patience::Patience;
use crate::wire::packets::PacketsSkel;

/// The open sockets. A packet socket keeps its namespace alive, which nothing else of ours does: so
/// each is closed as soon as nothing else is seen to hold the namespace.
pub struct Taps<'a> {
    options: &'a PacketOptions,
    like: &'a PacketsSkel<'a>,
    home: Home,
    open: BTreeMap<u32, (Found, Tap)>,
    /// Every namespace watched so far.
    pub seen: BTreeMap<u32, Namespace>,
    told: HashSet<u32>,
    /// When it was last looked; none before the first time.
    looked: Option<Instant>,
}

impl<'a> Taps<'a> {
    /// None yet; filters will share the ring of `like`.
    pub fn new(options: &'a PacketOptions, like: &'a PacketsSkel<'a>) -> Result<Self, Error> {
        Ok(Taps {
            options,
            like,
            home: Home::remember().map_err(|why| Error::System {
                what: "opening the own network namespace".into(),
                why,
            })?,
            open: BTreeMap::new(),
            seen: BTreeMap::new(),
            told: HashSet::new(),
            looked: None,
        })
    }

    /// Opens a socket in every namespace that has none, closes those of namespaces that ended.
    pub fn look(&mut self, health: &HealthLog, patience: Patience) -> Result<(), Error> {
        let mut found = netns::find();
        let since = self.looked.replace(Instant::now());
        let wanted = &self.options.filter.netns;
        found.retain(|inode, _| wanted.is_empty() || wanted.contains(inode));
        self.open.retain(|inode, _| found.contains_key(inode));
        let mut left_out = 0;
        for (inode, found) in found {
            if let Some((known, _)) = self.open.get_mut(&inode) {
                *known = found;
                continue;
            }
            if patience.is_over() {
                left_out += 1;
                continue;
            }
            match self.tap(inode, &found) {
                Ok(tap) => {
                    let namespace = found.namespace.clone();
                    let name = namespace.name.clone();
                    let known = self.seen.insert(inode, namespace).is_some();
                    self.open.insert(inode, (found, tap));
                    // One that is new was made since the last look.
                    if let Some(since) = since.filter(|_| !known) {
                        let late = since.elapsed().as_millis();
                        let detail = format!(
                            "namespace {name} was made while recording: its packets are seen from up to {late} ms \
                             later on"
                        );
                        health.say(SourceName::Packets, HealthKind::Late, 1, detail)?;
                    }
                }
                // It may have ended between finding and visiting it.
                Err(why) => {
                    if self.told.insert(inode) {
                        let name = &found.namespace.name;
                        let detail = format!("packets of namespace {name} are not seen: {why}");
                        health.say(SourceName::Packets, HealthKind::Partial, 1, detail)?;
                    }
                }
            }
        }
        if left_out > 0 && patience.is_whole() {
            let detail = "network namespaces whose packets are seen later on: it took too long at the beginning";
            health.say(SourceName::Packets, HealthKind::Partial, left_out, detail)?;
        }
        Ok(())
    }

    fn tap(&self, inode: u32, found: &Found) -> Result<Tap, Error> {
        let mut object = MaybeUninit::uninit();
        let filter = load(&mut object, self.options, inode, Some(self.like))?;
        // The socket holds the program; the rest of the object is no longer needed.
        let tap = || Tap::open(filter.progs.on_packet.as_fd());
        let tap = self.home.visit(found, tap).and_then(|tap| tap);
        tap.map_err(|why| Error::System {
            what: format!(
                "opening a packet socket in namespace {}",
                found.namespace.name
            ),
            why,
        })
    }

    /// Whether all namespaces are where they were: what is cheap enough to be asked often.
    pub fn all_there(&self) -> bool {
        self.open.values().all(|(found, _)| found.is_there())
    }

    /// Closes all.
    pub fn close(&mut self) {
        self.open.clear();
    }
}

//! What the user asked about: the connections that a filter names, or those of the command that was recorded.
//!
//! For these a slow answer is worth reporting even if the service always takes as long. A filter that names only
//! network namespaces asks about no connection more than about another: it says which host.

use std::path::Path;

use ahash::AHashSet;
use analysis::{Conn, Side, Story};
use recording::{Filter, Recording};

use crate::filter_findings::asked_for;
use crate::finding::Finding;
use crate::lost::{End, end};

/// The kernel keeps so many bytes of a command name.
const LINUX_COMM_BYTES: usize = 15;

/// The ends of connections that the user asked about.
pub(crate) struct Inquiry<'a> {
    story: &'a Story,
    /// None when nothing in particular was asked about.
    ends: AHashSet<End>,
    /// The command that they are of: its name and process.
    command: Option<(String, u32)>,
}

impl<'a> Inquiry<'a> {
    /// By the filter; without one by the recorder's, or by the command that ran while it recorded.
    pub(crate) fn of(story: &'a Story, recording: &Recording, filter: &Filter) -> Inquiry<'a> {
        let filters = [filter, &recording.manifest.asked];
        let filter = filters.into_iter().find(|filter| filter.asks_for_some());
        let began = recording.manifest.ran.map_or(0, |ran| ran.pid);
        let program = program(&recording.manifest.command_line);
        let command = program
            .filter(|_| filter.is_none())
            .map(|name| (name, began));
        let ends = match filter {
            Some(filter) => {
                let mut ends = asked_for(story, filter);
                ends.retain(|(netns, ..)| filter.netns_ok(*netns));
                ends
            }
            None => {
                let of = |(name, began): &(String, u32)| of_command(story, name, *began);
                command.as_ref().map_or_else(AHashSet::new, of)
            }
        };
        Inquiry {
            story,
            ends,
            command,
        }
    }

    /// Of somebody who asked about nothing in particular.
    #[cfg(test)]
    pub(crate) fn of_nothing(story: &'a Story) -> Inquiry<'a> {
        Inquiry {
            story,
            ends: AHashSet::new(),
            command: None,
        }
    }

    /// Whether it is about an end for which this is a finding.
    pub(crate) fn asks(&self, f: &Finding) -> bool {
        let conns = f.if_asked.iter().filter_map(|id| self.story.conn(*id));
        self.is_about(conns)
    }

    /// Whether the command lost time to it. A filter shows no other findings anyway.
    pub(crate) fn suffers(&self, f: &Finding) -> bool {
        let its = || f.lost_s.ends().any(|end| self.ends.contains(&end));
        let of = || {
            f.scope
                .pid
                .is_some_and(|pid| self.ran(pid, f.scope.comm.as_deref()))
        };
        self.command.is_some() && (self.asks(f) || its() || of())
    }

    /// Whether a process is the command's: the one that was started, or one of its name that it may have started.
    pub(crate) fn ran(&self, pid: u32, comm: Option<&str>) -> bool {
        let known = self.command.as_ref().filter(|(_, began)| *began != 0);
        known.is_some_and(|(name, began)| pid == *began || pid > *began && comm == Some(name))
    }

    /// Whether it is about one of these ends.
    pub(crate) fn is_about<'c>(&self, conns: impl IntoIterator<Item = &'c Conn>) -> bool {
        !self.ends.is_empty() && conns.into_iter().any(|conn| self.ends.contains(&end(conn)))
    }
}

/// The command name of `COMMAND` in `tcpwhy explain … -- COMMAND …`.
fn program(command_line: &[String]) -> Option<String> {
    let mut words = command_line.iter().skip_while(|word| *word != "--");
    let path = Path::new(words.nth(1)?);
    let name = path.file_name()?.to_string_lossy().into_owned();
    let end = name.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = end.take_while(|end| *end <= LINUX_COMM_BYTES).last()?;
    Some(name[..end].to_string())
}

/// Both ends of the connections that a command opened: those of its name. A script's children have other names: then
/// those of processes that are no older than it (`began` is its pid).
fn of_command(story: &Story, name: &str, began: u32) -> AHashSet<End> {
    let opened = story.conns.iter();
    let opened = opened.filter(|c| c.side == Side::Opened && c.pid.is_none_or(|pid| pid >= began));
    let (own, others): (Vec<&Conn>, Vec<_>) = opened.partition(|c| c.comm.as_deref() == Some(name));
    let asked = if own.is_empty() { others } else { own };
    let mut ends = AHashSet::new();
    for conn in asked {
        let peer = conn.peer.and_then(|id| story.conn(id));
        ends.extend([conn].into_iter().chain(peer).map(end));
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_by_the_name_of_its_program() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let name = |line: &str| program(&words(line));
        assert_eq!(name("tcpwhy explain --for 3s"), None);
        assert_eq!(name("tcpwhy explain --"), None);
        assert_eq!(
            name("tcpwhy explain -- /usr/bin/curl -s x").as_deref(),
            Some("curl")
        );
        let long = name("tcpwhy explain -- ./a-program-of-many-letters -- x");
        assert_eq!(long.as_deref(), Some("a-program-of-ma"));
    }
}

//! How a scope and a namespace are named in sentences.

use std::collections::BTreeMap;

use analysis::{Conn, Doing, Netns, Story};

use crate::finding::Scope;

/// A scope of the processes that own these ends, the one that owns most of them first.
pub(crate) fn owners<'a>(story: &Story, ends: impl Iterator<Item = &'a Conn>) -> Scope {
    let mut by_pid: BTreeMap<u32, (u64, String)> = BTreeMap::new();
    for (pid, comm) in ends.filter_map(|conn| story.owner(conn)) {
        by_pid.entry(pid).or_insert((0, comm)).0 += 1;
    }
    let first = by_pid.iter().max_by_key(|(_, (n, _))| *n);
    Scope {
        pid: first.map(|(pid, _)| *pid),
        comm: first.map(|(_, (_, comm))| comm.clone()),
        pids: by_pid.keys().copied().collect(),
        ..Scope::default()
    }
}

/// A listener and its process, as a title begins: `10.0.0.1:80 (nginx, pid 812)`.
pub(crate) fn named(scope: &Scope) -> String {
    match (scope.pid, &scope.comm) {
        (Some(pid), Some(comm)) => format!("{} ({comm}, pid {pid})", scope.listener),
        _ => scope.listener.clone(),
    }
}

/// The same without the pid, for narrow lines.
pub(crate) fn named_short(scope: &Scope) -> String {
    match &scope.comm {
        Some(comm) => format!("{} ({comm})", scope.listener),
        None => scope.listener.clone(),
    }
}

/// The process of a scope in a sentence.
pub(crate) fn process(scope: &Scope) -> String {
    match (scope.pid, &scope.comm) {
        (Some(pid), Some(comm)) => format!("{comm} (pid {pid})"),
        _ => "the application".into(),
    }
}

/// What the process of a scope did.
pub(crate) fn culprit(scope: &Scope) -> Option<&Doing> {
    scope.processes.iter().find(|p| Some(p.pid) == scope.pid)
}

/// The application of a scope in a sentence: in a prefork server, any process may have called listen().
pub(crate) fn application(scope: &Scope) -> &str {
    scope.comm.as_deref().unwrap_or("the application")
}

/// A namespace in a sentence.
pub(crate) fn namespace(netns: &Netns) -> String {
    match &netns.name {
        Some(name) => format!("network namespace {name} ({})", netns.inode),
        None if netns.inode == 0 => "the whole host".into(),
        None => format!("network namespace {}", netns.inode),
    }
}

//! Cgroups that a filter names: from a path or an id to the ids that a recording has.

use std::collections::BTreeSet;

use crate::read::Recording;
use crate::tables::Cgroup;

/// Where the hierarchy is mounted, beside other hierarchies first: somebody may name a group by its directory.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// So many groups a filter holds: each row is compared with all of them.
const MOST: usize = 4_096;

/// So many are named where none is called so.
const SHOWN: usize = 5;

impl Recording {
    /// The ids of the cgroups that `words` name, and of all below each: a path, with the mount before it or without, or
    /// an id.
    ///
    /// # Errors
    ///
    /// A path that no cgroup of the recording has, more cgroups than a filter holds, or a table that does not read.
    pub fn resolve_cgroups(&self, words: &[String]) -> Result<Vec<u64>, String> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        // One that came and went between two looks has an id and no path.
        let mut ids: BTreeSet<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
        let mut tops: Vec<Top> = words.iter().map(|word| Top::of(word)).collect();
        if !ids.is_empty() {
            self.each_cgroup(|row| {
                for top in tops.iter_mut().filter(|top| top.id == Some(row.cgroup)) {
                    top.path = Some(row.path.to_string());
                }
            })?;
        }
        let mut others = BTreeSet::new();
        self.each_cgroup(|row| {
            let mut is_asked_for = false;
            for top in &mut tops {
                if top.is_above(&row.path) {
                    is_asked_for = true;
                    top.is_there = true;
                }
            }
            if !is_asked_for && others.len() < SHOWN {
                others.insert(row.path.to_string());
            }
            if is_asked_for && ids.len() <= MOST {
                ids.insert(row.cgroup);
            }
        })?;
        if let Some(top) = tops.iter().find(|top| top.id.is_none() && !top.is_there) {
            let others: Vec<&str> = others.iter().map(|path| &**path).collect();
            let has = match &others[..] {
                [] => "names none; give an id".to_string(),
                others => format!("has for example {}", others.join(", ")),
            };
            return Err(format!(
                "--cgroup {:?}: the recording has no such cgroup; it {has}",
                top.word
            ));
        }
        if ids.len() > MOST {
            return Err(format!(
                "--cgroup {}: with those below it these are more than {MOST} cgroups; name one deeper in the hierarchy",
                words.join(",")
            ));
        }
        Ok(ids.into_iter().collect())
    }

    fn each_cgroup(&self, mut take: impl FnMut(&Cgroup)) -> Result<(), String> {
        for batch in self.scan::<Cgroup>().map_err(|e| e.to_string())? {
            let batch = batch.map_err(|e| e.to_string())?;
            batch.rows().for_each(|(_, row)| take(&row));
        }
        Ok(())
    }
}

/// One that is asked for, with all below it.
struct Top<'a> {
    word: &'a str,
    id: Option<u64>,
    /// Not known as long as an id is all there is.
    path: Option<String>,
    is_there: bool,
}

impl Top<'_> {
    fn of(word: &str) -> Top<'_> {
        let id = word.parse().ok();
        Top {
            word,
            id,
            path: id.is_none().then(|| within_the_mount(word).to_string()),
            is_there: false,
        }
    }

    fn is_above(&self, path: &str) -> bool {
        self.path.as_deref().is_some_and(|top| is_below(top, path))
    }
}

/// `/a/b` of `/sys/fs/cgroup/a/b`, `/a/b`, or `a/b`; without what separates at its ends.
fn within_the_mount(word: &str) -> &str {
    let within = MOUNTS.iter().find_map(|mount| {
        let rest = word.strip_prefix(mount)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    });
    within.unwrap_or(word).trim_matches('/')
}

/// Whether `path` is the group `top`, or below it; the root is above all.
fn is_below(top: &str, path: &str) -> bool {
    let (top, path) = (top.trim_matches('/'), path.trim_matches('/'));
    let rest = path.strip_prefix(top);
    top.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT, Manifest, Writer};

    #[test]
    fn a_cgroup_is_known_by_path_or_id_with_all_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.tcpwhy");
        let manifest = Manifest {
            format: FORMAT,
            complete: true,
            ..Manifest::default()
        };
        let writer = Writer::create(&path, &manifest).unwrap();
        let mut rows = writer.table::<Cgroup>().unwrap();
        let groups = [(1, "/"), (2, "/web"), (3, "/web/a"), (4, "/webs")];
        for (cgroup, path) in groups {
            let path = path.into();
            rows.push(Cgroup {
                time_ns: 1,
                cgroup,
                path,
                ..Cgroup::default()
            })
            .unwrap();
        }
        rows.seal().unwrap();
        let recording = Recording::open(&path).unwrap();
        let ids = |word: &str| recording.resolve_cgroups(&[word.to_string()]);
        for web in ["/web", "web/", "/sys/fs/cgroup/web", "2"] {
            assert_eq!(ids(web), Ok(vec![2, 3]), "{web}");
        }
        assert_eq!(ids("/"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(ids("/sys/fs/cgroup"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(ids("77"), Ok(vec![77]));
        let why = ids("db").unwrap_err();
        assert_eq!(
            why,
            "--cgroup \"db\": the recording has no such cgroup; it has for example /, /web, /web/a, /webs"
        );
    }

    #[test]
    fn a_recording_without_names_asks_for_ids() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.tcpwhy");
        let manifest = Manifest {
            format: FORMAT,
            ..Manifest::default()
        };
        Writer::create(&path, &manifest).unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.resolve_cgroups(&["9".into()]), Ok(vec![9]));
        assert!(recording.resolve_cgroups(&["/web".into()]).is_err());
    }
}

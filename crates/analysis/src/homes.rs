//! What runs each process: its unit, container or pod, by the cgroup that it is in.

use ahash::AHashMap;
use recording::tables::Cgroup;
use recording::{Error, Home, Recording, Text, is_name};

/// Groups and processes kept; a host has a few thousand.
const MAX_KEPT: usize = 65_536;

/// What runs the processes of a recording.
#[derive(Debug, Default)]
pub struct Homes {
    by_cgroup: AHashMap<u64, String>,
    by_path: AHashMap<Text, String>,
    by_pid: AHashMap<u32, String>,
}

impl Homes {
    pub(crate) fn read(recording: &Recording) -> Result<Homes, Error> {
        let mut homes = Homes::default();
        for batch in recording.scan::<Cgroup>()? {
            for (_, row) in batch?.rows() {
                if let Some(home) = told(&row.path, row.name.as_deref())
                    && homes.by_cgroup.len() < MAX_KEPT
                {
                    homes.by_cgroup.insert(row.cgroup, home.clone());
                    homes.by_path.insert(row.path, home);
                }
            }
        }
        Ok(homes)
    }

    /// A process was in the group of this id.
    pub(crate) fn in_cgroup(&mut self, pid: u32, cgroup: Option<u64>) {
        if let Some(home) = cgroup.and_then(|id| self.by_cgroup.get(&id)) {
            let home = home.clone();
            self.put(pid, home);
        }
    }

    /// A process was in the group of this path.
    pub(crate) fn in_path(&mut self, pid: u32, path: &str) {
        let known = self.by_path.get(path).cloned();
        if let Some(home) = known.or_else(|| told(path, None)) {
            self.put(pid, home);
        }
    }

    fn put(&mut self, pid: u32, home: String) {
        if self.by_pid.len() < MAX_KEPT {
            self.by_pid.entry(pid).or_insert(home);
        }
    }

    /// What runs a process, in a few words: `unit nginx.service`; `None` where that is not known.
    pub fn of(&self, pid: u32) -> Option<&str> {
        self.by_pid.get(&pid).map(String::as_str)
    }
}

/// By the name that its runtime gave it, where that is known.
fn told(path: &str, name: Option<&str>) -> Option<String> {
    let home = Home::of(path)?;
    Some(match name.filter(|name| is_name(name)) {
        Some(name) if home.pod.is_some() => format!("pod {name}"),
        Some(name) => format!("container {name}"),
        None => home.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn a_name_comes_before_an_id() {
        let id = "0123456789abcdef".repeat(4);
        let docker = format!("/system.slice/docker-{id}.scope");
        let says = |name| told(&docker, name).expect("a container");
        assert_eq!(says(Some("redis-master")), "container redis-master");
        assert_eq!(says(None), "docker container 0123456789ab");
        assert_eq!(says(Some("`id`")), "docker container 0123456789ab");
        let pod = format!("/kubepods/pod3f2a91bc-1111-2222-3333-444455556666/{id}");
        let name = Some("shop/redis-0/redis");
        assert_eq!(told(&pod, name).as_deref(), Some("pod shop/redis-0/redis"));
        assert_eq!(told("/", Some("x")), None);
    }
}

//! Where cgroups are mounted, and which a process is in: v2, or the two controllers of v1 that
//! limit what TCP needs.

use crate::procfile::ProcFile;

/// What a mounted hierarchy tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Version {
    /// cgroup v2: everything.
    Two,
    /// v1, cpu.
    OneCpu,
    /// v1, memory.
    OneMemory,
}

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq)]
pub struct Hierarchy {
    /// What it tells.
    pub version: Version,
    /// Where.
    pub mount: String,
}

/// The hierarchies that limit CPU or memory and that this process sees; in a mount namespace that hides them, as that of
/// `ip netns exec` does, those of init.
pub fn mounted() -> Vec<Hierarchy> {
    let mut file = ProcFile::default();
    let mut of = |pid: &str| {
        let mounts = file.read(format!("/proc/{pid}/mountinfo"));
        mounts.map_or_else(|_| Vec::new(), |text| find(&text))
    };
    let own = of("self");
    if !own.is_empty() {
        return own;
    }
    let mut inits = of("1");
    for hierarchy in &mut inits {
        hierarchy.mount.insert_str(0, "/proc/1/root");
    }
    inits
}

/// Those of a mountinfo.
fn find(mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut after = after.split(' ');
        let (kind, options) = (after.next(), after.nth(1).unwrap_or_default());
        // id, parent, device, root, mount point. A mount of a part of it shows other paths.
        let before: Vec<&str> = before.split(' ').collect();
        let (Some(&"/"), Some(&mount)) = (before.get(3), before.get(4)) else {
            continue;
        };
        let controller = |name| options.split(',').any(|o| o == name);
        let version = match kind {
            Some("cgroup2") => Version::Two,
            Some("cgroup") if controller("cpu") => Version::OneCpu,
            Some("cgroup") if controller("memory") => Version::OneMemory,
            _ => continue,
        };
        if found.iter().all(|h| h.version != version) {
            let mount = mount.to_string();
            found.push(Hierarchy { version, mount });
        }
    }
    found
}

impl Hierarchy {
    /// The cgroup that /proc/PID/cgroup names, and those above it but the root.
    pub fn paths<'t>(&self, cgroup: &'t str) -> impl Iterator<Item = &'t str> {
        let mut path = cgroup.lines().find_map(|line| self.path(line));
        std::iter::from_fn(move || {
            let here = path.filter(|p| p.len() > 1)?;
            path = here.rsplit_once('/').map(|(above, _)| above);
            Some(here)
        })
    }

    fn path<'t>(&self, line: &'t str) -> Option<&'t str> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let has = |name| controllers.split(',').any(|c| c == name);
        let ours = match self.version {
            Version::Two => controllers.is_empty(),
            Version::OneCpu => has("cpu"),
            Version::OneMemory => has("memory"),
        };
        // A cgroup above our own root has no path here.
        (ours && !path.split('/').any(|part| part == "..")).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
25 1 0:22 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw
26 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
27 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
28 25 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
29 25 0:25 /docker/1 /mnt rw - cgroup2 cgroup2 rw
bad line
";

    #[test]
    fn hierarchies_and_paths_are_found() {
        let found = find(MOUNTS);
        let versions: Vec<Version> = found.iter().map(|h| h.version).collect();
        assert_eq!(
            versions,
            [Version::Two, Version::OneCpu, Version::OneMemory]
        );
        let cgroup = "4:memory:/a/b\n3:cpu,cpuacct:/x\n1:name=systemd:/s\n0::/u/v/w\n";
        let paths = |i: usize| found[i].paths(cgroup).collect::<Vec<_>>();
        assert_eq!(paths(0), ["/u/v/w", "/u/v", "/u"]);
        assert_eq!(paths(1), ["/x"]);
        assert_eq!(paths(2), ["/a/b", "/a"]);
        assert!(
            found[0].paths("0::/\n").next().is_none(),
            "the root has no limits"
        );
        assert!(found[0].paths("0::/../x\n").next().is_none());
        assert!(found[0].paths("garbage").next().is_none());
    }
}

//! What runs a process, as the path of its cgroup says: a unit of systemd, a container, a pod.

use std::fmt;

/// What runs a process. Everything here comes from a path, which whoever made the cgroup has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// The container's id, as its runtime gives it: 64 hexadecimal digits.
    pub container: Option<String>,
    /// The container's runtime, where the path names it: docker, podman, containerd, cri-o.
    pub runtime: Option<&'static str>,
    /// The uid of the pod that the container is in.
    pub pod: Option<String>,
    /// A container of LXC or a machine of systemd, by name.
    pub machine: Option<String>,
    /// The unit of systemd: of the host's, of a user's, or of one in the container.
    pub unit: Option<String>,
}

/// What begins the name of a scope before the container's id, and whose it is.
const SCOPES: &[(&str, &str)] = &[
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "cri-o"),
];
/// Directories in which a runtime without systemd puts its containers.
const DIRECTORIES: &[(&str, &str)] = &[("docker", "docker"), ("libpod_parent", "podman")];
const ID_DIGITS: usize = 64;
/// As many digits as the runtimes print.
const SHOWN_ID: usize = 12;
const SHOWN_UID: usize = 8;
/// A name that is longer is nobody's.
const MAX_NAME: usize = 128;

impl Home {
    /// Of the path of a cgroup; `None` where it says nothing, as that of a login session.
    pub fn of(path: &str) -> Option<Home> {
        let mut home = Home::default();
        let mut before = "";
        for part in path.split('/').filter(|part| !part.is_empty()) {
            home.part(part, before);
            before = part;
        }
        (home != Home::default()).then_some(home)
    }

    fn part(&mut self, part: &str, before: &str) {
        let scope = part.strip_suffix(".scope");
        let scoped = SCOPES.iter().find_map(|(prefix, runtime)| {
            let id = scope.unwrap_or(part).strip_prefix(prefix)?;
            is_id(id).then_some((id, Some(*runtime)))
        });
        let in_directory = is_id(part).then(|| {
            let of = DIRECTORIES
                .iter()
                .find(|(directory, _)| *directory == before);
            (part, of.map(|(_, runtime)| *runtime))
        });
        if let Some((id, runtime)) = scoped.or(in_directory) {
            // What is known so far is of whatever started the container.
            self.unit = None;
            self.container = Some(id.into());
            self.runtime = runtime;
        } else if let Some(uid) = pod(part) {
            self.unit = None;
            self.pod = Some(uid);
        } else if let Some(machine) = machine(part, scope, before) {
            self.unit = None;
            self.machine = Some(machine);
        } else if let Some(unit) = part.strip_suffix(".service") {
            // The manager of a user's units; what it runs comes below.
            if !unit.starts_with("user@") {
                self.unit = name(part);
            }
        }
    }
}

/// Short, as a person tells it: `unit nginx.service`, `pod 3f2a91bc, container 0123456789ab`.
impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let cut = |id: &str, digits| id.get(..digits).unwrap_or(id).to_string();
        let pod = self.pod.as_ref();
        let pod = pod.map(|uid| format!("pod {}", cut(uid, SHOWN_UID)));
        let container = self.container.as_ref().map(|id| {
            let runtime = match (self.runtime, &self.pod) {
                (Some(runtime), None) => format!("{runtime} "),
                _ => String::new(),
            };
            format!("{runtime}container {}", cut(id, SHOWN_ID))
        });
        let machine = self
            .machine
            .as_ref()
            .map(|name| format!("container {name}"));
        let unit = self.unit.as_ref().map(|unit| format!("unit {unit}"));
        let parts: Vec<String> = [pod, machine, container, unit]
            .into_iter()
            .flatten()
            .collect();
        f.write_str(&parts.join(", "))
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The uid of a pod: `pod3f2a91bc-…`, or as systemd's slices write it, `kubepods-burstable-pod3f2a91bc_….slice`.
fn pod(part: &str) -> Option<String> {
    let slice = part.strip_suffix(".slice");
    let uid = match slice {
        Some(slice) if slice.starts_with("kubepods") => slice.rsplit_once("-pod")?.1,
        Some(_) => return None,
        None => part.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    (is_uid && uid.len() <= MAX_NAME).then_some(uid)
}

fn machine(part: &str, scope: Option<&str>, before: &str) -> Option<String> {
    let lxc = part.strip_prefix("lxc.payload.");
    let lxc = lxc.or((before == "lxc").then_some(part));
    let machine = scope.and_then(|scope| scope.strip_prefix("machine-"));
    name(lxc.or(machine)?)
}

/// A name as it was before systemd escaped it; `None` for what is no name.
fn name(escaped: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = escaped;
    while let Some(c) = rest.chars().next() {
        let code = rest.strip_prefix("\\x").and_then(|hex| hex.get(..2));
        let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(byte) => {
                name.push(char::from(byte));
                rest = &rest[4..];
            }
            None => {
                name.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    is_name(&name).then_some(name)
}

/// Whether a text is what runtimes and systemd allow as a name: a sentence can hold it as it is.
pub fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-@:/".contains(&b);
    !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(allowed)
}

/// Whether a text is what a host may be called: a sentence can hold it as it is.
pub fn is_host_name(text: &str) -> bool {
    /// As Linux has it; a domain name of that length is no name for people any more.
    const MAX_HOST_NAME: usize = 64;
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    text.len() <= MAX_HOST_NAME
        && text.bytes().all(allowed)
        && text.contains(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "3f2a91bc-1111-2222-3333-444455556666";

    #[track_caller]
    fn says(path: &str, expected: &str) {
        let home = Home::of(path).map(|home| home.to_string());
        assert_eq!(home.unwrap_or_default(), expected, "{path}");
    }

    #[test]
    fn a_host_is_not_called_by_a_number_or_a_command() {
        for name in ["db-primary", "six.example.com", "web_1", "A"] {
            assert!(is_host_name(name), "{name}");
        }
        for none in ["", "10.0.0.1", "a b", "`id`", "a/b", "ä", &"a".repeat(65)] {
            assert!(!is_host_name(none), "{none}");
        }
    }

    #[test]
    fn units_of_the_host_and_of_users() {
        says("/system.slice/nginx.service", "unit nginx.service");
        says(
            "/system.slice/system-postgresql.slice/postgresql@15-main.service",
            "unit postgresql@15-main.service",
        );
        says(
            "/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service",
            "unit sync.service",
        );
        says(r"/system.slice/a\x2db.service", "unit a-b.service");
        for none in [
            "",
            "/",
            "/init.scope",
            "/user.slice/user-0.slice/session-3.scope",
            "/batch",
        ] {
            says(none, "");
        }
        says(
            "/user.slice/user-1000.slice/user@1000.service/init.scope",
            "",
        );
    }

    #[test]
    fn containers_and_pods_of_each_runtime() {
        let docker = "docker container 0123456789ab";
        says(&format!("/system.slice/docker-{ID}.scope"), docker);
        says(&format!("/docker/{ID}"), docker);
        says(
            &format!("/docker/{ID}/system.slice/cron.service"),
            "docker container 0123456789ab, unit cron.service",
        );
        says(
            &format!("/machine.slice/libpod-{ID}.scope/container"),
            "podman container 0123456789ab",
        );
        let user =
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope");
        says(&user, "podman container 0123456789ab");
        let pod = "pod 3f2a91bc, container 0123456789ab";
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        says(
            &format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope"),
            pod,
        );
        says(&format!("/kubepods.slice/{slice}/crio-{ID}.scope"), pod);
        says(&format!("/kubepods/burstable/pod{UID}/{ID}"), pod);
        let kind = format!("/system.slice/docker-{ID}.scope/kubelet.slice/kubelet.service");
        says(&kind, "docker container 0123456789ab, unit kubelet.service");
        says(
            "/lxc.payload.web1/system.slice/nginx.service",
            "container web1, unit nginx.service",
        );
        says("/lxc/web1", "container web1");
        says(
            r"/machine.slice/machine-build\x2d1.scope",
            "container build-1",
        );
    }

    #[test]
    fn what_is_no_name_is_not_told() {
        says("/system.slice/x`y.service", "");
        says("/system.slice/a\u{1b}[2J.service", "");
        says(r"/system.slice/\x60id\x60.service", "");
        says(&format!("/system.slice/{}.service", "a".repeat(500)), "");
        says("/docker/0123", "");
        says("/kubepods/podnothex-0000-0000-0000-000000000000zz", "");
        says(r"/machine.slice/machine-\xé.scope", "");
    }
}

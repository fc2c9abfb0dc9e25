//! What a container is called: by the state that its runtime keeps of it on this host. What is not there, or cannot be
//! read, leaves the id.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use recording::{Home, is_name};
use serde::Deserialize;

/// A configuration of a container has some ten kilobytes.
const MAX_BYTES: u64 = 1 << 20;
/// Namespaces of containerd: of Kubernetes, of Docker, of nerdctl.
const CONTAINERD: &[&str] = &["k8s.io", "moby", "default"];

/// What Docker keeps of a container.
#[derive(Deserialize)]
struct Docker {
    #[serde(rename = "Name")]
    name: String,
}

/// The bundle of an OCI container, as containerd and CRI-O keep it.
#[derive(Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: HashMap<String, String>,
}

/// One line of podman's list.
#[derive(Deserialize)]
struct Stored {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// The name of the container whose cgroup this is: `namespace/pod/container` of Kubernetes, else its own.
pub fn name(path: &str) -> Option<String> {
    name_below(Path::new("/"), path)
}

fn name_below(root: &Path, path: &str) -> Option<String> {
    let home = Home::of(path)?;
    // Only digits: nothing that leads elsewhere.
    let id = home.container?;
    // systemd in a container has groups of its own, which are the container's.
    let at = |parts: &str| root.join(parts);
    let docker = || {
        let kept: Docker = read(&at(&format!(
            "var/lib/docker/containers/{id}/config.v2.json"
        )))?;
        Some(kept.name.trim_start_matches('/').to_string())
    };
    let containerd = |namespace: &&str| {
        let task = "run/containerd/io.containerd.runtime.v2.task";
        bundle(&at(&format!("{task}/{namespace}/{id}/config.json")))
    };
    let stored = "var/lib/containers/storage/overlay-containers";
    let crio = || {
        bundle(&at(&format!(
            "run/containers/storage/overlay-containers/{id}/userdata/config.json"
        )))
    };
    let podman = || {
        let all: Vec<Stored> = read(&at(&format!("{stored}/containers.json")))?;
        all.into_iter()
            .find(|one| one.id == id)?
            .names
            .into_iter()
            .next()
    };
    let name = docker().or_else(|| CONTAINERD.iter().find_map(containerd));
    let name = name.or_else(crio).or_else(podman);
    name.filter(|name| is_name(name))
}

/// What the annotations of the two runtimes of Kubernetes say, or nerdctl's.
fn bundle(file: &Path) -> Option<String> {
    let kept: Bundle = read(file)?;
    let of = |keys: [&str; 2]| {
        keys.iter()
            .find_map(|key| kept.annotations.get(*key).cloned())
    };
    let pod = of(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    let namespace = of([
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.pod.namespace",
    ]);
    let container = of([
        "io.kubernetes.cri.container-name",
        "io.kubernetes.container.name",
    ]);
    match (namespace, pod) {
        (Some(namespace), Some(pod)) => {
            let container = container.map_or(String::new(), |name| format!("/{name}"));
            Some(format!("{namespace}/{pod}{container}"))
        }
        _ => of(["nerdctl/name", "io.container.manager.name"]),
    }
}

/// Reads a file of whatever size and content.
fn read<T: serde::de::DeserializeOwned>(file: &Path) -> Option<T> {
    let open = File::open(file).ok()?;
    if !open.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    open.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn told(file: &str, content: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        name_below(root.path(), &format!("/system.slice/docker-{ID}.scope"))
    }

    #[test]
    fn each_runtime_names_its_containers() {
        let docker = format!("var/lib/docker/containers/{ID}/config.v2.json");
        let named = told(&docker, r#"{"Name": "/redis-master", "State": {"Pid": 7}}"#);
        assert_eq!(named.as_deref(), Some("redis-master"));
        let containerd =
            format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json");
        let kubernetes = r#"{"annotations": {"io.kubernetes.cri.sandbox-name": "redis-0",
            "io.kubernetes.cri.sandbox-namespace": "shop", "io.kubernetes.cri.container-name": "redis"}}"#;
        assert_eq!(
            told(&containerd, kubernetes).as_deref(),
            Some("shop/redis-0/redis")
        );
        let crio = format!("run/containers/storage/overlay-containers/{ID}/userdata/config.json");
        let pause = r#"{"annotations": {"io.kubernetes.pod.name": "redis-0", "io.kubernetes.pod.namespace": "shop"}}"#;
        assert_eq!(told(&crio, pause).as_deref(), Some("shop/redis-0"));
        let podman = "var/lib/containers/storage/overlay-containers/containers.json";
        let list =
            format!(r#"[{{"id": "ff", "names": ["x"]}}, {{"id": "{ID}", "names": ["web"]}}]"#);
        assert_eq!(told(podman, &list).as_deref(), Some("web"));
    }

    #[test]
    fn what_is_damaged_or_no_name_leaves_the_id() {
        let docker = format!("var/lib/docker/containers/{ID}/config.v2.json");
        for content in [
            "",
            "{",
            "[1]",
            r#"{"Name": 7}"#,
            r#"{"Name": "/`id`"}"#,
            r#"{"Name": ""}"#,
        ] {
            assert_eq!(told(&docker, content), None, "{content}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(told(&docker, &deep), None);
        assert_eq!(told("etc/hostname", "x"), None);
        let root = tempfile::tempdir().unwrap();
        assert_eq!(name_below(root.path(), "/system.slice/nginx.service"), None);
    }
}

//! A program of the distribution in a scenario: the shape of its table, and whether that makes sense.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Scenario;
use super::check::{FIRST_EPHEMERAL_PORT, check_name, ensure};

/// A program of the distribution, as it runs in production: a server, or a client that ends by itself. In the
/// texts `{dir}` is a directory of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    /// By which the file and errors speak of it, and the name of its directory.
    pub name: String,
    /// Where it runs.
    pub node: String,
    /// The Debian package that has it.
    pub package: String,
    /// The program and its arguments; it stays in the foreground.
    pub command: Vec<String>,
    /// A command that is run once, before it and before anything is recorded.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// Files of its directory, and what is in them.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Files of so many zeros.
    #[serde(default)]
    pub blobs: BTreeMap<String, u64>,
    /// Where it listens; absent of a client, which starts when the load does.
    pub port: Option<u16>,
    /// It also has to print this before it is ready.
    pub ready: Option<String>,
    /// A command that is run once when it is ready, before anything is recorded: a client that fills its caches.
    #[serde(default)]
    pub first: Vec<String>,
    /// The user whose it is; root when absent.
    pub user: Option<String>,
}

impl ProgramSpec {
    /// What the kernel calls its processes.
    pub(crate) fn comm(&self) -> &str {
        let file = self.command[0].rsplit('/').next().unwrap_or_default();
        file.get(..15).unwrap_or(file)
    }
}

impl Scenario {
    /// What does not fit of a program.
    pub(super) fn check_program(&self, program: &ProgramSpec) -> Result<(), String> {
        let name = &program.name;
        self.node(&program.node)?;
        check_name(name)?;
        let same = self.programs.iter().filter(|p| p.name == *name).count();
        let servers = self.servers.iter().filter(|s| s.name == *name).count();
        ensure(same + servers == 1, || {
            format!("two servers or programs are called `{name}`")
        })?;
        ensure(!program.command.is_empty(), || {
            format!("program `{name}`: no command")
        })?;
        let plain = |file: &String| !file.contains('/') && !file.starts_with('.');
        let mut files = program.files.keys().chain(program.blobs.keys());
        ensure(files.all(plain) && plain(name), || {
            format!("program `{name}`: names of files in its directory, without `/`")
        })?;
        let port = program.port.unwrap_or(1);
        ensure((1..FIRST_EPHEMERAL_PORT).contains(&port), || {
            format!("program `{name}`: port {port} is among the local ports")
        })?;
        let mut others = self.servers.iter().map(|s| (&s.node, Some(s.port)));
        let taken = others.any(|at| at == (&program.node, program.port));
        ensure(!taken, || {
            format!("program `{name}`: a server listens at its port")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"
        title = "t"
        about = "a"
        clients = []
        [nodes.server]
        [[servers]]
        name = "web"
        node = "server"
        port = 7000
        [[programs]]
        name = "db"
        node = "server"
        package = "postgresql"
        command = ["/usr/bin/postgres", "-D", "{dir}"]
        port = 5432
        [truth]
        cause = "healthy"
    "#;

    #[test]
    fn the_kernel_calls_it_as_its_command() {
        let scenario = Scenario::parse("test", SOUND, 1).unwrap();
        assert_eq!(scenario.programs[0].comm(), "postgres");
        assert_eq!(scenario.listener("db"), Some(("server", 5432)));
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, says) in [
            ("name = \"db\"", "name = \"web\"", "two servers or programs"),
            (
                "[\"/usr/bin/postgres\", \"-D\", \"{dir}\"]",
                "[]",
                "no command",
            ),
            ("port = 5432", "port = 7000", "listens at its port"),
            ("port = 5432", "port = 40000", "among the local ports"),
            (
                "port = 5432",
                "files = { \"../x\" = \"\" }",
                "in its directory",
            ),
        ] {
            let text = SOUND.replace(from, to);
            assert_ne!(text, SOUND);
            let error = Scenario::parse("test", &text, 1).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}

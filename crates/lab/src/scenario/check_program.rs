//! Whether a program of the distribution makes sense in a scenario.

use super::Scenario;
use super::check::{FIRST_EPHEMERAL_PORT, check_name, ensure};
use super::program::ProgramSpec;

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

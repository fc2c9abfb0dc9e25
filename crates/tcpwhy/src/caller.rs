//! Users of this host: who called sudo, as whom the command runs that is recorded, and who runs a service.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use observe::Identity;

/// Databases of users and groups are small; of larger ones the rest is not looked at.
const MOST: u64 = 4 << 20;

/// Who called sudo.
pub struct Caller {
    /// What he is called.
    pub name: String,
    home: Option<String>,
    identity: Identity,
}

impl Caller {
    /// By what sudo leaves in the environment; `None` where root did it himself, or this process is not root.
    pub fn find() -> Option<Caller> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let number = |name| env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        let name = env::var("SUDO_USER").unwrap_or_else(|_| uid.to_string());
        (uid != 0).then(|| Caller {
            home: home(&text(Path::new("/etc/passwd")), uid),
            identity: Identity {
                uid,
                gid,
                groups: groups(&text(Path::new("/etc/group")), &name, gid),
            },
            name,
        })
    }

    /// Has a command run so.
    pub fn run<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("USER", &self.name).env("LOGNAME", &self.name);
        if let Some(home) = &self.home {
            command.env("HOME", home);
        }
        observe::runs_as(command, self.identity.clone())
    }
}

/// The rights of a user of this host, by his name; his own group alone.
pub fn user(name: &str) -> Option<Identity> {
    identity(&text(Path::new("/etc/passwd")), name)
}

fn identity(passwd: &str, name: &str) -> Option<Identity> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    let mut user = users.find_map(|mut user| (user.next()? == name).then_some(user))?;
    let uid = user.nth(1)?.parse().ok()?;
    let gid = user.next()?.parse().ok()?;
    Some(Identity {
        uid,
        gid,
        groups: vec![gid],
    })
}

fn text(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
    read.map_or(String::new(), |_| {
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// `alice:x:1000:1000:Alice:/home/alice:/bin/sh`.
fn home(passwd: &str, uid: u32) -> Option<String> {
    let mut users = passwd.lines().map(|line| line.split(':'));
    users.find_map(|mut user| {
        let of_user = user.nth(2)?.parse() == Ok(uid);
        user.nth(2).filter(|_| of_user).map(String::from)
    })
}

/// `docker:x:999:alice,bob`; his own first.
fn groups(groups: &str, name: &str, own: u32) -> Vec<u32> {
    let of_user = groups.lines().filter_map(|line| {
        let mut group = line.split(':');
        let gid = group.nth(2)?.parse().ok()?;
        let members = group.next()?;
        members
            .split(',')
            .any(|member| member == name)
            .then_some(gid)
    });
    let others = of_user.filter(|gid| *gid != own);
    [own].into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_their_groups_are_read() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000:A,,,:/home/alice:/bin/sh\nbroken\n";
        assert_eq!(home(passwd, 1000).as_deref(), Some("/home/alice"));
        assert_eq!(home(passwd, 7), None);
        let alice = identity(passwd, "alice").unwrap();
        assert_eq!(
            (alice.uid, alice.gid, alice.groups),
            (1000, 1000, vec![1000])
        );
        assert!(identity(passwd, "broken").is_none() && identity(passwd, "al").is_none());
        let group = "root:x:0:\ndocker:x:999:bob,alice\nalice:x:1000:alice\nx:y\nal:x:5:alicex\n";
        assert_eq!(groups(group, "alice", 1000), [1000, 999]);
    }
}

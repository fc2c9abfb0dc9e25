//! What well-known programs call the settings that advice is about, from their own documentation.

use std::path::Path;

use analysis::ProcessState;

use crate::finding::Scope;
use crate::scope::{culprit, process};
use crate::sentence;

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Setting {
    /// What listen() is given, at a port.
    Backlog { value: u32, port: u16 },
    /// TCP_NODELAY.
    NoDelay,
    /// How many connections it has at most: it leaves others in the accept queue.
    Connections,
    /// How many clients it has at most: it accepts others, says so, and closes.
    Clients,
}

/// What the program of a scope calls the setting; `None` if the program is not known.
pub(crate) fn setting(scope: &Scope, setting: Setting) -> Option<String> {
    let said = |program| match setting {
        Setting::Backlog { value, port } => backlog(program, value, port),
        Setting::NoDelay => no_delay(program).map(String::from),
        Setting::Connections => connections(program).map(String::from),
        Setting::Clients => clients(program).map(String::from),
    };
    let comm = scope.comm.as_deref();
    // Node and Java name their threads; the command line has the program.
    let line = scope.cmdline.as_deref().and_then(program);
    [comm, line].into_iter().flatten().find_map(said)
}

/// What a program that sleeps while connections wait for it has reached, if it has such a limit.
pub(crate) fn at_its_limit(scope: &Scope) -> Option<String> {
    let asleep = culprit(scope).is_some_and(|doing| doing.state == ProcessState::Asleep);
    let limit = asleep.then(|| setting(scope, Setting::Connections))??;
    let who = process(scope);
    Some(format!(
        "Raise {limit} of {who}: it sleeps while connections wait."
    ))
}

/// Options by which programs that transfer limit their own rate.
const OWN_RATE: &[(&str, &str)] = &[
    ("curl", "--limit-rate"),
    ("wget", "--limit-rate"),
    ("rsync", "--bwlimit"),
    ("rclone", "--bwlimit"),
    ("aria2c", "--max-download-limit"),
    ("aria2c", "--max-overall-download-limit"),
    ("scp", "-l"),
    ("pv", "-L"),
    ("pv", "--rate-limit"),
    ("mbuffer", "-r"),
    ("mbuffer", "-R"),
];

/// The option and its value in the command line of a scope by which the program limits its own rate.
pub(crate) fn own_rate(scope: &Scope) -> Option<String> {
    let line = scope.cmdline.as_deref()?;
    let name = program(line)?;
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        if OWN_RATE.contains(&(name, option)) {
            let value = value.or_else(|| words.next())?;
            return Some(format!("{option} {value}"));
        }
    }
    None
}

/// The program of a command line: `nginx: worker process`, `/usr/bin/python3 x.py`.
fn program(cmdline: &str) -> Option<&str> {
    let first = cmdline.split_whitespace().next()?;
    let name = Path::new(first).file_name()?.to_str()?;
    Some(name.trim_end_matches(':'))
}

fn backlog(program: &str, value: u32, port: u16) -> Option<String> {
    Some(match program {
        "nginx" => sentence!("`listen {port} backlog={value};`, then `nginx -s reload`", port, value).into(),
        "haproxy" => sentence!("`backlog {value}` in the frontend, then reload", value).into(),
        "redis-server" | "valkey-server" => {
            sentence!("`tcp-backlog {value}` in its configuration, then restart", value).into()
        }
        "postgres" => {
            "it is twice max_connections, 10,000 at most: raise that, then restart".into()
        }
        "envoy" => sentence!("`tcp_backlog_size: {value}` of the listener", value).into(),
        "java" => "the second argument of ServerSocket (else 50); Tomcat's acceptCount, Netty's SO_BACKLOG".into(),
        "node" => sentence!("`server.listen({{ port: {port}, backlog: {value} }})` (else 511)", port, value).into(),
        "gunicorn" | "uvicorn" => sentence!("`--backlog {value}`, then restart", value).into(),
        "apache2" | "httpd" => sentence!("`ListenBacklog {value}`, then restart", value).into(),
        "mysqld" | "mariadbd" => sentence!("`back_log = {value}`, then restart", value).into(),
        "memcached" => sentence!("`-b {value}`, then restart", value).into(),
        python if python.starts_with("python") => sentence!(
            "`listen({value})`; request_queue_size of socketserver (else 5), backlog= of asyncio (else 100)",
            value
        )
        .into(),
        _ => return None,
    })
}

fn no_delay(program: &str) -> Option<&'static str> {
    Some(match program {
        "haproxy" => "`option http-no-delay`",
        "java" => "`socket.setTcpNoDelay(true)`; Tomcat's tcpNoDelay, Netty's TCP_NODELAY",
        "node" => "`socket.setNoDelay(true)`",
        python if python.starts_with("python") => {
            "`sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)`"
        }
        _ => return None,
    })
}

/// The limit of a program that accepts further clients, and closes at once.
fn clients(program: &str) -> Option<&'static str> {
    Some(match program {
        "redis-server" | "valkey-server" => "`maxclients`",
        _ => return None,
    })
}

/// The limit of a program that then accepts no further clients.
fn connections(program: &str) -> Option<&'static str> {
    Some(match program {
        "haproxy" => "`maxconn`",
        "memcached" => "`-c`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_limits_the_rate_is_found_with_its_value() {
        let own = |cmdline: &str| {
            own_rate(&Scope {
                cmdline: Some(cmdline.into()),
                ..Scope::default()
            })
        };
        let limit = |says: &str| Some(says.to_string());
        assert_eq!(
            own("/usr/bin/curl -s --limit-rate 2M http://a/"),
            limit("--limit-rate 2M")
        );
        assert_eq!(
            own("wget --limit-rate=200k http://a/"),
            limit("--limit-rate 200k")
        );
        assert_eq!(own("curl http://a/--limit-rate"), None);
        assert_eq!(own("curl --limit-rate"), None);
        assert_eq!(own("scp -l 800 a b:"), limit("-l 800"));
        // To another program the same option is something else.
        assert_eq!(own("ls -l 800"), None);
    }

    fn said(comm: &str, cmdline: &str) -> Option<String> {
        let scope = Scope {
            comm: Some(comm.into()),
            cmdline: Some(cmdline.into()),
            ..Scope::default()
        };
        let backlog = Setting::Backlog {
            value: 1_024,
            port: 80,
        };
        setting(&scope, backlog)
    }

    #[test]
    fn a_program_is_known_by_its_name_or_its_command_line() {
        let nginx = "`listen 80 backlog=1024;`, then `nginx -s reload`";
        assert_eq!(
            said("nginx", "nginx: worker process").as_deref(),
            Some(nginx)
        );
        let node = "`server.listen({ port: 80, backlog: 1024 })` (else 511)";
        assert_eq!(
            said("MainThread", "/usr/bin/node app.js").as_deref(),
            Some(node)
        );
        assert!(said("python3.11", "x").is_some_and(|s| s.contains("request_queue_size")));
        assert_eq!(said("shopd", "/opt/shopd --port 80"), None);
        assert_eq!(said("", ""), None);
    }
}

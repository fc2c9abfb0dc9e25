//! The programs of a situation: their settings and command lines, as their manuals have them. Pure.

use std::collections::BTreeMap;

use serde_json::json;

use super::kinds::{Beside, Caller, PORT, Proxy, Server, Shape, Topology, word};
use super::situation::{Situation, Speaks};
use crate::scenario::ProgramSpec;

/// Debian's.
const PYTHON: &str = "/usr/bin/python3";
const SERVER_PY: &str = include_str!("programs/server.py");
const SERVER_JS: &str = include_str!("programs/server.js");
const CALLER_PY: &str = include_str!("programs/caller.py");
const CALLER_JS: &str = include_str!("programs/caller.js");
const RESOLVER_PY: &str = include_str!("programs/resolver.py");

/// What a program does wrong, in its directory.
pub(super) const SWITCH: &str = "wrong.json";
/// What a caller waited, in its directory.
pub(super) const LOG: &str = "operations.jsonl";
/// What a server waited by itself, in its directory.
pub(super) const OWN_LOG: &str = "own.jsonl";
/// The key and the certificate of the servers that speak TLS.
pub(super) const CERT: &str = "cert.pem";
/// Who waits in the accept queue at most.
const BACKLOG: u32 = 8;

fn spec(name: &str, package: &str, command: &[&str]) -> ProgramSpec {
    ProgramSpec {
        name: name.into(),
        node: String::new(),
        package: package.into(),
        command: command.iter().map(|w| (*w).to_string()).collect(),
        prepare: Vec::new(),
        files: BTreeMap::new(),
        blobs: BTreeMap::new(),
        port: Some(PORT),
        ready: None,
        first: Vec::new(),
        user: None,
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_string()).collect()
}

/// The server, and the second process of a port that is shared; `cert` is the text of the certificate with its key.
pub(super) fn servers(s: &Situation, cert: &str) -> Vec<ProgramSpec> {
    let speaks = s.speaks().unwrap_or(Speaks::Http);
    let port = PORT.to_string();
    let mut server = match s.server {
        Server::Nginx => {
            let mut server = spec("server", "nginx-light", NGINX);
            server
                .files
                .insert("nginx.conf".into(), nginx(&served(s, speaks)));
            server.blobs = [200, 4_000, 30_000, 1_000_000, 20_000_000]
                .map(|size: u64| (size.to_string(), size))
                .into();
            server
        }
        Server::Node => {
            let cert = format!("{{dir}}/{CERT}");
            let (switch, log) = (format!("{{dir}}/{SWITCH}"), format!("{{dir}}/{OWN_LOG}"));
            let command = [
                "node",
                "{dir}/server.js",
                &port,
                speaks.word(),
                &switch,
                &log,
                &cert,
            ];
            let mut server = spec("server", "nodejs", &command);
            server.files.insert("server.js".into(), SERVER_JS.into());
            server
        }
        Server::Python => python("server", speaks),
        Server::Redis => {
            let mut server = spec(
                "server",
                "redis-server",
                &["redis-server", "{dir}/redis.conf"],
            );
            server
                .files
                .insert("redis.conf".into(), REDIS.replace("PORT", &port));
            let value = "x".repeat(s.size.min(4_000) as usize);
            server.first = words(&["redis-cli", "-p", &port, "SET", "key", &value]);
            server
        }
        Server::Postgres => {
            let settings = "config_file={dir}/postgresql.conf";
            let mut server = spec(
                "server",
                "postgresql",
                &["postgres", "-D", "{dir}/data", "-c", settings],
            );
            server.user = Some("postgres".into());
            server.prepare = words(&[
                "initdb",
                "-D",
                "{dir}/data",
                "-U",
                "postgres",
                "-A",
                "trust",
                "--no-sync",
                "--no-locale",
                "-E",
                "UTF8",
            ]);
            server.ready = Some("ready to accept connections".into());
            let table = "CREATE TABLE orders AS SELECT generate_series(1, 200) AS id";
            server.first = words(&[
                "psql",
                "-h",
                "127.0.0.1",
                "-p",
                &port,
                "-U",
                "postgres",
                "-c",
                table,
            ]);
            server
                .files
                .insert("postgresql.conf".into(), POSTGRES.replace("PORT", &port));
            server.files.insert(
                "pg_hba.conf".into(),
                "host all all 0.0.0.0/0 trust\n".into(),
            );
            server
        }
        Server::Iperf3 => spec("server", "iperf3", &["iperf3", "-s", "-p", &port]),
    };
    if speaks == Speaks::Tls {
        server.files.insert(CERT.into(), cert.into());
    }
    let mut all = vec![server];
    if s.topology == Topology::SharedPort {
        let mut worker = python("worker", speaks);
        worker.files.insert(CERT.into(), cert.into());
        all.push(worker);
    }
    all
}

fn python(name: &str, speaks: Speaks) -> ProgramSpec {
    let [port, backlog] = [u32::from(PORT), BACKLOG].map(|n| n.to_string());
    let [switch, log, cert] = [SWITCH, OWN_LOG, CERT].map(|file| format!("{{dir}}/{file}"));
    let command = [
        PYTHON,
        "{dir}/server.py",
        &port,
        speaks.word(),
        &switch,
        &log,
        &cert,
        &backlog,
        name,
    ];
    let mut server = spec(name, "python3", &command);
    server.files.insert("server.py".into(), SERVER_PY.into());
    server
}

/// A proxy that passes on to `to`.
pub(super) fn proxy(name: &str, proxy: Proxy, to: &str) -> ProgramSpec {
    match proxy {
        Proxy::Nginx => {
            let mut program = spec(name, "nginx-light", NGINX);
            let text = format!(
                "upstream orders {{ server {to}:{PORT}; keepalive 16; }}
  server {{
    listen {PORT};
    proxy_http_version 1.1;
    proxy_set_header Connection \"\";
    client_max_body_size 100m;
    location / {{ proxy_pass http://orders; proxy_connect_timeout 5s; }}
  }}"
            );
            program.files.insert("nginx.conf".into(), nginx(&text));
            program
        }
        Proxy::HaproxyTcp | Proxy::HaproxyHttp => {
            let mut program = spec(
                name,
                "haproxy",
                &["haproxy", "-db", "-f", "{dir}/haproxy.cfg"],
            );
            let mode = if proxy == Proxy::HaproxyTcp {
                "tcp"
            } else {
                "http"
            };
            program.files.insert(
                "haproxy.cfg".into(),
                HAPROXY
                    .replace("MODE", mode)
                    .replace("TO", &format!("{to}:{PORT}"))
                    .replace("PORT", &PORT.to_string()),
            );
            program
        }
    }
}

/// The caller whose waits are written down: to `targets`, with a resolver at an address if it has one.
pub(super) fn caller(s: &Situation, targets: &[String], resolver: Option<&str>) -> ProgramSpec {
    let speaks = s.speaks().unwrap_or(Speaks::Http);
    let is_node = s.caller == Caller::Node;
    let mut program = if is_node {
        spec(
            "caller",
            "nodejs",
            &["node", "{dir}/caller.js", "{dir}/caller.json"],
        )
    } else {
        spec(
            "caller",
            "python3",
            &[PYTHON, "{dir}/caller.py", "{dir}/caller.json"],
        )
    };
    program.port = None;
    let many = match speaks {
        _ if s.shape != Shape::Multiplexed => None,
        Speaks::Redis => Some(5),
        _ => Some(4),
    };
    let told = json!({
        "targets": targets.iter().map(|to| json!([to, PORT])).collect::<Vec<_>>(),
        "speaks": speaks.word(),
        "shape": word(&s.shape),
        "threads": s.threads,
        "pause": if s.is_bulk() { 0.0 } else { s.patience.pause_s },
        "size": s.size,
        "patience": s.patience.gives_up_s,
        "retries": s.patience.retries,
        "keep": s.keeps(),
        "many": many,
        "command": command(s, speaks, &targets[0]),
        "resolver": resolver,
        "seed": s.seed,
        "log": format!("{{dir}}/{LOG}"),
        "switch": format!("{{dir}}/{SWITCH}"),
    });
    let mut told = told;
    if let Some(fields) = told.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    // A command has braces of its own, which it fills in itself.
    program.files.insert("caller.json".into(), told.to_string());
    let text = if is_node {
        ("caller.js", CALLER_JS)
    } else {
        ("caller.py", CALLER_PY)
    };
    program.files.insert(text.0.into(), text.1.into());
    program
}

/// What a caller that runs a program of Debian runs.
fn command(s: &Situation, speaks: Speaks, to: &str) -> Option<Vec<String>> {
    let port = PORT.to_string();
    Some(match s.caller {
        Caller::Curl => {
            let scheme = if speaks == Speaks::Tls {
                "https"
            } else {
                "http"
            };
            let url = format!("{scheme}://{to}:{PORT}/{}", s.size);
            words(&[
                "curl",
                "-s",
                "-k",
                "-f",
                "-o",
                "/dev/null",
                "-m",
                "{patience}",
                &url,
            ])
        }
        Caller::Psql => words(&[
            "psql",
            "-h",
            to,
            "-p",
            &port,
            "-U",
            "postgres",
            "-c",
            "SELECT count(*) FROM orders",
        ]),
        Caller::RedisCli => words(&["redis-cli", "-h", to, "-p", &port, "GET", "key"]),
        Caller::Iperf3 => {
            let mut all = words(&[
                "iperf3",
                "-c",
                to,
                "-p",
                &port,
                "-t",
                "100",
                "-i",
                "0.25",
                "-f",
                "k",
                "--forceflush",
            ]);
            match s.shape {
                Shape::Down => all.push("-R".into()),
                Shape::Both => all.push("--bidir".into()),
                _ => {}
            }
            all
        }
        Caller::Python | Caller::Node => return None,
    })
}

/// Who asks as well.
pub(super) fn beside(s: &Situation, to: &str) -> Option<ProgramSpec> {
    let port = PORT.to_string();
    let url = format!("http://{to}:{PORT}/{}", s.size);
    let (package, command) = match s.beside? {
        Beside::Wrk => ("wrk", words(&["wrk", "-t1", "-c4", "-d100s", &url])),
        Beside::Ab => (
            "apache2-utils",
            words(&[
                "ab", "-c", "2", "-t", "100", "-n", "1000000", "-s", "30", "-r", &url,
            ]),
        ),
        Beside::RedisBenchmark => (
            "redis-tools",
            words(&[
                "redis-benchmark",
                "-h",
                to,
                "-p",
                &port,
                "-c",
                "3",
                "-n",
                "10000000",
                "-t",
                "get",
            ]),
        ),
        Beside::Pgbench => (
            "postgresql-contrib",
            words(&[
                "pgbench",
                "-n",
                "-h",
                to,
                "-p",
                &port,
                "-U",
                "postgres",
                "-c",
                "2",
                "-T",
                "100",
                "-f",
                "{dir}/query.sql",
                "postgres",
            ]),
        ),
    };
    let mut program = spec("beside", package, &[]);
    program.command = command;
    program.port = None;
    program
        .files
        .insert("query.sql".into(), "SELECT count(*) FROM orders;\n".into());
    Some(program)
}

/// The resolver of a caller that asks for a name first.
pub(super) fn resolver() -> ProgramSpec {
    let [switch, log] = [SWITCH, OWN_LOG].map(|file| format!("{{dir}}/../caller/{file}"));
    let mut program = spec(
        "resolver",
        "python3",
        &[PYTHON, "{dir}/resolver.py", &switch, &log],
    );
    program.port = None;
    program
        .files
        .insert("resolver.py".into(), RESOLVER_PY.into());
    program
}

/// A program that disturbs.
pub(super) fn disturbs(name: &str, command: &[String]) -> ProgramSpec {
    let mut program = spec(name, "postgresql-client, redis-tools", &[]);
    program.command = command.to_vec();
    program.port = None;
    program
}

const NGINX: &[&str] = &[
    "nginx",
    "-p",
    "{dir}",
    "-e",
    "stderr",
    "-c",
    "{dir}/nginx.conf",
];

fn served(_: &Situation, speaks: Speaks) -> String {
    let tls = if speaks == Speaks::Tls {
        format!(" ssl; ssl_certificate {CERT}; ssl_certificate_key {CERT}")
    } else {
        String::new()
    };
    format!("server {{\n    listen {PORT}{tls};\n    root .;\n  }}")
}

fn nginx(servers: &str) -> String {
    format!(
        "daemon off;
user root;
pid nginx.pid;
worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 100000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  {servers}
}}
"
    )
}

const HAPROXY: &str = "global
  maxconn 1000
defaults
  mode MODE
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen orders
  bind *:PORT
  server orders TO
";

const REDIS: &str = "bind 0.0.0.0
protected-mode no
port PORT
save \"\"
lua-time-limit 100000
";

const POSTGRES: &str = "listen_addresses = '*'
port = PORT
unix_socket_directories = ''
hba_file = '{dir}/pg_hba.conf'
fsync = off
dynamic_shared_memory_type = mmap
shared_buffers = 16MB
max_wal_senders = 0
wal_level = minimal
max_connections = 60
autovacuum = off
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_a_situation_has_a_command_and_its_files() {
        for seed in 1..120 {
            let s = Situation::compose(seed);
            let mut all = servers(&s, "certificate");
            all.extend(s.proxies.iter().map(|p| proxy("proxy", *p, "10.9.1.2")));
            all.push(caller(&s, &["10.9.1.2".into()], None));
            all.extend(beside(&s, "10.9.1.2"));
            for program in all {
                assert!(!program.command.is_empty(), "{s:?}");
                let in_files = |file: &String| {
                    file.strip_prefix("{dir}/").is_none_or(|name| {
                        let made = [SWITCH, LOG, OWN_LOG, CERT].contains(&name) || name == "data";
                        made || name.contains('/') || program.files.contains_key(name)
                    })
                };
                assert!(program.command[1..].iter().all(in_files), "{program:?}");
            }
        }
    }
}

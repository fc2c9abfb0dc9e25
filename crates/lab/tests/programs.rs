//! Programs of the distribution take part: they are started, asked, told when they fail, and leave nothing.

use std::path::Path;

use crate::common::{need_root, pair, plant};
use lab::{ClientReport, Stop};

/// Runs a program in the server's node, and a client that says something to it.
fn asked(program: &str, client: &str) -> Result<ClientReport, lab::Error> {
    let text = pair("", "").replace("clients = []", "");
    let mut plant = plant(&format!(
        r#"{text}
        [[programs]]
        name = "lab-test-prg"
        node = "server"
        {program}
        [[clients]]
        name = "lab-test-cli"
        node = "client"
        to = "server"
        port = 7000
        seconds = 20.0
        {client}
        "#
    ));
    let stop = Stop::default();
    plant.start_servers(&stop)?;
    let mut clients = plant.run_clients(&stop)?.clients;
    plant.stop_servers(&stop)?;
    assert_eq!(ours(), [""; 0], "nothing of it is left");
    Ok(clients.remove(0))
}

/// Processes whose directory is one of the lab's.
fn ours() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let dirs = processes.filter_map(|p| std::fs::read_link(p.path().join("cwd")).ok());
    let dirs = dirs.filter(|dir| dir.file_name().is_some_and(|name| name == "lab-test-prg"));
    dirs.map(|dir| dir.display().to_string()).collect()
}

const REDIS: &str = r#"
    package = "redis-server"
    command = ["redis-server", "{dir}/redis.conf"]
    port = 7000
    ready = "Ready to accept connections"
    files = { "redis.conf" = "bind 0.0.0.0\nprotected-mode no\nport 7000\nsave ''\n" }
"#;

const NGINX: &str = r#"
    package = "nginx-light"
    command = ["nginx", "-p", "{dir}", "-e", "stderr", "-c", "{dir}/nginx.conf"]
    port = 7000
    blobs = { "file" = 50000 }
    [programs.files]
    "nginx.conf" = """
        daemon off; user root; pid pid; worker_processes 2; events {}
        http {
          access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c;
          uwsgi_temp_path d; scgi_temp_path e; keepalive_requests 10;
          server { listen 7000; root .; }
        }
    """
"#;

const POSTGRES: &str = r#"
    package = "postgresql"
    user = "postgres"
    prepare = ["initdb", "-D", "{dir}/data", "-U", "postgres", "-A", "trust", "--no-sync"]
    command = ["postgres", "-D", "{dir}/data", "-c", "config_file={dir}/conf"]
    port = 7000
    ready = "ready to accept connections"
    [programs.files]
    "conf" = "listen_addresses = '*'\nport = 7000\nunix_socket_directories = ''\nhba_file = '{dir}/hba'"
    "hba" = "host all all 0.0.0.0/0 trust"
"#;

#[test]
fn redis_answers_pipelines_and_errors_are_counted() {
    need_root();
    let says = |says: &str| format!("connections = 30\nspeaks = \"redis\"\nsays = {says:?}");
    let client = asked(REDIS, &says("INCR n\nLRANGE l 0 9\nGET nobody")).unwrap();
    assert_eq!(client.requests.answered, 30, "{client:?}");
    assert!(client.requests.failed.is_empty());
    let client = asked(REDIS, &says("GET a\nNONSENSE")).unwrap();
    assert_eq!(client.requests.failed["ERR"], 30, "{client:?}");
}

#[test]
fn nginx_closes_what_it_says_it_closes_and_tells_what_is_not_there() {
    need_root();
    let get = |path: &str| {
        format!(
            "keep = true\nconcurrency = 2\nconnections = 6\nspeaks = \"http\"\n\
             says = \"GET {path} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n\""
        )
    };
    // After ten requests of a connection nginx says that it closes, and so the client opens the next.
    let client = asked(NGINX, &get("/file")).unwrap();
    assert_eq!(
        (client.requests.answered, client.connections.connected),
        (60, 6)
    );
    assert!(client.bytes_received > 60 * 50_000);
    assert!(client.requests.failed.is_empty(), "{client:?}");
    let client = asked(NGINX, &get("/nothing")).unwrap();
    assert_eq!(client.requests.failed["HTTP 404"], 60, "{client:?}");
}

#[test]
fn postgres_is_asked_as_its_own_user() {
    need_root();
    let says = "connections = 4\nconcurrency = 2\nspeaks = \"postgres\"\nsays = \"SELECT 1/1\"";
    let client = asked(POSTGRES, says).unwrap();
    // Each connection is opened by an exchange of its own.
    assert_eq!(client.requests.answered, 8, "{client:?}");
    let client = asked(POSTGRES, &says.replace("1/1", "1/0")).unwrap();
    assert_eq!(
        (client.requests.answered, client.requests.failed["ERROR"]),
        (4, 4)
    );
}

#[test]
fn what_is_not_installed_or_does_not_start_is_told_in_a_line() {
    need_root();
    let missing = REDIS.replace("\"redis-server\", ", "\"no-such-server\", ");
    let error = asked(&missing, "").unwrap_err().to_string();
    assert!(error.contains("apt-get install redis-server"), "{error}");
    let broken = REDIS.replace("save ''", "nonsense");
    let error = asked(&broken, "").unwrap_err().to_string();
    assert!(
        error.contains("lab-test-prg") && error.contains("nonsense"),
        "{error}"
    );
    assert!(Path::new("/proc/self").exists() && ours().is_empty());
}

//! No secret survives, and what is none is left as it is.

use proptest::prelude::*;

use super::*;

/// Both ways of telling a command line, the second after joining it.
fn both(arguments_: &[&str]) -> [String; 2] {
    [arguments(arguments_).join(" "), line(&arguments_.join(" "))]
}

/// Ways to give a secret: `S` stands for it. With blanks in it only where an argument says its end.
const GIVEN: &[&[&str]] = &[
    &["server", "--password=S"],
    &["server", "--password", "S", "--verbose"],
    &["server", "-password", "S"],
    &["server", "--db-password=S", "--port=80"],
    &["server", "password=S"],
    &["env", "DB_PASSWORD=S", "server", "-v"],
    &["server", "--token", "S"],
    &["server", "--api-key=S"],
    &["server", "--api_key", "S"],
    &["server", "--client-secret=S"],
    &["server", "--passwd=S"],
    &["server", "--pwd=S"],
    &["server", "--credential=S"],
    &["server", "--auth=S"],
    &[
        "java",
        "-Xmx4g",
        "-Dspring.datasource.password=S",
        "-jar",
        "a.jar",
    ],
    &["java", "-Djavax.net.ssl.keyStorePassword=S", "Main"],
    &["mysql", "-u", "root", "-pS", "shop"],
    &["/usr/bin/mysqldump", "-pS", "shop"],
    &["sudo", "mysql", "-uroot", "-pS"],
    &["sshpass", "-p", "S", "ssh", "host"],
    &["sshpass", "-pS", "ssh", "host"],
    &["redis-cli", "-a", "S", "ping"],
    &["curl", "-u", "joe:S", "https://a/"],
    &["curl", "-ujoe:S", "https://a/"],
    &["curl", "--user", "joe:S", "https://a/"],
    &["curl", "-H", "Authorization: Bearer S", "https://a/"],
    &["curl", "-HAuthorization: Bearer S", "https://a/"],
    &["curl", "-H", "authorization: Basic S", "https://a/"],
    &["curl", "--header=Authorization: token S", "https://a/"],
    &["curl", "-H", "X-Api-Key: S", "https://a/"],
    &["curl", "-H", "X-Auth-Token:S", "https://a/"],
    &["curl", "-H", "Cookie: session=S", "https://a/"],
    &["curl", "--oauth2-bearer", "S", "https://a/"],
    &["curl", "https://a/?user=joe&token=S"],
    &["sh", "-c", "curl -H 'Authorization: Bearer S' https://a/"],
    &["sh", "-c", "curl -H \"Authorization: Basic S\" https://a/"],
    &["sh", "-c", "PASSWORD=S server --port 80"],
    &["sh", "-c", "exec server --password S --port 80"],
    &["sh", "-c", "mysql -pS shop"],
    &["bash", "-c", "echo go; export TOKEN=S; server"],
    &["psql", "postgres://joe:S@db:5432/shop?sslmode=require"],
    &["psql", "host=db user=joe password=S dbname=shop"],
    &["app", "--dsn=mysql://joe:S@db/shop"],
    &["git", "clone", "https://joe:S@git/a.git"],
    &["git", "clone", "https://x-access-token:S@git/a.git"],
    &["app", "jdbc:postgresql://db/shop?user=joe&password=S"],
    &["app", "Server=db;User=sa;Password=S"],
    &["app", "{\"user\":\"joe\",\"password\":\"S\"}"],
    &["app", "{\\\"password\\\": \\\"S\\\"}"],
    &["openssl", "enc", "-k", "a", "-passin", "pass:S"],
    &["erl", "-setcookie", "S"],
    &["ldapsearch", "-x", "-w", "S", "-b", "dc=a"],
    &["smbclient", "-U", "joe%S", "//a/b"],
    &["ab", "-A", "joe:S", "http://a/"],
    &["AWS_SECRET_ACCESS_KEY=S", "aws", "s3", "ls"],
    &["aws", "--aws-secret-access-key=S"],
    &["app", "bearer", "S"],
    &["app", "--dsn", "joe:S@tcp(db:3306)/shop"],
    &["app", "--dsn=joe:S@tcp(db)/shop?parseTime=true"],
    &["DSN=joe:S@unix(/run/mysqld.sock)/shop", "app"],
    &["app", "joe:S@/shop"],
    &["sh", "-c", "app -mysql 'joe:S@tcp6([::1]:3306)/shop'"],
    &["app", "--psk", "S"],
    &["openssl", "s_client", "-psk", "S"],
    &["app", "--hmac", "S"],
    &["app", "--hmac-key=S"],
    &["app", "--wg-preshared-key", "S"],
    &["dig", "-y", "hmac-sha256:joe:S", "@a"],
];

/// The same where only the argument's end is the secret's.
const ENDED: &[&[&str]] = &[
    &["server", "--password=S"],
    &["server", "--password", "S"],
    &["env", "DB_PASSWORD=S"],
    &["mysql", "-pS"],
    &["sshpass", "-p", "S"],
    &["curl", "-u", "joe:S"],
    &["curl", "-H", "Authorization: Bearer S"],
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_secret_survives(
        given in prop::sample::select(GIVEN),
        secret in "[A-Za-z][A-Za-z0-9_.+/=!$%^*~#-]{7,24}[A-Za-z0-9]",
    ) {
        let with: Vec<String> = given.iter().map(|a| replace_alone(a, &secret)).collect();
        let with: Vec<&str> = with.iter().map(String::as_str).collect();
        for scrubbed in both(&with) {
            prop_assert!(!scrubbed.contains(&secret), "{with:?}: {scrubbed}");
            prop_assert!(scrubbed.contains(SCRUBBED), "{with:?}: {scrubbed}");
            prop_assert_eq!(line(&scrubbed), scrubbed, "scrubbing again changes nothing");
        }
    }

    #[test]
    fn an_argument_says_where_a_secret_with_blanks_ends(
        secret in "[a-z]{4,8} [a-z]{4,8}[\"' ][a-z0-9]{4,8}",
        given in prop::sample::select(ENDED),
    ) {
        let with: Vec<String> = given.iter().map(|a| replace_alone(a, &secret)).collect();
        let scrubbed = arguments(&with).join(" ");
        // What the option is called may hold a part by itself.
        let named = given.join(" ");
        for part in secret.split([' ', '"', '\'']) {
            prop_assert!(named.contains(part) || !scrubbed.contains(part), "{with:?}: {scrubbed}");
        }
    }

    #[test]
    fn any_text_ends_and_scrubbing_again_changes_nothing(text in "\\PC{0,200}") {
        let once = line(&text);
        prop_assert_eq!(line(&once), once);
        let _ = arguments([&text, &text]);
    }
}

/// Puts the secret where an `S` stands that is no part of a word.
fn replace_alone(text: &str, secret: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.char_indices() {
        let before = text[..i].chars().next_back();
        let after = text[i + 1..].chars().next().filter(|_| c == 'S');
        // `-pS` is an option and what is attached to it.
        let option = text[..i].ends_with("-p");
        let alone = c == 'S'
            && (option || before.is_none_or(|c| !is_name(c)))
            && after.is_none_or(|c| !is_name(c));
        if alone {
            out.push_str(secret)
        } else {
            out.push(c)
        }
    }
    out
}

#[test]
fn what_is_no_secret_stays() {
    for ordinary in [
        "nginx: master process /usr/sbin/nginx -g daemon on; master_process on;",
        "nginx: worker process",
        "postgres: 14/main: walwriter",
        "postgres: joe shop 10.0.0.5(51234) idle in transaction",
        "/usr/lib/postgresql/14/bin/postgres -D /var/lib/postgresql/14/main -c config_file=/etc/postgresql.conf",
        "java -Xms4g -Xmx4g -XX:+UseG1GC -Dcom.sun.management.jmxremote.authenticate=false -Djava.security.auth.login.config=/etc/jaas.conf -cp /opt/a.jar:/opt/b.jar com.example.Main --port=8080",
        "/usr/sbin/sshd -D -o PasswordAuthentication=no -o AuthorizedKeysFile=.ssh/authorized_keys",
        "sshd: joe [priv]",
        "sshd: joe@pts/0",
        "redis-server 127.0.0.1:6379",
        "redis-server *:6379 [cluster]",
        "haproxy -Ws -f /etc/haproxy/haproxy.cfg -p /run/haproxy.pid -S /run/haproxy-master.sock",
        "/usr/sbin/mysqld --defaults-file=/etc/my.cnf -P 3306 -p3306",
        "mysql -h db -P 3306 -u root -p shop",
        "envoy -c /etc/envoy.yaml --service-node a~10.0.0.1~b.c --concurrency 2",
        "etcd --name a --listen-client-urls http://10.0.0.1:2379 --auth-token-ttl 300",
        "kubelet --config=/var/lib/kubelet/config.yaml --bootstrap-kubeconfig=/etc/kubernetes/bootstrap.conf",
        "kube-apiserver --service-account-key-file=/etc/sa.pub --token-auth-file=/etc/tokens.csv --enable-bootstrap-token-auth=true",
        "docker run -p 80:80 -u 1000:1000 nginx",
        "docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 80",
        "curl -s http://127.0.0.1:8080/a?b=c&d=e http://[::1]:80/",
        "curl https://a.example/users/joe@example.org",
        "git clone ssh://git@github.com/a/b.git",
        "rsync -a joe@host:/srv/ /srv/",
        "python3 -m http.server 8000 --bind 127.0.0.1",
        "node --max-old-space-size=4096 --use-openssl-ca server.js",
        "vllm serve a --max-tokens 4096 --tokenizer b",
        "gunicorn -w 4 -b 0.0.0.0:8000 app:app",
        "memcached -m 64 -p 11211 -u memcache -l 127.0.0.1",
        "wrk -t2 -c100 -d30s http://127.0.0.1:7100/",
        "sh -c echo $PWD; exec server",
        "OLDPWD=/root PWD=/srv server",
        "server --password-file=/run/secrets/db --no-password --passthrough --bypass=10.0.0.0/8",
        "ssh -L 8080:db:5432 joe@bastion",
        "docker pull r/a:1@sha256:0123",
        "app --dsn joe@tcp(db:3306)/shop",
        "openssl s_server --psk-file a",
        "",
        "   ",
        "-",
        "--",
    ] {
        assert_eq!(line(ordinary), ordinary);
        let words: Vec<&str> = ordinary.split(' ').collect();
        assert_eq!(arguments(&words).join(" "), ordinary);
    }
}

#[test]
fn what_is_around_a_secret_stays() {
    for (with, without) in [
        (
            "server --password=a --port=80",
            "server --password=*** --port=80",
        ),
        (
            "psql postgres://joe:a@db:5432/shop",
            "psql postgres://joe:***@db:5432/shop",
        ),
        (
            "psql postgres://joe:a/b@db/shop",
            "psql postgres://joe:***@db/shop",
        ),
        (
            "git clone https://0123456789abcdef0123@git/a",
            "git clone https://***@git/a",
        ),
        (
            "app --dsn joe:a@b@tcp(db)/shop --port 80",
            "app --dsn joe:***@tcp(db)/shop --port 80",
        ),
        ("app --psk a --port 80", "app --psk *** --port 80"),
        ("mysql -uroot -pa shop", "mysql -uroot -p*** shop"),
        ("curl -u joe:a -s http://h/", "curl -u joe:*** -s http://h/"),
        ("app AKIAIOSFODNN7EXAMPLE b", "app *** b"),
        (
            "sh -c curl -H 'Cookie: a=b; c=d' http://h/",
            "sh -c curl -H 'Cookie: ***' http://h/",
        ),
    ] {
        assert_eq!(line(with), without);
    }
    let header = [
        "curl",
        "-H",
        "Authorization: Digest a=\"b\", c=\"d\"",
        "http://h/",
    ];
    let scrubbed = ["curl", "-H", "Authorization: ***", "http://h/"];
    assert_eq!(arguments(header), scrubbed);
}

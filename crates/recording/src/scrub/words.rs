//! What betrays a secret in a command line: the words of names, the options of programs, the
//! beginnings of well-known tokens. All of them in this one place.

/// Words that make what a name holds a secret: of `--db-password`, `dbPassword`, `DB_PASSWORD` the
/// words are `db` and `password`.
const SECRET: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "secrets",
    "token",
    "credential",
    "credentials",
    "cred",
    "creds",
    "authorization",
    "bearer",
    "apikey",
    "cookie",
    "sshpass",
    "requirepass",
    "masterauth",
    "masterpass",
];
/// Words that do only at a name's end: `--auth`, but not `--auth-server`.
const SECRET_LAST: &[&str] = &[
    "auth",
    "pass",
    "passw",
    "pw",
    "signature",
    "sig",
    "psk",
    "hmac",
    "mnemonic",
];
/// Ends of words that are written together: PGPASSWORD, authtoken, setcookie.
const SECRET_ENDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "cookie",
    "dbpass",
    "userpass",
    "rootpass",
    "adminpass",
    "mypass",
];
/// Words that do before `key`: `--api-key`, `aws_access_key_id`.
const SECRET_KEYS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "account",
    "shared",
    "encryption",
    "signing",
    "master",
    "license",
    "session",
    "storage",
    "auth",
    "app",
    "application",
    "hmac",
    "psk",
    "preshared",
    "jwt",
    "webhook",
];
/// Words at a name's end that make it tell of the secret, not hold it: `--password-file`.
const ABOUT: &[&str] = &[
    "file",
    "path",
    "dir",
    "directory",
    "type",
    "mode",
    "ttl",
    "timeout",
    "expiry",
    "expiration",
    "lifetime",
    "length",
    "len",
    "size",
    "count",
    "limit",
    "method",
    "policy",
    "provider",
    "algorithm",
    "enabled",
    "required",
    "prompt",
    "stdin",
    "config",
    "conf",
    "url",
    "uri",
    "endpoint",
    "host",
    "server",
    "port",
    "authentication",
    "format",
    "encoding",
    "store",
    "issuer",
    "audience",
    "header",
    "env",
    "script",
    "command",
    "class",
    "plugin",
    "module",
    "interval",
];
/// Words at a name's beginning that make it a switch or a number: `--no-password`, `--max-token`.
const SWITCH: &[&str] = &[
    "no", "max", "min", "num", "enable", "disable", "use", "without",
];

/// Headers whose value may be several words.
const HEADERS: &[&str] = &["authorization", "proxyauthorization", "cookie", "setcookie"];
/// Words before a secret in a header.
pub(super) const SCHEMES: &[&str] = &[
    "bearer",
    "basic",
    "digest",
    "token",
    "negotiate",
    "ntlm",
    "apikey",
    "aws4-hmac-sha256",
];

/// Beginnings of tokens that are secrets wherever they stand, and how long such a token is at least.
pub(super) const TOKENS: &[(&str, usize)] = &[
    ("AKIA", 20),
    ("ASIA", 20),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("ghu_", 20),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxa-", 20),
    ("sk_live_", 20),
    ("sk-", 32),
    ("rk_live_", 20),
    ("AIza", 35),
    ("eyJ", 40),
    ("hvs.", 24),
    ("npm_", 36),
    ("pypi-", 40),
    ("dop_v1_", 40),
];

/// How an option of a program gives a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    /// In the same word: `-pSECRET`.
    Attached,
    /// In the same word or in the next.
    Value,
    /// In the same word or in the next, after a name and this character: `-u NAME:SECRET`.
    After(char),
}

/// Programs with short options that give a secret.
type Program = (&'static [&'static str], &'static [(&'static str, Gives)]);
const PROGRAMS: &[Program] = &[
    (
        &[
            "mysql",
            "mysqldump",
            "mysqladmin",
            "mysqlimport",
            "mysqlcheck",
            "mysqlshow",
            "mysqlslap",
            "mysqlpump",
            "mysqlbinlog",
            "mariadb",
            "mariadb-dump",
            "mariadb-admin",
            "mariadb-backup",
            "mariabackup",
            "xtrabackup",
            "innobackupex",
            "mytop",
            "mysqlsh",
        ],
        &[("-p", Gives::Attached)],
    ),
    (
        &[
            "sshpass",
            "mongo",
            "mongosh",
            "mongodump",
            "mongorestore",
            "mongoexport",
            "mongoimport",
            "mongostat",
            "cqlsh",
        ],
        &[("-p", Gives::Value)],
    ),
    (
        &["redis-cli", "redis-benchmark", "valkey-cli", "hey"],
        &[("-a", Gives::Value)],
    ),
    (
        &["curl"],
        &[
            ("-u", Gives::After(':')),
            ("--user", Gives::After(':')),
            ("-U", Gives::After(':')),
            ("--proxy-user", Gives::After(':')),
            ("-E", Gives::After(':')),
            ("-b", Gives::Value),
        ],
    ),
    (
        &["ab"],
        &[
            ("-A", Gives::After(':')),
            ("-P", Gives::After(':')),
            ("-C", Gives::Value),
        ],
    ),
    (
        &["http", "https", "xh", "siege"],
        &[("-a", Gives::After(':'))],
    ),
    (
        &["smbclient", "rpcclient", "net"],
        &[("-U", Gives::After('%'))],
    ),
    (
        &[
            "ldapsearch",
            "ldapadd",
            "ldapmodify",
            "ldapdelete",
            "ldapwhoami",
            "ldappasswd",
        ],
        &[("-w", Gives::Value)],
    ),
    (
        &[
            "mosquitto_pub",
            "mosquitto_sub",
            "sqlcmd",
            "ipmitool",
            "zip",
            "unzip",
        ],
        &[("-P", Gives::Value)],
    ),
    (
        &["dig", "nsupdate", "kdig", "knsupdate"],
        &[("-y", Gives::After(':'))],
    ),
    (
        &["snmpwalk", "snmpget", "snmpbulkwalk"],
        &[
            ("-c", Gives::Value),
            ("-A", Gives::Value),
            ("-X", Gives::Value),
        ],
    ),
];

/// The options of a program, by the last part of its path.
pub(super) fn options(program: &str) -> Option<&'static [(&'static str, Gives)]> {
    let known = PROGRAMS.iter().find(|(names, _)| names.contains(&program));
    known.map(|(_, options)| *options)
}

/// Whether a name's value may be several words.
pub(super) fn is_header(name: &str) -> bool {
    HEADERS.contains(&words(name).concat().as_str())
}

/// Whether what a name holds is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let words = words(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return false;
    };
    if ABOUT.contains(last) || SWITCH.contains(first) {
        return false;
    }
    let key = |pair: &[&str]| pair[1] == "key" && SECRET_KEYS.contains(&pair[0]);
    let ends = |word: &&str| SECRET_ENDS.iter().any(|end| word.ends_with(end));
    words.iter().any(|word| SECRET.contains(word) || ends(word))
        || SECRET_LAST.contains(last)
        || words.windows(2).any(key)
}

/// The words of a name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    // A header that follows curl's option at once.
    for c in name.strip_prefix("-H").unwrap_or(name).chars() {
        // `dbPassword`; the digits of `password2` belong to no word.
        let begins = !c.is_ascii_alphabetic() || after_lower && c.is_ascii_uppercase();
        after_lower = c.is_ascii_lowercase();
        if begins {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_ascii_alphabetic(), words.last_mut()) {
            word.push(c.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_and_names_that_tell_of_one() {
        for name in [
            "--password",
            "-Dspring.datasource.password",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "dbPassword",
            "--db-pass",
            "--api-key",
            "API_KEY",
            "apikey",
            "aws_secret_access_key",
            "AWS_SESSION_TOKEN",
            "X-Auth-Token",
            "--auth",
            "--requirepass-secret",
            "client_secret",
            "javax.net.ssl.keyStorePassword",
            "-setcookie",
            "X-Api-Key",
            "password2",
            "SSHPASS",
            "--aws-access-key-id",
            "AccountKey",
            "--vault-token",
            "oauthToken",
            "--psk",
            "-psk",
            "--hmac",
            "--hmac-key",
            "WG_PRESHARED_KEY",
            "--jwt-key",
            "--webhook-key",
            "--mnemonic",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "",
            "--",
            "-p",
            "--password-file",
            "--token-ttl",
            "--no-password",
            "--max-token",
            "PasswordAuthentication",
            "java.security.auth.login.config",
            "--key",
            "--bypass",
            "authenticate",
            "--auth-type",
            "AuthorizedKeysFile",
            "keyspace",
            "tcp_syncookies",
            "--compass-mode",
            "max_tokens",
            "--tokenizer",
            "--secretary",
            "--use-auth",
            "--psk-file",
            "--hmac-algorithm",
            "--hmac-mode",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}

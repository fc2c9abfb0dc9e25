//! Pseudonyms for addresses and names: the same one for the same thing within a recording, others in
//! another. What TCP does shows as before; whose it was does not.
//!
//! The key comes from the boot id and the moment of the recording, which a redacted one does not hold:
//! whoever has neither the recording nor the host's boot id cannot try names until one fits.

use std::hash::Hasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{PoisonError, RwLock};

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};

use crate::Addr;
use crate::table::Unit;
use crate::{Filter, Manifest, Namespace, Prefix, Verdict};

/// Gives pseudonyms.
pub struct Redactor {
    key: (u64, u64),
    /// Names that may stand in plain words, the longest first, and their pseudonyms.
    names: RwLock<Vec<(String, String)>>,
}

impl std::fmt::Debug for Redactor {
    /// Not its key.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

/// Threads of the kernel's own, whose names tell of the kernel only.
const KERNEL: &[&str] = &[
    "swapper/",
    "ksoftirqd/",
    "kworker/",
    "migration/",
    "rcu_",
    "rcuop/",
    "irq/",
    "napi/",
    "backlog_napi/",
    "kswapd",
    "kthreadd",
    "kcompactd",
    "cpuhp/",
];

/// Files that lie everywhere, the kernel's own among them...
const EVERYWHERE: &[&str] = &["/proc", "/sys", "/etc/sysctl.d"];
/// ... but for those whose paths hold names of others.
const SOMEWHERE: &[&str] = &["/sys/fs/cgroup", "/root/", "/cwd/"];
/// What may stand before a path, and after one.
const OPENING: &[char] = &['(', '[', '"', '\'', '`', '='];
const CLOSING: &[char] = &[')', ']', '"', '\'', '`', '.', ',', ':', ';', '!', '?'];
/// Before `namespace` and a name; before `namespace` and anything else stand other words.
const BEFORE_NAMESPACE: &[&str] = &["", "of", "in", "network"];

/// Namespaces that have no name of their own.
const UNNAMED: &[&str] = &["", "host"];
/// A shorter name is found in other words too easily.
const SHORTEST: usize = 3;

impl Redactor {
    /// For a recording, with the same pseudonyms each time it is read.
    pub fn of(manifest: &Manifest) -> Redactor {
        let mut hash = SipHasher128::new();
        hash.write(manifest.host.boot_id.as_bytes());
        hash.write_u64(manifest.start_ns);
        let key = hash.finish128();
        let redactor = Redactor {
            key: (key.h1, key.h2),
            names: RwLock::default(),
        };
        redactor.know(manifest);
        redactor
    }

    /// Learns the names that the manifest tells, to find them in plain words.
    fn know(&self, manifest: &Manifest) {
        let host = &manifest.host.name;
        let mut names = vec![(host.clone(), self.pseudonym("host", host))];
        // Often the name without its domain is meant.
        if let Some((short, _)) = host.split_once('.') {
            names.push((short.into(), self.pseudonym("host", short)));
        }
        let named = manifest.namespaces.iter().map(|n| &n.name);
        names.extend(named.map(|name| (name.clone(), self.namespace(name))));
        names.retain(|(name, new)| name.len() >= SHORTEST && name != new);
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.dedup();
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// The manifest without names.
    pub(crate) fn manifest(&self, manifest: Manifest) -> Manifest {
        // While a host is recorded, namespaces come.
        self.know(&manifest);
        let mut m = manifest;
        m.redacted = true;
        m.host.name = self.pseudonym("host", &m.host.name);
        m.host.boot_id = String::new();
        m.command_line = command(&m.command_line);
        m.asked = self.filter(m.asked).unwrap_or_default();
        // They may hold any name.
        m.labels.clear();
        m.namespaces = m
            .namespaces
            .into_iter()
            .map(|Namespace { inode, name }| Namespace {
                inode,
                name: self.namespace(&name),
            })
            .collect();
        for source in &mut m.sources {
            if let Verdict::Unsupported(why) | Verdict::Failed(why) = &mut source.verdict {
                *why = self.words(why);
            }
        }
        m
    }

    /// The same question about the redacted recording; the error says what cannot be asked.
    ///
    /// # Errors
    ///
    /// What the filter names that cannot be redacted.
    pub fn filter(&self, filter: Filter) -> Result<Filter, String> {
        let one = |prefix: Prefix| {
            let new = self.prefix(prefix);
            new.ok_or("--addr: of a redacted recording, ask for a network of 16 bits or more")
        };
        Ok(Filter {
            comms: filter
                .comms
                .iter()
                .map(|c| self.text(Unit::Program, c))
                .collect(),
            addrs: filter
                .addrs
                .into_iter()
                .map(one)
                .collect::<Result<_, _>>()?,
            ..filter
        })
    }

    /// The pseudonym of a text of a column with this unit.
    pub(crate) fn text(&self, unit: Unit, text: &str) -> String {
        let is_kernel = KERNEL.iter().any(|k| text.starts_with(k));
        match unit {
            _ if text.is_empty() => String::new(),
            Unit::Program if is_kernel => text.into(),
            Unit::Program => self.pseudonym("prog", text),
            Unit::CommandLine => self.pseudonym("command", text),
            Unit::Cgroup if text == "/" => text.into(),
            Unit::Cgroup => format!("/{}", self.pseudonym("cgroup", text)),
            Unit::Host => self.pseudonym("host", text),
            // A part of the kernel has no path.
            Unit::File if !text.contains('/') => text.into(),
            Unit::File => format!("/{}", self.pseudonym("file", text)),
            Unit::Instance => self.instance(text),
            Unit::Note => self.words(text),
            _ => text.into(),
        }
    }

    fn instance(&self, text: &str) -> String {
        if text.starts_with('/') {
            return self.text(Unit::Cgroup, text);
        }
        match text.rsplit_once('/') {
            Some((comm, pid)) if pid.bytes().all(|b| b.is_ascii_digit()) => {
                format!("{}/{pid}", self.text(Unit::Program, comm))
            }
            _ => text.into(),
        }
    }

    /// The name of a namespace; `pid 7` says nothing that the rows do not.
    fn namespace(&self, name: &str) -> String {
        if UNNAMED.contains(&name) || name.starts_with("pid ") {
            name.into()
        } else {
            self.pseudonym("ns", name)
        }
    }

    /// Plain words without the paths, names and addresses in them.
    fn words(&self, text: &str) -> String {
        let mut text = self.named(text);
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        for (name, new) in &*names {
            if text.contains(name.as_str()) {
                text = text.replace(name, new);
            }
        }
        let part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(start) = rest.find(part) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c| !part(c)).unwrap_or(from.len());
            out.push_str(before);
            out.push_str(&self.address_in(&from[..end]));
            rest = &from[end..];
        }
        out + rest
    }

    /// Plain words without the paths in them, and without names of namespaces that no manifest told yet: of one that
    /// is made while a host is recorded, or that could not be visited.
    fn named(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut before, mut last) = ("", "");
        let mut words = text.split_inclusive(char::is_whitespace).peekable();
        while let Some(word) = words.next() {
            let bare = word.trim_end();
            let number = |next: &&str| next.starts_with(|c: char| c.is_ascii_digit());
            // `pid 7` says nothing that the rows do not.
            let is_pid = bare == "pid" && words.peek().is_some_and(number);
            let follows = last == "namespace" && BEFORE_NAMESPACE.contains(&before);
            out += &if follows && !is_pid {
                self.namespace_in(word)
            } else {
                self.path_in(word)
            };
            (before, last) = (last, bare);
        }
        out
    }

    /// The word with a pseudonym for the name of a namespace in it; numbers are inodes.
    fn namespace_in(&self, word: &str) -> String {
        let name = word.trim_end().trim_end_matches(CLOSING);
        if name.bytes().all(|b| b.is_ascii_digit()) {
            word.into()
        } else {
            format!("{}{}", self.namespace(name), &word[name.len()..])
        }
    }

    /// The word with a pseudonym for the path in it, the one that it has as a file of its own.
    fn path_in(&self, word: &str) -> String {
        let (before, rest) = word.split_at(word.find('/').unwrap_or(word.len()));
        let path = rest.trim_end().trim_end_matches(CLOSING);
        let is_path = (before.is_empty() || before.ends_with(OPENING)) && path.len() >= SHORTEST;
        if is_path && !is_everywhere(path) {
            let new = self.text(Unit::File, path);
            format!("{before}{new}{}", &rest[path.len()..])
        } else {
            word.into()
        }
    }

    /// The pseudonym of what is an address, a port or a full stop after it or not; else the text.
    fn address_in(&self, text: &str) -> String {
        let bare = text.trim_end_matches(['.', ':']);
        let with_port = bare.rsplit_once(':');
        let candidates = [(bare, ""), with_port.unwrap_or(("", ""))];
        for (ip, port) in candidates {
            if let Ok(ip) = ip.parse::<IpAddr>() {
                let colon = if port.is_empty() { "" } else { ":" };
                let end = &text[bare.len()..];
                return format!("{}{colon}{port}{end}", self.addr(ip.into()));
            }
        }
        text.into()
    }

    /// The pseudonym of a name, of a kind.
    fn pseudonym(&self, kind: &str, name: &str) -> String {
        if name.is_empty() || is_pseudonym(kind, name) {
            return name.into();
        }
        let mut hash = SipHasher24::new_with_keys(self.key.0, self.key.1);
        hash.write(kind.as_bytes());
        hash.write_u8(0);
        hash.write(name.as_bytes());
        format!("{kind}-{:08x}", hash.finish() as u32)
    }

    /// The pseudonym of an address: of the same family and class, and different for different ones.
    /// Addresses with a beginning in common keep one in common.
    pub(crate) fn addr(&self, addr: Addr) -> Addr {
        let class = Class::of(addr);
        if class.kept == 128 {
            return addr;
        }
        // A permutation of all addresses, walked until it comes to one of the same class, is one of
        // the class; it ends, as at last it comes back.
        let mut new = addr;
        loop {
            new = self.permute(new, class.kept);
            if Class::of(new) == class {
                return new;
            }
        }
    }

    /// Each bit after the first `kept` is turned or not, as a hash of those before it says.
    fn permute(&self, addr: Addr, kept: u32) -> Addr {
        let bits = u128::from_be_bytes(addr.0);
        let mut new = bits;
        for i in kept..128 {
            let before = bits.checked_shr(128 - i).unwrap_or(0);
            let mut hash = SipHasher24::new_with_keys(self.key.0, self.key.1);
            hash.write_u32(i);
            hash.write_u128(before);
            new ^= u128::from(hash.finish() & 1) << (127 - i);
        }
        Addr(new.to_be_bytes())
    }

    /// The pseudonym of a network; `None` when its addresses do not keep together.
    fn prefix(&self, prefix: Prefix) -> Option<Prefix> {
        let class = Class::of(prefix.addr);
        let bits = u32::from(prefix.bits);
        let v4 = if prefix.addr.ip().is_ipv4() { 96 } else { 0 };
        if bits <= v4 {
            return Some(prefix);
        }
        (bits >= class.kept.max(v4 + 16) || class.kept == 128).then(|| Prefix {
            addr: self.addr(prefix.addr),
            ..prefix
        })
    }
}

/// Whether a path tells of no host.
fn is_everywhere(path: &str) -> bool {
    let below = |dir: &&str| {
        let rest = path.strip_prefix(*dir);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    EVERYWHERE.iter().any(below) && !SOMEWHERE.iter().any(|part| path.contains(*part))
}

/// Whether this is one of ours already, as of a recording that was redacted.
fn is_pseudonym(kind: &str, name: &str) -> bool {
    let rest = name.strip_prefix(kind).and_then(|n| n.strip_prefix('-'));
    rest.is_some_and(|n| n.len() == 8 && n.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// What kind of address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    /// The bits, of 128, that make it of this kind.
    kept: u32,
    start: u128,
}

impl Class {
    fn of(addr: Addr) -> Class {
        let kept = match addr.ip() {
            IpAddr::V4(v4) => 96 + kept_v4(v4),
            IpAddr::V6(v6) => kept_v6(v6),
        };
        let all = u128::from_be_bytes(addr.0);
        Class {
            kept,
            start: all.checked_shr(128 - kept).unwrap_or(0),
        }
    }
}

/// Bits that say of which kind an IPv4 address is; all of one that says nothing of its host.
fn kept_v4(v4: Ipv4Addr) -> u32 {
    match v4.octets() {
        _ if v4.is_unspecified() || v4.is_loopback() || v4.is_broadcast() => 32,
        _ if v4.is_multicast() => 32,
        [10, ..] => 8,
        [172, 16..=31, ..] => 12,
        [100, 64..=127, ..] => 10,
        [192, 168, ..] | [169, 254, ..] => 16,
        _ => 0,
    }
}

fn kept_v6(v6: Ipv6Addr) -> u32 {
    match v6.segments() {
        _ if v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() => 128,
        // Behind it: an IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => 96,
        [0xfe80, 0, 0, 0, ..] => 64,
        [0xfe80..=0xfebf, ..] => 10,
        [0xfc00..=0xfdff, ..] => 7,
        [0x2000..=0x3fff, ..] => 3,
        _ => 0,
    }
}

/// The recorder's own command line: which options, not what was asked for.
fn command(arguments: &[String]) -> Vec<String> {
    let mut words = Vec::new();
    for (i, word) in arguments.iter().enumerate() {
        let shown = match word.split_once('=') {
            _ if i == 0 => "tcpwhy".into(),
            _ if i == 1 && word.bytes().all(|b| b.is_ascii_lowercase()) => word.clone(),
            Some((name, _)) if name.starts_with("--") => format!("{name}={HIDDEN}"),
            None if word.starts_with('-') && word.len() <= 2 => word.clone(),
            None if word.starts_with("--") => word.clone(),
            _ => HIDDEN.into(),
        };
        let is_end = shown == "--";
        words.push(shown);
        if is_end {
            words.push(HIDDEN.into());
            break;
        }
    }
    words
}

/// What stands for an argument.
const HIDDEN: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor(boot_id: &str) -> Redactor {
        Redactor::of(&manifest(boot_id))
    }

    fn manifest(boot_id: &str) -> Manifest {
        let mut manifest = Manifest::default();
        manifest.host.boot_id = boot_id.into();
        manifest.host.name = "db7.example.org".into();
        for (inode, name) in [(1, "host"), (2, "blue"), (3, "pid 77")] {
            let name = name.into();
            manifest.namespaces.push(Namespace { inode, name });
        }
        manifest
    }

    fn addr(text: &str) -> Addr {
        Addr::from(text.parse::<IpAddr>().unwrap())
    }

    proptest! {
        #[test]
        fn different_addresses_of_a_class_stay_so(
            (a, b) in prop_oneof![
                any::<(u32, u32)>().prop_map(|(a, b)| {
                    (Addr::from(Ipv4Addr::from(a)), Addr::from(Ipv4Addr::from(b)))
                }),
                any::<(u128, u128)>().prop_map(|(a, b)| (Addr(a.to_be_bytes()), Addr(b.to_be_bytes()))),
            ]
        ) {
            let redactor = redactor("a");
            let (x, y) = (redactor.addr(a), redactor.addr(b));
            prop_assert_eq!(Class::of(a), Class::of(x));
            prop_assert_eq!(a == b, x == y);
            prop_assert_eq!(a.ip().is_ipv4(), x.ip().is_ipv4());
            prop_assert_eq!(redactor.addr(a), x, "the same each time");
        }

        #[test]
        fn a_network_keeps_its_addresses(a: u32, host: u32, bits in 16..=32u8) {
            let redactor = redactor("a");
            let mask = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
            let other = Ipv4Addr::from(a & !mask | host & mask);
            let (a, other) = (Addr::from(Ipv4Addr::from(a)), Addr::from(other));
            if let Some(network) = redactor.prefix(Prefix { addr: a, bits: 96 + bits }) {
                prop_assert_eq!(
                    Class::of(a) == Class::of(other),
                    network.contains(redactor.addr(other)) && Class::of(a) == Class::of(other)
                );
            }
        }
    }

    #[test]
    fn what_tells_of_no_host_stays() {
        let redactor = redactor("a");
        for same in [
            "127.0.0.1",
            "0.0.0.0",
            "::",
            "::1",
            "224.0.0.1",
            "255.255.255.255",
            "ff02::1",
        ] {
            assert_eq!(redactor.addr(addr(same)), addr(same));
        }
        for (one, start) in [
            ("10.1.2.3", "10."),
            ("192.168.7.7", "192.168."),
            ("169.254.169.254", "169.254."),
            ("fe80::1", "fe80::"),
        ] {
            let new = redactor.addr(addr(one));
            assert!(new.to_string().starts_with(start), "{one} {new}");
            assert_ne!(new, addr(one));
        }
        let cells = [
            (Unit::Program, "ksoftirqd/1"),
            (Unit::File, "nf_tables"),
            (Unit::Instance, "eth0"),
            (Unit::Cgroup, "/"),
            (Unit::Name, "ESTABLISHED"),
            (Unit::Note, "the face of 7: dead.beef: at 12:30"),
        ];
        for (unit, text) in cells {
            assert_eq!(redactor.text(unit, text), text);
        }
    }

    #[test]
    fn names_get_pseudonyms_of_their_recording() {
        let (a, b) = (redactor("a"), redactor("b"));
        let nginx = a.text(Unit::Program, "nginx");
        assert!(nginx.starts_with("prog-") && nginx.len() <= 15, "{nginx}");
        assert_eq!(nginx, a.text(Unit::Program, "nginx"));
        assert_ne!(nginx, b.text(Unit::Program, "nginx"));
        assert_eq!(a.text(Unit::Instance, "nginx/77"), format!("{nginx}/77"));
        assert_eq!(a.text(Unit::Program, &nginx), nginx);
        let note = a.text(
            Unit::Note,
            "in blue of db7: 192.0.2.7:80 and 2001:db8::7, via db7.example.org.",
        );
        for name in ["blue", "db7", "192.0.2.7", "2001:db8", "example"] {
            assert!(!note.contains(name), "{note}");
        }
        assert!(note.contains(":80 and ") && note.contains("ns-"), "{note}");
    }

    #[test]
    fn words_hold_no_paths_and_no_names_that_came_later() {
        let redactor = redactor("a");
        let words = |text: &str| redactor.text(Unit::Note, text);
        // As it is called where it is a file of its own.
        let file = redactor.text(Unit::File, "/opt/acme/bin/x");
        assert_eq!(
            words("functions of /opt/acme/bin/x (process 7) are not named: 2 /s, 3 kB/s"),
            format!("functions of {file} (process 7) are not named: 2 /s, 3 kB/s")
        );
        assert_eq!(words("(in `/opt/acme/bin/x`)"), format!("(in `{file}`)"));
        let ns = redactor.namespace("plum");
        for said in [
            "namespace plum was made",
            "packets of namespace plum: none",
            "in network namespace plum (7)",
        ] {
            let redacted = said.replace("plum", &ns);
            assert_eq!(words(said), redacted);
            assert_eq!(words(&redacted), redacted, "once");
        }
        for same in [
            "/proc/slabinfo is not there, nor /sys/kernel/btf/vmlinux.",
            "namespace pid 77 could not be visited: the namespace is gone",
            "no namespace was visited; a PID namespace of its own; in network namespace 4026531840",
            "namespace host was made",
            "segments/s, 1/2, and/or, a / b, ::1/128",
        ] {
            assert_eq!(words(same), same);
        }
        for path in [
            "/sys/fs/cgroup/acme",
            "/proc/7/root/acme/x",
            "/procure/acme",
        ] {
            assert!(!words(path).contains("acme"), "{path}");
        }
    }

    #[test]
    fn a_manifest_keeps_no_name() {
        let mut before = manifest("5c0b");
        let asked =
            "/usr/bin/tcpwhy record --netns blue --comm=nginx -o /home/joe/x -- curl http://a";
        before.command_line = asked.split(' ').map(String::from).collect();
        let failed = Verdict::Failed("blue: no such file".into());
        before.sources = vec![crate::Source::optional(
            crate::SourceName::Ports,
            "ports",
            failed,
        )];
        let after = redactor("5c0b").manifest(before);
        let json = serde_json::to_string(&after).unwrap();
        for name in ["db7", "blue", "5c0b", "nginx", "joe", "curl", "/usr/bin"] {
            assert!(!json.contains(name), "{name}: {json}");
        }
        assert_eq!(
            after.command_line.join(" "),
            "tcpwhy record --netns *** --comm=*** -o *** -- ***"
        );
        assert!(after.redacted);
    }
}

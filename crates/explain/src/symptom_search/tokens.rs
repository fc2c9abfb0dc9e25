//! The words of a text as they are looked up: lower case, without endings, one word for what the field calls by several.

/// Words that say nothing of a symptom.
const SILENT: &[&str] = &[
    "a", "about", "after", "all", "although", "always", "am", "an", "and", "any", "are", "as",
    "at", "be", "been", "but", "by", "can", "does", "due", "even", "for", "from", "gets",
    "getting", "get", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its",
    "may", "me", "my", "no", "not", "of", "on", "only", "or", "other", "our", "over", "see",
    "seen", "so", "some", "tcp", "than", "that", "the", "their", "them", "then", "there", "they",
    "this", "through", "to", "too", "up", "very", "via", "was", "we", "were", "when", "where",
    "which", "while", "why", "will", "with", "without", "you", "your",
];

/// Several words that are one thing; in lower case, before endings are taken off.
const PHRASES: &[(&[&str], &str)] = &[
    (&["timed", "out"], "timeout"),
    (&["time", "out"], "timeout"),
    (&["times", "out"], "timeout"),
    (&["deadline", "exceeded"], "timeout"),
    (&["time", "wait"], "timewait"),
    (&["close", "wait"], "closewait"),
    (&["keep", "alive"], "keepalive"),
    (&["hang", "up"], "reset"),
    (&["hangs", "up"], "reset"),
    (&["re", "transmission"], "retransmit"),
    (&["zero", "window"], "zerowindow"),
    (&["black", "hole"], "blackhole"),
    (&["con", "track"], "conntrack"),
    (&["round", "trip"], "rtt"),
    (&["data", "centre"], "region"),
    (&["data", "center"], "region"),
    (&["long", "distance"], "distance"),
    (&["high", "latency", "link"], "distance"),
    (&["high", "latency", "network"], "distance"),
    (&["long", "path"], "distance"),
];

/// Words of the field that mean one thing, the first of each line; without endings.
const SAME: &[&[&str]] = &[
    &["s", "sec", "second"],
    &["ms", "msec", "millisecond"],
    &["min", "minute"],
    &["connect", "connection", "conn", "dial", "connecting"],
    &["timeout", "etimedout", "sockettimeoutexception"],
    &["reset", "rst", "econnreset"],
    &["refuse", "econnrefused"],
    &["retransmit", "retransmission", "retran", "resend", "resent"],
    &["loss", "lose", "lost"],
    &["drop", "discard"],
    &[
        "slow", "slower", "sluggish", "slowdown", "slowness", "degrade",
    ],
    &["delay", "latency", "lag"],
    &["spike", "peak", "outlier"],
    &["hang", "hung", "stuck", "freeze", "frozen", "stall"],
    &["throughput", "bandwidth", "speed", "rate"],
    &["distance", "region", "wan", "overseas", "continent"],
    &["mtu", "pmtu", "mss", "jumbo"],
    &[
        "vpn",
        "tunnel",
        "wireguard",
        "vxlan",
        "overlay",
        "ipsec",
        "gre",
    ],
    &["kubernetes", "k8", "pod", "kube"],
    &["container", "docker", "cgroup"],
    &[
        "dns",
        "resolver",
        "lookup",
        "resolve",
        "resolution",
        "nameserver",
        "coredns",
    ],
    &["upstream", "backend", "origin"],
    &["peer", "remote"],
    &["local", "ephemeral"],
    &["nagle", "nodelay"],
    &["tls", "ssl", "https"],
    &["throttle", "quota", "cf"],
    &["request", "query", "call"],
    &["answer", "response", "reply"],
    &["large", "big", "huge", "payload"],
    &["small", "tiny", "little"],
    &["worker", "thread"],
    &[
        "uneven",
        "imbalance",
        "unbalanced",
        "unfair",
        "skew",
        "balance",
    ],
    &[
        "intermittent",
        "sometime",
        "occasional",
        "occasionally",
        "random",
        "randomly",
        "sporadic",
        "flaky",
    ],
    &["exhaust", "exhaustion", "depletion", "run"],
    &["firewall", "iptable", "nftable", "netfilter", "ufw"],
    &["kernel", "dmesg", "syslog"],
    &["backlog", "somaxconn"],
    &["idle", "keepalive", "stale", "pause"],
    &["pool", "agent"],
    &["die", "dead", "crash", "failover", "gone", "unreachable"],
    &["load", "traffic", "busy"],
    &["conntrack", "track", "tracking"],
    &["nat", "snat", "masquerade", "dnat", "translate"],
    &["interface", "nic", "device", "card"],
    &["lb", "loadbalancer"],
    &["neighbour", "neighbor", "arp"],
    &["fd", "descriptor"],
];

/// The words of a text, in its order, as they are looked up.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let words = words(text);
    let mut tokens = Vec::new();
    let mut rest = words.as_slice();
    while let [word, after @ ..] = rest {
        let is = |phrase: &[&str]| {
            rest.len() >= phrase.len() && phrase.iter().zip(rest).all(|(p, w)| p == w)
        };
        if let Some((phrase, one)) = PHRASES.iter().find(|(phrase, _)| is(phrase)) {
            tokens.push(same(one).to_string());
            rest = &rest[phrase.len()..];
            continue;
        }
        if !SILENT.contains(&word.as_str()) {
            let stem = stem(word);
            tokens.push(same(&stem).to_string());
        }
        rest = after;
    }
    tokens
}

/// Runs of letters and runs of digits, in lower case: `40ms` is two words, as `40 ms` is.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<char> = None;
    for c in text.chars() {
        if !c.is_alphanumeric() {
            before = None;
            continue;
        }
        // A name of two words, as counters have them: ListenOverflows.
        let goes_on = before.is_some_and(|b| {
            b.is_numeric() == c.is_numeric() && !(b.is_lowercase() && c.is_uppercase())
        });
        if !goes_on {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    words
}

/// A word without its ending, so that `drops`, `dropped` and `dropping` are one.
fn stem(word: &str) -> String {
    let ending = ["ing", "ed", "es", "s"].iter().find(|ending| {
        word.strip_suffix(**ending).is_some_and(|rest| {
            let is_word =
                rest.chars().count() >= 3 && rest.contains(['a', 'e', 'i', 'o', 'u', 'y']);
            // address, less; matches but not caches
            is_word
                && (**ending != "s" || !rest.ends_with('s'))
                && (**ending != "es" || rest.ends_with(['s', 'x', 'h']))
        })
    });
    let Some(rest) = ending.and_then(|ending| word.strip_suffix(ending)) else {
        return word
            .strip_suffix('e')
            .filter(|rest| rest.len() >= 4)
            .unwrap_or(word)
            .to_string();
    };
    let mut end = rest.chars().rev();
    let doubled = match (end.next(), end.next()) {
        (Some(a), Some(b)) => a == b && !"aeioulsz".contains(a),
        _ => false,
    };
    let rest = if doubled {
        &rest[..rest.len() - 1]
    } else {
        rest
    };
    // `refused` and `refuse`, `timed` and `time`.
    rest.strip_suffix('e')
        .filter(|rest| rest.len() >= 4)
        .unwrap_or(rest)
        .to_string()
}

fn same(word: &str) -> &str {
    let group = SAME.iter().find(|group| {
        group
            .iter()
            .any(|member| *member == word || stem(member) == word)
    });
    group
        .and_then(|group| group.first())
        .copied()
        .unwrap_or(word)
}

/// Every word that stands for another, and which.
pub(super) fn synonyms() -> impl Iterator<Item = (&'static str, &'static str)> {
    SAME.iter()
        .flat_map(|group| group.iter().map(|member| (*member, group[0])))
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn one_word_for_what_is_one_thing() {
        let same = |one: &str, other: &str| {
            let sorted = |text| {
                let mut tokens = tokens(text);
                tokens.sort();
                tokens
            };
            assert_eq!(sorted(one), sorted(other));
        };
        same("40ms delay", "a latency of 40 ms");
        same("SYNs dropped", "SYN drops");
        same("connections refused", "connect: refuse");
        same("TIME_WAIT", "time-wait");
        same("the read timed out", "reading: ETIMEDOUT");
        same("ListenOverflows", "listen overflow");
        same("socket hang up", "socket: ECONNRESET");
        assert!(tokens("the of and").is_empty());
    }
}

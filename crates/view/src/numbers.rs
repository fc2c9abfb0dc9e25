//! Numbers as the columns of views show them: as short as they are exact.

use analysis::words::count;
use recording::Addr;

/// Nanoseconds as milliseconds with three decimal places.
pub(crate) fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// A rate or share with one decimal place.
pub(crate) fn tenth(value: f64) -> String {
    // Adding 0 makes a negative zero positive.
    format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0)
}

/// Whole numbers as they are, others with one decimal place.
pub(crate) fn measure(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        tenth(value)
    }
}

/// A rate, as short as its size allows.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        r if r >= 100.0 => group(r.round()),
        r if r > 0.0 => format!("{r:.1}"),
        _ => "0".into(),
    }
}

/// A whole number with thousands apart.
pub(crate) fn group(v: f64) -> String {
    count(v.clamp(0.0, 1e18) as u64)
}

/// Microseconds as milliseconds, with the digits that matter.
pub(crate) fn us_in_ms(us: f64) -> String {
    match us / 1000.0 {
        v if v >= 100.0 => format!("{v:.0} ms"),
        v if v >= 10.0 => format!("{v:.1} ms"),
        v => format!("{v:.2} ms"),
    }
}

/// How long ago, or for how long.
pub(crate) fn age(ns: u64) -> String {
    let s = ns / 1_000_000_000;
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{} min", s / 60),
        _ => format!("{} h", s / 3_600),
    }
}

/// Bits a second as people say them.
pub(crate) fn bits_per_s(rate: u64) -> String {
    match rate as f64 {
        r if r >= 1e9 => format!("{:.2}Gbit/s", r / 1e9),
        r if r >= 1e6 => format!("{:.1}Mbit/s", r / 1e6),
        r if r >= 1e3 => format!("{:.1}kbit/s", r / 1e3),
        r => format!("{r:.0}bit/s"),
    }
}

/// A measure as short as it is exact: whole numbers grouped, others with their digits.
pub(crate) fn number(v: f64) -> String {
    if v.abs() >= 1_000.0 && v.abs() < 1e15 {
        let sign = if v < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(v.abs().round() as u64));
    }
    format!("{v}")
}

/// A number for JSON: at most six decimal places.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Address and port; an IPv6 address in brackets, a port that is not known as `*`.
pub(crate) fn endpoint(addr: Addr, port: u16) -> String {
    let ip = addr.ip();
    let port = match port {
        0 => "*".to_string(),
        port => port.to_string(),
    };
    if ip.is_ipv6() {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}

/// TCP flags by name.
pub(crate) fn flags(flags: Option<u8>) -> String {
    const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let Some(flags) = flags else {
        return "-".into();
    };
    let set = NAMES
        .iter()
        .enumerate()
        .filter(|(i, _)| flags & 1 << i != 0);
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    if set.is_empty() {
        "0".into()
    } else {
        set.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact() {
        assert_eq!(ms(1_234_567), "1.234");
        assert_eq!(ms(u64::MAX), "18446744073709.551");
        assert_eq!(tenth(-0.01), "0.0");
        assert_eq!(tenth(12.25), "12.3");
        assert_eq!(flags(Some(18)), "SYN,ACK");
        let v6: std::net::IpAddr = "::1".parse().unwrap();
        assert_eq!(endpoint(v6.into(), 80), "[::1]:80");
    }
}

//! Numbers in words: one way to print counts, shares, times and rates in every sentence.

/// A count with thousands separators: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and its noun: `1 connection`, `1,200 connections`.
pub fn plural(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(n))
}

/// A share of 0..1 in per cent, never rounded to a 0 or a 100 that it is not.
pub fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p > 0.0 && p < 0.1 {
        "under 0.1 %".into()
    } else if p > 99.0 && p < 100.0 {
        format!("{:.1} %", (p * 10.0).floor() / 10.0)
    } else if p < 1.0 && p > 0.0 {
        format!("{p:.1} %")
    } else {
        format!("{p:.0} %")
    }
}

/// A number with three significant digits, thousands separated.
pub fn figure(v: f64) -> String {
    let a = v.abs();
    if !v.is_finite() {
        "?".into()
    } else if a >= 100.0 {
        let sign = if v < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(a.round() as u64))
    } else if a >= 10.0 {
        trimmed(format!("{v:.1}"))
    } else if a >= 0.1 {
        trimmed(format!("{v:.2}"))
    } else {
        trimmed(format!("{v:.3}"))
    }
}

fn trimmed(s: String) -> String {
    s.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A duration given in ns: `40 µs`, `10.4 ms`, `3.1 s`.
pub fn duration(ns: u64) -> String {
    let ns = ns as f64;
    if ns < 1e6 {
        format!("{} µs", figure(ns / 1e3))
    } else if ns < 1e9 {
        format!("{} ms", figure(ns / 1e6))
    } else {
        format!("{} s", figure(ns / 1e9))
    }
}

/// A rate in bytes per second as people compare links: `50.4 Mbit/s`.
pub fn bit_rate(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    if bits >= 1e9 {
        format!("{} Gbit/s", figure(bits / 1e9))
    } else if bits >= 1e6 {
        format!("{} Mbit/s", figure(bits / 1e6))
    } else {
        format!("{} kbit/s", figure(bits / 1e3))
    }
}

/// An amount of bytes: `812 bytes`, `12.3 MB`.
pub fn bytes(n: u64) -> String {
    let v = n as f64;
    if v >= 1e9 {
        format!("{} GB", figure(v / 1e9))
    } else if v >= 1e6 {
        format!("{} MB", figure(v / 1e6))
    } else if v >= 1e5 {
        format!("{} kB", figure(v / 1e3))
    } else {
        format!("{} bytes", count(n))
    }
}

/// A list in a sentence: `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// The first of `longest … shortest` that fits a line of 100 columns; else the last.
pub fn fitting<const N: usize>(candidates: [String; N]) -> String {
    let mut last = String::new();
    for candidate in candidates {
        last = candidate;
        if last.chars().count() <= 100 {
            break;
        }
    }
    last
}

/// A measure with four significant digits, so that JSON does not show a float's noise; 0 for
/// what is no number.
pub fn rounded(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return 0.0;
    }
    let digits = 3 - v.abs().log10().floor() as i32;
    if !(-12..=12).contains(&digits) {
        return v;
    }
    let scale = 10f64.powi(digits.abs());
    if digits >= 0 {
        (v * scale).round() / scale
    } else {
        (v / scale).round() * scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(plural(1, "SYN"), "1 SYN");
        assert_eq!(percent(0.9388), "94 %");
        assert_eq!(percent(0.9999), "99.9 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0004), "under 0.1 %");
        assert_eq!(duration(10_400_000), "10.4 ms");
        assert_eq!(duration(3_000_000_000), "3 s");
        assert_eq!(bit_rate(6_300_000.0), "50.4 Mbit/s");
        assert_eq!(rounded(51.23456), 51.23);
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert_eq!(rounded(f64::NAN), 0.0);
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}

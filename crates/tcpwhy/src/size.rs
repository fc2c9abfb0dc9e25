//! Sizes as users write them: `500M`, `2G`, `1.5GiB`, or a bare number of bytes.

/// Powers of 1,024, as `ls -h` and `du -h` have them.
const UNITS: &[(&str, f64)] = &[
    ("", 1.0),
    ("K", 1024.0),
    ("M", 1024.0 * 1024.0),
    ("G", 1024.0 * 1024.0 * 1024.0),
    ("T", 1024.0 * 1024.0 * 1024.0 * 1024.0),
];

/// Reads a size: bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a valid size; examples: 500M, 2G");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let unit = unit.trim().trim_end_matches("iB").trim_end_matches('B');
    let unit = UNITS.iter().find(|(u, _)| u.eq_ignore_ascii_case(unit));
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * unit.ok_or_else(wrong)?.1;
    if !(1.0..=1e18).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write() {
        for (text, bytes) in [
            ("4096", 4096),
            ("500M", 500 << 20),
            ("2g", 2 << 30),
            ("1.5GiB", 3 << 29),
            ("64 KB", 64 << 10),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "0", "1X", "1.2.3G", "1e30", "99999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

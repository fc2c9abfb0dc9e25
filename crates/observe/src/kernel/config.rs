//! HZ of the running kernel, from its configuration.

use std::fs;
use std::io::Read;

/// Timer ticks per second; `None` when no configuration can be read.
pub fn hz() -> Option<u32> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let text = read_gzip("/proc/config.gz")
        .or_else(|| fs::read_to_string(format!("/boot/config-{release}")).ok())
        // Where distributions have moved it to: Fedora, Debian since Linux 7.
        .or_else(|| fs::read_to_string(format!("/lib/modules/{release}/config")).ok())?;
    parse_hz(&text)
}

fn parse_hz(config: &str) -> Option<u32> {
    let line = config.lines().find_map(|l| l.strip_prefix("CONFIG_HZ="))?;
    line.trim()
        .parse()
        .ok()
        .filter(|hz| (1..=100_000).contains(hz))
}

fn read_gzip(path: &str) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_line_and_nothing_else() {
        assert_eq!(
            parse_hz("# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"),
            Some(250)
        );
        assert_eq!(parse_hz("CONFIG_HZ=0\n"), None);
        assert_eq!(parse_hz(""), None);
    }
}

//! The page as one HTML file: the template that `web/` builds, with the data filled in.

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::page::Page;
use super::verdict;
use crate::json;

/// What `make page` made of `web/`.
const TEMPLATE: &str = include_str!("page.html");
const TITLE: &str = "__TCPWHY_TITLE__";
const PLAIN: &str = "__TCPWHY_PLAIN__";
const DATA: &str = "__TCPWHY_DATA__";

/// Bytes that are compressed at a time.
const PIECE: usize = 256 << 10;

/// Writes the page; `plain` is for readers without scripts.
pub(super) fn write(page: &Page, plain: &str, out: &mut impl Write) -> io::Result<()> {
    let title = match &page.runs[..] {
        [run] => {
            let says = verdict::headed(&run.verdict.layer, &run.verdict.says);
            let (host, when) = (&run.facts.host, verdict::window(&run.facts));
            format!("{says} — {host}, {when}")
        }
        runs => {
            let of = format!("{} recordings compared", runs.len());
            match &page.comparison {
                Some(compared) => format!("{} — {of}", compared.headline),
                None => format!("tcpwhy: {of}"),
            }
        }
    };
    // The template is ours, so its markers are the only ones; what is filled in is not looked at.
    let (before, rest) = parted(TEMPLATE, TITLE)?;
    out.write_all(before.as_bytes())?;
    out.write_all(escaped(&title).as_bytes())?;
    let (before, rest) = parted(rest, PLAIN)?;
    out.write_all(before.as_bytes())?;
    out.write_all(escaped(plain).as_bytes())?;
    let (before, rest) = parted(rest, DATA)?;
    out.write_all(before.as_bytes())?;
    data(page, out)?;
    out.write_all(rest.as_bytes())
}

fn parted<'t>(template: &'t str, marker: &str) -> io::Result<(&'t str, &'t str)> {
    let parts = template.split_once(marker);
    parts.ok_or_else(|| io::Error::other(format!("the page's template lacks {marker}")))
}

/// The document, raw deflate, in base64: no character of it means anything to HTML, and no name in it hides or
/// reorders what is around it.
fn data(page: &Page, out: &mut impl Write) -> io::Result<()> {
    let mut base64 = EncoderWriter::new(&mut *out, &STANDARD);
    let deflate = DeflateEncoder::new(&mut base64, Compression::new(4));
    // The compressor copies its state for every piece, and JSON comes in pieces of some bytes.
    let mut pieces = BufWriter::with_capacity(PIECE, deflate);
    json::shown(page, &mut pieces)?;
    pieces.into_inner()?.finish()?;
    base64.finish()?;
    Ok(())
}

/// Text that HTML shows as it is.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

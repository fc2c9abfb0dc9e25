//! What a recording may hold at most: every bound in one place, kept when writing, demanded when
//! reading. A file that claims more is damaged, or was made to hurt.

use std::borrow::Cow;

/// Bytes of one text; a longer one is cut, with `…` at its end. The longest that the recorder
/// writes are symbols of templates and paths of cgroups.
pub(crate) const TEXT: usize = 1 << 10;

/// Bytes of a page once decompressed. Ours have 64 KiB and the row that did not fit any more, or a
/// dictionary of 1 MiB.
pub(crate) const PAGE: u64 = 4 << 20;
/// LZ4 makes 255 bytes of one at the most.
pub(crate) const EXPANSION: u64 = 255;
/// Bytes of the pages that are decoded at a time, one and a dictionary of each column.
pub(crate) const PAGES: u64 = 64 << 20;
/// Pages of a column that a group may have whatever its rows.
pub(crate) const PAGES_FREE: u64 = 64;
/// Beyond, a page holds so many rows on average: each takes microseconds to begin. Of ours the smallest, of texts that
/// are as long as they may be, hold 63.
pub(crate) const ROWS_PER_PAGE: u64 = 16;
/// Bytes of a page's header; one of ours has 30.
pub(crate) const PAGE_HEADER: usize = 64 << 10;

/// Bytes of a segment's footer. Of ours a group of 65,536 rows takes 5 kB.
pub(crate) const FOOTER: u64 = 1 << 20;
/// Groups of rows in a segment.
pub(crate) const GROUPS: usize = 1 << 10;
/// Rows of a group; ours have 65,536, other writers' a million.
pub(crate) const GROUP_ROWS: u64 = 1 << 20;

/// Rows that a table may have whatever the size of its files.
pub(crate) const ROWS_FREE: u64 = 1 << 18;
/// Beyond, a byte holds no more than so many: of what a host gives a row takes three bytes and more,
/// of what a model computes half a byte.
pub(crate) const ROWS_PER_BYTE: u64 = 2;

/// Segments of a table: three days of them.
pub(crate) const SEGMENTS: usize = 100_000;

/// Bytes of a manifest; a host with 10,000 namespaces has one of a megabyte.
pub(crate) const MANIFEST: u64 = 8 << 20;
/// Namespaces in a manifest.
pub(crate) const NAMESPACES: usize = 1 << 16;
/// Entries of a manifest's other lists: sources, parameters, arguments.
pub(crate) const LIST: usize = 1 << 10;

/// Files of a recording that is one file: of 15 tables a segment every 3 s for half a day.
pub(crate) const PACKED_FILES: u64 = 200_000;
/// Bytes of them: 190 million connections at 45 bytes, three hours of the busiest hosts.
pub(crate) const PACKED_BYTES: u64 = 8 << 30;
/// Of what is free on a disk, unpacking takes one part in so many: it never fills it.
pub(crate) const PACKED_SHARE: u64 = 2;
/// A file takes no less than this of a disk.
pub(crate) const BLOCK: u64 = 4 << 10;

/// A text no longer than [`TEXT`].
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{}…", cut(text, TEXT - '…'.len_utf8())))
    }
}

/// The beginning of a text, of at most so many bytes.
pub fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(text(&"x".repeat(TEXT)), "x".repeat(TEXT));
        for (what, n) in [("x", 1), ("ä", 2), ("…", 3), ("🦀", 4)] {
            let long = what.repeat(TEXT / n + 1);
            let cut = text(&long);
            assert!(cut.len() <= TEXT && cut.len() > TEXT - 8, "{what}");
            assert!(cut.ends_with('…') && long.starts_with(cut.trim_end_matches('…')));
        }
    }
}

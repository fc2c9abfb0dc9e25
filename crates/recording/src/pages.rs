//! The pages of a column: their headers are looked over before the Parquet library decodes any of
//! them, as it takes memory for whatever they claim; and the texts of a dictionary are cut.

use bytes::Bytes;
use parquet::basic::Type;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use crate::chunks::Chunks;
use crate::limits;
use crate::thrift::{Compact, Kind};

/// Bytes read to look at a header: one of ours fits.
const LOOK: usize = 128;

/// What a page's header says.
#[derive(Debug, Default)]
struct Header {
    /// Its own length, bytes.
    length: u64,
    page: i64,
    decoded: i64,
    encoded: i64,
    values: i64,
    encoding: i64,
}

/// As in parquet.thrift: PageType.
const DATA: i64 = 0;
const DICTIONARY: i64 = 2;
const DATA_V2: i64 = 3;
/// Encodings that ours and the usual writers use: PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BINARY_PACKED,
/// RLE_DICTIONARY. With those for byte arrays a page could repeat a long beginning for every row.
const ENCODINGS: &[i64] = &[0, 2, 3, 5, 8];

impl Header {
    /// Reads one; `None` when this is none, or is cut.
    fn read(bytes: &[u8]) -> Option<Header> {
        let mut compact = Compact::of(bytes);
        let mut header = Header {
            page: -1,
            decoded: -1,
            encoded: -1,
            values: -1,
            encoding: -1,
            ..Header::default()
        };
        let mut last = 0;
        while let Some(field) = compact.field(&mut last)? {
            match field {
                (1, Kind::Int) => header.page = compact.int()?,
                (2, Kind::Int) => header.decoded = compact.int()?,
                (3, Kind::Int) => header.encoded = compact.int()?,
                // The headers of data pages, of a dictionary, of data pages of version 2.
                (5 | 7, Kind::Struct) => header.kind(&mut compact, 2)?,
                (8, Kind::Struct) => header.kind(&mut compact, 4)?,
                (_, kind) => compact.skip(kind)?,
            }
        }
        header.length = compact.read() as u64;
        Some(header)
    }

    /// What the header of its kind says; the field of the encoding differs.
    fn kind(&mut self, compact: &mut Compact, encoding: i16) -> Option<()> {
        let mut last = 0;
        while let Some(field) = compact.field(&mut last)? {
            match field {
                (1, Kind::Int) => self.values = compact.int()?,
                (number, Kind::Int) if number == encoding => self.encoding = compact.int()?,
                (_, kind) => compact.skip(kind)?,
            }
        }
        Some(())
    }
}

/// Looks over the pages of some columns of a group; the error says what they claim.
pub(crate) fn check(
    chunks: &Chunks,
    group: &RowGroupMetaData,
    columns: &[usize],
) -> std::result::Result<(), String> {
    let rows = u64::try_from(group.num_rows()).map_err(|_| "fewer than no rows")?;
    if rows > limits::GROUP_ROWS {
        return Err(format!("{rows} rows in a group"));
    }
    let mut at_a_time = 0;
    for column in columns {
        let meta = group.column(*column);
        at_a_time += column_pages(chunks, meta, rows)
            .map_err(|why| format!("column {}: {why}", meta.column_path().string()))?;
    }
    if at_a_time > limits::PAGES {
        Err(format!("pages of {at_a_time} bytes at a time"))
    } else {
        Ok(())
    }
}

/// Looks over the pages of a column; gives the bytes of those that are decoded at a time.
fn column_pages(
    chunks: &Chunks,
    meta: &ColumnChunkMetaData,
    rows: u64,
) -> std::result::Result<u64, String> {
    let start = meta
        .dictionary_page_offset()
        .unwrap_or(meta.data_page_offset());
    let range = (u64::try_from(start), u64::try_from(meta.compressed_size()));
    let (Ok(start), Ok(length)) = range else {
        return Err("claims an impossible size".into());
    };
    let end = start.checked_add(length).filter(|end| *end <= chunks.len());
    let end = end.ok_or("lies beyond the end of the file")?;
    let mut at = start;
    let (mut values, mut dictionary, mut largest) = (0, 0, 0);
    let (mut pages, most_pages) = (0, limits::PAGES_FREE + rows / limits::ROWS_PER_PAGE);
    while at < end {
        pages += 1;
        if pages > most_pages {
            return Err(format!("{pages} pages or more for {rows} rows"));
        }
        let header = header(chunks, at, end).ok_or("a page without a header")?;
        let sizes = (u64::try_from(header.decoded), u64::try_from(header.encoded));
        let (Ok(decoded), Ok(encoded)) = sizes else {
            return Err("a page claims an impossible size".into());
        };
        let first = at == start;
        at = at.saturating_add(header.length).saturating_add(encoded);
        if at > end {
            return Err("a page lies beyond the end of its column".into());
        }
        // What is not compressed expands no more than what is.
        let most = encoded
            .saturating_mul(limits::EXPANSION)
            .saturating_add(LOOK as u64);
        if decoded > limits::PAGE || encoded > limits::PAGE || decoded > most {
            return Err(format!("a page of {encoded} bytes that claims {decoded}"));
        }
        let held = u64::try_from(header.values).map_err(|_| "fewer than no values")?;
        if !ENCODINGS.contains(&header.encoding) {
            return Err(format!("encoding {}, which is not read", header.encoding));
        }
        match header.page {
            DICTIONARY if first && held <= rows => dictionary = decoded + encoded,
            DICTIONARY => return Err("a dictionary that does not fit its rows".into()),
            DATA | DATA_V2 => {
                values += held;
                largest = largest.max(decoded + encoded);
            }
            other => return Err(format!("a page of type {other}")),
        }
        if values > rows {
            break;
        }
    }
    if values == rows {
        Ok(dictionary + largest)
    } else {
        Err(format!("{values} values or more for {rows} rows"))
    }
}

/// The header of the page at `at`.
fn header(chunks: &Chunks, at: u64, end: u64) -> Option<Header> {
    let left = usize::try_from(end - at).unwrap_or(usize::MAX);
    let mut near = [0; LOOK];
    let near = &mut near[..LOOK.min(left)];
    chunks.read_at(near, at).ok()?;
    Header::read(near).or_else(|| {
        // Other writers put statistics into it.
        let mut far = vec![0; limits::PAGE_HEADER.min(left)];
        chunks.read_at(&mut far, at).ok()?;
        Header::read(&far)
    })
}

/// The pages of one column of one group, as the Parquet library asks for them.
pub(crate) struct Pages(Option<Result<Box<dyn PageReader>>>);

impl Pages {
    /// Those that `reader` gives; of texts and addresses, with the dictionary cut.
    pub(crate) fn of(meta: &ColumnChunkMetaData, reader: impl PageReader + 'static) -> Pages {
        let reader: Box<dyn PageReader> = match meta.column_type() {
            Type::BYTE_ARRAY => Box::new(CutTexts(reader)),
            _ => Box::new(reader),
        };
        Pages(Some(Ok(reader)))
    }
}

impl Iterator for Pages {
    type Item = Result<Box<dyn PageReader>>;
    fn next(&mut self) -> Option<Self::Item> {
        self.0.take()
    }
}

impl PageIterator for Pages {}

/// Pages whose dictionary has no text longer than a recording may. The library copies a text for
/// each row where a page without a dictionary follows one with: thousands of whatever length it has.
struct CutTexts<R>(R);

impl<R: PageReader> PageReader for CutTexts<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.get_next_page()?.map(|page| match page {
            Page::DictionaryPage {
                buf,
                num_values,
                encoding,
                is_sorted,
            } => Page::DictionaryPage {
                buf: cut(&buf).map_or(buf, Bytes::from),
                num_values,
                encoding,
                is_sorted,
            },
            page => page,
        }))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.0.at_record_boundary()
    }
}

impl<R: PageReader> Iterator for CutTexts<R> {
    type Item = Result<Page>;
    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// A dictionary, each text with its length before it, without what a text has too much; `None` when
/// none has, or when this is no dictionary, which the library then says.
fn cut(dictionary: &[u8]) -> Option<Vec<u8>> {
    let long = |(_, text): &(usize, &[u8])| text.len() > limits::TEXT;
    let (first, _) = texts(dictionary).find(long)?;
    let mut whole = dictionary[..first].to_vec();
    for (_, text) in texts(&dictionary[first..]) {
        let short = match std::str::from_utf8(text) {
            Ok(text) => limits::text(text),
            // Addresses, which are shorter, or no text at all: the library says so.
            Err(_) => String::from_utf8_lossy(&text[..text.len().min(limits::TEXT)]),
        };
        whole.extend((short.len() as u32).to_le_bytes());
        whole.extend(short.as_bytes());
    }
    Some(whole)
}

/// The texts of a dictionary, each with where its length stands.
fn texts(dictionary: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (length, rest) = dictionary.get(at..)?.split_first_chunk()?;
        let text = rest.get(..u32::from_le_bytes(*length) as usize)?;
        let start = at;
        at += length.len() + text.len();
        Some((start, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(texts: &[&str]) -> Vec<u8> {
        let text = |t: &&str| [&(t.len() as u32).to_le_bytes(), t.as_bytes()].concat();
        texts.iter().flat_map(text).collect()
    }

    #[test]
    fn only_long_texts_are_cut() {
        let long = "x".repeat(limits::TEXT + 1);
        assert_eq!(cut(&dictionary(&["a", "", "nginx"])), None);
        assert_eq!(
            cut(&dictionary(&["a", &long, "", "b"])),
            Some(dictionary(&["a", &limits::text(&long), "", "b"]))
        );
        assert_eq!(cut(&[1, 0]), None);
    }
}

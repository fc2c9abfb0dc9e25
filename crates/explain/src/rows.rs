//! Rows of evidence as JSON has them: `table/segment#row`.

use recording::RowRef;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(rows: &[RowRef], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(rows.iter().map(RowRef::to_string))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RowRef>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let rows = texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom));
    rows.collect()
}

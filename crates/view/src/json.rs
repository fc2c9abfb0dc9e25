//! JSON lines: of explanations one object per finding, then the summary.

use std::io::{self, Write};

use explain::Explanation;
use serde::Serialize;

/// Writes one object per line: each finding (`"type":"finding"`), the worst first, and last the
/// summary (`"type":"summary"`).
pub fn explanation(explanation: &Explanation, out: &mut impl Write) -> io::Result<()> {
    lines(&explanation.findings, out)?;
    lines([&explanation.summary], out)
}

/// One object per line.
pub fn lines<T: Serialize>(
    rows: impl IntoIterator<Item = T>,
    out: &mut impl Write,
) -> io::Result<()> {
    for row in rows {
        serde_json::to_writer(&mut *out, &row)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

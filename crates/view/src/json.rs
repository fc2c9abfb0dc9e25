//! Explanations as JSON lines: one object per finding, then the summary.

use std::io::{self, Write};

use explain::Explanation;

/// Writes one object per line: each finding (`"type":"finding"`), the worst first, and last the
/// summary (`"type":"summary"`).
pub fn explanation(explanation: &Explanation, out: &mut impl Write) -> io::Result<()> {
    for finding in &explanation.findings {
        serde_json::to_writer(&mut *out, finding)?;
        out.write_all(b"\n")?;
    }
    serde_json::to_writer(&mut *out, &explanation.summary)?;
    out.write_all(b"\n")
}

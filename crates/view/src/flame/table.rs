//! Functions of a profile, and what grew, as lines.

use std::io::{self, Write};

use super::{Growth, Share};
use crate::escape;

/// One line per function: its own share, and with what it called.
pub fn text_shares(
    shares: impl Iterator<Item = Share>,
    of: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{}", escape(of))?;
    writeln!(out, "{:>8}  {:>13}  FUNCTION", "SELF(%)", "TOTAL(%)")?;
    for s in shares {
        let (own, all) = (100.0 * s.own, 100.0 * s.with_callees);
        writeln!(out, "{own:8.2}  {all:13.2}  {}", s.function)?;
    }
    Ok(())
}

/// One line per function: its own share before and after; the function that grew most is named
/// first.
pub fn text_growth(
    growth: impl Iterator<Item = Growth>,
    of: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out, "{}", escape(of))?;
    writeln!(
        out,
        "{:>8}  {:>8}  {:>8}  FUNCTION",
        "WAS(%)", "IS(%)", "GREW"
    )?;
    for g in growth {
        let (was, is, by) = (100.0 * g.was, 100.0 * g.is, 100.0 * g.by());
        // What would read 0.00 both times only called others.
        if was < 0.005 && is < 0.005 {
            continue;
        }
        writeln!(out, "{was:8.2}  {is:8.2}  {by:+8.2}  {}", g.function)?;
    }
    Ok(())
}

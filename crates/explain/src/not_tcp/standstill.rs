//! A service that answers nobody, where it may also be that nothing has happened yet that its callers wait for.

use super::{NotTcp, TimeOf};
use crate::finding::Finding;
use crate::limits;
use crate::places::hanging::MAY_WAIT;

/// That of the service on which most wait: too many for a chance, and no finding. The note that it is one has the reason.
pub(crate) fn standstill(noted: &[(Finding, String)]) -> Option<NotTcp> {
    let hangs = noted
        .iter()
        .filter(|(f, why)| why.contains(MAY_WAIT) && f.impact.affected >= limits::OFTEN.count());
    let (most, _) = hangs.max_by_key(|(f, _)| f.impact.affected)?;
    Some(NotTcp {
        whose: TimeOf::Standstill,
        share: 1.0,
        says: format!(
            "{} It hangs, or nothing happens that they wait for, as for the workers of an empty queue.",
            most.title
        ),
    })
}

//! What explain says of a recording.

use analysis::account::Service;
use serde::Serialize;

use crate::finding::Finding;
use crate::summary::Summary;

/// What a recording shows: the causes that hold, the worst first, and what was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The causes that hold, the one with the greatest impact first.
    pub findings: Vec<Finding>,
    /// Where the time of the connections to each service went, the longest waits first.
    pub account: Vec<Service>,
    /// What the recording holds and how far it can be trusted.
    pub summary: Summary,
}

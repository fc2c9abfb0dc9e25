//! Where the simulation can be watched from; watching changes nothing.

use super::cache::Cache;
use super::growth::Day;
use super::outcome::Second;
use super::path::Path;

/// What is told while it happens, in order of time, virtual ns since it is looked at.
pub(super) trait Observer {
    /// It is looked at from now on: the days until then, the table as it has become.
    fn begins(&mut self, _days: &[Day], _cache: &Cache) {}
    /// A CPU walks a chain, or reclaims, from now until then.
    fn walks(&mut self, _cpu: u32, _path: Path, _now_ns: u64, _until_ns: u64) {}
    /// A lookup ends now; it added an entry or not.
    fn looked_up(&mut self, _path: Path, _added: bool, _now_ns: u64) {}
    /// A second ends now.
    fn second(&mut self, _now_ns: u64, _second: &Second) {}
}

/// Nobody watches.
impl Observer for () {}

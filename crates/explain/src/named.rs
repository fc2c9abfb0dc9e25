//! How a service and the seconds of its account stand in a sentence.

use analysis::account::Service;
use analysis::words::duration;

/// Who asks or answers.
pub(crate) fn name(service: &Service) -> String {
    match (&service.comm, service.pid) {
        (Some(comm), Some(pid)) => {
            let home = service.home.as_ref();
            let home = home.map_or(String::new(), |home| format!(", {home}"));
            format!("{comm} (pid {pid}{home})")
        }
        _ => "a client here".into(),
    }
}

/// A time in words.
pub(crate) fn seconds(s: f64) -> String {
    duration((s.max(0.0) * 1e9) as u64)
}

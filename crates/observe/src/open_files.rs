//! Errors that come of too many open files: they name the limit, and what recording this host takes.

use crate::error::Error;
use crate::{limits, netns};

/// How the system and libbpf say that no more files may be open.
const TOO_MANY_FILES: &[&str] = &["EMFILE", "Too many open files", "(os error 24)"];

impl Error {
    /// Names the limit where the reason is that no more files may be open.
    pub(crate) fn or_files(self) -> Error {
        let is_kind = matches!(
            self,
            Error::Bpf { .. } | Error::System { .. } | Error::Recording(_) | Error::Kernel(_)
        );
        let text = self.reason();
        // libbpf goes on where a file that it only tries something with does not open, and fails later for a reason of
        // its own.
        let starved = matches!(self, Error::Bpf { .. }) && limits::files() < limits::ATTACHED;
        if !is_kind || !(starved || TOO_MANY_FILES.iter().any(|words| text.contains(words))) {
            return self;
        }
        let what = match self {
            Error::Bpf { what, .. } | Error::System { what, .. } => what,
            Error::Recording(_) => "writing the recording".into(),
            _ => "reading what the kernel says of itself".into(),
        };
        let namespaces = netns::find().len() as u64;
        Error::Files {
            what,
            may: limits::files(),
            namespaces,
            needs: limits::files_needed(namespaces),
        }
    }
}

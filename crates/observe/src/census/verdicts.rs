//! What came of counting each structure.

use std::collections::HashMap;
use std::io;

use recording::{SourceName, Verdict};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use crate::rights;

/// The verdicts so far; a structure that was counted in one namespace works.
#[derive(Default)]
pub struct Verdicts(HashMap<SourceName, Verdict>);

/// How kernels say that they do not have something.
const ABSENT: &[Errno] = &[
    Errno::NOENT,
    Errno::OPNOTSUPP,
    Errno::INVAL,
    Errno::AFNOSUPPORT,
    Errno::PROTONOSUPPORT,
];

impl Verdicts {
    /// Remembers what came of counting the structure `name`; a kernel that does not have it is
    /// `without` it so.
    pub fn note<T>(&mut self, name: &SourceName, without: &str, counted: &io::Result<T>) {
        let verdict = match counted {
            Ok(_) => Verdict::Attached,
            Err(_) if self.0.contains_key(name) => return,
            Err(e) if is_absence(e) => Verdict::Unsupported(without.into()),
            Err(e) => {
                // To refuse a question is another error than to refuse a file.
                let takes = if e.raw_os_error() == Some(Errno::PERM.raw_os_error()) {
                    CapabilitySet::NET_ADMIN
                } else {
                    CapabilitySet::DAC_READ_SEARCH
                };
                Verdict::Failed(rights::reason(e, takes))
            }
        };
        self.0.insert(name.clone(), verdict);
    }

    /// What came of it.
    pub fn of(&self, name: &SourceName) -> Verdict {
        let nowhere = || Verdict::Unsupported("no namespace was visited".into());
        self.0.get(name).cloned().unwrap_or_else(nowhere)
    }
}

fn is_absence(e: &io::Error) -> bool {
    let is = |absent: &Errno| e.raw_os_error() == Some(absent.raw_os_error());
    e.kind() == io::ErrorKind::NotFound || ABSENT.iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_said_until_it_is_there() {
        let mut verdicts = Verdicts::default();
        let failed = |kind: io::ErrorKind| -> io::Result<u64> { Err(kind.into()) };
        verdicts.note(
            &SourceName::Conntrack,
            "not loaded",
            &failed(io::ErrorKind::NotFound),
        );
        let absent = Verdict::Unsupported("not loaded".into());
        assert_eq!(verdicts.of(&SourceName::Conntrack), absent);
        let code = io::Error::from_raw_os_error(Errno::OPNOTSUPP.raw_os_error());
        verdicts.note(&SourceName::NftRules, "no", &Err::<u64, _>(code));
        assert_eq!(
            verdicts.of(&SourceName::NftRules),
            Verdict::Unsupported("no".into())
        );
        verdicts.note(&SourceName::Conntrack, "not loaded", &Ok(1));
        verdicts.note(
            &SourceName::Conntrack,
            "not loaded",
            &failed(io::ErrorKind::NotFound),
        );
        assert_eq!(verdicts.of(&SourceName::Conntrack), Verdict::Attached);
        verdicts.note(
            &SourceName::Neighbours,
            "no",
            &failed(io::ErrorKind::PermissionDenied),
        );
        assert!(matches!(
            verdicts.of(&SourceName::Neighbours),
            Verdict::Failed(_)
        ));
        assert!(matches!(
            verdicts.of(&SourceName::IpRules),
            Verdict::Unsupported(_)
        ));
    }
}

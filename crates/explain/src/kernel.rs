//! What needs a certain version of Linux, worded for the kernel that was recorded.

use analysis::Story;

/// The version of Linux with which something came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(u32, u32);

/// Linux `major`.`minor` and newer.
pub(crate) const fn linux(major: u32, minor: u32) -> Since {
    Since(major, minor)
}

impl Since {
    /// Whether the recorded host lacks it for certain.
    pub(crate) fn is_missing(self, story: &Story) -> bool {
        story.linux().is_some_and(|runs| runs < (self.0, self.1))
    }

    /// Whether it can be had, for the brackets after what is advised.
    pub(crate) fn told(self, story: &Story) -> String {
        let Since(major, minor) = self;
        match story.linux() {
            None => format!("needs Linux {major}.{minor}"),
            Some((a, b)) if self.is_missing(story) => {
                format!("needs Linux {major}.{minor}, this host runs {a}.{b}")
            }
            Some((a, b)) => format!("this kernel, {a}.{b}, has it"),
        }
    }

    /// The same for what is gone since then, or changed: `before` where that is still to come.
    pub(crate) fn gone(self, story: &Story, what: &str, before: &str) -> String {
        let Since(major, minor) = self;
        match story.linux() {
            None => format!("{what} since Linux {major}.{minor}"),
            Some((a, b)) if self.is_missing(story) => {
                format!("{before} (Linux {a}.{b}; {what} since {major}.{minor})")
            }
            Some((a, b)) => format!("{what} on this kernel ({a}.{b}; since {major}.{minor})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synth::Fixture;

    fn on(kernel: &str) -> Story {
        let mut f = Fixture::new();
        f.manifest.host.kernel = kernel.into();
        Story::read(&f.write().unwrap().recording).unwrap()
    }

    #[test]
    fn the_kernel_that_was_recorded_has_it_or_lacks_it() {
        let story = on("6.18.44-cloud-amd64");
        assert_eq!(linux(6, 8).told(&story), "this kernel, 6.18, has it");
        assert!(!linux(6, 18).is_missing(&story) && linux(6, 19).is_missing(&story));

        let story = on("6.1.0-28-amd64");
        assert_eq!(
            linux(6, 8).told(&story),
            "needs Linux 6.8, this host runs 6.1"
        );
        assert_eq!(
            linux(4, 12).gone(&story, "it is gone", "it is there"),
            "it is gone on this kernel (6.1; since 4.12)"
        );

        let story = on("4.4.0");
        assert_eq!(
            linux(4, 12).gone(&story, "it is gone", "it is there"),
            "it is there (Linux 4.4; it is gone since 4.12)"
        );
    }

    #[test]
    fn of_another_system_the_version_is_not_compared() {
        for kernel in ["", "FreeBSD 6.1-RELEASE", "SunOS 5.11"] {
            let story = on(kernel);
            assert_eq!(linux(6, 8).told(&story), "needs Linux 6.8", "{kernel}");
            assert!(!linux(6, 8).is_missing(&story));
        }
    }
}

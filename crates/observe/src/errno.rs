//! The names of error numbers, as errno(3) has them.

use recording::Text;
use syscalls::Errno;

/// Names that never leave the kernel are its own; the others are everyone's.
pub(crate) fn name(number: i64) -> Text {
    match number {
        512 => "ERESTARTSYS".into(),
        513 => "ERESTARTNOINTR".into(),
        514 => "ERESTARTNOHAND".into(),
        516 => "ERESTART_RESTARTBLOCK".into(),
        _ => {
            let known = i32::try_from(number).map(Errno::new);
            match known.ok().and_then(|errno| errno.name()) {
                Some(name) => name.into(),
                None => number.to_string().into(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_kernels_names() {
        for (number, expected) in [
            (111, "ECONNREFUSED"),
            (99, "EADDRNOTAVAIL"),
            (115, "EINPROGRESS"),
            (32, "EPIPE"),
            (512, "ERESTARTSYS"),
            (4000, "4000"),
        ] {
            assert_eq!(name(number), *expected);
        }
    }
}

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

/// What sending a packet returned: `0`, the name of an error, or how a queueing discipline dropped it.
pub(crate) fn sending(returned: i32) -> Text {
    match returned {
        // include/linux/netdevice.h; what is only congested counts as sent.
        1 => "NET_XMIT_DROP".into(),
        0.. => returned.to_string().into(),
        _ => name(-i64::from(returned)),
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

    #[test]
    fn what_sending_returned_is_an_error_or_a_drop_or_nothing() {
        for (returned, expected) in [
            (0, "0"),
            (1, "NET_XMIT_DROP"),
            (7, "7"),
            (-16, "EBUSY"),
            (-105, "ENOBUFS"),
            (i32::MIN, "2147483648"),
        ] {
            assert_eq!(sending(returned), *expected);
        }
    }
}

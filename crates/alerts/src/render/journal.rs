//! For systemd's journal: a datagram of its native protocol, and the catalogue by which `journalctl -x` explains it.

use std::fmt::Write;
use std::hash::Hash;

use explain::{Cause, Id};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::alert::Alert;

/// syslog(3): a warning, and what only informs.
const WARNING: u8 = 4;
const INFO: u8 = 6;

/// The message as journald(8) takes it at its socket: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.
pub fn datagram(alert: &Alert) -> Vec<u8> {
    let state = if alert.is_raised() {
        "raised"
    } else {
        "resolved"
    };
    let priority = if alert.is_raised() { WARNING } else { INFO };
    let confidence = alert.confidence.to_string();
    let mut out = Vec::new();
    for (name, value) in [
        ("MESSAGE", message(alert).as_str()),
        ("MESSAGE_ID", &message_id(alert.cause)),
        ("PRIORITY", &priority.to_string()),
        ("SYSLOG_IDENTIFIER", "tcpwhy"),
        ("TCPWHY_CAUSE", alert.cause.as_str()),
        ("TCPWHY_CONFIDENCE", &confidence),
        ("TCPWHY_FINGERPRINT", &alert.fingerprint),
        ("TCPWHY_FIX", &alert.fix),
        ("TCPWHY_HOME", alert.home.as_deref().unwrap_or_default()),
        ("TCPWHY_PLACE", &alert.place),
        ("TCPWHY_STATE", state),
        ("TCPWHY_TIMES", &alert.times.to_string()),
    ] {
        if !value.is_empty() {
            field(&mut out, name, value);
        }
    }
    out
}

/// One line for people.
pub fn message(alert: &Alert) -> String {
    if alert.is_raised() {
        let again = match alert.times {
            1 => String::new(),
            n => format!(" (raised {n} times)"),
        };
        format!("{} · {}{again}", alert.layer, alert.title)
    } else {
        format!("resolved: {} · {}", alert.layer, alert.title)
    }
}

/// A text with a line break is told by its length: a name from the host cannot add a field.
fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend(name.as_bytes());
    if value.contains('\n') {
        out.push(b'\n');
        out.extend((value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend(value.as_bytes());
    out.push(b'\n');
}

/// What the journal knows messages of this cause by: the same in every version.
pub fn message_id(cause: Id) -> String {
    let mut hasher = SipHasher13::new();
    "tcpwhy".hash(&mut hasher);
    cause.as_str().hash(&mut hasher);
    format!("{:032x}", hasher.finish128().as_u128())
}

/// The catalogue of all causes, for /usr/lib/systemd/catalog: the pages of the book, without their marks.
pub fn catalogue() -> String {
    let mut out = String::from("# Made from the pages of the causes; `make docs` writes it.\n");
    for cause in explain::causes() {
        entry(cause, &mut out);
    }
    out
}

fn entry(cause: &Cause, out: &mut String) {
    let (id, title) = (message_id(cause.id), cause.title);
    let page = cause.page.trim().replace(['*', '`'], "");
    let _ = write!(
        out,
        "\n-- {id}\nSubject: {title}\nDefined-By: tcpwhy\n\n@MESSAGE@\n\nWhat to do: @TCPWHY_FIX@\n\n{page}\n",
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use explain::explain;
    use synth::cases;

    use super::*;
    use crate::alert::Told;

    fn alert() -> Alert {
        let explanation = explain(&cases::syn_cookies().write().unwrap()).unwrap();
        let told = Told {
            explanation: &explanation,
            to_ns: 0,
            now_ns: 0,
        };
        Alert::new(&explanation.findings[0], told)
    }

    #[test]
    fn a_name_from_the_host_adds_no_field() {
        let alert = Alert {
            place: "x\nPRIORITY=0".into(),
            home: None,
            ..alert()
        };
        let sent = datagram(&alert);
        let place = b"TCPWHY_PLACE\n\x0c\0\0\0\0\0\0\0x\nPRIORITY=0\n";
        assert!(sent.windows(place.len()).any(|w| w == place));
        let text = String::from_utf8_lossy(&sent);
        assert!(text.contains("\nPRIORITY=4\n"), "{text}");
        assert!(!text.contains("TCPWHY_HOME"), "{text}");
        let resolved = Alert {
            state: crate::State::Resolved,
            ..alert
        };
        assert!(message(&resolved).starts_with("resolved: "));
    }

    #[test]
    fn every_cause_has_an_entry_and_no_two_one_id() {
        let ids: BTreeSet<String> = Id::OWN.iter().map(|id| message_id(*id)).collect();
        assert_eq!(ids.len(), Id::OWN.len());
        let catalogue = catalogue();
        for cause in explain::causes() {
            let entry = format!("\n-- {}\nSubject: {}\n", message_id(cause.id), cause.title);
            assert!(catalogue.contains(&entry), "{}", cause.id);
        }
        let inner = catalogue.lines().filter(|l| l.starts_with("-- ")).count();
        assert_eq!(
            inner,
            explain::causes().len(),
            "no page begins an entry of its own"
        );
    }
}

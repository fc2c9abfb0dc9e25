//! Recordings are their owner's alone, whatever the umask; a test of its own, as that is the process's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use recording::tables::Event;
use recording::{FORMAT, Manifest, Next, Window, Writer};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn directories_are_0700_and_files_0600() {
    rustix::process::umask(rustix::fs::Mode::empty());
    let dir = tempfile::tempdir().unwrap();
    let (path, window) = (dir.path().join("r.tcpwhy"), dir.path().join("w"));
    let manifest = Manifest {
        format: FORMAT,
        ..Manifest::default()
    };
    let (writer, feed) = Writer::followed(&path, &manifest).unwrap();
    let mut events = writer.table::<Event>().unwrap();
    events.push(Event::default()).unwrap();
    events.seal().unwrap();
    let mut kept = Window::of(&path);
    while let Next::Segment(segment) = feed.next(Duration::ZERO) {
        kept.add(&segment);
    }
    kept.link(0, &manifest, &window).unwrap();
    for recording in [&path, &window] {
        for (at, expected) in [
            ("", 0o700),
            ("event", 0o700),
            ("event/000001.parquet", 0o600),
            ("manifest.json", 0o600),
        ] {
            let at = recording.join(at);
            assert_eq!(mode(&at), expected, "{}", at.display());
        }
    }
    // While a segment is open, too.
    for i in 0..200_000 {
        let time_ns = i;
        events
            .push(Event {
                time_ns,
                ..Event::default()
            })
            .unwrap();
    }
    assert_eq!(mode(&path.join("event/000002.open")), 0o600);
}

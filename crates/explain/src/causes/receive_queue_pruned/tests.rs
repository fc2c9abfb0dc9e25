//! C25 is named when segments are dropped for lack of receive buffer.

use crate::Level;
use crate::causes::testing::{found, only, sysctls};
use recording::counter;
use synth::{Fixture, Flow, Listen, SERVER};

const ID: &str = "receive-queue-pruned";

fn pruned(by: &str, dropped: i64, unread: u32) -> Fixture {
    let mut f = Fixture::new();
    f.listen(Listen::default());
    f.flow(Flow {
        unread,
        window: 100_000,
        ..Flow::default()
    });
    f.raise(SERVER, counter::IN_SEGS, 20_000);
    f.raise(SERVER, by, dropped);
    f.raise(SERVER, counter::PRUNE_CALLED, 50);
    f
}

#[test]
fn a_queue_without_room() {
    for by in [
        counter::RCV_PRUNED,
        counter::TCP_RCV_Q_DROP,
        counter::TCP_OFO_DROP,
    ] {
        let f = only(&pruned(by, 100, 60_000), ID);
        assert_eq!(f.confidence.level, Level::High, "{:?}", f.confidence);
        assert_eq!((f.impact.affected, f.scope.pid), (100, Some(812)));
        assert_eq!(
            sysctls(&f),
            [(SERVER, "net.ipv4.tcp_rmem=4096 131072 25165824".to_string())]
        );
    }
    // No socket is near the limit: which of them dropped is unknown.
    let f = only(&pruned(counter::RCV_PRUNED, 100, 100), ID);
    assert_eq!(f.confidence.level, Level::Medium);
}

#[test]
fn few_or_only_copied_are_not_it() {
    assert!(found(&pruned(counter::RCV_PRUNED, 19, 60_000)).is_empty());
    assert!(found(&pruned(counter::PRUNE_CALLED, 500, 60_000)).is_empty());
    let mut share = pruned(counter::RCV_PRUNED, 100, 60_000);
    share.raise(SERVER, counter::IN_SEGS, 200_000);
    assert!(found(&share).is_empty());
}

//! What threads sleep in and on, on the running kernel.

use std::collections::HashMap;
use std::time::Duration;

use observe::Part;
use recording::tables::{Frame, Stack, Wait};
use recording::{SourceName, Verdict, Waker};
use rustix::thread::gettid;

use crate::common::{need_root, record, rows};

fn tid() -> u32 {
    gettid().as_raw_nonzero().get() as u32
}

#[test]
fn a_wait_tells_where_its_thread_slept() {
    need_root();
    let mut mine = 0;
    let (manifest, dir) = record(Part::Waits, &[], || {
        let sleeper = std::thread::spawn(|| {
            // One that is due before its thread has left the CPU makes no wait.
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(30));
            }
            tid()
        });
        mine = sleeper.join().unwrap();
    });
    let sources = manifest.sources.iter();
    let slept = sources.clone().find(|s| s.name == SourceName::WaitSlept);
    assert_eq!(slept.unwrap().verdict, Verdict::Attached);

    let frames: Vec<Frame> = rows(&dir);
    let names: HashMap<u64, &str> = frames.iter().map(|f| (f.frame, &*f.function)).collect();
    let stacks: Vec<Stack> = rows(&dir);
    let functions = |id: Option<u64>| -> Vec<&str> {
        let of = stacks.iter().filter(|s| Some(s.stack) == id);
        of.map(|s| names[&s.frame]).collect()
    };
    let waits: Vec<Wait> = rows(&dir);
    let sleeps = waits
        .iter()
        .filter(|w| w.tid == mine && w.syscall.as_deref() == Some("clock_nanosleep"));
    let mut seen = 0;
    for wait in sleeps {
        assert_eq!(wait.waker, Waker::Timer, "{wait:#?}");
        let (slept, waker) = (functions(wait.slept_stack), functions(wait.waker_stack));
        let holds = |stack: &[&str], what: &str| stack.iter().any(|f| f.contains(what));
        assert!(holds(&slept, "nanosleep"), "{slept:?}");
        assert!(holds(&waker, "hrtimer_wakeup"), "{waker:?}");
        assert!(
            !holds(&waker, "nanosleep"),
            "the waker's is its own: {waker:?}"
        );
        seen += 1;
    }
    assert!(seen > 0, "{waits:#?}");
}

//! What people read, word by word, for one finding of each kind and for none.

use explain::{Episode, Explanation, Holds, Line, explain};
use recording::tables::Health;
use recording::{HealthKind, SourceName};
use serde_json::json;
use synth::{Fixture, Listen, SERVER, cases};
use unicode_width::UnicodeWidthStr;
use view::{Style, text};

/// How the caller says where the rest is.
const MORE: &str = "Everything behind it: tcpwhy explain --full x.tcpwhy";

/// The answer and everything behind it; whatever they say, they fit.
fn report(f: &Fixture) -> String {
    let explanation = explain(&f.write().unwrap()).expect("a recording of our own reads");
    for width in [100, 80, 72, 40] {
        let style = Style {
            width,
            ..Style::default()
        };
        let answer = text::answer(&explanation, &style, MORE);
        for line in answer
            .lines()
            .chain(text::full(&explanation, &style).lines())
        {
            assert!(line.width() <= width, "over {width}: {line}");
            assert_eq!(line.trim_end(), line, "nothing trails");
        }
        if width >= 80 {
            assert!(answer.lines().count() < 24, "no screen: {answer}");
        }
    }
    let style = Style {
        width: 80,
        ..Style::default()
    };
    let answer = text::answer(&explanation, &style, MORE);
    let full = text::full(&explanation, &Style::default());
    if let Some(first) = explanation.findings.first() {
        // Whoever reads the first lines knows whose trouble it is, what is wrong and what to do.
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = format!("{} · {}", first.layer, first.title);
        assert!(flat(&answer).contains(&flat(&said)), "{answer}");
        assert!(flat(&answer).contains(&flat(&first.fix)), "{answer}");
        assert!(
            flat(&full).contains(&flat(&format!("{said} {}", first.fix))),
            "{full}"
        );
    }
    assert!(answer.ends_with(&format!("{MORE}\n")), "{answer}");
    format!("{}\n{full}", uncounted(&answer, &explanation))
}

/// Without how many causes answer what, which changes with each that is added.
fn uncounted(answer: &str, explanation: &Explanation) -> String {
    let causes = &explanation.summary.causes;
    let judged = format!("{} causes judged: ", causes.len());
    let (before, after) = answer.split_once(&judged).expect(answer);
    let end = after.find([';', '.']).expect(answer);
    let (counts, rest) = after.split_at(end);
    let of = |holds| causes.iter().filter(|a| a.answer == holds).count();
    let out = format!("{} ruled out", of(Holds::No));
    let unknown = format!("{} cannot tell", of(Holds::CannotTell));
    assert!(
        counts.contains(&out) && counts.contains(&unknown),
        "{answer}"
    );
    format!("{before}# causes judged{rest}")
}

macro_rules! golden {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(report(&cases::$name()));
        }
    )+};
}

golden!(
    accept_queue,
    stopped_worker,
    syn_queue,
    syn_cookies,
    stripped,
    refused,
    churn,
    bulk,
);

#[test]
fn a_part_of_the_time_and_a_note_are_told() {
    let written = cases::refused().write().unwrap();
    let mut explanation = explain(&written).expect("a recording of our own reads");
    let finding = &mut explanation.findings[0];
    assert!(finding.episodes.is_empty());
    finding.episodes = vec![Episode {
        from_s: 2_400.0,
        to_s: 2_640.0,
    }];
    let note = json!({
        "type": "note", "cause": "tail-loss", "number": "C18", "title": "A message waited.",
        "scope": finding.scope, "because": "it happened once",
    });
    let Ok(Line::Note(note)) = serde_json::from_value(note) else {
        panic!("it is a note");
    };
    explanation.notes.push(*note);
    let text = text::full(&explanation, &Style::default());
    assert!(
        text.contains("  during      240 s from 2,400 s after the start\n"),
        "{text}"
    );
    let noted = "NOTED, NO FINDING\n  - A message waited. (tail-loss: it happened once)\n";
    assert!(text.contains(noted), "{text}");
}

#[test]
fn nothing_found_in_a_damaged_recording_says_so_first() {
    let mut f = cases::churn();
    f.lose(SourceName::States, 4_711);
    f.without(SourceName::Counters);
    f.manifest.complete = false;
    let text = report(&f);
    let first: Vec<_> = text.lines().take(2).collect();
    assert!(first.join(" ").contains("not whole"), "{first:?}");
    assert!(text.contains("lost 4,711 records") && text.contains("refused by the kernel"));
    insta::assert_snapshot!(text);
}

#[test]
fn next_to_nothing_lost_changes_no_headline() {
    let mut f = cases::churn();
    // Of 80,000 changes of state.
    f.lose(SourceName::States, 5);
    let text = report(&f);
    assert!(
        text.starts_with("No cause found in 10 s of host db7.\n"),
        "{text}"
    );
    assert!(text.contains("; almost nothing was lost.\n"), "{text}");
    assert!(text.contains("lost 5 records and delivered "), "{text}");
}

#[test]
fn two_findings_are_both_announced_at_the_top() {
    let mut f = cases::accept_queue();
    let mut refused = cases::refused();
    f.events.extend(refused.events.drain(..).map(|mut e| {
        e.sock = e.sock.map(|s| s + (1 << 40));
        e
    }));
    let text = report(&f);
    assert!(text.starts_with("2 problems in 10 s of host "), "{text}");
    assert!(text.contains("\n  1. APPLICATION · ") && text.contains("accept queue"));
    assert!(
        text.contains("\n  2. APPLICATION · Nothing listens on 10.79.0.1:7000"),
        "{text}"
    );
    assert!(text.contains("---- 2 of 2 ----"));
}

#[test]
fn names_from_the_host_cannot_act_on_the_terminal() {
    let mut f = cases::syn_cookies();
    f.manifest.host.name = "db\x1b]0;owned\x07".into();
    for namespace in &mut f.manifest.namespaces[..2] {
        namespace.name = "x\u{202e}\x1b[31m; rm -rf /".into();
    }
    for process in &mut f.processes {
        process.comm = "evil\x1b[2J".into();
        process.cmdline = "\r\nroot@db7:~# \u{200b}".into();
    }
    let text = report_of_hostile(&f);
    let acts = |c: char| c.is_control() && c != '\n' || ('\u{200b}'..='\u{202e}').contains(&c);
    assert!(!text.chars().any(acts), "{text:?}");
    assert!(text.contains("evil\\x1b[2J"));
    // A name that a shell would act on is in no command.
    let commands = text
        .lines()
        .filter(|l| l.contains(": $ ") || l.contains("look:") || l.contains("fix: "));
    assert!(commands.clone().count() > 0 && commands.clone().all(|c| !c.contains("rm -rf")));
}

/// Without the promise about two lines: an escaped title may be longer than a line.
fn report_of_hostile(f: &Fixture) -> String {
    let explanation = explain(&f.write().unwrap()).expect("a recording of our own reads");
    text::full(&explanation, &Style::default())
}

#[test]
fn colour_is_only_where_it_is_asked_for() {
    let explanation = explain(&cases::refused().write().unwrap()).expect("it reads");
    let plain = text::full(&explanation, &Style::default());
    assert!(!plain.contains('\x1b'));
    let style = Style {
        colour: true,
        ..Style::default()
    };
    let painted = text::full(&explanation, &style);
    assert!(painted.contains('\x1b'));
    let mut bare = String::new();
    let mut inside = false;
    for c in painted.chars() {
        match (inside, c) {
            (false, '\x1b') => inside = true,
            (true, 'm') => inside = false,
            (false, c) => bare.push(c),
            (true, _) => {}
        }
    }
    assert_eq!(bare, plain, "colour changes no word and no fold");
}

#[test]
fn rows_can_be_left_out() {
    let explanation = explain(&cases::refused().write().unwrap()).expect("it reads");
    let style = Style {
        rows: false,
        ..Style::default()
    };
    assert!(!text::full(&explanation, &style).contains("event/000001#"));
}

#[test]
fn long_addresses_still_fit() {
    let mut f = Fixture::new();
    let at = "[2001:db8:1234:5678:9abc:def0:1234:5678]:50000";
    f.listen(Listen {
        at,
        backlog: 8,
        accept_queue: vec![9, 9, 9],
        drops: 40,
        held_by: vec![(4_194_304, 1, "kube-apiserver-", "S")],
        ..Listen::default()
    });
    f.count(SERVER, "TcpExt.ListenOverflows", 0, 40);
    f.count(SERVER, "TcpExt.ListenDrops", 0, 40);
    assert!(report(&f).contains(at));
}

#[test]
fn what_began_late_is_a_note_and_no_hole() {
    let mut f = cases::churn();
    let row = |what: HealthKind| Health {
        time_ns: f.manifest.start_ns,
        source: SourceName::Threads,
        what,
        count: 1,
        detail: "the account of a thread begins at its next switch".into(),
    };
    let (late, slowed, partial) = (
        row(HealthKind::Late),
        row(HealthKind::Slowed),
        row(HealthKind::Partial),
    );
    f.health = vec![late, slowed];
    let text = report(&f);
    assert_eq!(
        text.lines().next(),
        Some("No cause found in 10 s of host db7.")
    );
    assert!(
        text.contains("every source worked, nothing was lost"),
        "{text}"
    );
    assert!(
        text.contains("  note        threads: late: the account"),
        "{text}"
    );
    assert!(text.contains("  note        threads: slowed: "), "{text}");
    assert!(!text.contains("HEALTH"), "{text}");

    f.health.push(partial);
    let text = report(&f);
    assert!(
        text.lines().next().is_some_and(|l| l.contains("not whole")),
        "{text}"
    );
    assert!(text.contains("HEALTH      threads: partial: "), "{text}");
    assert!(text.contains("note        threads: late: "), "{text}");
}

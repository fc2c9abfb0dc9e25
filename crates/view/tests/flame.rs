//! Profiles: folded, drawn, compared, of recordings and of what other tools write.

use crate::common::*;
use recording::Filter;
use recording::tables::*;
use view::flame::{self, Caption, Choice, Profile};

/// The stacks 1 (kernel, in a softirq), 2 (user) and 3 (a kernel function with a name that would
/// break a graph).
fn stacks() -> Rec {
    let names = [
        (1, "tcp_v4_rcv", "kernel"),
        (2, "handle_softirqs", "kernel"),
        (3, "do_syscall_64", "kernel"),
        (4, "main", "/usr/bin/app"),
        (5, "evil;</text><script>\x1b[2J", "kernel"),
        (6, "0x1234", "/usr/bin/app"),
    ];
    let frames = names.map(|(frame, function, module)| Frame {
        time_ns: START,
        frame,
        function: function.into(),
        module: module.into(),
        offset: 0,
    });
    let stack = |stack, frames: &[u64]| {
        let frames = frames.iter().enumerate();
        let rows = frames.map(|(depth, frame)| Stack {
            time_ns: START,
            stack,
            depth: depth as u32,
            frame: *frame,
        });
        rows.collect::<Vec<_>>()
    };
    Rec::new().rows(frames).rows(
        [
            stack(1, &[1, 2, 3]),
            stack(2, &[6, 4]),
            stack(3, &[5, 3]),
            stack(4, &[3]),
        ]
        .concat(),
    )
}

fn sample(cpu: u32, pid: u32, kernel: Option<u64>, user: Option<u64>) -> Sample {
    Sample {
        time_ns: START + MS,
        cpu,
        pid,
        tid: pid,
        comm: if pid == 0 { "swapper" } else { "app" }.into(),
        softirq: kernel == Some(1),
        kernel_stack: kernel,
        user_stack: user,
    }
}

fn recorded() -> Rec {
    stacks().rows([
        sample(0, 7, Some(1), Some(2)),
        sample(0, 7, Some(1), Some(2)),
        sample(1, 7, Some(4), Some(2)),
        sample(1, 8, Some(3), None),
        sample(1, 0, None, None),
    ])
}

fn folded(profile: &Profile) -> String {
    let mut out = Vec::new();
    flame::folded(profile, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn samples_fold_by_task_user_and_kernel() {
    let rec = recorded();
    let recording = rec.open();
    let all = Profile::of(&recording, &Choice::default()).unwrap();
    assert_eq!(
        folded(&all),
        "app;do_syscall_64_[k];evil:</text><script>\\x1b[2J_[k] 1\n\
         app;main;[app];do_syscall_64_[k] 1\n\
         app;main;[app];do_syscall_64_[k];handle_softirqs_[k];tcp_v4_rcv_[k] 2\n"
    );
    assert_eq!((all.samples, all.idle, all.left_out), (5, 1, 0));
    let softirq = Choice {
        softirq: true,
        ..Choice::default()
    };
    let softirq = Profile::of(&recording, &softirq).unwrap();
    assert_eq!(
        folded(&softirq),
        "softirq;handle_softirqs_[k];tcp_v4_rcv_[k] 2\n",
        "without what it interrupted"
    );
    let chosen = Choice {
        cpus: vec![1],
        filter: Filter {
            pids: vec![8],
            ..Filter::default()
        },
        softirq: false,
    };
    assert_eq!(Profile::of(&recording, &chosen).unwrap().samples, 1);
}

#[test]
fn graphs_hold_no_markup_of_the_host() {
    let rec = recorded();
    let profile = Profile::of(&rec.open(), &Choice::default()).unwrap();
    let caption = Caption {
        title: "<b>host</b>".into(),
        subtitle: String::new(),
    };
    let mut svg = Vec::new();
    flame::graph(&profile, &caption, &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("tcp_v4_rcv") && svg.contains("handle_softirqs"));
    assert!(!svg.contains("<script>\\x1b") && !svg.contains("<b>") && !svg.contains('\x1b'));
    let mut again = Vec::new();
    flame::graph(&profile, &caption, &mut again).unwrap();
    assert_eq!(svg.as_bytes(), again, "drawn the same every time");
    let nothing = flame::graph(&Profile::default(), &caption, &mut Vec::new());
    assert!(nothing.unwrap_err().to_string().contains("nothing to draw"));
}

#[test]
fn what_grew_is_named_first() {
    let before = flame::read_foreign("a;idle_work 90\na;find 10\n".as_bytes()).unwrap();
    let after = flame::read_foreign("a;idle_work 90\na;find;walk 110\n".as_bytes()).unwrap();
    let growth = flame::growth(&before, &after);
    assert_eq!(growth[0].function, "walk");
    assert_eq!((growth[0].was, growth[0].is), (0.0, 0.55));
    assert_eq!(growth.last().unwrap().function, "idle_work");
    let mut svg = Vec::new();
    flame::difference(&before, &after, &Caption::default(), &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("walk (110 samples, 55.00%; +55.00%)"), "{svg}");
}

#[test]
fn recursion_counts_once() {
    let profile = flame::read_foreign("a;f;g;f 4\na 6\n".as_bytes()).unwrap();
    let shares = flame::shares(&profile);
    let f = shares.iter().find(|s| s.function == "f").unwrap();
    assert_eq!((f.own, f.with_callees), (0.4, 0.4));
}

const DTRACE: &str = "
              unix`bcopy+0x2a9
              ip`dce_lookup_and_add_v4+0x51
              ip`ip_input+0x1c8
               12

              ip`ip_input+0x1c8
                3
";

const PERF: &str = "\
nginx 4242 [001] 10.000001:    1003009 cpu-clock:
\tffffffff81a00010 __inet_lookup_established+0x50 ([kernel.kallsyms])
\tffffffff81a00100 tcp_v4_rcv+0x300 ([kernel.kallsyms])
\t    7f0000001000 [unknown] (/usr/sbin/nginx)

nginx 4242 [001] 10.001004:    1003009 cpu-clock:
\tffffffff81a00010 __inet_lookup_established+0x50 ([kernel.kallsyms])
\tffffffff81a00100 tcp_v4_rcv+0x300 ([kernel.kallsyms])
\t    7f0000001000 [unknown] (/usr/sbin/nginx)

";

#[test]
fn stacks_of_dtrace_and_perf_are_read() {
    let dtrace = flame::read_foreign(DTRACE.as_bytes()).unwrap();
    assert_eq!(
        folded(&dtrace),
        "ip`ip_input 3\nip`ip_input;ip`dce_lookup_and_add_v4;unix`bcopy 12\n"
    );
    let perf = flame::read_foreign(PERF.as_bytes()).unwrap();
    assert_eq!(
        folded(&perf),
        "nginx;[nginx];tcp_v4_rcv;__inet_lookup_established 2006018\n",
        "weighed by the period of each sample, ns"
    );
}

#[test]
fn what_is_no_profile_is_refused() {
    for (what, input) in [
        ("empty", &b""[..]),
        ("prose", b"# tcpwhy\n\nsays why TCP is slow\n"),
        ("binary", b"\x7fELF\x02\x01\x01\x00\xff\xfe \x00"),
        ("no count", b"a;b;c\n"),
        ("count only", b" 42\n"),
    ] {
        let refused = flame::read_foreign(input).unwrap_err().to_string();
        assert!(refused.contains("no stacks"), "{what}: {refused}");
    }
}

#[test]
fn a_graph_is_well_formed_whatever_the_names() {
    let hostile = "db\x1b[31m\u{202e}<&\"\u{fffe}\0";
    let profile = flame::read_foreign("a;evil\x07<b>;c 3\n".as_bytes()).unwrap();
    let caption = Caption {
        title: hostile.into(),
        subtitle: hostile.into(),
    };
    let mut svg = Vec::new();
    flame::graph(&profile, &caption, &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let acts = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202e}' | '\u{fffe}');
    assert_eq!(svg.chars().find(|c| acts(*c)), None);
    let mut reader = quick_xml::Reader::from_str(&svg);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => break,
            Ok(_) => {}
            Err(e) => panic!("{e}"),
        }
    }
    assert!(svg.contains("db\\x1b[31m\\u{202e}"), "{svg}");
}

#[test]
fn a_stack_of_many_frames_is_no_more_work_than_many_stacks() {
    let frames: Vec<String> = (0..100_000).map(|n| format!("f{n}")).collect();
    let deep = format!("{} 5\n", frames.join(";"));
    let profile = flame::read_foreign(deep.as_bytes()).unwrap();
    assert_eq!(flame::shares(&profile).len(), 1_025);
}

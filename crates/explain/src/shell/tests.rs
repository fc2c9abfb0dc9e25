//! What is pasted stays the command that it is shown as.

use analysis::Netns;

use crate::ShellCommand;

fn text(command: Option<ShellCommand>) -> String {
    command.expect("it can be pasted").to_string()
}

#[test]
fn words_are_quoted_where_a_shell_would_act_on_them() {
    let show = |dev: &str| shell!("tc -s qdisc show dev {dev}", dev);
    assert_eq!(text(show("eth0.5")), "tc -s qdisc show dev eth0.5");
    assert_eq!(text(show("a;reboot")), "tc -s qdisc show dev 'a;reboot'");
    assert_eq!(text(show("$(id)")), "tc -s qdisc show dev '$(id)'");
    assert_eq!(text(show("it's")), r"tc -s qdisc show dev 'it'\''s'");
    assert_eq!(text(show("")), "tc -s qdisc show dev ''");
    assert_eq!(text(show("~root")), "tc -s qdisc show dev '~root'");
}

#[test]
fn what_no_quotes_make_harmless_is_refused() {
    let show = |dev: &str| shell!("tc -s qdisc show dev {dev}", dev);
    let long = "x".repeat(300);
    for word in [
        "a\nb",
        "\u{1b}[2J",
        "\u{9b}31m",
        "--help",
        "-",
        "e\u{202e}th0",
        "étoile",
        "`id`",
        &long,
    ] {
        assert_eq!(show(word), None, "{word:?}");
    }
    // A number is no option; and what follows a name and `=` does not begin a word.
    let old = -5;
    assert_eq!(
        text(shell!("renice -n {old} -p 7", old)),
        "renice -n -5 -p 7"
    );
    let value = "-x y";
    assert_eq!(
        text(shell!("sysctl -w a.b={value}", value)),
        "sysctl -w a.b='-x y'"
    );
    // What runs is a program of our own.
    let program = "reboot";
    assert_eq!(shell!("{program} now", program), None);
    assert_eq!(shell!("true; {program}", program), None);
}

#[test]
fn a_word_leaves_the_quotes_of_its_command() {
    let (dev, port) = ("a'b;c", 80);
    assert_eq!(
        text(shell!(
            "ss -tn 'dev = {dev} and sport = :{port}' | cat",
            dev,
            port
        )),
        r"ss -tn 'dev = ''a'\''b;c'' and sport = :80' | cat"
    );
    assert_eq!(
        text(shell!("nft \"add rule x {{ dev {dev} }}\"", dev)),
        r#"nft "add rule x { dev "'a'\''b;c'" }""#
    );
}

#[test]
fn a_command_is_typed_to_act_in_its_namespace() {
    let named = |name: &str| Netns {
        name: Some(name.into()),
        ..Netns::default()
    };
    let there = |name: &str| shell!("ss -ltn")?.in_netns(&named(name));
    assert_eq!(text(there("host")), "ss -ltn");
    assert_eq!(text(there("web")), "ip netns exec web ss -ltn");
    assert_eq!(text(there("pid 7")), "nsenter -t 7 -n ss -ltn");
    assert_eq!(text(there("no; name")), "ip netns exec 'no; name' ss -ltn");
    assert_eq!(there("--all"), None);
    // What the shell does itself, it does there.
    let files = shell!("grep . /sys/class/net/*/mtu").unwrap();
    assert_eq!(
        text(files.in_netns(&named("web"))),
        "ip netns exec web sh -c 'grep . /sys/class/net/*/mtu'"
    );
}

#[test]
fn a_view_reads_what_was_kept() {
    let from = |command: Option<ShellCommand>, at| command.unwrap().from_recording(at, None);
    let wakeups = || shell!("tcpwhy trace wakeups 100ms --pid {pid}", pid = 7);
    assert_eq!(
        text(from(wakeups(), "x.tcpwhy")),
        "tcpwhy trace wakeups 100ms --pid 7 --from x.tcpwhy"
    );
    let quoted = text(from(wakeups(), "my host.tcpwhy"));
    assert!(quoted.ends_with(" --from 'my host.tcpwhy'"), "{quoted}");
    assert_eq!(from(wakeups(), "--all"), None);
    assert_eq!(
        from(
            wakeups().unwrap().from_recording("x.tcpwhy", None),
            "y.tcpwhy"
        ),
        None
    );
    // These record, or are no views.
    assert_eq!(
        from(shell!("tcpwhy explain --for 10s --port 80"), "x.tcpwhy"),
        None
    );
    assert_eq!(from(shell!("ss -tn"), "x.tcpwhy"), None);
}

#[test]
fn what_changes_something_is_known_by_its_command() {
    let changes = |command: Option<ShellCommand>| command.unwrap().changes();
    assert!(changes(shell!(
        "ss -K src {at} dst {at}",
        at = "10.0.0.1:80"
    )));
    assert!(changes(shell!(
        "ip neigh flush to {addr}",
        addr = "10.0.0.1"
    )));
    assert!(changes(shell!("kill -CONT {pid}", pid = 7)));
    assert!(!changes(shell!("ss -tn")));
    assert!(!changes(shell!("sysctl net.core.somaxconn")));
    assert!(!changes(shell!("nft list ruleset | nft -c -o -f -")));
}

use super::*;

fn planted() -> Planted {
    Planted {
        netns: ["lab-server".to_string()].into(),
        pids: [41, 42].into(),
        cgroups: vec!["/sys/fs/cgroup/lab-web".into()],
    }
}

fn may(looks: bool, command: &str) -> Result<(), String> {
    Shell::of(command)?.may_run(looks, &planted())
}

#[test]
fn what_changes_the_labs_namespaces_processes_and_cgroups_may_run() {
    for command in [
        "ip netns exec lab-server sysctl -w net.core.somaxconn=1024",
        "ip netns exec lab-server nft 'add table inet mss; add chain inet mss out { type filter hook output priority mangle; }'",
        "ip netns exec lab-server sh -c 'tc qdisc show dev eth0 | head -1; tc qdisc del dev eth0 root'",
        "nsenter -t 41 -n tc qdisc del dev eth0 root",
        "kill -CONT 41",
        "renice -n -10 -p 42",
        "prlimit --pid 42 --nofile=1024:1024",
        "for p in 41 42; do taskset --all-tasks -cp 0,1 $p; done",
        "echo '50000 100000' > /sys/fs/cgroup/lab-web/cpu.max",
    ] {
        assert_eq!(may(false, command), Ok(()), "{command}");
    }
}

#[test]
fn what_changes_anything_else_may_not() {
    for command in [
        "sysctl -w net.core.somaxconn=1024",
        "ip netns exec other sysctl -w net.core.somaxconn=1024",
        "ip netns exec lab-server sh -c 'kill -STOP 1'",
        "ip netns exec lab-server sh -c 'echo 1 > /proc/sys/kernel/panic'",
        "ip netns exec lab-server modprobe sch_fq_codel",
        "nsenter -t 1 -n tc qdisc del dev eth0 root",
        "kill -CONT 1",
        "kill -CONT 41; kill -STOP 1",
        "for p in 41 1; do taskset --all-tasks -cp 0,1 $p; done",
        "taskset -cp 0 $p",
        "echo '50000 100000' > /sys/fs/cgroup/cpu.max",
        "echo 1 > /etc/passwd",
        "echo $(reboot)",
        "ip netns exec lab-server sysctl \"$(reboot)\"",
        "rm -r /",
    ] {
        assert!(may(false, command).is_err(), "{command}");
    }
}

#[test]
fn what_is_said_to_look_has_to_only_read() {
    for command in [
        "ss -ltn 'sport = :80'",
        "ip netns exec lab-server tc -s qdisc show dev eth0",
        "ip route get 10.0.0.1",
        "bpftool cgroup tree",
        "nft list ruleset | grep -n 'tcp option'; iptables-save | grep TCPOPTSTRIP",
        "ip netns exec lab-server sh -c 'nft list ruleset | nft -c -o -f -'",
        "ip netns exec lab-server tcpdump -nvi any 'port 7000 and tcp[13] & 2 != 0'",
        "sysctl net.ipv4.tcp_ehash_entries",
        "tr '\\0' ' ' < /proc/41/cmdline",
        "tcpwhy record --with profile --for 10s -o cpu.tcpwhy && tcpwhy flame cpu.tcpwhy --pid 41",
        "ls -l /proc/41/fd | awk '{print $NF}' | sort | uniq -c",
    ] {
        assert_eq!(may(true, command), Ok(()), "{command}");
    }
    for command in [
        "sysctl -w net.core.somaxconn=1024",
        "ip netns exec lab-server sysctl -w net.core.somaxconn=1024",
        "kill -CONT 41",
        "ss -K dst 10.0.0.1",
        "ip neigh flush all",
        "ls > /etc/passwd",
        "nft -f /etc/nftables.conf",
        "bpftool prog load x.o /sys/fs/bpf/x",
        "unheard-of --show",
    ] {
        assert!(may(true, command).is_err(), "{command}");
    }
}

#[test]
fn a_live_view_is_stopped_and_one_of_a_recording_ends() {
    let stops = |command| until_stopped(&Shell::of(command).unwrap());
    assert!(stops("tcpwhy trace wakeups 100ms --pid 4"));
    assert!(!stops("tcpwhy trace wakeups 100ms --from x.tcpwhy"));
    assert!(!stops("ss -tn"));
}

#[test]
fn only_what_is_known_to_answer_so_may_fail() {
    let answer = |command, rc| is_answer(&Shell::of(command).unwrap(), rc).is_some();
    assert!(answer("ip netns exec lab-server ping -c 3 10.0.0.1", 1));
    assert!(!answer("ping -c 3 10.0.0.1", 2));
    assert!(answer("ip netns exec lab-server ip route get 10.0.0.1", 2));
    assert!(!answer("tc qdisc add dev eth0 parent 1: fq_codel", 2));
}

#[test]
fn an_undo_in_words_is_no_command() {
    assert!(is_command_like("kill -STOP 4", "kill -CONT 4"));
    assert!(!is_command_like(
        "note first what it shows",
        "sysctl -w a.b=1"
    ));
}

//! The CPU profile of the live host: what burns CPU is named, in the kernel and in programs.

use std::fs;
use std::hint::black_box;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use crate::common::live::Space;
use crate::common::{begin, finish, need_root, rows, stacks, wait_until};
use recording::Recording;
use recording::tables::Sample;

/// No calls in its inner loop: unoptimised code has some without a frame of their own.
#[inline(never)]
fn burns_cpu_in_a_function_of_its_own(stop: &AtomicBool) -> u64 {
    let mut n = 1u64;
    while !stop.load(Ordering::Relaxed) {
        let mut i = 0;
        while i < 1_000_000 {
            n ^= n >> 7;
            n ^= n << 9;
            i += 1;
        }
    }
    n
}

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that is in the kernel most of the time.
fn in_the_kernel(dd: &[&str]) -> Running {
    let mut command = Command::new(dd[0]);
    command.args(&dd[1..]);
    command.args(["if=/dev/zero", "of=/dev/null", "bs=4M"]);
    Running(command.stderr(Stdio::null()).spawn().unwrap())
}

/// CPU time that the threads of a process have had, ns.
fn cpu_ns(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: PathBuf| -> Option<u64> {
        let text = fs::read_to_string(thread.join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    threads.filter_map(|thread| of(thread.ok()?.path())).sum()
}

#[test]
fn what_burns_cpu_is_named() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let stop = Arc::new(AtomicBool::new(false));
    let burning = {
        let stop = stop.clone();
        thread::spawn(move || black_box(burns_cpu_in_a_function_of_its_own(&stop)))
    };
    let kernel = in_the_kernel(&["dd"]);
    let child = begin(&path, &["--with", "profile", "--profile-hz", "997"]);
    // On a host of others' the CPU has to be waited for; and idle CPUs want a second, too.
    sleep(Duration::from_secs(1));
    for pid in [std::process::id(), kernel.0.id()] {
        let begun = cpu_ns(pid);
        wait_until("it has had half a second of CPU time", || {
            cpu_ns(pid) - begun > 500_000_000
        });
    }
    finish(child);
    stop.store(true, Ordering::Relaxed);
    burning.join().unwrap();

    let samples: Vec<Sample> = rows(&path);
    let stacks = stacks(&path);
    let manifest = Recording::open(&path).unwrap().manifest;
    let profile = manifest
        .sources
        .iter()
        .find(|s| s.name.as_str() == "profile");
    assert_eq!(profile.map(|s| s.lost), Some(0));
    let ours = |s: &&Sample| s.pid == std::process::id() && s.user_stack.is_some();
    let ours: Vec<_> = samples.iter().filter(ours).collect();
    assert!(ours.len() > 100, "{} samples of this process", ours.len());
    let named = ours.iter().filter(|s| {
        let stack = &stacks[&s.user_stack.unwrap()];
        stack
            .iter()
            .any(|f| f.contains("burns_cpu_in_a_function_of_its_own"))
    });
    let named = named.count();
    assert!(named * 10 > ours.len() * 8, "{named} of {}", ours.len());
    let in_kernel = |s: &&Sample| s.pid == kernel.0.id() && s.kernel_stack.is_some();
    let in_kernel: Vec<_> = samples.iter().filter(in_kernel).collect();
    assert!(
        in_kernel.len() > 50,
        "{} samples of dd in the kernel",
        in_kernel.len()
    );
    let read_zero = in_kernel.iter().filter(|s| {
        let stack = &stacks[&s.kernel_stack.unwrap()];
        stack.iter().any(|f| f.contains("read")) && stack.iter().any(|f| f == "do_syscall_64")
    });
    assert!(read_zero.count() * 10 > in_kernel.len() * 5);
    // 997 a second and CPU, whatever the CPU does; a busy host may be late.
    let seconds = (manifest.end_ns - manifest.start_ns) as f64 / 1e9;
    for cpu in 0..manifest.host.cpus {
        let n = samples.iter().filter(|s| s.cpu == cpu).count() as f64;
        assert!(
            n < 1100.0 * seconds && n > 300.0,
            "CPU {cpu}: {n} samples in {seconds} s"
        );
    }
}

#[test]
fn the_kernel_alone_and_one_cpu_alone() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    // In the kernel and on that CPU: a busy CPU whose programs are all in user mode has no sample.
    let kernel = in_the_kernel(&["taskset", "-c", "0", "dd"]);
    let with = ["--with", "profile", "--kernel-only", "--profile-cpus", "0"];
    let child = begin(&path, &with);
    let begun = cpu_ns(kernel.0.id());
    wait_until("it has had half a second of CPU time", || {
        cpu_ns(kernel.0.id()) - begun > 500_000_000
    });
    finish(child);
    let samples: Vec<Sample> = rows(&path);
    assert!(samples.iter().any(|s| s.pid == kernel.0.id()));
    assert!(samples.iter().all(|s| s.cpu == 0 && s.user_stack.is_none()));
    assert!(
        samples
            .iter()
            .all(|s| s.pid == 0 || s.kernel_stack.is_some())
    );
}

#[test]
fn of_tasks_of_other_namespaces_only_the_softirqs_are_sampled() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let netns = Space::new("profiled");
    let with = ["--with", "profile", "--profile-hz", "997"];
    let child = begin(&path, &[&with[..], &["--netns", netns.name()]].concat());
    // Each packet over loopback is received in a softirq on the time of who sends it.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap();
    let me = std::process::id();
    let begun = cpu_ns(me);
    wait_until("a second of CPU time went into packets", || {
        for _ in 0..10_000 {
            // What finds no room is dropped: it was received all the same.
            let _ = socket.send_to(&[0; 100], to);
        }
        cpu_ns(me) - begun > 1_000_000_000
    });
    finish(child);
    let samples: Vec<Sample> = rows(&path);
    assert!(samples.iter().all(|s| s.pid != me && s.tid != me));
    let outside = |s: &&Sample| s.comm == "softirq";
    let outside: Vec<_> = samples.iter().filter(outside).collect();
    assert!(outside.len() > 20, "{} samples", outside.len());
    let nobodys = |s: &&Sample| s.softirq && s.pid == 0 && s.user_stack.is_none();
    assert!(outside.iter().all(nobodys));
}

#[test]
fn a_cpu_that_is_not_there_is_said() {
    need_root();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.tcpwhy");
    let path = crate::common::arg(&path);
    let with = [
        "record",
        "-o",
        path,
        "--with",
        "profile",
        "--profile-cpus",
        "4095",
    ];
    let output = crate::common::run(&with);
    let error = crate::common::stderr(&output);
    assert!(
        !output.status.success() && error.contains("CPU 4095 is not online"),
        "{error}"
    );
}

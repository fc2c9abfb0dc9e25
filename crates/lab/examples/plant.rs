//! Plants a scenario, runs its load and prints what the kernel itself says, without tcpwhy:
//! `cargo run -p lab --example plant -- NAME [SEED]`. For whoever writes scenarios.

use std::process::Command;

use lab::{Error, Plant, Programs, Scenario, Stop};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let name = args.next().ok_or("which scenario?")?;
    let seed = args.next().map_or(Ok(1), |s| s.parse())?;
    Ok(plant(&name, seed)?)
}

fn plant(name: &str, seed: u64) -> Result<(), Error> {
    let stop = Stop::on_signals()?;
    let mut programs = Programs::current()?;
    // Beside this example: target/debug/examples/plant, target/debug/lab-workload.
    let me = std::env::current_exe().expect("this program has a path");
    let here = me.ancestors().nth(2).expect("cargo made the directory");
    programs.workload = vec![here.join("lab-workload").into()];
    let mut plant = Plant::new(Scenario::load(name, seed)?, seed, programs)?;
    plant.wait_joined(&stop)?;
    plant.start_servers(&stop)?;
    for node in plant.nodes().values() {
        nstat(node.name(), true);
    }
    // What the sockets look like in the middle of it.
    let names: Vec<String> = plant
        .nodes()
        .values()
        .map(|n| n.name().to_string())
        .collect();
    let sockets = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(2500));
        names.iter().map(|n| (n.clone(), ss(n))).collect::<Vec<_>>()
    });
    for report in plant.run_clients(&stop)?.clients {
        println!(
            "{}",
            serde_json::to_string(&report).expect("a report is JSON")
        );
    }
    for (node, text) in sockets.join().expect("ss does not panic") {
        println!("--- {node}: ss\n{text}");
    }
    for report in plant.stop_servers(&stop)? {
        println!(
            "{}",
            serde_json::to_string(&report).expect("a report is JSON")
        );
    }
    for (name, node) in plant.nodes() {
        println!("--- {name}: nstat\n{}", nstat(node.name(), false));
    }
    for (between, counters) in plant.link_counters() {
        println!("--- link {between:?}: {counters:?}");
    }
    Ok(())
}

/// The counters that moved since the last call.
fn nstat(netns: &str, first: bool) -> String {
    let history = std::env::temp_dir().join(format!("{netns}.nstat"));
    let output = Command::new("ip")
        .args(["netns", "exec", netns, "nstat"])
        .env("NSTAT_HISTORY", &history)
        .output();
    if !first {
        let _ = std::fs::remove_file(&history);
    }
    output.map_or_else(
        |e| e.to_string(),
        |o| String::from_utf8_lossy(&o.stdout).into_owned(),
    )
}

fn ss(netns: &str) -> String {
    Command::new("ip")
        .args(["netns", "exec", netns, "ss", "-tioneHOm"])
        .output()
        .map_or_else(
            |e| e.to_string(),
            |o| String::from_utf8_lossy(&o.stdout).into_owned(),
        )
}

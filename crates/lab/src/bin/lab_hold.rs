//! Plants a scenario from a file, starts its servers and holds both until it is told to stop, so
//! that one can look around in the namespaces: `cargo run -p lab --bin lab-hold -- FILE.toml`.

use std::path::{Path, PathBuf};

use lab::{Error, Plant, Programs, Scenario, Stop};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("which scenario's file?")?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    match hold(&text, Path::new(&file)) {
        // Asked to: that is how this ends.
        Err(Error::Interrupted) => Ok(()),
        other => Ok(other?),
    }
}

fn hold(text: &str, file: &Path) -> Result<(), Error> {
    let stop = Stop::on_signals()?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let scenario = Scenario::parse(&name, text, 1)?;
    let servers: Vec<String> = scenario.servers.iter().map(|s| s.name.clone()).collect();
    let mut programs = Programs::current()?;
    // This program has no verb for it: the workload lies beside.
    programs.workload = vec![
        PathBuf::from(&programs.workload[0])
            .with_file_name("lab-workload")
            .into(),
    ];
    let mut plant = Plant::new(scenario, 1, programs)?;
    plant.wait_joined(&stop)?;
    plant.start_servers(&stop)?;
    for pid in servers.iter().filter_map(|name| plant.server_pid(name)) {
        println!("pid {pid}");
    }
    for node in plant.nodes().values() {
        println!("netns {}", node.name());
    }
    println!("held");
    while !stop.is_set() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(())
}

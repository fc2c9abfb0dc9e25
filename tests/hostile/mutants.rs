//! A slice of the campaign of spoiled recordings: `make test-hostile` runs thousands.

use std::path::Path;
use std::process::Command;

#[test]
fn mutants_are_read_or_refused() {
    let hostile = env!("CARGO_BIN_EXE_hostile");
    let tcpwhy = Path::new(hostile).with_file_name("tcpwhy");
    assert!(tcpwhy.is_file(), "first: cargo build --workspace --bins");
    // Few rows and much time: this is a build without optimisation, perhaps on a loaded machine.
    let output = Command::new(hostile)
        .args([
            "run", "-n", "40", "--seed", "1", "--rows", "20000", "--time", "120",
        ])
        .arg("--tcpwhy")
        .arg(tcpwhy)
        .output()
        .unwrap();
    let (table, complaint) = (&output.stdout, &output.stderr);
    let table = String::from_utf8_lossy(table) + String::from_utf8_lossy(complaint);
    assert!(output.status.success(), "{table}");
    // Each mutant was read by two verbs; nearly all could be made.
    let all = table.lines().find(|l| l.starts_with("all")).unwrap();
    let runs: u32 = all.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((72..=80).contains(&runs), "{table}");
}

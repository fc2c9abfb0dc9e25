//! Builds the report's page from `web/` into one HTML file, which the library holds.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the page is made of, within `web/`.
const SOURCES: &[&str] = &[
    "src",
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
];

fn main() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", web.join(source).display());
    }
    let out = env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.expect("cargo names a directory").join("web");
    if !is_installed(&web) {
        npm(&web, &["ci", "--no-audit", "--no-fund"]);
    }
    let dir = out.to_string_lossy();
    npm(
        &web,
        &["run", "build", "--", "--outDir", &dir, "--emptyOutDir"],
    );
}

/// Whether what the lock file asks for is there.
fn is_installed(web: &Path) -> bool {
    let written = |path: &str| web.join(path).metadata()?.modified();
    // npm keeps its own copy of the lock file beside what it installed.
    match (
        written("package-lock.json"),
        written("node_modules/.package-lock.json"),
    ) {
        (Ok(asked), Ok(installed)) => installed >= asked,
        (Err(_), Ok(_)) => true,
        _ => false,
    }
}

/// Runs npm; without it there is no page, and what to do about that is one line.
fn npm(web: &Path, args: &[&str]) {
    let run = Command::new("npm").args(args).current_dir(web).output();
    let output = match run {
        Ok(output) => output,
        Err(e) => panic!(
            "view: building the report's page needs npm ({e}): make build installs it, or apt-get \
             install npm"
        ),
    };
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        panic!(
            "view: building the report's page failed: npm {}: {}",
            args.join(" "),
            said.trim()
        );
    }
}

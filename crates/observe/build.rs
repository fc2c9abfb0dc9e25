//! Compiles the BPF programs and generates their skeletons.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        Ok(other) => panic!("no BPF register names for {other}"),
        Err(e) => panic!("cargo sets CARGO_CFG_TARGET_ARCH: {e}"),
    };
    println!("cargo:rerun-if-changed=bpf");
    for name in [
        "events",
        "sockets",
        "holders",
        "owners",
        "census",
        "calls",
        "packets",
        "tasks",
        "profile",
        "requests",
        "heartbeats",
        "files",
    ] {
        let source = root.join("bpf").join(format!("{name}.bpf.c"));
        let built = SkeletonBuilder::new()
            .source(&source)
            .clang_args([
                format!("-D__TARGET_ARCH_{arch}"),
                // Compare and swap; every kernel that we know runs what comes with it.
                "-mcpu=v3".into(),
                "-Wall".into(),
                "-Werror".into(),
                "-Wno-unused-function".into(),
                // .BTF.ext holds source paths: keep this machine's out of the binary.
                format!("-ffile-prefix-map={}=.", root.display()),
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(e) = built {
            panic!(
                "{}: {e:?}\nclang 14 or newer is needed: apt-get install clang",
                source.display()
            );
        }
    }
}

//! Compiles the program that makes clients old; `tc` loads it as it is.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let var = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let (root, out) = (var("CARGO_MANIFEST_DIR"), var("OUT_DIR"));
    println!("cargo:rerun-if-changed=bpf");
    let source = root.join("bpf/old_client.bpf.c");
    let built = SkeletonBuilder::new()
        .source(&source)
        .obj(out.join("old_client.bpf.o"))
        .clang_args([
            "-Wall".into(),
            "-Werror".into(),
            // .BTF.ext holds source paths: keep this machine's out of the binary.
            format!("-ffile-prefix-map={}=.", root.display()),
        ])
        .build();
    if let Err(e) = built {
        panic!(
            "{}: {e:?}\nclang 14 or newer is needed: apt-get install clang",
            source.display()
        );
    }
}

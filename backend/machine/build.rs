//! Records the compiler, which every row names.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(&rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "rustc of unknown version".into());
    println!("cargo::rustc-env=GABION_COMPILER={}", version.trim());
    println!("cargo::rerun-if-changed=build.rs");
}

//! Records the compiler for the machine description that both harnesses share.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let version = version.unwrap_or_else(|_| "rustc of unknown version".to_owned());
    println!("cargo::rustc-env=GABION_COMPILER={version}");
    println!("cargo::rerun-if-changed=build.rs");
}

//! Compiles the heap probe, which is embedded.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

fn main() {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    println!("cargo::rerun-if-changed=build.rs");
    compile_probe(&rustc);
}

/// Compiles src/memory/probe.rs into `OUT_DIR`/heap-probe.so: a separate library, since it has to
/// be preloaded.
fn compile_probe(rustc: &OsString) {
    let source = "src/memory/probe.rs";
    println!("cargo::rerun-if-changed={source}");
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    let mut command = Command::new(rustc);
    command.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=gabion_heap_probe"]);
    command.args(["-Copt-level=2", "-Cpanic=abort", "-Cstrip=symbols", "-Dwarnings"]);
    if let Ok(target) = env::var("TARGET") {
        command.args(["--target", &target]);
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        command.arg(format!("-Clinker={linker}"));
    }
    command.arg(source).arg("-o").arg(Path::new(&folder).join("heap-probe.so"));
    let ended = command.status();
    assert!(
        ended.as_ref().is_ok_and(|status| status.success()),
        "{source} did not compile: {ended:?}"
    );
}

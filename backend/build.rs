//! With `--cfg emulated_lanes`, the kernels that need AVX-512 or the SHA extensions as text for the
//! emulated instruction set (`src/emulation/mod.rs` says which words change). Otherwise nothing.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Rewrites a kernel's text for the emulation. The rest of each file stays as it is.
fn to_emulation(text: &str) -> String {
    let mut text = text
        .replace("core::arch::x86_64::", "crate::emulation::")
        .replace("core::arch::asm", "crate::emulation::asm")
        .replace("\"avx512\"\n", "\"avx512-emulated\"\n");
    // Neither kind has brackets inside.
    for (begin, end, instead) in
        [("#[target_feature(", "]", ""), ("is_x86_feature_detected!(", ")", "true")]
    {
        while let Some(at) = text.find(begin) {
            let length = text[at..].find(end).map_or(text.len() - at, |length| length + end.len());
            text.replace_range(at..at + length, instead);
        }
    }
    text
}

/// A file, or a folder with all that is in it.
fn write(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::write(to, to_emulation(&fs::read_to_string(from)?));
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        write(&path, &to.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_CFG_EMULATED_LANES").is_none() {
        return Ok(());
    }
    println!("cargo::rerun-if-changed=src/avx512");
    println!("cargo::rerun-if-changed=src/x86/sha_ni.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    // Without what an earlier build wrote: a file that has become a folder would be there twice.
    match fs::remove_dir_all(out.join("avx512")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write(Path::new("src/avx512"), &out.join("avx512"))?;
    write(Path::new("src/x86/sha_ni.rs"), &out.join("sha_ni.rs"))?;
    // Modules by absolute paths, for `include!` at the root of the crate and in `x86`.
    let module = |visibility: &str, name: &str, file: &str| {
        let path = out.join(file);
        format!("#[allow(unused)]\n#[path = {path:?}]\n{visibility} mod {name};\n")
    };
    fs::write(out.join("emulated.rs"), module("pub", "avx512", "avx512/mod.rs"))?;
    fs::write(out.join("emulated_sha_ni.rs"), module("pub(crate)", "sha_ni", "sha_ni.rs"))
}

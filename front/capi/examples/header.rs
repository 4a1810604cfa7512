//! Writes the part of include/gabion.h that the table of algorithms decides:
//! `cargo run -p gabion-capi --example header`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/gabion.h");
    let written = std::fs::read_to_string(&path).and_then(|header| {
        let renewed = gabion::header::renewed(&header).unwrap_or(header);
        std::fs::write(&path, renewed)
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", path.display());
            ExitCode::from(3)
        }
    }
}

//! Builds OpenSSL with its FIPS provider where `gabion bundle build` looks for it, without Gabion's own module.
//! `script/run` and `script/test` start it while the rest of Gabion is still being compiled.

use std::process::ExitCode;

use gabion_ship::bundle::{BuildRequest, build};

fn main() -> ExitCode {
    let request = BuildRequest { keep_module: true, ..BuildRequest::default() };
    match build(&request) {
        Ok(layout) => {
            println!("{}", layout.prefix().display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

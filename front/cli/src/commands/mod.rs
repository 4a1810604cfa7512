//! The commands, one module each, grouped by topic. A command parses its arguments, calls a library
//! crate and prints the result; it contains no cryptography.

pub mod bench;
mod hbs;
mod keys;
#[cfg(feature = "kms")]
mod kms;
mod openssl;
mod speed;

use clap::{CommandFactory, Subcommand};

use crate::failure::Failure;
use crate::manual;
use keys::{acvp, algorithms, decaps, derive, encaps, keygen, mu, sign, verify};
use openssl::{bundle, doctor, exec, preflight, provider};

/// Every command of `gabion`.
#[derive(Subcommand)]
pub enum Command {
    Acvp(acvp::Args),
    Algorithms(algorithms::Args),
    /// Measure the engine, and TLS with and without it: time, bytes, memory
    Bench,
    Bundle(bundle::Args),
    #[command(after_help = manual::help_of_completions("gabion"))]
    Completions(manual::Completions),
    Decaps(decaps::Args),
    Derive(derive::Args),
    Doctor(doctor::Args),
    Encaps(encaps::Args),
    Exec(exec::Args),
    Hbs(hbs::Args),
    Keygen(keygen::Args),
    #[cfg(feature = "kms")]
    Kms(kms::Args),
    #[command(hide = true)]
    Man(manual::Man),
    Mu(mu::Args),
    Preflight(preflight::Args),
    Provider(provider::Args),
    /// Turn results into a self-contained HTML page with plots and tables
    Report,
    /// Run a handshake with the bundle's openssl, and measure it with and without Gabion
    Run,
    Sign(sign::Args),
    Speed(speed::Args),
    Verify(verify::Args),
}

impl Command {
    /// Runs the command and returns its exit code.
    pub fn run(self) -> Result<u8, Failure> {
        match self {
            Command::Acvp(args) => acvp::run(args),
            Command::Algorithms(args) => algorithms::run(args),
            Command::Bench | Command::Report | Command::Run => Err(bench::execute()),
            Command::Bundle(args) => bundle::run(args),
            Command::Completions(args) => args.run(crate::Cli::command()),
            Command::Decaps(args) => decaps::run(args),
            Command::Derive(args) => derive::run(args),
            Command::Doctor(args) => doctor::run(args),
            Command::Encaps(args) => encaps::run(args),
            Command::Exec(args) => exec::run(args),
            Command::Hbs(args) => hbs::run(args),
            Command::Keygen(args) => keygen::run(args),
            #[cfg(feature = "kms")]
            Command::Kms(args) => kms::run(args),
            Command::Man(args) => args.run(crate::Cli::command()),
            Command::Mu(args) => mu::run(args),
            Command::Preflight(args) => preflight::run(args),
            Command::Provider(args) => provider::run(args),
            Command::Sign(args) => sign::run(args),
            Command::Speed(args) => speed::run(args),
            Command::Verify(args) => verify::run(args),
        }
    }
}

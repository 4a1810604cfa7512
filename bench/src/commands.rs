//! The commands: one module each, which decodes the command line, calls the harness and prints the rows.

mod engine;
mod gpu;
mod hbs;
#[cfg(feature = "kms")]
mod kms;
mod memory;
mod offload;
mod openssl;
mod report;
mod run;
mod setup;
mod size;
mod switches;
mod tls;
mod wire;

use clap::{CommandFactory, Parser, Subcommand};

use gabion_cli::failure::Failure;
use gabion_cli::manual;

/// Measure the engine, and TLS with and without Gabion: time, bytes, memory
#[derive(Parser)]
#[command(name = "gabion-bench", version)]
#[command(after_help = "Example:\n  gabion bench tls --group X25519MLKEM768 --sig ML-DSA-65")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(after_help = manual::help_of_completions("gabion-bench"))]
    Completions(manual::Completions),
    Engine(engine::Args),
    Hbs(hbs::Args),
    #[cfg(feature = "kms")]
    Kms(kms::Args),
    #[command(hide = true)]
    Man(manual::Man),
    Memory(memory::Args),
    Offload(offload::Args),
    Openssl(openssl::SpeedArgs),
    Pkeyutl(openssl::PkeyutlArgs),
    Report(report::Args),
    Run(run::Args),
    Size(size::Args),
    Switches(switches::Args),
    Tls(tls::Args),
    /// The lane of `--provider offload`, in the process that `bench tls` starts for it.
    #[command(hide = true)]
    TlsLane,
    Wire(wire::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Completions(completions) => completions.run(Args::command()),
        Command::Engine(args) => engine::run(args),
        Command::Hbs(args) => hbs::run(args),
        #[cfg(feature = "kms")]
        Command::Kms(args) => kms::run(args),
        Command::Man(man) => man.run(Args::command()),
        Command::Memory(args) => memory::run(args),
        Command::Offload(args) => offload::run(args),
        Command::Openssl(args) => openssl::run_speed(args),
        Command::Pkeyutl(args) => openssl::run_pkeyutl(args),
        Command::Report(args) => report::run(args),
        Command::Run(args) => run::run(args),
        Command::Size(args) => size::run(args),
        Command::Switches(args) => switches::run(args),
        Command::Tls(args) => tls::run(args),
        Command::TlsLane => {
            crate::tls::serve();
            Ok(0)
        }
        Command::Wire(args) => wire::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}

//! `gabion bench`: what operations and handshakes cost.

pub mod engine;
mod gpu;
mod hbs;
#[cfg(feature = "kms")]
mod kms;
mod memory;
mod offload;
mod openssl;
mod setup;
mod size;
mod switches;
mod tls;
mod wire;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Measure the engine, and TLS with it and without it: time, bytes, memory.
#[derive(Parser)]
#[command(after_help = "Example:\n  gabion bench tls --group X25519MLKEM768 --sig ML-DSA-65")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Engine(engine::Args),
    Hbs(hbs::Args),
    #[cfg(feature = "kms")]
    Kms(kms::Args),
    Memory(memory::Args),
    Offload(offload::Args),
    Openssl(openssl::SpeedArgs),
    Pkeyutl(openssl::PkeyutlArgs),
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
    match args.what {
        What::Engine(args) => engine::run(args),
        What::Hbs(args) => hbs::run(args),
        #[cfg(feature = "kms")]
        What::Kms(args) => kms::run(args),
        What::Memory(args) => memory::run(args),
        What::Offload(args) => offload::run(args),
        What::Openssl(args) => openssl::run_speed(args),
        What::Pkeyutl(args) => openssl::run_pkeyutl(args),
        What::Size(args) => size::run(args),
        What::Switches(args) => switches::run(args),
        What::Tls(args) => tls::run(args),
        What::TlsLane => {
            gabion_bench::tls::serve();
            Ok(0)
        }
        What::Wire(args) => wire::run(args),
    }
}

//! `gabion bench`: what operations and handshakes cost.

pub mod engine;
mod tls;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Measure the engine, or TLS handshakes with it and without it.
#[derive(Parser)]
#[command(after_help = "Example:\n  gabion bench tls --group X25519MLKEM768 --sig ML-DSA-65")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Engine(engine::Args),
    Tls(tls::Args),
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.what {
        What::Engine(args) => engine::run(args),
        What::Tls(args) => tls::run(args),
    }
}

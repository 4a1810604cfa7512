//! `gabion kms reseal`: replaces the unseal shares and the passphrase, using the current shares.

use std::path::PathBuf;

use gabion_kms_server::config::Config;
use gabion_kms_server::{SealSetup, ServiceHost};
use zeroize::Zeroizing;

use super::say_json;
use super::seal::{shares_of, text};
use super::share::{Holders, SharePrinter};
use crate::failure::Failure;
use crate::files;
use crate::keys::passin::PassIn;

/// Replace the unseal shares and the passphrase, using enough of the current shares
///
/// Example:
///   gabion kms reseal --config kms.toml --shares 5 --threshold 3 < shares.txt
///
/// Reads shares from standard input, one per line, and prints a new set, only this once.
/// Afterwards, only the new shares and the passphrase given here (if any) open the seal; keys and
/// tokens do not change. Older copies of the store are still opened by the old shares and
/// passphrase. With --holder, no share is printed in clear, as with `gabion kms init`. The store
/// must not be in use.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Number of new shares
    #[arg(long, value_name = "N", default_value = "5")]
    shares: u8,
    /// Number of new shares that open the seal
    #[arg(long, value_name = "N", default_value = "3")]
    threshold: u8,
    /// Passphrase that also opens the seal: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    /// [default: none]
    #[arg(long, value_name = "SOURCE")]
    passphrase: Option<PassIn>,
    /// File with enough of the current shares, one per line; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    given: PathBuf,
    #[command(flatten)]
    holders: Holders,
    /// Print one JSON object: shares, or wrapped_shares with --holder
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let config = Config::read(&args.config)?;
    let passphrase = args.passphrase.map(|source| text(&source.password()?)).transpose()?;
    let holders = args.holders.read()?;
    let lines = text(&files::read(&args.given, files::SMALL_MAX)?)?;
    let given: Vec<Zeroizing<String>> =
        shares_of(&lines).map(|line| Zeroizing::new(line.to_owned())).collect();
    if given.is_empty() {
        return Err(Failure::Usage("no share was given".to_owned()));
    }
    let initial = SealSetup {
        shares: args.shares,
        threshold: args.threshold,
        passphrase: passphrase.as_ref().map(|passphrase| passphrase.as_str()),
        certificate: None,
        lifetime_s: None,
        holders: holders.keys(),
    };
    let mut shares = SharePrinter::new(&holders, args.json);
    let tell = |line: &str| eprintln!("{line}");
    let dealt = ServiceHost::reseal(&config, &given, &initial, tell, |share| shares.take(share));
    if args.json && (dealt.is_ok() || shares.are_any()) {
        // Printed even if the outcome is unknown: then one of the two sets opens the seal.
        say_json(&shares.json())?;
    }
    dealt.map(|()| 0)
}

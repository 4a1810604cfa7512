//! `gabion kms reseal`: other shares and another passphrase, by the recovery set.

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

/// Deal the shares of a seal anew, and its passphrase: give enough shares of the set of before
///
/// Example:
///   gabion kms reseal --config kms.toml --shares 5 --threshold 3 < shares.txt
///
/// Reads shares from standard input, one a line, and prints a new set, once and never again. From then on it opens the
/// seal, with the passphrase that is named here or with none, and nothing of before does; keys and tokens stay as they
/// are. Copies of the store from before still open by what opened them then. With --holder no share is printed in clear, as
/// by `gabion kms init`. Nobody may be serving the store.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// How many shares there are to be
    #[arg(long, value_name = "N", default_value = "5")]
    shares: u8,
    /// How many of them are to open the seal
    #[arg(long, value_name = "N", default_value = "3")]
    threshold: u8,
    /// A passphrase that is to open it too: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin [default: none]
    #[arg(long, value_name = "SOURCE")]
    passphrase: Option<PassIn>,
    /// File with enough shares of the set of before, one a line; `-` is standard input
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
        return Err(Failure::Usage("there is no share".to_owned()));
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
        // Also where nobody knows what came of it: then one of the two sets opens the seal.
        say_json(&shares.json())?;
    }
    dealt.map(|()| 0)
}

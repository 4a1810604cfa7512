//! `gabion kms init`: a store with its seal, and the first token.

use std::path::PathBuf;

use gabion_kms_server::config::Config;
use gabion_kms_server::{Initial, Keeper, memory};
use serde_json::json;
use zeroize::Zeroizing;

use super::say_json;
use super::seal::text;
use crate::failure::Failure;
use crate::files;
use crate::keys::passin::PassIn;

/// Make a store with its seal, and a first token
///
/// Example:
///   gabion kms init --config kms.toml --shares 5 --threshold 3 --certificate admin.pem
///
/// Prints the shares that open the seal and a token that may do everything, once and never again: give each share to
/// somebody else. The token is bound to the certificate, which may be left out where the configuration says that
/// administration needs none. Nobody may be serving the store.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// How many shares there are
    #[arg(long, value_name = "N", default_value = "5")]
    shares: u8,
    /// How many of them open the seal
    #[arg(long, value_name = "N", default_value = "3")]
    threshold: u8,
    /// A passphrase that opens the seal too: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passphrase: Option<PassIn>,
    /// PEM of the client's certificate that the token is bound to
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Print one JSON object: shares, token
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    // Where it can't be had, the shares are printed all the same.
    let _ = memory::no_dumps();
    let config = Config::read(&args.config)?;
    let passphrase = args.passphrase.map(|source| text(&source.password()?)).transpose()?;
    let read = |path: &PathBuf| files::read(path, files::SMALL_MAX);
    let certificate = args.certificate.as_ref().map(read).transpose()?;
    let initial = Initial {
        shares: args.shares,
        threshold: args.threshold,
        passphrase: passphrase.as_ref().map(|passphrase| passphrase.as_str()),
        certificate: certificate.as_ref().map(|pem| &pem[..]),
    };
    let mut shares: Vec<Zeroizing<String>> = Vec::new();
    let hand_out = |share: Zeroizing<String>| -> Result<(), Failure> {
        if !args.json {
            say!("share  {}", *share);
        }
        shares.push(share);
        Ok(())
    };
    let token = Keeper::init(&config, &initial, hand_out)?;
    if args.json {
        let shares: Vec<&str> = shares.iter().map(|share| share.as_str()).collect();
        say_json(&json!({"shares": shares, "token": *token}))?;
    } else {
        say!("token  {}", *token);
    }
    Ok(0)
}

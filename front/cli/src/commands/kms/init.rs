//! `gabion kms init`: a store with its seal, and the first token.

use std::path::PathBuf;

use gabion_kms_server::config::Config;
use gabion_kms_server::{SealSetup, ServiceHost, expires_ms, memory, rfc3339};
use serde_json::json;

use super::period::lifetime;
use super::say_json;
use super::seal::text;
use super::share::{Holders, SharePrinter};
use super::token::warn_of_certificate;
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
/// administration needs none. With --holder no share is printed in clear: each is wrapped for a person's public key of
/// X-Wing (`gabion keygen X-Wing`), and they open it by `gabion kms share open`. Nobody may be serving the store.
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
    /// How long the token lives, such as 30d, or seconds [default: 90d, or as long as the configuration lets a token live]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    lifetime: Option<u64>,
    #[command(flatten)]
    holders: Holders,
    /// Print one JSON object: shares, or wrapped_shares with --holder; token, expires_ms
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    // Where it can't be had, the shares are printed all the same.
    let _ = memory::no_dumps();
    let config = Config::read(&args.config)?;
    let passphrase = args.passphrase.map(|source| text(&source.password()?)).transpose()?;
    let holders = args.holders.read()?;
    let read = |path: &PathBuf| files::read(path, files::SMALL_MAX);
    let certificate = args.certificate.as_ref().map(read).transpose()?;
    let initial = SealSetup {
        shares: args.shares,
        threshold: args.threshold,
        passphrase: passphrase.as_ref().map(|passphrase| passphrase.as_str()),
        certificate: certificate.as_ref().map(|pem| &pem[..]),
        lifetime_s: args.lifetime,
        holders: holders.keys(),
    };
    let mut shares = SharePrinter::new(&holders, args.json);
    let token = ServiceHost::init(&config, &initial, |share| shares.take(share))?;
    warn_of_certificate(certificate.as_ref().map(|pem| &pem[..]), expires_ms(&token));
    if args.json {
        let mut answer = shares.json();
        answer["token"] = json!(*token);
        answer["expires_ms"] = json!(expires_ms(&token));
        say_json(&answer)?;
    } else {
        say!("token  {}", *token);
        if let Some(ms) = expires_ms(&token) {
            say!("ends   {}", rfc3339(ms));
        }
    }
    Ok(0)
}

//! `gabion kms init`: creates a store with its seal, and the first token.

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

/// Create a store; print its unseal shares and an administrator token
///
/// Example:
///   gabion kms init --config kms.toml --shares 5 --threshold 3 --certificate admin.pem
///
/// Prints the unseal shares and an administrator token. They are shown only this once; give each
/// share to a different person. The token is bound to the certificate, which may be omitted if the
/// configuration does not require one for administration. With --holder, no share is printed in
/// clear: each is wrapped for a person's X-Wing public key (`gabion keygen X-Wing`) and opened with
/// `gabion kms share open`. The store must not be in use.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Number of shares
    #[arg(long, value_name = "N", default_value = "5")]
    shares: u8,
    /// Number of shares that open the seal
    #[arg(long, value_name = "N", default_value = "3")]
    threshold: u8,
    /// Passphrase that also opens the seal: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passphrase: Option<PassIn>,
    /// PEM file with the client certificate that the token is bound to
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Lifetime of the token, such as 30d, or seconds [default: 90d, or the maximum of the
    /// configuration if that is shorter]
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
    // If dumps cannot be disabled, the shares are printed nevertheless.
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

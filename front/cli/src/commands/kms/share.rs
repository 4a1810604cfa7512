//! `gabion kms share open`, and the output of shares by `init` and `reseal`.

use std::path::PathBuf;

use clap::Subcommand;
use gabion_engine::Algorithm;
use gabion_kms_server::{Holder, memory};
use gabion_kms_wire::decode_pem;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::say_json;
use super::seal::text;
use crate::failure::Failure;
use crate::files;
use crate::keys::passin::PassIn;
use crate::keys::{self, KeyArgs};

/// The prefix of every wrapped share.
const WRAPPED: &str = "gbw1-";

/// Open unseal shares that are wrapped for their holders
///
/// Example:
///   gabion kms share open --key mine.pem share.wrapped | gabion kms unseal
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Unwrap a share with your private key and print it in clear; works offline
    ///
    /// Example:
    ///   gabion kms share open --key mine.pem share.wrapped | gabion kms unseal
    ///
    /// Success does not prove who wrapped the share: every holder of your public key can.
    #[command(verbatim_doc_comment)]
    Open(OpenArgs),
}

#[derive(clap::Args)]
struct OpenArgs {
    /// Your X-Wing private key: PEM, DER or raw bytes
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Password of an encrypted KEY: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passin: Option<PassIn>,
    /// The wrapped share, gbw1-..., or a file with it; `-` is standard input
    #[arg(value_name = "WRAPPED", default_value = "-")]
    wrapped: String,
    /// Print one JSON object: share
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Command::Open(args) = args.command;
    // If dumps cannot be disabled, the share is printed nevertheless.
    let _ = memory::no_dumps();
    let own = KeyArgs {
        key: args.key.clone(),
        algorithm: None,
        passin: args.passin.clone(),
        raw: Some(Algorithm::XWing),
    };
    let (is_text, file) = (args.wrapped.trim().starts_with(WRAPPED), PathBuf::from(&args.wrapped));
    let others = [("WRAPPED", file.as_path())];
    own.check_standard_input(if is_text { &[] } else { &others })?;
    let own = own.decaps_key(keys::engine()?)?;
    let wrapped = match is_text {
        true => Zeroizing::new(args.wrapped),
        false => text(&files::read(&file, files::SMALL_MAX)?)?,
    };
    let share = gabion_kms_server::open_share(&own, &wrapped);
    let share = share.map_err(|error| match error.code().as_str() {
        "unseal_failed" => Failure::No(error.to_string()),
        "bad_request" => Failure::Usage(error.to_string()),
        _ => Failure::NotReady(error.to_string()),
    })?;
    match args.json {
        true => say_json(&json!({"share": *share}))?,
        false => say!("{}", *share),
    }
    Ok(0)
}

/// The option `--holder`.
#[derive(clap::Args)]
pub struct Holders {
    /// X-Wing public key of a share holder, PEM or DER, in the order of the shares. Give one for
    /// each share, or none to print the shares in clear
    #[arg(long = "holder", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Holders {
    /// Reads the public keys.
    pub fn read(&self) -> Result<HolderKeys, Failure> {
        let read = |path: &PathBuf| {
            let bytes = files::read(path, files::SMALL_MAX)?;
            let name = files::shown(path, "standard input");
            let text = std::str::from_utf8(&bytes).ok();
            if text.is_some_and(|text| text.contains("PRIVATE KEY-----")) {
                return Err(Failure::Usage(format!(
                    "{name} holds a private key, which stays with its holder; expected the public half"
                )));
            }
            let der = text.and_then(decode_pem);
            let key = gabion_kms_server::parse_holder(der.as_deref().unwrap_or(&bytes));
            key.map_err(|error| Failure::Usage(format!("{name}: {error}")))
        };
        let keys = self.files.iter().map(read).collect::<Result<_, _>>()?;
        let names = self.files.iter().map(|path| files::shown(path, "standard input")).collect();
        Ok(HolderKeys { names, keys })
    }
}

/// The public keys of share holders and the names of their files.
pub struct HolderKeys {
    names: Vec<String>,
    keys: Vec<Holder>,
}

impl HolderKeys {
    /// Returns the public keys.
    pub fn keys(&self) -> &[Holder] {
        &self.keys
    }
}

/// Prints shares, or collects them for a JSON object.
pub struct SharePrinter<'a> {
    holders: &'a HolderKeys,
    is_json: bool,
    shares: Vec<Zeroizing<String>>,
}

impl<'a> SharePrinter<'a> {
    pub fn new(holders: &'a HolderKeys, is_json: bool) -> Self {
        SharePrinter { holders, is_json, shares: Vec::new() }
    }

    /// Prints or collects the next share.
    pub fn take(&mut self, share: Zeroizing<String>) -> Result<(), Failure> {
        if !self.is_json {
            let at = self.shares.len();
            if let (Some(name), Some(key)) = (self.holders.names.get(at), self.holders.keys.get(at))
            {
                say!("for    {}, whose key has the SHA-256 {}", name, key.sha256());
            }
            say!("share  {}", *share);
        }
        self.shares.push(share);
        Ok(())
    }

    /// Returns whether there are any shares.
    pub fn are_any(&self) -> bool {
        !self.shares.is_empty()
    }

    /// Returns all shares as JSON.
    pub fn json(&self) -> Value {
        let shares = self.shares.iter().map(|share| share.as_str());
        if self.holders.keys.is_empty() {
            return json!({"shares": shares.collect::<Vec<_>>()});
        }
        let holders = self.holders.names.iter().zip(&self.holders.keys);
        let wrapped = holders.zip(shares).map(|((name, key), share)| {
            json!({"holder": name, "holder_sha256": key.sha256(), "share": share})
        });
        json!({"wrapped_shares": wrapped.collect::<Vec<_>>()})
    }
}

//! `gabion kms unseal` and `gabion kms seal`.

use std::path::{Path, PathBuf};

use gabion_kms_wire::native::{Sealing, Unseal};
use zeroize::Zeroizing;

use super::{client, say_json};
use crate::failure::Failure;
use crate::files;
use crate::keys::passin::PassIn;

/// Unseal a server with shares or the passphrase
///
/// Example:
///   gabion kms unseal < share.txt
///
/// Reads shares from standard input, one per line or in the output format of `gabion kms init`, and
/// sends them to the server one by one. Shares that several people enter one after the other are
/// combined.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct UnsealArgs {
    /// Use the passphrase instead of shares: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passphrase: Option<PassIn>,
    /// Discard the shares entered so far. Without FILE, this needs the server's own socket or a
    /// client certificate
    #[arg(long)]
    reset: bool,
    /// File with shares, one per line; `-` is standard input [default: `-`, unless --reset is
    /// given]
    #[arg(value_name = "FILE", conflicts_with = "passphrase")]
    shares: Option<PathBuf>,
    /// Print the service's answer as one JSON object: sealed, given, threshold, restored
    #[arg(long)]
    json: bool,
}

/// Seal a server: its keys cannot be used until it is unsealed
///
/// Example:
///   gabion kms seal
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct SealArgs {
    /// Print the service's answer as one JSON object: sealed, given, threshold
    #[arg(long)]
    json: bool,
}

/// Runs `unseal`.
pub fn unseal(args: UnsealArgs) -> Result<u8, Failure> {
    let client = client()?;
    let mut how = None;
    let reset = Some(true).filter(|_| args.reset);
    if let Some(source) = &args.passphrase {
        let passphrase = text(&source.password()?)?;
        let passphrase = Some(passphrase.to_string().into());
        how = Some(client.unseal(&Unseal { passphrase, reset, share: None })?);
    } else if let (None, true) = (&args.shares, args.reset) {
        how = Some(client.unseal(&Unseal { reset, ..Unseal::default() })?);
    } else {
        let shares = args.shares.as_deref().unwrap_or(Path::new("-"));
        let shares = text(&files::read(shares, files::SMALL_MAX)?)?;
        for share in shares_of(&shares) {
            // Only the first share discards the earlier ones.
            let reset = reset.filter(|_| how.is_none());
            let share = Some(share.to_owned().into());
            let sealing = client.unseal(&Unseal { share, reset, passphrase: None })?;
            let is_open = !sealing.sealed;
            how = Some(sealing);
            if is_open {
                break;
            }
        }
    }
    let how = how.ok_or_else(|| Failure::Usage("no share was given".to_owned()))?;
    tell(args.json, &how)?;
    Ok(0)
}

/// Runs `seal`.
pub fn seal(args: SealArgs) -> Result<u8, Failure> {
    tell(args.json, &client()?.seal()?)?;
    Ok(0)
}

fn tell(as_json: bool, how: &Sealing) -> Result<(), Failure> {
    if !as_json {
        how.restored.iter().flatten().for_each(|line| eprintln!("{line}"));
    }
    match (as_json, how.sealed, how.threshold) {
        (true, _, _) => say_json(how)?,
        (false, false, _) => say!("the server is unsealed"),
        (false, true, Some(threshold)) => say!("{} of {threshold} shares are entered", how.given),
        (false, true, None) => say!("the server is sealed"),
    }
    Ok(())
}

/// Returns the bytes as text, without the final line break.
pub fn text(bytes: &[u8]) -> Result<Zeroizing<String>, Failure> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| Failure::Usage("the input is not text".to_owned()))?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Returns the shares in a text, one per line, or only the share lines of the output of `init` or
/// `reseal`.
pub fn shares_of(text: &str) -> impl Iterator<Item = &str> {
    let printed = |line: &'_ str| line.trim().starts_with("share ");
    let are_printed = text.lines().any(printed);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter_map(move |line| match are_printed {
        true => Some(line.strip_prefix("share ")?.trim_start()),
        false => Some(line),
    })
}

//! `gabion cbom`: cryptography bills of materials.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use gabion_probe::cbom::{Change, Diff, diff};
use serde_json::Value;

use super::inventory::unix_now;
use crate::failure::{Failure, plain};
use crate::files;

/// Exit code if something became worse or expires.
const NO: u8 = 1;
/// Maximum size of a document.
const DOCUMENT_MAX: u64 = 256 << 20;

/// Compare cryptography bills of materials (CycloneDX).
#[derive(clap::Parser)]
#[command(after_help = "Example:
  gabion inventory . --cbom old.cdx.json
  gabion inventory . --cbom new.cdx.json
  gabion cbom diff old.cdx.json new.cdx.json")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Diff(DiffArgs),
}

/// List the differences between two CBOMs.
///
/// Exits 1 if an asset was post-quantum and is classical now, if there is a new classical asset, or
/// if a certificate of the new CBOM has expired or expires soon. An asset is identified by its
/// location and, for a certificate, its subject: a renewed certificate is not a new one.
#[derive(clap::Args)]
#[command(after_help = "Example:
  gabion inventory . --cbom old.cdx.json
  gabion inventory . --cbom new.cdx.json
  gabion cbom diff old.cdx.json new.cdx.json

Reads CycloneDX 1.6 and 1.7 in JSON, also from other programs. For a connection, the key exchange is
compared; its certificates are assets of their own.")]
struct DiffArgs {
    /// The earlier CBOM
    old: PathBuf,
    /// The later CBOM
    new: PathBuf,
    /// Report certificates that expire within this many days
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Command::Diff(args) = args.command;
    files::one_standard_input(&[
        ("OLD", files::is_dash(&args.old)),
        ("NEW", files::is_dash(&args.new)),
    ])?;
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let found = diff(&old, &new, unix_now(), args.days)
        .map_err(|cause| Failure::Usage(format!("cannot compare: {cause}")))?;
    if args.json {
        let text = serde_json::to_string(&found)
            .map_err(|cause| Failure::NotReady(format!("the differences as JSON: {cause}")))?;
        say!("{text}");
    } else {
        print(&found)?;
    }
    Ok(if found.is_ok() { 0 } else { NO })
}

fn read(path: &Path) -> Result<Value, Failure> {
    let bytes = files::read(path, DOCUMENT_MAX)?;
    serde_json::from_slice(&bytes).map_err(|cause| {
        let name = files::shown(path, "standard input");
        Failure::Usage(format!("{name} is not JSON: {cause}"))
    })
}

fn print(found: &Diff) -> Result<(), Failure> {
    let lists = [
        ("became classical", &found.became_classical),
        ("new and classical", &found.new_classical),
        ("became post-quantum", &found.became_post_quantum),
        ("changed", &found.changed),
        ("removed", &found.removed),
    ];
    for (title, changes) in lists {
        for change in changes {
            say!("{title}: {}", line(change));
        }
    }
    for expiry in &found.expiring {
        let verb = if expiry.has_expired { "expired" } else { "expires" };
        let (name, location) = (plain(&expiry.name), plain(&expiry.location));
        say!("{verb} {}: certificate {name} in {location}", plain(&expiry.not_after));
    }
    let worse = found.became_classical.len() + found.new_classical.len();
    match (found.is_ok(), worse, found.expiring.len()) {
        (true, ..) => say!("nothing became classical or expires"),
        (false, worse, expiring) => say!("{worse} worse, {expiring} expired or expiring"),
    }
    Ok(())
}

fn line(change: &Change) -> String {
    let algorithms = match (change.old.is_empty(), change.new.is_empty()) {
        (false, false) => format!("{} -> {}", change.old.join(" + "), change.new.join(" + ")),
        (false, true) => change.old.join(" + "),
        (true, false) => change.new.join(" + "),
        (true, true) => "unknown algorithm".to_owned(),
    };
    plain(&format!("{} {} in {}: {algorithms}", change.kind, change.name, change.location))
}

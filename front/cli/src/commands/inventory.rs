//! `gabion inventory`: the keys and certificates in files, as a table, JSON or a CBOM.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gabion_probe::cbom::Cbom;
use gabion_probe::inventory::{Asset, Inventory, Kind, Summary};
use gabion_probe::report::Report;
use gabion_probe::time::rfc3339;
use serde_json::json;

use crate::failure::{Failure, plain};
use crate::files::{self, Access, Output, OverwritePolicy};
use crate::style::count;
use crate::table::{Align, Table};

/// Maximum size of a file with probe results.
const RESULTS_MAX: u64 = 256 << 20;

/// List the keys and certificates in files and folders, with algorithm, size and expiry
///
/// Reads PEM, DER and OpenSSH files of at most 1 MiB and recognizes them by their content. Prints
/// no key. Exits 0 whether assets are post-quantum or not; `gabion cbom diff` compares two
/// inventories.
#[derive(clap::Parser)]
#[command(after_help = "Examples:
  gabion inventory .
  gabion inventory . --cbom inventory.cdx.json

With `--results`, the reports of `gabion probe --results FILE` are part of the inventory.
The algorithm of an encrypted PKCS#8 private key is unknown until it is decrypted. Files with more than 1 MiB, PKCS#12 files and Java keystores are not read.")]
pub struct Args {
    /// Files and folders; symbolic links inside folders are followed to files only
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write a cryptography bill of materials (CycloneDX 1.7); replaces an existing file
    #[arg(long, value_name = "FILE")]
    cbom: Option<PathBuf>,
    /// Add the probe results in this file, one JSON object per line, to the CBOM
    #[arg(long, value_name = "FILE", requires = "cbom")]
    results: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    for path in &args.paths {
        if let Err(cause) = std::fs::metadata(path) {
            let path = path.display();
            return Err(Failure::Usage(format!("cannot read {path}: {}", files::words(&cause))));
        }
    }
    let now = unix_now();
    let inventory = Inventory::scan(&args.paths);
    let summary = inventory.summary(now);
    if let Some(path) = &args.cbom {
        let mut cbom = Cbom::new();
        cbom.add_inventory(&inventory);
        for results in &args.results {
            for report in read_results(results)? {
                cbom.add_report(&report);
            }
        }
        write_cbom(path, &cbom, now)?;
    }
    if args.json {
        say!(
            "{}",
            json!({
                "assets": inventory.assets,
                "files": inventory.files,
                "summary": summary,
                "warnings": inventory.warnings,
                "warnings_omitted": inventory.warnings_omitted,
            })
        );
    } else if args.cbom.as_deref().is_none_or(|path| !files::is_dash(path)) {
        print(&inventory, &summary)?;
    }
    for warning in &inventory.warnings {
        eprintln!("warning: {}", plain(warning));
    }
    if inventory.warnings_omitted > 0 {
        eprintln!("warning: {} further warnings", inventory.warnings_omitted);
    }
    Ok(0)
}

/// Returns the time in Unix seconds.
pub fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Writes a CBOM, replacing an existing file.
pub fn write_cbom(path: &Path, cbom: &Cbom, now: i64) -> Result<(), Failure> {
    let document = cbom.to_json(now, env!("CARGO_PKG_VERSION"));
    let text = serde_json::to_string_pretty(&document)
        .map_err(|cause| Failure::NotReady(format!("cannot encode the CBOM: {cause}")))?;
    let existing = OverwritePolicy::Replace;
    let [place] = files::places([("--cbom", path)], &[], existing)?;
    let text = text + "\n";
    let output = Output::prepare(place, text.as_bytes(), Access::Public, existing)?;
    files::commit([output])
}

/// Reads probe results. The last result of a target counts.
fn read_results(path: &Path) -> Result<Vec<Report>, Failure> {
    let bytes = files::read(path, RESULTS_MAX)?;
    let mut reports: Vec<Report> = Vec::new();
    for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let report = serde_json::from_slice(line).map_err(|cause| {
            let name = files::shown(path, "standard input");
            Failure::Usage(format!(
                "{name}, line {}: not a result of `gabion probe`: {cause}",
                at + 1
            ))
        })?;
        reports.push(report);
    }
    // The document keeps the first component of a target.
    reports.reverse();
    Ok(reports)
}

fn print(inventory: &Inventory, summary: &Summary) -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("type", Align::Left),
        ("algorithm", Align::Left),
        ("bits", Align::Right),
        ("post-quantum", Align::Left),
        ("expires", Align::Left),
        ("path", Align::Left),
    ]);
    for asset in &inventory.assets {
        table.row(row(asset));
    }
    if !inventory.assets.is_empty() {
        crate::stdout::print(format_args!("{table}\n"))?;
    }
    let Summary { certificates, private_keys, public_keys, .. } = *summary;
    say!(
        "{} in {}: {}, {}, {}",
        count(inventory.assets.len() as u64, "asset"),
        count(inventory.files as u64, "file"),
        count(certificates as u64, "certificate"),
        count(private_keys as u64, "private key"),
        count(public_keys as u64, "public key"),
    );
    say!(
        "{} post-quantum, {} classical, {} unknown; {} expired",
        summary.post_quantum,
        summary.classical,
        summary.unknown,
        count(summary.expired as u64, "certificate"),
    );
    Ok(())
}

fn row(asset: &Asset) -> [String; 6] {
    let entry = &asset.entry;
    let mut algorithm = entry.algorithm.as_ref().map_or("-", |kind| &kind.name).to_owned();
    let mut expires = "-".to_owned();
    if let Some(certificate) = &entry.certificate {
        let signature = &certificate.signature.name;
        if *signature != algorithm {
            algorithm = format!("{algorithm}, signed by {signature}");
        }
        expires = rfc3339(certificate.not_after)[..10].to_owned();
    }
    let bits = entry.algorithm.as_ref().map_or(0, |kind| kind.bits);
    let is_post_quantum = match entry.is_post_quantum() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let place = match (entry.position, entry.kind) {
        (0 | 1, _) => plain(&asset.path),
        (line, Kind::PublicKey) if entry.format == "OpenSSH" => {
            format!("{}, line {line}", plain(&asset.path))
        }
        (block, _) => format!("{}, block {block}", plain(&asset.path)),
    };
    let kind = match entry.is_encrypted {
        true => format!("encrypted {}", entry.kind.name()),
        false => entry.kind.name().to_owned(),
    };
    let bits = if bits == 0 { "-".to_owned() } else { bits.to_string() };
    [kind, plain(&algorithm), bits, is_post_quantum.to_owned(), expires, place]
}

//! `gabion algorithms`: the table of names, identifiers and sizes.

use gabion_engine::{ALGORITHMS, AlgorithmInfo, Backend, Kind, OLD_NAMES, OldName, code_of};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::keys;
use crate::table::{Align, Table};

/// List the algorithms with their names, identifiers and sizes
///
/// Example:
///   gabion algorithms
///   gabion algorithms --wide
///   gabion algorithms --old
///
/// Every command accepts any of these names, in upper or lower case. An old name selects the
/// standardized algorithm; keys and signatures of the drafts are not compatible with it.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print one JSON array with all fields
    #[arg(long)]
    json: bool,
    /// Print all columns: standard, seed, TLS name and codepoint, object identifier, old name,
    /// origin of the code
    #[arg(long)]
    wide: bool,
    /// List the pre-standard algorithms and their successors
    #[arg(long)]
    old: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if args.old {
        if args.json {
            say!("{}", Value::Array(OLD_NAMES.iter().map(old_as_json).collect()));
        } else {
            crate::stdout::print(format_args!("{}", old_as_table()))?;
        }
        return Ok(0);
    }
    let engine = keys::engine()?;
    let backends: Result<Vec<&dyn Backend>, _> =
        ALGORITHMS.iter().map(|row| engine.backend_first(row.algorithm)).collect();
    let rows = ALGORITHMS.iter().zip(backends?);
    if args.json {
        say!("{}", Value::Array(rows.map(|(row, backend)| as_json(row, backend)).collect()));
    } else {
        let table = if args.wide { as_wide_table(rows) } else { as_table(rows) };
        crate::stdout::print(format_args!("{table}"))?;
    }
    Ok(0)
}

fn as_json(row: &AlgorithmInfo, backend: &dyn Backend) -> Value {
    let mut sizes = json!({
        "public_key": row.public_key.max(),
        "private_key": row.private_key.max(),
        "seed": row.seed,
    });
    match row.kind {
        Kind::Kem => sizes["ciphertext"] = row.output.max().into(),
        Kind::Signature => sizes["signature"] = row.output.max().into(),
        Kind::KeyExchange => {}
    }
    if row.shared_secret > 0 {
        sizes["shared_secret"] = row.shared_secret.into();
    }
    json!({
        "name": row.name,
        "standard": row.standard,
        "draft": row.draft,
        "kind": row.kind.name(),
        "stateful": row.stateful,
        "category": row.category,
        "security_bits": row.security_bits,
        "oid": row.oid,
        "parameters_oid": row.parameters_oid,
        "oid_name": row.oid_name,
        "tls": row.tls.map(|tls| json!({ "name": tls.name, "codepoint": tls.number })),
        "tls_before": row.tls_before.map(|tls| json!({ "name": tls.name, "codepoint": tls.number })),
        "openssl": row.openssl,
        "wolfssl": row.wolfssl,
        "oqs": row.oqs,
        "old": row.old().map(old_as_json),
        "prehash_oid": row.prehash_oid,
        "parts": row.parts.iter().map(|part| part.to_string()).collect::<Vec<_>>(),
        "signature_length_varies": row.output.varies(),
        "sizes": sizes,
        "backend": backend.name(),
        "code": code_of(row.algorithm, backend),
    })
}

fn old_as_json(old: &OldName) -> Value {
    json!({
        "name": old.name,
        "other_names": old.others,
        "kind": old.kind.name(),
        "codepoint": old.codepoint,
        "oid": old.oid,
        "sizes": old.sizes.map(|sizes| json!({
            "public_key": sizes.public_key,
            "private_key": sizes.private_key,
            "output": sizes.output,
            // Signature algorithms have no shared secret.
            "shared_secret": (sizes.shared_secret > 0).then_some(sizes.shared_secret),
        })),
        "successor": old.successor,
    })
}

/// Returns the value, or a dash if it is missing.
fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn old_as_table() -> Table {
    let mut table = Table::new(&[
        ("old name", Align::Left),
        ("of the submission", Align::Left),
        ("TLS", Align::Right),
        ("OID", Align::Left),
        ("public", Align::Right),
        ("private", Align::Right),
        ("ct/sig, bytes", Align::Right),
        ("secret", Align::Right),
        ("followed by", Align::Left),
    ]);
    for old in &OLD_NAMES {
        table.row([
            old.name.to_owned(),
            or_none(old.others.first()),
            or_none(old.codepoint),
            or_none(old.oid),
            or_none(old.sizes.map(|sizes| sizes.public_key)),
            or_none(old.sizes.map(|sizes| sizes.private_key)),
            or_none(old.sizes.map(|sizes| sizes.output)),
            or_none(old.sizes.map(|sizes| sizes.shared_secret).filter(|&secret| secret > 0)),
            old.successor.unwrap_or("nothing").to_owned(),
        ]);
    }
    table
}

/// Returns the columns that fit a terminal of 80 columns.
fn as_table<'a>(rows: impl Iterator<Item = (&'a AlgorithmInfo, &'a dyn Backend)>) -> Table {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("cat.", Align::Right),
        ("public", Align::Right),
        ("private", Align::Right),
        ("ct/sig", Align::Right),
        ("TLS", Align::Left),
    ]);
    for (row, _) in rows {
        table.row([
            row.name.to_owned(),
            or_none(row.category),
            row.public_key.max().to_string(),
            or_none((row.private_key.max() > 0).then_some(row.private_key.max())),
            or_none((row.output.max() > 0).then_some(row.output.max())),
            or_none(row.tls.map(|tls| format!("0x{:04x}", tls.number))),
        ]);
    }
    table
}

fn as_wide_table<'a>(rows: impl Iterator<Item = (&'a AlgorithmInfo, &'a dyn Backend)>) -> Table {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("standard", Align::Left),
        ("cat.", Align::Right),
        ("public", Align::Right),
        ("private", Align::Right),
        ("seed", Align::Right),
        ("ct/sig, bytes", Align::Right),
        ("TLS", Align::Left),
        ("OID", Align::Left),
        ("old name", Align::Left),
        ("code", Align::Left),
    ]);
    for (row, backend) in rows {
        table.row([
            row.name.to_owned(),
            row.standard.to_owned(),
            or_none(row.category),
            row.public_key.max().to_string(),
            or_none((row.private_key.max() > 0).then_some(row.private_key.max())),
            or_none(row.seed),
            or_none((row.output.max() > 0).then_some(row.output.max())),
            or_none(row.tls.map(|tls| format!("{} 0x{:04x}", tls.name, tls.number))),
            // All curves share the identifier of the key type; the identifier of the curve tells
            // them apart.
            or_none(row.parameters_oid.or(row.oid)),
            or_none(row.old().map(|old| old.name)),
            code_of(row.algorithm, backend),
        ]);
    }
    table
}

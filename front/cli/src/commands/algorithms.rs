//! `gabion algorithms`: the one table of names, identifiers and sizes.

use gabion_engine::{ALGORITHMS, AlgorithmInfo, Kind};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::keys;
use crate::table::{Align, Table};

/// List the algorithms with their names, identifiers and sizes
///
/// Example:
///   gabion algorithms --json
///
/// Any name in the list is accepted wherever a command takes an algorithm, in any case. An old
/// name stands for the standard's algorithm; keys and signatures of the drafts are not compatible.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print one JSON array, with every field
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let engine = keys::engine()?;
    let backends: Result<Vec<&str>, _> = ALGORITHMS
        .iter()
        .map(|row| engine.backend_for(row.algorithm).map(|backend| backend.name()))
        .collect();
    let rows = ALGORITHMS.iter().zip(backends?);
    if args.json {
        println!("{}", Value::Array(rows.map(|(row, backend)| as_json(row, backend)).collect()));
    } else {
        print!("{}", as_table(rows));
    }
    Ok(0)
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Kem => "kem",
        _ => "signature",
    }
}

fn as_json(row: &AlgorithmInfo, backend: &str) -> Value {
    let mut sizes = json!({
        "public_key": row.public_key,
        "private_key": row.private_key,
        "seed": row.seed,
    });
    match row.kind {
        Kind::Kem => {
            sizes["ciphertext"] = row.output.into();
            sizes["shared_secret"] = row.shared_secret.into();
        }
        _ => sizes["signature"] = row.output.into(),
    }
    json!({
        "name": row.name,
        "standard": row.standard,
        "kind": kind_name(row.kind),
        "category": row.category,
        "security_bits": row.security_bits,
        "oid": row.oid,
        "oid_name": row.oid_name,
        "tls": { "name": row.tls.name, "codepoint": row.tls.number },
        "openssl": row.openssl,
        "wolfssl": row.wolfssl,
        "oqs": row.oqs,
        "old": { "name": row.old.name, "codepoint": row.old.codepoint, "oid": row.old.oid },
        "prehash_oid": row.prehash_oid,
        "sizes": sizes,
        "backend": backend,
    })
}

fn as_table<'a>(rows: impl Iterator<Item = (&'a AlgorithmInfo, &'a str)>) -> Table {
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
        ("backend", Align::Left),
    ]);
    for (row, backend) in rows {
        table.row([
            row.name.to_owned(),
            row.standard.to_owned(),
            row.category.to_string(),
            row.public_key.to_string(),
            row.private_key.to_string(),
            row.seed.to_string(),
            row.output.to_string(),
            format!("{} 0x{:04x}", row.tls.name, row.tls.number),
            row.oid.to_owned(),
            row.old.name.to_owned(),
            backend.to_owned(),
        ]);
    }
    table
}

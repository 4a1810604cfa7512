//! `gabion kms audit verify`.

use std::path::PathBuf;

use gabion_disk::RealDisk;
use gabion_kms_client::Client;
use gabion_kms_server::audit::{self, Checkpoint, Recount};
use gabion_kms_wire::decode;
use gabion_kms_wire::native::{AuditEntries, AuditState};
use serde_json::json;

use super::{client, entry, keys, records, refused};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The log's folder, or a copy [default: the log of the service]
    dir: Option<PathBuf>,
    /// File with the log's keys, as printed by `keys` [default: ask the service]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Folder with the segments that were archived from DIR
    #[arg(long, value_name = "FOLDER", requires = "dir")]
    archive: Option<PathBuf>,
}

/// A verified log.
struct VerifiedLog {
    checkpoint: Checkpoint,
    records: u64,
    archived: u64,
}

/// Entries per request.
const PAGE: u64 = 10_000;

/// Runs the command.
pub fn run(args: &Args, as_json: bool) -> Result<(), Failure> {
    let (found, whose) = match &args.dir {
        Some(folder) => {
            let (keys, whose) = keys(args.keys.as_ref(), None)?;
            let archive = args.archive.as_deref();
            let found = audit::verify(&RealDisk, folder, archive, &keys).map_err(refused)?;
            let audit::VerifiedLog { checkpoint, records, archived, .. } = found;
            (VerifiedLog { checkpoint, records, archived }, whose)
        }
        None => {
            let client = client()?;
            let (keys, whose) = keys(args.keys.as_ref(), Some(&client))?;
            (of_service(&client, &keys)?, whose)
        }
    };
    let VerifiedLog { checkpoint, records, archived } = found;
    let (signed, root) = (checkpoint.size, base16ct::lower::encode_string(&checkpoint.root));
    if as_json {
        say!(
            "{}",
            json!({"signed": signed, "root": root, "records": records, "archived": archived, "keys": whose})
        );
        return Ok(());
    }
    say!("the log is whole: {signed} records are signed by Ed25519 and by ML-DSA-44");
    say!("  root      {root}");
    say!("  keys      {whose}");
    if records > signed {
        say!("  unsigned  {} records behind the checkpoint", records - signed);
    }
    if archived > 0 {
        say!("  archived  {archived} records were not read, only their hashes");
    }
    Ok(())
}

/// Verifies the records and entries that the service returns against its checkpoint.
fn of_service(client: &Client, keys: &[String]) -> Result<VerifiedLog, Failure> {
    let state: AuditState = client.get("/v1/kms/audit/state")?;
    let checkpoint = Checkpoint::read(keys, &state.checkpoint).map_err(refused)?;
    let checkpoint = checkpoint.ok_or_else(|| {
        Failure::No("the service's checkpoint is not signed by both of the keys".to_owned())
    })?;
    let mut recount = Recount::default();
    let archived = state.first.min(checkpoint.size);
    while recount.size() < archived {
        let (from, limit) = (recount.size(), PAGE.min(archived - recount.size()));
        let path = format!("/v1/kms/audit/entries?from={from}&limit={limit}");
        let page: AuditEntries = client.get(&path)?;
        let hash = |text: &String| decode(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let hashes: Option<Vec<[u8; 32]>> = page.entries.iter().map(hash).collect();
        let hashes = hashes.filter(|hashes| !hashes.is_empty() && hashes.len() as u64 <= limit);
        let hashes = hashes.ok_or_else(|| missing(from))?;
        hashes.iter().for_each(|hash| recount.entry(hash));
    }
    while recount.size() < checkpoint.size {
        let (from, left) = (recount.size(), checkpoint.size - recount.size());
        let page = records(client, from, super::PAGE.min(left.try_into().unwrap_or(super::PAGE)))?;
        if page.records.is_empty() {
            return Err(missing(from));
        }
        for said in &page.records {
            if said.index != recount.size() {
                return Err(missing(recount.size()));
            }
            recount.record(&entry(said)?);
        }
    }
    match recount.is(&checkpoint) {
        true => Ok(VerifiedLog { records: checkpoint.size, checkpoint, archived }),
        false => {
            let why = "the records that the service returned do not match its checkpoint";
            Err(Failure::No(why.to_owned()))
        }
    }
}

fn missing(index: u64) -> Failure {
    Failure::No(format!(
        "the service's checkpoint includes record {index}, which the service did not return"
    ))
}

//! `gabion kms audit`: reads, verifies and archives the audit log.

mod verify;

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use gabion_kms_client::Client;
use gabion_kms_server::audit::{Entry, Proof, Record};
use gabion_kms_wire::decode;
use gabion_kms_wire::native::{
    ArchiveAudit, AuditArchived, AuditKeys, AuditRecord, AuditRecords, AuditState,
};
use serde_json::json;

use super::{client, say_json};
use crate::failure::Failure;
use crate::files;

/// Show, verify and archive the service's audit log
///
/// Example:
///   gabion kms audit tail
///
/// Needs a token that allows the action `audit`.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Print JSON: the service's answer on one line, or one line per record
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Print the last records
    ///
    /// Example:
    ///   gabion kms audit tail --lines 20
    ///
    /// Reading the log is recorded in the log as well. While nothing else happens, --follow hides
    /// the records that its own reads create.
    #[command(verbatim_doc_comment)]
    Tail {
        /// Keep printing records as they arrive, until Ctrl-C
        #[arg(long)]
        follow: bool,
        /// Number of records to start with
        #[arg(long, value_name = "N", default_value = "10")]
        lines: u32,
        /// Index of the record to start with instead
        #[arg(long, value_name = "INDEX", conflicts_with = "lines")]
        from: Option<u64>,
    },
    /// Print the keys that verify checkpoints, one per line
    ///
    /// Example:
    ///   gabion kms audit keys > kms.vkeys
    ///
    /// Store them where an attacker who can write the log cannot change them, and pass them to
    /// `verify` and `prove` with --keys.
    #[command(verbatim_doc_comment)]
    Keys,
    /// Verify the log: each record, each tile, and both signatures of the checkpoint
    ///
    /// Example:
    ///   gabion kms audit verify
    ///
    /// With DIR, verifies the log in a folder, offline; this needs --keys. Without DIR, verifies
    /// the records and entries that the service returns against its checkpoint. Exits 1 if the
    /// verification fails.
    #[command(verbatim_doc_comment)]
    Verify(verify::Args),
    /// Print the proof that a record is in the log, after verifying it
    ///
    /// Example:
    ///   gabion kms audit prove 0
    ///
    /// Prints the record; with --json the complete proof: record, salt, path, checkpoint. Exits 1
    /// if the proof is invalid.
    #[command(verbatim_doc_comment)]
    Prove {
        /// Index of the record, starting at 0
        index: u64,
        /// File with the log's keys, as printed by `keys` [default: ask the service]
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
    },
    /// Move full segments of the log to the archive folder of the service's configuration
    ///
    /// Example:
    ///   gabion kms audit archive --keep-days 90
    ///
    /// Moves all full segments, except those that --keep-days or --keep-mib keeps. Tiles and
    /// checkpoint stay, so the log still verifies.
    #[command(verbatim_doc_comment)]
    Archive {
        /// Keep segments that contain a record younger than this many days
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u64>,
        /// Keep the newest segments up to a total size in MiB
        #[arg(long, value_name = "MIB")]
        keep_mib: Option<u64>,
    },
}

/// Records per request.
const PAGE: u32 = 1000;

/// Interval between requests of `--follow`.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let json = args.json;
    match args.command {
        Command::Tail { follow, lines, from } => tail(follow, lines, from, json)?,
        Command::Keys => {
            let keys: AuditKeys = client()?.get("/v1/kms/audit/keys")?;
            match json {
                true => say_json(&keys)?,
                false => say!("{}", keys.vkeys.join("\n")),
            }
        }
        Command::Verify(args) => verify::run(&args, json)?,
        Command::Prove { index, keys } => prove(index, keys.as_ref(), json)?,
        Command::Archive { keep_days, keep_mib } => {
            let keep_s = keep_days.map(|days| days.saturating_mul(24 * 60 * 60));
            let asked = ArchiveAudit { keep_s, keep_mib };
            let done: AuditArchived = client()?.post("/v1/kms/audit/archive", &asked)?;
            match json {
                true => say_json(&done)?,
                false => {
                    done.files.iter().try_for_each(|file| -> Result<(), Failure> {
                        say!("{file}");
                        Ok(())
                    })?;
                    eprintln!("moved {} records", done.records);
                }
            }
        }
    }
    Ok(0)
}

fn tail(follow: bool, lines: u32, from: Option<u64>, json: bool) -> Result<(), Failure> {
    let client = client()?;
    let state: AuditState = client.get("/v1/kms/audit/state")?;
    let mut next = from.unwrap_or(state.size.saturating_sub(lines.into())).max(state.first);
    // Excludes the record of this command itself.
    let mut until = state.size;
    loop {
        while next < until {
            let page = PAGE.min(u32::try_from(until - next).unwrap_or(PAGE));
            let read = records(&client, next, page)?;
            let Some(last) = read.records.last() else { break };
            for record in &read.records {
                say_record(record, json)?;
            }
            next = last.index + 1;
            // A single remaining record is the record of this request.
            if follow && read.size == next + 1 {
                next += 1;
                until = next;
            }
        }
        if !follow {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
        until = client.get::<AuditState>("/v1/kms/audit/state")?.size;
    }
}

fn records(client: &Client, from: u64, limit: u32) -> Result<AuditRecords, Failure> {
    Ok(client.get(&format!("/v1/kms/audit?from={from}&limit={limit}"))?)
}

fn say_record(record: &AuditRecord, json: bool) -> Result<(), Failure> {
    let AuditRecord { index, record, salt: _ } = record;
    if json {
        say!("{}", json!({"index": index, "record": record}));
        return Ok(());
    }
    let text = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
    let [principal, action, key, outcome, request] =
        ["principal", "action", "key", "outcome", "request_id"].map(text);
    let ms = record["time_ms"].as_u64().unwrap_or(0);
    let time = gabion_kms_server::rfc3339(ms);
    say!("{index:>8}  {time}  {principal}  {action}  {key}  {outcome}  {request}");
    Ok(())
}

/// Converts an audit record of the service to a log entry.
fn entry(said: &AuditRecord) -> Result<Entry, Failure> {
    let record: Result<Record, _> = serde_json::from_value(said.record.clone());
    let salt = decode(&said.salt).and_then(|salt| <[u8; 32]>::try_from(salt).ok());
    match (record, salt) {
        (Ok(record), Some(salt)) => Ok(Entry { index: said.index, salt, record }),
        (Err(_), _) | (_, None) => {
            let why = "has a form that this program does not know; the service may be newer";
            Err(Failure::NotReady(format!("record {} {why}", said.index)))
        }
    }
}

/// Returns the keys of a log, from a file or the service, and a description of their source.
fn keys(file: Option<&PathBuf>, client: Option<&Client>) -> Result<(Vec<String>, String), Failure> {
    let (keys, whose) = match (file, client) {
        (Some(path), _) => {
            let text = super::seal::text(&files::read(path, files::SMALL_MAX)?)?;
            let keys = text.lines().map(str::trim).filter(|line| !line.is_empty());
            (keys.map(str::to_owned).collect(), path.display().to_string())
        }
        (None, Some(client)) => {
            let keys: AuditKeys = client.get("/v1/kms/audit/keys")?;
            (keys.vkeys, "the service's own word".to_owned())
        }
        (None, None) => {
            let why = "a folder is verified with keys from another source: give --keys FILE, the output of `gabion kms audit keys`";
            return Err(Failure::Usage(why.to_owned()));
        }
    };
    // A single key would leave the other signature of the checkpoint unchecked.
    match keys.len() >= 2 {
        true => Ok((keys, whose)),
        false => Err(Failure::Usage(format!(
            "{whose} has {} keys; expected two lines, an Ed25519 and an ML-DSA-44 key",
            keys.len()
        ))),
    }
}

fn prove(index: u64, file: Option<&PathBuf>, json: bool) -> Result<(), Failure> {
    let client = client()?;
    let (keys, _) = keys(file, Some(&client))?;
    let proof: Proof = client.get(&format!("/v1/kms/audit/proof?index={index}"))?;
    if proof.index != index || !proof.check(&keys).map_err(refused)? {
        return Err(Failure::No(format!(
            "the service's answer does not prove that record {index} is in its log"
        )));
    }
    match json {
        true => say_json(&proof)?,
        false => say!("{}", proof.record),
    }
    Ok(())
}

/// Maps a damaged log to exit code 1 and an unreadable one to an error.
fn refused(error: gabion_kms_server::audit::AuditError) -> Failure {
    use gabion_kms_server::audit::AuditError;
    let text = error.to_string();
    match error {
        AuditError::Damaged { .. } => Failure::No(text),
        AuditError::Parameter(_) => Failure::Usage(text),
        _ => Failure::NotReady(text),
    }
}

//! `gabion kms audit`: what the service did, and that nobody changed what it says of that.

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
/// Needs a token that allows `audit`.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Print JSON: the service's answer on one line, or a line for each record
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
    /// Reading the log is told of in the log, too; what --follow reads is not shown by it as far as nothing else happened.
    #[command(verbatim_doc_comment)]
    Tail {
        /// Go on with records as they come, until Ctrl-C
        #[arg(long)]
        follow: bool,
        /// How many records to begin with
        #[arg(long, value_name = "N", default_value = "10")]
        lines: u32,
        /// Begin with the record of this index instead
        #[arg(long, value_name = "INDEX", conflicts_with = "lines")]
        from: Option<u64>,
    },
    /// Print the keys that verify checkpoints, one a line
    ///
    /// Example:
    ///   gabion kms audit keys > kms.vkeys
    ///
    /// Keep them where whoever can write the log can't: `verify` and `prove` take them by --keys.
    #[command(verbatim_doc_comment)]
    Keys,
    /// Verify the log: each record, each tile, and both signatures of the checkpoint
    ///
    /// Example:
    ///   gabion kms audit verify
    ///
    /// With DIR that of a folder, offline, which needs --keys; else that of the service: its records and entries, as it
    /// gives them, against its checkpoint. Exits 1 where something is wrong.
    #[command(verbatim_doc_comment)]
    Verify(verify::Args),
    /// Print what proves that a record is in the log, after checking it
    ///
    /// Example:
    ///   gabion kms audit prove 0
    ///
    /// Prints the record; with --json all of the proof: record, salt, path, checkpoint. Exits 1 where it proves nothing.
    #[command(verbatim_doc_comment)]
    Prove {
        /// Which record, from 0
        index: u64,
        /// File with the keys of the log, as `keys` prints them [default: ask the service]
        #[arg(long, value_name = "FILE")]
        keys: Option<PathBuf>,
    },
    /// Have the service move full segments to the folder that its configuration names
    ///
    /// Example:
    ///   gabion kms audit archive --keep-days 90
    ///
    /// All of them if nothing else is said; those that neither option keeps otherwise. Tiles and checkpoint stay, so that the
    /// log verifies as before.
    #[command(verbatim_doc_comment)]
    Archive {
        /// Keep segments with a record that is not older
        #[arg(long, value_name = "DAYS")]
        keep_days: Option<u64>,
        /// Keep the newest segments, as far as all take at most so many MiB
        #[arg(long, value_name = "MIB")]
        keep_mib: Option<u64>,
    },
}

/// Records that are asked for at once.
const PAGE: u32 = 1000;

/// How often it is asked whether there are more.
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
                    eprintln!("{} records were moved", done.records);
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
    // What there was before this command itself is told of.
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
            // Of two records more the last one tells of this very request.
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

/// An entry, of what the service says of one.
fn entry(said: &AuditRecord) -> Result<Entry, Failure> {
    let record: Result<Record, _> = serde_json::from_value(said.record.clone());
    let salt = decode(&said.salt).and_then(|salt| <[u8; 32]>::try_from(salt).ok());
    match (record, salt) {
        (Ok(record), Some(salt)) => Ok(Entry { index: said.index, salt, record }),
        (Err(_), _) | (_, None) => {
            let why = "is none that this program knows; is the service newer?";
            Err(Failure::NotReady(format!("record {} {why}", said.index)))
        }
    }
}

/// Keys of a log, of a file or as the service says, and whose word they are.
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
            let why = "a folder is verified by keys from elsewhere: --keys FILE, as `gabion kms audit keys` prints them";
            return Err(Failure::Usage(why.to_owned()));
        }
    };
    // One of the two alone would let the other signature be anything.
    match keys.len() >= 2 {
        true => Ok((keys, whose)),
        false => Err(Failure::Usage(format!(
            "{whose} has {} keys; expected two lines: Ed25519's and ML-DSA-44's",
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
            "what the service sent does not prove that record {index} is in its log"
        )));
    }
    match json {
        true => say_json(&proof)?,
        false => say!("{}", proof.record),
    }
    Ok(())
}

/// What is wrong with a log is an answer; what can't be read is not.
fn refused(error: gabion_kms_server::audit::AuditError) -> Failure {
    use gabion_kms_server::audit::AuditError;
    let text = error.to_string();
    match error {
        AuditError::Damaged { .. } => Failure::No(text),
        AuditError::Parameter(_) => Failure::Usage(text),
        _ => Failure::NotReady(text),
    }
}

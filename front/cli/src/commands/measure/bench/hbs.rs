//! `gabion bench hbs`: what hash-based signatures with a state cost.

use std::io::Write;
use std::path::PathBuf;

use clap::Parser;
use gabion_bench::hbs::{self, Config, Row};
use gabion_rows::operations::Peer;
use gabion_rows::{Row as Any, read};
use regex::Regex;

use crate::failure::Failure;
use crate::files;
use crate::stamp::Stamped;

/// Measure keys, signatures and verifications of HSS, XMSS and XMSS^MT, and how far they are from their hashes
///
/// Example:
///   gabion bench hbs --filter L3_H5_W4 --seconds 0.2 --json
///
/// Sets are levels, height and bits of a digit, as wolfSSL names them, with SHA-256 and n = 32. Keys are made with all trees
/// that the first signature needs, on one thread and on all. Signing takes its indexes from a state in memory, and includes
/// the check before release and the share of the next tree. The floor is what the hashes would take, with all lanes full
/// where they are independent. `max/med` is the slowest signature. `5.6.3` is what wolfSSL's manual has of the set: operations
/// a second of 1 and 4 threads of an i7-8700, by hash-sigs.
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only rows whose `set:operation` matches, as in `L2_.*:sign`
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Time for each row; may be fractional
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Rows of other libraries on this processor, that bench/peers/run.sh wrote; may be given again
    #[arg(long, value_name = "FILE")]
    peers: Vec<PathBuf>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let peers = peers(&args.peers)?;
    let config = Config { filter: args.filter, seconds: args.seconds };
    let (mut failed, mut first) = (None, true);
    hbs::measure(&config, |mut row| {
        row.hold_against(peers.iter());
        let line = if args.json {
            serde_json::to_string(&Stamped::now(&row)).map_err(|cause| cause.to_string())
        } else {
            let head = if std::mem::take(&mut first) { head(&row) } else { String::new() };
            Ok(head + &table_line(&row))
        };
        // Each row is printed as it comes: a run over everything takes minutes.
        let mut out = std::io::stdout().lock();
        let written = line.and_then(|line| {
            writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|cause| cause.to_string())
        });
        failed = written.err();
        failed.is_none()
    })?;
    match failed {
        None => Ok(0),
        Some(cause) => Err(Failure::NotReady(format!("cannot write the result: {cause}"))),
    }
}

/// The rows of other libraries in these files.
fn peers(paths: &[PathBuf]) -> Result<Vec<Peer>, Failure> {
    let mut peers = Vec::new();
    for path in paths {
        let name = files::shown(path, "standard input");
        let bytes = files::read(path, files::LARGE_MAX)?;
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| Failure::Usage(format!("{name} holds no text")))?;
        let records = read(text).map_err(|cause| Failure::Usage(format!("{name}: {cause}")))?;
        let before = peers.len();
        peers.extend(records.into_iter().filter_map(|record| match record.row {
            Any::Peer(peer) => Some(peer),
            _ => None,
        }));
        if peers.len() == before {
            let text =
                format!("{name} has no rows of other libraries; bench/peers/run.sh writes them");
            return Err(Failure::Usage(text));
        }
    }
    Ok(peers)
}

fn head(row: &Row) -> String {
    let [lane, alone] = row.cycles_per_compression;
    format!(
        "{}, {} cores; a compression takes {} cycles in lanes, {} alone\n\
         {:<21} {:>6} {:<9} {:>5} {:>7} {:>11} {:>10} {:>11} {:>6} {:>7} {:>14} {:>6} {}\n",
        row.machine.cpu,
        row.machine.cores,
        cell(lane, 1),
        cell(alone, 1),
        "set",
        "bytes",
        "operation",
        "batch",
        "threads",
        "cycles/op",
        "ops/s",
        "floor",
        "/floor",
        "max/med",
        "5.6.3",
        "ratio",
        "to"
    )
}

fn table_line(row: &Row) -> String {
    let seed = row.seed_ops_per_s.map(|[one, four]| format!("{one:.0} {four:.0}"));
    format!(
        "{:<21} {:>6} {:<9} {:>5} {:>7} {:>11} {:>10} {:>11} {:>6} {:>7} {:>14} {:>6} {}",
        row.set,
        row.signature_bytes,
        row.operation.word(),
        row.batch,
        row.threads,
        cell(row.core_cycles_per_op, 0),
        if row.ops_per_s < 100.0 {
            cell(Some(row.ops_per_s), 2)
        } else {
            cell(Some(row.ops_per_s), 0)
        },
        cell(row.floor_cycles, 0),
        cell(row.over_floor, 2),
        cell(row.max_over_median, 2),
        seed.as_deref().unwrap_or("-"),
        cell(row.ratio, 2),
        row.peer.as_deref().unwrap_or("-")
    )
}

/// A number with so many decimals, or a dash.
fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

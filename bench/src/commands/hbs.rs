//! `gabion bench hbs`: what hash-based signatures with a state cost.

use std::io::Write;
use std::path::PathBuf;

use crate::hbs::{self, Config, Row, durable};
use clap::Parser;
use gabion_rows::operations::Peer;
use gabion_rows::{Row as Any, read};
use regex::Regex;
use serde::Serialize;

use gabion_cli::failure::Failure;
use gabion_cli::files;
use gabion_cli::stamp::StampedRow;

/// Measure HSS, XMSS and XMSS^MT, and compare them with the cost of their hashes
///
/// Example:
///   gabion bench hbs --filter L3_H5_W4 --seconds 0.2 --json
///   gabion bench hbs --durable --filter L3_H5_W4 --seconds 0.2
///
/// HSS sets have wolfSSL's names (levels, height, bits per digit), with SHA-256 and n = 32. Key
/// generation includes all trees that the first signature needs, on one thread and on all. Signing
/// takes its indexes from a state in memory, and includes verifying the signature before release
/// and a share of the next tree. The floor is the cost of the hashes, with full lanes where they
/// are independent. `max/med` is the slowest signature over the median. `5.6.3` is the value in
/// wolfSSL's manual: operations per second with 1 and 4 threads of an i7-8700, by hash-sigs.
///
/// With --durable, the state is on a disk. 1, 64 and 1024 indexes are reserved at once, and
/// messages are signed one by one and in one call. Signing with a state in memory, and writing and
/// syncing a single block in the same folder, are measured in alternation. The expected time is the
/// time in memory plus the share of the syncs.
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Measure rows whose `set:operation` matches, such as `L2_.*:sign`
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Time for each row, in seconds; may be fractional
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// File with rows of other libraries on this processor, written by bench/peers/run.sh; may be
    /// given several times
    #[arg(long, value_name = "FILE")]
    peers: Vec<PathBuf>,
    /// Measure signing with the state on a disk
    #[arg(long, conflicts_with = "peers")]
    durable: bool,
    /// Folder on the disk to measure; files created in it are removed
    #[arg(long, value_name = "DIR", default_value = ".", requires = "durable")]
    folder: PathBuf,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Args { filter, seconds, json, .. } = args;
    let mut printed = RowPrinter { json, is_first: true, failed: None };
    if args.durable {
        let config = durable::Config { filter, seconds, folder: args.folder };
        durable::measure(&config, |row| printed.print(&row, durable_head, durable_line))?;
    } else {
        let peers = peers(&args.peers)?;
        hbs::measure(&Config { filter, seconds }, |mut row| {
            row.compare_with_peers(peers.iter());
            printed.print(&row, head, table_line)
        })?;
    }
    match printed.failed {
        None => Ok(0),
        Some(cause) => Err(Failure::NotReady(format!("cannot write the result: {cause}"))),
    }
}

/// A printer of rows, each as soon as it is measured: a run over everything takes minutes.
struct RowPrinter {
    json: bool,
    is_first: bool,
    failed: Option<String>,
}

impl RowPrinter {
    /// Returns whether that worked.
    fn print<R: Serialize>(
        &mut self,
        row: &R,
        head: impl Fn(&R) -> String,
        table_line: impl Fn(&R) -> String,
    ) -> bool {
        let line = if self.json {
            serde_json::to_string(&StampedRow::now(row)).map_err(|cause| cause.to_string())
        } else {
            let is_first = std::mem::take(&mut self.is_first);
            let head = if is_first { head(row) } else { String::new() };
            Ok(head + &table_line(row))
        };
        let mut out = std::io::stdout().lock();
        let written = line.and_then(|line| {
            writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|cause| cause.to_string())
        });
        self.failed = written.err();
        self.failed.is_none()
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

fn durable_head(row: &durable::Row) -> String {
    format!(
        "{}, {} cores\n{:<21} {:>5} {:>7} {:>10} {:>10} {:>9} {:>8} {:>10} {:>7} {:>8}\n",
        row.machine.cpu,
        row.machine.cores,
        "set",
        "batch",
        "reserve",
        "us/op",
        "in memory",
        "fdatasync",
        "syncs/op",
        "expected",
        "/expect",
        "/memory",
    )
}

fn durable_line(row: &durable::Row) -> String {
    format!(
        "{:<21} {:>5} {:>7} {:>10.1} {:>10.1} {:>9.1} {:>8.4} {:>10.1} {:>7.2} {:>8.2}",
        row.set,
        row.batch,
        row.reserve,
        row.us_per_op,
        row.memory_us_per_op,
        row.fdatasync_us,
        row.syncs_per_op,
        row.expected_us_per_op,
        row.over_expected,
        row.over_memory,
    )
}

/// A number with so many decimals, or a dash.
fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

//! `gabion bench kms`: what requests to the key management service cost.

use std::io::Write;

use crate::kms::{self, Config, Row};
use clap::Parser;
use gabion_rows::kms::Durability;
use regex::Regex;

use gabion_cli::failure::Failure;
use gabion_cli::stamp::StampedRow;

/// Measure requests to the key management service: latency, and CPU time of the server
///
/// Example:
///   gabion bench kms --filter 'ed25519:sign:written:https' --seconds 2 --json
///
/// Starts a server with a store in a temporary folder; connections use TLS 1.3 and are kept open.
/// Messages have 128 bytes. A single client runs on the second core and its server on the first;
/// several clients share all cores with the server. Each row alternates with no-op requests, whose
/// median is the floor. `written`: answered once the audit log has the use; `durable`: once the
/// disk has it. A durable row also contains the same request in class `written`, and fdatasync.
/// `fresh` verifies with one of 256 previously used keys, `cold` with keys that are in no cache.
/// With clients that wait for answers, p99 hides stalls; with 16 clients, requests are also issued
/// at random times, at half the maximum rate. `start` is the time from the start to the first
/// answer, with one key and with --keys keys; `cold-sign` is the first use of other keys after
/// that. `others` is the share of CPU time used by the hypervisor and other processes.
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Measure rows whose `algorithm:request:class:through` matches, such as
    /// `ml-dsa-65:sign:.*:https`; scheduled requests have the suffix `:due`
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Time for each row, in seconds; may be fractional
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Rounds per row
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Number of keys in the store for `start`; generating a million takes minutes
    #[arg(long, value_name = "N", default_value_t = 1000)]
    keys: usize,
    /// Concurrent requests that the server coalesces: any, tenant (requests of one tenant), off
    #[arg(long, value_name = "WHOSE", default_value = "any")]
    coalesce: String,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// The server's configuration; written by the command itself
    #[arg(long, hide = true)]
    task: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if let Some(task) = args.task {
        let mut told = Ok(());
        kms::serve(&task, |line| told = print_line(line))?;
        return told.map(|()| 0);
    }
    let Args { filter, seconds, rounds, keys, coalesce, .. } = args;
    let config = Config { filter, seconds, rounds, keys, coalesce };
    let (mut failed, mut first) = (Ok(()), true);
    kms::measure(&config, |row| {
        let line = if args.json {
            serde_json::to_string(&StampedRow::now(&row)).map_err(not_ready)
        } else {
            let head = if std::mem::take(&mut first) { head(&row) } else { String::new() };
            Ok(head + &table_line(&row))
        };
        // Each row is printed as it comes.
        failed = line.and_then(|line| print_line(&line));
        failed.is_ok()
    })?;
    failed.map(|()| 0)
}

fn print_line(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(not_ready)
}

fn not_ready(cause: impl std::fmt::Display) -> Failure {
    Failure::NotReady(format!("cannot write the result: {cause}"))
}

fn head(row: &Row) -> String {
    format!(
        "{}, {} cores\n{:<10} {:<9} {:<8} {:<8} {:>7} {:>5} {:>8} {:>9} {:>9} {:>9} {:>10} {:>9} {:>8} {:>8} {:>9} {:>9} {:>6}\n",
        row.machine.cpu,
        row.machine.cores,
        "algorithm",
        "request",
        "through",
        "class",
        "clients",
        "batch",
        "keys",
        "us p50",
        "us p99",
        "us max",
        "server us",
        "ops/s",
        "floor us",
        "/floor",
        "written",
        "fdatasync",
        "others"
    )
}

fn table_line(row: &Row) -> String {
    format!(
        "{:<10} {:<9} {:<8} {:<8} {:>7} {:>5} {:>8} {:>9.1} {:>9.1} {:>9.1} {:>10} {:>9.0} {:>8} {:>8} {:>9} {:>9} {:>5.0}%",
        if row.algorithm.is_empty() { "-" } else { &row.algorithm },
        row.request.word(),
        row.through.word(),
        row.class.map_or("-", Durability::word),
        row.clients,
        row.batch,
        row.keys.map_or("-".to_owned(), |keys| keys.to_string()),
        row.us.p50,
        row.us.p99,
        row.us.max,
        cell(row.server_us_per_op, 1),
        row.ops_per_s,
        cell(row.floor_us, 1),
        cell(row.over_floor, 2),
        cell(row.written_us, 1),
        cell(row.fdatasync_us, 1),
        (row.around.steal + row.around.others) * 100.0
    )
}

/// A number with so many decimals, or a dash.
fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

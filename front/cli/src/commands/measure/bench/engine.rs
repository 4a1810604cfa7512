//! `gabion bench engine`: what one operation costs.

use std::io::Write;

use clap::Parser;
use gabion_bench::engine::{self, Config, Row};
use regex::Regex;

use crate::failure::Failure;
use crate::stamp::Stamped;

/// Measure the engine's operations: time, core cycles and operations a second
///
/// Example:
///   gabion bench engine --filter 'ML-DSA-65:sign' --batch 16 --seconds 0.5
///
/// Every result is first compared with the portable backend's, or verified by it where randomness
/// decides it. Cycles are core cycles, measured
/// against a chain of instructions of known length, since clocks drift. Signing is the mean over
/// 1024 messages, whose numbers of attempts differ; everything else is a median. `fresh` decodes,
/// checks and expands an encoded key on the way, `cached` uses an expanded one. Keys of RSA are not
/// made: that takes seconds.
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only rows whose `algorithm:operation:key` matches, as in `768:(en|de)caps:cached`
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Only this backend [default: the best one, or GABION_BACKEND]
    #[arg(long, value_name = "B")]
    backend: Option<String>,
    /// Operations in one call
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// Threads side by side
    #[arg(long, value_name = "T", default_value_t = 1)]
    threads: usize,
    /// Time for each row; may be fractional
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let config = Config {
        filter: args.filter,
        backend: args.backend,
        batch: args.batch,
        threads: args.threads,
        seconds: args.seconds,
    };
    let width = config.wanted().map(|case| case.algorithm.name().len()).max().unwrap_or(0).max(12);
    let mut failed = None;
    let mut first = true;
    engine::measure(&config, |row| {
        let line = if args.json {
            serde_json::to_string(&Stamped::now(&row)).map_err(|cause| cause.to_string())
        } else {
            let head = if std::mem::take(&mut first) { head(&row, width) } else { String::new() };
            Ok(head + &table_line(&row, width))
        };
        // Each row is printed as it comes: a run over everything takes many minutes.
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

fn head(row: &Row, width: usize) -> String {
    format!(
        "{}, {} cores\n{:<width$} {:<9} {:<6} {:<17} {:>5} {:>7} {:>11} {:>9} {:>9} {:>11}\n",
        row.machine.cpu,
        row.machine.cores,
        "algorithm",
        "operation",
        "key",
        "code",
        "batch",
        "threads",
        "cycles/op",
        "us p50",
        "us p99",
        "ops/s"
    )
}

fn table_line(row: &Row, width: usize) -> String {
    let cycles = row.figures.core_cycles_per_op;
    format!(
        "{:<width$} {:<9} {:<6} {:<17} {:>5} {:>7} {:>11} {:>9.2} {:>9.2} {:>11.0}",
        row.subject.algorithm,
        row.subject.operation.word(),
        row.subject.key.word(),
        row.code,
        row.batch,
        row.threads,
        cycles.map_or("-".to_owned(), |cycles| format!("{cycles:.0}")),
        row.figures.ns_per_op.p50 / 1e3,
        row.figures.ns_per_op.p99 / 1e3,
        row.figures.ops_per_s
    )
}

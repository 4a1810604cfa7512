//! `gabion bench engine`: what one operation costs.

use std::io::Write;

use crate::engine::{self, Config, Row};
use clap::Parser;
use regex::Regex;

use super::gpu;
use gabion_cli::failure::Failure;
use gabion_cli::stamp::StampedRow;

/// Measure the engine's operations: time, core cycles, operations per second
///
/// Example:
///   gabion bench engine --filter 'ML-DSA-65:sign' --batch 16 --seconds 0.5
///
/// Every result is first compared with the portable backend's, or verified by it if it depends on
/// randomness. Cycles are core cycles, calibrated with an instruction chain of known length.
/// Signing is the mean over 1024 messages, because the number of attempts varies; everything else
/// is a median. `fresh` includes decoding, checking and expanding an encoded key; `cached` uses an
/// expanded key. RSA key generation is not measured, because it takes seconds.
///
/// With `--backend cuda`, every row measures batches on a GPU: the kernels alone, timed by the
/// device's events, and the elapsed time of callers, including copies, with threads that each wait
/// for a batch. An operation counts only if its result was checked. The largest batch is also
/// measured with ordinary memory. Operations that the GPU does not support are listed on standard
/// error.
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Measure rows whose `algorithm:operation:key` matches, such as `768:(en|de)caps:cached`
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Backend to measure [default: the best one, or GABION_BACKEND]
    #[arg(long, value_name = "B")]
    backend: Option<String>,
    /// Operations per call, one or several sizes: 64 or 1,4k,1M [default: 1; with cuda, nine sizes
    /// from 1 to 1M]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = gpu::size)]
    batch: Vec<usize>,
    /// Number of threads [default: 1; with cuda, the number of cores, at most 8]
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
    /// Time for each row, in seconds; may be fractional
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    gpu: gpu::Options,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if args.backend.as_deref() == Some(gpu::BACKEND) {
        let usual = crate::gpu::Config::default();
        let batches = if args.batch.is_empty() { usual.batches.clone() } else { args.batch };
        let (filter, threads, seconds) = (args.filter, args.threads, args.seconds);
        let config = crate::gpu::Config { filter, batches, threads, seconds, ..usual };
        return args.gpu.run(config, args.json);
    }
    if let Some(option) = args.gpu.of_a_gpu() {
        return Err(Failure::Usage(format!("{option} is for a GPU; expected --backend cuda, too")));
    }
    let mut config = Config {
        filter: args.filter,
        backend: args.backend,
        batch: 1,
        threads: args.threads.unwrap_or(1),
        seconds: args.seconds,
    };
    let mut is_first = true;
    for batch in if args.batch.is_empty() { vec![1] } else { args.batch } {
        config.batch = batch;
        measure(&config, args.json, &mut is_first)?;
    }
    Ok(0)
}

/// The rows of one size of a batch.
fn measure(config: &Config, is_json: bool, is_first: &mut bool) -> Result<(), Failure> {
    let width =
        config.selected().map(|case| case.algorithm.name().len()).max().unwrap_or(0).max(12);
    let mut failed = None;
    engine::measure(config, |row| {
        let line = if is_json {
            serde_json::to_string(&StampedRow::now(&row)).map_err(|cause| cause.to_string())
        } else {
            let head = if std::mem::take(is_first) { head(&row, width) } else { String::new() };
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
        None => Ok(()),
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

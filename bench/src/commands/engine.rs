//! `gabion bench engine`: what one operation costs.

use std::io::Write;

use crate::engine::{self, Config, Row};
use clap::Parser;
use regex::Regex;

use super::gpu;
use gabion_cli::failure::Failure;
use gabion_cli::stamp::StampedRow;

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
///
/// With `--backend cuda` every row is one of batches on a GPU: what its kernels take by themselves, by the device's
/// own events, and what callers get, copies included, by the clock on the wall, with threads that each wait for a batch.
/// An operation counts when its result was checked. The largest batch is measured once more with ordinary memory.
/// What the GPU does not do is named on standard error.
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only rows whose `algorithm:operation:key` matches, as in `768:(en|de)caps:cached`
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Only this backend [default: the best one, or GABION_BACKEND]
    #[arg(long, value_name = "B")]
    backend: Option<String>,
    /// Operations in one call, one size or several: 64 or 1,4k,1M [default: 1; with cuda, nine sizes from 1 to 1M]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = gpu::size)]
    batch: Vec<usize>,
    /// Threads side by side [default: 1; with cuda, one for each core and 8 at most]
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
    /// Time for each row; may be fractional
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Print one JSON object a line
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

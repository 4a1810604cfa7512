//! `gabion probe TARGET..`: tells whether connections to servers are post-quantum, and why one is
//! not.

mod metrics;
mod text;

use std::collections::HashSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gabion_probe::cbom::Cbom;
use gabion_probe::handshake::Authorities;
use gabion_probe::pool::{self, PARALLEL_DEFAULT, PARALLEL_MAX};
use gabion_probe::probe::{Options, Prober};
use gabion_probe::report::Report;
use gabion_probe::results::Results;
use gabion_probe::target::{Opening, Protocol, StartTls, Target};
use gabion_ship::progress::Stage;

use super::inventory::{unix_now, write_cbom};
use crate::failure::Failure;
use crate::files;

/// Exit code if a target is not post-quantum.
const NO: u8 = 1;
/// The longest list, in bytes.
const LIST_MAX: u64 = 64 << 20;
/// The longest file of authorities, in bytes.
const AUTHORITIES_MAX: u64 = 16 << 20;

/// Tell whether connections to servers are post-quantum, and why one is not.
///
/// Exits 0 if every key exchange is post-quantum, 1 if not, or if a server does not answer.
#[derive(Parser)]
#[command(after_help = "Examples:
  gabion probe example.com
  gabion probe mail.example.com --starttls smtp
  gabion probe --file servers.txt --results results.jsonl --json\n
Each line of LIST is a target, optionally followed by `ssh` or `starttls=PROTOCOL`.")]
pub struct Args {
    /// Servers: HOST or HOST:PORT
    #[arg(value_name = "TARGET", required_unless_present = "file")]
    targets: Vec<String>,

    /// Read targets from a file, one a line; `-` is standard input
    #[arg(long, value_name = "LIST")]
    file: Option<PathBuf>,

    /// Start TLS with the STARTTLS command of this protocol
    #[arg(long, value_name = "PROTOCOL", value_parser = starttls_parser())]
    starttls: Option<StartTls>,

    /// Probe SSH servers
    #[arg(long, conflicts_with = "starttls")]
    ssh: bool,

    /// Send the ClientHello in several forms: print which get through, and how to ask for one
    #[arg(long, conflicts_with = "ssh")]
    matrix: bool,

    /// Verify the servers' certificates with the authorities in this file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Append each report to this file as a line of JSON, and skip targets that it has already
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,

    /// Write what the servers negotiated as a cryptography bill of materials (CycloneDX 1.7);
    /// replaces an existing file
    #[arg(long, value_name = "FILE")]
    cbom: Option<PathBuf>,

    /// Probe this many servers at once
    #[arg(long, value_name = "N", default_value_t = PARALLEL_DEFAULT as u64,
          value_parser = clap::value_parser!(u64).range(1..=PARALLEL_MAX as u64))]
    parallel: u64,

    /// Timeout for each step of a connection, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,

    /// Print one JSON object for each target, in the order in which they finish
    #[arg(long, conflicts_with = "metrics")]
    json: bool,

    /// Print metrics in the text format of Prometheus
    #[arg(long)]
    metrics: bool,
}

/// Returns the parser of the option `--starttls`.
pub fn starttls_parser() -> impl TypedValueParser<Value = StartTls> {
    PossibleValuesParser::new(StartTls::ALL.map(StartTls::as_str))
        .try_map(|name| name.parse::<StartTls>())
}

/// The form in which reports are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// One server, in full.
    Text,
    /// Several servers, a line each.
    Lines,
    /// A line of JSON for each server.
    Json,
    /// Metrics of Prometheus.
    Metrics,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let opening = Opening {
        protocol: if args.ssh { Protocol::Ssh } else { Protocol::Tls },
        starttls: args.starttls,
    };
    let mut targets = Vec::new();
    for text in &args.targets {
        targets.push(Target::parse(text, opening).map_err(usage)?);
    }
    if let Some(file) = &args.file {
        let list = files::read(file, LIST_MAX)?;
        let name = files::shown(file, "standard input");
        let wrong = |cause: String| Failure::Usage(format!("{name}: {cause}"));
        let text =
            std::str::from_utf8(&list).map_err(|_| wrong("it is not in UTF-8".to_owned()))?;
        targets
            .extend(Target::parse_list(text, opening).map_err(|cause| wrong(cause.to_string()))?);
        if targets.is_empty() {
            return Err(wrong("it has no target".to_owned()));
        }
    }
    let mut known = HashSet::new();
    targets.retain(|target| known.insert(target.clone()));
    let output = match (args.json, args.metrics, targets.len()) {
        (true, _, _) => Output::Json,
        (_, true, _) => Output::Metrics,
        (_, _, 1) => Output::Text,
        _ => Output::Lines,
    };
    let prober = prober(args.ca.as_deref(), args.timeout, args.matrix)?;
    let parallel = usize::try_from(args.parallel).unwrap_or(PARALLEL_MAX);
    let files = OutputFiles { results: args.results.as_deref(), cbom: args.cbom.as_deref() };
    survey(&prober, targets, &files, parallel, output)
}

/// Probes one server for `gabion preflight --probe`.
///
/// # Errors
/// [`Failure::Usage`] if the target or the file of authorities is invalid.
pub fn run_one(
    target: &str,
    starttls: Option<StartTls>,
    ca: Option<&Path>,
    timeout: u64,
    json: bool,
) -> Result<u8, Failure> {
    let opening = Opening { protocol: Protocol::Tls, starttls };
    let target = Target::parse(target, opening).map_err(usage)?;
    let output = if json { Output::Json } else { Output::Text };
    survey(&prober(ca, timeout, false)?, vec![target], &OutputFiles::default(), 1, output)
}

fn usage(cause: gabion_probe::target::TargetError) -> Failure {
    Failure::Usage(cause.to_string())
}

fn prober(ca: Option<&Path>, timeout: u64, has_matrix: bool) -> Result<Prober, Failure> {
    let authorities = match ca {
        Some(file) => {
            let text = files::read(file, AUTHORITIES_MAX)?;
            let authorities = Authorities::from_pem(&text).map_err(|cause| {
                Failure::Usage(format!("--ca {}: {cause}", files::shown(file, "standard input")))
            })?;
            Some(Arc::new(authorities))
        }
        None => None,
    };
    Ok(Prober::new(Options { limit: Duration::from_secs(timeout), authorities, has_matrix }))
}

/// The files that a survey writes.
#[derive(Default)]
struct OutputFiles<'a> {
    results: Option<&'a Path>,
    cbom: Option<&'a Path>,
}

/// Probes the targets, prints their reports and returns the exit code.
fn survey(
    prober: &Prober,
    mut targets: Vec<Target>,
    written: &OutputFiles<'_>,
    parallel: usize,
    output: Output,
) -> Result<u8, Failure> {
    let mut printer = Printer::new(output, &targets);
    printer.cbom = written.cbom.map(|_| Cbom::new());
    let mut printed = Ok(());
    let mut results = match written.results {
        Some(file) => {
            let opened = Results::open(file, &mut targets, prober.has_authorities(), |report| {
                if printed.is_ok() {
                    printed = printer.print(report);
                }
            });
            let name = files::shown(file, "standard input");
            Some(opened.map_err(|cause| Failure::Usage(format!("--results {name}: {cause}")))?)
        }
        None => None,
    };
    printed?;
    let mut progress = printer.has_progress().then(|| Stage::start("probing", targets.len()));
    let mut done = 0;
    pool::run(prober, &targets, parallel, |report| {
        if let Some(results) = &mut results {
            results.append(&report).map_err(|cause| {
                Failure::NotReady(format!("cannot write the results: {}", files::words(&cause)))
            })?;
        }
        printer.print(report)?;
        done += 1;
        if let Some(progress) = &mut progress {
            progress.step(done);
        }
        Ok::<(), Failure>(())
    })?;
    if let Some(progress) = progress {
        progress.done();
    }
    if let (Some(path), Some(cbom)) = (written.cbom, &printer.cbom) {
        write_cbom(path, cbom, unix_now())?;
    }
    printer.finish()
}

/// Prints reports as they come, and counts them.
struct Printer {
    output: Output,
    is_single: bool,
    /// The width of the longest target.
    width: usize,
    tally: text::Tally,
    metrics: metrics::Metrics,
    cbom: Option<Cbom>,
}

impl Printer {
    fn new(output: Output, targets: &[Target]) -> Printer {
        let width = targets.iter().map(|target| target.to_string().len()).max().unwrap_or(0);
        Printer {
            output,
            is_single: targets.len() == 1,
            width,
            tally: text::Tally::default(),
            metrics: metrics::Metrics::default(),
            cbom: None,
        }
    }

    /// Returns whether a progress bar would not be disturbed by the output.
    fn has_progress(&self) -> bool {
        let is_long = !matches!(self.output, Output::Text);
        is_long && std::io::stderr().is_terminal() && !std::io::stdout().is_terminal()
    }

    fn print(&mut self, report: Report) -> Result<(), Failure> {
        self.tally.count(&report);
        if let Some(cbom) = &mut self.cbom {
            cbom.add_report(&report);
        }
        match self.output {
            Output::Text => {
                text::print(&report)?;
                for problem in &report.problems {
                    eprintln!("error: {}", crate::failure::plain(problem));
                }
            }
            Output::Lines => text::print_line(&report, self.width)?,
            Output::Json => {
                let line = serde_json::to_string(&report).map_err(|cause| {
                    Failure::NotReady(format!("cannot write the report as JSON: {cause}"))
                })?;
                say!("{line}");
                for problem in report.problems.iter().filter(|_| self.is_single) {
                    eprintln!("error: {}", crate::failure::plain(problem));
                }
            }
            Output::Metrics => self.metrics.add(&report),
        }
        Ok(())
    }

    /// Prints what follows the last report, and returns the exit code.
    fn finish(&self) -> Result<u8, Failure> {
        match self.output {
            Output::Lines => say!("{}", self.tally),
            Output::Metrics => crate::stdout::print(format_args!("{}", self.metrics))?,
            Output::Text | Output::Json => {}
        }
        Ok(if self.tally.is_ok() { 0 } else { NO })
    }
}

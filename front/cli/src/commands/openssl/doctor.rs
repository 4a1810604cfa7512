//! `gabion doctor`: what is there, what works, and what mends the rest.

mod checks;
mod gpu;

use std::path::PathBuf;

use gabion_provider_stats as stats;
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::style::{self, Colour, paint};
use crate::table::{Align, Table};

/// Check the processor, the backends, GPUs, OpenSSL, its FIPS provider and ours
///
/// Example:
///   gabion doctor
///
/// Each check says ok, off (not there, and nothing depends on it) or broken, and what mends it.
/// Exits 1 when something is broken. With --stats, prints instead what a program that runs with
/// GABION_STATS=FILE has counted so far. With --measure-gpu, measures first from how many lanes on a
/// batch is faster on each GPU, and keeps that for programs that start later.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the counters in this file, which GABION_STATS names
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Measure every operation on the GPUs and on one core, some minutes each
    #[arg(long, conflicts_with = "stats")]
    measure_gpu: bool,
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Not there or not in use, and nothing depends on it.
    Off,
    /// There, and not as it should be.
    Broken,
}

/// One line of the list.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// What was found.
    pub verdict: Verdict,
    /// In words.
    pub detail: String,
    /// What is well now and should be looked at all the same.
    pub warning: Option<String>,
    /// The command that mends it.
    pub mend: Option<String>,
    /// Who did the operation, where the check performed one.
    pub served_by: Option<&'static str>,
}

impl Check {
    /// A check without warning and cure.
    pub fn new(name: impl Into<String>, verdict: Verdict, detail: impl Into<String>) -> Check {
        Check {
            name: name.into(),
            verdict,
            detail: detail.into(),
            warning: None,
            mend: None,
            served_by: None,
        }
    }

    /// With the command that mends it.
    pub fn mended_by(mut self, command: &str) -> Check {
        self.mend = Some(command.to_owned());
        self
    }
}

/// Characters of a detail on one line, beside what stands before it.
const WIDTH: usize = 80;

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if let Some(file) = args.stats {
        return counters(&file, args.json);
    }
    let gpus = if args.measure_gpu { gpu::Gpus::measure()? } else { gpu::Gpus::find() };
    let report = checks::all(&gpus);
    let broken = report.checks.iter().any(|check| check.verdict == Verdict::Broken);
    if args.json {
        let text = serde_json::to_string(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "verdict": if broken { Verdict::Broken } else { Verdict::Ok },
            "checks": report.checks,
            "fips": report.fips,
            "gpus": gpus.json(),
            "machine": gabion_machine::Machine::detect(),
        }));
        say!("{}", text.map_err(|cause| Failure::NotReady(cause.to_string()))?);
    } else {
        print(&report.checks)?;
        for table in gpus.tables() {
            say!("\n{}", crate::failure::plain(&table));
        }
    }
    Ok(u8::from(broken))
}

fn print(checks: &[Check]) -> Result<(), Failure> {
    let colourful = style::is_colourful();
    say!("Gabion {}", env!("CARGO_PKG_VERSION"));
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    for check in checks {
        let (word, colour) = match check.verdict {
            Verdict::Ok => ("ok    ", Colour::Green),
            Verdict::Off => ("off   ", Colour::Yellow),
            Verdict::Broken => ("broken", Colour::Red),
        };
        let indent = " ".repeat(width + 12);
        let detail = crate::failure::plain(&check.detail);
        let detail = style::wrapped(&detail, WIDTH).join(&format!("\n{indent}"));
        say!("  {}  {:<width$}  {detail}", paint(word, colour, colourful), check.name);
        if let Some(warning) = &check.warning {
            let warning = crate::failure::plain(warning);
            let warning = style::wrapped(&warning, WIDTH).join(&format!("\n{indent}"));
            say!("{indent}{} {warning}", paint("warning:", Colour::Yellow, colourful));
        }
        if let Some(mend) = &check.mend {
            say!("{indent}mend it: {}", crate::failure::plain(mend));
        }
    }
    Ok(())
}

/// `--stats FILE`: the counters of a provider that runs or ran.
fn counters(file: &std::path::Path, as_json: bool) -> Result<u8, Failure> {
    let snapshot = stats::read(file).map_err(|cause| Failure::Usage(cause.to_string()))?;
    if as_json {
        let rows: Vec<_> = snapshot
            .rows
            .iter()
            .map(|row| {
                json!({
                    "algorithm": row.algorithm,
                    "operation": row.operation,
                    "calls": row.calls,
                    "errors": row.errors,
                })
            })
            .collect();
        say!("{}", json!({ "file": file, "loads": snapshot.loads, "counters": rows }));
        return Ok(0);
    }
    let (name, loads) = (crate::files::shown(file, "-"), style::count(snapshot.loads, "time"));
    say!("{name}: provider loaded {loads}");
    let mut table = Table::new(&[
        ("algorithm", Align::Left),
        ("operation", Align::Left),
        ("calls", Align::Right),
        ("errors", Align::Right),
    ]);
    let mut none = true;
    for row in snapshot.rows.iter().filter(|row| row.calls + row.errors > 0) {
        none = false;
        let cells = [row.algorithm.clone(), row.operation.clone()];
        table.row(cells.into_iter().chain([row.calls.to_string(), row.errors.to_string()]));
    }
    if none {
        say!("no operation was performed by gabion");
    } else {
        crate::stdout::print(format_args!("{table}"))?;
    }
    Ok(0)
}

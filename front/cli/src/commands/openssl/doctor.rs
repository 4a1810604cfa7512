//! `gabion doctor`: checks the installation and suggests fixes.

mod checks;
mod gpu;

use std::path::PathBuf;

use gabion_provider_stats as stats;
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::style::{self, Colour, paint};
use crate::table::{Align, Table};

/// Check the installation: processor, backends, GPUs, OpenSSL and its providers
///
/// Example:
///   gabion doctor
///
/// Each check reports ok, off (missing, but not required) or broken, and how to fix it. Exits 1 if
/// something is broken. --stats prints the counters of programs that run with GABION_STATS=FILE
/// instead. --measure-gpu first measures, for each GPU, the batch size from which it is faster than
/// one core, and saves the result for programs that start later.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the counters in this file, which is the GABION_STATS of a program
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Measure every operation on the GPUs and on one core; takes some minutes each
    #[arg(long, conflicts_with = "stats")]
    measure_gpu: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Works as expected.
    Ok,
    /// Missing or not in use, but not required.
    Off,
    /// Present but faulty.
    Broken,
}

/// One line of the list.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The checked item.
    pub name: String,
    /// The result.
    pub verdict: Verdict,
    /// The result in words.
    pub detail: String,
    /// A problem that does not affect the result.
    pub warning: Option<String>,
    /// The command that fixes it.
    pub mend: Option<String>,
    /// The provider that performed the operation, for checks that perform one.
    pub served_by: Option<&'static str>,
}

impl Check {
    /// Returns a check without a warning or a fix.
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

    /// Adds the command that fixes the problem.
    pub fn mended_by(mut self, command: &str) -> Check {
        self.mend = Some(command.to_owned());
        self
    }
}

/// Maximum width of a detail, without the columns before it.
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
            say!("{indent}to fix: {}", crate::failure::plain(mend));
        }
    }
    Ok(())
}

/// Prints the counters of a provider (`--stats FILE`).
fn counters(file: &std::path::Path, as_json: bool) -> Result<u8, Failure> {
    let snapshot = stats::read(file).map_err(|cause| Failure::Usage(cause.to_string()))?;
    if as_json {
        say!("{}", counters_json(file, &snapshot));
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
        return Ok(0);
    }
    crate::stdout::print(format_args!("{table}"))?;
    if !snapshot.tls.is_empty() {
        say!("\nTLS:");
        crate::stdout::print(format_args!("{}", tls_table(&snapshot)))?;
    }
    Ok(0)
}

fn counters_json(file: &std::path::Path, snapshot: &stats::Snapshot) -> serde_json::Value {
    let counters = snapshot.rows.iter().map(|row| {
        json!({
            "algorithm": row.algorithm,
            "operation": row.operation,
            "calls": row.calls,
            "errors": row.errors,
        })
    });
    let tls = snapshot.tls.iter().map(|row| {
        json!({
            "program": row.program,
            "side": row.side,
            "event": row.kind,
            "name": row.name,
            "count": row.count,
        })
    });
    json!({
        "file": file,
        "loads": snapshot.loads,
        "counters": counters.collect::<Vec<_>>(),
        "tls": tls.collect::<Vec<_>>(),
    })
}

/// Returns the TLS counters that are not zero, as a table.
fn tls_table(snapshot: &stats::Snapshot) -> Table {
    let mut table = Table::new(&[
        ("program", Align::Left),
        ("side", Align::Left),
        ("event", Align::Left),
        ("name", Align::Left),
        ("count", Align::Right),
    ]);
    for row in &snapshot.tls {
        let side = row.side.as_deref().unwrap_or("-");
        let cells = [row.program.as_str(), side, &row.kind, &row.name].map(crate::failure::plain);
        table.row(cells.into_iter().chain([row.count.to_string()]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_counters_are_shown_by_program() {
        let row = |program: &str, side: Option<&str>, name: &str| stats::TlsRow {
            program: program.to_owned(),
            side: side.map(str::to_owned),
            kind: "key_exchange".to_owned(),
            name: name.to_owned(),
            count: 7,
        };
        let tls =
            vec![row("nginx", Some("server"), "X25519MLKEM768"), row("a\x1b", None, "x25519")];
        let snapshot = stats::Snapshot { loads: 2, tls, ..stats::Snapshot::default() };
        let value = counters_json(std::path::Path::new("stats"), &snapshot);
        assert_eq!(
            value["tls"],
            json!([
                {"program": "nginx", "side": "server", "event": "key_exchange",
                 "name": "X25519MLKEM768", "count": 7},
                {"program": "a\x1b", "side": null, "event": "key_exchange", "name": "x25519", "count": 7},
            ])
        );
        assert_eq!((&value["loads"], &value["counters"]), (&json!(2), &json!([])));
        let text = tls_table(&snapshot).to_string();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.contains(&vec!["nginx", "server", "key_exchange", "X25519MLKEM768", "7"]));
        assert!(lines.contains(&vec!["a\\u{1b}", "-", "key_exchange", "x25519", "7"]), "{text}");
    }
}

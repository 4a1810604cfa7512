//! `gabion report`: results as one page for a browser.

mod chart;
mod comparisons;
mod machines;
mod page;
mod rows;
mod sections;

use std::path::{Path, PathBuf};

use clap::Parser;
use gabion_rows::Record;

use gabion_cli::failure::Failure;
use gabion_cli::files::{self, Access, Output, OverwritePolicy};
use gabion_cli::stamp::Stamp;
use gabion_cli::style;

/// Write measurement results as one HTML page with plots and tables
///
/// Reads the output of `gabion run`, that of the measuring commands with --json, and the files of
/// bench/results. Each machine has its own part; if two rows measured the same on one machine, the
/// later one counts. The page needs no scripts, fonts or network.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench engine --filter ML-KEM-768 --seconds 0.1 --json > engine.ndjson
  gabion report --out report.html engine.ndjson\n
Exits 2 if a file does not contain results.")]
pub struct Args {
    /// Result files with one JSON object, or one per line; `-` is standard input
    /// [default: bench/results/*.ndjson]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// File for the page; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

/// Maximum length of a file: a hundred times the output of a full run.
const FILE_MAX: u64 = 256 << 20;

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let paths = if args.files.is_empty() { usual()? } else { args.files };
    let inputs: Vec<(&str, &Path)> = paths.iter().map(|path| ("FILE", path.as_path())).collect();
    // A page is made of files that are still there, and as often as wanted.
    let [place] = files::places([("--out", &args.out)], &inputs, OverwritePolicy::Replace)?;
    let (mut read_files, mut shown) = (Vec::new(), Vec::new());
    for path in &paths {
        let rows = read(path)?;
        if rows.iter().any(sections::is_shown) {
            shown.push(path.as_path());
        } else {
            let name = files::shown(path, "standard input");
            eprintln!("{name}: nothing that a report shows");
        }
        read_files.push((path.as_path(), rows));
    }
    machines::name(&mut read_files);
    let rows: Vec<Record> = read_files.into_iter().flat_map(|(_, rows)| rows).collect();
    let parts = sections::parts(&rows);
    if parts.is_empty() {
        return Err(Failure::Usage(
            "there is nothing to report; measure with `gabion bench ... --json > FILE` first"
                .into(),
        ));
    }
    let page = page::render(&parts, &imprint(&shown));
    let page = Output::prepare(place, page.as_bytes(), Access::Public, OverwritePolicy::Replace)?;
    files::commit([page])?;
    if args.out.as_os_str() != "-" {
        let count: usize = parts.iter().map(|part| part.sections.len()).sum();
        let count = style::count(count as u64, "section");
        eprintln!("{count} in {}", files::shown(&args.out, "standard output"));
    }
    Ok(0)
}

/// Returns the imprint of a page: program, date and input files.
fn imprint(paths: &[&Path]) -> String {
    let stamp = Stamp::now();
    let name = |path: &&Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let names: Vec<String> = paths.iter().filter_map(name).collect();
    let day = stamp.date.get(..10).unwrap_or("an unknown day");
    format!("Made on {day} by {} of {}.", stamp.program(), names.join(", "))
}

/// Every file of rows in bench/results, by name.
fn usual() -> Result<Vec<PathBuf>, Failure> {
    let folder = Path::new("bench/results");
    let missing = |cause: std::io::Error| {
        Failure::Usage(format!(
            "{} cannot be read: {cause}; name files of results, or start this in the repository",
            folder.display()
        ))
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(missing)? {
        let path = entry.map_err(missing)?.path();
        if path.extension().is_some_and(|extension| extension == "ndjson") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Rows of a file: one object a line, or a single one over many lines.
fn read(path: &Path) -> Result<Vec<Record>, Failure> {
    let bytes = files::read(path, FILE_MAX)?;
    let text = String::from_utf8_lossy(files::without_mark(&bytes));
    let no_results = |cause| format!("{} is no file of results: {cause}", path.display());
    gabion_rows::read(&text).map_err(|cause| Failure::Usage(no_results(cause)))
}

//! `gabion bench openssl` and `gabion bench pkeyutl`: figures of the `openssl` command.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Status;
use crate::machine::Machine;
use crate::openssl_tool::{Openssl, pkeyutl, speed};
use crate::tls::Provider;
use clap::Parser;
use gabion_engine::ALGORITHMS;
use gabion_provider_stats::{self as stats, STATS_VARIABLE};
use gabion_rows::commands::{Pkeyutl, Speed};
use gabion_ship::environment::{FipsMode, Settings};
use serde::Serialize;

use super::setup::{ProviderName, print};
use gabion_cli::failure::Failure;
use gabion_cli::files::{self, Access, Output, OverwritePolicy};
use gabion_cli::table::{Align, Table};

/// Measure algorithms with `openssl speed`, and compare SLH-DSA with ML-DSA
///
/// Prints operations per second of CPU time of one process; with --multi, of elapsed time of all
/// processes together, which depends on the load of the machine. The counters of Gabion's provider
/// show whether it served the operations.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench openssl --seconds 5 --algorithm ML-DSA-87 SLH-DSA-SHAKE-256f\n
Each SLH-DSA set is compared with the ML-DSA set of its category if both are measured: 128 with
ML-DSA-44, 192 with ML-DSA-65, 256 with ML-DSA-87.\n
If a provider does not have an algorithm, the status of its row is \"not served\".\n
Exits 1 after the other rows if a name is unknown, 3 if there is no bundle.")]
pub struct SpeedArgs {
    /// Time for each operation, in whole seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u32,
    /// Number of parallel processes
    #[arg(long, value_name = "N")]
    multi: Option<u32>,
    #[command(flatten)]
    common: CommonOptions,
}

/// Measure signing and verifying with one `openssl pkeyutl` process per operation
///
/// Measures the elapsed time of each process, and of `openssl version`, which computes nothing:
/// mean, median, 95th and 99th percentile, operations per second.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench pkeyutl --msg-bytes 32 --algorithm ML-DSA-65\n
If a provider does not have an algorithm, the status of its row is \"not served\".\n
Exits 1 after the other rows if a name is unknown, 2 if an algorithm does not sign, 3 if there is no
bundle.")]
pub struct PkeyutlArgs {
    /// Length of the message in bytes
    #[arg(long, value_name = "N", default_value_t = 32)]
    msg_bytes: usize,
    /// Number of signatures and of verifications per algorithm
    #[arg(long, value_name = "N", default_value_t = 100)]
    iterations: usize,
    #[command(flatten)]
    common: CommonOptions,
}

/// Options of both commands.
#[derive(clap::Args)]
struct CommonOptions {
    /// Algorithms, by any name that `gabion algorithms` or openssl lists
    #[arg(long, value_name = "A", num_args = 1.., value_delimiter = ',')]
    algorithm: Vec<String>,
    /// Provider to measure; may be given several times [default: default and gabion]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "P")]
    provider: Vec<ProviderName>,
    /// openssl command to measure, 3.5 or newer [default: the bundle's]
    #[arg(long, value_name = "PATH")]
    openssl_bin: Option<PathBuf>,
    /// Also write the result to this file, as one JSON object
    #[arg(long, value_name = "F")]
    output_json: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl CommonOptions {
    fn algorithms(&self, usual: &[&str]) -> Vec<String> {
        match self.algorithm.is_empty() {
            true => usual.iter().map(|name| (*name).to_owned()).collect(),
            false => self.algorithm.clone(),
        }
    }

    /// The command for each provider.
    fn commands(&self) -> Result<Vec<(Provider, Openssl)>, Failure> {
        let settings = Settings::from_process()?;
        let usual = settings.layout.openssl();
        if self.openssl_bin.is_none() && usual.is_file() {
            settings.layout.check_trust()?;
        }
        let program = self.openssl_bin.as_deref().unwrap_or(&usual);
        let mut providers: Vec<Provider> =
            self.provider.iter().map(|name| (*name).into()).collect();
        if providers.is_empty() {
            providers = vec![Provider::Default, Provider::Gabion];
        }
        let (modules, conf) = (settings.modules(), settings.conf(FipsMode::Only));
        let make = |provider: Provider| {
            let made = Openssl::new(program, provider, &modules, &conf)?;
            Ok((provider, made))
        };
        providers.into_iter().map(make).collect()
    }

    /// Measures every algorithm with every provider. A failure does not lose the rows of the
    /// others: it is returned in addition to them.
    fn measure<R>(
        &self,
        algorithms: &[String],
        mut measure: impl FnMut(&Openssl, Provider, &str) -> Result<R, Failure>,
    ) -> Result<Measurements<R>, Failure> {
        let (mut rows, mut version, mut failures) = (Vec::new(), String::new(), Vec::new());
        let commands = self.commands()?;
        for algorithm in algorithms {
            for (provider, openssl) in &commands {
                version = openssl.version()?;
                match measure(openssl, *provider, algorithm) {
                    Ok(row) => rows.push(row),
                    // An invalid argument is wrong for all rows.
                    Err(failure @ Failure::Usage(_)) => return Err(failure),
                    Err(failure) => failures.push(failure),
                }
            }
        }
        Ok(Measurements { rows, version, failures })
    }

    /// Prints the result, of so many rows, and writes it where it is wanted; then come the failures.
    fn finish(
        &self,
        result: &impl Serialize,
        rows: usize,
        table: &str,
        failures: Vec<Failure>,
    ) -> Result<u8, Failure> {
        let code = if rows == 0 && !failures.is_empty() { 1 } else { self.give(result, table)? };
        let mut failures = failures.into_iter();
        let first = failures.next();
        for failure in failures {
            eprintln!("error: {failure}");
        }
        first.map_or(Ok(code), Err)
    }

    fn give(&self, result: &impl Serialize, table: &str) -> Result<u8, Failure> {
        let encode =
            |cause: serde_json::Error| Failure::NotReady(format!("the result as JSON: {cause}"));
        let code = match self.json {
            true => print(&(serde_json::to_string(result).map_err(encode)? + "\n"))?,
            false => print(table)?,
        };
        if let Some(path) = &self.output_json {
            let text = serde_json::to_string_pretty(result).map_err(encode)? + "\n";
            let [place] = files::places([("--output-json", path)], &[], OverwritePolicy::Replace)?;
            let output =
                Output::prepare(place, text.as_bytes(), Access::Public, OverwritePolicy::Replace)?;
            files::commit([output])?;
        }
        Ok(code)
    }
}

/// The rows that were measured, and the failures of the others.
struct Measurements<R> {
    rows: Vec<R>,
    /// The version of openssl.
    version: String,
    failures: Vec<Failure>,
}

fn folder() -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("gabion-openssl-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|cause| Failure::NotReady(format!("no place for temporary files: {cause}")))
}

/// Runs `gabion bench openssl`.
pub fn run_speed(args: SpeedArgs) -> Result<u8, Failure> {
    let folder = folder()?;
    let algorithms = args.common.algorithms(&speed::ALGORITHMS);
    let measure = |openssl: &Openssl, provider: Provider, algorithm: &str| {
        let counters = folder.path().join(format!("{algorithm}.stats").replace('/', "-"));
        let openssl = openssl.clone().with(STATS_VARIABLE, &counters);
        let mut row = speed::measure(&openssl, algorithm, args.seconds, args.multi)?;
        if row.status == Status::Measured {
            row.served_by = served_by(provider, &row.algorithm, &counters)?;
        }
        Ok(row)
    };
    let Measurements { rows, version, failures } = args.common.measure(&algorithms, measure)?;
    let result = Speed {
        openssl: version,
        seconds: args.seconds,
        multi: args.multi,
        time: if args.multi.is_some() { "elapsed" } else { "cpu" }.to_owned(),
        machine: Machine::detect(),
        ratios: speed::ratios(&rows),
        results: rows,
    };
    args.common.finish(&result, result.results.len(), &speed_table(&result), failures)
}

/// Returns the provider that worked, by our provider's counters; it cannot serve algorithms outside
/// of its table.
fn served_by(
    asked: Provider,
    algorithm: &str,
    counters: &Path,
) -> Result<Option<Provider>, Failure> {
    if asked != Provider::Gabion {
        return Ok(Some(asked));
    }
    let is_named = |name: &str| name.eq_ignore_ascii_case(algorithm);
    let row = ALGORITHMS
        .iter()
        .find(|row| is_named(row.name) || row.openssl.iter().any(|name| is_named(name)));
    let Some(row) = row else { return Ok(None) };
    let counted = stats::read(counters).map_err(|error| {
        Failure::NotReady(format!(
            "the provider `gabion` wrote no counters, so it is unknown which provider served: \
             {error}; `gabion doctor` says whether it loads"
        ))
    })?;
    let calls: u64 = counted
        .rows
        .iter()
        .filter(|counted| counted.algorithm == row.name)
        .map(|row| row.calls)
        .sum();
    Ok(Some(if calls > 0 { Provider::Gabion } else { Provider::Default }))
}

fn speed_table(result: &Speed) -> String {
    let Speed { openssl, multi, results, ratios, .. } = result;
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let mut table = Table::new(&[
        ("algorithm", Align::Left),
        ("provider", Align::Left),
        ("served by", Align::Left),
        ("keygen/s", Align::Right),
        ("encaps/s", Align::Right),
        ("decaps/s", Align::Right),
        ("sign/s", Align::Right),
        ("verify/s", Align::Right),
    ]);
    for row in results {
        table.row([
            row.algorithm.clone(),
            row.provider.name().to_owned(),
            match row.status {
                Status::Measured => row.served_by.map_or("?", Provider::name),
                status => status.name(),
            }
            .to_owned(),
            number(row.keygen_per_s),
            number(row.encaps_per_s),
            number(row.decaps_per_s),
            number(row.sign_per_s),
            number(row.verify_per_s),
        ]);
    }
    let what = match multi {
        Some(count) => format!("{count} processes, elapsed time"),
        None => "one process, CPU time".to_owned(),
    };
    let mut out = format!("openssl speed, operations a second: {openssl}, {what}\n\n{table}");
    if !ratios.is_empty() {
        let mut table = Table::new(&[
            ("latency ratio", Align::Left),
            ("provider", Align::Left),
            ("keygen", Align::Right),
            ("sign", Align::Right),
            ("verify", Align::Right),
        ]);
        for ratio in ratios {
            table.row([
                format!("{} / {}", ratio.slh_dsa, ratio.ml_dsa),
                ratio.provider.name().to_owned(),
                format!("{:.2}x", ratio.keygen),
                format!("{:.2}x", ratio.sign),
                format!("{:.2}x", ratio.verify),
            ]);
        }
        out.push_str(&format!("\n{table}"));
    }
    out
}

/// Runs `gabion bench pkeyutl`.
pub fn run_pkeyutl(args: PkeyutlArgs) -> Result<u8, Failure> {
    let folder = folder()?;
    let algorithms = args.common.algorithms(&pkeyutl::ALGORITHMS);
    algorithms.iter().try_for_each(|algorithm| pkeyutl::check_signs(algorithm))?;
    let counts = (args.msg_bytes, args.iterations);
    let measure = |openssl: &Openssl, _, algorithm: &str| {
        Ok(pkeyutl::measure(openssl, algorithm, counts, folder.path())?)
    };
    let Measurements { rows, version, failures } = args.common.measure(&algorithms, measure)?;
    let result = Pkeyutl { openssl: version, machine: Machine::detect(), results: rows };
    let table = pkeyutl_table(&result.openssl, &result.results);
    args.common.finish(&result, result.results.len(), &table, failures)
}

fn pkeyutl_table(version: &str, rows: &[pkeyutl::Row]) -> String {
    let mut table = Table::new(&[
        ("algorithm", Align::Left),
        ("provider", Align::Left),
        ("operation", Align::Left),
        ("mean ms", Align::Right),
        ("median", Align::Right),
        ("p95", Align::Right),
        ("p99", Align::Right),
        ("ops/s", Align::Right),
        ("public", Align::Right),
        ("private", Align::Right),
        ("sig., bytes", Align::Right),
    ]);
    for row in rows {
        let (Some(sign), Some(verify), Some(process)) = (&row.sign, &row.verify, &row.process)
        else {
            let names = [row.algorithm.as_str(), row.provider.name(), row.status.name()];
            let cells = names.into_iter().chain(["-"; 8]);
            table.row(cells.map(str::to_owned).collect::<Vec<_>>());
            continue;
        };
        let size = |bytes: Option<usize>| bytes.map_or("-".to_owned(), |bytes| bytes.to_string());
        for (name, times) in [("sign", sign), ("verify", verify), ("process", process)] {
            table.row([
                row.algorithm.clone(),
                row.provider.name().to_owned(),
                name.to_owned(),
                format!("{:.3}", times.mean_ms),
                format!("{:.3}", times.median_ms),
                format!("{:.3}", times.p95_ms),
                format!("{:.3}", times.p99_ms),
                format!("{:.1}", times.ops_per_s),
                size(row.public_key_bytes),
                size(row.private_key_bytes),
                size(row.signature_bytes),
            ]);
        }
    }
    let (count, bytes) = rows.first().map_or((0, 0), |row| (row.iterations, row.msg_bytes));
    format!(
        "openssl pkeyutl, a process for each operation, elapsed time: {version}, {count} runs, \
         messages of {bytes} bytes;\nkeys as DER; `process` is `openssl version`, which computes \
         nothing\n\n{table}"
    )
}

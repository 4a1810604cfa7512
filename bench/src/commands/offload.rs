//! `gabion bench offload`: the same jobs by OpenSSL, the provider, the core patch, the engine and a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::offload::{self, Config, Row, SWITCHES, Way};
use clap::{Parser, ValueEnum};
use gabion_engine::Algorithm;

use super::setup;
use gabion_cli::failure::Failure;

/// Compare OpenSSL, the provider, the core patch, the engine and a GPU on the same operations
///
/// Example:
///   gabion bench offload --jobs 64 --iters 200192
///
/// Each thread has its own key and runs one job at a time: it encapsulates, decapsulates and
/// compares the secrets, or signs and verifies. Times are elapsed times and include the check of
/// the result; a job that fails ends the run. CPU time is reported as well, and the utilization of
/// the GPU if `nvidia-smi` reports it. The GPU receives the waiting jobs of a queue as one batch.
/// Unavailable ways are listed on standard error; ways that --way names must be available.
#[derive(Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Number of threads, each with one job at a time
    #[arg(long, value_name = "N", default_value_t = 64)]
    jobs: usize,
    /// Total number of jobs
    #[arg(long, value_name = "N", default_value_t = 200_192)]
    iters: u64,
    /// ML-KEM or ML-DSA parameter set
    #[arg(long, value_name = "ALG", default_value = "ML-KEM-768")]
    algorithm: Algorithm,
    /// Ways to measure, one after the other [default: all that are available]
    #[arg(long, value_name = "W", value_delimiter = ',')]
    way: Vec<WayName>,
    #[command(flatten)]
    setup: setup::Setup,
    /// Folder of an OpenSSL with the core patch [default: the one next to the bundle]
    #[arg(long, value_name = "DIR")]
    offload_prefix: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// One way in this process, as the command starts it for each
    #[arg(long, hide = true)]
    here: bool,
}

/// `--way`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WayName {
    /// OpenSSL's own code
    Default,
    /// Gabion's provider
    Gabion,
    /// The core patch
    Offload,
    /// The engine's queue on the processor
    Engine,
    /// The engine's queue on a GPU
    Cuda,
}

impl From<WayName> for Way {
    fn from(name: WayName) -> Way {
        match name {
            WayName::Default => Way::Default,
            WayName::Gabion => Way::Gabion,
            WayName::Offload => Way::Offload,
            WayName::Engine => Way::Engine,
            WayName::Cuda => Way::Cuda,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let named: Vec<Way> = args.way.iter().copied().map(Way::from).collect();
    let (prefix, modules) = args.setup.places()?;
    let (jobs, iterations, algorithm) = (args.jobs, args.iters, args.algorithm);
    let config = |way, prefix: &Path| {
        let (prefix, modules) = (prefix.to_path_buf(), modules.clone());
        Config { way, prefix, modules, algorithm, jobs, iterations }
    };
    if args.here {
        let way = named.first().copied().unwrap_or(Way::Default);
        let row = offload::measure(&config(way, &prefix))?;
        return setup::print(&setup::lines(&[row])?);
    }
    let patched = args.offload_prefix.unwrap_or_else(|| patched_prefix(&prefix));
    let ways = if named.is_empty() { Way::ALL.to_vec() } else { named.clone() };
    let mut rows = Vec::new();
    for way in ways {
        let prefix = if way == Way::Offload { &patched } else { &prefix };
        match measure_in_child(&config(way, prefix)) {
            Ok((row, line)) => {
                if args.json {
                    setup::print(&line)?;
                }
                rows.push(row);
            }
            Err(Failure::NotReady(why)) if named.is_empty() => {
                eprintln!("left out: {}: {why}", way.word());
            }
            Err(failure) => return Err(failure),
        }
    }
    if rows.is_empty() {
        return Err(Failure::NotReady("no way to do the jobs is at hand".to_owned()));
    }
    if args.json { Ok(0) } else { setup::print(&table(&rows)) }
}

/// Returns the folder of the bundle with the core patch.
fn patched_prefix(prefix: &Path) -> PathBuf {
    let mut name = prefix.file_name().unwrap_or_default().to_owned();
    name.push("-offload");
    prefix.with_file_name(name)
}

/// Measures one way in a child process; returns its row and the line that it printed.
fn measure_in_child(config: &Config) -> Result<(Row, String), Failure> {
    let not_started = |cause: std::io::Error| {
        Failure::NotReady(format!("a process for the jobs does not start: {cause}"))
    };
    let program = std::env::current_exe().map_err(not_started)?;
    let mut command = Command::new(program);
    command.args(["offload", "--here", "--way", config.way.word(), "--json"]);
    command.args(["--algorithm", config.algorithm.name()]).arg("--prefix").arg(&config.prefix);
    command.args(["--jobs".into(), config.jobs.to_string()]);
    command.args(["--iters".into(), config.iterations.to_string()]);
    for switch in SWITCHES {
        match config.way {
            Way::Offload => command.env(switch, "1"),
            _ => command.env_remove(switch),
        };
    }
    let output = command.output().map_err(not_started)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
        let why = why.strip_prefix("error: ").unwrap_or(why).to_owned();
        return Err(match output.status.code() {
            Some(2) => Failure::Usage(why),
            Some(3) => Failure::NotReady(why),
            _ => Failure::No(format!("{}: {why}", config.way.word())),
        });
    }
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let row: Row = serde_json::from_str(&line)
        .map_err(|cause| Failure::NotReady(format!("a row of {}: {cause}", config.way.word())))?;
    if config.way == Way::Offload {
        offload::judge(&said, &row)?;
    }
    Ok((row, line))
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if text.is_empty() {
            text = format!(
                "{}, {} threads, {} jobs each of {}, all checked; {}, {} cores\n\
                 {:<10} {:>10} {:>9} {:>11} {:>9} {:>10}  code\n",
                row.algorithm,
                row.jobs,
                row.iterations,
                row.operation.replace(", ", " and "),
                row.machine.cpu,
                row.machine.cores,
                "way",
                "jobs/s",
                "seconds",
                "cores busy",
                "of all",
                "GPU busy"
            );
        }
        let busy = row.device_busy.map(|busy| format!("{:.0} %", busy * 100.0));
        text += &format!(
            "{:<10} {:>10.0} {:>9.3} {:>11.2} {:>7.0} % {:>10}  {}\n",
            row.way,
            row.ops_per_s,
            row.seconds,
            row.cpu_cores,
            row.cpu_share * 100.0,
            busy.unwrap_or_else(|| "-".to_owned()),
            row.code
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_benchmark_that_is_made_honest() {
        let args = Args::try_parse_from(["offload", "--jobs", "64", "--iters", "200192"]).unwrap();
        assert_eq!((args.jobs, args.iters), (64, 200_192));
        assert_eq!(args.algorithm, Algorithm::MlKem768);
        assert!(args.way.is_empty() && !args.json && !args.here);
        let args = Args::try_parse_from(["offload", "--way", "cuda,default"]).unwrap();
        assert_eq!(args.way, [WayName::Cuda, WayName::Default]);
        for bad in [&["--way", "gpu"], &["--algorithm", "ML-KEM-100"], &["--jobs", "many"]] {
            assert!(Args::try_parse_from([&["offload"], &bad[..]].concat()).is_err(), "{bad:?}");
        }
        assert_eq!(
            patched_prefix(Path::new("/a/bundle-3.5.7")),
            Path::new("/a/bundle-3.5.7-offload")
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_way() {
        let row = |way: &str, busy| Row {
            way: way.into(),
            algorithm: "ML-KEM-768".into(),
            operation: "encaps, decaps".into(),
            jobs: 64,
            iterations: 200_192,
            checked: 200_192,
            seconds: 2.0,
            ops_per_s: 100_096.0,
            cpu_cores: 1.5,
            cpu_share: 0.75,
            device_busy: busy,
            code: "code".into(),
            machine: Default::default(),
        };
        let text = table(&[row("default", None), row("cuda", Some(0.5))]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("ML-KEM-768, 64 threads, 200192 jobs each of encaps and"));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let default = ["default", "100096", "2.000", "1.50", "75", "%", "-", "code"];
        assert_eq!(words(lines[2]), default);
        assert!(lines[3].contains("50 %"), "{text}");
    }
}

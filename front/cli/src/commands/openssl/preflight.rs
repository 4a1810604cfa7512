//! `gabion preflight`: checks the FIPS provider, and whether a process uses it. With `--probe`, an
//! alias of `gabion probe`.

use std::path::PathBuf;

use clap::Parser;
use gabion_probe::target::StartTls;
use gabion_ship::environment::Settings;
use gabion_ship::preflight::{self, Algorithm, REQUIRED, Report, process};
use serde::Serialize;

use crate::commands::probe;
use crate::failure::Failure;

/// Exit code if a process does not use the FIPS provider.
const NO: u8 = 1;
/// Exit code if the FIPS provider is not usable.
const NOT_READY: u8 = 3;
/// Indentation of names after a title, and the width of their lines.
const INDENT: usize = 15;
const WIDTH: usize = 96;

/// Check the FIPS provider, a running process or a TLS server
///
/// Checks that the FIPS provider loads, passes its self-tests, and serves ML-KEM, ML-DSA and
/// SLH-DSA. Exits 0 if `GABION_OPENSSL_FIPS_MODE=only gabion exec` would start a command, 3 if not. With
/// `--pid`, exits 0 if the process complies with that mode, 1 if not.
#[derive(Parser)]
#[command(after_help = "Example:\n  gabion preflight --json\n
The variables are those of `gabion exec`. A fips.so that was built here is FIPS code, not a
validated module; GABION_OPENSSL_MODULES may point to a validated one (docs/guide/fips.md).")]
pub struct Args {
    /// Inspect a running process: the libcrypto, the module and the configuration that it uses
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Probe one server, like `gabion probe`
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "pid")]
    probe: Option<String>,

    /// Verify the server's certificate with the authorities in this file
    #[arg(long, value_name = "FILE", requires = "probe")]
    ca: Option<PathBuf>,

    /// Start TLS with the STARTTLS command of this protocol
    #[arg(long, value_name = "PROTOCOL", requires = "probe", value_parser = probe::starttls_parser())]
    starttls: Option<StartTls>,

    /// Timeout for each step of a connection, in seconds
    #[arg(long, value_name = "SECONDS", requires = "probe", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if let Some(target) = &args.probe {
        return probe::run_one(target, args.starttls, args.ca.as_deref(), args.timeout, args.json);
    }
    let settings = Settings::from_process()?;
    if let Some(pid) = args.pid {
        let report = process::inspect(&settings, pid)?;
        print(args.json, &report, print_process)?;
        complain(&report.problems);
        return Ok(if report.ok { 0 } else { NO });
    }
    let report = preflight::survey(&settings);
    print(args.json, &report, print_for_people)?;
    for warning in report.openssl.iter().flat_map(|openssl| &openssl.warnings) {
        eprintln!("warning: {warning}");
    }
    complain(&report.problems);
    if report.ok {
        return Ok(0);
    }
    // Without a bundle, the problem already names the command that builds one.
    if settings.layout.openssl().is_file() {
        eprintln!(
            "build the bundle again with `gabion bundle build --repair`, or see docs/guide/fips.md"
        );
    }
    Ok(NOT_READY)
}

fn print<R: Serialize>(
    json: bool,
    report: &R,
    for_people: fn(&R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if json {
        let text = serde_json::to_string(report)
            .map_err(|cause| Failure::NotReady(format!("the report as JSON: {cause}")))?;
        say!("{text}");
        return Ok(());
    }
    for_people(report)
}

fn complain(problems: &[String]) {
    for problem in problems {
        eprintln!("error: {}", crate::failure::plain(problem));
    }
}

fn print_for_people(report: &Report) -> Result<(), Failure> {
    let listed: Vec<String> = report
        .providers
        .iter()
        .map(|provider| format!("{} {} ({})", provider.name, provider.version, provider.status))
        .collect();
    let listed = if listed.is_empty() { "none".to_string() } else { listed.join(", ") };
    say!("verdict        {}", if report.ok { "ready" } else { "not ready" });
    say!("mode           {}", report.mode);
    say!("bundle         {}", report.prefix.display());
    if let Some(openssl) = &report.openssl {
        let from = openssl.taken_from.as_deref().unwrap_or("an earlier gabion's source");
        say!("               OpenSSL {} from {from}", openssl.version);
    }
    say!("configuration  {}", report.conf.display());
    say!("module         {}", report.module.display());
    say!("               version {}", report.module_version.as_deref().unwrap_or("unknown"));
    say!("               {}", report.module_sentence());
    say!("               {}", report.status_sentence());
    for hybrid in &report.hybrids {
        say!("               {hybrid}");
    }
    say!("self-tests     {}", self_tests(report));
    say!("providers      {listed}");
    let found = REQUIRED - report.algorithms.missing.len();
    say!("algorithms     {found} of {REQUIRED} required ones found by fips=yes");
    say!("\nfetched by fips=yes");
    print_names(&report.algorithms.fetchable)?;
    say!("\nnot fetched by fips=yes");
    print_names(&report.algorithms.not_fetchable)
}

fn self_tests(report: &Report) -> String {
    let Some(all) = &report.self_test else {
        return "not run".to_string();
    };
    let failed: Vec<String> = all
        .tests
        .iter()
        .filter(|test| !test.passed)
        .map(|test| format!("{} ({})", test.name, test.kind))
        .collect();
    match (all.passed, failed.is_empty()) {
        (true, _) => format!("{} passed", all.tests.len()),
        (false, true) => "not passed".to_string(),
        (false, false) => format!("failed: {}", failed.join(", ")),
    }
}

/// Prints names grouped by kind, as many per line as fit.
fn print_names(rows: &[Algorithm]) -> Result<(), Failure> {
    for of_kind in rows.chunk_by(|one, next| one.kind == next.kind) {
        let mut line = format!("  {:<width$}", of_kind[0].kind, width = INDENT - 2);
        for row in of_kind {
            if line.len() + row.name.len() > WIDTH {
                say!("{}", line.trim_end());
                line = " ".repeat(INDENT);
            }
            line.push_str(&row.name);
            line.push(' ');
        }
        say!("{}", line.trim_end());
    }
    Ok(())
}

fn print_process(report: &process::Report) -> Result<(), Failure> {
    let path = |path: &Option<std::path::PathBuf>| match path {
        Some(path) => path.display().to_string(),
        None => "unknown".to_string(),
    };
    say!("verdict        {}", if report.ok { "runs in the FIPS provider" } else { "no" });
    say!("process        {} {}", report.pid, path(&report.program));
    say!("configuration  {}", path(&report.openssl_conf));
    say!("modules        {}", path(&report.openssl_modules));
    for (title, files) in [("libcrypto", &report.libcrypto), ("FIPS module", &report.module)] {
        for mapped in files {
            say!("{title:<INDENT$}{}", mapped.file.display());
            let sha256 = mapped.sha256.as_deref().unwrap_or("cannot be read any more");
            say!("{:INDENT$}sha256 {sha256}", "");
        }
    }
    for other in &report.other_providers {
        say!("{:<INDENT$}{}", "other provider", other.display());
    }
    Ok(())
}

//! `gabion preflight`: would mode `only` start a command?

use clap::Parser;
use gabion_ship::environment::Settings;
use gabion_ship::preflight::{self, Report};

use super::bundle::failure;
use crate::failure::Failure;

/// Exit code when the FIPS provider is not usable.
const NOT_READY: u8 = 3;

/// Check that the FIPS provider loads, is active, and serves ML-KEM, ML-DSA and SLH-DSA.
///
/// Exits 0 when `GABION_OPENSSL_FIPS_MODE=only gabion exec` would start a command, 3 when not.
#[derive(Parser)]
#[command(after_help = "Example:\n  gabion preflight --json\n
The variables are those of `gabion exec`. A fips.so that was built here is FIPS code, not a
validated module; GABION_OPENSSL_MODULES may point to a validated one (docs/fips.md).")]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let settings = Settings::from_process().map_err(failure)?;
    let report = preflight::run(&settings);
    if args.json {
        let text = serde_json::to_string(&report)
            .map_err(|cause| Failure::NotReady(format!("the report as JSON: {cause}")))?;
        println!("{text}");
    } else {
        print_for_people(&report);
    }
    if report.ok {
        return Ok(0);
    }
    for problem in &report.problems {
        eprintln!("error: {problem}");
    }
    eprintln!("build the bundle again with `gabion bundle build --repair`, or see docs/fips.md");
    Ok(NOT_READY)
}

fn print_for_people(report: &Report) {
    let listed: Vec<String> = report
        .providers
        .iter()
        .map(|provider| format!("{} {} ({})", provider.name, provider.version, provider.status))
        .collect();
    let listed = if listed.is_empty() { "none".to_string() } else { listed.join(", ") };
    println!("verdict        {}", if report.ok { "ready" } else { "not ready" });
    println!("mode           {}", report.mode);
    println!("bundle         {}", report.prefix.display());
    println!("configuration  {}", report.conf.display());
    println!("module         {}", report.module.display());
    println!("               version {}", report.module_version.as_deref().unwrap_or("unknown"));
    println!("               {}", report.module_sentence());
    println!("providers      {listed}");
    println!(
        "algorithms     {} of {} required ones found by fips=yes",
        report.algorithms.available.len(),
        report.algorithms.available.len() + report.algorithms.missing.len()
    );
}

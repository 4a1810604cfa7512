//! `gabion run`: one handshake served by Gabion, and its cost with and without it.

mod handshake;
mod stock;

use std::path::PathBuf;

use crate::engine;
use crate::machine::Machine;
use crate::tls::{self, Provider};
use gabion_engine::Algorithm;
use gabion_rows::operations::{Key, Operation, RunOperation, Subject, Timing};
use gabion_rows::{PerProvider, RunFile, RunHandshakes};
use gabion_ship::environment::{FipsMode, Settings};
use gabion_ship::preflight;
use regex::Regex;

use gabion_cli::failure::Failure;
use gabion_cli::ffi;
use gabion_cli::files::{self, Access, Output, OverwritePolicy};
use gabion_cli::keys;
use gabion_cli::openssl::Openssl;
use gabion_cli::stamp::Stamp;
use handshake::Handshake;
use stock::Stock;

/// Run a TLS handshake, and measure its cost with and without Gabion
///
/// Example:
///   gabion bundle build && gabion run
///
/// Creates certificates, starts `openssl s_server` with Gabion's provider on a free port of the
/// loopback interface, connects `openssl s_client`, and shows which provider served what. Then
/// measures full handshakes in memory and single operations. All results go to out/run.json.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// File for all results, as JSON
    #[arg(long, value_name = "FILE", default_value = "out/run.json")]
    out: PathBuf,
    /// Time for the handshakes of each provider, in seconds; the rest takes about as long
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
}

/// Lanes of the rows that show the gain of batches.
const BATCH: usize = 64;
/// The group and the certificates that are shown.
const GROUP: &str = "X25519MLKEM768";
const SIGNATURE: &str = "ML-DSA-65";

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Failure::Usage(format!(
            "--seconds {} is out of range; more than 0 and at most 3600 is possible",
            args.seconds
        )));
    }
    ffi::go_on_when_the_reader_is_gone();
    let settings = Settings::from_process()?;
    settings.require_bundle()?;
    if settings.mode == FipsMode::Only {
        return Err(Failure::NotReady(
            "GABION_OPENSSL_FIPS_MODE is `only`, and Gabion's provider is no FIPS module, so \
             nothing was started; unset the variable to see what Gabion does"
                .to_owned(),
        ));
    }
    make_writable(&args.out)?;
    show(&format!("{}\n\n", introduction(&settings)?));
    let openssl = Openssl::new(&settings).map_err(Failure::NotReady)?;

    let handshake = handshake::shake_hands(&openssl, GROUP, SIGNATURE)?;
    show(&format!("{}\n\n", handshake.describe()));
    handshake.require_gabion()?;

    progress("measuring full handshakes");
    let rows = compare(&settings, args.seconds)?;
    progress("measuring operations");
    let ours = operations(args.seconds / 10.0)?;
    progress("measuring OpenSSL's operations");
    let stock = stock::measure(&openssl, args.seconds).map_err(Failure::NotReady)?;
    progress("");

    write(&args.out, &handshake, &rows, &ours, &stock, version(&settings).as_deref())?;
    show(&table(&rows, &ours, &stock));
    show(&format!(
        "\nNext: gabion doctor · gabion bench tls · docs/reference/cli.md · everything measured is in {}\n",
        args.out.display()
    ));
    Ok(0)
}

/// Prints; a reader that went away does not keep the results from the file.
fn show(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// One line on a terminal's stderr that the next one replaces; nothing elsewhere.
fn progress(what: &str) {
    use std::io::IsTerminal;
    if std::io::stderr().is_terminal() {
        let dots = if what.is_empty() { "" } else { " .." };
        eprint!("\r\x1b[K{what}{dots}");
    }
}

fn introduction(settings: &Settings) -> Result<String, Failure> {
    let engine = keys::engine()?;
    let backend = engine.backend_for(Algorithm::MlDsa65)?.name();
    let machine = Machine::detect();
    let version = version(settings);
    let fips = preflight::run(settings);
    let fips = match (fips.ok, fips.validated) {
        (true, true) => "FIPS provider ready, validated",
        (true, false) => "FIPS provider ready (FIPS code, not a validated module)",
        (false, _) => "FIPS provider not ready (see gabion preflight)",
    };
    Ok(format!(
        "Gabion {} on {}, {} · backend {backend} (self-test ok) · OpenSSL {} bundle, {fips}",
        env!("CARGO_PKG_VERSION"),
        machine.cpu,
        gabion_cli::style::count(machine.cores as u64, "core"),
        version.as_deref().unwrap_or("(of unknown version)"),
    ))
}

/// The version of the bundle's OpenSSL.
fn version(settings: &Settings) -> Option<String> {
    settings.layout.manifest().ok().flatten().map(|manifest| manifest.version)
}

/// The costs of the two providers' handshakes.
struct Handshakes {
    default: tls::Row,
    gabion: tls::Row,
}

fn compare(settings: &Settings, seconds: f64) -> Result<Handshakes, Failure> {
    let config = tls::Config {
        modules: settings.modules_override.clone(),
        group: GROUP.to_owned(),
        signature: SIGNATURE.to_owned(),
        seconds,
        ..tls::Config::new(settings.layout.prefix().to_path_buf())
    };
    let rows = tls::compare(&config)?;
    let of = |provider| rows.iter().find(|row| row.provider == provider).cloned();
    match (of(Provider::Default), of(Provider::Gabion)) {
        (Some(default), Some(gabion)) => Ok(Handshakes { default, gabion }),
        _ => Err(Failure::NotReady("the handshakes of one provider were not measured".to_owned())),
    }
}

/// The engine's rows: alone and in batches, with keys that are kept.
fn operations(seconds: f64) -> Result<Vec<Timing>, Failure> {
    let filter = "^(ML-KEM-768|ML-DSA-65):(keygen:fresh|.*:cached)$";
    let filter = Regex::new(filter).map_err(|cause| Failure::NotReady(cause.to_string()))?;
    let mut rows = Vec::new();
    for batch in [1, BATCH] {
        let config = engine::Config {
            filter: Some(filter.clone()),
            batch,
            seconds,
            ..engine::Config::default()
        };
        engine::measure(&config, |row| {
            rows.push(row);
            true
        })?;
    }
    Ok(rows)
}

fn write(
    path: &std::path::Path,
    handshake: &Handshake,
    rows: &Handshakes,
    ours: &[Timing],
    stock: &Stock,
    openssl: Option<&str>,
) -> Result<(), Failure> {
    let encode = |cause: serde_json::Error| Failure::NotReady(format!("rows as JSON: {cause}"));
    let beside = |timing: &Timing| RunOperation {
        timing: timing.clone(),
        // The rate of OpenSSL's own code, one operation at a time.
        openssl_ops_per_s: stock.ops_per_s(&timing.subject.algorithm, timing.subject.operation),
    };
    let of_each = |figure: fn(&tls::Row) -> f64| PerProvider {
        default: figure(&rows.default),
        gabion: figure(&rows.gabion),
    };
    let stamp = Stamp::now();
    let object = RunFile {
        date: Some(stamp.date),
        gabion: Some(stamp.gabion.to_owned()),
        commit: stamp.commit.map(str::to_owned),
        openssl: openssl.map(str::to_owned),
        tls: RunHandshakes {
            version: handshake.version.clone(),
            group: handshake.group.clone(),
            signature: SIGNATURE.to_owned(),
            cipher: rows.default.cipher.clone(),
            kem_provider: handshake.kem_provider.to_owned(),
            signature_provider: handshake.signature_provider.to_owned(),
            handshakes_per_cpu_s: of_each(|row| row.handshakes_per_cpu_s),
            server_us: of_each(|row| row.server_us),
            client_us: of_each(|row| row.client_us),
        },
        engine: ours.iter().map(beside).collect(),
    };
    let mut text = serde_json::to_vec_pretty(&object).map_err(encode)?;
    text.push(b'\n');
    files::commit([prepare(path, &text)?])
}

/// Results replace those of the last run.
fn prepare(path: &std::path::Path, text: &[u8]) -> Result<Output, Failure> {
    let [place] = files::places([("--out", path)], &[], OverwritePolicy::Replace)?;
    Output::prepare(place, text, Access::Public, OverwritePolicy::Replace)
}

/// Makes the folder of `path` and fails if it is not writable, before anything is measured.
fn make_writable(path: &std::path::Path) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|cause| {
            Failure::Usage(format!("cannot make {}: {cause}", folder.display()))
        })?;
    }
    prepare(path, b"").map(drop)
}

/// A number as people read it: 878/s, 21.4k/s, 1.23M/s.
fn rate(per_second: f64) -> String {
    let (value, unit) = match per_second {
        value if value >= 999_500.0 => (value / 1e6, "M"),
        value if value >= 9_995.0 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits = match value {
        _ if unit.is_empty() => 0,
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}/s")
}

fn table(rows: &Handshakes, ours: &[Timing], stock: &Stock) -> String {
    let mut text = String::new();
    let mut line = |name: &str, default: &str, gabion: &str, factor: &str| {
        let line = format!("  {name:<40} {default:>15} {gabion:>15}   {factor}");
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line("Measurement", "OpenSSL alone", "with Gabion", "");
    let (default, gabion) = (&rows.default, &rows.gabion);
    let us = |value: f64| format!("{value:.0} us");
    let factor = |value: f64| format!("{value:.1}x");
    line(
        "  full handshake, server CPU",
        &us(default.server_us),
        &us(gabion.server_us),
        &(factor(default.server_us / gabion.server_us) + " less"),
    );
    line(
        "  full handshake, client CPU",
        &us(default.client_us),
        &us(gabion.client_us),
        &(factor(default.client_us / gabion.client_us) + " less"),
    );
    line(
        "  full handshakes a second, 1 core",
        &format!("{:.0}", default.handshakes_per_cpu_s),
        &format!("{:.0}", gabion.handshakes_per_cpu_s),
        &factor(gabion.handshakes_per_cpu_s / default.handshakes_per_cpu_s),
    );
    for (algorithm, operation, batch, name) in [
        ("ML-DSA-65", Operation::Sign, 1, "ML-DSA-65 sign"),
        ("ML-DSA-65", Operation::Verify, 1, "ML-DSA-65 verify, known key"),
        ("ML-DSA-65", Operation::Verify, BATCH, "ML-DSA-65 verify, known key, batches"),
        ("ML-KEM-768", Operation::Encaps, 1, "ML-KEM-768 encapsulate"),
        ("ML-KEM-768", Operation::Encaps, BATCH, "ML-KEM-768 encapsulate, batches"),
        ("ML-KEM-768", Operation::Decaps, 1, "ML-KEM-768 decapsulate"),
    ] {
        let subject = Subject { algorithm: algorithm.to_owned(), operation, key: Key::Cached };
        let row = ours.iter().find(|row| row.subject == subject && row.batch == batch);
        let Some(row) = row else { continue };
        let ours = row.figures.ops_per_s;
        let theirs = stock.ops_per_s(algorithm, operation);
        line(
            &format!("  {name}"),
            &theirs.map_or("-".to_owned(), rate),
            &rate(ours),
            &theirs.map_or(String::new(), |theirs| factor(ours / theirs)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        for (value, text) in [
            (878.4, "878/s"),
            (4690.0, "4690/s"),
            (21_400.0, "21.4k/s"),
            (207_049.0, "207k/s"),
            (999_700.0, "1.00M/s"),
            (12_345_678.0, "12.3M/s"),
        ] {
            assert_eq!(rate(value), text);
        }
    }
}

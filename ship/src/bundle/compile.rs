//! Compiles a bundle in a staging folder and moves it into place in one step.
//!
//! OpenSSL compiles its final paths in. It is therefore configured with the final prefix and
//! installed into the staging folder through DESTDIR. A killed build leaves at most the staging
//! folder behind, never a PREFIX that looks finished.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::archive::Archive;
use super::configuration::write_configuration;
use super::patch;
use super::place::{Log, Place, move_into_place};
use super::source::{unpack, version_of_archive};
use super::{Layout, Manifest, ModuleRecord};
use crate::progress::{Stage, duration_text, run_stage};
use crate::{Error, Result, advisories, pins, provider, sha256_file};

/// Variables of `make` that omit OpenSSL's static libraries. Nothing in a bundle links them, and
/// compiling their objects takes a third of the build time.
const SHARED_ONLY: [&str; 2] = ["LIBS=", "INSTALL_LIBS="];

/// The versions and options of a build.
pub(super) struct CompileRequest<'a> {
    pub(super) version: &'a str,
    pub(super) archive: Archive,
    /// Whether the version was requested by name, and is not just the newest available one.
    pub(super) asked: bool,
    /// Why a newer version was not available.
    pub(super) not_had: Vec<String>,
    /// The FIPS module's version and source, if they differ from the bundle's.
    pub(super) fips: Option<(&'a str, Archive)>,
    /// The core patch, if it is to be applied.
    pub(super) patch: Option<&'static str>,
    /// The provider module and the library to copy.
    pub(super) provider: Option<PathBuf>,
    pub(super) library: Option<PathBuf>,
    /// Number of parallel compiler processes; `None` for the number of cores.
    pub(super) jobs: Option<usize>,
    /// The target architecture of a cross compiler.
    pub(super) cross: Option<&'a str>,
}

/// Builds the bundle and moves it to `layout`. Its files refer to the paths of `named`, which
/// differ from those of `layout` only in a bundle for a package.
///
/// # Errors
/// Every variant of [`Error`]; the bundle's folder is then unchanged.
pub(super) fn run(
    place: &Place,
    layout: &Layout,
    named: &Layout,
    wanted: &CompileRequest<'_>,
) -> Result<()> {
    require_tools()?;
    let begun = std::time::Instant::now();
    place.with_staging(|staging, log| {
        let tree = in_staging(staging, log, named, wanted)?;
        move_into_place(staging, &tree, layout)
    })?;
    eprintln!(
        "OpenSSL {} from {} built in {} in {}",
        wanted.version,
        wanted.archive.from,
        layout.prefix().display(),
        duration_text(begun.elapsed())
    );
    Ok(())
}

/// Builds the bundle with the paths of `named` in the staging folder, and returns its location.
fn in_staging(
    staging: &Path,
    log: &Log,
    named: &Layout,
    wanted: &CompileRequest<'_>,
) -> Result<Layout> {
    let source = staging.join("source");
    let tree =
        run_stage("OpenSSL: unpack", || unpack_as(wanted.version, &wanted.archive, &source))?;
    if let Some(patch) = wanted.patch {
        run_stage("OpenSSL: core patch", || patch::apply(&tree, patch))?;
    }
    let options = configure_options(named, wanted.cross)?;
    let jobs = wanted
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    configure(log, "OpenSSL: configure", &tree, &options)?;
    compile(log, &tree, jobs)?;
    let root = staging.join("root");
    run_stage("OpenSSL: install", || {
        let mut destination = std::ffi::OsString::from("DESTDIR=");
        destination.push(&root);
        let mut make = Command::new("make");
        make.arg(destination).args(SHARED_ONLY);
        make.args(["install_sw", "install_ssldirs", "install_fips"]);
        log.run(make.current_dir(&tree))
    })?;
    let tree = named.under(&root);
    if let Some((version, archive)) = &wanted.fips {
        let source = staging.join("fips-source");
        let source = run_stage("FIPS module: unpack", || unpack_as(version, archive, &source))?;
        configure(log, "FIPS module: configure", &source, &options)?;
        build_module(log, &source, jobs, &tree)?;
    }
    if wanted.cross.is_none() {
        test_fips_module(staging, log, &tree)?;
    }
    write_configuration(&tree, named)?;
    write_manifest(&tree, wanted, options)?;
    for (from, to) in
        [(&wanted.provider, tree.gabion_module()), (&wanted.library, tree.gabion_library())]
    {
        if let Some(from) = from {
            provider::place_module(from, &to)?;
        }
    }
    Ok(tree)
}

/// Unpacks an archive and checks that it contains the requested version.
fn unpack_as(version: &str, archive: &Archive, folder: &Path) -> Result<PathBuf> {
    let found = version_of_archive(archive)?;
    if found != version {
        return Err(Error::Integrity(format!(
            "{} is the source of OpenSSL {found}, not {version}",
            archive.from
        )));
    }
    unpack(archive, folder)
}

fn configure(log: &Log, name: &'static str, tree: &Path, options: &[String]) -> Result<()> {
    run_stage(name, || {
        log.run(Command::new("perl").arg("./Configure").args(options).current_dir(tree))
    })
}

/// Compiles only the FIPS module, and replaces the one in the tree with it.
fn build_module(log: &Log, source: &Path, jobs: usize, tree: &Layout) -> Result<()> {
    run_stage("FIPS module: compile", || {
        for target in ["build_generated", "providers/fips.so"] {
            let mut make = Command::new("make");
            log.run(make.arg(format!("-j{}", jobs.max(1))).arg(target).current_dir(source))?;
        }
        let (from, to) = (source.join("providers/fips.so"), tree.fips_module());
        std::fs::copy(&from, &to).map_err(|cause| Error::io("cannot write", &to, cause))?;
        Ok(())
    })
}

/// Fails early, naming the missing packages, if the build cannot start.
fn require_tools() -> Result<()> {
    let missing: Vec<&str> = ["perl", "make", "cc", "tar", "gzip"]
        .into_iter()
        .filter(|tool| {
            let mut probe = Command::new(tool);
            probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().is_err()
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::NotReady(format!(
        "building OpenSSL needs {}, which {} not installed; on Debian or Ubuntu: \
         apt-get install perl make gcc tar gzip",
        missing.join(", "),
        if missing.len() == 1 { "is" } else { "are" }
    )))
}

/// Returns the arguments of OpenSSL's Configure for a prefix and an architecture.
fn configure_options(layout: &Layout, cross: Option<&str>) -> Result<Vec<String>> {
    let target = match (std::env::consts::OS, cross.unwrap_or(std::env::consts::ARCH)) {
        ("linux", "x86_64") => "linux-x86_64",
        ("linux", "aarch64") => "linux-aarch64",
        (os, arch) => {
            return Err(Error::NotReady(format!(
                "a bundle can be built on linux x86_64 and aarch64; this is {os} {arch}"
            )));
        }
    };
    let prefix = layout.prefix().display();
    let mut options = vec![
        target.to_string(),
        "enable-fips".to_string(),
        // 64-bit code for P-256, P-384 and P-521, as in the builds of distributions.
        "enable-ec_nistp_64_gcc_128".to_string(),
        "no-tests".to_string(),
        "no-docs".to_string(),
        format!("--prefix={prefix}"),
        format!("--openssldir={prefix}/ssl"),
        "--libdir=lib".to_string(),
        format!("-Wl,-rpath,{prefix}/lib"),
    ];
    options.extend(cross.map(|arch| format!("--cross-compile-prefix={arch}-linux-gnu-")));
    Ok(options)
}

/// Runs make, counting compiler calls; a dry run determines their total number.
fn compile(log: &Log, tree: &Path, jobs: usize) -> Result<()> {
    let is_compiler_call = |line: &str| line.contains(" -c ");
    let dry_run = Command::new("make")
        .args(["-n", "build_sw"])
        .args(SHARED_ONLY)
        .current_dir(tree)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let expected = dry_run.map_or(0, |output| {
        String::from_utf8_lossy(&output.stdout).lines().filter(|l| is_compiler_call(l)).count()
    });
    let mut stage = Stage::start("OpenSSL: compile", expected);
    let mut compiled = 0;
    let mut make = Command::new("make");
    make.arg(format!("-j{}", jobs.max(1))).arg("build_sw").args(SHARED_ONLY).current_dir(tree);
    let result = log.run_watched(&mut make, |line| {
        compiled += usize::from(is_compiler_call(line));
        stage.step(compiled);
    });
    match result {
        Ok(()) => stage.done(),
        Err(_) => stage.failed(),
    }
    result
}

/// Runs the module's self-tests and writes `fipsmodule.cnf` atomically.
///
/// `-pedantic` enables all checks of the module that OpenSSL disables by default for older
/// programs. With it, RSA key transport and the TLS 1.2 key schedule without an extended master
/// secret are refused, as FIPS 140-3 requires.
pub(super) fn test_fips_module(staging: &Path, log: &Log, tree: &Layout) -> Result<()> {
    let (made, place) = (staging.join("fipsmodule.cnf"), tree.fipsmodule_conf());
    run_stage("OpenSSL: FIPS self-tests", || {
        log.run(
            Command::new(tree.openssl())
                .arg("fipsinstall")
                .arg("-pedantic")
                .arg("-module")
                .arg(tree.fips_module())
                .arg("-out")
                .arg(&made)
                // The command must find its own libraries but no configuration file.
                .env("LD_LIBRARY_PATH", tree.lib())
                .env("OPENSSL_CONF", "/dev/null")
                .env_remove("OPENSSL_MODULES"),
        )?;
        std::fs::rename(&made, &place).map_err(|cause| Error::io("cannot move to", &place, cause))
    })
}

/// Writes the record that makes a staged tree a finished bundle.
fn write_manifest(tree: &Layout, wanted: &CompileRequest<'_>, options: Vec<String>) -> Result<()> {
    let untested = wanted.cross.map(|_| tree.fipsmodule_conf());
    if let Some(part) = tree.missing_parts().iter().find(|part| Some(*part) != untested.as_ref()) {
        return Err(Error::Integrity(format!(
            "the build ended without an error, but {} is missing",
            part.display()
        )));
    }
    let newest = pins::pins()?.newest().to_string();
    let known = advisories::of(wanted.version);
    let manifest = Manifest {
        version: wanted.version.to_string(),
        wanted: Some(if wanted.asked { wanted.version.to_string() } else { newest }),
        not_had: if wanted.asked { Vec::new() } else { wanted.not_had.clone() },
        taken_from: Some(wanted.archive.from.clone()),
        source_sha256: wanted.archive.sha256.clone(),
        advisories: known.advisories.into_iter().map(|advisory| advisory.id).collect(),
        advisories_read: Some(known.read),
        options,
        built: now_text(),
        fips_module_sha256: sha256_file(&tree.fips_module())?,
        fips_module: wanted.fips.as_ref().map(|(version, archive)| ModuleRecord {
            version: (*version).to_string(),
            taken_from: archive.from.clone(),
            source_sha256: archive.sha256.clone(),
        }),
        gabion_version: env!("CARGO_PKG_VERSION").to_string(),
        core_patch_sha256: wanted.patch.map(|text| crate::sha256_text(text.as_bytes())),
    };
    let mut text = serde_json::to_string_pretty(&manifest)
        .map_err(|cause| Error::Integrity(format!("the bundle's record: {cause}")))?;
    text.push('\n');
    crate::replace_file(&tree.manifest_file(), text.as_bytes(), 0o644)?;
    Ok(())
}

/// Returns the current time in the format of [`utc_text`]; in a reproducible build, the time in
/// `SOURCE_DATE_EPOCH`.
pub(super) fn now_text() -> String {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    utc_text(given.unwrap_or_else(|| {
        let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        elapsed.map_or(0, |elapsed| elapsed.as_secs())
    }))
}

/// Formats seconds since 1970 as `YYYY-MM-DDThh:mm:ssZ` in the Gregorian calendar.
fn utc_text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 1 March of year 0, so that the leap day ends a year. An era has 400
    // years or 146 097 days, and 719 468 days lie between that day and 1 January 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cross_compiler_is_named_by_its_prefix() {
        let options = configure_options(&Layout::at("/p"), Some("aarch64")).unwrap();
        assert_eq!(options[0], "linux-aarch64");
        assert!(options.contains(&"--cross-compile-prefix=aarch64-linux-gnu-".to_string()));
        let native = configure_options(&Layout::at("/p"), None).unwrap();
        assert!(!native.iter().any(|option| option.contains("cross")));
        assert!(configure_options(&Layout::at("/p"), Some("m68k")).is_err());
    }

    #[test]
    fn utc_text_knows_the_calendar() {
        // Each value is `date -u -d DATE +%s`.
        assert_eq!(utc_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc_text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc_text(1_795_219_199), "2026-11-20T23:59:59Z");
        assert_eq!(utc_text(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(utc_text(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}

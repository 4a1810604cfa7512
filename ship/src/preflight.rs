//! Is the FIPS provider usable, in the environment that mode `only` gives a command?
//!
//! The questions are put to the bundle's `openssl` command. OpenSSL itself starts without a word
//! when a provider fails to load, so nothing is taken for granted: the provider must be listed as
//! active, each algorithm must be found by `fips=yes` and come from it, and an algorithm that is
//! not approved must not be found at all.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde::Serialize;

use crate::environment::{FipsMode, Settings};
use crate::{pins, sha256_file};

/// What must be found by `fips=yes`: FIPS 203, then FIPS 204 and 205.
const KEMS: &[&str] = &["ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"];
const SIGNATURES: &[&str] = &[
    "ML-DSA-44",
    "ML-DSA-65",
    "ML-DSA-87",
    "SLH-DSA-SHA2-128s",
    "SLH-DSA-SHA2-128f",
    "SLH-DSA-SHA2-192s",
    "SLH-DSA-SHA2-192f",
    "SLH-DSA-SHA2-256s",
    "SLH-DSA-SHA2-256f",
    "SLH-DSA-SHAKE-128s",
    "SLH-DSA-SHAKE-128f",
    "SLH-DSA-SHAKE-192s",
    "SLH-DSA-SHAKE-192f",
    "SLH-DSA-SHAKE-256s",
    "SLH-DSA-SHAKE-256f",
];

/// The name under which the FIPS provider is configured.
const FIPS_PROVIDER: &str = "fips";

/// A provider that OpenSSL lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Provider {
    /// The name in the configuration.
    pub name: String,
    /// Its version, as it says.
    pub version: String,
    /// `active`, or what OpenSSL says instead.
    pub status: String,
}

/// Which of the required algorithms the FIPS provider serves.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Algorithms {
    /// Found by `fips=yes`.
    pub available: Vec<String>,
    /// Not found by `fips=yes`.
    pub missing: Vec<String>,
}

/// Who made the FIPS module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleSource {
    /// The module that was built with this bundle: FIPS code, not a validated module.
    SelfBuilt,
    /// A module from elsewhere.
    External,
}

/// The answer of [`run`]; `preflight --json` prints it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The mode of this process.
    pub mode: FipsMode,
    /// True when mode `only` would start a command.
    pub ok: bool,
    /// The bundle's folder.
    pub prefix: PathBuf,
    /// The configuration file of mode `only`.
    pub conf: PathBuf,
    /// The FIPS module's file.
    pub module: PathBuf,
    /// What the loaded FIPS provider says its version is.
    pub module_version: Option<String>,
    /// SHA-256 of the module's file.
    pub module_sha256: Option<String>,
    /// Whether it was built with the bundle; `None` when there is no module.
    pub module_source: Option<ModuleSource>,
    /// True only when a validation certificate covers exactly this module.
    pub validated: bool,
    /// Every provider that OpenSSL lists.
    pub providers: Vec<Provider>,
    /// The required algorithms.
    pub algorithms: Algorithms,
    /// Why `ok` is false, one sentence each.
    pub problems: Vec<String>,
}

impl Report {
    /// One sentence about what the module is, for people.
    #[must_use]
    pub fn module_sentence(&self) -> &'static str {
        match (self.validated, self.module_source) {
            (true, _) => "a validation certificate covers this fips.so",
            (false, Some(ModuleSource::SelfBuilt)) => {
                "this fips.so was built here: FIPS code, not a validated module"
            }
            (false, Some(ModuleSource::External)) => {
                "this fips.so is not from this bundle, and Gabion knows no certificate for it"
            }
            (false, None) => "there is no fips.so",
        }
    }
}

/// Checks the FIPS provider and reports everything that is wrong with it.
#[must_use]
pub fn run(settings: &Settings) -> Report {
    let module = settings.modules().join("fips.so");
    let mut report = Report {
        mode: settings.mode,
        ok: false,
        prefix: settings.layout.prefix().to_path_buf(),
        conf: settings.conf(FipsMode::Only),
        module_sha256: sha256_file(&module).ok(),
        module,
        module_version: None,
        module_source: None,
        validated: false,
        providers: Vec::new(),
        algorithms: Algorithms::default(),
        problems: Vec::new(),
    };
    check(settings, &mut report);
    report.module_source = module_source(settings, &report);
    // A hash alone validates nothing that does not run.
    report.validated = report.module_version.is_some()
        && report.module_sha256.as_deref().is_some_and(pins::is_certified_module);
    report.ok = report.problems.is_empty();
    report
}

fn check(settings: &Settings, report: &mut Report) {
    if let Err(error) = settings.require_bundle() {
        report.problems.push(error.to_string());
        report.algorithms.missing =
            KEMS.iter().chain(SIGNATURES).map(ToString::to_string).collect();
        return;
    }
    if !report.conf.is_file() {
        report.problems.push(format!(
            "the configuration file {} is missing; OpenSSL would run without it, unapproved \
             algorithms included",
            report.conf.display()
        ));
    }
    check_provider(settings, report);
    check_algorithms(settings, report);
    check_default_property(settings, report);
}

/// The FIPS provider must be loaded and active.
fn check_provider(settings: &Settings, report: &mut Report) {
    match openssl(settings, &["list", "-providers"]) {
        Ok(output) => report.providers = parse_providers(&output),
        Err(problem) => report.problems.push(problem),
    }
    let fips = report.providers.iter().find(|provider| provider.name == FIPS_PROVIDER);
    match fips {
        Some(provider) if provider.status == "active" => {
            report.module_version = Some(provider.version.clone());
        }
        Some(provider) => report.problems.push(format!(
            "the FIPS provider from {} is not active; OpenSSL lists it as `{}`",
            report.module.display(),
            provider.status
        )),
        None => report.problems.push(format!(
            "the FIPS provider did not load from {}: {}",
            report.module.display(),
            load_failure(settings, report)
        )),
    }
}

/// Finds the reason why the FIPS provider is not there.
fn load_failure(settings: &Settings, report: &Report) -> String {
    if !report.module.is_file() {
        return "there is no such file".to_string();
    }
    let own_conf = settings.layout.fipsmodule_conf();
    if settings.conf_override.is_none() {
        if !own_conf.is_file() {
            return format!("{} is missing", own_conf.display());
        }
        let mut verify = command(settings, &["fipsinstall", "-verify", "-quiet"]);
        // Without the configuration, whose own attempt to load the provider already failed.
        verify.env("OPENSSL_CONF", "/dev/null").arg("-module").arg(&report.module);
        verify.arg("-in").arg(&own_conf);
        if verify.output().is_ok_and(|output| !output.status.success()) {
            return format!("HMAC of the module does not match {}", own_conf.display());
        }
    }
    match openssl(settings, &["list", "-providers", "-provider", FIPS_PROVIDER]) {
        Err(problem) => problem,
        Ok(_) => format!("{} does not activate it", report.conf.display()),
    }
}

/// Each required algorithm must be found by `fips=yes`, in the FIPS provider.
fn check_algorithms(settings: &Settings, report: &mut Report) {
    for (listing, required) in [("-kem-algorithms", KEMS), ("-signature-algorithms", SIGNATURES)] {
        let found = match openssl(settings, &["list", listing, "-propquery", "fips=yes"]) {
            Ok(output) => parse_algorithms(&output),
            Err(problem) => {
                report.problems.push(problem);
                Vec::new()
            }
        };
        for name in required {
            if found.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                report.algorithms.available.push((*name).to_string());
            } else {
                report.algorithms.missing.push((*name).to_string());
            }
        }
    }
    if !report.algorithms.missing.is_empty() {
        report.problems.push(format!(
            "not found in the FIPS provider by fips=yes: {}",
            report.algorithms.missing.join(", ")
        ));
    }
}

/// Without `default_properties = fips=yes` a command would still find unapproved algorithms.
/// MD5 is one that no FIPS provider approves.
fn check_default_property(settings: &Settings, report: &mut Report) {
    if openssl(settings, &["dgst", "-md5", "/dev/null"]).is_ok() {
        report.problems.push(format!(
            "MD5 can be used, so unapproved algorithms are found; {} needs \
             `default_properties = fips=yes`",
            report.conf.display()
        ));
    }
}

fn module_source(settings: &Settings, report: &Report) -> Option<ModuleSource> {
    let sha256 = report.module_sha256.as_deref()?;
    let built = settings.layout.manifest().ok().flatten();
    if built.is_some_and(|manifest| manifest.fips_module_sha256 == sha256) {
        return Some(ModuleSource::SelfBuilt);
    }
    // A file in the bundle's own place that does not even load is ours, damaged.
    let own_place = report.module == settings.layout.fips_module();
    Some(if own_place && report.module_version.is_none() {
        ModuleSource::SelfBuilt
    } else {
        ModuleSource::External
    })
}

/// The bundle's `openssl`, in the environment of mode `only`.
fn command(settings: &Settings, arguments: &[&str]) -> Command {
    let mut command = Command::new(settings.layout.openssl());
    command.args(arguments).envs(settings.variables(FipsMode::Only)).stdin(Stdio::null());
    command
}

/// Runs `openssl` and returns its standard output, or a sentence about its failure.
fn openssl(settings: &Settings, arguments: &[&str]) -> Result<String, String> {
    let shown = arguments.join(" ");
    let Output { status, stdout, stderr } = command(settings, arguments)
        .output()
        .map_err(|cause| format!("cannot run {}: {cause}", settings.layout.openssl().display()))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    let reason = stderr.lines().find(|line| line.contains(":error:")).unwrap_or("no reason given");
    Err(format!("`openssl {shown}` failed ({status}): {}", reason.trim()))
}

/// Reads `openssl list -providers`: a name indented by two, its fields by four.
fn parse_providers(listing: &str) -> Vec<Provider> {
    let mut providers: Vec<Provider> = Vec::new();
    for line in listing.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        match (indent, text.split_once(": "), providers.last_mut()) {
            (2, _, _) => providers.push(Provider {
                name: text.trim_end().to_string(),
                version: String::new(),
                status: String::new(),
            }),
            (4, Some(("version", value)), Some(last)) => last.version = value.to_string(),
            (4, Some(("status", value)), Some(last)) => last.status = value.to_string(),
            _ => {}
        }
    }
    providers
}

/// Reads `openssl list -...-algorithms`: `NAME @ provider` or `{ NAME, NAME } @ provider`.
fn parse_algorithms(listing: &str) -> Vec<String> {
    listing
        .lines()
        .filter_map(|line| line.trim().rsplit_once(" @ "))
        .filter(|(_, provider)| *provider == FIPS_PROVIDER)
        .flat_map(|(names, _)| names.trim_matches(['{', '}', ' ']).split(", "))
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_listings_are_read() {
        let listing = "Providers:\n  base\n    name: OpenSSL Base Provider\n    version: 3.5.5\n    \
                       status: active\n  fips\n    name: x\n    version: 3.1.2\n    status: inactive\n";
        let providers = parse_providers(listing);
        assert_eq!(providers.len(), 2);
        assert_eq!(providers[0].status, "active");
        assert_eq!((providers[1].name.as_str(), providers[1].version.as_str()), ("fips", "3.1.2"));
        assert_eq!(providers[1].status, "inactive");
    }

    #[test]
    fn algorithms_of_other_providers_do_not_count() {
        let listing = "  { 2.16.840.1.101.3.4.4.2, id-alg-ml-kem-768, ML-KEM-768, MLKEM768 } @ fips\n  \
                       X25519MLKEM768 @ fips\n  { 1.2, ML-KEM-512 } @ default\n";
        let names = parse_algorithms(listing);
        assert!(names.iter().any(|name| name == "ML-KEM-768"));
        assert!(names.iter().any(|name| name == "X25519MLKEM768"));
        assert!(!names.iter().any(|name| name == "ML-KEM-512"));
    }

    #[test]
    fn without_a_bundle_everything_is_missing_and_nothing_is_validated() {
        let settings = Settings::from_lookup(|name| {
            (name == "GABION_OPENSSL_PREFIX").then(|| "/nonexistent/bundle".into())
        })
        .unwrap();
        let report = run(&settings);
        assert!(!report.ok && !report.validated);
        assert_eq!(report.algorithms.missing.len(), 18);
        assert!(report.problems[0].contains("gabion bundle build"), "{:?}", report.problems);
        assert_eq!(report.module_source, None);
    }
}

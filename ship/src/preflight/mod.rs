//! Checks whether the FIPS provider is usable in the environment of mode `only`, and whether a
//! running process uses it.
//!
//! ```text
//!   run      what the guard asks before a command starts
//!   survey   the same, the module's self-tests, and everything that OpenSSL and Gabion offer
//!   process  the files that a running process has mapped, and its initial environment
//! ```
//!
//! All checks use the bundle's `openssl` command. OpenSSL silently continues if a provider fails to
//! load, so nothing is assumed. The FIPS provider must be listed as active, and no other provider
//! may serve algorithms. Each required algorithm must be fetched from it with `fips=yes`, and a
//! non-approved algorithm must not be found.

mod listing;
pub mod process;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde::Serialize;

use crate::bundle::VersionStatus;
use crate::environment::{FipsMode, Settings};
use crate::pins::{self, ModuleVersion};
use crate::sha256_file;
pub(crate) use listing::providers;
pub use listing::{Entry, Provider, SelfTest};

/// The algorithms that `fips=yes` must find: FIPS 203, then FIPS 204 and 205.
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

/// The number of algorithms that `fips=yes` must find.
pub const REQUIRED: usize = KEMS.len() + SIGNATURES.len();

/// The kinds of algorithms, with the option of `openssl list` for each.
const KINDS: &[(&str, &str)] = &[
    ("kem", "-kem-algorithms"),
    ("signature", "-signature-algorithms"),
    ("key-exchange", "-key-exchange-algorithms"),
    (GROUPS, "-tls-groups"),
    ("asym-cipher", "-asymcipher-algorithms"),
    ("digest", "-digest-algorithms"),
    ("mac", "-mac-algorithms"),
    ("kdf", "-kdf-algorithms"),
    ("cipher", "-cipher-algorithms"),
    ("random", "-random-generators"),
];

/// The configured name of the FIPS provider.
const FIPS_PROVIDER: &str = "fips";
/// Providers that may be active too: file formats, and the empty provider.
const HARMLESS_PROVIDERS: &[&str] = &["base", "null"];

/// The query for algorithms of the FIPS provider with `fips=yes`. `openssl list` prints all
/// providers' entries for a name that the query finds, so its output must be filtered by provider
/// as well.
const OF_FIPS: &[&str] = &["-propquery", "provider=fips,fips=yes"];
/// The kind for which OpenSSL does not report the provider.
const GROUPS: &str = "tls-group";

/// An algorithm and its providers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Algorithm {
    /// `kem`, `signature`, `digest` ..
    pub kind: &'static str,
    /// The name that OpenSSL fetches it by.
    pub name: String,
    /// For a fetchable algorithm, the provider that serves it; otherwise those that would without
    /// `fips=yes`. Empty if OpenSSL does not report it.
    pub providers: Vec<String>,
}

/// The algorithms that `fips=yes` finds, and those that it does not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Algorithms {
    /// Fetched with `fips=yes`: the required ones in [`run`], all in [`survey`].
    pub fetchable: Vec<Algorithm>,
    /// Offered by the default provider or Gabion's, but not fetched with `fips=yes`; only in
    /// [`survey`].
    pub not_fetchable: Vec<Algorithm>,
    /// Required, but not fetched from the FIPS provider with `fips=yes`.
    pub missing: Vec<String>,
}

/// The results of the module's self-tests, run for this report.
#[derive(Debug, Clone, Serialize)]
pub struct SelfTests {
    /// Whether at least one ran, all passed, and `openssl fipsinstall` reports success.
    pub passed: bool,
    /// The tests in the order they ran.
    pub tests: Vec<SelfTest>,
}

/// The origin of the FIPS module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleSource {
    /// Built with this bundle: FIPS code, but not a validated module.
    SelfBuilt,
    /// From another source.
    External,
}

/// The result of [`run`], printed by `preflight --json`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The mode of this process.
    pub mode: FipsMode,
    /// Whether mode `only` would start a command.
    pub ok: bool,
    /// The bundle's folder.
    pub prefix: PathBuf,
    /// The configuration file of mode `only`.
    pub conf: PathBuf,
    /// The FIPS module's file.
    pub module: PathBuf,
    /// The version that the loaded FIPS provider reports.
    pub module_version: Option<String>,
    /// SHA-256 of the module's file.
    pub module_sha256: Option<String>,
    /// The origin of the module; `None` without a module.
    pub module_source: Option<ModuleSource>,
    /// Whether a validation certificate covers exactly this module.
    pub validated: bool,
    /// The validation status of the module's version; `None` if it is unknown.
    pub module_status: Option<ModuleVersion>,
    /// The bundle's OpenSSL compared with the known versions; `None` if the bundle has no record.
    pub openssl: Option<VersionStatus>,
    /// Hybrids that `fips=yes` finds although one component is not approved.
    pub hybrids: Vec<Hybrid>,
    /// The module's self-tests; only in [`survey`], and only if there is a module.
    pub self_test: Option<SelfTests>,
    /// All providers that OpenSSL lists.
    pub providers: Vec<Provider>,
    /// The algorithms that `fips=yes` finds.
    pub algorithms: Algorithms,
    /// The reasons why `ok` is false, one sentence each.
    pub problems: Vec<String>,
}

/// A hybrid key exchange with ML-KEM, whose other component is not approved by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hybrid {
    /// `X25519MLKEM768`.
    pub name: String,
    /// The other component, such as `X25519`.
    pub half: String,
    /// Whether the module implements that component, or other code does.
    pub in_module: bool,
}

impl std::fmt::Display for Hybrid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let runs = if self.in_module {
            "in the module, which does not approve it"
        } else {
            "outside the module"
        };
        let Hybrid { name, half, .. } = self;
        write!(f, "{name}: its {half} half runs {runs}; only ML-KEM counts (FIPS 140-3 IG D.S)")
    }
}

impl Report {
    /// Returns notes for commands that depend on the module: its version, and whether it is
    /// validated.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let version = self.module_version.as_deref().unwrap_or("of unknown version");
        let mut notes = vec![format!(
            "the FIPS module is {version}; {}; {}",
            self.module_sentence(),
            self.status_sentence()
        )];
        notes.extend(self.hybrids.iter().map(ToString::to_string));
        notes
    }

    /// Returns a sentence about the validation status of the module's version.
    #[must_use]
    pub fn status_sentence(&self) -> String {
        match (&self.module_status, &self.module_version) {
            (Some(known), _) => format!("version {}: {}", known.version, known.status),
            (None, Some(version)) => {
                format!("version {version} is not on the list of validated ones")
            }
            (None, None) => "it is on no list of validated ones".to_string(),
        }
    }

    /// Returns a sentence about the origin of the module.
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
            (false, None) => "fips.so does not exist",
        }
    }
}

/// Checks the FIPS provider and reports all problems. The guard uses this.
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
        module_status: None,
        openssl: settings
            .layout
            .manifest()
            .ok()
            .flatten()
            .map(|manifest| manifest.version_status()),
        hybrids: Vec::new(),
        self_test: None,
        providers: Vec::new(),
        algorithms: Algorithms::default(),
        problems: Vec::new(),
    };
    check(settings, &mut report);
    report.module_source = module_source(settings, &report);
    // A certified hash does not validate a module that does not run.
    report.validated = report.module_version.is_some()
        && report.module_sha256.as_deref().is_some_and(pins::is_certified_module);
    report.module_status = report.module_version.as_deref().and_then(pins::module_version);
    report.ok = report.problems.is_empty();
    report
}

/// Checks as [`run`] does, and also runs the module's self-tests and lists all algorithms of
/// OpenSSL and Gabion.
#[must_use]
pub fn survey(settings: &Settings) -> Report {
    let mut report = run(settings);
    if settings.require_bundle().is_err() {
        return report;
    }
    report.self_test = self_tests(settings, &report);
    if report.self_test.as_ref().is_some_and(|tests| !tests.passed) && report.ok {
        report.problems.push("the module's self-tests do not pass".to_string());
    }
    let mut algorithms = Algorithms::default();
    std::mem::swap(&mut algorithms.missing, &mut report.algorithms.missing);
    let others = !other_providers(&report).is_empty();
    for &(kind, option) in KINDS {
        // With other active providers, the provider of a group cannot be determined.
        if kind == GROUPS && others {
            continue;
        }
        // If the list fails, the reason is already among the problems.
        let approved = approved(settings, kind, option).unwrap_or_default();
        let offered = output(&mut unrestricted(settings, &["list", option]));
        let offered = listing::entries(&offered.unwrap_or_default());
        algorithms.not_fetchable.extend(without(kind, &offered, &approved));
        algorithms.fetchable.extend(approved.iter().map(|entry| algorithm(kind, entry)));
    }
    report.algorithms = algorithms;
    report.ok = report.problems.is_empty();
    report
}

/// Returns the algorithms that the FIPS provider serves with `fips=yes`; for groups, those that
/// libssl has.
fn approved(settings: &Settings, kind: &str, option: &str) -> Result<Vec<Entry>, String> {
    if kind == GROUPS {
        let listed = openssl(settings, &["list", option, "-propquery", "fips=yes"])?;
        return Ok(listing::entries(&listed));
    }
    let mut entries = listing::entries(&openssl(settings, &[&["list", option], OF_FIPS].concat())?);
    entries.retain(|entry| entry.provider.as_deref() == Some(FIPS_PROVIDER));
    Ok(entries)
}

fn algorithm(kind: &'static str, entry: &Entry) -> Algorithm {
    let name = entry.name().to_string();
    Algorithm { kind, name, providers: entry.provider.iter().cloned().collect() }
}

/// Returns the offered algorithms that are not approved, each once with all its providers.
fn without(kind: &'static str, offered: &[Entry], approved: &[Entry]) -> Vec<Algorithm> {
    let mut rows: Vec<(&Entry, Algorithm)> = Vec::new();
    for entry in offered.iter().filter(|entry| !approved.iter().any(|other| entry.same(other))) {
        match rows.iter_mut().find(|(first, _)| first.same(entry)) {
            Some((_, row)) => row.providers.extend(entry.provider.clone()),
            None => rows.push((entry, algorithm(kind, entry))),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
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
    check_other_providers(report);
    let kems = check_algorithms(settings, report);
    let exchanges = check_default_property(settings, report);
    report.hybrids = hybrids(settings, &kems, &exchanges);
}

/// Returns the hybrids among the KEMs found with `fips=yes` whose other component is not an
/// approved key exchange.
fn hybrids(settings: &Settings, kems: &[Entry], approved: &[Entry]) -> Vec<Hybrid> {
    // The minus sign removes the configuration's `fips=yes` from the query.
    let of_module = &["list", "-key-exchange-algorithms", "-propquery", "provider=fips,-fips"];
    let of_module = openssl(settings, of_module).unwrap_or_default();
    let of_module: Vec<Entry> = listing::entries(&of_module)
        .into_iter()
        .filter(|entry| entry.provider.as_deref() == Some(FIPS_PROVIDER))
        .collect();
    let has = |entries: &[Entry], name: &str| entries.iter().any(|entry| entry.has(name));
    let hybrid = |entry: &Entry| {
        let name = entry.name().to_string();
        let (half, _) = name.split_once("MLKEM").filter(|(half, _)| !half.is_empty())?;
        // A NIST curve is a parameter of ECDH.
        let exchange = if half.starts_with("SecP") { "ECDH" } else { half };
        let half = half.to_string();
        let in_module = has(&of_module, exchange);
        (!has(approved, exchange)).then_some(Hybrid { name, half, in_module })
    };
    kems.iter().filter_map(hybrid).collect()
}

/// Checks that the FIPS provider is loaded and active.
fn check_provider(settings: &Settings, report: &mut Report) {
    match openssl(settings, &["list", "-providers"]) {
        Ok(output) => report.providers = listing::providers(&output),
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

/// Checks that no other provider is active that serves algorithms: with a property query such as
/// `fips=no`, a program could fetch from it.
fn check_other_providers(report: &mut Report) {
    let others = other_providers(report);
    if !others.is_empty() {
        report.problems.push(format!(
            "{} activates {} as well, from which a program can fetch unapproved algorithms; next to the \
             FIPS provider, only {} may be active",
            report.conf.display(),
            others.join(", "),
            HARMLESS_PROVIDERS.join(" and ")
        ));
    }
}

/// Returns the names of the forbidden providers. OpenSSL lists only activated providers, and not
/// all of them report the status active.
fn other_providers(report: &Report) -> Vec<&str> {
    let names = report.providers.iter().map(|provider| provider.name.as_str());
    names.filter(|name| *name != FIPS_PROVIDER && !HARMLESS_PROVIDERS.contains(name)).collect()
}

/// Returns the reason why the FIPS provider is not loaded.
fn load_failure(settings: &Settings, report: &Report) -> String {
    if !report.module.is_file() {
        return "the file does not exist".to_string();
    }
    let own_conf = settings.layout.fipsmodule_conf();
    if settings.conf_override.is_none() {
        if !own_conf.is_file() {
            return format!("{} is missing", own_conf.display());
        }
        let mut verify = command(settings, &["fipsinstall", "-verify", "-quiet"]);
        // Without the configuration, which has already failed to load the provider.
        verify.env("OPENSSL_CONF", "/dev/null").arg("-module").arg(&report.module);
        verify.arg("-in").arg(&own_conf);
        if verify.output().is_ok_and(|output| !output.status.success()) {
            return format!("HMAC of the module does not match {}", own_conf.display());
        }
    }
    if let Some(failed) = self_tests(settings, report).and_then(|all| all.first_failure()) {
        return format!("its self-test {failed} fails");
    }
    match openssl(settings, &["list", "-providers", "-provider", FIPS_PROVIDER]) {
        // The self-tests passed with a newly computed integrity value, so the module itself is
        // intact.
        Err(problem) => format!(
            "its self-tests pass, but not with what {} says of it, most often a `module-mac` that \
             belongs to another file: {problem}",
            report.conf.display()
        ),
        Ok(_) => format!("{} does not activate it", report.conf.display()),
    }
}

/// Checks that each required algorithm is found with `fips=yes` in the FIPS provider. Returns the
/// KEMs found.
fn check_algorithms(settings: &Settings, report: &mut Report) -> Vec<Entry> {
    let mut kems = Vec::new();
    for (&(kind, option), required) in KINDS.iter().zip([KEMS, SIGNATURES]) {
        let found = approved(settings, kind, option).unwrap_or_else(|problem| {
            report.problems.push(problem);
            Vec::new()
        });
        for name in required {
            match found.iter().find(|entry| entry.has(name)) {
                Some(entry) => report.algorithms.fetchable.push(algorithm(kind, entry)),
                None => report.algorithms.missing.push((*name).to_string()),
            }
        }
        if kind == KINDS[0].0 {
            kems = found;
        }
    }
    if !report.algorithms.missing.is_empty() {
        report.problems.push(format!(
            "not found in the FIPS provider by fips=yes: {}",
            report.algorithms.missing.join(", ")
        ));
    }
    kems
}

/// Runs the module's self-tests and parses their results. Returns `None` without a module.
///
/// `fipsinstall` lists them individually, with an integrity value computed for this purpose. The
/// integrity value in the configuration is checked separately: if it is wrong, the provider is not
/// active.
fn self_tests(settings: &Settings, report: &Report) -> Option<SelfTests> {
    report.module_sha256.as_ref()?;
    let mut install = command(settings, &["fipsinstall", "-out", "/dev/null", "-module"]);
    install.env("OPENSSL_CONF", "/dev/null").arg(&report.module);
    let done = install.output().ok()?;
    let tests = listing::self_tests(&String::from_utf8_lossy(&done.stderr));
    let passed = done.status.success() && !tests.is_empty() && tests.iter().all(|test| test.passed);
    Some(SelfTests { passed, tests })
}

impl SelfTests {
    /// Returns the first failure, such as `SHA2 (KAT_Digest)`.
    fn first_failure(&self) -> Option<String> {
        let failed = self.tests.iter().find(|test| !test.passed)?;
        Some(format!("{} ({})", failed.name, failed.kind))
    }
}

/// Checks the default property query. Without `default_properties = fips=yes`, a command would find
/// non-approved algorithms: those of other providers (MD5 is in no FIPS provider), and non-approved
/// key exchanges of the module itself. Returns the approved key exchanges.
fn check_default_property(settings: &Settings, report: &mut Report) -> Vec<Entry> {
    let mut found = Vec::new();
    if openssl(settings, &["dgst", "-md5", "/dev/null"]).is_ok() {
        found.push("MD5".to_string());
    }
    let exchanges = |query: &[&str]| {
        let arguments = [&["list", "-key-exchange-algorithms"], query].concat();
        openssl(settings, &arguments).map(|output| listing::entries(&output))
    };
    let mut allowed = Vec::new();
    match exchanges(&[]).and_then(|all| Ok((all, exchanges(&["-propquery", "fips=yes"])?))) {
        Ok((all, approved)) => {
            found.extend(without("key-exchange", &all, &approved).into_iter().map(|row| row.name));
            allowed = approved;
        }
        // A check that failed to run does not count as passed.
        Err(problem) => report.problems.push(problem),
    }
    if !found.is_empty() {
        report.problems.push(format!(
            "{} can be used, so unapproved algorithms are found; {} needs \
             `default_properties = fips=yes`",
            found.join(", "),
            report.conf.display()
        ));
    }
    allowed
}

fn module_source(settings: &Settings, report: &Report) -> Option<ModuleSource> {
    let sha256 = report.module_sha256.as_deref()?;
    let built = settings.layout.manifest().ok().flatten();
    if built.is_some_and(|manifest| manifest.fips_module_sha256 == sha256) {
        return Some(ModuleSource::SelfBuilt);
    }
    // If the module in the bundle does not load at all, the bundle is damaged.
    let own_place = report.module == settings.layout.fips_module();
    Some(if own_place && report.module_version.is_none() {
        ModuleSource::SelfBuilt
    } else {
        ModuleSource::External
    })
}

/// Returns the bundle's `openssl` command in the environment of mode `only`.
fn command(settings: &Settings, arguments: &[&str]) -> Command {
    let mut command = Command::new(settings.layout.openssl());
    command.args(arguments).envs(settings.variables(FipsMode::Only)).stdin(Stdio::null());
    command
}

/// Returns the bundle's `openssl` command with the default provider and Gabion's.
fn unrestricted(settings: &Settings, arguments: &[&str]) -> Command {
    let mut command = command(settings, arguments);
    command.env("OPENSSL_CONF", settings.layout.gabion_conf());
    command.env("OPENSSL_MODULES", settings.layout.modules());
    command
}

/// Runs `openssl` and returns its standard output, or a sentence about the failure.
fn openssl(settings: &Settings, arguments: &[&str]) -> Result<String, String> {
    output(&mut command(settings, arguments))
        .map_err(|problem| format!("`openssl {}` {problem}", arguments.join(" ")))
}

/// Runs a command and returns its standard output, or the rest of a sentence about the failure.
fn output(command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } =
        command.output().map_err(|cause| format!("cannot be run: {cause}"))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    let reason = stderr.lines().find(|line| line.contains(":error:")).unwrap_or("no reason given");
    Err(format!("failed ({status}): {}", reason.trim()))
}

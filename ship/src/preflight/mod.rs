//! Is the FIPS provider usable, in the environment that mode `only` gives a command, and does a
//! process run in it?
//!
//! ```text
//!   run      what the guard asks before a command starts
//!   survey   the same, the module's self-tests, and everything that OpenSSL and Gabion offer
//!   process  what a running process has mapped, and what it was started with
//! ```
//!
//! The questions are put to the bundle's `openssl` command. OpenSSL itself starts without a word
//! when a provider fails to load, so nothing is taken for granted: the provider must be listed as
//! active and no other that serves algorithms, each algorithm must be fetched by `fips=yes` and come
//! from it, and an algorithm that is not approved must not be found at all.

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

/// How many algorithms must be found by `fips=yes`.
pub const REQUIRED: usize = KEMS.len() + SIGNATURES.len();

/// Kinds of algorithms, each with the option of `openssl list` that fetches those of it.
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

/// The name under which the FIPS provider is configured.
const FIPS_PROVIDER: &str = "fips";
/// What may be active beside it: file formats, and nothing at all.
const HARMLESS_PROVIDERS: &[&str] = &["base", "null"];

/// What the FIPS provider serves by `fips=yes`. `openssl list` prints every provider's entry of a
/// name that the query finds, so what it lists by this has to be sifted by provider as well.
const OF_FIPS: &[&str] = &["-propquery", "provider=fips,fips=yes"];
/// The kind of which OpenSSL does not say whose they are.
const GROUPS: &str = "tls-group";

/// An algorithm, and who serves it by `fips=yes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Algorithm {
    /// `kem`, `signature`, `digest` ..
    pub kind: &'static str,
    /// The name by which OpenSSL fetches it.
    pub name: String,
    /// Whose it is: of a fetchable one the provider that serves it, of another one those that
    /// would without `fips=yes`. None where OpenSSL does not say it.
    pub providers: Vec<String>,
}

/// What `fips=yes` finds and what it does not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Algorithms {
    /// Fetched by `fips=yes`: by [`run`] the required ones, by [`survey`] all.
    pub fetchable: Vec<Algorithm>,
    /// In the default provider or in Gabion's, and not fetched by `fips=yes`; only by [`survey`].
    pub not_fetchable: Vec<Algorithm>,
    /// Required, and not fetched from the FIPS provider by `fips=yes`.
    pub missing: Vec<String>,
}

/// What the module's self-tests said when they were run for this report.
#[derive(Debug, Clone, Serialize)]
pub struct SelfTests {
    /// True when there were some, all passed, and `openssl fipsinstall` says so too.
    pub passed: bool,
    /// Each of them, in their order.
    pub tests: Vec<SelfTest>,
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
    /// What is known of the module's version at the validation program; none when nothing is.
    pub module_status: Option<ModuleVersion>,
    /// The bundle's OpenSSL against what is known of its versions; none where its record is gone.
    pub openssl: Option<VersionStatus>,
    /// Hybrids that are found by `fips=yes` and have a half that is not approved by itself.
    pub hybrids: Vec<Hybrid>,
    /// The module's self-tests; only by [`survey`], and not where there is no module.
    pub self_test: Option<SelfTests>,
    /// Every provider that OpenSSL lists.
    pub providers: Vec<Provider>,
    /// What `fips=yes` finds.
    pub algorithms: Algorithms,
    /// Why `ok` is false, one sentence each.
    pub problems: Vec<String>,
}

/// A key exchange of two, one of them ML-KEM, whose other half is not approved by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hybrid {
    /// `X25519MLKEM768`.
    pub name: String,
    /// The other half, `X25519`.
    pub half: String,
    /// Whether the module has that half, or something outside of it computes it.
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
    /// What a command that depends on the module should be told: which it is, and whether it is validated.
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

    /// One sentence about the module's version at the validation program, for people.
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

/// Checks the FIPS provider and reports everything that is wrong with it: what the guard asks.
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
    // A hash alone validates nothing that does not run.
    report.validated = report.module_version.is_some()
        && report.module_sha256.as_deref().is_some_and(pins::is_certified_module);
    report.module_status = report.module_version.as_deref().and_then(pins::module_version);
    report.ok = report.problems.is_empty();
    report
}

/// As [`run`], with the module's self-tests and everything that OpenSSL and Gabion offer.
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
        // Whose a group is cannot be told where another provider may have brought it.
        if kind == GROUPS && others {
            continue;
        }
        // What cannot be listed is not there; why not is among the problems already.
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

/// What the FIPS provider serves by `fips=yes`; of the groups, what libssl has by it.
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

/// What is offered and not approved; what two providers offer once, with both.
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

/// The hybrids among KEMs that `fips=yes` finds whose other half is not among its key exchanges.
fn hybrids(settings: &Settings, kems: &[Entry], approved: &[Entry]) -> Vec<Hybrid> {
    // The minus sign takes the configuration's `fips=yes` out of the question.
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
        // A curve of NIST's is a parameter of ECDH.
        let exchange = if half.starts_with("SecP") { "ECDH" } else { half };
        let half = half.to_string();
        let in_module = has(&of_module, exchange);
        (!has(approved, exchange)).then_some(Hybrid { name, half, in_module })
    };
    kems.iter().filter_map(hybrid).collect()
}

/// The FIPS provider must be loaded and active.
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

/// No other provider may serve anything: a program fetches from whichever is active with a property
/// query of its own, such as `fips=no`.
fn check_other_providers(report: &mut Report) {
    let others = other_providers(report);
    if !others.is_empty() {
        report.problems.push(format!(
            "{} activates {} as well, from which a program can fetch unapproved algorithms; beside the \
             FIPS provider there may be {} only",
            report.conf.display(),
            others.join(", "),
            HARMLESS_PROVIDERS.join(" and ")
        ));
    }
}

/// The names of the providers that should not be there. OpenSSL lists those that are activated, and not
/// every one of them says that it is active.
fn other_providers(report: &Report) -> Vec<&str> {
    let names = report.providers.iter().map(|provider| provider.name.as_str());
    names.filter(|name| *name != FIPS_PROVIDER && !HARMLESS_PROVIDERS.contains(name)).collect()
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
    if let Some(failed) = self_tests(settings, report).and_then(|all| all.first_failure()) {
        return format!("its self-test {failed} fails");
    }
    match openssl(settings, &["list", "-providers", "-provider", FIPS_PROVIDER]) {
        // The self-tests passed with an integrity value made for them, so the file is as it was built.
        Err(problem) => format!(
            "its self-tests pass, but not with what {} says of it, most often a `module-mac` that \
             belongs to another file: {problem}",
            report.conf.display()
        ),
        Ok(_) => format!("{} does not activate it", report.conf.display()),
    }
}

/// Each required algorithm must be found by `fips=yes`, in the FIPS provider. Returns the KEMs that are.
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

/// Runs the module's self-tests and reads what each of them says; none where there is no module.
///
/// `fipsinstall` shows them one by one, under an integrity value that it makes for the purpose. The
/// value that counts is the configuration's: without it the provider is not active.
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
    /// The first that failed, as `SHA2 (KAT_Digest)`.
    fn first_failure(&self) -> Option<String> {
        let failed = self.tests.iter().find(|test| !test.passed)?;
        Some(format!("{} ({})", failed.name, failed.kind))
    }
}

/// Without `default_properties = fips=yes` a command would still find unapproved algorithms: of another
/// provider, where MD5 is one that no FIPS provider has, and of the module itself, which has key
/// exchanges that it does not approve. Returns those that it does.
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
        // What was not looked at does not count as refused.
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

/// The bundle's `openssl` with the default provider and Gabion's: all that there is.
fn unrestricted(settings: &Settings, arguments: &[&str]) -> Command {
    let mut command = command(settings, arguments);
    command.env("OPENSSL_CONF", settings.layout.gabion_conf());
    command.env("OPENSSL_MODULES", settings.layout.modules());
    command
}

/// Runs `openssl` and returns its standard output, or a sentence about its failure.
fn openssl(settings: &Settings, arguments: &[&str]) -> Result<String, String> {
    output(&mut command(settings, arguments))
        .map_err(|problem| format!("`openssl {}` {problem}", arguments.join(" ")))
}

/// Runs a command and returns its standard output, or the rest of a sentence about its failure.
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

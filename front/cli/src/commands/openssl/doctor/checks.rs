//! The checks, ordered by dependency.

use std::path::Path;

use gabion_engine::{Algorithm, BACKEND_VARIABLE, BackendReport, BackendState, Config, Engine};
use gabion_machine::Machine;
use gabion_provider_stats::Operation;
use gabion_ship::bundle::Layout;
use gabion_ship::environment::{FipsMode, Settings};
use gabion_ship::{pins, preflight, provider, sha256_file};

use super::gpu::Gpus;
use super::{Check, Verdict};
use crate::openssl::Openssl;

/// The backends that a processor of this architecture may not support, and the extensions they
/// need.
const EXTENSIONS: &[(&str, &str)] = if cfg!(target_arch = "x86_64") {
    &[("avx512", "the AVX-512 extensions"), ("avx2", "the AVX2 and BMI extensions")]
} else {
    &[]
};

const BUILD: &str = "gabion bundle build";
const REPAIR: &str = "gabion bundle build --repair";

/// Returns the fix for a bundle that does not work: variables that override its parts are suggested
/// before a rebuild.
fn repair(settings: &Settings) -> String {
    match overridden(settings) {
        Some(name) => {
            format!("unset {name}, or set it to a file that is equivalent to the bundle's")
        }
        None => REPAIR.to_owned(),
    }
}

/// Returns the variable that overrides a part of the bundle, if one is set.
fn overridden(settings: &Settings) -> Option<&'static str> {
    let conf = settings.conf_override.as_ref().map(|_| "GABION_OPENSSL_CONF");
    conf.or(settings.modules_override.as_ref().map(|_| "GABION_OPENSSL_MODULES"))
}

/// Returns the command that builds a missing bundle. If a variable sets its location, that may be
/// wrong.
fn build(layout: &Layout) -> String {
    let prefix = std::env::var_os(PREFIX).filter(|prefix| !prefix.is_empty());
    match prefix {
        None => BUILD.to_owned(),
        Some(_) => format!(
            "unset {PREFIX}, or {BUILD} --prefix {}",
            crate::files::shown(layout.prefix(), "-")
        ),
    }
}

const PREFIX: &str = "GABION_OPENSSL_PREFIX";

/// Returns the check for a failed command of Gabion. A missing temporary folder is not a fault of
/// the bundle.
fn of_command(name: &str, cause: String, settings: &Settings) -> Check {
    let is_of_place = cause.starts_with(crate::openssl::NO_PLACE);
    let mend = match is_of_place {
        true => "set TMPDIR to a folder that can be written to".to_owned(),
        false => repair(settings),
    };
    Check::new(name, Verdict::Broken, cause).mended_by(&mend)
}

/// The results of all checks.
pub struct Report {
    /// The list of checks.
    pub checks: Vec<Check>,
    /// The full report on the FIPS provider, if there is a bundle.
    pub fips: Option<preflight::Report>,
}

/// Runs all checks, except the search for GPUs, which has already run.
pub fn all(gpus: &Gpus) -> Report {
    let mut report = Report { checks: vec![processor()], fips: None };
    report.checks.extend(backends(gpus));
    report.checks.extend(gpus.checks());
    report.checks.push(system_openssl());
    let settings = match Settings::from_process() {
        Ok(settings) => settings,
        Err(cause) => {
            let check = Check::new("environment", Verdict::Broken, cause.to_string());
            report.checks.push(
                match std::env::var_os("HOME").is_some_and(|home| !home.is_empty()) {
                    // The error names the variable and its valid values.
                    true => check.mended_by("set the variable to one of these values, or unset it"),
                    false => check.mended_by(&format!("set HOME, or {PREFIX}")),
                },
            );
            return report;
        }
    };
    let bundle = bundle(&settings.layout);
    let usable = settings.layout.openssl().is_file();
    report.checks.push(bundle);
    if !usable {
        for name in ["FIPS provider", "provider gabion"] {
            report.checks.push(Check::new(name, Verdict::Off, "needs the bundle"));
        }
        return report;
    }
    if let Err(cause) = settings.require_bundle() {
        // If the environment is invalid, this command does not run any part of the bundle either.
        let check = Check::new("environment", Verdict::Broken, cause.to_string());
        let named = overridden(&settings).filter(|name| check.detail.starts_with(name));
        report.checks.push(match named {
            Some(_) => check.mended_by(&repair(&settings)),
            None => check,
        });
        return report;
    }
    let fips = preflight::survey(&settings);
    report.checks.push(fips_provider(&settings, &fips));
    report.fips = Some(fips);
    let loaded = gabion_provider(&settings);
    let is_loaded = loaded.verdict == Verdict::Ok;
    report.checks.push(loaded);
    if settings.mode == FipsMode::Only {
        let detail = "mode is `only`: nothing but the FIPS provider serves";
        report.checks.push(Check::new("operations", Verdict::Off, detail));
    } else if is_loaded {
        report.checks.extend(operations(&settings));
    }
    report
}

fn processor() -> Check {
    let machine = Machine::detect();
    let cores = crate::style::count(machine.cores as u64, "core");
    let detail = format!("{}, {cores}; {}", machine.cpu, machine.features.join(" "));
    Check::new("processor", Verdict::Ok, detail)
}

/// Checks each backend of this machine, and reports the vector backends that it does not support.
fn backends(gpus: &Gpus) -> Vec<Check> {
    let wanted = Config::from_environment().backend;
    let is_gpu = |wanted: &str| wanted.eq_ignore_ascii_case(gabion_engine::gpu::NAME);
    // A missing or disabled GPU is reported in a separate line.
    let backend = wanted.clone().filter(|wanted| is_gpu(wanted) && gpus.absent().is_none());
    let config = Config { backend, ..Config::default() };
    let engine = match Engine::new(&config) {
        Ok(engine) => engine,
        Err(cause) => return vec![Check::new("backends", Verdict::Broken, cause.to_string())],
    };
    let found = engine.report();
    let is_wanted =
        |name: &str| wanted.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(name));
    let healthy = |state: &BackendState| *state == BackendState::Ok;
    let used = found.iter().find(|backend| healthy(&backend.state) && is_wanted(backend.name));
    let mut checks = Vec::new();
    for backend in &found {
        checks.push(of_backend(backend, used.is_some_and(|used| used.name == backend.name)));
    }
    for &(name, extensions) in EXTENSIONS {
        if !found.iter().any(|backend| backend.name == name) {
            let check = format!("backend {name}");
            let detail = format!("this processor lacks {extensions} it needs; everything works");
            checks.push(Check::new(&check, Verdict::Off, format!("{detail} without")));
        }
    }
    if let (Some(wanted), None) = (wanted.filter(|wanted| !is_gpu(wanted)), used) {
        let names: Vec<&str> = found.iter().map(|backend| backend.name).collect();
        let detail = format!(
            "{BACKEND_VARIABLE}={wanted} names no healthy backend of this machine; there are {}",
            names.join(", ")
        );
        let mend = format!("unset {BACKEND_VARIABLE}");
        checks.push(Check::new("backend choice", Verdict::Broken, detail).mended_by(&mend));
    }
    checks
}

/// Checks one backend, and whether it is in use.
fn of_backend(backend: &BackendReport, in_use: bool) -> Check {
    let name = format!("backend {}", backend.name);
    match &backend.state {
        BackendState::Ok => {
            let in_use = if in_use { "; in use" } else { "" };
            let lanes = match backend.lanes {
                1 => "one lane".to_owned(),
                lanes => format!("{lanes} lanes"),
            };
            let detail = format!("self-tests passed, {lanes}{in_use}");
            Check::new(name, Verdict::Ok, detail)
        }
        BackendState::Withdrawn(reason) => {
            let detail = format!("withdrawn where a self-test failed: {reason}");
            Check::new(name, Verdict::Broken, detail)
                .mended_by("report this with the output of gabion doctor --json")
        }
        BackendState::Quarantined => {
            let detail = "set aside: it lost a batch of a self-test, and the next backend serves";
            Check::new(name, Verdict::Broken, detail)
                .mended_by("see to the device that it runs on; it is asked again by itself")
        }
        BackendState::Untested => {
            let detail = "not tested: the system gave no memory for a self-test";
            Check::new(name, Verdict::Broken, detail)
        }
        other => Check::new(name, Verdict::Broken, format!("{other:?}")),
    }
}

/// Checks the OpenSSL in PATH, which can load Gabion's provider if it is new enough.
fn system_openssl() -> Check {
    let name = "system OpenSSL";
    match provider::inspect(Path::new("openssl")) {
        Ok(found) => {
            let detail = format!("{}, modules in {}", found.version, found.modules.display());
            if found.modules.join("gabion.so").is_file() {
                return Check::new(name, Verdict::Ok, detail + "; has gabion.so");
            }
            Check::new(
                name,
                Verdict::Ok,
                detail
                    + "; without gabion.so (optional: `sudo gabion \
                provider install`)",
            )
        }
        Err(cause) => Check::new(name, Verdict::Off, cause.to_string()),
    }
}

fn bundle(layout: &Layout) -> Check {
    let name = "OpenSSL bundle";
    let place = layout.prefix().display();
    let manifest = match layout.manifest() {
        Ok(manifest) => manifest,
        Err(cause) => {
            return Check::new(name, Verdict::Broken, cause.to_string()).mended_by(REPAIR);
        }
    };
    let missing = layout.missing_parts();
    let Some(manifest) = manifest else {
        if !layout.prefix().exists() {
            let detail = format!("none in {place}");
            return Check::new(name, Verdict::Off, detail).mended_by(&build(layout));
        }
        let detail = format!("{place} is not a finished bundle");
        return Check::new(name, Verdict::Broken, detail).mended_by(REPAIR);
    };
    if !missing.is_empty() {
        // A bundle built from a tarball is not rebuilt.
        let mend = match missing == [layout.fipsmodule_conf()] {
            true => format!("{BUILD} --prefix {}", crate::files::shown(layout.prefix(), "-")),
            false => REPAIR.to_owned(),
        };
        let missing: Vec<String> = missing.iter().map(|part| part.display().to_string()).collect();
        let detail = format!("{place} lacks {}", missing.join(", "));
        return Check::new(name, Verdict::Broken, detail).mended_by(&mend);
    }
    let standing = manifest.version_status();
    let from = standing.taken_from.map_or(String::new(), |from| format!(" from {from}"));
    let detail = format!("{}{from} in {place}, built {}", manifest.version, manifest.built);
    let mut check = Check::new(name, Verdict::Ok, detail);
    if !standing.warnings.is_empty() {
        check.warning = Some(standing.warnings.join("; "));
        // A newer version of another line is not an update for this one.
        let newest = standing.newest.filter(|newest| *newest != manifest.version);
        check.mend = newest.map(|newest| match pins::pins() {
            Ok(pins) if pins.newest() == newest => BUILD.to_owned(),
            _ => format!("{BUILD} --openssl {newest}"),
        });
    }
    check
}

fn fips_provider(settings: &Settings, report: &preflight::Report) -> Check {
    let name = "FIPS provider";
    if report.ok {
        let version = report.module_version.as_deref().unwrap_or("of unknown version");
        let detail = format!(
            "{version}, mode {}; {}; {}",
            report.mode,
            report.module_sentence(),
            report.status_sentence()
        );
        return Check::new(name, Verdict::Ok, detail);
    }
    // In mode `off` the FIPS module is not required, unless it exists and is damaged.
    let unused = settings.mode == FipsMode::Off && report.module_sha256.is_none();
    let verdict = if unused { Verdict::Off } else { Verdict::Broken };
    Check::new(name, verdict, report.problems.join(";\n")).mended_by(&repair(settings))
}

fn gabion_provider(settings: &Settings) -> Check {
    let name = "provider gabion";
    let module = settings.layout.gabion_module();
    if !module.is_file() {
        let detail = format!("{} is missing", module.display());
        return Check::new(name, Verdict::Off, detail).mended_by(BUILD);
    }
    let listed =
        Openssl::new(settings).and_then(|openssl| openssl.run(&["list", "-providers"], None));
    let active = match &listed {
        Ok(text) => version_of_active(text),
        Err(cause) => return of_command(name, cause.clone(), settings),
    };
    let Some(version) = active else {
        let detail = format!(
            "{} exists, but OpenSSL does not load it through {}",
            module.display(),
            settings.conf(FipsMode::Off).display()
        );
        return Check::new(name, Verdict::Broken, detail).mended_by(&repair(settings));
    };
    let mut check = Check::new(name, Verdict::Ok, format!("{version}, active in the bundle"));
    // Only the module installed with this program can show that the bundle has a different one.
    let ours = provider::find_module().and_then(|module| sha256_file(&module).ok());
    if ours.is_some() && ours != sha256_file(&module).ok() {
        check.warning = Some("not the module that came with this program".to_owned());
        check.mend = Some("gabion provider refresh".to_owned());
    }
    check
}

/// Returns the version that `openssl list -providers` prints for `gabion`, if it is active.
fn version_of_active(listed: &str) -> Option<&str> {
    let (_, after) = listed.split_once("\n  gabion\n")?;
    let own = after.lines().take_while(|line| line.starts_with("    "));
    let field = |name: &str| own.clone().find_map(|line| line.trim().strip_prefix(name));
    field("status: ").filter(|status| status.trim() == "active")?;
    field("version: ").map(str::trim)
}

const KEM: Algorithm = Algorithm::MlKem768;
const DSA: Algorithm = Algorithm::MlDsa65;

/// One operation of each kind, as arguments of `openssl`; each step uses the files of the previous
/// ones.
const STEPS: [(Algorithm, Operation, &str); 6] = [
    (KEM, Operation::Keygen, "genpkey -algorithm ML-KEM-768 -out kem"),
    (KEM, Operation::Encaps, "pkeyutl -encap -inkey kem -out ct -secret sent"),
    (KEM, Operation::Decaps, "pkeyutl -decap -inkey kem -in ct -secret got"),
    (DSA, Operation::Keygen, "genpkey -algorithm ML-DSA-65 -out dsa"),
    (DSA, Operation::Sign, "pkeyutl -sign -rawin -inkey dsa -in message -out sig"),
    (DSA, Operation::Verify, "pkeyutl -verify -rawin -inkey dsa -in message -sigfile sig"),
];

/// Runs one operation of each kind with the bundle's openssl. Gabion's counters show which provider
/// performed it.
fn operations(settings: &Settings) -> Vec<Check> {
    let openssl = match Openssl::new(settings) {
        Ok(openssl) => openssl,
        Err(cause) => return vec![of_command("operations", cause, settings)],
    };
    if let Err(cause) = std::fs::write(openssl.file("message"), b"gabion doctor\n") {
        let detail = format!("cannot write a temporary file: {cause}");
        return vec![Check::new("operations", Verdict::Broken, detail)];
    }
    STEPS
        .into_iter()
        .enumerate()
        .map(|(at, (algorithm, operation, arguments))| {
            let name = format!("{algorithm} {}", operation.name());
            match served_by(&openssl, algorithm, operation, arguments, &format!("stats{at}")) {
                Ok("gabion") => Check {
                    served_by: Some("gabion"),
                    ..Check::new(name, Verdict::Ok, "served by gabion")
                },
                Ok(other) => Check {
                    served_by: Some(other),
                    ..Check::new(name, Verdict::Broken, format!("served by {other}, not by gabion"))
                        .mended_by(&repair(settings))
                },
                Err(cause) => of_command(&name, cause, settings),
            }
        })
        .collect()
}

fn served_by(
    openssl: &Openssl<'_>,
    algorithm: Algorithm,
    operation: Operation,
    arguments: &str,
    stats: &str,
) -> Result<&'static str, String> {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    openssl.run(&arguments, Some(stats))?;
    if operation == Operation::Decaps {
        let secret = |name: &str| std::fs::read(openssl.file(name));
        let (sent, got) = (secret("sent"), secret("got"));
        if !matches!((&sent, &got), (Ok(sent), Ok(got)) if sent == got && !sent.is_empty()) {
            return Err("decapsulation gave another secret than encapsulation".to_owned());
        }
    }
    let (calls, errors) = openssl.counters(stats)?.of(algorithm.name(), operation);
    // After an error in Gabion, OpenSSL falls back to its own code, so counting calls is not
    // enough.
    Ok(if calls > 0 && errors == 0 { "gabion" } else { "default" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_active_provider_counts() {
        let listed = "Providers:\n  default\n    name: x\n    version: 3.5.5\n    status: active\n  \
                      gabion\n    name: Gabion provider\n    version: 0.1.0\n    status: active\n";
        assert_eq!(version_of_active(listed), Some("0.1.0"));
        let inactive = listed.replace("0.1.0\n    status: active", "0.1.0\n    status: inactive");
        assert_eq!(version_of_active(&inactive), None);
        assert_eq!(version_of_active("Providers:\n  default\n    status: active\n"), None);
    }

    #[test]
    fn doctor_lists_the_portable_backend() {
        let all = backends(&Gpus::find());
        let portable = all.iter().find(|check| check.name == "backend portable").unwrap();
        assert_eq!(portable.verdict, Verdict::Ok);
        assert!(all.iter().any(|check| check.name == "backend avx512"));
    }

    #[test]
    fn a_backend_that_does_not_serve_says_why() {
        for (state, why) in [
            (BackendState::Quarantined, "set aside"),
            (BackendState::Untested, "not tested"),
            (BackendState::Withdrawn("lane 3 differs".to_owned()), "lane 3 differs"),
        ] {
            let report = BackendReport { name: "device", lanes: 64, state };
            let check = of_backend(&report, false);
            assert_eq!((&check.name[..], check.verdict), ("backend device", Verdict::Broken));
            assert!(check.detail.contains(why), "{}", check.detail);
        }
    }
}

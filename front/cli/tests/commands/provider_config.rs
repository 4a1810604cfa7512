//! `gabion provider enable` and `disable`: the configuration file of the host, with the bundle's openssl as the host's.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::harness::{CommandResult, Work, bundle, program};

/// Debian's file, shortened.
const DEBIAN: &str = "HOME = .\nopenssl_conf = openssl_init\nconfig_diagnostics = 1\n[openssl_init]\nproviders = provider_sect\n\
                      ssl_conf = ssl_sect\n[provider_sect]\ndefault = default_sect\n[default_sect]\n# activate = 1\n\
                      [ssl_sect]\nsystem_default = system\n[system]\nMinProtocol = TLSv1.3\n[req]\nstring_mask = utf8only\n";
/// Red Hat's configuration, with the file that it includes.
const RED_HAT: &str = "openssl_conf = openssl_init\n[openssl_init]\nproviders = provider_sect\nssl_conf = ssl_module\n\
                       alg_section = evp_properties\n[ evp_properties ]\n[provider_sect]\ndefault = default_sect\n\
                       [default_sect]\nactivate = 1\n[ ssl_module ]\nsystem_default = crypto_policy\n[ crypto_policy ]\n\
                       .include = POLICY\n[ ca ]\n";

/// A host: an OpenSSL with a configuration file, and Gabion's module.
struct Host {
    work: Work,
    bundle: PathBuf,
}

impl Host {
    /// `None` without a bundle.
    fn new(config: &str) -> Option<Host> {
        let host = Host { work: Work::new(), bundle: bundle()? };
        host.work.write("policy", "CipherString = @SECLEVEL=2:kEECDH\nMinProtocol = TLSv1.2\n");
        let policy = host.work.path("policy");
        host.work.write("openssl.cnf", config.replace("POLICY", policy.to_str().unwrap()));
        host.work.write("message", "message");
        Some(host)
    }

    fn config(&self) -> String {
        String::from_utf8(self.work.read("openssl.cnf")).unwrap()
    }

    fn gabion(&self, verb: &str, more: &[&str]) -> CommandResult {
        let openssl = self.bundle.join("bin/openssl");
        let openssl = openssl.to_str().unwrap();
        let named = ["provider", verb, "--config", "openssl.cnf", "--openssl", openssl];
        self.work.gabion(&[&named, more].concat())
    }

    fn enable(&self, module: &Path) -> CommandResult {
        self.gabion("enable", &["--module", module.to_str().unwrap()])
    }

    fn openssl(&self, arguments: &[&str]) -> CommandResult {
        let mut command = Command::new(self.bundle.join("bin/openssl"));
        command.args(arguments).env("OPENSSL_CONF", self.work.path("openssl.cnf"));
        command.env_remove("OPENSSL_MODULES").current_dir(self.work.folder());
        CommandResult::of(command.output().unwrap())
    }

    /// Compiles a module that a test needs.
    fn module(&self, source: &str) -> PathBuf {
        self.work.write("module.c", source);
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o", "module.so", "module.c", "-ldl"]);
        CommandResult::of(compiler.current_dir(self.work.folder()).output().unwrap()).ok();
        self.work.path("module.so")
    }

    /// Checks that there are no files other than the configuration and the test's.
    #[track_caller]
    fn is_tidy(&self) {
        let mut names = self.work.names();
        names.retain(|name| !name.starts_with("module") && name != "links");
        names.sort();
        assert_eq!(names, ["message", "openssl.cnf", "policy"]);
    }
}

fn module() -> PathBuf {
    program("libgabion_provider.so")
}

#[test]
fn every_program_loads_the_module_until_it_is_disabled_and_every_byte_is_back() {
    let own = std::fs::read_to_string("/etc/ssl/openssl.cnf").unwrap_or_default();
    for config in ["", "# no end", DEBIAN, RED_HAT, &own] {
        let Some(host) = Host::new(config) else { return };
        let before = host.config();
        let ciphers = host.openssl(&["ciphers", "-s", "-v"]).ok().text();
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(host.work.path("openssl.cnf"), mode).unwrap();
        host.enable(&module()).ok();
        let enabled = host.config();
        let data = std::fs::metadata(host.work.path("openssl.cnf")).unwrap();
        assert_eq!(data.mode() & 0o7777, 0o640);
        assert_eq!(host.work.read("openssl.cnf.gabion-backup"), before.as_bytes());
        let listed = host.openssl(&["list", "-providers"]).ok().text();
        assert!(listed.contains("  gabion\n") && listed.contains("  default\n"), "{listed}");
        let groups = host.openssl(&["list", "-kem-algorithms"]).ok().text();
        assert!(groups.contains("@ gabion"), "{groups}");
        assert_eq!(host.openssl(&["ciphers", "-s", "-v"]).ok().text(), ciphers);
        host.openssl(&["genpkey", "-algorithm", "ML-DSA-65", "-out", "module.key"]).ok();
        host.enable(&module()).ok().says("already enabled");
        assert_eq!(host.config(), enabled);
        host.gabion("disable", &[]).ok();
        assert_eq!(host.config(), before);
        host.is_tidy();
        host.gabion("disable", &[]).ok().says("not enabled");
    }
}

#[test]
fn disable_needs_neither_module_nor_openssl_and_keeps_later_edits() {
    let Some(host) = Host::new(RED_HAT) else { return };
    let before = host.config();
    let copy = host.work.path("module.so");
    std::fs::copy(module(), &copy).unwrap();
    host.enable(&copy).ok();
    std::fs::remove_file(&copy).unwrap();
    // Programs go on without it, also where the file wants to hear of errors.
    host.openssl(&["dgst", "-sha256", "message"]).ok();
    let listed = host.openssl(&["list", "-providers"]).ok().text();
    assert!(!listed.contains("gabion") && listed.contains("default"), "{listed}");
    let edited = format!("# first\n{}default_days = 7\n[new]\nx = 1\n", host.config());
    host.work.write("openssl.cnf", &edited);
    let done = host.work.gabion(&[
        "provider",
        "disable",
        "--json",
        "--config",
        "openssl.cnf",
        "--openssl",
        "/nonexistent/openssl",
    ]);
    let done = done.ok().json();
    assert!(done["warning"].as_str().unwrap().contains("cannot be run"), "{done}");
    assert_eq!(host.config(), format!("# first\n{before}default_days = 7\n[new]\nx = 1\n"));
    assert_eq!(
        done["backup"].as_str().map(Path::new),
        Some(&*backup(&host)),
        "edits are not in it"
    );
}

fn backup(host: &Host) -> PathBuf {
    host.work.folder().canonicalize().unwrap().join("openssl.cnf.gabion-backup")
}

#[test]
fn json_says_what_was_done_and_links_are_followed() {
    let Some(host) = Host::new(DEBIAN) else { return };
    std::fs::create_dir(host.work.path("links")).unwrap();
    symlink("../openssl.cnf", host.work.path("links/conf")).unwrap();
    let openssl = host.bundle.join("bin/openssl");
    let verb = |verb: &str, more: &[&str]| {
        let named = ["provider", verb, "--json", "--config", "links/conf", "--openssl"];
        host.work.gabion(&[&named[..], &[openssl.to_str().unwrap()], more].concat()).ok().json()
    };
    let module = module();
    let done = verb("enable", &["--module", module.to_str().unwrap()]);
    let file = host.work.folder().canonicalize().unwrap().join("openssl.cnf");
    assert_eq!(done["config"], file.to_str().unwrap());
    assert_eq!(done["backup"], backup(&host).to_str().unwrap());
    assert_eq!((&done["changed"], &done["warning"]), (&true.into(), &serde_json::Value::Null));
    assert!(done["module"].as_str().unwrap().ends_with("/libgabion_provider.so"), "{done}");
    assert!(std::fs::symlink_metadata(host.work.path("links/conf")).unwrap().is_symlink());
    let again = verb("enable", &["--module", module.to_str().unwrap()]);
    assert_eq!((&again["changed"], &again["backup"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(verb("disable", &[])["changed"], true);
    assert_eq!(host.config(), DEBIAN);
}

/// Faulty modules; each begins as OpenSSL expects.
const CRASHES: &str = "#include <stdlib.h>\nint OSSL_provider_init(void) { abort(); }\n";
const HANGS: &str = "#include <unistd.h>\nint OSSL_provider_init(void) { for (;;) sleep(60); }\n";
const REFUSES: &str = "int OSSL_provider_init(void) { return 0; }\n";
/// Is Gabion's own, except with a file of the final name.
const CHANGES_ITS_MIND: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int OSSL_provider_init(const void *core, const void *in, const void **out, void **context) {
    const char *conf = getenv("OPENSSL_CONF");
    int (*init)(const void *, const void *, const void **, void **);
    if (conf == NULL || strstr(conf, "/openssl.cnf") != NULL)
        abort();
    *(void **)&init = dlsym(dlopen("MODULE", RTLD_NOW), "OSSL_provider_init");
    return init(core, in, out, context);
}
"#;

#[test]
fn a_module_that_does_not_load_changes_nothing() {
    let Some(host) = Host::new(DEBIAN) else { return };
    host.work.write("module.so", [0x5a; 4096]);
    let damaged = host.work.path("module.so");
    host.enable(&damaged).fails(1).says("was not changed").says("does not load");
    for (source, words) in [
        (REFUSES, "does not load the provider `gabion`"),
        (CRASHES, "signal: 6"),
        (HANGS, "took more than 10 s"),
    ] {
        let module = host.module(source);
        let start = Instant::now();
        host.enable(&module).fails(1).says("was not changed").says(words);
        assert!(start.elapsed().as_secs() < 30);
        assert_eq!(host.config(), DEBIAN, "{words}");
        host.is_tidy();
    }
    let sleepers = Command::new("pgrep").arg("-f").arg(host.work.folder()).output();
    assert!(sleepers.is_ok_and(|found| found.stdout.is_empty()), "a process is left");
}

#[test]
fn a_failure_after_the_change_brings_the_old_content_back() {
    let Some(host) = Host::new(DEBIAN) else { return };
    let module = host.module(&CHANGES_ITS_MIND.replace("MODULE", module().to_str().unwrap()));
    host.enable(&module).fails(1).says("was restored").says("signal: 6");
    assert_eq!(host.config(), DEBIAN);
    assert_eq!(host.work.read("openssl.cnf.gabion-backup"), DEBIAN.as_bytes());
}

#[test]
fn what_cannot_be_enabled_is_refused_and_left_alone() {
    let fips = "openssl_conf = i\n[i]\nproviders = p\nalg_section = a\n[p]\nbase = b\n[b]\nactivate = 1\n[a]\n";
    let other =
        "openssl_conf = i\n[i]\nalg_section = a\n[a]\ndefault_properties = ?provider=other\n";
    let own = "openssl_conf = i\n[i]\nproviders = p\n[p]\ndefault = d\ngabion = g\n[d]\nactivate = 1\n[g]\n\
               activate = 1\nmodule = MODULE\n";
    for (config, code, words) in [
        (fips, 1, "no ciphers"),
        (other, 2, "default_properties = ?provider=other"),
        ("openssl_conf = missing\nconfig_diagnostics = 1\n", 1, "also without"),
    ] {
        let Some(host) = Host::new(config) else { return };
        host.enable(&module()).fails(code).says(words);
        assert_eq!(host.config(), config);
        host.is_tidy();
    }
    let Some(host) = Host::new(&own.replace("MODULE", module().to_str().unwrap())) else { return };
    let before = host.config();
    host.enable(&module()).ok().says("outside the lines of `gabion provider enable`");
    assert_eq!(host.config(), before);
    host.enable(Path::new("none.so")).ok();
    host.gabion("disable", &[]).ok().says("not enabled");
    let old = host.work.path("module-old");
    host.work.write("module-old", "#!/bin/sh\necho 'OpenSSL 3.4.1 1 Jan 2026'\necho 'OPENSSLDIR: \"/\"'\necho 'MODULESDIR: \"/\"'\n");
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = ["provider", "enable", "--config", "openssl.cnf", "--openssl", "./module-old"];
    host.work.gabion(&refused).fails(3).says("3.5 or newer");
    assert_eq!(host.config(), before);
}

#[test]
fn files_and_folders_that_cannot_be_written_stay_as_they_are() {
    let Some(host) = Host::new(DEBIAN) else { return };
    host.gabion("enable", &["--module", "missing.so"]).fails(3).says("missing.so");
    let missing = ["provider", "disable", "--config", "missing.cnf"];
    host.work.gabion(&missing).fails(3).says("missing.cnf");
    // A file system of 16 KiB, of which the file takes one page, and one that is read-only.
    let script = "mount -t tmpfs -o size=SIZE none links && cp openssl.cnf links && cd links && HOOK && \
                  gabion provider enable --config openssl.cnf --openssl \"$1\" --module \"$2\"; code=$?; \
                  cmp openssl.cnf ../openssl.cnf && ls -A | grep -v filler; exit $code";
    std::fs::create_dir(host.work.path("links")).unwrap();
    for (size, hook, words) in [
        ("16k", "{ cat /dev/zero >filler 2>&1 || true; }", "No space left"),
        ("64k", "mount -o remount,ro .", "Read-only"),
    ] {
        let script = script.replace("SIZE", size).replace("HOOK", hook);
        let mut shell = Command::new("unshare");
        shell.args(["-m", "sh", "-c", &script, "sh"]).arg(host.bundle.join("bin/openssl"));
        shell.arg(module()).current_dir(host.work.folder());
        let path = program("gabion").parent().unwrap().display().to_string();
        shell.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()));
        let done = CommandResult::of(shell.output().unwrap());
        if done.err.contains("unshare") || done.err.contains("mount:") {
            eprintln!("not run: this user may not mount a file system: {}", done.err);
            return;
        }
        let done = done.fails(3).says(words);
        assert_eq!(done.text(), "openssl.cnf\n");
    }
}

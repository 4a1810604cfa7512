//! `gabion exec` and `gabion preflight` on copies of the real bundle: every mode against every
//! damage, what a command gets to see, what `fips=yes` finds, and whether a process runs in it.
//!
//! The bundle is the one of `gabion bundle build`; the tests fail without it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is how a test fails, in its helpers too.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

mod probe;
mod refusals;

/// The possible damage to a FIPS provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    None,
    ModuleRemoved,
    ModuleChanged,
    MacChanged,
    ConfMissing,
    MacMissing,
}

const DAMAGES: [Damage; 5] = [
    Damage::ModuleRemoved,
    Damage::ModuleChanged,
    Damage::MacChanged,
    Damage::ConfMissing,
    Damage::MacMissing,
];

/// A copy of the bundle that a test may spoil.
struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    fn new(damage: Damage) -> Self {
        let copy = Copy { folder: tempfile::tempdir().unwrap() };
        let bundle = real_bundle();
        for part in ["bin", "lib/ossl-modules", "ssl"] {
            copy_folder(&bundle.join(part), &copy.prefix().join(part));
        }
        for name in ["libcrypto.so", "libcrypto.so.3", "libssl.so", "libssl.so.3"] {
            std::fs::copy(bundle.join("lib").join(name), copy.path(&format!("lib/{name}")))
                .unwrap();
        }
        let manifest = "gabion-bundle.json";
        std::fs::copy(bundle.join(manifest), copy.path(manifest)).unwrap();
        // The refresh writes the copy's own paths into its configuration files.
        let mut refresh = gabion(&["bundle", "build", "--prefix"]);
        let (code, _, stderr) = run(refresh.arg(copy.prefix()));
        assert_eq!(code, Some(0), "{stderr}");
        copy.spoil(damage);
        copy
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("bundle")
    }

    fn path(&self, part: &str) -> PathBuf {
        self.prefix().join(part)
    }

    fn manifest(&self) -> Value {
        let text = std::fs::read_to_string(self.path("gabion-bundle.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn spoil(&self, damage: Damage) {
        let module = self.path("lib/ossl-modules/fips.so");
        let mac = self.path("ssl/fipsmodule.cnf");
        match damage {
            Damage::None => {}
            Damage::ModuleRemoved => std::fs::remove_file(module).unwrap(),
            Damage::ModuleChanged => {
                let mut bytes = std::fs::read(&module).unwrap();
                bytes.push(0);
                std::fs::write(&module, bytes).unwrap();
            }
            Damage::MacChanged => {
                let text = std::fs::read_to_string(&mac).unwrap();
                let (before, value) = text.split_once("module-mac = ").unwrap();
                let first = if value.starts_with('0') { '1' } else { '0' };
                std::fs::write(&mac, format!("{before}module-mac = {first}{}", &value[1..]))
                    .unwrap();
            }
            Damage::ConfMissing => std::fs::remove_file(self.path("ssl/openssl-fips.cnf")).unwrap(),
            Damage::MacMissing => std::fs::remove_file(mac).unwrap(),
        }
    }

    /// `gabion ARGUMENTS` with this bundle.
    fn gabion(&self, arguments: &[&str]) -> Command {
        let mut command = gabion(arguments);
        command.env("GABION_OPENSSL_PREFIX", self.prefix());
        command
    }

    /// Runs a command that leaves a file behind; returns status, stderr and whether it started.
    fn exec_in_mode(&self, mode: &str, extra: &[(&str, &str)]) -> (Option<i32>, String, bool) {
        let trace = self.folder.path().join("started");
        let mut command = self.gabion(&["exec", "--", "touch", trace.to_str().unwrap()]);
        command.env("GABION_OPENSSL_FIPS_MODE", mode).envs(extra.iter().copied());
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!(stdout, "");
        let started = trace.exists();
        let _ = std::fs::remove_file(trace);
        (code, stderr, started)
    }
}

/// The bundle that GABION_OPENSSL_PREFIX names, as in script/test, or the usual one.
fn real_bundle() -> PathBuf {
    let usual = || {
        let newest = gabion_ship::bundle::Layout::newest_finished();
        newest.expect("HOME names the folder of the bundle").prefix().to_path_buf()
    };
    let bundle = std::env::var_os("GABION_OPENSSL_PREFIX").map_or_else(usual, PathBuf::from);
    assert!(
        bundle.join("gabion-bundle.json").is_file(),
        "these tests need {}: run `gabion bundle build`",
        bundle.display()
    );
    bundle
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// The command under test, without what the caller's environment says about OpenSSL.
fn gabion(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gabion"));
    command.args(arguments);
    for name in ["FIPS_MODE", "SKIP_FIPS_GUARD", "PREFIX", "MODULES", "CONF"] {
        command.env_remove(format!("GABION_OPENSSL_{name}"));
    }
    command.env_remove("OPENSSL_CONF").env_remove("OPENSSL_MODULES").env_remove("LD_LIBRARY_PATH");
    command
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn preflight(command: &mut Command) -> (Option<i32>, Value) {
    let (code, stdout, stderr) = run(command);
    let value = serde_json::from_str(&stdout)
        .unwrap_or_else(|error| panic!("{error}: stdout {stdout:?}, stderr {stderr:?}"));
    (code, value)
}

#[test]
fn a_sound_bundle_starts_commands_in_every_mode_and_says_which_module_runs() {
    let copy = Copy::new(Damage::None);
    for mode in ["", "off"] {
        let (code, stderr, started) = copy.exec_in_mode(mode, &[]);
        assert_eq!((code, stderr.as_str(), started), (Some(0), "", true), "mode {mode:?}");
    }
    let module =
        format!("note: the FIPS module is {}; ", copy.manifest()["version"].as_str().unwrap());
    for mode in ["ready", "only"] {
        let (code, stderr, started) = copy.exec_in_mode(mode, &[]);
        assert_eq!((code, started), (Some(0), true), "mode {mode:?}: {stderr}");
        assert!(
            stderr.starts_with(&module) && stderr.contains("not a validated module"),
            "{stderr}"
        );
        assert!(stderr.lines().all(|line| line.starts_with("note: ")), "{stderr}");
        // Of all hybrids that X25519 is a half of, and of none with a curve that is approved.
        assert!(stderr.contains("X25519MLKEM768: its X25519 half runs in the module"), "{stderr}");
        assert!(!stderr.contains("SecP256r1MLKEM768"), "{stderr}");
    }
}

#[test]
fn every_damage_refuses_in_only_warns_in_ready_and_is_not_seen_in_off() {
    for damage in DAMAGES {
        let copy = Copy::new(damage);
        let (code, stderr, started) = copy.exec_in_mode("off", &[]);
        assert_eq!((code, stderr.as_str(), started), (Some(0), "", true), "{damage:?}");

        let (code, stderr, started) = copy.exec_in_mode("ready", &[]);
        assert_eq!((code, started), (Some(0), true), "{damage:?}: {stderr}");
        assert!(
            stderr.starts_with("warning: ") && stderr.contains("`ready`"),
            "{damage:?}: {stderr}"
        );

        let (code, stderr, started) = copy.exec_in_mode("only", &[]);
        assert_eq!((code, started), (Some(3), false), "{damage:?}: {stderr}");
        assert!(stderr.contains("nothing was started"), "{damage:?}: {stderr}");
        let reason = match damage {
            Damage::ModuleRemoved => "fips.so: the file does not exist",
            Damage::ModuleChanged | Damage::MacChanged => "HMAC of the module does not match",
            Damage::ConfMissing => "openssl-fips.cnf is missing",
            Damage::MacMissing => "fipsmodule.cnf is missing",
            Damage::None => unreachable!("DAMAGES holds no None"),
        };
        assert!(stderr.contains(reason), "{damage:?}: {stderr}");
    }
}

#[test]
fn skip_variable_bypasses_the_guard_with_a_warning() {
    let copy = Copy::new(Damage::ModuleRemoved);
    let skip = "GABION_OPENSSL_SKIP_FIPS_GUARD";
    let (code, stderr, started) = copy.exec_in_mode("only", &[(skip, "1")]);
    assert_eq!((code, started), (Some(0), true), "{stderr}");
    assert!(stderr.contains(skip) && stderr.contains("not checked"), "{stderr}");
    for value in ["", "0"] {
        let (code, _, started) = copy.exec_in_mode("only", &[(skip, value)]);
        assert_eq!((code, started), (Some(3), false), "{value:?}");
    }
    for mode in ["off", "ready", "only"] {
        for value in ["yes", "true", "2", " 1"] {
            let (code, stderr, started) = copy.exec_in_mode(mode, &[(skip, value)]);
            assert_eq!((code, started), (Some(3), false), "{mode} {value:?}");
            assert!(stderr.contains("expected 1, 0 or nothing"), "{stderr}");
        }
    }
}

#[test]
fn an_unknown_mode_is_an_error_whatever_the_bundle() {
    let copy = Copy::new(Damage::None);
    for mode in ["on", "ONLY", "only ", "fips", "1"] {
        let (code, stderr, started) = copy.exec_in_mode(mode, &[]);
        assert_eq!((code, started), (Some(3), false), "{mode:?}");
        assert!(stderr.contains("expected off, ready or only"), "{stderr}");
        let (code, _, _) =
            run(copy.gabion(&["preflight", "--json"]).env("GABION_OPENSSL_FIPS_MODE", mode));
        assert_eq!(code, Some(3));
    }
}

#[test]
fn mode_only_lists_the_fips_provider_and_not_the_default_one() {
    let copy = Copy::new(Damage::None);
    let mut list = copy.gabion(&["exec", "--", "openssl", "list", "-providers"]);
    let (code, stdout, stderr) = run(list.env("GABION_OPENSSL_FIPS_MODE", "only"));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("\n  fips\n") && stdout.contains("status: active"), "{stdout}");
    assert!(!stdout.contains("\n  default\n"), "{stdout}");
}

#[test]
fn a_command_sees_the_bundle_first_and_the_overrides() {
    let copy = Copy::new(Damage::None);
    let show = "echo \"$PATH\"; echo \"$LD_LIBRARY_PATH\"; echo \"$OPENSSL_MODULES\"; echo \"$OPENSSL_CONF\"";
    let lines = |command: &mut Command| -> Vec<String> {
        let (code, stdout, stderr) = run(command);
        assert_eq!(code, Some(0), "{stderr}");
        stdout.lines().map(str::to_string).collect()
    };
    let path = |part: &str| copy.path(part).into_os_string().into_string().unwrap();
    let shell = ["exec", "--", "sh", "-c", show];

    let off = lines(copy.gabion(&shell).env("LD_LIBRARY_PATH", "/x:/y"));
    assert!(off[0].starts_with(&format!("{}:", path("bin"))), "{off:?}");
    assert_eq!(off[1], format!("{}:/x:/y", path("lib")));
    assert_eq!(off[2], path("lib/ossl-modules"));
    assert_eq!(off[3], path("ssl/openssl-gabion.cnf"));

    let ready = lines(copy.gabion(&shell).env("GABION_OPENSSL_FIPS_MODE", "ready"));
    assert_eq!(ready[1], path("lib"));
    assert_eq!(ready[3], path("ssl/openssl-gabion.cnf"));

    let only = lines(copy.gabion(&shell).env("GABION_OPENSSL_FIPS_MODE", "only"));
    assert_eq!(only[3], path("ssl/openssl-fips.cnf"));

    let (modules, conf) = (copy.folder.path().join("m"), copy.folder.path().join("c"));
    std::fs::create_dir(&modules).unwrap();
    std::fs::write(&conf, "").unwrap();
    let mut other = copy.gabion(&shell);
    other.env("GABION_OPENSSL_MODULES", &modules).env("GABION_OPENSSL_CONF", &conf);
    let other = lines(&mut other);
    assert_eq!((Path::new(&other[2]), Path::new(&other[3])), (&*modules, &*conf));
}

#[test]
fn a_status_is_passed_on_as_a_shell_would() {
    let copy = Copy::new(Damage::None);
    let status = |arguments: &[&str]| copy.gabion(arguments).output().unwrap().status;
    assert_eq!(status(&["exec", "--", "sh", "-c", "exit 42"]).code(), Some(42));
    assert_eq!(status(&["exec", "--", "sh", "-c", "kill -9 $$"]).signal(), Some(9));
    assert_eq!(status(&["exec", "--", "no-such-command-here"]).code(), Some(127));
    let plain = copy.folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    assert_eq!(status(&["exec", "--", plain.to_str().unwrap()]).code(), Some(126));
    assert_eq!(status(&["exec", "--"]).code(), Some(2));
    // Options after the command are the command's.
    assert_eq!(status(&["exec", "sh", "-c", "exit 5"]).code(), Some(5));
}

#[test]
fn without_a_bundle_exec_says_how_to_build_one() {
    let mut command = gabion(&["exec", "--", "true"]);
    let (code, _, stderr) = run(command.env("GABION_OPENSSL_PREFIX", "/nonexistent/bundle"));
    assert_eq!(code, Some(3));
    assert!(stderr.contains("gabion bundle build"), "{stderr}");
}

#[test]
fn preflight_says_what_the_module_is() {
    let copy = Copy::new(Damage::None);
    let (code, report) = preflight(&mut copy.gabion(&["preflight", "--json"]));
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["ok"], true);
    assert_eq!(report["mode"], "off");
    assert_eq!(report["prefix"], copy.prefix().to_str().unwrap());
    assert_eq!(report["module"], copy.path("lib/ossl-modules/fips.so").to_str().unwrap());
    assert_eq!(report["module_version"], copy.manifest()["version"]);
    assert_eq!(report["openssl"]["version"], copy.manifest()["version"]);
    // The report warns about the version only if a newer one is known.
    let outdated = report["openssl"]["newest"] != report["openssl"]["version"];
    assert_eq!(!report["openssl"]["warnings"].as_array().unwrap().is_empty(), outdated, "{report}");
    assert_eq!(report["module_source"], "self-built");
    assert_eq!(report["validated"], false);
    assert_eq!(report["algorithms"]["missing"], serde_json::json!([]));
    assert_eq!(report["self_test"]["passed"], true);
    let tests = report["self_test"]["tests"].as_array().unwrap();
    for name in ["ML-KEM", "ML-DSA", "SLH-DSA", "SHA2", "ECDSA"] {
        assert!(tests.iter().any(|test| test["name"] == name && test["passed"] == true), "{name}");
    }
    assert_eq!(report["problems"], serde_json::json!([]));
    let names: Vec<_> =
        report["providers"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["base", "fips"]);
    let (code, stdout, _) = run(&mut copy.gabion(&["preflight"]));
    assert_eq!(code, Some(0));
    assert!(stdout.contains("not a validated module"), "{stdout}");
}

#[test]
fn preflight_exits_three_on_every_damage() {
    for damage in DAMAGES {
        let copy = Copy::new(damage);
        let (code, report) = preflight(&mut copy.gabion(&["preflight", "--json"]));
        assert_eq!(code, Some(3), "{damage:?}: {report}");
        assert_eq!(
            (&report["ok"], &report["validated"]),
            (&Value::from(false), &Value::from(false))
        );
        assert!(!report["problems"].as_array().unwrap().is_empty(), "{damage:?}");
        assert_eq!(report["algorithms"]["missing"].as_array().unwrap().len(), 18, "{damage:?}");
    }
}

#[test]
fn an_integrity_value_of_a_configuration_of_ones_own_is_named() {
    let copy = Copy::new(Damage::None);
    // The bundle's own configuration elsewhere, with an integrity value that is not the module's.
    let value = std::fs::read_to_string(copy.path("ssl/fipsmodule.cnf")).unwrap();
    let (before, rest) = value.split_once("module-mac = ").unwrap();
    let first = if rest.starts_with('0') { '1' } else { '0' };
    let conf = copy.folder.path().join("own.cnf");
    let main = std::fs::read_to_string(copy.path("ssl/openssl-fips.cnf")).unwrap();
    let main: Vec<&str> = main.lines().filter(|line| !line.starts_with(".include")).collect();
    let value = format!("{before}module-mac = {first}{}", &rest[1..]);
    std::fs::write(&conf, format!("{}\n{value}", main.join("\n"))).unwrap();
    let (code, stderr, started) =
        copy.exec_in_mode("only", &[("GABION_OPENSSL_CONF", conf.to_str().unwrap())]);
    assert_eq!((code, started), (Some(3), false), "{stderr}");
    let expected = format!("not with what {} says of it", conf.display());
    assert!(stderr.contains(&expected) && stderr.contains("`module-mac`"), "{stderr}");
}

#[test]
fn a_configuration_that_also_finds_unapproved_algorithms_is_refused() {
    let copy = Copy::new(Damage::None);
    let conf = copy.folder.path().join("loose.cnf");
    let strict = std::fs::read_to_string(copy.path("ssl/openssl-fips.cnf")).unwrap();
    let loosened = |to: &str| strict.replace("default_properties = fips=yes", to);
    // Those of the default provider; and those that the module has and does not approve.
    let everything = loosened("default_properties = ?fips=yes")
        .replace("base = fips_base", "default = fips_base");
    for (text, found) in
        [(everything, " MD5, X25519, X448"), (loosened(""), "error: X25519, X448 can")]
    {
        std::fs::write(&conf, text).unwrap();
        let loose = [("GABION_OPENSSL_CONF", conf.to_str().unwrap())];
        let (code, stderr, started) = copy.exec_in_mode("only", &loose);
        assert_eq!((code, started), (Some(3), false), "{stderr}");
        assert!(stderr.contains(found), "{stderr}");
    }
}

/// `fips=yes` by default does not keep a program from asking for `fips=no`, which any other provider
/// would serve; nor does what that one has count as found by `fips=yes`.
#[test]
fn a_configuration_that_activates_another_provider_is_refused() {
    let copy = Copy::new(Damage::None);
    let conf = copy.folder.path().join("own.cnf");
    let strict = std::fs::read_to_string(copy.path("ssl/openssl-fips.cnf")).unwrap();
    let (_, sound) = preflight(&mut copy.gabion(&["preflight", "--json"]));
    for (beside, refused) in [("gabion", true), ("default", true), ("null", false)] {
        let added = format!("base = fips_base\n{beside} = fips_base");
        std::fs::write(&conf, strict.replace("base = fips_base", &added)).unwrap();
        let own = [("GABION_OPENSSL_CONF", conf.to_str().unwrap())];
        let reason = format!("own.cnf activates {beside} as well");

        let (code, stderr, started) = copy.exec_in_mode("only", &own);
        let wanted = if refused { (Some(3), false) } else { (Some(0), true) };
        assert_eq!(
            (code, started, stderr.contains(&reason)),
            (wanted.0, wanted.1, refused),
            "{stderr}"
        );

        let mut check = copy.gabion(&["preflight", "--json"]);
        let (code, report) = preflight(check.envs(own));
        assert_eq!((code, &report["ok"]), (wanted.0, &Value::from(!refused)), "{report}");
        let listed = report["providers"].as_array().unwrap();
        assert!(listed.iter().any(|provider| provider["name"] == beside), "{listed:?}");
        let rows = |report: &Value, part: &str| {
            let mut rows = report["algorithms"][part].as_array().unwrap().clone();
            // OpenSSL does not tell the provider of a group.
            rows.retain(|row| !refused || row["kind"] != "tls-group");
            rows
        };
        for part in ["fetchable", "not_fetchable"] {
            assert_eq!(rows(&report, part), rows(&sound, part), "{beside}: {part}");
        }
        assert_eq!(names(&report, "fetchable", "tls-group").is_empty(), refused, "{beside}");
    }
}

#[test]
fn a_module_from_elsewhere_is_used_and_called_external() {
    let copy = Copy::new(Damage::None);
    let elsewhere = copy.folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let (module, mac, conf) =
        (elsewhere.join("fips.so"), elsewhere.join("fipsmodule.cnf"), elsewhere.join("fips.cnf"));
    // A trailing byte makes it another file that still loads, with a different MAC.
    let mut bytes = std::fs::read(copy.path("lib/ossl-modules/fips.so")).unwrap();
    bytes.push(0);
    std::fs::write(&module, bytes).unwrap();
    std::fs::set_permissions(&module, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut install = copy.gabion(&["exec", "--", "openssl", "fipsinstall", "-quiet", "-module"]);
    let (code, _, stderr) = run(install.arg(&module).arg("-out").arg(&mac));
    assert_eq!(code, Some(0), "{stderr}");
    let own_mac = copy.path("ssl/fipsmodule.cnf").into_os_string().into_string().unwrap();
    let text = std::fs::read_to_string(copy.path("ssl/openssl-fips.cnf")).unwrap();
    assert!(text.contains(&own_mac));
    std::fs::write(&conf, text.replace(&own_mac, mac.to_str().unwrap())).unwrap();

    let mut check = copy.gabion(&["preflight", "--json"]);
    check.env("GABION_OPENSSL_MODULES", &elsewhere).env("GABION_OPENSSL_CONF", &conf);
    let (code, report) = preflight(&mut check);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["module"], module.to_str().unwrap());
    assert_eq!(report["module_source"], "external");
    assert_eq!(report["validated"], false);
}

#[test]
fn printed_configuration_is_accepted_and_old_versions_are_not() {
    let copy = Copy::new(Damage::None);
    let openssl = copy.path("bin/openssl");
    let mut config =
        copy.gabion(&["exec", "--", env!("CARGO_BIN_EXE_gabion"), "provider", "config"]);
    let (code, text, stderr) = run(config.arg("--openssl").arg(&openssl));
    assert_eq!(code, Some(0), "{stderr}");
    let conf = copy.folder.path().join("printed.cnf");
    std::fs::write(&conf, &text).unwrap();
    let mut list = copy.gabion(&["exec", "--", "openssl", "list", "-providers"]);
    let (code, stdout, stderr) = run(list.env("GABION_OPENSSL_CONF", &conf));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("\n  default\n") && stdout.contains("\n  gabion\n"), "{stdout}");

    let old = copy.folder.path().join("old-openssl");
    std::fs::write(&old, "#!/bin/sh\necho OpenSSL 3.0.17 1 Jul 2025\n").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    for action in ["config", "install"] {
        let mut refused = copy.gabion(&["provider", action, "--openssl"]);
        let (code, _, stderr) = run(refused.arg(&old));
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("3.0.17") && stderr.contains("3.5 or newer"), "{stderr}");
    }
}

/// An HMAC-SHA-256 over `file`, as `fipsmodule.cnf` holds it, by OpenSSL's public key for it.
fn module_mac(copy: &Copy, file: &Path) -> String {
    // FIPS_KEY_STRING of OpenSSL's fips_selftest: an integrity value, not a secret.
    let key = "hexkey:f4556650ac31d35461610bac4ed81b1a181b2d8a43ea2854cbae22ca74560813";
    let words = ["exec", "--", "openssl", "mac", "-digest", "SHA256", "-macopt", key, "-in"];
    let (code, mac, stderr) = run(copy.gabion(&words).arg(file).arg("HMAC"));
    assert_eq!(code, Some(0), "{stderr}");
    let digits: Vec<&str> =
        mac.trim().as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap()).collect();
    digits.join(":")
}

#[test]
fn a_module_whose_self_test_fails_is_refused_though_its_integrity_value_is_right() {
    let copy = Copy::new(Damage::None);
    let (module, conf) = (copy.path("lib/ossl-modules/fips.so"), copy.path("ssl/fipsmodule.cnf"));
    let text = std::fs::read_to_string(&conf).unwrap();
    assert!(text.contains(&module_mac(&copy, &module)), "the value of the test is OpenSSL's");

    // SHA-512 of "abc" is what the module's first hash is compared with.
    let answer = base16ct::mixed::decode_vec("ddaf35a193617abacc417349ae204131").unwrap();
    let mut bytes = std::fs::read(&module).unwrap();
    let at = bytes.windows(answer.len()).position(|window| window == answer).unwrap();
    let before = module_mac(&copy, &module);
    bytes[at] ^= 1;
    std::fs::write(&module, bytes).unwrap();
    std::fs::write(&conf, text.replace(&before, &module_mac(&copy, &module))).unwrap();

    let (code, report) = preflight(&mut copy.gabion(&["preflight", "--json"]));
    assert_eq!((code, &report["ok"]), (Some(3), &Value::from(false)), "{report}");
    assert_eq!(report["self_test"]["passed"], false);
    let failed = serde_json::json!({"name": "SHA2", "kind": "KAT_Digest", "passed": false});
    assert!(report["self_test"]["tests"].as_array().unwrap().contains(&failed), "{report}");
    let (code, stderr, started) = copy.exec_in_mode("only", &[]);
    assert_eq!((code, started), (Some(3), false), "{stderr}");
    assert!(stderr.contains("its self-test SHA2 (KAT_Digest) fails"), "{stderr}");
}

/// The names of one kind, of those that `fips=yes` finds or of those that it does not.
fn names<'a>(report: &'a Value, part: &str, kind: &str) -> Vec<(&'a str, &'a Value)> {
    let rows = report["algorithms"][part].as_array().unwrap().iter();
    let of_kind = rows.filter(|row| row["kind"] == kind);
    of_kind.map(|row| (row["name"].as_str().unwrap(), &row["providers"])).collect()
}

#[test]
fn preflight_lists_exactly_the_fetchable_algorithms() {
    let copy = Copy::new(Damage::None);
    let (code, report) = preflight(&mut copy.gabion(&["preflight", "--json"]));
    assert_eq!(code, Some(0), "{report}");
    let fips = serde_json::json!(["fips"]);
    for (kind, some) in [
        ("kem", &["ML-KEM-512", "ML-KEM-1024", "X25519MLKEM768"][..]),
        ("signature", &["ML-DSA-44", "SLH-DSA-SHAKE-256f", "ECDSA", "RSA-SHA2-256"]),
        ("key-exchange", &["ECDH"]),
        ("kdf", &["HKDF", "PBKDF2", "TLS13-KDF"]),
        ("mac", &["HMAC", "KMAC-128"]),
        ("cipher", &["AES-256-CTR", "aes-256-gcm"]),
    ] {
        let listed = names(&report, "fetchable", kind);
        for name in some {
            assert!(listed.contains(&(name, &fips)), "{kind} {name}: {listed:?}");
        }
        assert!(listed.iter().all(|(_, providers)| **providers == fips), "{listed:?}");
    }
    let (ours, stock) = (serde_json::json!(["gabion"]), serde_json::json!(["default"]));
    for (kind, name, providers) in [
        ("signature", "Falcon-512", &ours),
        ("signature", "MLDSA65-ECDSA-P256-SHA512-draft19", &ours),
        ("key-exchange", "X25519", &stock),
        ("kdf", "SCRYPT", &stock),
        ("cipher", "ChaCha20-Poly1305", &stock),
    ] {
        let listed = names(&report, "not_fetchable", kind);
        assert!(listed.contains(&(name, providers)), "{kind} {name}: {listed:?}");
    }

    // Every digest and every TLS group, tried where mode `only` starts commands.
    let only = |words: &[&str]| {
        let mut command = copy.gabion(&["exec", "--", "openssl"]);
        command.args(words).env("GABION_OPENSSL_FIPS_MODE", "only").stdin(Stdio::null());
        // The guard has its own tests, and takes longer than all of these.
        run(command.env("GABION_OPENSSL_SKIP_FIPS_GUARD", "1"))
    };
    for (part, wanted) in [("fetchable", true), ("not_fetchable", false)] {
        let digests = names(&report, part, "digest");
        assert!(digests.len() > 8, "{part}: {digests:?}");
        for (name, _) in digests {
            let name = format!("-{name}");
            // Some have no length of their own.
            let works = only(&["dgst", &name, "/dev/null"]).0 == Some(0)
                || only(&["dgst", &name, "-xoflen", "32", "/dev/null"]).0 == Some(0);
            assert_eq!(works, wanted, "{name}");
        }
        let groups = names(&report, part, "tls-group");
        assert!(groups.len() > 5, "{part}: {groups:?}");
        for (name, _) in groups {
            // No server listens there: a group that libssl does not have is rejected before
            // connecting.
            let (_, _, stderr) = only(&["s_client", "-connect", "127.0.0.1:1", "-groups", name]);
            assert_eq!(!stderr.contains("SSL_CONF_cmd(-groups"), wanted, "{name}: {stderr}");
        }
    }
    let (code, stdout, _) = run(&mut copy.gabion(&["preflight"]));
    assert_eq!(code, Some(0));
    let (found, not) = stdout.split_once("\nnot fetched by fips=yes\n").unwrap();
    assert!(found.contains("ML-DSA-65") && found.contains("self-tests     "), "{stdout}");
    let not: Vec<&str> = not.split_whitespace().collect();
    assert!(not.contains(&"Falcon-512") && !not.contains(&"ML-DSA-65"), "{stdout}");
    assert!(stdout.lines().all(|line| line.len() < 150), "{stdout}");
}

#[test]
fn fips_mode_selects_the_providers() {
    let copy = Copy::new(Damage::None);
    for (mode, ours) in [("off", true), ("ready", true), ("only", false)] {
        let stats = copy.path(&format!("stats-{mode}"));
        let done = |words: &str| {
            let mut command = copy.gabion(&["exec", "--", "openssl"]);
            command.args(words.split(' ')).current_dir(copy.folder.path());
            command.env("GABION_OPENSSL_FIPS_MODE", mode).env("GABION_STATS", &stats);
            run(&mut command).0 == Some(0)
        };
        assert!(done("genpkey -algorithm ML-DSA-65 -out key.pem"), "{mode}");
        assert!(done("pkeyutl -sign -rawin -inkey key.pem -in key.pem -out sig"), "{mode}");
        let verify = "pkeyutl -verify -rawin -inkey key.pem -in key.pem -sigfile sig";
        assert!(done(verify), "{mode}");
        assert_eq!(stats.is_file(), ours, "{mode}: who counted");
        assert_eq!(done("genpkey -algorithm Falcon-512 -out falcon.pem"), ours, "{mode}");
        assert_eq!(done("dgst -md5 key.pem"), ours, "{mode}");
    }
}

/// Checks the operations that a module installed with `-pedantic` rejects, and those that it still
/// serves.
#[test]
fn the_module_refuses_what_only_older_programs_need() {
    let copy = Copy::new(Damage::None);
    let done = |words: &str| {
        let mut command = copy.gabion(&["exec", "--", "openssl"]);
        command.args(words.split(' ')).current_dir(copy.folder.path());
        command.env("GABION_OPENSSL_FIPS_MODE", "only");
        command.env("GABION_OPENSSL_SKIP_FIPS_GUARD", "1");
        run(&mut command).0 == Some(0)
    };
    assert!(done("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.pem"));
    std::fs::write(copy.folder.path().join("in"), "secret").unwrap();
    // RSA key transport of TLS 1.2, and its key schedule without and with an extended master secret.
    let encrypt = "pkeyutl -encrypt -inkey rsa.pem -in in -out out -pkeyopt rsa_padding_mode:";
    assert!(!done(&format!("{encrypt}pkcs1")) && done(&format!("{encrypt}oaep")));
    let schedule = |label: &str| {
        let options = "-kdfopt digest:SHA256 -kdfopt hexsecret:000102030405060708090a0b0c0d0e0f";
        let seed = base16ct::lower::encode_string(label.as_bytes());
        done(&format!("kdf -keylen 48 {options} -kdfopt hexseed:{seed} TLS1-PRF"))
    };
    assert!(!schedule("master secret") && schedule("extended master secret"));
}

/// Not a line of ours works in a handshake of mode `only`, in its key schedule neither; that the
/// counters would show it is seen in mode `off`.
#[test]
fn a_handshake_in_mode_only_is_the_modules_alone() {
    let copy = Copy::new(Damage::None);
    let file = |name: String| copy.path(&name).into_os_string().into_string().unwrap();
    for (mode, ours) in [("only", false), ("off", true)] {
        let [key, certificate, of_server, of_client] =
            ["key", "crt", "of-server", "of-client"].map(|name| file(format!("{mode}.{name}")));
        let openssl = |stats: &str, words: &[&str]| {
            let mut command = copy.gabion(&["exec", "--", "openssl"]);
            command.args(words).stdin(Stdio::null());
            command.env("GABION_OPENSSL_FIPS_MODE", mode).env("GABION_STATS", stats);
            run(&mut command)
        };
        let request = ["req", "-x509", "-newkey", "ML-DSA-65", "-nodes", "-subj", "/CN=localhost"];
        let files =
            ["-addext", "subjectAltName=DNS:localhost", "-keyout", &key, "-out", &certificate];
        let (code, _, stderr) =
            openssl(&file(format!("{mode}.unused")), &[&request[..], &files].concat());
        assert_eq!(code, Some(0), "{stderr}");
        let counters = format!("GABION_STATS={of_server}");
        let options = ["-cert", &certificate, "-key", &key, "-tls1_3"];
        let server = Server::start(&copy, mode, &["env", &counters], &options);
        let ask = ["s_client", "-connect", &server.address, "-CAfile", &certificate, "-brief"];
        let verify = ["-verify_return_error", "-verify_hostname", "localhost"];
        let (code, _, said) = openssl(&of_client, &[&ask[..], &verify].concat());
        assert_eq!(code, Some(0), "{mode}: {said}");
        for expected in [
            "Protocol version: TLSv1.3",
            "Signature type: mldsa65",
            "Verification: OK",
            "Negotiated TLS1.3 group: X25519MLKEM768",
        ] {
            assert!(said.contains(expected), "{mode}: {expected} is not in {said}");
        }
        let (code, report) = server.seen(&copy);
        assert_eq!(code, Some(i32::from(ours)), "{mode}: {report}");
        for (stats, operations) in [
            (of_server, ["ML-DSA-65 sign", "X25519MLKEM768 encaps", "TLS13-KDF derive"]),
            (of_client, ["ML-DSA-65 verify", "X25519MLKEM768 decaps", "TLS13-KDF derive"]),
        ] {
            assert_eq!(Path::new(&stats).exists(), ours, "{mode}: {stats}");
            if ours {
                let (code, counted, stderr) = run(&mut copy.gabion(&["doctor", "--stats", &stats]));
                assert_eq!(code, Some(0), "{stderr}");
                let rows: Vec<Vec<&str>> =
                    counted.lines().map(|line| line.split_whitespace().collect()).collect();
                for operation in operations {
                    let named = |row: &&Vec<&str>| row.len() > 2 && row[..2].join(" ") == operation;
                    let row = rows.iter().find(named);
                    assert!(row.is_some_and(|row| row[2] != "0"), "{operation}: {counted}");
                }
            }
        }
    }
}

/// A TLS server that was started by `gabion exec`, whose process is the command's own.
struct Server {
    process: Child,
    /// Where it listens.
    address: String,
}

impl Server {
    fn start(copy: &Copy, mode: &str, before: &[&str], options: &[&str]) -> Server {
        let mut command = copy.gabion(&["exec", "--"]);
        let server = ["openssl", "s_server", "-accept", "127.0.0.1:0"];
        command.args(before).args(server).args(options).env("GABION_OPENSSL_FIPS_MODE", mode);
        if !options.contains(&"-cert") {
            command.arg("-nocert");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        // It has read its configuration once it listens. Here nothing is written after that.
        let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
        let address = lines.find_map(|line| line.ok()?.strip_prefix("ACCEPT ").map(str::to_string));
        let address = address.unwrap_or_else(|| panic!("{mode} {before:?} {options:?}"));
        Server { process, address }
    }

    /// Returns the result of `preflight --pid`, with the same variables.
    fn seen(&self, copy: &Copy) -> (Option<i32>, Value) {
        let pid = self.process.id().to_string();
        preflight(&mut copy.gabion(&["preflight", "--json", "--pid", &pid]))
    }

    /// That the answer is no, for this reason.
    #[track_caller]
    fn is_not(&self, copy: &Copy, why: &str) -> Value {
        let (code, report) = self.seen(copy);
        assert_eq!((code, &report["ok"]), (Some(1), &Value::from(false)), "{report}");
        let problems = report["problems"].as_array().unwrap();
        let given = problems.iter().any(|problem| problem.as_str().unwrap().contains(why));
        assert!(given, "no `{why}` in {problems:?}");
        report
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_process_in_mode_only_is_seen_to_run_in_the_module() {
    let copy = Copy::new(Damage::None);
    let server = Server::start(&copy, "only", &[], &[]);
    let (code, report) = server.seen(&copy);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!((&report["ok"], &report["problems"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(report["pid"], server.process.id());
    let (_, sound) = preflight(&mut copy.gabion(&["preflight", "--json"]));
    let module = serde_json::json!([{"file": sound["module"], "sha256": sound["module_sha256"]}]);
    assert_eq!(report["module"], module);
    assert_eq!(report["openssl_conf"], sound["conf"]);
    assert_eq!(report["libcrypto"].as_array().unwrap().len(), 1);
    let pid = server.process.id().to_string();
    let (code, text, stderr) = run(&mut copy.gabion(&["preflight", "--pid", &pid]));
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert!(text.contains("runs in the FIPS provider") && text.contains("sha256 "), "{text}");
}

#[test]
fn running_process_in_another_mode_is_detected() {
    let copy = Copy::new(Damage::None);
    for mode in ["off", "ready"] {
        let server = Server::start(&copy, mode, &[], &[]);
        server.is_not(&copy, "it has loaded no FIPS module");
        server.is_not(&copy, "openssl-gabion.cnf; mode `only` gives");
        let report = server.is_not(&copy, "it has loaded another provider");
        assert!(report["other_providers"][0].as_str().unwrap().ends_with("/gabion.so"), "{report}");
    }
    // Started by the guard, and then out of the environment that it was given.
    let server = Server::start(&copy, "only", &["env", "-u", "OPENSSL_CONF"], &[]);
    server.is_not(&copy, "OPENSSL_CONF is not in its environment");
    server.is_not(&copy, "it has loaded no FIPS module");
    let server = Server::start(&copy, "only", &[], &["-provider", "legacy", "-provider", "base"]);
    server.is_not(&copy, "it has loaded another provider");

    let other = copy.folder.path().join("other");
    copy_folder(&copy.path("lib"), &other);
    let libcrypto = other.join("libcrypto.so.3");
    let mut bytes = std::fs::read(&libcrypto).unwrap();
    bytes.push(0);
    std::fs::write(&libcrypto, bytes).unwrap();
    let path = format!("LD_LIBRARY_PATH={}", other.display());
    let server = Server::start(&copy, "only", &["env", &path], &[]);
    server.is_not(&copy, "the libcrypto that it has loaded");

    let mut sleeper = copy.gabion(&["exec", "--", "sleep", "600"]);
    let process = sleeper.env("GABION_OPENSSL_FIPS_MODE", "only").spawn().unwrap();
    let sleeper = Server { process, address: String::new() };
    // It is another program once the guard has let it start.
    let program = format!("/proc/{}/exe", sleeper.process.id());
    while !std::fs::read_link(&program).is_ok_and(|program| program.ends_with("sleep")) {
        std::thread::sleep(Duration::from_millis(10));
    }
    sleeper.is_not(&copy, "it has loaded no libcrypto");
    let gone = sleeper.process.id().to_string();
    drop(sleeper);
    let (code, _, stderr) = run(&mut copy.gabion(&["preflight", "--pid", &gone]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("does not exist"), "{stderr}");
}

#[test]
fn changes_since_process_start_are_detected() {
    let copy = Copy::new(Damage::None);
    let server = Server::start(&copy, "only", &[], &[]);
    assert_eq!(server.seen(&copy).0, Some(0));
    let conf = copy.path("ssl/openssl-fips.cnf");
    let touch = |when| {
        std::fs::File::options().append(true).open(&conf).unwrap().set_modified(when).unwrap();
    };
    touch(SystemTime::now() + Duration::from_secs(60));
    server.is_not(&copy, "openssl-fips.cnf has changed since it started");
    touch(SystemTime::now() - Duration::from_secs(3600));
    assert_eq!(server.seen(&copy).0, Some(0));

    // A sound module in place of the one that it runs: sound is not what was checked for it.
    let module = copy.path("lib/ossl-modules/fips.so");
    let twin = module.with_extension("new");
    std::fs::copy(&module, &twin).unwrap();
    std::fs::rename(&twin, &module).unwrap();
    let report = server.is_not(&copy, "fips.so (deleted), is not");
    assert_eq!(report["module"][0]["sha256"], Value::Null);
    assert_eq!(preflight(&mut copy.gabion(&["preflight", "--json"])).0, Some(0));
}

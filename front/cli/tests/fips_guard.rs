//! `gabion exec` and `gabion preflight` on copies of the real bundle: every mode against every
//! damage, and what a command gets to see.
//!
//! The bundle is the one of `gabion bundle build`; the tests fail without it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is how a test fails, in its helpers too.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// What can be wrong with a FIPS provider.
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
        let home = std::env::var_os("HOME").expect("HOME names the folder of the bundle");
        Path::new(&home).join(".cache/gabion/openssl/bundle-3.5.5")
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
fn a_sound_bundle_starts_commands_in_every_mode_without_a_word() {
    let copy = Copy::new(Damage::None);
    for mode in ["", "off", "ready", "only"] {
        let (code, stderr, started) = copy.exec_in_mode(mode, &[]);
        assert_eq!((code, stderr.as_str(), started), (Some(0), "", true), "mode {mode:?}");
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
            Damage::ModuleRemoved => "fips.so: there is no such file",
            Damage::ModuleChanged | Damage::MacChanged => "HMAC of the module does not match",
            Damage::ConfMissing => "openssl-fips.cnf is missing",
            Damage::MacMissing => "fipsmodule.cnf is missing",
            Damage::None => unreachable!("DAMAGES holds no None"),
        };
        assert!(stderr.contains(reason), "{damage:?}: {stderr}");
    }
}

#[test]
fn the_guard_is_bypassed_by_one_which_is_said() {
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

    let other = lines(
        copy.gabion(&shell).env("GABION_OPENSSL_MODULES", "/m").env("GABION_OPENSSL_CONF", "/c"),
    );
    assert_eq!((other[2].as_str(), other[3].as_str()), ("/m", "/c"));
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
    assert_eq!(report["module_version"], "3.5.5");
    assert_eq!(report["module_source"], "self-built");
    assert_eq!(report["validated"], false);
    assert_eq!(report["algorithms"]["available"].as_array().unwrap().len(), 18);
    assert_eq!(report["algorithms"]["missing"], serde_json::json!([]));
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
fn a_configuration_that_also_finds_unapproved_algorithms_is_refused() {
    let copy = Copy::new(Damage::None);
    let conf = copy.folder.path().join("loose.cnf");
    let text = std::fs::read_to_string(copy.path("ssl/openssl-fips.cnf"))
        .unwrap()
        .replace("default_properties = fips=yes", "default_properties = ?fips=yes")
        .replace("base = fips_base", "default = fips_base");
    std::fs::write(&conf, text).unwrap();
    let loose = [("GABION_OPENSSL_CONF", conf.to_str().unwrap())];
    let (code, stderr, started) = copy.exec_in_mode("only", &loose);
    assert_eq!((code, started), (Some(3), false), "{stderr}");
    assert!(stderr.contains("MD5 can be used"), "{stderr}");
}

#[test]
fn a_module_from_elsewhere_is_used_and_called_external() {
    let copy = Copy::new(Damage::None);
    let elsewhere = copy.folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let (module, mac, conf) =
        (elsewhere.join("fips.so"), elsewhere.join("fipsmodule.cnf"), elsewhere.join("fips.cnf"));
    // A trailing byte makes it another file that still loads, with a MAC of its own.
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

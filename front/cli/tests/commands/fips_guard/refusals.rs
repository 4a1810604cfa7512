//! Cases that `gabion exec` refuses to start: a bundle that another user may change, a path that is
//! missing or splits a list, and a program that would run without the checked libraries.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use super::{Copy, Damage, copy_folder, run};

/// OpenSSL starts without a message, and without Gabion, if a named file is missing.
#[test]
fn a_path_that_is_named_and_not_there_is_an_error_in_every_mode() {
    let copy = Copy::new(Damage::None);
    let folder = copy.folder.path().to_str().unwrap();
    let none = format!("{folder}/none");
    for mode in ["off", "ready", "only"] {
        for (name, value) in [
            ("GABION_OPENSSL_CONF", none.as_str()),
            ("GABION_OPENSSL_CONF", folder),
            ("GABION_OPENSSL_CONF", ""),
            ("GABION_OPENSSL_MODULES", none.as_str()),
            ("GABION_OPENSSL_MODULES", "/dev/null"),
            ("GABION_OPENSSL_MODULES", ""),
            ("GABION_OPENSSL_PREFIX", ""),
        ] {
            let (code, stderr, started) = copy.exec_in_mode(mode, &[(name, value)]);
            assert_eq!((code, started), (Some(3), false), "{mode} {name}={value}: {stderr}");
            assert!(stderr.contains(name) && stderr.contains("expected"), "{stderr}");
        }
    }
}

/// A list is split at colons, so that the part after one would be searched in addition, or instead:
/// the system's OpenSSL, which was not checked.
#[test]
fn a_prefix_that_a_list_cannot_hold_is_refused() {
    let copy = Copy::new(Damage::None);
    for name in ["a:b", "a;b", "a b", "a$b", "a#b", "a\nb"] {
        let place = copy.folder.path().join(name);
        std::os::unix::fs::symlink(copy.prefix(), &place).unwrap();
        for mode in ["off", "only"] {
            let place = [("GABION_OPENSSL_PREFIX", place.to_str().unwrap())];
            let (code, stderr, started) = copy.exec_in_mode(mode, &place);
            assert_eq!((code, started), (Some(3), false), "{mode} {name:?}: {stderr}");
            assert!(stderr.contains("cannot be used"), "{stderr}");
        }
    }
}

#[test]
fn a_bundle_that_others_may_change_is_refused() {
    let copy = Copy::new(Damage::None);
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for part in ["", "lib", "bin/openssl", "lib/ossl-modules/gabion.so", "ssl/openssl-gabion.cnf"] {
        let path = copy.path(part);
        let before = std::fs::metadata(&path).unwrap().permissions().mode();
        for bits in [0o002, 0o022] {
            set(&path, before | bits);
            let (code, stderr, started) = copy.exec_in_mode("off", &[]);
            assert_eq!((code, started), (Some(3), false), "{part} {bits:o}: {stderr}");
            assert!(stderr.contains("others may write to"), "{stderr}");
        }
        set(&path, before);
        assert_eq!(copy.exec_in_mode("off", &[]).0, Some(0), "{part}");
    }
    // Nor do the commands that look at it run anything of it.
    set(&copy.path("lib"), 0o777);
    for command in ["doctor", "preflight"] {
        let (code, stdout, stderr) = run(&mut copy.gabion(&[command, "--json"]));
        assert!(code != Some(0) && stdout.contains("others may write to"), "{stderr}");
        assert!(!stdout.contains("served by gabion"), "{stdout}");
    }
    set(&copy.path("lib"), 0o755);
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("not run: only root may give files away");
        return;
    }
    // A group that is not the owner's alone.
    std::os::unix::fs::chown(copy.path("lib"), None, Some(12345)).unwrap();
    set(&copy.path("lib"), 0o775);
    let (code, stderr, started) = copy.exec_in_mode("off", &[]);
    assert_eq!((code, started), (Some(3), false), "{stderr}");
    set(&copy.path("lib"), 0o755);

    std::os::unix::fs::chown(copy.path("bin/openssl"), Some(12345), None).unwrap();
    let (code, stderr, started) = copy.exec_in_mode("off", &[]);
    assert_eq!((code, started), (Some(3), false), "{stderr}");
    assert!(stderr.contains("belongs to user 12345"), "{stderr}");
    let any = [("GABION_OPENSSL_ANY_OWNER", "1")];
    assert_eq!(copy.exec_in_mode("off", &any).0, Some(0));
}

/// Compiles a program, linked with what the options say.
fn compile(place: &Path, program: &str, options: &[&str]) {
    let source = place.with_extension("c");
    std::fs::write(&source, program).unwrap();
    let cc = Command::new("cc").arg(&source).arg("-o").arg(place).args(options).output().unwrap();
    assert!(cc.status.success(), "{}", String::from_utf8_lossy(&cc.stderr));
}

/// The guard's checks only apply to a program that loads the bundle's libcrypto.
#[test]
fn a_program_with_another_openssl_is_refused_or_told_of() {
    let copy = Copy::new(Damage::None);
    let (other, foreign, own) = (
        copy.folder.path().join("other"),
        copy.folder.path().join("foreign"),
        copy.folder.path().join("own"),
    );
    copy_folder(&copy.path("lib"), &other);
    let library = other.join("libcrypto.so.3");
    // The old kind of run path comes before LD_LIBRARY_PATH.
    let path = format!("-Wl,--disable-new-dtags,-rpath,{}", other.display());
    let main = "int main(int c, char **v) { (void)v; return c - 1; }\n";
    compile(&foreign, main, &["-Wl,--no-as-needed", library.to_str().unwrap(), &path]);
    let script = copy.folder.path().join("script");
    std::fs::write(&script, format!("#!{}\n", foreign.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = "const char *t = \"OpenSSL 3.0.15+quic 3 Sep 2024\";\n";
    let main = "int main(int c, char **v) { return v[c - 1] == t; }\n";
    compile(&own, &format!("{text}{main}"), &[]);
    let exec = |program: &Path, mode: &str| {
        let mut command = copy.gabion(&["exec", "--", program.to_str().unwrap()]);
        let (code, _, stderr) = run(command.env("GABION_OPENSSL_FIPS_MODE", mode));
        (code, stderr)
    };
    for program in [&foreign, &script] {
        let (code, stderr) = exec(program, "only");
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("libcrypto.so.3, which is not the bundle's"), "{stderr}");
        let (code, stderr) = exec(program, "ready");
        assert!(code != Some(3) && stderr.contains("warning: "), "{stderr}");
        assert!(!exec(program, "off").1.contains("warning"));
    }
    let mut preloaded = copy.gabion(&["exec", "--", "true"]);
    preloaded.env("LD_PRELOAD", &library).env("GABION_OPENSSL_FIPS_MODE", "only");
    let (code, _, stderr) = run(&mut preloaded);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("other/libcrypto.so.3, which is not the bundle's"), "{stderr}");
    let (code, stderr) = exec(&own, "only");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("contains an OpenSSL (OpenSSL 3.0.15+quic"), "{stderr}");
    assert!(!exec(&copy.path("bin/openssl"), "only").1.contains("warning"));
}

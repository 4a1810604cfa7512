//! `gabion bundle build` on a source that takes no time: what is refused, and what an interrupted
//! or failed build leaves.
//!
//! The source is a tarball with a `Configure` that writes a Makefile of a few lines. Environment
//! variables of the build decide whether its compilation waits or fails.

#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is how a test fails, in its helpers too.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const CONFIGURE: &str = r#"
my ($prefix) = map { /^--prefix=(.*)/ ? $1 : () } @ARGV;
open my $makefile, '>', 'Makefile' or die;
print $makefile <<"END";
TREE = \$(DESTDIR)$prefix
build_sw:
	\@echo cc -c one.c
	\@if [ -n "\$\$FAKE_STARTED" ]; then touch "\$\$FAKE_STARTED"; sleep \$\$FAKE_SLEEP; fi
	\@if [ -n "\$\$FAKE_FAILURE" ]; then echo "one.c: no such thing" >&2; exit 1; fi
	\@echo cc -c two.c
install_sw: build_sw
	mkdir -p \$(TREE)/bin \$(TREE)/lib/ossl-modules
	cp openssl \$(TREE)/bin/openssl
	chmod 755 \$(TREE)/bin/openssl
	touch \$(TREE)/lib/libcrypto.so \$(TREE)/lib/libssl.so
install_ssldirs:
	mkdir -p \$(TREE)/ssl
install_fips:
	echo module > \$(TREE)/lib/ossl-modules/fips.so
END
"#;

/// Stands in for the command: writes the file that `fipsinstall -module M -out FILE` writes.
const OPENSSL: &str = "#!/bin/sh\n[ \"$1\" = fipsinstall ] && echo '[fips_sect]' > \"$5\"\n";

const VERSION_DAT: &str = "MAJOR=9\nMINOR=8\nPATCH=7\nPRE_RELEASE_TAG=\n";

struct Workplace {
    folder: tempfile::TempDir,
    tarball: PathBuf,
    sha256: String,
}

impl Workplace {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("openssl-9.8.7");
        std::fs::create_dir_all(tree.join("apps")).unwrap();
        std::fs::create_dir_all(tree.join("util")).unwrap();
        std::fs::write(tree.join("Configure"), CONFIGURE).unwrap();
        std::fs::write(tree.join("VERSION.dat"), VERSION_DAT).unwrap();
        std::fs::write(tree.join("openssl"), OPENSSL).unwrap();
        let tarball = folder.path().join("source.tar.gz");
        let made = Command::new("tar")
            .arg("-C")
            .arg(folder.path())
            .arg("-czf")
            .arg(&tarball)
            .arg("openssl-9.8.7")
            .status()
            .unwrap();
        assert!(made.success());
        let sum = Command::new("sha256sum").arg(&tarball).output().unwrap();
        let sha256 = String::from_utf8(sum.stdout).unwrap()[..64].to_string();
        Workplace { folder, tarball, sha256 }
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("place/bundle")
    }

    fn manifest(&self) -> PathBuf {
        self.prefix().join("gabion-bundle.json")
    }

    /// `gabion bundle build` of the tarball with the right hash, into [`Self::prefix`].
    fn build(&self, extra: &[&str]) -> Command {
        let mut command = self.build_with_hash(&self.sha256);
        command.args(extra);
        command
    }

    fn build_with_hash(&self, sha256: &str) -> Command {
        let mut command = gabion(&["bundle", "build", "--prefix"]);
        command.arg(self.prefix()).arg("--source").arg(&self.tarball);
        command.args(["--sha256", sha256]);
        command
    }

    /// Names beside the bundle that only a running build may have there.
    fn leftovers(&self) -> Vec<String> {
        std::fs::read_dir(self.folder.path().join("place"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(".building-"))
            .collect()
    }

    fn wait_for(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let begun = Instant::now();
        while !path.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} did not appear", path.display());
            std::thread::sleep(Duration::from_millis(20));
        }
        path
    }
}

fn gabion(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gabion"));
    command.args(arguments);
    command
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn assert_built(workplace: &Workplace) {
    let text = std::fs::read_to_string(workplace.manifest()).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["version"], "9.8.7");
    assert_eq!(manifest["source_sha256"], workplace.sha256);
    assert_eq!(manifest["fips_module_sha256"].as_str().unwrap().len(), 64);
    for part in
        ["bin/openssl", "ssl/fipsmodule.cnf", "ssl/openssl-fips.cnf", "ssl/openssl-gabion.cnf"]
    {
        assert!(workplace.prefix().join(part).is_file(), "{part}");
    }
    let fips = std::fs::read_to_string(workplace.prefix().join("ssl/openssl-fips.cnf")).unwrap();
    assert!(fips.contains(&format!("{}/ssl/fipsmodule.cnf", workplace.prefix().display())));
    assert_eq!(workplace.leftovers(), Vec::<String>::new());
}

#[test]
fn a_build_succeeds_and_its_folder_is_the_only_output() {
    let workplace = Workplace::new();
    let (code, stdout, stderr) = run(&mut workplace.build(&[]));
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, format!("{}\n", workplace.prefix().display()));
    assert_built(&workplace);
}

#[test]
fn a_wrong_hash_is_refused_and_nothing_is_built() {
    let workplace = Workplace::new();
    let (code, stdout, stderr) = run(&mut workplace.build_with_hash(&"ab".repeat(32)));
    assert_eq!((code, stdout.as_str()), (Some(3), ""));
    assert!(stderr.contains(&workplace.sha256) && stderr.contains("abab"), "{stderr}");
    assert!(!workplace.prefix().exists());
    assert_eq!(workplace.leftovers(), Vec::<String>::new());
}

#[test]
fn a_source_without_a_known_hash_is_refused() {
    let workplace = Workplace::new();
    let mut command = gabion(&["bundle", "build", "--prefix"]);
    command.arg(workplace.prefix()).arg("--source").arg(&workplace.tarball);
    let (code, _, stderr) = run(&mut command);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains(&format!("--sha256 {}", workplace.sha256)), "{stderr}");
    assert!(!workplace.prefix().exists());
}

#[test]
fn requests_that_make_no_sense_exit_with_two() {
    let workplace = Workplace::new();
    let (code, _, stderr) = run(&mut gabion(&["bundle", "build", "--openssl", "1.0.2"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("3.5.5"), "{stderr}");
    let (code, _, stderr) = run(&mut workplace.build_with_hash("12"));
    assert_eq!(code, Some(2), "{stderr}");
    let (code, _, stderr) = run(&mut workplace.build(&["--openssl", "3.5.5"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("OpenSSL 9.8.7, not 3.5.5"), "{stderr}");
    let text = workplace.folder.path().join("text");
    std::fs::write(&text, "no library").unwrap();
    for module in [Path::new("/nonexistent.so"), &text] {
        let (code, _, stderr) = run(workplace.build(&["--module"]).arg(module));
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains("--module"), "{stderr}");
    }
    assert!(!workplace.prefix().exists());
}

#[test]
fn a_folder_that_is_not_a_bundle_is_left_alone() {
    let workplace = Workplace::new();
    std::fs::create_dir_all(workplace.prefix()).unwrap();
    std::fs::write(workplace.prefix().join("diary"), "mine").unwrap();
    for extra in [&[][..], &["--repair"][..]] {
        let (code, _, stderr) = run(&mut workplace.build(extra));
        assert_eq!(code, Some(2), "{stderr}");
        assert_eq!(std::fs::read(workplace.prefix().join("diary")).unwrap(), b"mine");
    }
}

#[test]
fn a_killed_build_leaves_nothing_that_looks_finished() {
    let workplace = Workplace::new();
    let started = workplace.folder.path().join("started");
    let mut child =
        workplace.build(&[]).env("FAKE_STARTED", &started).env("FAKE_SLEEP", "5").spawn().unwrap();
    workplace.wait_for("started");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!workplace.prefix().exists());
    assert_eq!(workplace.leftovers().len(), 1, "the kill came too late to show anything");

    let (code, _, stderr) = run(&mut workplace.build(&[]));
    assert_eq!(code, Some(0), "{stderr}");
    assert_built(&workplace);
}

#[test]
fn a_failed_build_shows_the_log_and_keeps_an_older_bundle() {
    let workplace = Workplace::new();
    let (code, _, stderr) = run(workplace.build(&[]).env("FAKE_FAILURE", "1"));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("one.c: no such thing"), "{stderr}");
    assert!(!workplace.prefix().exists());
    assert_eq!(workplace.leftovers(), Vec::<String>::new());

    assert_eq!(run(&mut workplace.build(&[])).0, Some(0));
    let before = std::fs::read(workplace.manifest()).unwrap();
    let (code, _, _) = run(workplace.build(&["--repair"]).env("FAKE_FAILURE", "1"));
    assert_eq!(code, Some(3));
    assert_eq!(std::fs::read(workplace.manifest()).unwrap(), before);
    assert_built(&workplace);
}

#[test]
fn a_second_build_waits_for_the_first_and_finds_its_bundle() {
    let workplace = Workplace::new();
    let started = workplace.folder.path().join("started");
    let mut first =
        workplace.build(&[]).env("FAKE_STARTED", &started).env("FAKE_SLEEP", "2").spawn().unwrap();
    workplace.wait_for("started");
    let (code, _, stderr) = run(&mut workplace.build(&[]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("another build") && stderr.contains("already built"), "{stderr}");
    assert!(first.wait().unwrap().success());
    assert_built(&workplace);
}

#[test]
fn a_finished_bundle_is_refreshed_not_built() {
    let workplace = Workplace::new();
    let module = workplace.folder.path().join("module.so");
    std::fs::write(&module, b"\x7fELF old").unwrap();
    let with_module = ["--module", module.to_str().unwrap()];
    assert_eq!(run(&mut workplace.build(&with_module)).0, Some(0));
    let place = workplace.prefix().join("lib/ossl-modules/gabion.so");
    assert_eq!(std::fs::read(&place).unwrap(), b"\x7fELF old");

    std::fs::write(&module, b"\x7fELF new").unwrap();
    assert_eq!(run(&mut workplace.build(&["--keep-module"])).0, Some(0));
    assert_eq!(std::fs::read(&place).unwrap(), b"\x7fELF old");
    let conf = workplace.prefix().join("ssl/openssl-gabion.cnf");
    std::fs::remove_file(&conf).unwrap();
    // A build would fail: the refresh must not need one.
    let (code, _, stderr) = run(workplace.build(&with_module).env("FAKE_FAILURE", "1"));
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(std::fs::read(&place).unwrap(), b"\x7fELF new");
    assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(conf.is_file());

    // A third run has nothing to do, and a bundle that lost a part is not called finished.
    let (_, _, stderr) = run(&mut workplace.build(&with_module));
    assert!(!stderr.contains("installed") && !stderr.contains("written"), "{stderr}");
    std::fs::remove_file(workplace.prefix().join("lib/ossl-modules/fips.so")).unwrap();
    let (code, _, stderr) = run(&mut workplace.build(&with_module));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("fips.so is missing") && stderr.contains("--repair"), "{stderr}");
    let mut repair = workplace.build(&["--repair"]);
    repair.args(with_module);
    assert_eq!(run(&mut repair).0, Some(0));
    assert_built(&workplace);
}

#[test]
fn a_bundle_appears_with_its_modules_in_it() {
    let workplace = Workplace::new();
    let module = workplace.folder.path().join("module.so");
    std::fs::write(&module, b"\x7fELF module").unwrap();
    let mut build = workplace.build(&["--module", module.to_str().unwrap()]);
    let mut build = build.stderr(std::process::Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !workplace.prefix().exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no bundle appeared");
        std::hint::spin_loop();
    }
    let there = workplace.prefix().join("lib/ossl-modules/gabion.so").exists();
    assert!(build.wait().unwrap().success());
    assert!(there, "the bundle was to be seen without its provider");
    assert_built(&workplace);
}

#[test]
fn a_damaged_archive_is_refused_before_it_is_built() {
    let workplace = Workplace::new();
    let bytes = std::fs::read(&workplace.tarball).unwrap();
    std::fs::write(&workplace.tarball, &bytes[..bytes.len() / 2]).unwrap();
    let sum = Command::new("sha256sum").arg(&workplace.tarball).output().unwrap();
    let sha256 = String::from_utf8(sum.stdout).unwrap()[..64].to_string();
    let (code, _, stderr) = run(&mut workplace.build_with_hash(&sha256));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("cannot unpack") && stderr.contains("deflate"), "{stderr}");
    assert!(!Path::new(&workplace.prefix()).exists());
}

#[test]
fn a_module_is_installed_where_that_openssl_looks() {
    let folder = tempfile::tempdir().unwrap();
    let (openssl, modules) = (folder.path().join("openssl"), folder.path().join("modules"));
    let script = format!(
        "#!/bin/sh\necho 'OpenSSL 3.6.0 1 Oct 2025'\necho 'OPENSSLDIR: \"/s\"'\n\
         echo 'MODULESDIR: \"{}\"'\n",
        modules.display()
    );
    std::fs::write(&openssl, script).unwrap();
    std::fs::set_permissions(&openssl, std::fs::Permissions::from_mode(0o755)).unwrap();
    let module = folder.path().join("module.so");
    std::fs::write(&module, b"\x7fELF module").unwrap();
    let install = || {
        let mut command = gabion(&["provider", "install", "--openssl"]);
        run(command.arg(&openssl).arg("--module").arg(&module))
    };

    let (code, _, stderr) = install();
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("does not exist"), "{stderr}");
    std::fs::create_dir(&modules).unwrap();
    let place = modules.join("gabion.so");
    let (code, stdout, stderr) = install();
    assert_eq!((code, stdout), (Some(0), format!("{}\n", place.display())), "{stderr}");
    assert_eq!(std::fs::read(&place).unwrap(), b"\x7fELF module");

    let (code, text, _) = run(gabion(&["provider", "config", "--openssl"]).arg(&openssl));
    assert_eq!(code, Some(0));
    assert!(text.contains(&format!("finds it as {},", place.display())), "{text}");

    std::fs::write(&module, b"text").unwrap();
    let (code, _, stderr) = install();
    assert_eq!(code, Some(3));
    assert!(stderr.contains("not a shared library"), "{stderr}");
    assert_eq!(std::fs::read(&place).unwrap(), b"\x7fELF module");
}

//! `gabion bundle build` on a source that builds at once: the refused arguments, and the files
//! after an interrupted or failed build.
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

/// Stands in for the command: writes the file that `fipsinstall -pedantic -module M -out FILE` writes.
const OPENSSL: &str =
    "#!/bin/sh\n[ \"$1 $2\" = 'fipsinstall -pedantic' ] && echo '[fips_sect]' > \"$6\"\n";

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

    /// Returns names in the bundle's folder that only a running build may have there.
    fn leftovers(&self) -> Vec<String> {
        std::fs::read_dir(self.folder.path().join("place"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(".building-"))
            .collect()
    }

    /// Creates the folder around the bundle, as another user could have made it before.
    fn place(&self) -> PathBuf {
        let place = self.folder.path().join("place");
        std::fs::create_dir(&place).unwrap();
        place
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
    assert_eq!(manifest["wanted"], "9.8.7");
    assert!(manifest["taken_from"].as_str().unwrap().starts_with("--source "));
    assert_eq!(manifest["advisories"], serde_json::json!([]));
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
    let (code, _, stderr) = run(&mut workplace.build(&["--fips-module", "1.0.2"]));
    assert_eq!(code, Some(2), "{stderr}");
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
    assert!(
        stderr.contains("not a gzip-compressed tar archive") && stderr.contains("unexpected end"),
        "{stderr}"
    );
    assert!(!Path::new(&workplace.prefix()).exists());
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Users who can replace files next to a running build control the compiled code.
#[test]
fn a_place_where_others_may_replace_things_is_refused() {
    let workplace = Workplace::new();
    let place = workplace.place();
    for mode in [0o777, 0o757] {
        set_mode(&place, mode);
        let (code, _, stderr) = run(&mut workplace.build(&[]));
        assert_eq!(code, Some(3), "{stderr}");
        assert!(
            stderr.contains("others may write to") && stderr.contains("chmod go-w"),
            "{stderr}"
        );
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    }
}

/// In a folder like /tmp others may add things: none of them is entered, followed or written to.
#[test]
fn foreign_files_beside_a_bundle_are_left_unchanged() {
    let workplace = Workplace::new();
    let place = workplace.place();
    set_mode(&place, 0o1777);
    let diary = workplace.folder.path().join("diary");
    std::fs::write(&diary, "mine").unwrap();
    let started = workplace.folder.path().join("started");

    // Its log of a build that failed replaces a link and leaves alone where it led.
    std::os::unix::fs::symlink(&diary, place.join("bundle.log")).unwrap();
    let mut build = workplace.build(&[]);
    let mut build = build
        .env("FAKE_STARTED", &started)
        .env("FAKE_SLEEP", "1")
        .env("FAKE_FAILURE", "1")
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    workplace.wait_for("started");
    let [name] = &workplace.leftovers()[..] else { panic!("one folder is at work") };
    let random = name.strip_prefix(".bundle.building-").unwrap();
    assert!(random.len() >= 16 && !random.contains(&build.id().to_string()), "{name}");
    assert_eq!(mode_of(&place.join(name)), 0o700);
    assert_eq!(build.wait().unwrap().code(), Some(3));
    assert_eq!(std::fs::read(&diary).unwrap(), b"mine");
    let log = place.join("bundle.log");
    assert!(std::fs::symlink_metadata(&log).unwrap().is_file());
    assert!(std::fs::read_to_string(&log).unwrap().contains("no such thing"));

    // A lock that is a link is refused, and neither made nor emptied.
    let lock = place.join(".bundle.lock");
    std::fs::remove_file(&lock).unwrap();
    for target in [diary.clone(), workplace.folder.path().join("absent")] {
        std::os::unix::fs::symlink(&target, &lock).unwrap();
        let (code, _, stderr) = run(&mut workplace.build(&[]));
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains(".bundle.lock"), "{stderr}");
        std::fs::remove_file(&lock).unwrap();
    }
    assert_eq!(std::fs::read(&diary).unwrap(), b"mine");
    assert!(!workplace.folder.path().join("absent").exists());
    assert_eq!(run(&mut workplace.build(&[])).0, Some(0));
    assert_built(&workplace);
}

#[test]
fn bundle_is_not_writable_by_others_under_any_umask() {
    let workplace = Workplace::new();
    let mut build = Command::new("sh");
    build.args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_gabion")]);
    build.args(["bundle", "build", "--prefix"]).arg(workplace.prefix());
    build.arg("--source").arg(&workplace.tarball).args(["--sha256", &workplace.sha256]);
    let (code, _, stderr) = run(&mut build);
    assert_eq!(code, Some(0), "{stderr}");
    let mut folders = vec![workplace.folder.path().join("place")];
    while let Some(folder) = folders.pop() {
        assert_eq!(mode_of(&folder) & 0o022, 0, "{}", folder.display());
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode_of(&path) & 0o022, 0, "{}", path.display());
            folders.extend(Some(path).filter(|path| path.is_dir()));
        }
    }
}

/// The bytes that were hashed are those that are built, whatever becomes of the file.
#[test]
fn a_source_that_is_no_file_or_has_no_end_is_not_looked_into_first() {
    let workplace = Workplace::new();
    let mut command = gabion(&["bundle", "build", "--prefix"]);
    command.arg(workplace.prefix()).args(["--source", "/dev/null", "--sha256", &workplace.sha256]);
    let (code, _, stderr) = run(&mut command);
    assert_eq!(code, Some(3), "{stderr}");
    // Its hash is what is wrong with it; that it is no archive would be seen behind that.
    assert!(stderr.contains("has SHA-256 e3b0c442") && !stderr.contains("archive"), "{stderr}");
}

/// A machine on which no place has any version, and which says who was asked.
struct Offline {
    folder: tempfile::TempDir,
}

impl Offline {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        std::fs::create_dir_all(folder.path().join("home")).unwrap();
        let offline = Offline { folder };
        offline.program("curl", "echo 'curl: (6) Could not resolve host: x' >&2; exit 6");
        offline.program("apt-get", "echo http://user:secret@mirror.test/debian/");
        offline.program(
            "apt-helper",
            "echo \"E: Failed to fetch ${10}  404  Not Found\" >&2; exit 100",
        );
        offline.program("cargo", "echo 'error: no network' >&2; exit 101");
        offline
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.folder.path().join("bin").join(name);
        let asked = self.folder.path().join("asked");
        let text = format!("#!/bin/sh\necho {name} \"$@\" >>{}\n{text}\n", asked.display());
        std::fs::write(&path, text).unwrap();
        set_mode(&path, 0o755);
    }

    fn asked(&self) -> String {
        let path = self.folder.path().join("asked");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text
    }

    fn bundle(&self, version: &str) -> PathBuf {
        self.folder.path().join("home/.cache/gabion/openssl").join(format!("bundle-{version}"))
    }

    /// Creates the files of a finished bundle that are needed without running it.
    fn finish(&self, version: &str) {
        let bundle = self.bundle(version);
        for part in ["bin/openssl", "lib/libcrypto.so", "lib/libssl.so"] {
            std::fs::create_dir_all(bundle.join(part).parent().unwrap()).unwrap();
            std::fs::write(bundle.join(part), "").unwrap();
        }
        for part in ["lib/ossl-modules/fips.so", "ssl/fipsmodule.cnf"] {
            std::fs::create_dir_all(bundle.join(part).parent().unwrap()).unwrap();
            std::fs::write(bundle.join(part), "").unwrap();
        }
        let record = serde_json::json!({
            "version": version, "source_sha256": "", "options": [], "built": "then",
            "fips_module_sha256": "", "gabion_version": "",
        });
        std::fs::write(bundle.join("gabion-bundle.json"), record.to_string()).unwrap();
    }

    fn gabion(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = gabion(arguments);
        let bin = self.folder.path().join("bin");
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("CARGO", "cargo");
        command.env("HOME", self.folder.path().join("home")).env_remove("CARGO_HOME");
        command.env_remove("GABION_OPENSSL_PREFIX");
        run(&mut command)
    }
}

#[test]
fn unavailable_sources_are_each_named_once() {
    let machine = Offline::new();
    let (code, stdout, stderr) = machine.gabion(&["bundle", "build"]);
    assert_eq!((code, stdout.as_str()), (Some(3), ""), "{stderr}");
    for reason in [
        "3.5.9 from upstream: curl: (6) Could not resolve host",
        "3.5.9 from Debian's archive: Failed to fetch 404 Not Found",
        "3.5.7 from Debian's archive: ",
        "3.5.5 from the package: `cargo fetch` failed: error: no network",
        "--source",
    ] {
        assert!(stderr.contains(reason), "{reason}: {stderr}");
    }
    assert!(!stderr.contains("secret"), "{stderr}");
    let asked = machine.asked();
    assert_eq!(asked.lines().filter(|line| line.starts_with("curl ")).count(), 1, "{asked}");
    let first = asked.lines().find(|line| line.starts_with("apt-helper ")).unwrap();
    assert!(
        first.contains("@mirror.test/debian/pool/main/o/openssl/openssl_3.5.9.orig"),
        "{first}"
    );
    assert!(first.contains("SHA256:603f5602e2eef00d"), "{first}");
}

#[test]
fn an_older_bundle_is_never_taken_in_silence() {
    let machine = Offline::new();
    machine.finish("3.5.5");
    machine.finish("3.5.7");
    for other in ["3.6.5", "3.5.8-offload", "3.5.8-fips-3.5.4"] {
        machine.finish(other);
    }
    let (code, stdout, stderr) = machine.gabion(&["bundle", "build"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, format!("{}\n", machine.bundle("3.5.7").display()));
    for warning in [
        "OpenSSL: source of 3.5.9: not available\n",
        "using OpenSSL 3.5.7, because no newer version is available:\n    3.5.9 from ",
        "    3.5.9 from Debian's archive: ",
        "warning: OpenSSL 3.5.7 is not 3.5.9, the newest of the 3.5 line",
        "warning: advisories that concern OpenSSL 3.5.7: 1 High (CVE-2026-84782)",
    ] {
        assert!(stderr.contains(warning), "{warning}: {stderr}");
    }
    // All is well, and no line of ours says otherwise; how a place answers is in its own words.
    assert!(!stderr.lines().any(|line| line.ends_with("failed")), "{stderr}");
    // A command takes the newest that is finished, and builds and asks for nothing.
    machine.asked();
    let (code, stdout, stderr) =
        machine.gabion(&["exec", "--", "sh", "-c", "echo \"$OPENSSL_MODULES\""]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, format!("{}/lib/ossl-modules\n", machine.bundle("3.5.7").display()));
    assert_eq!(machine.asked(), "");
    let (_, stdout, _) = machine.gabion(&["doctor"]);
    assert!(stdout.contains("CVE-2026-84782") && stdout.contains("is not 3.5.9"), "{stdout}");
    machine.finish("3.5.9");
    let (code, stdout, stderr) = machine.gabion(&["bundle", "build"]);
    assert_eq!((code, stdout), (Some(0), format!("{}\n", machine.bundle("3.5.9").display())));
    assert!(!stderr.contains("CVE"), "{stderr}");

    // A folder that is named explicitly is used with its contents.
    let place = machine.bundle("3.5.7");
    let place = ["bundle", "build", "--prefix", place.to_str().unwrap()];
    for (option, value, reason) in [
        ("--openssl", "3.5.9", "holds OpenSSL 3.5.7, not 3.5.9"),
        ("--fips-module", "3.5.4", "holds the FIPS module of 3.5.7, not of 3.5.4"),
    ] {
        let (code, _, stderr) = machine.gabion(&[&place[..], &[option, value]].concat());
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(reason) && stderr.contains("--repair"), "{stderr}");
    }
    assert_eq!(machine.gabion(&place).0, Some(0));
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

#[test]
fn an_installed_bundle_serves_until_the_user_has_one() {
    let Some(bundle) = crate::harness::bundle() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["prefix/bin", "prefix/lib/gabion", "home"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    let program = path("prefix/bin/gabion");
    std::fs::copy(env!("CARGO_BIN_EXE_gabion"), &program).unwrap();
    std::os::unix::fs::symlink(&bundle, path("prefix/lib/gabion/openssl")).unwrap();
    let exec = |home: Option<&str>| {
        let mut command = Command::new(&program);
        command.args(["exec", "--", "openssl", "version", "-d"]).env_remove("HOME");
        for name in ["FIPS_MODE", "PREFIX", "MODULES", "CONF"] {
            command.env_remove(format!("GABION_OPENSSL_{name}"));
        }
        run(command.envs(home.map(|home| ("HOME", path(home)))))
    };
    for home in [Some("home"), None] {
        let (code, stdout, stderr) = exec(home);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.contains("OPENSSLDIR"), "{stdout}");
    }
    // The user's own comes first, whatever is wrong with it.
    let own = path("home/.cache/gabion/openssl/bundle-3.5.99");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("gabion-bundle.json"), "{}").unwrap();
    let (code, _, stderr) = exec(Some("home"));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("bundle-3.5.99: bin/openssl is missing"), "{stderr}");
}

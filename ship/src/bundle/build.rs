//! Builds a bundle: staged beside its place, and moved there by one rename when it is complete.
//!
//! ```text
//!   PARENT/.bundle-V.lock                one build at a time
//!   PARENT/.bundle-V.building-PID/       source, objects, and the staged tree; swept by the next build
//!   PARENT/bundle-V                      appears by rename, with gabion-bundle.json inside
//! ```
//!
//! OpenSSL compiles its final paths in, so it is configured with the final prefix and installed
//! through DESTDIR into the staging folder. A build that is killed leaves at most the staging
//! folder behind, never a PREFIX that looks finished.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::configuration::write_configuration;
use super::patch;
use super::source::{Archive, SourceRequest, unpack, version_of_archive};
use super::{Layout, Manifest};
use crate::progress::Stage;
use crate::{Error, Result, pins, provider, sha256_file};

/// Lines of a failed program's output that its error message repeats.
const LOG_TAIL_LINES: usize = 25;

/// What the command line asks of [`build`].
#[derive(Debug, Clone, Default)]
pub struct BuildRequest {
    /// OpenSSL version; `None` for the usual one, or the one of `source`.
    pub version: Option<String>,
    /// Where the bundle goes; `None` for [`Layout::usual`].
    pub prefix: Option<PathBuf>,
    /// The source, when it is not the pinned package.
    pub source: SourceRequest,
    /// Build again although a bundle is there.
    pub repair: bool,
    /// Gabion's module; `None` for the one beside this program.
    pub module: Option<PathBuf>,
    /// Leave a module that is there already as it is.
    pub keep_module: bool,
    /// Apply the core patch: libcrypto's ML-KEM and ML-DSA can go to libgabion.
    pub core_offload: bool,
    /// libgabion for the core patch; `None` for the one beside this program.
    pub library: Option<PathBuf>,
    /// Compilers at a time; `None` for the number of cores.
    pub jobs: Option<usize>,
}

/// Builds what is missing and returns the finished bundle's layout.
///
/// With a finished bundle there, only its configuration files and Gabion's module are refreshed.
/// Two builds of one bundle wait for each other.
///
/// # Errors
/// Every variant of [`Error`]; the place of the bundle then holds what it held before.
pub fn build(request: &BuildRequest) -> Result<Layout> {
    request.source.check()?;
    let pins = pins::pins()?;
    let local_file = request.source.location.as_deref().filter(|place| !place.contains("://"));
    if let Some(file) = local_file.filter(|file| !Path::new(file).exists()) {
        return Err(Error::Request(format!("--source {file}: no such file")));
    }
    let version = match (&request.version, local_file) {
        (Some(version), _) => version.clone(),
        (None, Some(file)) => version_of_archive(Path::new(file))?,
        (None, None) => pins.usual.clone(),
    };
    if request.source.location.is_none() {
        pins.find(&version)?;
    }
    let module = match &request.module {
        Some(module) if !module.is_file() => {
            return Err(Error::Request(format!("--module {}: no such file", module.display())));
        }
        Some(module) if !provider::is_shared_library(module) => {
            return Err(Error::Request(format!(
                "--module {}: expected Gabion's provider module, a shared library (ELF)",
                module.display()
            )));
        }
        Some(module) => Some(module.clone()),
        None => provider::find_module(),
    };
    let library = match &request.library {
        Some(_) if !request.core_offload => {
            return Err(Error::Request("--library goes with --core-offload".to_string()));
        }
        Some(library) if !library.is_file() => {
            return Err(Error::Request(format!("--library {}: no such file", library.display())));
        }
        Some(library) => Some(library.clone()),
        None => provider::find_library(),
    };
    let patch = request.core_offload.then(|| patch::core_offload(&version)).transpose()?;
    let layout = match &request.prefix {
        Some(prefix) => Layout::at(absolute_prefix(prefix)?),
        None if request.core_offload => Layout::usual_offload(&version)?,
        None => Layout::usual(&version)?,
    };
    let place = Place::claim(&layout)?;
    match already_there(&layout, request, &version, patch)? {
        Some(manifest) => eprintln!(
            "OpenSSL {} is already built (since {}) in {}",
            manifest.version,
            manifest.built,
            layout.prefix().display()
        ),
        None => {
            let modules = ours(&layout, request, module.as_deref(), library.as_deref());
            place.build(&layout, request, &pins, &Wanted { version: &version, patch, modules })?;
        }
    }
    let keep = request.keep_module && layout.gabion_module().exists();
    refresh(&layout, module.as_deref().filter(|_| !keep))?;
    if request.core_offload {
        place_library(&layout, library.as_deref())?;
    }
    Ok(layout)
}

/// Which OpenSSL is to be built.
struct Wanted<'a> {
    version: &'a str,
    /// Text of the core patch, if it is to be applied.
    patch: Option<&'static str>,
    /// What goes into it of ours.
    modules: Modules,
}

/// Our provider and our library, as files to copy from.
struct Modules {
    provider: Option<PathBuf>,
    library: Option<PathBuf>,
}

/// What of ours a new bundle has from its first moment on: the newest there is, or better what an
/// older bundle in its place has than none.
fn ours(
    layout: &Layout,
    request: &BuildRequest,
    module: Option<&Path>,
    library: Option<&Path>,
) -> Modules {
    let choose = |fresh: Option<&Path>, old: PathBuf, keep: bool| {
        let old = Some(old).filter(|old| old.exists());
        let fresh = fresh.map(Path::to_path_buf);
        if keep { old.or(fresh) } else { fresh.or(old) }
    };
    Modules {
        provider: choose(module, layout.gabion_module(), request.keep_module),
        library: choose(library, layout.gabion_library(), false).filter(|_| request.core_offload),
    }
}

/// SHA-256 of the core patch, as a bundle's record has it.
fn patch_sha256(patch: Option<&str>) -> Option<String> {
    patch.map(|text| crate::sha256_text(text.as_bytes()))
}

/// Puts libgabion where the patched libcrypto opens it, if it differs from the one there.
fn place_library(layout: &Layout, library: Option<&Path>) -> Result<()> {
    let place = layout.gabion_library();
    match library {
        Some(library) => {
            if provider::place_module(library, &place)? {
                eprintln!("libgabion installed as {}", place.display());
            }
        }
        None if place.exists() => {}
        None => eprintln!(
            "warning: no libgabion.so was found beside this program, so GABION_OFFLOAD=1 has nothing \
             to offload to; build it with `cargo build --release`, then run `gabion bundle build \
             --core-offload` again, or give it with --library"
        ),
    }
    Ok(())
}

/// Writes the configuration files and the module of a finished bundle where they differ.
fn refresh(layout: &Layout, module: Option<&Path>) -> Result<()> {
    if write_configuration(layout, layout)? {
        eprintln!("configuration files written to {}", layout.ssl().display());
    }
    match module {
        Some(module) => {
            if provider::place_module(module, &layout.gabion_module())? {
                eprintln!("provider installed as {}", layout.gabion_module().display());
            }
        }
        None if layout.gabion_module().exists() => {}
        None => eprintln!(
            "warning: no provider module was found beside this program, so the bundle has no \
             gabion.so; build it with `cargo build --release`, then run `gabion bundle build` again"
        ),
    }
    Ok(())
}

/// Makes `prefix` absolute and refuses what OpenSSL's Makefile cannot express.
fn absolute_prefix(prefix: &Path) -> Result<PathBuf> {
    let prefix = std::path::absolute(prefix)
        .map_err(|cause| Error::io("cannot make a full path of", prefix, cause))?;
    let text = prefix.to_str().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-@".contains(c);
    if text.is_empty() || !text.chars().all(plain) || prefix.parent().is_none() {
        return Err(Error::Request(format!(
            "the prefix {} cannot be used: OpenSSL's Makefile takes letters, digits and /._+-@ only",
            prefix.display()
        )));
    }
    Ok(prefix)
}

/// The finished bundle that makes a build unnecessary, if there is one.
fn already_there(
    layout: &Layout,
    request: &BuildRequest,
    version: &str,
    patch: Option<&str>,
) -> Result<Option<Manifest>> {
    let prefix = layout.prefix().display();
    // A damaged record still shows that the folder is ours to replace.
    let manifest = match layout.manifest() {
        Err(Error::Integrity(_)) if request.repair => return Ok(None),
        other => other?,
    };
    let Some(manifest) = manifest else {
        let empty = match std::fs::read_dir(layout.prefix()) {
            Ok(mut entries) => entries.next().is_none(),
            Err(_) => !layout.prefix().exists(),
        };
        return if empty {
            Ok(None)
        } else {
            Err(Error::Request(format!(
                "{prefix} exists and is not a finished bundle ({} is missing); \
                 remove it, or choose another place with --prefix",
                super::MANIFEST_NAME
            )))
        };
    };
    if request.repair {
        return Ok(None);
    }
    if manifest.version != version {
        return Err(Error::Request(format!(
            "{prefix} holds OpenSSL {}, not {version}; choose another --prefix, or replace it with \
             --repair",
            manifest.version
        )));
    }
    match (&manifest.core_patch_sha256, patch) {
        (None, None) => {}
        // What was built from another patch is out of date.
        (Some(there), Some(_)) if Some(there) != patch_sha256(patch).as_ref() => return Ok(None),
        (Some(_), Some(_)) => {}
        (there, _) => {
            return Err(Error::Request(format!(
                "{prefix} holds an OpenSSL {} the core patch; choose another --prefix, or replace it \
                 with --repair",
                if there.is_some() { "with" } else { "without" }
            )));
        }
    }
    let missing = layout.missing_parts();
    if let Some(part) = missing.first() {
        return Err(Error::NotReady(format!(
            "the bundle in {prefix} is broken: {} is missing; build it again with \
             `gabion bundle build --repair`",
            part.display()
        )));
    }
    Ok(Some(manifest))
}

/// The folder around the bundle, locked against other builds.
struct Place {
    staging: PathBuf,
    log: PathBuf,
    /// Held open for its lock, which the system drops with this process.
    _lock: File,
}

impl Place {
    /// Locks the bundle's place and sweeps what a killed build left.
    fn claim(layout: &Layout) -> Result<Self> {
        let prefix = layout.prefix();
        let parent = prefix.parent().unwrap_or(Path::new("/"));
        let name = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
        std::fs::create_dir_all(parent)
            .map_err(|cause| Error::io("cannot make the folder", parent, cause))?;
        let lock_path = parent.join(format!(".{name}.lock"));
        let lock = File::create(&lock_path)
            .map_err(|cause| Error::io("cannot write", &lock_path, cause))?;
        if lock.try_lock().is_err() {
            eprintln!("another build of {} is running; waiting for it", prefix.display());
            lock.lock().map_err(|cause| Error::io("cannot lock", &lock_path, cause))?;
        }
        let leftover = format!(".{name}.building-");
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&leftover) {
                // The build that made it is dead: it would hold the lock.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        Ok(Place {
            staging: parent.join(format!("{leftover}{}", std::process::id())),
            log: parent.join(format!("{name}.log")),
            _lock: lock,
        })
    }

    fn build(
        &self,
        layout: &Layout,
        request: &BuildRequest,
        pins: &pins::Pins,
        wanted: &Wanted<'_>,
    ) -> Result<()> {
        require_tools()?;
        let begun = std::time::Instant::now();
        std::fs::create_dir_all(&self.staging)
            .map_err(|cause| Error::io("cannot make the folder", &self.staging, cause))?;
        let result = self.build_staged(layout, request, pins, wanted);
        let _ = std::fs::remove_dir_all(&self.staging);
        result?;
        // The log is of use only after a failure.
        let _ = std::fs::remove_file(&self.log);
        eprintln!(
            "OpenSSL {} built in {} in {}",
            wanted.version,
            layout.prefix().display(),
            crate::progress::duration_text(begun.elapsed())
        );
        Ok(())
    }

    fn build_staged(
        &self,
        layout: &Layout,
        request: &BuildRequest,
        pins: &pins::Pins,
        wanted: &Wanted<'_>,
    ) -> Result<()> {
        let Wanted { version, patch, .. } = *wanted;
        let archive =
            staged("OpenSSL: source", || request.source.obtain(pins, version, &self.staging))?;
        let tree = staged("OpenSSL: unpack", || self.unpack(&archive, version))?;
        if let Some(patch) = patch {
            staged("OpenSSL: core patch", || patch::apply(&tree, patch))?;
        }
        let options = configure_options(layout)?;
        let log = Log::create(&self.log)?;
        staged("OpenSSL: configure", || {
            log.run(Command::new("perl").arg("./Configure").args(&options).current_dir(&tree))
        })?;
        let jobs = request.jobs.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
        });
        compile(&log, &tree, jobs)?;
        let staged_root = self.staging.join("root");
        staged("OpenSSL: install", || {
            let mut destination = std::ffi::OsString::from("DESTDIR=");
            destination.push(&staged_root);
            let mut make = Command::new("make");
            make.arg(destination).args(["install_sw", "install_ssldirs", "install_fips"]);
            log.run(make.current_dir(&tree))
        })?;
        let relative = layout.prefix().strip_prefix("/").unwrap_or(layout.prefix());
        let tree = Layout::at(staged_root.join(relative));
        staged("OpenSSL: FIPS self-tests", || fips_install(&log, &tree))?;
        write_configuration(&tree, layout)?;
        write_manifest(&tree, wanted, archive.sha256, options)?;
        for (from, to) in [
            (&wanted.modules.provider, tree.gabion_module()),
            (&wanted.modules.library, tree.gabion_library()),
        ] {
            if let Some(from) = from {
                provider::place_module(from, &to)?;
            }
        }
        self.move_into_place(&tree, layout)
    }

    /// Unpacks the archive and makes sure that it is the version that was asked for.
    fn unpack(&self, archive: &Archive, version: &str) -> Result<PathBuf> {
        let found = version_of_archive(&archive.path)?;
        if found != version {
            return Err(Error::Request(format!(
                "the source is OpenSSL {found}, not {version}; give `--openssl {found}`"
            )));
        }
        unpack(&archive.path, &self.staging.join("source"))
    }

    /// Puts the staged tree in its place; an older bundle is moved aside first, then removed.
    fn move_into_place(&self, tree: &Layout, layout: &Layout) -> Result<()> {
        let prefix = layout.prefix();
        let aside = self.staging.join("replaced");
        let rename = |from: &Path, to: &Path| {
            std::fs::rename(from, to).map_err(|cause| Error::io("cannot move to", to, cause))
        };
        let had_one = prefix.exists();
        if had_one {
            rename(prefix, &aside)?;
        }
        rename(tree.prefix(), prefix).inspect_err(|_| {
            if had_one {
                // Put back what worked before; the first error is the one to report.
                let _ = std::fs::rename(&aside, prefix);
            }
        })?;
        Ok(())
    }
}

/// Runs `work` as one line of progress.
fn staged<T>(name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let stage = Stage::start(name, 0);
    match work() {
        Ok(value) => {
            stage.done();
            Ok(value)
        }
        Err(error) => {
            stage.failed();
            Err(error)
        }
    }
}

/// Refuses early, with the package names, when the build could not start.
fn require_tools() -> Result<()> {
    let missing: Vec<&str> = ["perl", "make", "cc"]
        .into_iter()
        .filter(|tool| {
            let mut probe = Command::new(tool);
            probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            probe.status().is_err()
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::NotReady(format!(
        "building OpenSSL needs {}, which {} not installed; on Debian or Ubuntu: \
         apt-get install perl make gcc",
        missing.join(", "),
        if missing.len() == 1 { "is" } else { "are" }
    )))
}

/// The arguments of OpenSSL's Configure for this machine and place.
fn configure_options(layout: &Layout) -> Result<Vec<String>> {
    let target = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "linux-x86_64",
        ("linux", "aarch64") => "linux-aarch64",
        (os, arch) => {
            return Err(Error::NotReady(format!(
                "a bundle can be built on linux x86_64 and aarch64; this is {os} {arch}"
            )));
        }
    };
    let prefix = layout.prefix().display();
    Ok(vec![
        target.to_string(),
        "enable-fips".to_string(),
        // 64-bit P-256, P-384 and P-521, as distributions build them.
        "enable-ec_nistp_64_gcc_128".to_string(),
        "no-tests".to_string(),
        "no-docs".to_string(),
        format!("--prefix={prefix}"),
        format!("--openssldir={prefix}/ssl"),
        "--libdir=lib".to_string(),
        format!("-Wl,-rpath,{prefix}/lib"),
    ])
}

/// Runs make, counting compiler calls against the number that a dry run announces.
fn compile(log: &Log, tree: &Path, jobs: usize) -> Result<()> {
    let is_compiler_call = |line: &str| line.contains(" -c ");
    let dry_run = Command::new("make")
        .args(["-n", "build_sw"])
        .current_dir(tree)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let expected = dry_run.map_or(0, |output| {
        String::from_utf8_lossy(&output.stdout).lines().filter(|l| is_compiler_call(l)).count()
    });
    let mut stage = Stage::start("OpenSSL: compile", expected);
    let mut compiled = 0;
    let mut make = Command::new("make");
    make.arg(format!("-j{}", jobs.max(1))).arg("build_sw").current_dir(tree);
    let result = log.run_watched(&mut make, |line| {
        compiled += usize::from(is_compiler_call(line));
        stage.step(compiled);
    });
    match result {
        Ok(()) => stage.done(),
        Err(_) => stage.failed(),
    }
    result
}

/// Runs the module's self-tests and writes `fipsmodule.cnf` in the staged tree.
fn fips_install(log: &Log, tree: &Layout) -> Result<()> {
    log.run(
        Command::new(tree.openssl())
            .arg("fipsinstall")
            .arg("-module")
            .arg(tree.fips_module())
            .arg("-out")
            .arg(tree.fipsmodule_conf())
            // The staged command must find its own libraries, and no configuration file.
            .env("LD_LIBRARY_PATH", tree.lib())
            .env("OPENSSL_CONF", "/dev/null")
            .env_remove("OPENSSL_MODULES"),
    )
}

/// Writes the record that makes a staged tree a finished bundle.
fn write_manifest(
    tree: &Layout,
    wanted: &Wanted<'_>,
    source_sha256: String,
    options: Vec<String>,
) -> Result<()> {
    if let Some(part) = tree.missing_parts().first() {
        return Err(Error::Integrity(format!(
            "the build ended without an error, but {} is missing",
            part.display()
        )));
    }
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    let manifest = Manifest {
        version: wanted.version.to_string(),
        source_sha256,
        options,
        built: utc_text(seconds),
        fips_module_sha256: sha256_file(&tree.fips_module())?,
        gabion_version: env!("CARGO_PKG_VERSION").to_string(),
        core_patch_sha256: patch_sha256(wanted.patch),
    };
    let mut text = serde_json::to_string_pretty(&manifest)
        .map_err(|cause| Error::Integrity(format!("the bundle's record: {cause}")))?;
    text.push('\n');
    crate::replace_file(&tree.manifest_file(), text.as_bytes(), 0o644)?;
    Ok(())
}

/// Seconds since 1970 as `YYYY-MM-DDThh:mm:ssZ` in the Gregorian calendar.
fn utc_text(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 1 March of year 0, so that the leap day ends a year; an era is 400
    // years, 146 097 days, and 719 468 days lie between that day and 1 January 1970.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

/// The build's log file; its tail becomes the error message of the program that failed.
struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|cause| Error::io("cannot write", path, cause))?;
        Ok(Log { path: path.to_path_buf(), file })
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        self.run_watched(command, |_| {})
    }

    /// Runs a program with its output in the log, showing `watch` each line.
    fn run_watched(&self, command: &mut Command, mut watch: impl FnMut(&str)) -> Result<()> {
        let name = command.get_program().to_string_lossy().into_owned();
        let log_error = |cause| Error::io("cannot write", &self.path, cause);
        let start_error = |cause| Error::Program(format!("cannot run {name}: {cause}"));
        let mut log = self.file.try_clone().map_err(log_error)?;
        // One pipe for both streams keeps an error message beside the line that it belongs to.
        let (output, input) = std::io::pipe().map_err(start_error)?;
        command.stdin(Stdio::null()).stdout(input.try_clone().map_err(start_error)?).stderr(input);
        // A caller's make flags (`make run` uses this program) and job server are not for OpenSSL.
        command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
        let mut child = command.spawn().map_err(start_error)?;
        // The command still holds our ends of the pipe; without them the output ends with the child.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for line in BufReader::new(output).split(b'\n') {
            let Ok(mut line) = line else { break };
            watch(&String::from_utf8_lossy(&line));
            line.push(b'\n');
            log.write_all(&line).map_err(log_error)?;
        }
        let status = child
            .wait()
            .map_err(|cause| Error::Program(format!("cannot wait for {name}: {cause}")))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Program(format!(
            "{name} failed ({status}); the whole log is {}, and ends with:\n{}",
            self.path.display(),
            self.tail()
        )))
    }

    fn tail(&self) -> String {
        let text = std::fs::read(&self.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_text_knows_the_calendar() {
        // Each value is `date -u -d DATE +%s`.
        assert_eq!(utc_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc_text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc_text(1_795_219_199), "2026-11-20T23:59:59Z");
        assert_eq!(utc_text(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(utc_text(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn a_prefix_that_make_cannot_express_is_refused() {
        for bad in ["/tmp/with space", "/tmp/$x", "/", ""] {
            assert!(absolute_prefix(Path::new(bad)).is_err(), "{bad}");
        }
        assert_eq!(absolute_prefix(Path::new("/a/b-3.5")).unwrap(), Path::new("/a/b-3.5"));
    }

    #[test]
    fn a_failing_program_is_reported_with_the_end_of_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(&folder.path().join("log")).unwrap();
        let mut lines = 0;
        let mut script = Command::new("sh");
        script.args(["-c", "for i in $(seq 40); do echo line $i; done; echo sorry >&2; exit 7"]);
        let error = log.run_watched(&mut script, |_| lines += 1).unwrap_err().to_string();
        assert_eq!(lines, 41);
        assert!(error.contains("exit status: 7"), "{error}");
        assert!(error.contains("sorry") && !error.contains("line 3\n"), "{error}");
    }
}

//! Checks whether a running process uses the FIPS provider as mode `only` requires.
//!
//! ```text
//!   /proc/PID/maps      which libcrypto and which provider modules it has loaded
//!   /proc/PID/environ   the configuration that it was started with
//!   /proc/PID/mem       the same, where it wrote a title over that and has a copy on its heap (nginx)
//!   /proc/PID/stat      when it was started: has the configuration changed since?
//! ```
//!
//! A configuration cannot prove that the module is loaded: OpenSSL silently continues if loading
//! fails. This check covers libcrypto and its configuration. It cannot see property queries,
//! library contexts and providers that a program sets up itself, or cryptography outside libcrypto.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use zeroize::Zeroizing;

use super::run;
use crate::environment::{FipsMode, Settings};
use crate::{Error, Result, sha256_file};

/// Clock ticks per second in `/proc/PID/stat`: USER_HZ, which is 100 on all supported Linux
/// systems.
const TICKS_PER_SECOND: f64 = 100.0;

/// The minimum time by which a file must be newer than the process to count as changed: file
/// timestamps are coarse.
const CLOCK_STEP: Duration = Duration::from_millis(50);

/// Maximum size of the heap that is searched for a copy of the environment.
const HEAP_MAX: u64 = 256 << 20;

/// A file that a process has mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MappedFile {
    /// The path of the file in the view of the process.
    pub file: PathBuf,
    /// SHA-256 of the file; `None` if it was deleted or replaced, or cannot be read.
    pub sha256: Option<String>,
}

/// The result of [`inspect`], printed by `preflight --pid --json`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The process.
    pub pid: u32,
    /// Whether the process loaded the module and was started with the configuration that preflight
    /// checked.
    pub ok: bool,
    /// The program of the process.
    pub program: Option<PathBuf>,
    /// The libcrypto libraries it has loaded.
    pub libcrypto: Vec<MappedFile>,
    /// The FIPS modules it has loaded.
    pub module: Vec<MappedFile>,
    /// Other provider modules it has loaded.
    pub other_providers: Vec<PathBuf>,
    /// OPENSSL_CONF in its initial environment.
    pub openssl_conf: Option<PathBuf>,
    /// OPENSSL_MODULES in its initial environment.
    pub openssl_modules: Option<PathBuf>,
    /// Whether the process has overwritten its initial environment; then the values come from its
    /// copy on the heap.
    pub environment_overwritten: bool,
    /// The reasons why `ok` is false, one sentence each.
    pub problems: Vec<String>,
}

/// Inspects a process and the environment that it should run in.
///
/// # Errors
/// [`Error::Request`] if the process does not exist or belongs to another user.
pub fn inspect(settings: &Settings, pid: u32) -> Result<Report> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => Error::Request(format!("process {pid} does not exist")),
            io::ErrorKind::PermissionDenied => Error::Request(format!(
                "process {pid} may not be looked at: ask as its user, or as root; in a container \
                 root needs CAP_SYS_PTRACE for processes of others"
            )),
            _ => Error::io("cannot read", &path, cause),
        })
    };
    let maps = read("maps")?;
    let environment = read("environ")?;
    let environment_overwritten = is_overwritten(&environment);
    let heap = if environment_overwritten { heap(&folder, &maps) } else { None };
    let maps = files_of(&maps);
    let started = started(&read("stat")?)?;
    let variable = |name: &str| match &heap {
        Some(heap) => copied(heap, name),
        None => variable(&environment, name),
    };
    let mut report = Report {
        pid,
        ok: false,
        program: fs::read_link(folder.join("exe")).ok(),
        libcrypto: hashed(&folder, &maps, |name| name.starts_with("libcrypto.so")),
        module: hashed(&folder, &maps, |name| name == "fips.so"),
        other_providers: other_providers(settings, &maps),
        openssl_conf: variable("OPENSSL_CONF"),
        openssl_modules: variable("OPENSSL_MODULES"),
        environment_overwritten,
        problems: Vec::new(),
    };
    check_environment(settings, &mut report);
    check_files(settings, &mut report);
    check_age(settings, started, &mut report);
    report.ok = report.problems.is_empty();
    Ok(report)
}

/// Checks that the environment of the process selects the configuration that preflight checked.
fn check_environment(settings: &Settings, report: &mut Report) {
    let expected = [
        ("OPENSSL_CONF", settings.conf(FipsMode::Only), &report.openssl_conf),
        ("OPENSSL_MODULES", settings.modules(), &report.openssl_modules),
    ];
    for (name, wanted, found) in expected {
        match found {
            Some(found) if *found == wanted => {}
            Some(found) => report.problems.push(format!(
                "it was started with {name}={}; mode `only` gives {}",
                found.display(),
                wanted.display()
            )),
            None if report.environment_overwritten => report.problems.push(format!(
                "it has written over its environment, and its heap has no copy of {name}, or two, or \
                 only root may read it"
            )),
            None => report.problems.push(format!("{name} is not in its environment")),
        }
    }
    report.problems.extend(run(settings).problems);
}

/// Checks that the process loaded the bundle's libcrypto, the FIPS module that preflight checked,
/// and no other.
fn check_files(settings: &Settings, report: &mut Report) {
    let libcrypto = settings.layout.lib().join("libcrypto.so");
    let module = settings.modules().join("fips.so");
    for (what, found, wanted) in
        [("libcrypto", &report.libcrypto, libcrypto), ("FIPS module", &report.module, module)]
    {
        if found.is_empty() {
            report.problems.push(format!("it has loaded no {what}"));
        }
        let expected = sha256_file(&wanted).ok();
        for mapped in found {
            if mapped.sha256.is_none() || mapped.sha256 != expected {
                report.problems.push(format!(
                    "the {what} that it has loaded, {}, is not {} as it is now",
                    mapped.file.display(),
                    wanted.display()
                ));
            }
        }
    }
    for other in &report.other_providers {
        report.problems.push(format!("it has loaded another provider, {}", other.display()));
    }
}

/// Checks that the files have not changed since the process started.
fn check_age(settings: &Settings, started: SystemTime, report: &mut Report) {
    let conf = settings.conf(FipsMode::Only);
    let own = settings.conf_override.is_none().then(|| settings.layout.fipsmodule_conf());
    for file in [Some(conf), own].into_iter().flatten() {
        let changed = fs::metadata(&file).and_then(|data| data.modified());
        if changed.is_ok_and(|changed| changed > started + CLOCK_STEP) {
            report.problems.push(format!("{} has changed since it started", file.display()));
        }
    }
}

/// Returns the files in `/proc/PID/maps`, each once. The path is the sixth column and may contain
/// spaces.
fn files_of(maps: &[u8]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let Some(at) = line.iter().position(|&byte| byte == b'/') else { continue };
        let file = PathBuf::from(OsStr::from_bytes(&line[at..]));
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The suffix that the kernel adds to the path of a deleted mapped file.
const DELETED: &str = " (deleted)";

fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    name.strip_suffix(DELETED).map_or(name.clone(), str::to_string)
}

/// Returns the wanted files with their hashes, read through the root directory of the process.
fn hashed(folder: &Path, files: &[PathBuf], wanted: impl Fn(&str) -> bool) -> Vec<MappedFile> {
    let root = folder.join("root");
    let hash = |file: &PathBuf| {
        let there = file.strip_prefix("/").ok()?;
        sha256_file(&root.join(there)).ok()
    };
    let found = files.iter().filter(|file| wanted(&name_of(file)));
    // A path with the kernel's suffix cannot be opened, so it has no hash.
    found.map(|file| MappedFile { file: file.clone(), sha256: hash(file) }).collect()
}

/// Returns the modules in OpenSSL's provider folders, other than the FIPS module.
fn other_providers(settings: &Settings, files: &[PathBuf]) -> Vec<PathBuf> {
    let is_place = |folder: &Path| {
        folder == settings.modules() || folder.file_name() == Some(OsStr::new("ossl-modules"))
    };
    let is_other = |file: &&PathBuf| {
        let name = name_of(file);
        name != "fips.so" && name.contains(".so") && file.parent().is_some_and(is_place)
    };
    files.iter().filter(is_other).cloned().collect()
}

/// Returns a variable in `/proc/PID/environ`; `None` if it is missing or empty.
fn variable(environment: &[u8], name: &str) -> Option<PathBuf> {
    let mut entries = environment.split(|&byte| byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    (!value.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(value)))
}

/// Returns whether a process title overwrote the environment, so that no entry can be a variable.
fn is_overwritten(environment: &[u8]) -> bool {
    let is_variable = |entry: &[u8]| {
        let name = entry.split(|&byte| byte == b'=').next().unwrap_or_default();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        name.len() < entry.len() && !name.is_empty() && name.iter().all(is_name)
    };
    !environment.is_empty() && !environment.split(|&byte| byte == 0).any(is_variable)
}

/// Reads the heap of a process, which may contain a server's private keys. Returns `None` if there
/// is no such mapping or it cannot be read.
fn heap(folder: &Path, maps: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let line = maps.split(|&byte| byte == b'\n').find(|line| line.ends_with(b" [heap]"))?;
    let (range, _) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let length = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?.min(HEAP_MAX);
    let mut bytes = Zeroizing::new(vec![0; usize::try_from(length).ok()?]);
    fs::File::open(folder.join("mem")).ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

/// Returns a variable that the process has copied to its heap; `None` if there are two different
/// values.
fn copied(heap: &[u8], name: &str) -> Option<PathBuf> {
    let entry = format!("{name}=");
    let mut entries = heap.split(|&byte| byte == 0).filter_map(|text| {
        text.strip_prefix(entry.as_bytes()).map(|value| PathBuf::from(OsStr::from_bytes(value)))
    });
    let value = entries.next()?;
    (!value.as_os_str().is_empty() && entries.all(|other| other == value)).then_some(value)
}

/// Returns the start time of a process: field 22 of `/proc/PID/stat`, in ticks since boot.
fn started(stat: &[u8]) -> Result<SystemTime> {
    let path = Path::new("/proc/uptime");
    let uptime = fs::read_to_string(path).map_err(|cause| Error::io("cannot read", path, cause))?;
    let now = SystemTime::now();
    let uptime = uptime.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    let ago =
        start_ticks(stat).zip(uptime).map(|(ticks, uptime)| uptime - ticks / TICKS_PER_SECOND);
    let ago = ago.and_then(|ago| Duration::try_from_secs_f64(ago.max(0.0)).ok());
    ago.and_then(|ago| now.checked_sub(ago)).ok_or_else(|| {
        Error::NotReady("the kernel does not say when the process was started".to_string())
    })
}

/// Returns field 22. Field 2, a name in parentheses, may contain anything.
fn start_ticks(stat: &[u8]) -> Option<f64> {
    let text = String::from_utf8_lossy(stat).into_owned();
    let (_, behind) = text.rsplit_once(") ")?;
    // The first field after the name is field 3.
    behind.split(' ').nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_are_read_once_with_blanks_and_marks() {
        let maps = b"7f-80 r--p 00000000 fe:00 12   /a b/libcrypto.so.3\n\
                     80-81 r-xp 00001000 fe:00 12   /a b/libcrypto.so.3\n\
                     81-82 rw-p 00000000 00:00 0 \n\
                     82-83 rw-p 00000000 00:00 0    [heap]\n\
                     83-84 r--p 00000000 fe:00 13   /m/fips.so (deleted)\n";
        let files = files_of(maps);
        assert_eq!(files, [Path::new("/a b/libcrypto.so.3"), Path::new("/m/fips.so (deleted)")]);
        assert_eq!(name_of(&files[1]), "fips.so");
    }

    #[test]
    fn variables_are_whole_names_and_not_empty() {
        let environment = b"X_OPENSSL_CONF=/x\0OPENSSL_CONFIG=/y\0OPENSSL_CONF=/z\0EMPTY=\0";
        assert_eq!(variable(environment, "OPENSSL_CONF"), Some(PathBuf::from("/z")));
        assert_eq!(variable(environment, "EMPTY"), None);
        assert_eq!(variable(&[0; 40], "OPENSSL_CONF"), None, "written over");
    }

    #[test]
    fn a_process_title_over_the_environment_is_recognised() {
        assert!(is_overwritten(&[0; 40]));
        assert!(is_overwritten(b"er process /usr/sbin/nginx -g env=1\0\0\0"));
        assert!(!is_overwritten(b"HOME=/root\0\0"));
        assert!(!is_overwritten(b"nginx\0A_1=\0"));
        assert!(!is_overwritten(b""), "started with none");
    }

    #[test]
    fn a_copy_on_the_heap_counts_when_there_is_one_value() {
        let heap = b"\x31\0\0HOME=/root\0OPENSSL_CONF=/a\0X_OPENSSL_CONF=/b\0\0OPENSSL_CONF=/a\0";
        assert_eq!(copied(heap, "OPENSSL_CONF"), Some(PathBuf::from("/a")));
        assert_eq!(copied(heap, "OPENSSL_MODULES"), None);
        assert_eq!(copied(b"OPENSSL_CONF=/a\0OPENSSL_CONF=/b\0", "OPENSSL_CONF"), None);
        assert_eq!(copied(b"OPENSSL_CONF=\0", "OPENSSL_CONF"), None);
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = b"7 (a) S 1) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 15765504 2871";
        assert_eq!(start_ticks(stat), Some(4711.0));
        assert_eq!(start_ticks(b"7"), None);
    }
}

//! Fetches a pinned version from upstream, Debian's archive, or a package of the Rust registry, in
//! this order.
//!
//! ```text
//!   3.5.9:  upstream ─ no ─> Debian's archive ─ no ─> (no package has it)
//!   3.5.7:  upstream, not asked again ─> Debian's archive ─> here; hash ─> unpack
//! ```
//!
//! Downloads use clients that know the proxy and mirrors of this machine: curl, apt and cargo. None
//! of them is trusted: only the pinned SHA-256 decides. Clients are started in `/`, because cargo
//! and apt read settings from the current folder and its parents, which another user may control.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::archive::{ARCHIVE_MAX, Archive};
use crate::pins::{Package, Pin};
use crate::{Error, Result, sha256_file};

/// Timeouts for connecting and for an idle connection, in seconds.
const CONNECT_SECONDS_MAX: u32 = 5;
const SILENT_SECONDS_MAX: u32 = 20;

/// Debian's own servers, used after the servers in this machine's apt configuration.
const DEBIAN: [&str; 2] = ["http://deb.debian.org/debian", "http://deb.debian.org/debian-security"];

/// The attempts so far. A place that did not answer is not asked again, and every reason is kept.
#[derive(Default)]
pub(crate) struct Attempts {
    /// One sentence for each version and place that failed.
    pub(crate) reasons: Vec<String>,
    upstream_is_down: bool,
}

impl Attempts {
    /// Fetches a pinned version through `folder`. Returns `None` if no place has it.
    pub(crate) fn fetch(&mut self, pin: &Pin, folder: &Path) -> Option<Archive> {
        let places: [(&str, &dyn Fn() -> Option<FetchResult>); 3] = [
            ("upstream", &|| (!self.upstream_is_down).then(|| upstream(pin, folder))),
            ("Debian's archive", &|| pin.debian.then(|| debian(pin, folder))),
            ("the package", &|| pin.package.as_ref().map(|package| packaged(package, folder))),
        ];
        let mut down = false;
        let mut reasons = Vec::new();
        let mut found = None;
        for (name, ask) in places {
            match ask() {
                None => {}
                Some(Ok(archive)) => {
                    found = Some(archive);
                    break;
                }
                Some(Err(reason)) => {
                    down |= name == "upstream" && !reason.answered;
                    reasons.push(format!("{} from {name}: {}", pin.version, reason.text));
                }
            }
        }
        self.upstream_is_down |= down;
        self.reasons.extend(reasons);
        found
    }
}

type FetchResult = std::result::Result<Archive, Reason>;

/// The reason why a place did not deliver.
struct Reason {
    text: String,
    /// Whether the place answered at all.
    answered: bool,
}

impl Reason {
    fn answered(text: impl ToString) -> Self {
        Reason { text: text.to_string(), answered: true }
    }
}

fn upstream(pin: &Pin, folder: &Path) -> FetchResult {
    let version = &pin.version;
    let address = format!(
        "https://github.com/openssl/openssl/releases/download/openssl-{version}/\
         openssl-{version}.tar.gz"
    );
    let path = folder.join("upstream.tar.gz");
    download(&address, &path).map_err(|text| {
        // The words of curl and wget for a server that refuses.
        let answered = text.contains("returned error") || text.contains("ERROR");
        Reason { text, answered }
    })?;
    Archive::expect(&path, "upstream".to_string(), &pin.tarball_sha256).map_err(Reason::answered)
}

/// Fetches upstream's tarball from Debian as `orig.tar.gz`. apt-helper downloads a single file with
/// apt's settings, without changing the package lists or other system state.
fn debian(pin: &Pin, folder: &Path) -> FetchResult {
    let path = folder.join("debian.tar.gz");
    let hash = format!("SHA256:{}", pin.tarball_sha256);
    let helper = find_program("apt-helper", &["/usr/lib/apt"]);
    let mut last = Reason::answered("no place was asked");
    for base in debian_archives() {
        let address = format!(
            "{base}/pool/{}main/o/openssl/openssl_{}.orig.tar.gz",
            if base.ends_with("-security") { "updates/" } else { "" },
            pin.version
        );
        let done = match &helper {
            Some(helper) => by_apt(helper, &address, &path, &hash),
            None => download(&address, &path),
        };
        let read = || Archive::expect(&path, "Debian's archive".to_string(), &pin.tarball_sha256);
        match done.map_err(Reason::answered).and_then(|()| read().map_err(Reason::answered)) {
            Ok(archive) => return Ok(archive),
            Err(reason) => last = reason,
        }
    }
    Err(last)
}

/// Returns the Debian archives in this machine's apt configuration, followed by Debian's own.
fn debian_archives() -> Vec<String> {
    let mut command = client("apt-get");
    let listed = command.args(["indextargets", "--format", "$(REPO_URI)"]).output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let of_debian = |base: &&str| base.ends_with("/debian") || base.ends_with("/debian-security");
    let configured = listed.lines().map(|line| line.trim_end_matches('/')).filter(of_debian);
    let mut archives: Vec<String> = Vec::new();
    for base in configured.chain(DEBIAN) {
        if !archives.iter().any(|known| known == base) {
            archives.push(base.to_string());
        }
    }
    archives
}

fn by_apt(helper: &Path, address: &str, to: &Path, hash: &str) -> std::result::Result<(), String> {
    let mut command = client(helper);
    for scheme in ["http", "https"] {
        command.arg("-o").arg(format!("Acquire::{scheme}::Timeout={CONNECT_SECONDS_MAX}"));
    }
    // The folder is private to this user, so apt's own user cannot write to it.
    command.args(["-o", "Acquire::Retries=0", "-o", "APT::Sandbox::User="]);
    command.arg("download-file").arg(address).arg(to).arg(hash);
    let output = command.output().map_err(|cause| format!("cannot run apt-helper: {cause}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = said.lines().find(|line| line.starts_with("E: ")).unwrap_or("it gives no reason");
    // The address may contain the archive's password.
    let error = error.split(" [IP:").next().unwrap_or(error);
    let words = error.trim_start_matches("E: ").split_whitespace();
    Err(words.filter(|word| !word.contains("://")).collect::<Vec<_>>().join(" "))
}

/// Finds the pinned package among cargo's downloads, or makes cargo download it.
fn packaged(package: &Package, folder: &Path) -> FetchResult {
    let found = || find_downloaded(package).map_err(Reason::answered);
    if let Some(archive) = found()? {
        return Ok(archive);
    }
    cargo_fetch(package, folder).map_err(Reason::answered)?;
    found()?.ok_or_else(|| {
        Reason::answered(format!(
            "cargo fetched {} {}, but no .crate file with SHA-256 {} is in its cache",
            package.name, package.version, package.sha256
        ))
    })
}

/// Searches `CARGO_HOME/registry/cache/*/` for the package with the pinned hash.
fn find_downloaded(package: &Package) -> Result<Option<Archive>> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let Some(registries) = home
        .map(|home| home.join("registry/cache"))
        .and_then(|cache| std::fs::read_dir(cache).ok())
    else {
        return Ok(None);
    };
    let file_name = format!("{}-{}.crate", package.name, package.version);
    let from = format!("the package {} {}", package.name, package.version);
    for registry in registries.flatten() {
        let path = registry.path().join(&file_name);
        if path.is_file() && sha256_file(&path)? == package.sha256 {
            return Archive::expect(&path, from, &package.sha256).map(Some);
        }
    }
    Ok(None)
}

fn cargo_fetch(package: &Package, folder: &Path) -> Result<()> {
    let project = folder.join("fetch");
    let manifest = format!(
        "[package]\nname = \"fetch-openssl-source\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         publish = false\n[dependencies]\n{} = \"={}\"\n[workspace]\n",
        package.name,
        package.version.split('+').next().unwrap_or(&package.version),
    );
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(project.join("src"))?;
        std::fs::write(project.join("src/lib.rs"), "")?;
        std::fs::write(project.join("Cargo.toml"), &manifest)
    };
    write().map_err(|cause| Error::io("cannot write", &project, cause))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = client(&cargo);
    command.args(["fetch", "--manifest-path"]).arg(project.join("Cargo.toml"));
    let output = command.output().map_err(|cause| {
        Error::NotReady(format!(
            "cannot run {} to fetch OpenSSL's source: {cause}; install Rust, or give the upstream \
             tarball with `--source FILE|URL`",
            Path::new(&cargo).display()
        ))
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Program(format!("`cargo fetch` failed: {}", last_line(&output))))
}

/// Downloads a file with curl, or with wget if curl is missing.
///
/// # Errors
/// The reason, as the rest of a sentence.
pub(crate) fn download(address: &str, to: &Path) -> std::result::Result<(), String> {
    let (connect, silent) = (CONNECT_SECONDS_MAX.to_string(), SILENT_SECONDS_MAX.to_string());
    let mut curl = client("curl");
    curl.args(["--fail", "--location", "--silent", "--show-error"]);
    curl.args(["--connect-timeout", &connect, "--speed-limit", "1000", "--speed-time", &silent]);
    curl.args(["--max-filesize", &ARCHIVE_MAX.to_string()]).arg("--output").arg(to);
    let mut wget = client("wget");
    wget.args(["--no-verbose", "--tries=1", &format!("--connect-timeout={connect}")]);
    wget.args([&format!("--dns-timeout={connect}"), &format!("--read-timeout={silent}")]);
    wget.arg("--output-document").arg(to);
    for mut program in [curl, wget] {
        match program.arg("--").arg(address).output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => return Err(last_line(&output)),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {}
            Err(cause) => return Err(format!("cannot start a download: {cause}")),
        }
    }
    Err("neither curl nor wget is installed".to_string())
}

/// Returns the command of a download client, started in a folder that only root can write to.
fn client(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn last_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or_else(|| output.status.to_string(), |line| line.trim().to_string())
}

/// Finds a program in PATH, or in the folders `beside` relative to its entries.
fn find_program(name: &str, beside: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut places = folders.chain(beside.iter().map(PathBuf::from));
    places.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

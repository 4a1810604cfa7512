//! Tests whether OpenSSL works with a configuration file. The tests run in processes of its
//! `openssl` command, since a broken module may crash or block the process that loads it.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::{Error, Result, preflight, sha256_text};

/// Time limit of one command: a hundred times the slowest.
const LIMIT: Duration = Duration::from_secs(10);
/// Polling interval of a running command.
const POLL: Duration = Duration::from_millis(2);
/// The data that is hashed and signed.
const MESSAGE: &[u8] = b"Gabion";

/// The features that OpenSSL offers with a configuration file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// The active providers.
    pub(super) providers: Vec<String>,
    /// The cipher suites of a TLS client, which depend on the file's TLS settings.
    ciphers: String,
}

/// An `openssl` command, and a folder for its output.
pub(super) struct Checker<'o> {
    openssl: &'o Path,
    folder: tempfile::TempDir,
}

impl<'o> Checker<'o> {
    /// Creates the folder, which is removed on drop.
    ///
    /// # Errors
    /// [`Error::NotReady`] if no temporary folder can be created.
    pub(super) fn new(openssl: &'o Path) -> Result<Self> {
        let made = tempfile::Builder::new().prefix("gabion-").tempdir().and_then(|folder| {
            std::fs::write(folder.path().join("message"), MESSAGE)?;
            Ok(folder)
        });
        let folder = made.map_err(|cause| {
            Error::NotReady(format!("cannot write to a temporary folder: {cause}"))
        })?;
        Ok(Checker { openssl, folder })
    }

    /// Returns the features that OpenSSL offers with the configuration file `config`.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(super) fn offer(&self, config: &Path) -> std::result::Result<Offer, String> {
        let listed = preflight::providers(&self.run(config, &["list", "-providers"])?);
        let active = listed.into_iter().filter(|provider| provider.status == "active");
        let ciphers = self.run(config, &["ciphers", "-s", "-v"])?;
        if ciphers.trim().is_empty() {
            return Err("`openssl ciphers -s` lists no cipher suite".to_string());
        }
        Ok(Offer { providers: active.map(|provider| provider.name).collect(), ciphers })
    }

    /// Tests what every program of the host depends on: hashing, signatures with the default
    /// provider, a TLS client, and all features in `before`.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(super) fn host(&self, config: &Path, before: &Offer) -> std::result::Result<(), String> {
        let offer = self.offer(config)?;
        let wanted = before.providers.iter().map(String::as_str).chain(["default"]);
        for provider in wanted {
            if !offer.providers.iter().any(|active| active == provider) {
                return Err(format!("the provider `{provider}` is not active"));
            }
        }
        if offer.ciphers != before.ciphers {
            return Err("a TLS client has other cipher suites".to_string());
        }
        let digest = self.run(config, &["dgst", "-sha256", "-r", "message"])?;
        if digest.split_whitespace().next() != Some(&sha256_text(MESSAGE)) {
            return Err("`openssl dgst -sha256` gives a wrong hash".to_string());
        }
        for algorithm in [&["RSA"][..], &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]] {
            let key = ["genpkey", "-out", "key", "-algorithm"];
            self.run(config, &[&key[..], algorithm].concat())?;
            self.run(config, &["dgst", "-sha256", "-sign", "key", "-out", "signature", "message"])?;
            let verify =
                ["dgst", "-sha256", "-prverify", "key", "-signature", "signature", "message"];
            self.run(config, &verify)?;
        }
        Ok(())
    }

    /// Runs the tests of [`Checker::host`], and tests that Gabion's provider is active and
    /// generates a key.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(super) fn gabion(&self, config: &Path, before: &Offer) -> std::result::Result<(), String> {
        self.host(config, before)?;
        if !self.offer(config)?.has_gabion() {
            return Err("OpenSSL does not load the provider `gabion`".to_string());
        }
        let query = ["-propquery", "provider=gabion", "-algorithm", "ML-KEM-768", "-out", "key"];
        self.run(config, &[&["genpkey"][..], &query].concat()).map(drop)
    }

    /// Runs the command to completion, with only the variables needed to find it and its libraries.
    fn run(&self, config: &Path, arguments: &[&str]) -> std::result::Result<String, String> {
        let shown = format!("`openssl {}`", arguments.join(" "));
        let cannot = |cause: std::io::Error| format!("{shown} cannot be run: {cause}");
        let (out, err) = (self.folder.path().join("out"), self.folder.path().join("err"));
        let mut command = Command::new(self.openssl);
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.envs(["PATH", "LD_LIBRARY_PATH"].into_iter().filter_map(variable));
        command.env("OPENSSL_CONF", config).env("HOME", self.folder.path()).stdin(Stdio::null());
        command.stdout(File::create(&out).map_err(cannot)?);
        command.stderr(File::create(&err).map_err(cannot)?);
        let status = ended(&mut command, &shown)?;
        let read = |file: &Path| {
            std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        if status.success() {
            return read(&out).map_err(cannot);
        }
        let said = read(&err).map_err(cannot)?;
        let reason = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        Err(format!("{shown} failed ({status}) {reason}").trim_end().to_string())
    }
}

impl Offer {
    /// Returns whether Gabion's provider is active.
    pub(super) fn has_gabion(&self) -> bool {
        self.providers.iter().any(|provider| provider == "gabion")
    }
}

fn variable(name: &str) -> Option<(&str, OsString)> {
    Some((name, std::env::var_os(name)?))
}

/// Runs a command until it ends, or kills it at the limit.
fn ended(command: &mut Command, shown: &str) -> std::result::Result<ExitStatus, String> {
    let mut child = command.spawn().map_err(|cause| format!("{shown} cannot be run: {cause}"))?;
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < LIMIT => std::thread::sleep(POLL),
            _ => {
                // Both fail only for a child that has already ended.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{shown} took more than {} s", LIMIT.as_secs()));
            }
        }
    }
}

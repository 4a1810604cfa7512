//! The `openssl` command's own figures: `openssl speed`, and `openssl pkeyutl` in a loop.
//!
//! The command is the program users have, so these figures are the ones that they can check. They
//! hold what the engine's own do not: EVP, and with `pkeyutl` the start of a process.

pub mod pkeyutl;
pub mod speed;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gabion_engine::{ALGORITHMS, AlgorithmInfo};

use crate::Error;
use crate::tls::Provider;

/// An `openssl` command, with one provider preferred.
#[derive(Debug, Clone)]
pub struct Openssl {
    program: PathBuf,
    /// The provider that is to serve.
    provider: Provider,
    environment: Vec<(&'static str, OsString)>,
    /// Options that choose the providers; every subcommand takes them.
    providers: Vec<OsString>,
}

impl Openssl {
    /// `program`, with `provider` preferred, whose module lies in `modules`. No configuration file
    /// is read, so that nothing else decides who serves; only the FIPS provider needs the one that
    /// names its checksum, `fips_conf`.
    ///
    /// # Errors
    /// `NotReady` when there is no such program.
    pub fn new(
        program: &Path,
        provider: Provider,
        modules: &Path,
        fips_conf: &Path,
    ) -> Result<Openssl, Error> {
        if !program.is_file() {
            return Err(Error::NotReady(format!(
                "there is no {}; build the bundle with `gabion bundle build`, or name another \
                 command with --openssl-bin",
                program.display()
            )));
        }
        let mut environment = vec![("OPENSSL_CONF", OsString::from("/dev/null"))];
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut providers = Vec::new();
        match provider {
            Provider::Default => {}
            Provider::Gabion => {
                providers.push("-provider-path".into());
                providers.push(modules.into());
                providers.extend(words(&["-provider", "gabion", "-provider", "default"]));
                providers.extend(words(&["-propquery", "?provider=gabion"]));
            }
            Provider::Fips => {
                environment = vec![("OPENSSL_CONF", fips_conf.into())];
                environment.push(("OPENSSL_MODULES", modules.into()));
                providers.extend(words(&["-propquery", "fips=yes"]));
            }
            Provider::Offload => environment.push(("GABION_OFFLOAD", "1".into())),
            Provider::AwsLcRs => {
                return Err(Error::Usage("the provider `aws-lc-rs` is one of rustls".into()));
            }
        }
        // A command that was moved, or built without a run path, finds its libraries in the `lib`
        // folder of its prefix.
        if let Some(lib) = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"))
            && lib.join("libcrypto.so").exists()
        {
            environment.push(("LD_LIBRARY_PATH", lib.into()));
        }
        Ok(Openssl { program: program.to_path_buf(), provider, environment, providers })
    }

    /// Returns the command with one more environment variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Openssl {
        self.environment.push((name, value.into()));
        self
    }

    /// `OpenSSL 3.5.5 27 Jan 2026`, without the part that names the library again.
    ///
    /// # Errors
    /// As every run.
    pub fn version(&self) -> Result<String, Error> {
        let said = text(self.run("version", &[])?.stdout);
        Ok(said.split(" (Library").next().unwrap_or_default().trim().to_owned())
    }

    /// Returns how the command has an algorithm that is called `name`, by the table of algorithms
    /// or by itself.
    fn look_up(&self, name: &str) -> Result<Support, Error> {
        let row = in_table(name);
        let main = row.and_then(|row| row.openssl.first().copied());
        let is_named = |own: &str| {
            own.eq_ignore_ascii_case(name)
                || row.is_some_and(|row| {
                    row.openssl.iter().any(|name| own.eq_ignore_ascii_case(name))
                })
        };
        let (mut names, mut is_listed) = (Vec::from_iter(main.map(str::to_owned)), [false; 2]);
        for (is_listed, option) in
            is_listed.iter_mut().zip(["-kem-algorithms", "-signature-algorithms"])
        {
            let listing = text(self.run("list", &[option.into()])?.stdout);
            for listed in listing.lines().filter_map(names_of) {
                if listed.iter().any(|own| is_named(own)) {
                    *is_listed = true;
                    names.extend(listed.into_iter().map(str::to_owned));
                }
            }
        }
        if is_listed.contains(&true) {
            return Ok(Support::Served { kem_only: is_listed == [true, false], names });
        }
        let asked = self.provider.name();
        if row.is_some() {
            return Ok(Support::NotServed(format!(
                "OpenSSL has no {name} with the provider {asked}"
            )));
        }
        Err(Error::Failed(format!(
            "nothing is called {name}, by the provider {asked} neither; `gabion algorithms` and `openssl \
             list -kem-algorithms` and `-signature-algorithms` say what there is"
        )))
    }

    /// Runs a subcommand to its end; `arguments` follow the options that choose providers.
    fn run(&self, subcommand: &str, arguments: &[OsString]) -> Result<Output, Error> {
        let mut command = Command::new(&self.program);
        command.arg(subcommand);
        if subcommand != "version" {
            command.args(&self.providers);
        }
        command.args(arguments).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = command.output().map_err(|cause| {
            Error::NotReady(format!("{} does not start: {cause}", self.program.display()))
        })?;
        if output.status.success() {
            return Ok(output);
        }
        let said = text(output.stderr);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let why = last.map_or_else(|| output.status.to_string(), str::to_owned);
        Err(Error::Failed(format!("openssl {subcommand} failed: {why}")))
    }
}

/// An `openssl` command's support for an algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Support {
    /// Its names, the table's main one first; at least one.
    Served { kem_only: bool, names: Vec<String> },
    /// It is in the table of algorithms, but no provider of the command has it, with the reason.
    NotServed(String),
}

/// The row of an algorithm that is called `name` today.
pub(crate) fn in_table(name: &str) -> Option<&'static AlgorithmInfo> {
    ALGORITHMS.iter().find(|row| row.names().any(|own| own.eq_ignore_ascii_case(name)))
}

/// The names of a line of `openssl list`, `NAME @ provider` or `{ NAME, NAME } @ provider`.
fn names_of(line: &str) -> Option<Vec<&str>> {
    let (names, _) = line.trim().rsplit_once(" @ ")?;
    Some(names.trim_matches(['{', '}', ' ']).split(", ").collect())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Tenths are more than a run on a shared machine can tell.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_says_what_to_do() {
        let nowhere = Path::new("/nonexistent/openssl");
        let made = Openssl::new(nowhere, Provider::Default, nowhere, nowhere);
        let error = made.unwrap_err().to_string();
        assert!(
            error.contains("gabion bundle build") && error.contains("--openssl-bin"),
            "{error}"
        );
    }

    #[test]
    fn listings_and_aliases_are_read() {
        let listed = names_of("  { 2.16.840.1.101.3.4.3.18, id-ml-dsa-65, ML-DSA-65 } @ default");
        assert_eq!(listed, Some(vec!["2.16.840.1.101.3.4.3.18", "id-ml-dsa-65", "ML-DSA-65"]));
        assert_eq!(names_of("  X25519MLKEM768 @ gabion"), Some(vec!["X25519MLKEM768"]));
        assert_eq!(names_of("Provided:"), None);
        for alias in ["mldsa65", "ML-DSA-65", "id-ml-dsa-65", "2.16.840.1.101.3.4.3.18"] {
            assert_eq!(in_table(alias).map(|row| row.name), Some("ML-DSA-65"), "{alias}");
        }
        assert!(in_table("DILITHIUM_LEVEL3").is_none() && in_table("RSA").is_none());
    }
}

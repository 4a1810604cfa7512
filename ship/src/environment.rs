//! The environment variables through which a command uses the bundle.
//!
//! | variable | meaning |
//! |---|---|
//! | `GABION_OPENSSL_FIPS_MODE` | `off` (default), `ready` or `only` |
//! | `GABION_OPENSSL_SKIP_FIPS_GUARD` | `1` skips the guard; empty or `0` does not |
//! | `GABION_OPENSSL_PREFIX` | the bundle's folder, instead of the usual one |
//! | `GABION_OPENSSL_MODULES` | folder of provider modules, for OPENSSL_MODULES |
//! | `GABION_OPENSSL_CONF` | configuration file, for OPENSSL_CONF |

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bundle::Layout;
use crate::{Error, Result, trust};

/// The dependence of a command on the FIPS provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FipsMode {
    /// Nothing is checked.
    Off,
    /// The FIPS provider is checked; problems are warnings.
    Ready,
    /// No command starts unless the FIPS provider serves all required algorithms.
    Only,
}

impl fmt::Display for FipsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FipsMode::Off => "off",
            FipsMode::Ready => "ready",
            FipsMode::Only => "only",
        })
    }
}

/// The settings in the `GABION_OPENSSL_*` variables.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The FIPS mode.
    pub mode: FipsMode,
    /// Whether the guard is bypassed.
    pub skip_guard: bool,
    /// The bundle.
    pub layout: Layout,
    /// Overrides the bundle's module folder.
    pub modules_override: Option<PathBuf>,
    /// Overrides the configuration file that the mode selects.
    pub conf_override: Option<PathBuf>,
}

impl Settings {
    /// Reads the variables of this process.
    ///
    /// # Errors
    /// [`Error::NotReady`] if a variable has an invalid value; a mistyped mode must not count as
    /// `off`.
    pub fn from_process() -> Result<Self> {
        Settings::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads the variables from `lookup`. An empty mode or guard counts as unset; an empty path is
    /// an error.
    ///
    /// # Errors
    /// Fails like [`Settings::from_process`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let value = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let mode_name = "GABION_OPENSSL_FIPS_MODE";
        let mode = match value(mode_name) {
            None => FipsMode::Off,
            Some(text) if text == "off" => FipsMode::Off,
            Some(text) if text == "ready" => FipsMode::Ready,
            Some(text) if text == "only" => FipsMode::Only,
            Some(text) => return Err(value_error(mode_name, &text, "off, ready or only")),
        };
        let skip_name = "GABION_OPENSSL_SKIP_FIPS_GUARD";
        let skip_guard = match value(skip_name) {
            None => false,
            Some(text) if text == "0" => false,
            Some(text) if text == "1" => true,
            Some(text) => return Err(value_error(skip_name, &text, "1, 0 or nothing")),
        };
        let layout = match full_path(&lookup, PREFIX)? {
            Some(prefix) => Layout::at(prefix),
            None => Layout::newest_finished()?,
        };
        // HOME, too, may contain characters that path lists cannot.
        layout.check_prefix().map_err(|error| Error::NotReady(error.to_string()))?;
        Ok(Settings {
            mode,
            skip_guard,
            layout,
            modules_override: full_path(&lookup, MODULES)?,
            conf_override: full_path(&lookup, CONF)?,
        })
    }

    /// Returns the value of OPENSSL_MODULES.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.modules_override.clone().unwrap_or_else(|| self.layout.modules())
    }

    /// Returns the value of OPENSSL_CONF in `mode`.
    #[must_use]
    pub fn conf(&self, mode: FipsMode) -> PathBuf {
        match (&self.conf_override, mode) {
            (Some(conf), _) => conf.clone(),
            (None, FipsMode::Only) => self.layout.fips_conf(),
            (None, FipsMode::Off | FipsMode::Ready) => self.layout.gabion_conf(),
        }
    }

    /// Returns the environment variables of a command in `mode`. PATH and LD_LIBRARY_PATH extend
    /// those of this process.
    #[must_use]
    pub fn variables(&self, mode: FipsMode) -> Vec<(&'static str, OsString)> {
        let extended = |name: &str, first: PathBuf| put_first(first, std::env::var_os(name));
        vec![
            ("PATH", extended("PATH", self.layout.bin())),
            ("LD_LIBRARY_PATH", extended("LD_LIBRARY_PATH", self.layout.lib())),
            ("OPENSSL_MODULES", self.modules().into_os_string()),
            ("OPENSSL_CONF", self.conf(mode).into_os_string()),
        ]
    }

    /// Fails if there is no bundle, if a path in a variable is invalid, or if another user could
    /// change what would run.
    ///
    /// # Errors
    /// [`Error::NotReady`], with the fix.
    pub fn require_bundle(&self) -> Result<()> {
        if !self.layout.openssl().is_file() {
            return Err(Error::NotReady(format!(
                "no OpenSSL bundle in {}: bin/openssl is missing. Build it with `gabion bundle build`, \
                 or name another with GABION_OPENSSL_PREFIX",
                self.layout.prefix().display()
            )));
        }
        self.layout.check_trust()?;
        if let Some(modules) = &self.modules_override {
            if !modules.is_dir() {
                return Err(missing_path_error(MODULES, modules, "a folder"));
            }
            trust::check_contents(modules)?;
        }
        self.conf_override.as_deref().map_or(Ok(()), check_conf)
    }
}

const PREFIX: &str = "GABION_OPENSSL_PREFIX";
const MODULES: &str = "GABION_OPENSSL_MODULES";
const CONF: &str = "GABION_OPENSSL_CONF";

/// Returns the path in a variable as a full path, since the command may change its folder.
fn full_path(lookup: impl Fn(&str) -> Option<OsString>, name: &str) -> Result<Option<PathBuf>> {
    match lookup(name) {
        None => Ok(None),
        Some(path) if path.is_empty() => {
            Err(value_error(name, &path, "a path, or no such variable"))
        }
        Some(path) => std::path::absolute(&path)
            .map(Some)
            .map_err(|cause| Error::io("cannot make a full path of", Path::new(&path), cause)),
    }
}

/// Checks the configuration file. If OPENSSL_CONF cannot be read, OpenSSL silently starts without
/// Gabion and the FIPS provider.
fn check_conf(conf: &Path) -> Result<()> {
    use std::os::unix::fs::FileTypeExt;

    let Ok(data) = std::fs::metadata(conf) else {
        return Err(missing_path_error(CONF, conf, "a configuration file"));
    };
    // /dev/null is the common way to select no configuration.
    if data.file_type().is_char_device() {
        return Ok(());
    }
    if !data.is_file() {
        return Err(missing_path_error(CONF, conf, "a configuration file"));
    }
    std::fs::File::open(conf).map_err(|cause| Error::io("cannot read", conf, cause))?;
    trust::check_file(conf)
}

fn missing_path_error(name: &str, path: &Path, expected: &str) -> Error {
    let what = if path.exists() { "which is not a regular file" } else { "which does not exist" };
    Error::NotReady(format!(
        "{name} is {}, {what}; expected {expected}. Nothing was started",
        path.display()
    ))
}

fn value_error(name: &str, value: &OsStr, expected: &str) -> Error {
    Error::NotReady(format!(
        "{name} is {:?}; expected {expected}. Nothing was started",
        value.to_string_lossy()
    ))
}

/// Returns `first:rest` without empty elements, which would mean the current folder.
fn put_first(first: PathBuf, rest: Option<OsString>) -> OsString {
    let mut list = first.into_os_string();
    let rest = rest.unwrap_or_default();
    for folder in rest.as_bytes().split(|&byte| byte == b':').filter(|folder| !folder.is_empty()) {
        list.push(":");
        list.push(OsStr::from_bytes(folder));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Result<Settings> {
        settings_of(&[pairs, &[(PREFIX, "/p")]].concat())
    }

    fn settings_of(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::from_lookup(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn modes_and_overrides_select_the_files() {
        let off = settings(&[]).unwrap();
        assert_eq!(off.mode, FipsMode::Off);
        assert_eq!(off.conf(off.mode), Path::new("/p/ssl/openssl-gabion.cnf"));
        assert_eq!(off.modules(), Path::new("/p/lib/ossl-modules"));
        let only = settings(&[("GABION_OPENSSL_FIPS_MODE", "only")]).unwrap();
        assert_eq!(only.conf(only.mode), Path::new("/p/ssl/openssl-fips.cnf"));
        let other = settings(&[
            ("GABION_OPENSSL_FIPS_MODE", "ready"),
            ("GABION_OPENSSL_CONF", "/c"),
            ("GABION_OPENSSL_MODULES", "/m"),
        ])
        .unwrap();
        assert_eq!(other.conf(other.mode), Path::new("/c"));
        assert_eq!(other.modules(), Path::new("/m"));
    }

    #[test]
    fn values_that_mean_nothing_are_errors() {
        for (name, value) in [
            ("GABION_OPENSSL_FIPS_MODE", "on"),
            ("GABION_OPENSSL_FIPS_MODE", "ONLY"),
            ("GABION_OPENSSL_FIPS_MODE", " only"),
            ("GABION_OPENSSL_SKIP_FIPS_GUARD", "yes"),
            ("GABION_OPENSSL_SKIP_FIPS_GUARD", "true"),
        ] {
            let error = settings(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn the_guard_is_skipped_by_one_only() {
        for (value, skips) in [("1", true), ("0", false), ("", false)] {
            let read = settings(&[("GABION_OPENSSL_SKIP_FIPS_GUARD", value)]).unwrap();
            assert_eq!(read.skip_guard, skips, "{value:?}");
        }
    }

    #[test]
    fn lists_get_no_empty_element() {
        assert_eq!(put_first("/p/lib".into(), None), "/p/lib");
        assert_eq!(put_first("/p/lib".into(), Some("".into())), "/p/lib");
        assert_eq!(put_first("/p/lib".into(), Some("/a:/b".into())), "/p/lib:/a:/b");
        assert_eq!(put_first("/p/lib".into(), Some(":/a::/b:".into())), "/p/lib:/a:/b");
    }

    #[test]
    fn a_path_that_splits_a_list_or_names_nothing_is_an_error() {
        for (name, value) in [
            (PREFIX, "/a:/b"),
            (PREFIX, "/a;b"),
            (PREFIX, "/a b"),
            (PREFIX, "/$ORIGIN"),
            (PREFIX, "/a\n"),
            (PREFIX, ""),
            (MODULES, ""),
            (CONF, ""),
        ] {
            let error = settings_of(&[(name, value)]).unwrap_err();
            assert!(!error.is_request() && error.to_string().contains("expected"), "{error}");
        }
    }

    #[test]
    fn a_configuration_that_is_named_has_to_be_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for bad in [folder.path().join("none"), folder.path().to_path_buf()] {
            let error = check_conf(&bad).unwrap_err().to_string();
            assert!(error.contains("GABION_OPENSSL_CONF") && error.contains("Nothing"), "{error}");
        }
        let conf = folder.path().join("conf");
        std::fs::write(&conf, "").unwrap();
        check_conf(&conf).unwrap();
        check_conf(Path::new("/dev/null")).unwrap();
    }
}

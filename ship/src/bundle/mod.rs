//! The OpenSSL bundle: OpenSSL with its FIPS provider, Gabion's module, and their configuration.
//!
//! ```text
//!   PREFIX/bin/openssl                     the command
//!   PREFIX/lib/libcrypto.so.3, libssl.so.3
//!   PREFIX/lib/ossl-modules/fips.so        the FIPS provider, as built here
//!   PREFIX/lib/ossl-modules/gabion.so      our provider
//!   PREFIX/lib/ossl-modules/libgabion.so.1 with the core patch: what libcrypto offloads to
//!   PREFIX/ssl/fipsmodule.cnf              its integrity value, from `openssl fipsinstall`
//!   PREFIX/ssl/openssl-fips.cnf            fips=yes is the default property
//!   PREFIX/ssl/openssl-gabion.cnf          default provider and ours, ours preferred
//!   PREFIX/gabion-bundle.json              written last: the bundle is finished
//! ```

mod build;
mod configuration;
mod patch;
mod source;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub use build::{BuildRequest, build};
pub use source::{SourceRequest, version_of_archive};

/// Name of the file whose presence says that a bundle is finished.
pub const MANIFEST_NAME: &str = "gabion-bundle.json";

/// Where each part of a bundle lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    prefix: PathBuf,
}

/// What `gabion-bundle.json` records about a finished bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// OpenSSL version.
    pub version: String,
    /// SHA-256 of the source archive.
    pub source_sha256: String,
    /// Options given to OpenSSL's Configure.
    pub options: Vec<String>,
    /// When the build finished, UTC, `YYYY-MM-DDThh:mm:ssZ`.
    pub built: String,
    /// SHA-256 of the `fips.so` that was built.
    pub fips_module_sha256: String,
    /// Version of Gabion that built it.
    pub gabion_version: String,
    /// SHA-256 of the core patch in it; none in a bundle whose libcrypto is OpenSSL's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_patch_sha256: Option<String>,
}

impl Layout {
    /// The layout under `prefix`.
    #[must_use]
    pub fn at(prefix: impl Into<PathBuf>) -> Self {
        Layout { prefix: prefix.into() }
    }

    /// The usual place of the bundle of an OpenSSL version, `~/.cache/gabion/openssl/bundle-V`.
    ///
    /// # Errors
    /// [`Error::NotReady`] when HOME is not set.
    pub fn usual(version: &str) -> Result<Self> {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).ok_or_else(|| {
            Error::NotReady(
                "HOME is not set, so the bundle's usual place is not known; \
                 name one with --prefix or GABION_OPENSSL_PREFIX"
                    .to_string(),
            )
        })?;
        let cache = Path::new(&home).join(".cache/gabion/openssl");
        Ok(Layout::at(cache.join(format!("bundle-{version}"))))
    }

    /// The usual place of the bundle whose libcrypto has the core patch, `bundle-V-offload` beside
    /// the other one.
    ///
    /// # Errors
    /// As [`Layout::usual`].
    pub fn usual_offload(version: &str) -> Result<Self> {
        Layout::usual(&format!("{version}-offload"))
    }

    /// The bundle's own folder.
    #[must_use]
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Folder of the commands.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.prefix.join("bin")
    }

    /// Folder of libcrypto and libssl.
    #[must_use]
    pub fn lib(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// Folder of the provider modules.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.prefix.join("lib/ossl-modules")
    }

    /// OpenSSL's configuration folder.
    #[must_use]
    pub fn ssl(&self) -> PathBuf {
        self.prefix.join("ssl")
    }

    /// The `openssl` command.
    #[must_use]
    pub fn openssl(&self) -> PathBuf {
        self.prefix.join("bin/openssl")
    }

    /// The FIPS provider's module.
    #[must_use]
    pub fn fips_module(&self) -> PathBuf {
        self.modules().join("fips.so")
    }

    /// Gabion's provider module.
    #[must_use]
    pub fn gabion_module(&self) -> PathBuf {
        self.modules().join("gabion.so")
    }

    /// The library that a libcrypto with the core patch opens.
    #[must_use]
    pub fn gabion_library(&self) -> PathBuf {
        self.modules().join("libgabion.so.1")
    }

    /// The FIPS provider's integrity value and options.
    #[must_use]
    pub fn fipsmodule_conf(&self) -> PathBuf {
        self.ssl().join("fipsmodule.cnf")
    }

    /// Configuration in which only approved algorithms are found.
    #[must_use]
    pub fn fips_conf(&self) -> PathBuf {
        self.ssl().join("openssl-fips.cnf")
    }

    /// Configuration in which Gabion's provider is preferred.
    #[must_use]
    pub fn gabion_conf(&self) -> PathBuf {
        self.ssl().join("openssl-gabion.cnf")
    }

    /// The record of a finished bundle.
    #[must_use]
    pub fn manifest_file(&self) -> PathBuf {
        self.prefix.join(MANIFEST_NAME)
    }

    /// Reads the record; `None` when there is no finished bundle here.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Integrity`] when it is not such a record.
    pub fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.manifest_file();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::io("cannot read", &path, cause)),
        };
        serde_json::from_str(&text).map(Some).map_err(|cause| {
            Error::Integrity(format!(
                "{} is damaged ({cause}); build the bundle again with `gabion bundle build --repair`",
                path.display()
            ))
        })
    }

    /// Every part a finished bundle must have, and lacks.
    #[must_use]
    pub fn missing_parts(&self) -> Vec<PathBuf> {
        [
            self.openssl(),
            self.lib().join("libcrypto.so"),
            self.lib().join("libssl.so"),
            self.fips_module(),
            self.fipsmodule_conf(),
        ]
        .into_iter()
        .filter(|part| !part.exists())
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_bundle_has_no_manifest_and_a_damaged_one_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::at(folder.path());
        assert!(layout.manifest().unwrap().is_none());
        assert_eq!(layout.missing_parts().len(), 5);
        std::fs::write(layout.manifest_file(), "{\"version\":").unwrap();
        let error = layout.manifest().unwrap_err().to_string();
        assert!(error.contains("--repair"), "{error}");
    }
}

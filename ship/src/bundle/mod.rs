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
//!   PREFIX/gabion-bundle.json              written last: marks the bundle as finished
//! ```

mod archive;
mod build;
mod compile;
mod configuration;
mod fetch;
mod patch;
mod place;
mod source;
mod version_status;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result, pins, trust};

pub use build::{BuildRequest, build};
pub use source::SourceRequest;
pub use version_status::VersionStatus;

/// The name of the file that marks a finished bundle.
pub const MANIFEST_NAME: &str = "gabion-bundle.json";

/// The paths of the parts of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    prefix: PathBuf,
}

/// The content of `gabion-bundle.json` in a finished bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    /// OpenSSL version.
    pub version: String,
    /// The requested version: the one named, or the newest known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// Why the requested version was not available, one sentence per place; empty if it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_had: Vec<String>,
    /// The origin of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<String>,
    /// SHA-256 of the source archive.
    pub source_sha256: String,
    /// The advisories known to affect the version at build time.
    #[serde(default)]
    pub advisories: Vec<String>,
    /// The date of the table that lists them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advisories_read: Option<String>,
    /// Options given to OpenSSL's Configure.
    pub options: Vec<String>,
    /// The time at which the build finished, UTC, `YYYY-MM-DDThh:mm:ssZ`.
    pub built: String,
    /// SHA-256 of the `fips.so` that was built.
    pub fips_module_sha256: String,
    /// The module's own version and source, if they differ from the bundle's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fips_module: Option<ModuleRecord>,
    /// Version of Gabion that built it.
    pub gabion_version: String,
    /// SHA-256 of the applied core patch; `None` if libcrypto is unpatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_patch_sha256: Option<String>,
}

/// A FIPS module with a version different from its bundle's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// Version of the OpenSSL that it was built from.
    pub version: String,
    /// The origin of the source.
    pub taken_from: String,
    /// SHA-256 of the source archive.
    pub source_sha256: String,
}

impl Manifest {
    /// Returns the version of the OpenSSL that the FIPS module was built from.
    #[must_use]
    pub fn module_version(&self) -> &str {
        self.fips_module.as_ref().map_or(&self.version, |module| &module.version)
    }
}

/// The place of a package's bundle relative to the program's folder: a tarball may be unpacked
/// anywhere.
const BESIDE_PROGRAM: &str = "../lib/gabion/openssl";
/// The place of the bundle in a distribution package.
const PACKAGED: &str = "/usr/lib/gabion/openssl";

/// Returns the folders that contain all bundles, the outermost first; empty if HOME is not set.
fn cache_folders() -> Vec<PathBuf> {
    let Ok(cache) = cache() else { return Vec::new() };
    let outer = cache.parent().map(Path::to_path_buf);
    outer.into_iter().chain([cache]).collect()
}

/// Returns the folder with the user's bundles.
fn cache() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).ok_or_else(|| {
        Error::NotReady(
            "HOME is not set, so the bundle's usual place is not known; \
             name one with --prefix or GABION_OPENSSL_PREFIX"
                .to_string(),
        )
    })?;
    Ok(Path::new(&home).join(".cache/gabion/openssl"))
}

impl Layout {
    /// Returns the layout under `prefix`.
    #[must_use]
    pub fn at(prefix: impl Into<PathBuf>) -> Self {
        Layout { prefix: prefix.into() }
    }

    /// Returns the same layout in a tree under `root`, for package builders.
    #[must_use]
    pub fn under(&self, root: &Path) -> Self {
        Layout::at(root.join(self.prefix.strip_prefix("/").unwrap_or(&self.prefix)))
    }

    /// Returns the default place of the bundle of an OpenSSL version,
    /// `~/.cache/gabion/openssl/bundle-V`.
    ///
    /// # Errors
    /// [`Error::NotReady`] if HOME is not set.
    pub fn usual(version: &str) -> Result<Self> {
        Layout::usual_with(version, None, false)
    }

    /// Returns the default place of a bundle with another FIPS module, `bundle-V-fips-X`, or with
    /// the core patch, `bundle-V-offload`.
    ///
    /// # Errors
    /// Fails like [`Layout::usual`].
    pub fn usual_with(version: &str, module: Option<&str>, core_offload: bool) -> Result<Self> {
        let mut name = format!("bundle-{version}");
        if let Some(module) = module {
            name.push_str(&format!("-fips-{module}"));
        }
        if core_offload {
            name.push_str("-offload");
        }
        Ok(Layout::at(cache()?.join(name)))
    }

    /// Returns the user's newest finished bundle of the default line; otherwise the bundle
    /// installed with this program or, failing that, the place where a bundle will be built.
    ///
    /// # Errors
    /// Fails like [`Layout::usual`], if no bundle was installed.
    pub fn newest_finished() -> Result<Self> {
        let pins = pins::pins()?;
        let entries = cache().ok().and_then(|cache| std::fs::read_dir(cache).ok());
        let entries = entries.into_iter().flatten().flatten();
        let finished = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let numbers = numbers_of(name.strip_prefix("bundle-")?)?;
            let of_line = numbers.starts_with(&pins::version_numbers(&pins.line));
            let layout = Layout::at(entry.path());
            (of_line && layout.manifest_file().is_file()).then_some((numbers, layout))
        });
        let newest = finished.max_by(|(one, _), (other, _)| one.cmp(other));
        match newest.map(|(_, layout)| layout).or_else(Layout::installed) {
            Some(layout) => Ok(layout),
            None => Layout::usual(pins.newest()),
        }
    }

    /// Returns the finished bundle of an installed package: in `../lib/gabion/openssl` relative to
    /// this program's folder, or in `/usr/lib/gabion/openssl`.
    fn installed() -> Option<Self> {
        let program = std::env::current_exe().ok();
        let beside = program.as_deref().and_then(Path::parent).map(|bin| bin.join(BESIDE_PROGRAM));
        // The full path without `..`, because configuration files and path lists contain it.
        let places = beside.into_iter().chain([PathBuf::from(PACKAGED)]);
        let mut layouts = places.filter_map(|place| Some(Layout::at(place.canonicalize().ok()?)));
        layouts.find(|layout| layout.manifest_file().is_file())
    }

    /// Rejects a prefix that a path list, a configuration file or OpenSSL's Makefile cannot
    /// contain. PATH is split at `:`, the loader's list also at `;`, and `$`, `#`, quotes and
    /// spaces are special in the other two.
    ///
    /// # Errors
    /// [`Error::Request`].
    /// [`Error::Request`].
    pub fn check_prefix(&self) -> Result<()> {
        let text = self.prefix.to_str().unwrap_or_default();
        let plain = |c: char| c.is_alphanumeric() || "/._+-@".contains(c);
        if self.prefix.is_absolute() && text.chars().all(plain) && self.prefix.parent().is_some() {
            return Ok(());
        }
        Err(Error::Request(format!(
            "the prefix {:?} cannot be used: expected a full path of letters, digits and /._+-@ only, \
             since it becomes a part of lists, configuration files and OpenSSL's Makefile",
            self.prefix.to_string_lossy()
        )))
    }

    /// Rejects a bundle that another user could change or owns.
    ///
    /// # Errors
    /// [`Error::NotReady`], naming the file or folder.
    pub fn check_trust(&self) -> Result<()> {
        trust::check_folder(&self.prefix)?;
        [self.bin(), self.lib(), self.modules(), self.ssl()]
            .iter()
            .try_for_each(|folder| trust::check_contents(folder))
    }

    /// Returns the bundle's folder.
    #[must_use]
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the folder of the commands.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.prefix.join("bin")
    }

    /// Returns the folder of libcrypto and libssl.
    #[must_use]
    pub fn lib(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// Returns the folder of the provider modules.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.prefix.join("lib/ossl-modules")
    }

    /// Returns OpenSSL's configuration folder.
    #[must_use]
    pub fn ssl(&self) -> PathBuf {
        self.prefix.join("ssl")
    }

    /// Returns the `openssl` command.
    #[must_use]
    pub fn openssl(&self) -> PathBuf {
        self.prefix.join("bin/openssl")
    }

    /// Returns the FIPS provider's module.
    #[must_use]
    pub fn fips_module(&self) -> PathBuf {
        self.modules().join("fips.so")
    }

    /// Returns Gabion's provider module.
    #[must_use]
    pub fn gabion_module(&self) -> PathBuf {
        self.modules().join("gabion.so")
    }

    /// Returns the library that a libcrypto with the core patch opens.
    #[must_use]
    pub fn gabion_library(&self) -> PathBuf {
        self.modules().join("libgabion.so.1")
    }

    /// Returns the file with the FIPS provider's integrity value and options.
    #[must_use]
    pub fn fipsmodule_conf(&self) -> PathBuf {
        self.ssl().join("fipsmodule.cnf")
    }

    /// Returns the configuration that makes only approved algorithms available.
    #[must_use]
    pub fn fips_conf(&self) -> PathBuf {
        self.ssl().join("openssl-fips.cnf")
    }

    /// Returns the configuration that prefers Gabion's provider.
    #[must_use]
    pub fn gabion_conf(&self) -> PathBuf {
        self.ssl().join("openssl-gabion.cnf")
    }

    /// Returns the record of a finished bundle.
    #[must_use]
    pub fn manifest_file(&self) -> PathBuf {
        self.prefix.join(MANIFEST_NAME)
    }

    /// Reads the record. Returns `None` if there is no finished bundle.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Integrity`] if it is malformed.
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

    /// Returns the parts that a finished bundle must have but are missing.
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

/// Returns all finished bundles in the default place, so that an installation can update their
/// module.
///
/// # Errors
/// Fails like [`Layout::usual`].
pub fn usual_bundles() -> Result<Vec<Layout>> {
    let usual = Layout::usual("x")?;
    let parent = usual.prefix().parent().unwrap_or(Path::new("/"));
    let mut bundles: Vec<Layout> = std::fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| Layout::at(entry.path()))
        .filter(|layout| layout.manifest_file().is_file())
        .collect();
    bundles.sort_by(|a, b| a.prefix().cmp(b.prefix()));
    Ok(bundles)
}

/// Returns the numbers of a plain version such as `3.5.9`, and `None` for `3.5.9-offload`.
fn numbers_of(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_make_or_a_list_cannot_express_is_refused() {
        for bad in
            ["/tmp/with space", "/tmp/$x", "/", "", "a/b", "/a:b", "/a;b", "/a\nb", "/a#b", "/a\"b"]
        {
            assert!(Layout::at(bad).check_prefix().unwrap_err().is_request(), "{bad}");
        }
        for good in ["/a/b-3.5", "/home/jos\u{e9}/x"] {
            Layout::at(good).check_prefix().unwrap();
        }
    }

    #[test]
    fn plain_versions_are_distinguished_from_others() {
        assert_eq!(numbers_of("3.5.10"), Some(vec![3, 5, 10]));
        for other in ["3.5.9-offload", "3.5.9-fips-3.5.4", "3.5.x", ""] {
            assert_eq!(numbers_of(other), None, "{other}");
        }
    }

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

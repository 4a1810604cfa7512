//! Builds a bundle: the request, the choice of the version, and the checks of a finished bundle.
//!
//! ```text
//!   request ──> choose: a version, and its source unless a finished bundle is there
//!                  │
//!                  v
//!   place (locked) ──> compile in a staging folder ──> move into place ──> refresh
//! ```

use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::compile::{self, CompileRequest};
use super::fetch::Attempts;
use super::patch;
use super::place::Place;
use super::source::{SourceRequest, version_of_archive};
use super::{Layout, Manifest};
use crate::bundle::configuration::write_configuration;
use crate::pins::{Pins, version_numbers};
use crate::progress::{Stage, run_stage};
use crate::{Error, Result, pins, provider, trust};

/// The request of a `gabion bundle build` command.
#[derive(Debug, Clone, Default)]
pub struct BuildRequest {
    /// OpenSSL version; `None` for the version of `source`, or the newest available one of the
    /// default line.
    pub version: Option<String>,
    /// Folder of the bundle; `None` for [`Layout::usual`].
    pub prefix: Option<PathBuf>,
    /// Installs the bundle under this folder, as for a package; its files refer to the paths of
    /// `prefix`.
    pub root: Option<PathBuf>,
    /// The source, if it is not a pinned one.
    pub source: SourceRequest,
    /// Version of the FIPS module, if it differs from that of the bundle.
    pub fips_module: Option<String>,
    /// Rebuild even if a bundle exists.
    pub repair: bool,
    /// Gabion's module; `None` for the one installed with this program.
    pub module: Option<PathBuf>,
    /// Keep an existing module.
    pub keep_module: bool,
    /// Apply the core patch, with which libcrypto's ML-KEM and ML-DSA can use libgabion.
    pub core_offload: bool,
    /// libgabion for the core patch; `None` for the one installed with this program.
    pub library: Option<PathBuf>,
    /// Number of parallel compiler processes; `None` for the number of cores.
    pub jobs: Option<usize>,
    /// Architecture of the bundle, `x86_64` or `aarch64`; `None` for this machine's. For another
    /// architecture, the FIPS module's self-tests, which create `fipsmodule.cnf`, are left to a
    /// machine of that architecture.
    pub arch: Option<String>,
}

/// Builds the missing parts and returns the layout of the finished bundle.
///
/// If there is a finished bundle, only its configuration files and Gabion's module are updated, and
/// a missing `fipsmodule.cnf` is created, as in a tarball. Concurrent builds of one bundle wait for
/// each other. The version, newer versions that could not be fetched, and the advisories that
/// affect it are always printed to standard error.
///
/// # Errors
/// Every variant of [`Error`]; the bundle's folder is then unchanged.
pub fn build(request: &BuildRequest) -> Result<Layout> {
    request.source.check()?;
    let pins = pins::pins()?;
    if let Some(module) = &request.fips_module {
        pins.find(module)?;
    }
    let (module, library) = (request.module()?, request.library()?);
    // Independent of the umask of this process, nothing built here is writable by others.
    let _owner_writes = trust::OwnerWrites::begin();
    let mut attempts = Attempts::default();
    let (version, archive) = choose(request, &pins, &mut attempts)?;
    let patch = request.core_offload.then(|| patch::core_offload(&version)).transpose()?;
    let named = request.layout(&version)?;
    let layout = match &request.root {
        Some(root) => named.under(&full_path(root)?),
        None => named.clone(),
    };
    let place = Place::claim(&layout)?;
    match find_finished(&layout, request, &version, patch)? {
        Some(manifest) => {
            eprintln!(
                "OpenSSL {} is already built (since {}) in {}",
                manifest.version,
                manifest.built,
                layout.prefix().display()
            );
        }
        None => {
            let archive = match archive {
                Some(archive) => archive,
                None => fetch(&pins, &version, &mut attempts)?,
            };
            let not_had = attempts.reasons.clone();
            let fips = request.fips_module.as_deref().filter(|module| **module != version);
            let fips = fips.map(|module| Ok((module, fetch(&pins, module, &mut attempts)?)));
            compile::run(
                &place,
                &layout,
                &named,
                &CompileRequest {
                    version: &version,
                    archive,
                    asked: request.version.is_some() || request.source.location.is_some(),
                    not_had,
                    fips: fips.transpose()?,
                    patch,
                    provider: choose_module(&layout, request, module.as_deref()),
                    library: choose_library(&layout, request, library.as_deref()),
                    jobs: request.jobs,
                    cross: request.cross(),
                },
            )?;
        }
    }
    let keep = request.keep_module && layout.gabion_module().exists();
    refresh(&layout, &named, module.as_deref().filter(|_| !keep))?;
    if request.cross().is_none() && !layout.fipsmodule_conf().exists() {
        place.with_staging(|staging, log| compile::test_fips_module(staging, log, &layout))?;
    }
    if request.core_offload {
        place_library(&layout, library.as_deref())?;
    }
    if let Some(manifest) = layout.manifest()? {
        report_unavailable_versions(&attempts, &manifest);
        for warning in manifest.version_status().warnings {
            eprintln!("warning: {warning}");
        }
    }
    Ok(layout)
}

impl BuildRequest {
    fn module(&self) -> Result<Option<PathBuf>> {
        match &self.module {
            Some(module) if !module.is_file() => {
                Err(Error::Request(format!("--module {}: no such file", module.display())))
            }
            Some(module) if !provider::is_shared_library(module) => Err(Error::Request(format!(
                "--module {}: expected Gabion's provider module, a shared library (ELF)",
                module.display()
            ))),
            Some(module) => Ok(Some(module.clone())),
            None => Ok(provider::find_module()),
        }
    }

    fn library(&self) -> Result<Option<PathBuf>> {
        match &self.library {
            Some(_) if !self.core_offload => {
                Err(Error::Request("--library requires --core-offload".to_string()))
            }
            Some(library) if !library.is_file() => {
                Err(Error::Request(format!("--library {}: no such file", library.display())))
            }
            Some(library) => Ok(Some(library.clone())),
            None => Ok(provider::find_library()),
        }
    }

    /// Returns the architecture that a cross compiler builds for.
    fn cross(&self) -> Option<&str> {
        self.arch.as_deref().filter(|arch| *arch != std::env::consts::ARCH)
    }

    /// Returns the layout of a bundle of `version`.
    fn layout(&self, version: &str) -> Result<Layout> {
        let layout = match &self.prefix {
            Some(prefix) => Layout::at(full_path(prefix)?),
            None => {
                let module = self.fips_module.as_deref().filter(|module| *module != version);
                Layout::usual_with(version, module, self.core_offload)?
            }
        };
        layout.check_prefix()?;
        Ok(layout)
    }
}

fn full_path(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|cause| Error::io("cannot make a full path of", path, cause))
}

/// Chooses the version, and returns its source if that was fetched already.
///
/// Without a requested version, this is the newest of the default line that is available, or whose
/// bundle is finished. A bundle in an explicit prefix may be in use, so it gets a newer version
/// only with `--repair`.
fn choose(
    request: &BuildRequest,
    pins: &Pins,
    attempts: &mut Attempts,
) -> Result<(String, Option<Archive>)> {
    if let Some(location) = &request.source.location {
        let (version, archive) = from_source(request, location, pins)?;
        return Ok((version, Some(archive)));
    }
    if let Some(version) = &request.version {
        pins.find(version)?;
        return Ok((version.clone(), None));
    }
    let finished = |version: &str| -> Result<Option<String>> {
        let manifest = request.layout(version)?.manifest();
        Ok(manifest.ok().flatten().filter(|_| !request.repair).map(|manifest| manifest.version))
    };
    if request.prefix.is_some()
        && let Some(version) = finished(pins.newest())?
    {
        return Ok((version, None));
    }
    for version in &pins.usual {
        if finished(version)?.as_ref() == Some(version) {
            return Ok((version.clone(), None));
        }
        if let Some(archive) = fetch_if_available(pins, version, attempts)? {
            return Ok((version.clone(), Some(archive)));
        }
    }
    Err(no_source_error(attempts))
}

/// Reads the source of `--source`. Its hash is checked before its version is read.
fn from_source(request: &BuildRequest, location: &str, pins: &Pins) -> Result<(String, Archive)> {
    if !location.contains("://") && !Path::new(location).exists() {
        return Err(Error::Request(format!("--source {location}: no such file")));
    }
    let folder = fetch_folder()?;
    let archive =
        run_stage("OpenSSL: source", || request.source.obtain(location, pins, folder.path()))?;
    let found = version_of_archive(&archive)?;
    match &request.version {
        Some(version) if *version != found => Err(Error::Request(format!(
            "the source is OpenSSL {found}, not {version}; give `--openssl {found}`"
        ))),
        _ => Ok((found, archive)),
    }
}

/// Returns a folder for downloads. They are read into memory, so only the folder's privacy matters.
fn fetch_folder() -> Result<tempfile::TempDir> {
    let place = std::env::temp_dir();
    trust::check_folder(&place)?;
    trust::private_folder(&place, "gabion-source-")
}

/// Fetches a version if it is available anywhere.
fn fetch_if_available(
    pins: &Pins,
    version: &str,
    attempts: &mut Attempts,
) -> Result<Option<Archive>> {
    let folder = fetch_folder()?;
    let pin = pins.find(version)?;
    let stage = Stage::start("OpenSSL: source", 0);
    let archive = attempts.fetch(pin, folder.path());
    match &archive {
        Some(archive) => stage.ended(&format!("of {version}: from {}", archive.from)),
        // Not a failure: the next older version is tried next.
        None => stage.ended(&format!("of {version}: not available")),
    }
    Ok(archive)
}

/// Reports the version, and why newer ones could not be fetched.
fn report_unavailable_versions(attempts: &Attempts, manifest: &Manifest) {
    let taken = version_numbers(&manifest.version);
    let is_newer = |reason: &&String| {
        reason.split(' ').next().is_some_and(|version| version_numbers(version) > taken)
    };
    let reasons: Vec<&String> = attempts.reasons.iter().filter(is_newer).collect();
    if !reasons.is_empty() {
        eprintln!("using OpenSSL {}, because no newer version is available:", manifest.version);
    }
    for reason in reasons {
        eprintln!("    {reason}");
    }
}

fn fetch(pins: &Pins, version: &str, attempts: &mut Attempts) -> Result<Archive> {
    fetch_if_available(pins, version, attempts)?.ok_or_else(|| no_source_error(attempts))
}

fn no_source_error(attempts: &Attempts) -> Error {
    Error::Program(format!(
        "OpenSSL's source is not available:\n       {}\n       give the tarball with `--source FILE|URL`",
        attempts.reasons.join("\n       ")
    ))
}

/// Returns the module for a new bundle: the newest one, or otherwise the module of the existing
/// bundle.
fn choose_module(layout: &Layout, request: &BuildRequest, fresh: Option<&Path>) -> Option<PathBuf> {
    let old = Some(layout.gabion_module()).filter(|old| old.exists());
    let fresh = fresh.map(Path::to_path_buf);
    if request.keep_module { old.or(fresh) } else { fresh.or(old) }
}

fn choose_library(
    layout: &Layout,
    request: &BuildRequest,
    fresh: Option<&Path>,
) -> Option<PathBuf> {
    let old = Some(layout.gabion_library()).filter(|old| old.exists());
    fresh.map(Path::to_path_buf).or(old).filter(|_| request.core_offload)
}

/// Installs libgabion where the patched libcrypto opens it, if it differs from the installed one.
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
            "warning: no libgabion.so was found in this program's folder, so GABION_OFFLOAD=1 has nothing \
             to offload to; build it with `cargo build --release`, then run `gabion bundle build \
             --core-offload` again, or give it with --library"
        ),
    }
    Ok(())
}

/// Updates the configuration files and the module of a finished bundle if they differ.
fn refresh(layout: &Layout, named: &Layout, module: Option<&Path>) -> Result<()> {
    if write_configuration(layout, named)? {
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
            "warning: no provider module was found in this program's folder, so the bundle has no \
             gabion.so; build it with `cargo build --release`, then run `gabion bundle build` again"
        ),
    }
    Ok(())
}

/// Returns the finished bundle that makes a build unnecessary.
fn find_finished(
    layout: &Layout,
    request: &BuildRequest,
    version: &str,
    patch: Option<&str>,
) -> Result<Option<Manifest>> {
    let prefix = layout.prefix().display();
    // Even a damaged record shows that the folder is a bundle and can be replaced.
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
    layout.check_trust()?;
    if manifest.version != version {
        return Err(Error::Request(format!(
            "{prefix} holds OpenSSL {}, not {version}; choose another --prefix, or replace it with \
             --repair",
            manifest.version
        )));
    }
    if !fits(&manifest, request, version, patch, layout)? {
        return Ok(None);
    }
    // That file is created again.
    let made = layout.fipsmodule_conf();
    if let Some(part) = layout.missing_parts().iter().find(|part| **part != made) {
        return Err(Error::NotReady(format!(
            "the bundle in {prefix} is broken: {} is missing; build it again with \
             `gabion bundle build --repair`",
            part.display()
        )));
    }
    Ok(Some(manifest))
}

/// Returns whether a finished bundle is of the requested kind; false if it is but must be rebuilt.
fn fits(
    manifest: &Manifest,
    request: &BuildRequest,
    version: &str,
    patch: Option<&str>,
    layout: &Layout,
) -> Result<bool> {
    let prefix = layout.prefix().display();
    let module = manifest.module_version();
    // Without a requested version in an explicit prefix, the existing bundle is updated.
    let wanted = match &request.fips_module {
        Some(wanted) => wanted,
        None if request.prefix.is_some() => module,
        None => version,
    };
    if module != wanted {
        return Err(Error::Request(format!(
            "{prefix} holds the FIPS module of {module}, not of {wanted}; choose another --prefix, or \
             replace it with --repair"
        )));
    }
    match (&manifest.core_patch_sha256, patch) {
        (None, None) => Ok(true),
        // A bundle built from another patch must be rebuilt.
        (Some(there), Some(patch)) => Ok(*there == crate::sha256_text(patch.as_bytes())),
        (there, _) => Err(Error::Request(format!(
            "{prefix} holds an OpenSSL {} the core patch; choose another --prefix, or replace it with \
             --repair",
            if there.is_some() { "with" } else { "without" }
        ))),
    }
}

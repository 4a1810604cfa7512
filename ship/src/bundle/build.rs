//! What `gabion bundle build` is asked, which version answers it, and what a finished bundle needs.
//!
//! ```text
//!   request ──> choose: a version, and its source unless a finished bundle is there
//!                  │
//!                  v
//!   place (locked) ──> compile in a folder of its own ──> move into place ──> refresh
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

/// What the command line asks of [`build`].
#[derive(Debug, Clone, Default)]
pub struct BuildRequest {
    /// OpenSSL version; `None` for the newest of the usual line that can be had, or the one of
    /// `source`.
    pub version: Option<String>,
    /// Where the bundle goes; `None` for [`Layout::usual`].
    pub prefix: Option<PathBuf>,
    /// Put the bundle into a tree under this folder, as for a package: its files name the paths of `prefix`.
    pub root: Option<PathBuf>,
    /// The source, when it is not a pinned one.
    pub source: SourceRequest,
    /// Version of the FIPS module, where it is not that of the bundle.
    pub fips_module: Option<String>,
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
    /// Processor that the bundle is for, `x86_64` or `aarch64`; `None` for this machine's. Another one's self-tests
    /// of the FIPS module, which make `fipsmodule.cnf`, are left to a machine that has it.
    pub arch: Option<String>,
}

/// Builds what is missing and returns the finished bundle's layout.
///
/// With a finished bundle there, only its configuration files and Gabion's module are refreshed, and
/// `fipsmodule.cnf` is made if it is missing, as in a tarball.
/// Two builds of one bundle wait for each other. Which version it is, which newer one could not be had and
/// what advisories concern it is said on standard error, every time.
///
/// # Errors
/// Every variant of [`Error`]; the place of the bundle then holds what it held before.
pub fn build(request: &BuildRequest) -> Result<Layout> {
    request.source.check()?;
    let pins = pins::pins()?;
    if let Some(module) = &request.fips_module {
        pins.find(module)?;
    }
    let (module, library) = (request.module()?, request.library()?);
    // Whatever umask this process was started with: others write to nothing that is built here.
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
                Err(Error::Request("--library goes with --core-offload".to_string()))
            }
            Some(library) if !library.is_file() => {
                Err(Error::Request(format!("--library {}: no such file", library.display())))
            }
            Some(library) => Ok(Some(library.clone())),
            None => Ok(provider::find_library()),
        }
    }

    /// The processor that a cross compiler builds for.
    fn cross(&self) -> Option<&str> {
        self.arch.as_deref().filter(|arch| *arch != std::env::consts::ARCH)
    }

    /// Where a bundle of `version` goes.
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

/// Which version it is to be, with its source where that was fetched already.
///
/// None named: the newest of the usual line that can be had, or that is finished in its place. A bundle
/// that a prefix names is brought up to date only by `--repair`: it may be in use.
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

/// What `--source` names, its hash checked before its version is read.
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

/// A folder for what is downloaded. It is read into memory, so that only its privacy matters.
fn fetch_folder() -> Result<tempfile::TempDir> {
    let place = std::env::temp_dir();
    trust::check_folder(&place)?;
    trust::private_folder(&place, "gabion-source-")
}

/// Fetches a version if a place has it.
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
        // No failure: the next older one is as good an answer, and is asked for next.
        None => stage.ended(&format!("of {version}: not to be had here")),
    }
    Ok(archive)
}

/// Reports which version is used, and why newer ones could not be fetched.
fn report_unavailable_versions(attempts: &Attempts, manifest: &Manifest) {
    let taken = version_numbers(&manifest.version);
    let is_newer = |reason: &&String| {
        reason.split(' ').next().is_some_and(|version| version_numbers(version) > taken)
    };
    let reasons: Vec<&String> = attempts.reasons.iter().filter(is_newer).collect();
    if !reasons.is_empty() {
        eprintln!("OpenSSL {} is taken, since no newer one is to be had here:", manifest.version);
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
        "OpenSSL's source is not to be had:\n       {}\n       give the tarball with `--source FILE|URL`",
        attempts.reasons.join("\n       ")
    ))
}

/// What of ours a new bundle has from its first moment on: the newest there is, or better what an
/// older bundle in its place has than none.
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
            "warning: no provider module was found beside this program, so the bundle has no \
             gabion.so; build it with `cargo build --release`, then run `gabion bundle build` again"
        ),
    }
    Ok(())
}

/// The finished bundle that makes a build unnecessary, if there is one.
fn find_finished(
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
    // That file is made again.
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

/// Whether a finished bundle is of the wanted kind; false when it is, and out of date.
fn fits(
    manifest: &Manifest,
    request: &BuildRequest,
    version: &str,
    patch: Option<&str>,
    layout: &Layout,
) -> Result<bool> {
    let prefix = layout.prefix().display();
    let module = manifest.module_version();
    // Not named, in a place that is: whatever is there is refreshed.
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
        // What was built from another patch is out of date.
        (Some(there), Some(patch)) => Ok(*there == crate::sha256_text(patch.as_bytes())),
        (there, _) => Err(Error::Request(format!(
            "{prefix} holds an OpenSSL {} the core patch; choose another --prefix, or replace it with \
             --repair",
            if there.is_some() { "with" } else { "without" }
        ))),
    }
}

//! Adds Gabion's provider to the configuration file that all OpenSSL programs of the host read.
//!
//! ```text
//!   openssl.cnf ──parse──> block ──> .openssl.cnf.gabion-RANDOM ──check──> backup ──rename──> openssl.cnf ──check──> done
//!                                          │ fails: nothing changed                              │ fails: the old content again
//! ```
//!
//! Services that do not start cannot be repaired over the network. Therefore a failed step leaves
//! the old file in place, and `disable` needs neither the module nor a working configuration.

mod block;
mod check;
mod parse;

use std::fs::{File, Metadata};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use self::block::Content;
use self::check::{Checker, Offer};
use crate::provider::{InstalledOpenssl, describe, find_module, inspect};
use crate::{Error, Result, trust};

/// The change to make.
#[derive(Debug)]
pub struct ConfigRequest {
    /// The `openssl` command of the installation.
    pub openssl: PathBuf,
    /// The configuration file; `None` for the installation's own.
    pub config: Option<PathBuf>,
}

/// The result of a change.
#[derive(Debug, Serialize)]
pub struct ConfigOutcome {
    /// The configuration file, with symbolic links resolved.
    pub config: PathBuf,
    /// Whether it was changed.
    pub changed: bool,
    /// The backup with the previous content.
    pub backup: Option<PathBuf>,
    /// The provider module that the file names, or that OpenSSL finds by name.
    pub module: Option<PathBuf>,
    /// A warning for the user.
    pub warning: Option<String>,
}

/// Makes every program that reads the configuration file load Gabion's provider.
///
/// # Errors
/// [`Error::Request`] if the file is incompatible with the provider, [`Error::CheckFailed`] if
/// OpenSSL does not work with the new content, and other errors if a file cannot be read or
/// written. The file is then unchanged.
pub fn enable(request: &ConfigRequest, module: Option<&Path>) -> Result<ConfigOutcome> {
    let installed = inspect(&request.openssl)?;
    let file = ConfigFile::open(request, Some(&installed))?;
    let content = Content::divide(&file.content, &file.path)?;
    let checker = Checker::new(&request.openssl)?;
    let before = file.offer_without_block(&checker, &content)?;
    if before.has_gabion() {
        let warning = format!(
            "{} already loads `gabion` outside the lines of `gabion provider enable`",
            file.path.display()
        );
        return Ok(ConfigOutcome { warning: Some(warning), ..file.unchanged() });
    }
    if !before.providers.iter().any(|provider| provider == "default") {
        return Err(Error::Request(format!(
            "{} activates {} and not the default provider, which Gabion's depends on",
            file.path.display(),
            before.providers.join(", ")
        )));
    }
    let (module, is_found_by_name) = module_of(module, &installed)?;
    let named = (!is_found_by_name).then_some(&*module);
    let new = content.with_block(&block::lines(&content, named, &file.path)?);
    let path = file.path.display();
    if new == file.content {
        checker.gabion(&file.path, &before).map_err(|why| {
            Error::CheckFailed(format!("{path} was not changed; it loads `gabion`, but {why}"))
        })?;
        return Ok(ConfigOutcome { module: Some(module), ..file.unchanged() });
    }
    let staged = file.stage(&new)?;
    checker.gabion(staged.path(), &before).map_err(|why| {
        Error::CheckFailed(format!("{path} was not changed: with Gabion's provider in it, {why}"))
    })?;
    let backup = file.backup_file();
    file.commit(file.stage(&content.without_block())?, &backup)?;
    file.commit(staged, &file.path)?;
    if let Err(why) = checker.gabion(&file.path, &before) {
        file.restore(&backup)?;
        return Err(Error::CheckFailed(format!("{path} was restored: {why}")));
    }
    Ok(ConfigOutcome {
        changed: true,
        backup: Some(backup),
        module: Some(module),
        ..file.unchanged()
    })
}

/// Removes the additions of [`enable`] from the configuration file, whether or not OpenSSL works
/// with it.
///
/// # Errors
/// [`Error::Request`] if the block cannot be identified, and other errors if a file cannot be read
/// or written. The file is then unchanged.
pub fn disable(request: &ConfigRequest) -> Result<ConfigOutcome> {
    let installed = match request.config {
        Some(_) => None,
        None => Some(describe(&request.openssl)?),
    };
    let file = ConfigFile::open(request, installed.as_ref())?;
    let old = Content::divide(&file.content, &file.path)?.without_block();
    if old == file.content {
        return Ok(file.unchanged());
    }
    file.commit(file.stage(&old)?, &file.path)?;
    let backup = file.backup_file();
    let is_spare = std::fs::read(&backup).is_ok_and(|kept| kept == old);
    // A leftover copy does no harm.
    let is_gone = is_spare && std::fs::remove_file(&backup).is_ok();
    let works = Checker::new(&request.openssl)
        .map_err(|error| error.to_string())
        .and_then(|checker| checker.offer(&file.path));
    let warning =
        works.err().map(|why| format!("with {} as it is now, {why}", file.path.display()));
    let backup = Some(backup).filter(|backup| !is_gone && backup.exists());
    Ok(ConfigOutcome { changed: true, backup, warning, ..file.unchanged() })
}

/// Returns the module's full path, and whether OpenSSL finds it by name.
///
/// # Errors
/// [`Error::NotReady`] if there is no module, or another user than its owner and root could replace
/// it.
fn module_of(module: Option<&Path>, installed: &InstalledOpenssl) -> Result<(PathBuf, bool)> {
    let own = installed.modules.join("gabion.so");
    let (module, is_found_by_name) = match module {
        Some(module) => (module.to_path_buf(), false),
        None if own.is_file() => (own, true),
        None => (find_module().ok_or_else(no_module)?, false),
    };
    let cannot = |cause| Error::io("cannot read", &module, cause);
    // The file itself may be a link to a versioned file, which may change.
    let folder = module.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().map_err(cannot)?;
    let full = folder.join(module.file_name().unwrap_or_default());
    trust::check_file(&full)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    if !full.to_str().is_some_and(|text| text.chars().all(is_plain)) {
        return Err(Error::Request(format!(
            "the module's path {:?} cannot be written into a configuration file: expected letters, digits and /._+- only",
            full.to_string_lossy()
        )));
    }
    Ok((full, is_found_by_name))
}

fn no_module() -> Error {
    Error::NotReady(
        "no provider module: neither gabion.so in OpenSSL's module folder (`gabion provider install` puts it there), \
         nor ../lib/gabion/gabion.so or libgabion_provider.so next to this program; name it with --module"
            .to_string(),
    )
}

/// A configuration file, locked against concurrent changes.
struct ConfigFile {
    path: PathBuf,
    content: Vec<u8>,
    data: Metadata,
    /// The folder, held open with its lock.
    folder: File,
}

impl ConfigFile {
    fn open(request: &ConfigRequest, installed: Option<&InstalledOpenssl>) -> Result<Self> {
        let named = match (&request.config, installed) {
            (Some(config), _) => config.clone(),
            (None, Some(installed)) => installed.ssl.join("openssl.cnf"),
            (None, None) => return Err(Error::Request("no configuration file is named".into())),
        };
        let path = named.canonicalize().map_err(|cause| Error::io("cannot read", &named, cause))?;
        let cannot = |cause| Error::io("cannot read", &path, cause);
        let data = std::fs::metadata(&path).map_err(cannot)?;
        if !data.is_file() {
            return Err(Error::Request(format!("{} is not a file", path.display())));
        }
        let parent = path.parent().unwrap_or(Path::new("/"));
        let folder = File::open(parent).map_err(|cause| Error::io("cannot read", parent, cause))?;
        folder.try_lock().map_err(|cause| {
            Error::NotReady(format!(
                "cannot lock {}: {cause}; is another `gabion provider` running?",
                parent.display()
            ))
        })?;
        let content = std::fs::read(&path).map_err(cannot)?;
        let file = ConfigFile { content, data, folder, path };
        file.sweep();
        Ok(file)
    }

    fn unchanged(&self) -> ConfigOutcome {
        let config = self.path.clone();
        ConfigOutcome { config, changed: false, backup: None, module: None, warning: None }
    }

    fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the prefix of temporary file names. None of these names has an extension that
    /// OpenSSL includes from a configuration folder.
    fn stage_prefix(&self) -> String {
        format!(".{}.gabion-", self.file_name())
    }

    fn backup_file(&self) -> PathBuf {
        self.path.with_file_name(format!("{}.gabion-backup", self.file_name()))
    }

    /// Removes leftovers of killed processes.
    fn sweep(&self) {
        let prefix = self.stage_prefix();
        for entry in std::fs::read_dir(self.parent()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Returns the features that OpenSSL offers without the block.
    fn offer_without_block(&self, checker: &Checker, content: &Content) -> Result<Offer> {
        let staged = self.stage(&content.without_block())?;
        checker.offer(staged.path()).map_err(|why| {
            Error::CheckFailed(format!(
                "{} was not changed: also without Gabion's provider, {why}",
                self.path.display()
            ))
        })
    }

    /// Writes a file with the same owner, mode and attributes to the same folder, and syncs it.
    fn stage(&self, content: &[u8]) -> Result<NamedTempFile> {
        let write = || -> std::io::Result<NamedTempFile> {
            let mut builder = tempfile::Builder::new();
            let mut staged =
                builder.prefix(&self.stage_prefix()).suffix(".part").tempfile_in(self.parent())?;
            staged.write_all(content)?;
            std::os::unix::fs::fchown(
                staged.as_file(),
                Some(self.data.uid()),
                Some(self.data.gid()),
            )?;
            copy_attributes(&self.path, staged.as_file())?;
            // Set after the owner, because changing the owner clears bits.
            staged.as_file().set_permissions(self.data.permissions())?;
            staged.as_file().sync_all()?;
            Ok(staged)
        };
        write()
            .map_err(|cause| Error::io("cannot write a temporary file next to", &self.path, cause))
    }

    /// Moves a staged file into place.
    fn commit(&self, staged: NamedTempFile, place: &Path) -> Result<()> {
        if std::fs::read(&self.path).ok().as_deref() != Some(&*self.content) {
            let path = self.path.display();
            return Err(Error::NotReady(format!(
                "another program changed {path} meanwhile; try again"
            )));
        }
        let persisted = staged.persist(place).map_err(|error| error.error);
        persisted
            .and_then(|_| self.folder.sync_all())
            .map_err(|cause| Error::io("cannot replace", place, cause))
    }

    /// Restores the previous content.
    fn restore(&self, backup: &Path) -> Result<()> {
        let restored = self.stage(&self.content).and_then(|staged| {
            let persisted = staged.persist(&self.path).map_err(|error| error.error);
            persisted
                .and_then(|_| self.folder.sync_all())
                .map_err(|cause| Error::io("cannot replace", &self.path, cause))
        });
        restored.map_err(|error| {
            Error::CheckFailed(format!(
                "OpenSSL does not work with {path}, and the old content cannot be put back ({error}); do it by hand: \
                 `cp {backup} {path}`",
                path = self.path.display(),
                backup = backup.display()
            ))
        })
    }
}

/// Copies extended attributes, including access control lists.
fn copy_attributes(from: &Path, to: &File) -> std::io::Result<()> {
    let mut names = vec![0; 64 << 10];
    let length = match rustix::fs::listxattr(from, &mut names) {
        // The file system does not support attributes.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        length => length?,
    };
    for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 64 << 10];
        let length = rustix::fs::getxattr(from, name, &mut value)?;
        let copied =
            rustix::fs::fsetxattr(to, name, &value[..length], rustix::fs::XattrFlags::empty());
        // Skipped: the system labels new files itself, and may not permit others to.
        if !name.starts_with(b"security.") {
            copied?;
        }
    }
    Ok(())
}

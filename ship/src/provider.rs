//! Gabion's provider module: finds it and installs it in an OpenSSL.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::pins::version_numbers;
use crate::{Error, Result, replace_file};

/// The first OpenSSL with the upcalls and algorithms that the module needs.
const OLDEST_OPENSSL: [u32; 2] = [3, 5];

/// An installed OpenSSL.
#[derive(Debug, Clone)]
pub struct InstalledOpenssl {
    /// The version.
    pub version: String,
    /// The folder where it looks for provider modules.
    pub modules: PathBuf,
    /// The folder where it looks for `openssl.cnf`.
    pub ssl: PathBuf,
}

/// Finds the module installed with this program: in its folder, in `../lib/gabion`, or in
/// `/usr/lib/gabion`.
#[must_use]
pub fn find_module() -> Option<PathBuf> {
    // Resolves a symbolic link to the folder where the program and the module are installed.
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    let packaged = PathBuf::from("/usr/lib/gabion/gabion.so");
    [folder.join("libgabion_provider.so"), folder.join("../lib/gabion/gabion.so"), packaged]
        .into_iter()
        .find(|candidate| candidate.is_file())
}

/// Finds the C library installed with this program: in its folder, or in `../lib`.
#[must_use]
pub fn find_library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    [folder.join("libgabion.so"), folder.join("../lib/libgabion.so.1")]
        .into_iter()
        .find(|candidate| candidate.is_file())
}

/// The first bytes of a shared library.
const ELF: &[u8] = b"\x7fELF";

/// Returns whether a file is a shared library, judged by its first bytes.
pub(crate) fn is_shared_library(file: &Path) -> bool {
    let mut head = [0; ELF.len()];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *ELF
}

/// Copies `module` to `place` atomically if they differ. Returns whether it was copied.
///
/// Programs that have loaded the old module keep it.
///
/// # Errors
/// [`Error::Integrity`] if `module` is not a shared library, [`Error::Io`] otherwise.
pub fn place_module(module: &Path, place: &Path) -> Result<bool> {
    let bytes = std::fs::read(module).map_err(|cause| Error::io("cannot read", module, cause))?;
    if !bytes.starts_with(ELF) {
        return Err(Error::Integrity(format!(
            "{} is not a shared library (ELF); expected Gabion's provider module",
            module.display()
        )));
    }
    replace_file(place, &bytes, 0o755)
}

/// Returns the module folder of an `openssl` command, and rejects a version that is too old.
///
/// # Errors
/// [`Error::NotReady`] if it cannot be run or is older than 3.5.
pub fn inspect(openssl: &Path) -> Result<InstalledOpenssl> {
    let (version, text) = version(openssl)?;
    if version_numbers(&version).as_slice() < OLDEST_OPENSSL.as_slice() {
        return Err(Error::NotReady(format!(
            "{} is OpenSSL {version}; the provider needs 3.5 or newer. `gabion bundle build` makes \
             one that does not touch the system's",
            openssl.display()
        )));
    }
    installed(version, &text)
}

/// Returns the module folder of an `openssl` command of any version.
///
/// # Errors
/// [`Error::NotReady`] if it cannot be run.
pub(crate) fn describe(openssl: &Path) -> Result<InstalledOpenssl> {
    let (version, text) = version(openssl)?;
    installed(version, &text)
}

/// Returns the version of an `openssl` command, and all that `openssl version` prints.
fn version(openssl: &Path) -> Result<(String, String)> {
    let output = Command::new(openssl)
        .args(["version", "-v", "-m", "-d"])
        // Ignores the configuration file, which may be broken.
        .env("OPENSSL_CONF", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| {
            Error::NotReady(format!(
                "cannot run {}: {cause}; name the command with --openssl",
                openssl.display()
            ))
        })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace().skip_while(|word| *word != "OpenSSL");
    match words.nth(1).filter(|version| version.starts_with(|c: char| c.is_ascii_digit())) {
        Some(version) => Ok((version.to_string(), text)),
        None => Err(Error::NotReady(format!(
            "{} does not identify itself as OpenSSL: its version is {:?}",
            openssl.display(),
            text.lines().next().unwrap_or_default()
        ))),
    }
}

fn installed(version: String, text: &str) -> Result<InstalledOpenssl> {
    let [modules, ssl] = ["MODULESDIR", "OPENSSLDIR"].map(|key| quoted_path(text, key));
    Ok(InstalledOpenssl { version, modules: modules?, ssl: ssl? })
}

/// Parses `KEY: "path"` in the output of `openssl version`.
fn quoted_path(text: &str, key: &str) -> Result<PathBuf> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.trim_start_matches(':').trim().strip_prefix('"'))
        .and_then(|rest| rest.strip_suffix('"'))
        .map(PathBuf::from)
        .ok_or_else(|| Error::NotReady(format!("`openssl version -a` does not print {key}")))
}

/// Copies the module to an installed OpenSSL's module folder. Returns the file, and whether it
/// changed.
///
/// # Errors
/// Fails like [`place_module`]; [`Error::NotReady`] if the folder does not exist.
pub fn install(installed: &InstalledOpenssl, module: &Path) -> Result<(PathBuf, bool)> {
    if !installed.modules.is_dir() {
        return Err(Error::NotReady(format!(
            "OpenSSL {} looks for modules in {}, which does not exist",
            installed.version,
            installed.modules.display()
        )));
    }
    let place = installed.modules.join("gabion.so");
    let changed = place_module(module, &place)?;
    Ok((place, changed))
}

/// Returns the lines to add to an installed OpenSSL's configuration file; they are also a complete
/// file.
#[must_use]
pub fn configuration(installed: &InstalledOpenssl) -> String {
    format!(
        "# Gabion's provider for OpenSSL {version}: add this to {conf},\n\
         # or save it as a separate file and name it in OPENSSL_CONF.\n\
         # A file that has an openssl_conf line and these sections already: add the lines that are\n\
         # missing to the sections that it names. `default` must stay activated, and the question\n\
         # mark must stay: without either nothing works.\n\
         openssl_conf = openssl_init\n\
         \n\
         [openssl_init]\n\
         providers = provider_sect\n\
         alg_section = algorithm_sect\n\
         \n\
         [provider_sect]\n\
         default = default_sect\n\
         gabion = gabion_sect\n\
         \n\
         [default_sect]\n\
         activate = 1\n\
         \n\
         # OpenSSL finds it as {module}, where\n\
         # `gabion provider install` puts it.\n\
         [gabion_sect]\n\
         activate = 1\n\
         \n\
         [algorithm_sect]\n\
         default_properties = ?provider=gabion\n",
        version = installed.version,
        conf = installed.ssl.join("openssl.cnf").display(),
        module = installed.modules.join("gabion.so").display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fake_openssl(folder: &Path, version: &str) -> PathBuf {
        let path = folder.join("openssl");
        let script = format!(
            "#!/bin/sh\necho 'OpenSSL {version} 1 Jan 2026'\necho 'OPENSSLDIR: \"/s\"'\n\
             echo 'MODULESDIR: \"{}\"'\n",
            folder.display()
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn an_old_openssl_is_refused_and_a_newer_one_is_described() {
        let folder = tempfile::tempdir().unwrap();
        for old in ["3.0.17", "1.1.1w", "3.4.9"] {
            let error = inspect(&fake_openssl(folder.path(), old)).unwrap_err().to_string();
            assert!(error.contains(old) && error.contains("3.5 or newer"), "{error}");
        }
        for new in ["3.5.0", "3.10.1", "4.0.3"] {
            let installed = inspect(&fake_openssl(folder.path(), new)).unwrap();
            assert_eq!(installed.version, new);
            assert_eq!(installed.modules, folder.path());
        }
        assert!(inspect(Path::new("/bin/true")).is_err());
        assert!(inspect(Path::new("/nonexistent/openssl")).is_err());
    }

    #[test]
    fn only_elf_modules_are_placed_and_only_when_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (module, place) = (folder.path().join("in.so"), folder.path().join("gabion.so"));
        std::fs::write(&module, b"#!/bin/sh\n").unwrap();
        assert!(matches!(place_module(&module, &place), Err(Error::Integrity(_))));
        assert!(!place.exists());
        std::fs::write(&module, b"\x7fELF one").unwrap();
        assert!(place_module(&module, &place).unwrap());
        assert!(!place_module(&module, &place).unwrap());
        std::fs::write(&module, b"\x7fELF two").unwrap();
        assert!(place_module(&module, &place).unwrap());
        assert_eq!(std::fs::read(&place).unwrap(), b"\x7fELF two");
        assert_eq!(std::fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o755);
    }
}

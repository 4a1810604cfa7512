//! The size that each family of algorithms adds to a module, measured in two ways.
//!
//! - Of one module: how many bytes of it belong to functions and tables whose path names a family. Code
//!   that families share (Keccak, SHA-2, random numbers, the provider's own) counts as shared, and so does
//!   what no symbol covers.
//! - Of two: the module's stripped size less that of one that was built without the family, which
//!   a Cargo feature leaves out. `script/size` builds them.

use std::path::{Path, PathBuf};

pub use gabion_rows::size::{Build, Module, Part};

use crate::Error;
use crate::machine::Machine;

/// A family, and the pieces of a symbol's path that name it. The first that matches counts.
const FAMILIES: &[(&str, &[&str])] = &[
    ("SLH-DSA", &["slh_dsa", "3slh", "Slh"]),
    (
        "composite ML-DSA, with RSA",
        &["composite", "3rsa", "_rsa", "Rsa", "crypto_bigint", "crypto_primes"],
    ),
    ("FN-DSA and Falcon", &["fn_dsa", "falcon", "Falcon", "FnDsa"]),
    ("hybrid KEMs", &["hybrid", "Hybrid", "x_wing"]),
    ("Ed25519", &["ed25519", "Ed25519", "edwards", "curve25519_dalek"]),
    (
        "curves: X25519, P-256, P-384, P-521",
        &[
            "x25519",
            "3ecc",
            "rfc6979",
            "X25519",
            "graviola",
            "p256",
            "p384",
            "p521",
            "ecdsa",
            "ecdh",
            "primeorder",
            "elliptic_curve",
        ],
    ),
    ("ML-DSA", &["ml_dsa", "MlDsa", "dsa_"]),
    ("ML-KEM", &["ml_kem", "MlKem", "kem_"]),
    (
        "SHA-2 and SHA-3",
        &["keccak", "sponge", "sha2", "sha3", "shake", "sha256", "sha512", "sha_ni"],
    ),
    ("standard library and its generic code", &["3std", "4core", "5alloc", "gimli", "addr2line"]),
];

/// Measures a module, which was built from `commit`, and those that were built `without` the named
/// families.
///
/// # Errors
/// `NotReady` when a file cannot be read, `Usage` when it is not an ELF file or has no symbols.
pub fn measure(
    path: &Path,
    commit: Option<String>,
    without: &[(String, PathBuf)],
) -> Result<Module, Error> {
    let bytes = read(path)?;
    let (stripped, symbols) = Elf { bytes: &bytes }.read().ok_or_else(|| no_module(path))?;
    let mut builds = Vec::new();
    for (name, path) in without {
        let bytes = read(path)?;
        let (stripped_bytes, _) = Elf { bytes: &bytes }.read().ok_or_else(|| no_module(path))?;
        let more = stripped as i64 - stripped_bytes as i64;
        builds.push(Build { without: name.clone(), stripped_bytes, bytes: more });
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut end = 0;
    for symbol in &symbols {
        // Symbols are in the order of their addresses; folded functions have several names.
        let size = (symbol.address + symbol.size).saturating_sub(end.max(symbol.address));
        end = end.max(symbol.address + symbol.size);
        let family = family(symbol.name);
        match parts.iter_mut().find(|part| part.family == family) {
            Some(part) => {
                part.symbols += 1;
                part.bytes += size;
            }
            None => parts.push(Part { family: family.into(), symbols: 1, bytes: size, without: 0 }),
        }
    }
    let covered: u64 = parts.iter().map(|part| part.bytes).sum();
    let rest = stripped.saturating_sub(covered);
    let family = "no symbol: unwinding, strings, constants, headers".to_owned();
    parts.push(Part { family, symbols: 0, bytes: rest, without: 0 });
    parts.iter_mut().for_each(|part| part.without = stripped - part.bytes);
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    Ok(Module {
        // Without its folder, which is specific to this machine.
        file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        file_bytes: bytes.len() as u64,
        stripped_bytes: stripped,
        parts,
        builds,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit,
        machine: Machine::detect(),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|cause| {
        Error::NotReady(format!(
            "{} cannot be read: {cause}; build the bundle with `gabion bundle build`, or name a \
             module with --module",
            path.display()
        ))
    })
}

fn no_module(path: &Path) -> Error {
    Error::Usage(format!(
        "{} is not a 64-bit little-endian ELF file with a symbol table; one that was stripped \
         cannot be told apart",
        path.display()
    ))
}

fn family(symbol: &str) -> &'static str {
    let named = |(_, pieces): &&(&str, &[&str])| pieces.iter().any(|piece| symbol.contains(piece));
    FAMILIES.iter().find(named).map_or("shared: provider, engine, batches", |(family, _)| family)
}

/// A named range of a module.
struct Symbol<'b> {
    name: &'b str,
    address: u64,
    size: u64,
}

/// The little of ELF that is needed: section headers and the symbol table.
struct Elf<'b> {
    bytes: &'b [u8],
}

const SECTION: usize = 64;
const SYMBOL: usize = 24;
const SHT_SYMTAB: u64 = 2;
const SHT_NOBITS: u64 = 8;
const SHF_ALLOC: u64 = 2;

impl<'b> Elf<'b> {
    /// The stripped size, and the defined symbols by address; none for another kind of file.
    fn read(&self) -> Option<(u64, Vec<Symbol<'b>>)> {
        // Class 64, little-endian.
        if self.bytes.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let (sections, count) = (self.number(0x28, 8)? as usize, self.number(0x3c, 2)? as usize);
        let section = |at: usize| sections + at * SECTION;
        let (mut stripped, mut symbols) = (0, Vec::new());
        for at in (0..count).map(section) {
            let (kind, flags) = (self.number(at + 4, 4)?, self.number(at + 8, 8)?);
            let (start, size) = (self.number(at + 24, 8)?, self.number(at + 32, 8)?);
            if flags & SHF_ALLOC != 0 && kind != SHT_NOBITS {
                stripped = stripped.max(start.checked_add(size)?);
            }
            if kind == SHT_SYMTAB {
                let names = section(self.number(at + 40, 4)? as usize);
                let names = self.number(names + 24, 8)? as usize;
                let holds_bytes = |index: u64| {
                    let kind = self.number(section(index as usize) + 4, 4);
                    index != 0 && (index as usize) < count && kind != Some(SHT_NOBITS)
                };
                symbols = self.symbols(start as usize, size as usize, names, holds_bytes)?;
            }
        }
        symbols.sort_by_key(|symbol| symbol.address);
        (!symbols.is_empty()).then_some((stripped, symbols))
    }

    /// `holds_bytes` says of a section's number whether it is one that the file has bytes of.
    fn symbols(
        &self,
        start: usize,
        size: usize,
        names: usize,
        holds_bytes: impl Fn(u64) -> bool,
    ) -> Option<Vec<Symbol<'b>>> {
        let mut symbols = Vec::new();
        for at in (start..start.checked_add(size)?).step_by(SYMBOL) {
            let (name, kind) = (self.number(at, 4)? as usize, self.number(at + 4, 1)? & 15);
            let (section, size) = (self.number(at + 6, 2)?, self.number(at + 16, 8)?);
            // Functions and objects.
            if (kind == 1 || kind == 2) && size > 0 && holds_bytes(section) {
                let text = self.bytes.get(names.checked_add(name)?..)?;
                let length = text.iter().position(|byte| *byte == 0)?;
                let name = std::str::from_utf8(&text[..length]).unwrap_or_default();
                symbols.push(Symbol { name, address: self.number(at + 8, 8)?, size });
            }
        }
        Some(symbols)
    }

    /// A little-endian number of `size` bytes.
    fn number(&self, at: usize, size: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(size)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// Renders the parts as a table for people.
pub fn render(module: &Module) -> String {
    let mut out = format!(
        "{}: {} bytes, {} when stripped.\nBytes of the functions and tables whose path names a \
         family; code that families share is not theirs.\n\n{:<52} {:>8} {:>9} {:>6} {:>10}\n",
        module.file,
        module.file_bytes,
        module.stripped_bytes,
        "part",
        "symbols",
        "bytes",
        "%",
        "without it"
    );
    for part in &module.parts {
        let share = part.bytes as f64 * 100.0 / module.stripped_bytes as f64;
        out.push_str(&format!(
            "{:<52} {:>8} {:>9} {share:>6.1} {:>10}\n",
            part.family, part.symbols, part.bytes, part.without
        ));
    }
    if !module.builds.is_empty() {
        out.push_str(&format!(
            "\nStripped size of builds that leave a family out.\n\n{:<52} {:>10} {:>9} {:>6}\n",
            "without", "stripped", "bytes", "%"
        ));
    }
    for build in &module.builds {
        let share = build.bytes as f64 * 100.0 / module.stripped_bytes as f64;
        out.push_str(&format!(
            "{:<52} {:>10} {:>9} {share:>6.1}\n",
            build.without, build.stripped_bytes, build.bytes
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_belong_to_the_family_that_their_path_names() {
        for (symbol, expected) in [
            ("_ZN13gabion_scheme6ml_dsa4sign4sign17hE", "ML-DSA"),
            ("_ZN14gabion_backend6avx5128kem_pack8compress17hE", "ML-KEM"),
            ("_ZN13gabion_scheme7slh_dsa4sign17hE", "SLH-DSA"),
            ("_ZN14gabion_backend6avx5126sponge11sponge_many17hE", "SHA-2 and SHA-3"),
            ("OSSL_provider_init", "shared: provider, engine, batches"),
        ] {
            assert_eq!(family(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn symbol_sizes_add_up_to_the_file() {
        let module = measure(&std::env::current_exe().unwrap(), None, &[]).unwrap();
        assert!(module.stripped_bytes < module.file_bytes, "{module:?}");
        let sum: u64 = module.parts.iter().map(|part| part.bytes).sum();
        assert_eq!(sum, module.stripped_bytes);
        assert!(module.parts.iter().any(|part| part.family == "ML-DSA" && part.bytes > 1000));
        assert!(module.parts.is_sorted_by(|a, b| a.bytes >= b.bytes));
    }

    #[test]
    fn files_that_are_not_modules_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "\x7fELF\x02\x01 and no more").unwrap();
        assert!(matches!(measure(&path, None, &[]), Err(Error::Usage(_))));
        let missing = measure(&folder.path().join("nothing"), None, &[]).unwrap_err().to_string();
        assert!(missing.contains("gabion bundle build"), "{missing}");
    }
}

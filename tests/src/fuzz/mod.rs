//! The fuzz targets: one function of bytes for each parser of untrusted input.
//!
//! ```text
//!   fuzz/fuzz_targets/NAME.rs --libFuzzer's bytes--+
//!   tests/tests/fuzz.rs ------seeds, their edits---+--> TARGETS[NAME].run(bytes): panics on a defect
//!                       \-----regressions/NAME/* --+
//! ```
//!
//! A target reads its bytes as choices ([`Input`]): which algorithm, which valid encoding, which
//! edits of it; so that the search stays near accepted inputs. Targets assert invariants of any
//! input: decoded values encode to the same bytes; a lane of a batch has the verdict of the single
//! operation, whatever the other lanes contain; a failed lane is zero; the best backend and the
//! portable one agree.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a target reports a defect.

mod acvp;
mod c_interface;
mod ciphertexts;
mod fixtures;
mod input;
mod inventory;
mod key_files;
mod kms_backups;
mod kms_requests;
mod kms_texts;
mod kms_wrapped;
mod private_keys;
mod probe_ssh;
mod probe_tls;
mod provider_keys;
mod public_keys;
mod queue;
mod signatures;
mod stateful_keys;

use std::path::Path;

pub use input::Input;

/// One function that is fuzzed.
pub struct Target {
    /// The name of the target: that of the program in `fuzz/fuzz_targets` and of the folder of its
    /// corpus.
    pub name: &'static str,
    /// Runs one input. Panics on a defect, and never because the input is invalid.
    pub run: fn(&[u8]),
    /// Inputs to begin with: together they reach every arm.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 17] = [
    Target { name: "acvp", run: acvp::run, seeds: acvp::seeds },
    Target { name: "c_interface", run: c_interface::run, seeds: c_interface::seeds },
    Target { name: "ciphertexts", run: ciphertexts::run, seeds: ciphertexts::seeds },
    Target { name: "inventory", run: inventory::run, seeds: inventory::seeds },
    Target { name: "key_files", run: key_files::run, seeds: key_files::seeds },
    Target { name: "kms_backups", run: kms_backups::run, seeds: kms_backups::seeds },
    Target { name: "kms_requests", run: kms_requests::run, seeds: kms_requests::seeds },
    Target { name: "kms_texts", run: kms_texts::run, seeds: kms_texts::seeds },
    Target { name: "kms_wrapped", run: kms_wrapped::run, seeds: kms_wrapped::seeds },
    Target { name: "private_keys", run: private_keys::run, seeds: private_keys::seeds },
    Target { name: "probe_ssh", run: probe_ssh::run, seeds: probe_ssh::seeds },
    Target { name: "probe_tls", run: probe_tls::run, seeds: probe_tls::seeds },
    Target { name: "provider_keys", run: provider_keys::run, seeds: provider_keys::seeds },
    Target { name: "public_keys", run: public_keys::run, seeds: public_keys::seeds },
    Target { name: "queue", run: queue::run, seeds: queue::seeds },
    Target { name: "signatures", run: signatures::run, seeds: signatures::seeds },
    Target { name: "stateful_keys", run: stateful_keys::run, seeds: stateful_keys::seeds },
];

/// Runs the target of that name.
///
/// # Panics
/// On a defect that the input shows, or for an unknown name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a row of TARGETS has the name").run)(data);
}

/// The inputs that once showed a defect, `tests/regressions/TARGET/NAME`, by name.
///
/// # Errors
/// A folder or a file that can't be read. For a target without a folder, the list is empty.
pub fn regressions(target: &str) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(target);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        found
            .push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?));
    }
    found.sort();
    Ok(found)
}

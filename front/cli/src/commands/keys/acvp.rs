//! `gabion acvp`: runs NIST's test vector files.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::acvp;
use crate::failure::Failure;
use crate::files;
use crate::keys;
use crate::style;

/// Maximum number of wrong tests that are printed.
const WRONG_SHOWN: usize = 20;
/// Memory limit for unpacking an .xz file, in KiB: the 65 MiB that `xz -9` needs, and half as much
/// again.
const XZ_MEMORY_KIB: u32 = 96 << 10;

/// Answer a NIST ACVP test file, in the format of expectedResults.json
///
/// Example:
///   echo '{"algorithm":"ML-DSA","mode":"keyGen","revision":"FIPS204","testGroups":[{"tgId":1,
///     "parameterSet":"ML-DSA-44","tests":[{"tcId":1,"seed":"'$(printf %064d 0)'"}]}]}' |
///     gabion acvp -
///
/// With NIST's files: gabion acvp prompt.json.xz --check expectedResults.json.xz
///
/// FILE is a prompt or an internalProjection of ML-KEM, ML-DSA, SLH-DSA or LMS, plain or compressed
/// with xz. With --check, and always for an internalProjection, `N of M right` goes to stderr, and
/// any difference exits 1. Each LMS sigGen group is signed with a fresh key, which is part of the
/// output; the signatures in --check are verified with the public keys in that file. GABION_BACKEND
/// selects the backend.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Prompt or internalProjection; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Compare with the answers in this file
    #[arg(long, value_name = "EXPECTED")]
    check: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let engine = keys::engine()?;
    let in_file = |failure, path: &Path| match failure {
        Failure::Usage(text) => {
            Failure::Usage(format!("{}: {text}", files::shown(path, "standard input")))
        }
        other => other,
    };
    // Both files are read first, so a malformed file fails before the expensive computation.
    let file = read(&args.file)?;
    let expected = match &args.check {
        None => None,
        Some(path) => {
            let expected = acvp::expected(&read(path)?).map_err(|why| in_file(why, path))?;
            Some(expected)
        }
    };
    let outcome = acvp::run(engine, &file).map_err(|why| in_file(why, &args.file))?;

    say!("{:#}", outcome.results);

    for ((group, test), reason) in outcome.refused.iter().take(WRONG_SHOWN) {
        eprintln!("tgId {group}, tcId {test} has no answer: {reason}");
    }
    let expected = match &expected {
        Some(expected) => expected,
        None if !outcome.carried.is_empty() => &outcome.carried,
        None if outcome.refused.is_empty() => return Ok(0),
        None => {
            let tests = style::count(outcome.refused.len() as u64, "test");
            return Err(Failure::No(format!("{tests} without an answer")));
        }
    };
    let (right, wrong) = outcome.check(engine, expected)?;
    for line in wrong.iter().take(WRONG_SHOWN) {
        eprintln!("{line}");
    }
    if wrong.len() > WRONG_SHOWN {
        eprintln!(".. and {} more", wrong.len() - WRONG_SHOWN);
    }
    eprintln!("{right} of {} right", right + wrong.len());
    Ok(u8::from(!wrong.is_empty()))
}

/// Reads JSON, decompressing it if it starts with the xz signature.
fn read(path: &Path) -> Result<Value, Failure> {
    let name = files::shown(path, "standard input");
    let bytes = files::read(path, files::LARGE_MAX)?;
    let plain;
    let mut text = &bytes[..];
    if bytes.starts_with(b"\xfd7zXZ\0") {
        let mut unpacked = Vec::new();
        lzma_rust2::XzReader::new_mem_limit(&bytes[..], true, XZ_MEMORY_KIB)
            .take(files::LARGE_MAX)
            .read_to_end(&mut unpacked)
            .map_err(|cause| Failure::Usage(format!("{name} is a damaged .xz file: {cause}")))?;
        plain = unpacked;
        text = &plain;
    }
    serde_json::from_slice(files::without_mark(text))
        .map_err(|cause| Failure::Usage(format!("{name} holds no JSON, plain or .xz: {cause}")))
}

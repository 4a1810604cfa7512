//! Options and helpers shared by the commands that handle secrets: associated data, ciphertext
//! lines, and output files.

use std::path::{Path, PathBuf};

use gabion_kms_wire::{Secret, VersionedBytes, encode};
use serde::Serialize;
use zeroize::Zeroizing;

use super::say_json;
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output, Place};

/// `--associated-data`.
#[derive(clap::Args)]
pub struct AssociatedDataArgs {
    /// Associated data in hexadecimal: authenticated but not encrypted; decryption needs the same
    /// value
    #[arg(long, value_name = "HEX", value_parser = hexadecimal)]
    associated_data: Option<Bytes>,
}

#[derive(Clone)]
struct Bytes(Vec<u8>);

fn hexadecimal(text: &str) -> Result<Bytes, String> {
    let wrong = |_| "not hexadecimal; expected pairs of digits, such as 0aff".to_owned();
    base16ct::mixed::decode_vec(text).map(Bytes).map_err(wrong)
}

impl AssociatedDataArgs {
    /// Returns the value in the encoding of the API.
    pub fn sent(&self) -> Option<String> {
        self.associated_data.as_ref().map(|bytes| encode(&bytes.0))
    }
}

/// `--out`, `--json` and `--force`.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// File for the result; `-` is standard output
    #[arg(long, value_name = "OUT", default_value = "-")]
    out: PathBuf,
    /// Print the service's answer as one JSON object instead
    #[arg(long, conflicts_with = "out")]
    json: bool,
    #[command(flatten)]
    force: Force,
}

/// The form of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    /// A line of text, readable by everyone.
    Line,
    /// Secret bytes, readable by their owner only.
    Secret,
}

impl OutputArgs {
    /// Returns whether the answer is printed as JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Sends a request and writes its result to `--out`. The output is checked first; if it cannot
    /// be written, no request is sent.
    pub fn put<A: Serialize>(
        &self,
        input: &Path,
        form: OutputForm,
        ask: impl FnOnce() -> Result<A, Failure>,
        result: impl FnOnce(&A) -> Result<Zeroizing<Vec<u8>>, Failure>,
    ) -> Result<u8, Failure> {
        let existing = self.force.existing();
        let [place] = files::places([("--out", &self.out)], &[("FILE", input)], existing)?;
        if self.json {
            say_json(&ask()?)?;
            return Ok(0);
        }
        if form == OutputForm::Secret {
            files::not_a_terminal([&place])?;
        }
        let bytes = result(&ask()?)?;
        files::commit([self.prepared(place, &bytes, form)?])?;
        Ok(0)
    }

    fn prepared(&self, place: Place, bytes: &[u8], form: OutputForm) -> Result<Output, Failure> {
        let access = match form {
            OutputForm::Line => Access::Public,
            OutputForm::Secret => Access::Secret,
        };
        Output::prepare(place, bytes, access, self.force.existing())
    }
}

/// Reads a file with secret bytes, or standard input.
pub fn secret(path: &Path) -> Result<Secret, Failure> {
    Ok(Secret::of_bytes(&files::read(path, files::LARGE_MAX)?))
}

/// Reads a line `vault:vN:BASE64` and returns the version and the base64.
pub fn read_line(path: &Path) -> Result<(u32, String), Failure> {
    let bytes = files::read(path, files::LARGE_MAX)?;
    let refused = |why: &str| {
        let name = files::shown(path, "standard input");
        Failure::Usage(format!("{name} is {why}; expected a line written by `gabion kms`"))
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| refused("not text"))?;
    let VersionedBytes { version, bytes } = text.trim_end().parse().map_err(refused)?;
    Ok((version, encode(&bytes)))
}

/// Returns the line for the output of a key version.
pub fn line(version: u32, base64: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let bytes = gabion_kms_wire::decode(base64).ok_or_else(no_base64)?;
    Ok(Zeroizing::new(format!("{}\n", VersionedBytes { version, bytes }).into_bytes()))
}

/// Decodes a secret in the service's answer.
pub fn decoded(text: &Secret) -> Result<Zeroizing<Vec<u8>>, Failure> {
    text.bytes().ok_or_else(no_base64)
}

fn no_base64() -> Failure {
    Failure::NotReady("the service's answer contains invalid base64".to_owned())
}

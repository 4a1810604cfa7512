//! Published test vectors: found next to the checkout, read as JSON, never copied into it.
//!
//! ```text
//!   GABION_VECTORS, or else <checkout>/../shared/vectors
//!     acvp/<name>/{prompt,expectedResults}.json[.xz]
//!     wycheproof/*.json[.xz]     cctv/...     lamps/...
//! ```
//!
//! Where the folder is missing, the functions answer `None` and say so on stderr; tests then rely
//! on what registry packages carry. A folder that is named but does not hold a file that a test
//! asks for is an error, so that a wrong path does not pass for a green run.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of vectors, if there is one.
///
/// # Panics
/// If `GABION_VECTORS` names no folder.
pub fn root() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("GABION_VECTORS") {
        let named = PathBuf::from(named);
        assert!(named.is_dir(), "GABION_VECTORS is {}, which is no folder", named.display());
        return Some(named);
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors");
    if beside.is_dir() {
        return Some(beside);
    }
    eprintln!("vectors: no {} and no GABION_VECTORS; using packages only", beside.display());
    None
}

/// The bytes of a file below [`root`], unpacked if only `<path>.xz` is there.
///
/// # Panics
/// If the folder is there and the file is not, or can't be read.
pub fn bytes(path: &str) -> Option<Vec<u8>> {
    let root = root()?;
    let (plain, packed) = (root.join(path), root.join(format!("{path}.xz")));
    let mut data = Vec::new();
    let read = if plain.is_file() {
        File::open(&plain).and_then(|mut file| file.read_to_end(&mut data))
    } else {
        File::open(&packed)
            .and_then(|file| lzma_rust2::XzReader::new(file, true).read_to_end(&mut data))
    };
    match read {
        Ok(_) => Some(data),
        Err(error) => panic!("{} or .xz: {error}", plain.display()),
    }
}

/// A JSON file below [`root`], plain or `.xz`.
///
/// # Panics
/// If the folder is there and the file is not, or is no JSON.
pub fn json(path: &str) -> Option<Value> {
    let data = bytes(path)?;
    match serde_json::from_slice(&data) {
        Ok(value) => Some(value),
        Err(error) => panic!("{path}: {error}"),
    }
}

/// One ACVP test: its group's properties, its prompt and the expected answer.
#[derive(Clone, Debug)]
pub struct AcvpCase {
    /// The group without its tests.
    pub group: Value,
    /// The test of `prompt.json`.
    pub prompt: Value,
    /// The test of `expectedResults.json` with the same numbers.
    pub expected: Value,
}

/// Every test of an ACVP folder, prompts joined with their answers.
///
/// # Panics
/// If a file is missing or does not have the shape of ACVP.
pub fn acvp(folder: &str) -> Option<Vec<AcvpCase>> {
    let prompt = json(&format!("acvp/{folder}/prompt.json"))?;
    let expected = json(&format!("acvp/{folder}/expectedResults.json"))?;
    let mut answers = HashMap::new();
    for group in list(&expected["testGroups"]) {
        for test in list(&group["tests"]) {
            answers.insert((group["tgId"].to_string(), test["tcId"].to_string()), test);
        }
    }
    let mut cases = Vec::new();
    for group in list(&prompt["testGroups"]) {
        let mut header = group.clone();
        if let Some(header) = header.as_object_mut() {
            header.remove("tests");
        }
        for test in list(&group["tests"]) {
            let key = (group["tgId"].to_string(), test["tcId"].to_string());
            let Some(answer) = answers.get(&key) else {
                panic!("{folder}: no answer for test {key:?}");
            };
            cases.push(AcvpCase {
                group: header.clone(),
                prompt: test.clone(),
                expected: (*answer).clone(),
            });
        }
    }
    eprintln!("vectors: acvp/{folder}: {} tests", cases.len());
    Some(cases)
}

/// The elements of a JSON array.
///
/// # Panics
/// If it is not an array.
pub fn list(value: &Value) -> &[Value] {
    match value.as_array() {
        Some(list) => list,
        None => panic!("expected a list, found {value}"),
    }
}

/// The text of a JSON string.
///
/// # Panics
/// If it is not a string.
pub fn text(value: &Value) -> &str {
    match value.as_str() {
        Some(text) => text,
        None => panic!("expected a string, found {value}"),
    }
}

/// The bytes of a JSON string of hexadecimal digits in either case.
///
/// # Panics
/// If it is no such string.
pub fn hex(value: &Value) -> Vec<u8> {
    unhex(text(value))
}

/// The bytes of a JSON string of hexadecimal digits, if the field is there.
///
/// # Panics
/// If it is there and no such string.
pub fn hex_if_there(value: &Value) -> Option<Vec<u8>> {
    (!value.is_null()).then(|| hex(value))
}

/// Hexadecimal digits in either case to bytes.
///
/// # Panics
/// If there is an odd number of digits or something else between them.
pub fn unhex(digits: &str) -> Vec<u8> {
    let digit = |c: u8| match (c as char).to_digit(16) {
        Some(value) => value as u8,
        None => panic!("`{}` is no hexadecimal digit", c as char),
    };
    assert!(digits.len().is_multiple_of(2), "an odd number of hexadecimal digits");
    digits.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_become_bytes() {
        assert_eq!(unhex("00fFa5"), [0, 0xff, 0xa5]);
        assert!(std::panic::catch_unwind(|| unhex("0g")).is_err());
        assert!(std::panic::catch_unwind(|| unhex("0")).is_err());
        assert_eq!(hex_if_there(&Value::Null), None);
    }
}

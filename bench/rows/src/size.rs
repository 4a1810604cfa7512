//! The size that families of algorithms add to the module.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// One family's part of a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The family, or another name for the rest of the bytes.
    pub family: String,
    /// Functions and tables.
    pub symbols: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The stripped file without them.
    pub without: u64,
}

/// The module, built without a family of algorithms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The family that was left out.
    pub without: String,
    /// The file's stripped size.
    pub stripped_bytes: u64,
    /// The size that the family adds to the module.
    pub bytes: i64,
}

/// A measured module: `gabion bench size --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The file's name.
    pub file: String,
    /// The size of the file.
    pub file_bytes: u64,
    /// The size without symbols and debug information: the end of the last part that is loaded.
    pub stripped_bytes: u64,
    /// The parts, the largest first; `shared` belongs to no family.
    pub parts: Vec<Part>,
    /// The additional builds that each lack one family.
    #[serde(default)]
    pub builds: Vec<Build>,
    /// The version of this program, with which the module is built.
    #[serde(default)]
    pub version: String,
    /// The commit that the module was built from, where that was said.
    #[serde(default)]
    pub commit: Option<String>,
    /// The machine that was measured; the size depends on its compiler alone.
    #[serde(default)]
    pub machine: Machine,
}

//! The status of a row in a table: figures, or the reason why they are missing.

use serde::{Deserialize, Serialize};

/// Whether a row has figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The row has figures.
    #[default]
    Measured,
    /// The algorithms were dropped without a successor.
    NoSuccessor,
    /// Neither OpenSSL nor the provider serves it; `note` names the missing part.
    NotServed,
}

impl Status {
    /// The status in words, for a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::Measured => "measured",
            Status::NoSuccessor => "no successor",
            Status::NotServed => "not served",
        }
    }
}

//! The stamp of a result: when it was produced, and by which version of Gabion.

use pkcs8::der::DateTime;
use serde::Serialize;

/// The date and version recorded with every measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Stamp {
    /// The time in UTC, `2026-11-25T09:30:59Z`; empty if the clock is before 1970.
    pub date: String,
    /// The version of this program.
    pub gabion: &'static str,
    /// The commit it was built from, if `GABION_COMMIT` was set at compile time, as `make` does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<&'static str>,
}

impl Stamp {
    /// Returns the stamp of this moment and program.
    pub fn now() -> Stamp {
        let now = DateTime::from_system_time(std::time::SystemTime::now());
        let date = now.map_or(String::new(), |now| now.to_string());
        let commit = option_env!("GABION_COMMIT").filter(|commit| !commit.is_empty());
        Stamp { date, gabion: env!("CARGO_PKG_VERSION"), commit }
    }

    /// Describes the program.
    pub fn program(&self) -> String {
        match self.commit {
            Some(commit) => format!("Gabion {} ({commit})", self.gabion),
            None => format!("Gabion {}", self.gabion),
        }
    }
}

/// A result row followed by its stamp.
#[derive(Serialize)]
pub struct StampedRow<'r, T> {
    #[serde(flatten)]
    row: &'r T,
    #[serde(flatten)]
    stamp: Stamp,
}

impl<'r, T: Serialize> StampedRow<'r, T> {
    /// Stamps a row that was measured just now.
    pub fn now(row: &'r T) -> StampedRow<'r, T> {
        StampedRow { row, stamp: Stamp::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_its_order_and_says_when_it_was_made() {
        #[derive(Serialize)]
        struct Row {
            z: u8,
            a: u8,
        }
        let text = serde_json::to_string(&StampedRow::now(&Row { z: 1, a: 2 })).unwrap();
        assert!(text.starts_with("{\"z\":1,\"a\":2,\"date\":\"2"), "{text}");
        let row: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(row["gabion"], env!("CARGO_PKG_VERSION"));
        assert_eq!(row["date"].as_str().map(str::len), Some("2026-11-25T09:30:59Z".len()));
    }
}

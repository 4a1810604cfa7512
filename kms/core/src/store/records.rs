//! Records, their paths, and transactions over them.

use std::fmt;

use sha2::{Digest, Sha256};

use super::terms::{Caps, Revision, StoreError};

/// The maximum length of a path in bytes. etcd and PostgreSQL accept longer ones.
pub const PATH_MAX: usize = 512;

/// The path of a record: segments of `0-9A-Za-z_.+-`, separated by `/`. Ordered by bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordPath(String);

impl RecordPath {
    /// Validates a path.
    ///
    /// # Errors
    /// [`StoreError::Path`].
    pub fn new(text: impl Into<String>) -> Result<Self, StoreError> {
        let text = text.into();
        let is_segment = |segment: &str| {
            !segment.is_empty()
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte))
        };
        match text.len() <= PATH_MAX && text.split('/').all(is_segment) {
            true => Ok(RecordPath(text)),
            false => Err(StoreError::Path(text)),
        }
    }

    /// Returns the path extended by one segment.
    ///
    /// # Errors
    /// [`StoreError::Path`].
    pub fn join(&self, segment: &str) -> Result<Self, StoreError> {
        match segment.contains('/') {
            true => Err(StoreError::Path(segment.to_owned())),
            false => Self::new(format!("{}/{segment}", self.0)),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the path is strictly under another one.
    pub fn is_under(&self, other: &RecordPath) -> bool {
        self.0.strip_prefix(&other.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for RecordPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of writes.
    pub generation: u64,
    /// The value; `None` for a tombstone.
    pub value: Option<Vec<u8>>,
}

impl Record {
    /// Returns the first half of the SHA-256 of path, generation and value. Without a key it
    /// detects only accidental changes. Where the digest itself is authenticated, it commits to the
    /// value.
    pub fn digest(&self, path: &str) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update((path.len() as u64).to_le_bytes());
        hash.update(path);
        hash.update(self.generation.to_le_bytes());
        hash.update([u8::from(self.value.is_some())]);
        hash.update(self.value.as_deref().unwrap_or_default());
        let mut half = [0; 16];
        half.copy_from_slice(&hash.finalize()[..16]);
        half
    }
}

/// The result of a read: records of one revision, in the order of the request. `None` for records
/// that were never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResult {
    /// The revision.
    pub revision: Revision,
    /// The records.
    pub records: Vec<Option<Record>>,
}

/// A page of the records under a path, in the order of their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The revision.
    pub revision: Revision,
    /// The records, tombstones included.
    pub records: Vec<(RecordPath, Record)>,
}

/// A condition of a transaction: the record has this generation; 0 if it was never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The record's path.
    pub path: RecordPath,
    /// The expected generation.
    pub generation: u64,
}

/// A write of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The record's path.
    pub path: RecordPath,
    /// The generation that this write replaces; 0 if the record was never written.
    pub before: u64,
    /// The new value; `None` for a tombstone.
    pub value: Option<Vec<u8>>,
}

/// Writes that are applied atomically if all records have the expected generations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    guards: Vec<Guard>,
    writes: Vec<Write>,
}

impl Transaction {
    /// Creates an empty transaction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Expects a record to have a generation, without writing it.
    #[must_use]
    pub fn expect(mut self, path: RecordPath, generation: u64) -> Self {
        self.guards.push(Guard { path, generation });
        self
    }

    /// Writes a record that has the generation `before`.
    #[must_use]
    pub fn put(mut self, path: RecordPath, before: u64, value: Vec<u8>) -> Self {
        self.writes.push(Write { path, before, value: Some(value) });
        self
    }

    /// Replaces a record that has the generation `before` by a tombstone.
    #[must_use]
    pub fn bury(mut self, path: RecordPath, before: u64) -> Self {
        self.writes.push(Write { path, before, value: None });
        self
    }

    /// Returns the guards.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the writes.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Checks a transaction against the limits of a store: it must write something, name each path
    /// once, and not be too large.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] and [`StoreError::TooLarge`].
    pub fn check(&self, caps: &Caps) -> Result<(), StoreError> {
        let steps = self.guards.len() + self.writes.len();
        if steps > caps.steps_max {
            return Err(StoreError::TooLarge { what: "steps", most: caps.steps_max, got: steps });
        }
        for value in self.writes.iter().filter_map(|write| write.value.as_ref()) {
            if value.len() > caps.value_max {
                let (most, got) = (caps.value_max, value.len());
                return Err(StoreError::TooLarge { what: "bytes of a value", most, got });
            }
        }
        let mut paths: Vec<&RecordPath> = self.guards.iter().map(|guard| &guard.path).collect();
        paths.extend(self.writes.iter().map(|write| &write.path));
        paths.sort_unstable();
        if paths.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(StoreError::Malformed("it names a path twice"));
        }
        match self.writes.is_empty() {
            true => Err(StoreError::Malformed("it writes nothing")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_or_refused() {
        for good in ["a", "keys/default/0a-b", "A.b/c_d/+"] {
            assert_eq!(RecordPath::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "/", "a/", "/a", "a//b", "a b", "a#1", "\u{e4}", &"x".repeat(PATH_MAX + 1)]
        {
            assert_eq!(RecordPath::new(bad), Err(StoreError::Path(bad.to_owned())));
        }
        let path = RecordPath::new("keys/a").unwrap();
        assert!(path.join("b/c").is_err());
        assert!(path.join("b").unwrap().is_under(&path));
        assert!(!path.is_under(&path) && !RecordPath::new("keys/ab").unwrap().is_under(&path));
    }
}

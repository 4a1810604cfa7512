//! Writes and reads the format that `gabion hbs log --json` prints and `gabion hbs audit` reads.
//!
//! ```text
//!   {"kind": "signed", "line": 1, ..}       each line of the log, numbered
//!   {"kind": "note",   "line": 2, ..}
//!   {"kind": "end", "lines": 2, "hash": .., "length": .., "chain": .., "first": .., "next": .., "damage": null}
//! ```
//!
//! The last object states the number of lines and their hash, so truncated, omitted, repeated and
//! modified lines are detected. The hash of a line is SHA-256(hash of the previous line | line),
//! over the line as printed; the first line is hashed with 32 zero bytes. The last object is hashed
//! without its `hash` field. Programs up to version 18f74786 printed neither line numbers nor a
//! last object.

use gabion_engine::{Algorithm, Prehash};
use gabion_state::{History, Line};
use serde_json::{Value, json};

/// Builds the objects of a log, one per line.
pub struct Writer {
    algorithm: String,
    public: String,
    section: Section,
}

impl Writer {
    /// Returns a writer for the log of a key.
    pub fn new(algorithm: Algorithm, public: &[u8]) -> Self {
        Writer {
            algorithm: algorithm.to_string(),
            public: base16ct::lower::encode_string(public),
            section: Section::default(),
        }
    }

    /// Returns the object for a line.
    pub fn line(&mut self, line: &Line) -> String {
        let mut row = match line {
            Line::Signed { index, digest, request, time, host, .. } => json!({
                "kind": "signed", "index": index, "digest": base16ct::lower::encode_string(digest),
                "request": request, "time": time, "host": host,
            }),
            Line::Forgotten { request } => json!({"kind": "forgotten", "request": request}),
            Line::Note { text, time, host } => {
                json!({"kind": "note", "text": text, "time": time, "host": host})
            }
        };
        self.name_key(&mut row);
        row["line"] = (self.section.lines + 1).into();
        self.section.add(&row);
        row.to_string()
    }

    /// Returns the last object.
    pub fn end(&self, history: &History) -> String {
        let History { len, chain, first, next, damage, .. } = history;
        let mut row = json!({
            "kind": "end", "lines": self.section.lines, "length": len,
            "chain": base16ct::lower::encode_string(chain), "first": first, "next": next, "damage": damage,
        });
        self.name_key(&mut row);
        row["hash"] = self.section.hash_with(&row).into();
        row.to_string()
    }

    fn name_key(&self, row: &mut Value) {
        row["algorithm"] = self.algorithm.clone().into();
        row["key"] = self.public.clone().into();
    }
}

/// The objects of one log that were written or read so far.
#[derive(Default)]
pub struct Section {
    lines: u64,
    is_numbered: bool,
    hash: [u8; 32],
}

impl Section {
    fn add(&mut self, row: &Value) {
        self.lines += 1;
        self.hash = self.hash_after(row);
    }

    fn hash_after(&self, row: &Value) -> [u8; 32] {
        // The printed form: names in sorted order, no spaces.
        digest(&[&self.hash[..], row.to_string().as_bytes()].concat())
    }

    /// Returns the hash of the whole log, given its last object.
    fn hash_with(&self, end: &Value) -> String {
        let mut end = end.clone();
        end.as_object_mut().and_then(|end| end.remove("hash"));
        base16ct::lower::encode_string(&self.hash_after(&end))
    }

    /// Returns whether no object was read since the last end record.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Reads the next object. Returns what is wrong with it or with the preceding objects.
    pub fn read(&mut self, row: &Value) -> Option<String> {
        if row["kind"] == "end" {
            return std::mem::take(self).ended_by(row);
        }
        let (number, expected) = (row["line"].as_u64(), self.lines + 1);
        self.is_numbered |= number.is_some();
        self.add(row);
        match number {
            Some(number) if number > expected => {
                self.lines = number;
                Some(missing(expected, number - 1))
            }
            Some(number) if number < expected => {
                self.lines = number;
                Some(format!("line {number} comes after line {}", expected - 1))
            }
            None if self.is_numbered => {
                Some(format!("the object after line {} has no number", self.lines - 1))
            }
            _ => None,
        }
    }

    fn ended_by(self, end: &Value) -> Option<String> {
        let said = end["lines"].as_u64();
        match said {
            None => {
                return Some("its last object does not say how many lines there are".to_owned());
            }
            Some(said) if said > self.lines => {
                return Some(format!("{} at the end", missing(self.lines + 1, said)));
            }
            Some(said) if said < self.lines => {
                return Some(format!("it has lines behind line {said}, which is the last"));
            }
            Some(_) => {}
        }
        if end["hash"] != self.hash_with(end) {
            return Some(
                "its lines are not those that were printed: their hash is another one".to_owned(),
            );
        }
        match &end["damage"] {
            Value::Null => None,
            damage => Some(format!("the log was damaged when it was printed ({damage})")),
        }
    }

    /// Returns what is wrong if no further object follows.
    pub fn unfinished(&self) -> Option<String> {
        match (self.lines, self.is_numbered) {
            (0, _) => None,
            (last, true) => Some(format!("it ends behind line {last}, without the object that ends a log")),
            (_, false) => Some(
                "it was printed by an older program, which wrote no end: whether lines are missing can't be checked; \
                 print it again with this one"
                    .to_owned(),
            ),
        }
    }
}

/// Returns the SHA-256 digest.
pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(&Prehash::Sha2_256.digest(bytes));
    digest
}

fn missing(first: u64, last: u64) -> String {
    match first == last {
        true => format!("line {first} is missing"),
        false => format!("lines {first} to {last} are missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(damage: Option<&str>) -> Vec<Value> {
        let note = |text: &str| Line::Note { text: text.to_owned(), time: 1, host: "h".to_owned() };
        let lines = ["a", "b", "c"].map(note).to_vec();
        let mut writer = Writer::new(Algorithm::Hss, &[7; 60]);
        let mut rows: Vec<String> = lines.iter().map(|line| writer.line(line)).collect();
        let damage = damage.map(str::to_owned);
        let history = History { lines, len: 9, chain: [1; 16], first: 0, next: 2, damage };
        rows.push(writer.end(&history));
        rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    /// Returns all faults of objects in this order.
    fn wrongs(rows: &[Value]) -> Vec<String> {
        let mut section = Section::default();
        let mut wrongs: Vec<String> = rows.iter().filter_map(|row| section.read(row)).collect();
        wrongs.extend(section.unfinished());
        wrongs
    }

    #[test]
    fn lines_that_are_missing_repeated_or_changed_are_found() {
        let rows = printed(None);
        assert_eq!(wrongs(&rows), [""; 0]);
        assert_eq!(wrongs(&[rows.clone(), rows.clone()].concat()), [""; 0], "two logs in one file");
        for cut in 1..rows.len() {
            assert!(!wrongs(&rows[..cut]).is_empty(), "{cut} lines");
        }
        for at in 0..rows.len() {
            let (mut without, mut twice) = (rows.clone(), rows.clone());
            without.remove(at);
            twice.insert(at, rows[at].clone());
            assert!(!wrongs(&without).is_empty(), "without {at}");
            // A second end record is the end of a log without lines.
            assert!(!wrongs(&twice).is_empty(), "{at} twice");
        }
        let mut swapped = rows.clone();
        swapped.swap(0, 1);
        assert!(!wrongs(&swapped).is_empty());
        let mut changed = rows.clone();
        changed[1]["text"] = "d".into();
        assert!(wrongs(&changed)[0].contains("hash"), "{changed:?}");
        let without_number = |row: &mut Value| row.as_object_mut().unwrap().remove("line");
        let mut mixed = rows.clone();
        without_number(&mut mixed[1]);
        assert!(!wrongs(&mixed).is_empty());
        assert!(wrongs(&printed(Some("cut")))[0].contains("damaged when it was printed"));
    }

    #[test]
    fn export_of_an_older_version_is_reported_as_unchecked() {
        let mut rows = printed(None);
        rows.pop();
        for row in &mut rows {
            row.as_object_mut().unwrap().remove("line");
        }
        let said = wrongs(&rows);
        assert_eq!(said.len(), 1);
        assert!(said[0].contains("older program"), "{said:?}");
    }
}

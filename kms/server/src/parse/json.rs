//! JSON bodies, whose limits are checked before they are deserialized.
//!
//! ```text
//!   body --> one pass over its bytes: depth, items, fields, values --> a wire type
//!            (no allocation)
//! ```

use std::{fmt, io};

use gabion_kms::Error;
pub use gabion_kms::json::Unique;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The maximum depth of arrays and objects.
const DEPTH_MAX: usize = 8;

/// The maximum number of items of an array. The answer to that many has 8 MiB, and their audit
/// records fit into a segment.
pub const ITEMS_MAX: usize = 1024;

/// The maximum number of fields of an object. A key has at most 64 labels.
const FIELDS_MAX: usize = 128;

/// The maximum number of items and fields of a body: a batch has at most [`ITEMS_MAX`] items with
/// fewer than 16 fields each.
const VALUES_MAX: usize = 16 * ITEMS_MAX;

/// The maximum length of an error message about a body, in characters.
const MESSAGE_MAX: usize = 1000;

/// Deserializes a request. An empty body counts as an object without fields.
///
/// # Errors
/// A body that is not an object, is nested too deeply, has too many items or fields, or has an
/// unknown field, which the message names.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    Extent::of(body).check()?;
    // serde would also accept fields in order, as an array. Clients need only one form.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad("the body is not a JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| Problem::bad(shortened(&error)))
}

/// Deserializes a request that contains arbitrary objects, without duplicate fields.
///
/// # Errors
/// Those of [`read`]; an object with a duplicate field.
pub fn read_unique<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let Unique(body) = read(body)?;
    serde_json::from_value(body).map_err(|error| Problem::bad(shortened(&error)))
}

/// Shortens an error message, because it may contain a field name as long as the body.
fn shortened(why: &impl fmt::Display) -> String {
    let mut short = TruncatedText { text: "the body: ".to_owned(), left: MESSAGE_MAX };
    if fmt::write(&mut short, format_args!("{why}")).is_err() {
        short.text.push_str("...");
    }
    short.text
}

/// Collects a text up to a number of characters.
struct TruncatedText {
    text: String,
    left: usize,
}

impl fmt::Write for TruncatedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.char_indices().nth(self.left).map(|(end, _)| end);
        self.text.push_str(&text[..end.unwrap_or(text.len())]);
        self.left -= text[..end.unwrap_or(text.len())].chars().count();
        end.map_or(Ok(()), |_| Err(fmt::Error))
    }
}

/// Serializes an answer.
///
/// # Errors
/// Does not fail for wire types.
pub fn write(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    let mut answer = ResponseBuffer(Vec::with_capacity(128));
    let written = serde_json::to_writer(&mut answer, value);
    written.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(answer.0)
}

/// A buffer for answers that grows by an eighth once it is large, instead of doubling.
struct ResponseBuffer(Vec<u8>);

impl ResponseBuffer {
    const LARGE: usize = 64 << 10;
}

impl io::Write for ResponseBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.0.len() + bytes.len();
        if len > self.0.capacity() && len > Self::LARGE {
            self.0.reserve_exact(bytes.len() + len / 8);
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The size of a JSON text, as far as it is valid.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extent {
    /// The maximum depth of arrays and objects.
    depth: usize,
    /// The number of items of the longest array.
    items: usize,
    /// The number of fields of the largest object.
    fields: usize,
    /// The total number of items and fields.
    values: usize,
}

impl Extent {
    /// Measures a text. Stops at the maximum depth.
    fn of(text: &[u8]) -> Self {
        let mut extent = Extent::default();
        // For each open bracket, whether it is an array, and its number of items or fields so far.
        let mut open: [(bool, usize); DEPTH_MAX] = [(false, 0); DEPTH_MAX];
        let (mut depth, mut is_text, mut is_escaped, mut is_first) = (0usize, false, false, false);
        for &byte in text {
            if is_text {
                match byte {
                    _ if is_escaped => is_escaped = false,
                    b'\\' => is_escaped = true,
                    b'"' => is_text = false,
                    _ => {}
                }
                continue;
            }
            // An item begins after a comma, and after a bracket that is not closed immediately.
            let begins = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                b',' => true,
                b']' | b'}' => false,
                _ => is_first,
            };
            is_first = matches!(byte, b'[' | b'{');
            if let (true, Some((is_array, begun))) =
                (begins, depth.checked_sub(1).and_then(|top| open.get_mut(top)))
            {
                *begun += 1;
                extent.values += 1;
                let most = if *is_array { &mut extent.items } else { &mut extent.fields };
                *most = (*most).max(*begun);
            }
            match byte {
                b'"' => is_text = true,
                b'[' | b'{' => {
                    if let Some(top) = open.get_mut(depth) {
                        *top = (byte == b'[', 0);
                    }
                    depth += 1;
                    extent.depth = extent.depth.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        extent
    }

    /// Rejects texts beyond the limits of a request.
    fn check(&self) -> Result<(), Problem> {
        if self.depth > DEPTH_MAX {
            let why = "arrays and objects within each other";
            return Err(Problem::bad(format!("the body has more than {DEPTH_MAX} {why}")));
        }
        for (what, got, most) in [
            ("items of an array", self.items, ITEMS_MAX),
            ("fields of an object", self.fields, FIELDS_MAX),
            ("items and fields of the body", self.values, VALUES_MAX),
        ] {
            if got > most {
                return Err(Error::TooLarge { what, most, got }.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use gabion_kms_wire::native::{OfVersion, Sign, SignJwt};

    use super::*;

    #[test]
    fn malformed_json_fields_are_refused_by_name() {
        assert_eq!(read::<OfVersion>(br#"{"version":3}"#).unwrap().version, 3);
        for (body, says) in [
            (r#"{"versoin":3}"#, "unknown field `versoin`, expected `version`"),
            (r#"{"version":3,"version":3}"#, "duplicate field `version`"),
            (r#"{"version":-1}"#, "-1"),
            (r#"{"version":4294967296}"#, "4294967296"),
            (r#"{"version":1.0}"#, "floating point"),
            (r#"{"version":"1"}"#, "string"),
            (r#"{"version":1} x"#, "trailing"),
            (r#"{"version":1"#, "EOF"),
            (r#"[1]"#, "not a JSON object"),
            ("", "missing field `version`"),
            ("\u{feff}{}", "not a JSON object"),
        ] {
            let problem = read::<OfVersion>(body.as_bytes()).unwrap_err();
            assert!(problem.message.contains(says), "{body}: {}", problem.message);
            assert_eq!((problem.status, problem.code), (400, "bad_request"));
        }
        assert!(read::<Sign>(b"").is_err());
    }

    /// For example JWT claims, which are signed as they were parsed.
    #[test]
    fn objects_of_any_form_have_each_field_once() {
        let body = |claims: &str| format!(r#"{{"key":"k","claims":{claims}}}"#);
        let read = |claims: &str| read_unique::<SignJwt>(body(claims).as_bytes());
        assert_eq!(read(r#"{"a":{"b":1}}"#).unwrap().claims["a"]["b"], 1);
        for (claims, says) in [
            (r#"{"a":1,"a":1}"#, "duplicate field `a`"),
            (r#"{"x":[{"a":1,"\u0061":2}]}"#, "duplicate field `a`"),
            (r#"{},"more":1"#, "unknown field `more`"),
            ("1", "invalid type"),
        ] {
            let problem = read(claims).unwrap_err();
            assert!(problem.message.contains(says), "{claims}: {}", problem.message);
        }
    }

    #[test]
    fn body_errors_have_a_maximum_length() {
        let body = format!("{{\"{}\":1}}", "ä".repeat(400_000));
        let said = read::<OfVersion>(body.as_bytes()).unwrap_err().message;
        assert!(said.starts_with("the body: unknown field `ä") && said.len() < 2100, "{said:.60}");
    }

    #[test]
    fn the_extent_is_that_outside_of_texts() {
        for (text, depth, items, fields, values) in [
            ("", 0, 0, 0, 0),
            ("{}", 1, 0, 0, 0),
            ("{ }", 1, 0, 0, 0),
            (r#"{"a":"[[[\"[[,,,"}"#, 1, 0, 1, 1),
            ("[[],[{}]]", 3, 2, 0, 3),
            ("[ 1 , 2 , 3 ]", 1, 3, 0, 3),
            (r#"{"a":[1,2],"b":{"c":1,"d":[3,4,5]},"e":6}"#, 3, 3, 3, 10),
            ("[[[", 3, 1, 0, 2),
            ("]]]", 0, 0, 0, 0),
            ("[,,,", 1, 3, 0, 3),
        ] {
            let wanted = Extent { depth, items, fields, values };
            assert_eq!(Extent::of(text.as_bytes()), wanted, "{text}");
        }
        let many = |one: &str, count: usize| vec![one; count].join(",");
        let fields = |count: usize| {
            let fields: Vec<String> = (0..count).map(|at| format!("\"{at}\":0")).collect();
            fields.join(",")
        };
        for (body, is_refused) in [
            (format!("{{\"key\":[{}]}}", many("0", ITEMS_MAX)), false),
            (format!("{{\"key\":[{}]}}", many("0", ITEMS_MAX + 1)), true),
            (format!("{{\"key\":[{}", many("{}", ITEMS_MAX + 1)), true),
            (format!("{{{}}}", fields(FIELDS_MAX)), false),
            (format!("{{{}}}", fields(FIELDS_MAX + 1)), true),
            // 16 arrays of the maximum length.
            (format!("{{\"key\":[{}]}}", many(&format!("[{}]", many("0", ITEMS_MAX)), 16)), true),
        ] {
            let problem = read::<Sign>(body.as_bytes()).unwrap_err();
            assert_eq!(problem.code == "too_large", is_refused, "{body:.60}: {}", problem.message);
        }
        let tree = format!("{{\"key\":[{},[0]]}}", many("0", gabion_kms::json::VALUES_MAX - 3));
        assert!(read::<Unique>(tree.as_bytes()).is_ok());
        let tree = tree.replace("[0]", "[0,0]");
        let problem = read::<Unique>(tree.as_bytes()).unwrap_err();
        assert!(problem.message.contains("more than 1024 values"), "{}", problem.message);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let problem = read::<Sign>(format!("{{\"key\":{deep}}}").as_bytes()).unwrap_err();
        assert!(problem.message.contains("more than 8"), "{}", problem.message);
    }
}

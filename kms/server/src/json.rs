//! Bodies of requests, held to their limits.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::problem::Problem;

/// Most arrays and objects within each other.
const DEPTH_MAX: usize = 8;

/// Most characters of what is said of a body.
const MESSAGE_MAX: usize = 1000;

/// Reads a request. No body is an object without fields.
///
/// # Errors
/// What is no object, is too deep, or has a field that is not known, which the message names.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    if depth(body) > DEPTH_MAX {
        return Err(Problem::bad(format!(
            "the body has more than {DEPTH_MAX} arrays and objects within each other"
        )));
    }
    // Fields in an order instead of by name are one more form that nobody needs.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad("the body is no JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| Problem::bad(shortened(error.to_string())))
}

/// Any value none of whose objects has a field twice: of two that are the same a program takes the first, and another the last.
#[derive(Debug)]
pub struct Unique(pub Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyOnce).map(Unique)
    }
}

struct AnyOnce;

impl<'de> Visitor<'de> for AnyOnce {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Value, E> {
        Ok(is_true.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            let Unique(value) = fields.next_value()?;
            all.insert(name, value);
        }
        Ok(Value::Object(all))
    }
}

/// What is wrong with a body. The name of a field may be as long as a body, and an answer is not.
fn shortened(why: String) -> String {
    match why.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("the body: {}...", &why[..end]),
        None => format!("the body: {why}"),
    }
}

/// Writes an answer.
///
/// # Errors
/// None that happens with the types of the wire.
pub fn write(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| Problem::internal(error.to_string()))
}

/// How many arrays and objects are within each other, if it is JSON at all.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut most, mut is_text, mut is_escaped) = (0usize, 0, false, false);
    for &byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                depth += 1;
                most = most.max(depth);
            }
            b'}' | b']' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use gabion_kms_client::wire::{OfVersion, Sign};

    use super::*;

    #[test]
    fn what_is_not_asked_for_is_refused_by_name() {
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
            (r#"[1]"#, "no JSON object"),
            ("", "missing field `version`"),
            ("\u{feff}{}", "no JSON object"),
        ] {
            let problem = read::<OfVersion>(body.as_bytes()).unwrap_err();
            assert!(problem.message.contains(says), "{body}: {}", problem.message);
            assert_eq!((problem.status, problem.code), (400, "bad_request"));
        }
        assert!(read::<Sign>(b"").is_err());
    }

    #[test]
    fn a_value_has_each_field_once_at_every_depth() {
        let same = r#"{"a":[1,-2,1.5,"x",null,true,{"b":{}}],"c":{"a":18446744073709551615}}"#;
        let Unique(value) = read(same.as_bytes()).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(same).unwrap());
        for twice in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":{"a":1,"a":null}}"#,
            r#"{"x":[{"a":1},{"a":1,"b":2,"a":1}]}"#,
        ] {
            let problem = read::<Unique>(twice.as_bytes()).unwrap_err();
            assert!(problem.message.contains("duplicate field `a`"), "{}", problem.message);
        }
    }

    #[test]
    fn what_is_said_of_a_body_is_no_longer_than_a_message() {
        let body = format!("{{\"{}\":1}}", "ä".repeat(400_000));
        let said = read::<OfVersion>(body.as_bytes()).unwrap_err().message;
        assert!(said.starts_with("the body: unknown field `ä") && said.len() < 2100, "{said:.60}");
    }

    #[test]
    fn depth_is_that_outside_of_texts() {
        for (text, wanted) in [
            ("", 0),
            ("{}", 1),
            (r#"{"a":"[[[\"[["}"#, 1),
            ("[[],[{}]]", 3),
            ("[[[", 3),
            ("]]]", 0),
        ] {
            assert_eq!(depth(text.as_bytes()), wanted, "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let problem = read::<Sign>(format!("{{\"key\":{deep}}}").as_bytes()).unwrap_err();
        assert!(problem.message.contains("more than 8"), "{}", problem.message);
    }
}

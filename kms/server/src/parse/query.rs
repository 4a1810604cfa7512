//! Decoding of path segments and query parameters.

use std::fmt::Display;
use std::str::FromStr;

use gabion_kms_wire::transit::parse_bool;

use crate::problem::Problem;

/// The parameters of a query, in their order.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query that may have only the given parameters.
    ///
    /// # Errors
    /// An unknown parameter, which the message names; a duplicate one; a malformed escape.
    pub fn read(text: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut found: Vec<(String, String)> = Vec::new();
        let parts = text.unwrap_or_default().split('&').filter(|part| !part.is_empty());
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (percent_decode(name)?, percent_decode(value)?);
            if !known.contains(&name.as_str()) {
                let expected = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::bad(format!(
                    "unknown parameter `{name}`, expected {expected}"
                )));
            }
            if found.iter().any(|(before, _)| *before == name) {
                return Err(Problem::bad(format!("duplicate parameter `{name}`")));
            }
            found.push((name, value));
        }
        Ok(Query(found))
    }

    /// Parses a query without rejecting any parameter. The first of duplicate parameters counts,
    /// and parameters with malformed escapes are ignored.
    pub fn lenient(text: Option<&str>) -> Self {
        let parts = text.unwrap_or_default().split('&').filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some((percent_decode(name).ok()?, percent_decode(value).ok()?))
        };
        Query(parts.filter_map(pair).collect())
    }

    /// Returns a parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter as a truth value, in each of the spellings that Vault accepts. `None` if
    /// it is missing or empty.
    ///
    /// # Errors
    /// `bad_request` for any other text.
    pub fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        let Some(text) = self.text(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let flag = parse_bool(text);
        flag.map(Some).ok_or_else(|| {
            Problem::bad(format!("the parameter `{name}` is not a boolean; expected true or false"))
        })
    }

    /// Returns a parameter as a number, up to a limit.
    ///
    /// # Errors
    /// A value that is not a number or is too large.
    pub fn number<N>(&self, name: &str, most: N) -> Result<Option<N>, Problem>
    where
        N: FromStr + PartialOrd + Display + Copy,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number: &N| *number <= most);
        number.map(Some).ok_or_else(|| {
            Problem::bad(format!("invalid parameter `{name}`; expected a number from 0 to {most}"))
        })
    }
}

/// Decodes percent escapes in a segment (RFC 3986, section 2.1).
///
/// # Errors
/// A malformed escape; bytes that are not UTF-8.
pub fn percent_decode(text: &str) -> Result<String, Problem> {
    let refused = || Problem::bad("the path or a parameter has a malformed percent escape");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, more) = rest.split_first_chunk::<2>().ok_or_else(refused)?;
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let pair = digit(digits[0]).zip(digit(digits[1])).ok_or_else(refused)?;
        bytes.push(pair.0 << 4 | pair.1);
        rest = more;
    }
    String::from_utf8(bytes).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_repeated_query_parameters_are_refused() {
        let query = Query::read(Some("after=a%2Fb&limit=3"), &["after", "limit"]).unwrap();
        assert_eq!(query.text("after"), Some("a/b"));
        assert_eq!(query.number("limit", 9_u32).unwrap(), Some(3));
        assert_eq!(query.text("x"), None);
        assert!(query.number("limit", 2_u32).is_err());
        assert!(query.number("after", 2_u32).is_err());
        let index = Query::read(Some("from=18446744073709551615"), &["from"]).unwrap();
        assert_eq!(index.number("from", u64::MAX).unwrap(), Some(u64::MAX));
        assert!(index.number("from", u32::MAX).is_err());
        assert!(Query::read(None, &[]).unwrap().text("a").is_none());
        for (text, says) in [
            ("afer=1", "`afer`"),
            ("after=1&after=1", "duplicate"),
            ("after=%2", "escape"),
            ("after=%zz", "escape"),
            ("after=%ff", "escape"),
        ] {
            let problem = Query::read(Some(text), &["after"]).unwrap_err();
            assert!(problem.message.contains(says), "{text}: {}", problem.message);
        }
        let health = Query::lenient(Some("a=1&a=2&b&=3&c=%zz&d=%2"));
        assert_eq!(
            (health.text("a"), health.text("b"), health.text("c")),
            (Some("1"), Some(""), None)
        );
    }

    #[test]
    fn booleans_have_gos_spellings() {
        for (texts, wanted) in [
            (["1", "t", "T", "TRUE", "true", "True"], true),
            (["0", "f", "F", "FALSE", "false", "False"], false),
        ] {
            for text in texts {
                let query = Query::read(Some(&format!("list={text}")), &["list"]).unwrap();
                assert_eq!(query.flag("list").unwrap(), Some(wanted), "{text}");
            }
        }
        for text in ["", "list", "list="] {
            assert_eq!(Query::read(Some(text), &["list"]).unwrap().flag("list").unwrap(), None);
        }
        for text in ["yes", "tRUE", "2", "%20true", "on"] {
            let query = Query::read(Some(&format!("list={text}")), &["list"]).unwrap();
            assert_eq!(query.flag("list").unwrap_err().code, "bad_request", "{text}");
        }
    }
}

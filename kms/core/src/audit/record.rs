//! Audit records: one line of JSON for each operation, in a canonical form.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::error::Code;
use crate::gate::{Action, Principal};
use crate::model::Label;
use crate::text::{hex, of_hex};

/// The maximum size of a record in bytes.
pub const RECORD_MAX: usize = 16 << 10;

/// An audit record of an operation. It contains no messages, keys or tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The time in milliseconds since 1970, by a clock that may be wrong.
    pub time_ms: u64,
    /// The request id, given by the client or the server.
    pub request_id: String,
    /// The traceparent (W3C Trace Context), if the client sent one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The caller's principal.
    pub principal: Principal,
    /// The caller's credential: `token:ID:CHAIN`, `certificate:SHA256` or `local`. CHAIN is a
    /// digest of the token with all its caveats, the last one of [`Change::Cut`]. Records of older
    /// programs have `token:ID` and `certificate`.
    pub method: String,
    /// The requested action.
    pub action: Action,
    /// The key's tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    /// The key: its name if it was not found, otherwise its id or that of a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The digest of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Digest>,
    /// The digest of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Digest>,
    /// The details of a change, if the action alone does not describe it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The outcome.
    pub outcome: Outcome,
    /// The number of denied requests that the record stands for; `None` for one. Equal denials of
    /// one credential in a row, after the first one, share a record, which describes the newest of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The store's revision, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// The details of a change to a key or a token that may remove permissions. After a restore from an
/// older backup, the service reapplies such changes from the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A version was enabled or disabled.
    Version(u32),
    /// The versions before this one were destroyed.
    #[serde(rename = "before")]
    TrimmedBefore(u32),
    /// These settings were changed.
    #[serde(rename = "set")]
    Settings(Vec<Setting>),
    /// A token or a root key was made.
    Made,
    /// A token id was revoked, or a root key was retired.
    Revoked,
    /// A holder revoked its own token and the token's attenuations. The value is the chain of the
    /// token: the digests of its tags from the first one on, separated by `/`. Records of older
    /// programs have only the last digest. If a whole branch of tokens was revoked with it, that
    /// branch's digest follows after a comma.
    Cut(String),
    /// All tokens were revoked, and this root key makes new ones.
    Recovered(String),
}

/// A changed setting of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The oldest version that signs, makes tags or encrypts; 0 for only the newest one.
    MinSign(u32),
    /// The oldest version that verifies.
    MinVerify(u32),
    /// The oldest version that decrypts.
    MinDecrypt(u32),
    /// The expiry time in milliseconds since 1970; `None` if the key does not expire.
    ExpiresMs(Option<u64>),
    /// Whether Vault's API may delete the key.
    Deletable(bool),
    /// The key signs and verifies only by `mu`.
    MuRequired,
    /// The maximum lifetime in seconds of the JSON Web Tokens that the key signs. It signs nothing
    /// else.
    JwtMaxLifetimeS(u64),
    /// The labels. Their content is not recorded.
    Labels,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Outcome {
    /// The operation is about to start. Another record has its outcome.
    Begun,
    /// The operation succeeded.
    Done,
    /// The operation was done before under the same `op_id`; the stored response was returned.
    Replayed,
    /// The signature or tag is wrong.
    Wrong,
    /// The operation succeeded, but its result was withheld because the caller's permission had
    /// ended.
    Withheld,
    /// The operation failed.
    Failed(Code),
}

/// The digest of an input or output.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Digest {
    /// A SHA-256.
    Sha256([u8; 32]),
    /// An HMAC-SHA-256 under a key of the service, for data that is secret or easily guessed.
    Keyed([u8; 32]),
}

impl Record {
    /// Returns the record as a line of JSON without the newline.
    pub fn to_json(&self) -> String {
        // Serialization cannot fail; if it did, the log would reject the empty record.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a line; `None` if it is not in canonical form.
    pub fn of_json(line: &[u8]) -> Option<Self> {
        let record: Record = serde_json::from_slice(line).ok()?;
        (record.to_json().as_bytes() == line).then_some(record)
    }
}

impl Digest {
    /// Returns the SHA-256 of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest::Sha256(Sha256::digest(bytes).into())
    }

    /// Returns the keyed digest of secret bytes.
    pub fn keyed(key: &[u8; 32], bytes: &[u8]) -> Self {
        let mac = Self::keyed_state(key).chain_update(bytes);
        Digest::Keyed(mac.finalize().into_bytes().into())
    }

    /// Returns the state of a keyed digest before any bytes.
    pub(crate) fn keyed_state(key: &[u8; 32]) -> Hmac<Sha256> {
        // Pad the key with zeros to HMAC's block length, as HMAC itself does, so that the
        // constructor cannot fail.
        let mut block = Zeroizing::new([0; 64]);
        block[..key.len()].copy_from_slice(key);
        Hmac::<Sha256>::new((&*block).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Digest::Sha256(digest) => write!(out, "sha256:{}", hex(digest)),
            Digest::Keyed(digest) => write!(out, "hmac-sha256:{}", hex(digest)),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = text.strip_prefix("sha256:").and_then(of_hex).map(Digest::Sha256);
        let keyed = || text.strip_prefix("hmac-sha256:").and_then(of_hex).map(Digest::Keyed);
        plain.or_else(keyed).ok_or("expected sha256: or hmac-sha256:, and 64 digits 0-9 a-f")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Outcome::Begun => "begun",
            Outcome::Done => "ok",
            Outcome::Replayed => "replayed",
            Outcome::Wrong => "wrong",
            Outcome::Withheld => "withheld",
            Outcome::Failed(code) => code.as_str(),
        })
    }
}

impl FromStr for Outcome {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "begun" => Ok(Outcome::Begun),
            "ok" => Ok(Outcome::Done),
            "replayed" => Ok(Outcome::Replayed),
            "wrong" => Ok(Outcome::Wrong),
            "withheld" => Ok(Outcome::Withheld),
            text => text.parse().map(Outcome::Failed).map_err(|()| "expected an outcome"),
        }
    }
}

/// Implements the conversions between a type and its text that serde needs.
macro_rules! as_text {
    ($($type:ident)*) => {$(
        impl TryFrom<String> for $type {
            type Error = &'static str;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}

as_text!(Digest Outcome);

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            time_ms: 1_790_000_000_000,
            request_id: "r-1".to_owned(),
            trace: None,
            principal: Principal::new("ci@example.com").unwrap(),
            method: "token:02020202020202020202020202020202".to_owned(),
            action: Action::Sign,
            tenant: Some(Label::new("tenant", "default").unwrap()),
            key: Some("default/transit/ed25519/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c#v1".to_owned()),
            input: Some(Digest::of(b"abc")),
            output: None,
            change: None,
            outcome: Outcome::Done,
            count: None,
            revision: None,
        }
    }

    /// The details of changes have to stay readable as long as records.
    #[test]
    fn changes_are_golden() {
        for (change, text) in [
            (Change::Version(3), r#"{"version":3}"#),
            (Change::TrimmedBefore(3), r#"{"before":3}"#),
            (
                Change::Settings(vec![
                    Setting::MinSign(0),
                    Setting::MinVerify(1),
                    Setting::MinDecrypt(2),
                    Setting::ExpiresMs(None),
                    Setting::ExpiresMs(Some(9)),
                    Setting::Deletable(false),
                    Setting::MuRequired,
                    Setting::JwtMaxLifetimeS(60),
                    Setting::Labels,
                ]),
                r#"{"set":[{"min_sign":0},{"min_verify":1},{"min_decrypt":2},{"expires_ms":null},{"expires_ms":9},{"deletable":false},"mu_required",{"jwt_max_lifetime_s":60},"labels"]}"#,
            ),
            (Change::Made, r#""made""#),
            (Change::Revoked, r#""revoked""#),
            (Change::Cut("0a".to_owned()), r#"{"cut":"0a"}"#),
            (Change::Recovered("0b".to_owned()), r#"{"recovered":"0b"}"#),
        ] {
            let record = Record { change: Some(change), revision: Some(7), ..record() };
            let line = record.to_json();
            let wanted = format!(r#","change":{text},"outcome":"ok","revision":7}}"#);
            assert!(line.ends_with(&wanted), "{line}");
            assert_eq!(Record::of_json(line.as_bytes()), Some(record));
        }
    }

    /// Records stay readable for years.
    #[test]
    fn a_record_is_golden() {
        let line = include_str!("../../tests/golden/record.json").trim_end();
        assert_eq!(record().to_json(), line);
        assert_eq!(Record::of_json(line.as_bytes()), Some(record()));
    }

    #[test]
    fn a_count_is_golden() {
        let record = Record { count: Some(17), input: None, ..record() };
        let line = record.to_json();
        assert!(line.ends_with(r#","outcome":"ok","count":17}"#), "{line}");
        assert_eq!(Record::of_json(line.as_bytes()), Some(record));
    }

    #[test]
    fn a_record_has_one_form() {
        let line = record().to_json();
        for other in [
            line.replace("\"outcome\"", " \"outcome\""),
            line.replace("}", ",\"revision\":null}"),
            line.replace("\"ok\"", "\"fine\""),
            line.replace("}", ",\"more\":1}"),
            line.replace("sha256:", "SHA256:"),
            format!("{line}\n"),
        ] {
            assert_ne!(other, line);
            assert_eq!(Record::of_json(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_outcome_has_one_text() {
        let codes = Code::ALL.iter().map(|&code| Outcome::Failed(code));
        let others =
            [Outcome::Begun, Outcome::Done, Outcome::Replayed, Outcome::Wrong, Outcome::Withheld];
        for outcome in codes.chain(others) {
            assert_eq!(outcome.to_string().parse(), Ok(outcome));
        }
    }
}

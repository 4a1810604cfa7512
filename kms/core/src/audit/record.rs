//! What is told of an operation: one line of JSON, of which there is one form.

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

/// Most bytes of a record.
pub const RECORD_MAX: usize = 16 << 10;

/// What is told of an operation. No message, key or token is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When, in milliseconds since 1970, by a clock that may be wrong.
    pub time_ms: u64,
    /// Which request, by the caller's or the front's name.
    pub request_id: String,
    /// What it is part of: a traceparent (W3C Trace Context), if the caller gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Who.
    pub principal: Principal,
    /// The credential: `token:ID:CHAIN`, `certificate:SHA256` or `local`. CHAIN is a digest of the token with all its caveats, the last
    /// one of [`Change::Cut`]. Records of older programs have `token:ID` and `certificate`.
    pub method: String,
    /// What they asked for.
    pub action: Action,
    /// Whose key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Label>,
    /// The key: its name where it was not found, else its id, or that of a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What went in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Digest>,
    /// What came out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Digest>,
    /// What was changed of it, where that is more than the action says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// What came of it.
    pub outcome: Outcome,
    /// How many denied requests the record stands for, the newest of which it tells of: equal ones of a credential in a row,
    /// after the first. None: for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The store's revision, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// What was changed of a key or a token, as far as it is short and not secret: a store that is put back to an older state is made
/// as narrow by it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A version was taken out of use, or put into it.
    Version(u32),
    /// Versions before this one were destroyed.
    #[serde(rename = "before")]
    TrimmedBefore(u32),
    /// These were set.
    #[serde(rename = "set")]
    Settings(Vec<Setting>),
    /// A token or a root key was made.
    Made,
    /// A token was revoked with all of its id, or a root key retired.
    Revoked,
    /// One token was revoked by its holder, with its attenuations: the digests of its tags from the first one on, separated by `/`.
    /// Records of older programs have the last digest alone. If a whole branch of tokens was revoked with it, that branch's digest
    /// follows after a comma.
    Cut(String),
    /// Every token was, and this root key makes new ones.
    Recovered(String),
}

/// Something of a key that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The oldest version that signs, makes tags or encrypts; 0: only the newest one.
    MinSign(u32),
    /// The oldest version that verifies.
    MinVerify(u32),
    /// The oldest version that decrypts.
    MinDecrypt(u32),
    /// From when on it makes nothing new; none: never.
    ExpiresMs(Option<u64>),
    /// Whether Vault's paths may delete it.
    Deletable(bool),
    /// It signs and verifies by mu alone.
    MuRequired,
    /// The longest lifetime of a JSON Web Token that it signs, in seconds; it signs nothing else.
    JwtMaxLifetimeS(u64),
    /// Labels, whatever they say.
    Labels,
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Outcome {
    /// It is about to be done. Another record says what came of it.
    Begun,
    /// It was done.
    Done,
    /// It was done before under the same op_id; the stored answer was returned.
    Replayed,
    /// A signature was looked at, and is wrong.
    Wrong,
    /// It was done, and its result was not given out, since the caller was not allowed any more.
    Withheld,
    /// It was not done.
    Failed(Code),
}

/// What tells of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Digest {
    /// Their SHA-256.
    Sha256([u8; 32]),
    /// Their HMAC-SHA-256 under a key of the service: of what is secret, or easily guessed.
    Keyed([u8; 32]),
}

impl Record {
    /// The line, without its end.
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to be written; a line that is empty would be refused as a record.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a line; none of what is not written so.
    pub fn of_json(line: &[u8]) -> Option<Self> {
        let record: Record = serde_json::from_slice(line).ok()?;
        (record.to_json().as_bytes() == line).then_some(record)
    }
}

impl Digest {
    /// Of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest::Sha256(Sha256::digest(bytes).into())
    }

    /// Of some secret bytes.
    pub fn keyed(key: &[u8; 32], bytes: &[u8]) -> Self {
        let mac = Self::keyed_state(key).chain_update(bytes);
        Digest::Keyed(mac.finalize().into_bytes().into())
    }

    /// Of secret bytes of which nothing came.
    pub(crate) fn keyed_state(key: &[u8; 32]) -> Hmac<Sha256> {
        // A key of a block's length, padded with zeros as HMAC pads it, so that nothing can fail.
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

/// Gives serde the texts.
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

    /// What tells of a change is read for as long.
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

    /// Logs are read for years.
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

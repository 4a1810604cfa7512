//! Reports: what the probe of one target found, as text files and `--json` have it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::time::rfc3339;

use crate::target::{Protocol, StartTls};

/// The report about one target. One report is one line of a results file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The target, as `HOST:PORT`.
    pub target: String,
    /// The protocol that was probed.
    pub protocol: Protocol,
    /// The STARTTLS protocol; absent if the connection starts with TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starttls: Option<StartTls>,
    /// When the probe began, in RFC 3339.
    pub probed_at: String,
    /// How long the probe took, in milliseconds.
    pub duration_ms: u64,
    /// Whether the key exchange is post-quantum, the complete ClientHello was answered, and the
    /// certificate verified if that was requested.
    pub ok: bool,
    /// Whether the key exchange is post-quantum.
    pub post_quantum: bool,
    /// The version of TLS, such as `TLSv1.3`.
    pub version: Option<String>,
    /// The cipher suite by its IANA name.
    pub cipher: Option<String>,
    /// The group of the key exchange.
    pub group: Option<String>,
    /// The scheme of the server's signature in the handshake.
    pub signature: Option<String>,
    /// Whether the server sent a HelloRetryRequest.
    pub hello_retry_request: Option<bool>,
    /// Whether the certificate verified; `None` without authorities to verify it with.
    pub verified: Option<bool>,
    /// The certificates that the server sent, in its order.
    pub chain: Vec<ChainEntry>,
    /// The application protocol that the server selected.
    pub alpn: Option<String>,
    /// Whether a second connection resumed the session of the first.
    pub resumption: Option<bool>,
    /// The version and group of a client without post-quantum groups; `None` if it gets no
    /// connection, or was not tried.
    pub classical: Option<Negotiation>,
    /// Why a client without post-quantum groups gets no connection.
    pub classical_error: Option<String>,
    /// The server's program, as the server names it.
    pub program: Option<String>,
    /// The verdict on the key exchange; `None` if there was no handshake.
    pub key_exchange: Option<Verdict>,
    /// The verdict on the authentication; `None` if the server showed no certificate or host key.
    pub authentication: Option<Verdict>,
    /// The lists of an SSH server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh: Option<Ssh>,
    /// The forms of the ClientHello and whether they got through, with `--matrix`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matrix: Vec<MatrixRow>,
    /// The configuration of a client that gets through, by its syntax, with `--matrix`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ask_with: BTreeMap<String, String>,
    /// The feature that the network path drops; `None` if the first ClientHello was answered, or
    /// none was.
    pub not_survived: Option<String>,
    /// The handshakes that were attempted.
    pub attempts: Vec<Attempt>,
    /// Why the target is not `ok`.
    pub problems: Vec<String>,
}

/// The most characters of a text that a server influences.
const TEXT_LEN_MAX: usize = 1024;

impl Report {
    /// Returns whether the target has everything that was asked for.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.post_quantum && self.problems.is_empty() && self.verified != Some(false)
    }

    /// Replaces control characters in the texts of the server, and characters that change the
    /// direction of text. Cuts long texts.
    pub fn clean(&mut self) {
        let chain = self.chain.iter_mut();
        let verdicts = [&mut self.key_exchange, &mut self.authentication].into_iter().flatten();
        let attempts = self.attempts.iter_mut().filter_map(|attempt| attempt.error.as_mut());
        let rows = self.matrix.iter_mut().filter_map(|row| row.error.as_mut());
        let texts = chain
            .flat_map(|entry| [&mut entry.subject, &mut entry.issuer])
            .chain(verdicts.flat_map(|verdict| [&mut verdict.algorithm, &mut verdict.why]))
            .chain(attempts)
            .chain(rows)
            .chain(
                [&mut self.program, &mut self.alpn, &mut self.classical_error]
                    .into_iter()
                    .flatten(),
            )
            .chain(&mut self.problems);
        for text in texts {
            *text = clean(text);
        }
    }
}

fn clean(text: &str) -> String {
    let is_obeyed = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}' | '\u{2029}')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let plain = |character| if is_obeyed(character) { '\u{fffd}' } else { character };
    let mut cut: String = text.chars().take(TEXT_LEN_MAX).map(plain).collect();
    if text.chars().nth(TEXT_LEN_MAX).is_some() {
        cut.push_str("...");
    }
    cut
}

/// A certificate of the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainEntry {
    /// The subject's distinguished name.
    pub subject: String,
    /// The issuer's distinguished name.
    pub issuer: String,
    /// The algorithm of the public key, such as `ML-DSA-65` or `RSA-2048`.
    pub key: String,
    /// The algorithm of the issuer's signature.
    pub signature: String,
    /// The first second of the validity, in RFC 3339.
    pub not_before: String,
    /// The last second of the validity, in RFC 3339.
    pub not_after: String,
    /// The SHA-256 of the certificate's DER, in lower-case hex.
    #[serde(default)]
    pub sha256: String,
    /// The SHA-256 of its SubjectPublicKeyInfo, in lower-case hex.
    #[serde(default)]
    pub key_sha256: String,
}

/// A negotiated version and group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiation {
    /// The version of TLS.
    pub version: String,
    /// The group; `None` for RSA key transport.
    pub group: Option<String>,
}

/// The verdict on one property of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it resists quantum computers.
    pub post_quantum: bool,
    /// The algorithm that decides.
    pub algorithm: String,
    /// Why: which side's list decides.
    pub why: String,
    /// Lines of configuration that change it; empty if the program is unknown.
    pub fix: Vec<String>,
}

/// The lists of an SSH server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ssh {
    /// The identification string.
    pub banner: String,
    /// The key exchange methods, in the server's order.
    pub kex: Vec<String>,
    /// The host key algorithms, in the server's order.
    pub host_keys: Vec<String>,
}

/// One form of the ClientHello and its fate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The form.
    pub form: String,
    /// The size of the ClientHello, with its record headers.
    pub bytes: usize,
    /// Whether the server answered it with a ServerHello.
    pub survived: bool,
    /// Whether the handshake selected a post-quantum group.
    pub post_quantum: bool,
    /// Why it did not survive.
    pub error: Option<String>,
}

/// An attempted handshake and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The form of the ClientHello.
    pub hello: String,
    /// The size of the ClientHello, with its record header.
    pub bytes: Option<usize>,
    /// Why the handshake failed; `None` if it succeeded.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as long as a chain allows, in characters of which JSON needs the most bytes.
    #[test]
    fn texts_of_servers_are_plain_and_bounded() {
        let long = "\u{1f512}\\\u{1b}\u{9b}\u{202e}\n".repeat(10_000);
        let entry =
            ChainEntry { subject: long.clone(), issuer: long.clone(), ..ChainEntry::default() };
        let verdict = Some(Verdict { why: long.clone(), ..Verdict::default() });
        let attempt = Attempt { error: Some(long.clone()), ..Attempt::default() };
        let mut report = Report {
            target: "a:1".into(),
            program: Some(long.clone()),
            chain: vec![entry; 32],
            key_exchange: verdict.clone(),
            authentication: verdict,
            attempts: vec![attempt; 9],
            problems: vec![long; 3],
            ..Report::default()
        };
        report.clean();
        let line = serde_json::to_string(&report).unwrap();
        assert!(line.len() < 1 << 19, "{}", line.len());
        assert!(!line.contains(|one: char| one.is_control() || one == '\u{202e}'));
        assert!(!line.contains("\\u00") && !line.contains("\\n"));
        assert!(report.chain[0].subject.ends_with("..."));
    }

    #[test]
    fn a_report_survives_its_line() {
        let report = Report { target: "a:1".into(), ok: true, ..Report::default() };
        let line = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), report);
        // Results of a later version may have more members, and those of an earlier one fewer.
        let read: Report = serde_json::from_str(r#"{"target":"b:1","later":1}"#).unwrap();
        assert_eq!(read.target, "b:1");
    }
}

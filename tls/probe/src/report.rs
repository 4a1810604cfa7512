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
    /// Whether the first handshake was post-quantum in its key exchange, and the certificate
    /// verified if that was requested.
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
    /// The version and group of a client without post-quantum groups; `None` if the server refuses
    /// it, or if there was no handshake.
    pub classical: Option<Negotiation>,
    /// The server's program, as the server names it.
    pub program: Option<String>,
    /// The verdict on the key exchange; `None` if there was no handshake.
    pub key_exchange: Option<Verdict>,
    /// The verdict on the authentication; `None` if the server showed no certificate or host key.
    pub authentication: Option<Verdict>,
    /// The lists of an SSH server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh: Option<Ssh>,
    /// Which forms of the ClientHello got through, with `--matrix`.
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

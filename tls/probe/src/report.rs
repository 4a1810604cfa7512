//! Reports: what the probe of one target found, as text files and `--json` have it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// What a client without post-quantum groups gets.
    pub classical: Option<Negotiated>,
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
}

/// A negotiated version and group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
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

/// Formats Unix seconds as RFC 3339 in UTC.
#[must_use]
pub fn rfc3339(seconds: i64) -> String {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Civil from days, counted from 0000-03-01 in eras of 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_063_999, "2026-11-30T18:39:59Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), expected);
        }
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

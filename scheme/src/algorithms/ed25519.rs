//! Ed25519: RFC 8032, RFC 8410, RFC 8446; its second row is ZIP 215's way to verify.

use super::{AlgorithmInfo, Codepoint, Family, Kind};

const fn row(name: &'static str, standard: &'static str) -> AlgorithmInfo {
    let kind = (Kind::Signature, Family::Ed25519);
    let base = AlgorithmInfo::new(kind, name, standard, (None, 128), [32, 32, 64]);
    AlgorithmInfo { seed: Some(32), ..base }
}

pub(super) const ED25519: AlgorithmInfo = AlgorithmInfo {
    oid: Some("1.3.101.112"),
    oid_name: Some("id-Ed25519"),
    tls: Some(Codepoint::new("ed25519", 0x0807)),
    openssl: &["ED25519"],
    wolfssl: Some("ED25519"),
    ..row("Ed25519", "RFC 8032")
};

/// Keys and signatures are those of Ed25519, so that the identifiers are its own: this name says how
/// they are verified.
pub(super) const ED25519_ZIP215: AlgorithmInfo = row("Ed25519-ZIP215", "RFC 8032, ZIP 215");

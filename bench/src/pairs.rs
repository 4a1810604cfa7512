//! Signature algorithms and groups of a handshake, by current and former names.
//!
//! Tables that were published before the standards name their rows as wolfSSL did then. The names
//! lead to today's by the one table of old names (`gabion algorithms --old`); sizes come from the
//! one table of algorithms.

use gabion_engine::{ALGORITHMS, AlgorithmInfo, Kind, OldName};

use crate::tls::Signature;

/// Names of classical algorithms as the published tables have them, and as TLS and this harness
/// have them.
const CLASSICAL: &[(&str, &str)] = &[
    ("ECC SECP256R1", "secp256r1"),
    ("ECC_SECP256R1", "secp256r1"),
    ("ECC_SECP384R1", "secp384r1"),
    ("ECC_SECP521R1", "secp521r1"),
    ("FFDHE_2048", "ffdhe2048"),
    ("RSA 2048 bit", "RSA-2048"),
    ("RSA 2048", "RSA-2048"),
    ("ECDSA SECP256R1", "ECDSA-P-256"),
];

/// Today's name for a row's old one: a TLS group or a signature algorithm. None where nothing
/// followed.
pub(crate) fn successor(old: &str) -> Option<&'static str> {
    if let Some((_, today)) = CLASSICAL.iter().find(|(name, _)| *name == old) {
        return Some(today);
    }
    let followed = OldName::lookup(old)?.successor?;
    let row = ALGORITHMS.iter().find(|row| row.name == followed)?;
    match row.kind {
        Kind::Kem => row.tls.map(|tls| tls.name),
        Kind::Signature | Kind::KeyExchange => Some(row.name),
    }
}

/// The row of a TLS group.
fn group_row(group: &str) -> Option<&'static AlgorithmInfo> {
    let is_group = |row: &&AlgorithmInfo| {
        row.kind != Kind::Signature
            && row.tls.is_some_and(|tls| tls.name.eq_ignore_ascii_case(group))
    };
    ALGORITHMS.iter().find(is_group)
}

/// Bytes of both key shares together; none for a group that the table does not have.
pub(crate) fn key_shares(group: &str) -> Option<usize> {
    let row = group_row(group)?;
    // The server of a KEM answers with a ciphertext, that of a key exchange with a key like the
    // client's.
    let answer = if row.kind == Kind::Kem { row.output.max() } else { row.public_key.max() };
    Some(row.public_key.max() + answer)
}

/// Returns whether a group is a curve alone, and no KEM.
pub(crate) fn is_curve(group: &str) -> bool {
    group_row(group).is_some_and(|row| row.kind == Kind::KeyExchange)
}

/// Returns how long a signature of `name` is, in bytes: the typical length where it varies.
pub(crate) fn signature_bytes(name: &str) -> Option<usize> {
    match name {
        "RSA-2048" => Some(256),
        // SEQUENCE of two INTEGERs: a byte more for each of the two halves of the cases whose
        // first bit is set. Longest less one.
        "ECDSA-P-256" | "ECDSA-P-384" => row(name).map(|row| row.output.max() - 1),
        // Means over 150 signatures; they scatter by two or three bytes. The table of algorithms has
        // the longest.
        "Falcon-512" => Some(655),
        "Falcon-1024" => Some(1271),
        _ => row(name).map(|row| row.output.max()),
    }
}

fn row(name: &str) -> Option<&'static AlgorithmInfo> {
    ALGORITHMS.iter().find(|row| row.kind == Kind::Signature && row.name == name)
}

/// Returns the signature algorithm that makes keys and certificates.
pub(crate) fn signature(name: &str) -> Option<&'static Signature> {
    Signature::find(name).ok()
}

/// Returns whether TLS has no settled codepoint for a signature algorithm, so that a provider keeps
/// it behind a switch.
pub(crate) fn is_draft_in_tls(signature: &str) -> bool {
    Signature::find(signature).is_ok_and(|signature| signature.draft)
}

/// The signatures whose codepoint is not settled, in the order of the table.
pub(crate) fn drafts_in_tls() -> impl Iterator<Item = &'static str> {
    crate::tls::signatures().into_iter().filter(|name| is_draft_in_tls(name))
}

/// Returns whether a pair may be missing without anything being wrong: OpenSSL does not have it,
/// and a provider may or may not.
pub(crate) fn is_optional(group: &str, signature: &str) -> bool {
    let is_ours_alone = |row: &AlgorithmInfo| row.kind == Kind::Kem && row.openssl.is_empty();
    group_row(group).is_some_and(is_ours_alone) || is_draft_in_tls(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_lead_to_groups_and_signatures() {
        for (old, today) in [
            ("KYBER_LEVEL3", Some("MLKEM768")),
            ("P521_KYBER_LEVEL5", Some("SecP521r1MLKEM1024")),
            ("KYBER_90S_LEVEL1", None),
            ("P384_KYBER90S_LEVEL3", None),
            ("ECC SECP256R1", Some("secp256r1")),
            ("DILITHIUM_LEVEL5", Some("ML-DSA-87")),
            ("FALCON_LEVEL1", Some("Falcon-512")),
            ("RSA 2048 bit", Some("RSA-2048")),
        ] {
            assert_eq!(successor(old), today, "{old}");
        }
    }

    #[test]
    fn sizes_are_those_of_the_standards() {
        assert_eq!(key_shares("x25519"), Some(64));
        assert_eq!(key_shares("secp256r1"), Some(130));
        assert_eq!(key_shares("MLKEM768"), Some(1184 + 1088));
        assert_eq!(key_shares("X25519MLKEM768"), Some(1216 + 1120));
        assert_eq!(key_shares("SecP521r1MLKEM1024"), Some(2 * (133 + 1568)));
        assert_eq!(key_shares("KYBER9000"), None);
        assert_eq!(signature_bytes("ML-DSA-65"), Some(3309));
        assert_eq!(signature_bytes("ECDSA-P-256"), Some(71));
        assert_eq!(signature_bytes("RSA-2048"), Some(256));
    }

    #[test]
    fn only_what_openssl_lacks_may_be_missing() {
        assert!(!is_optional("X25519MLKEM768", "ML-DSA-65"));
        assert!(is_optional("SecP256r1MLKEM512", "RSA-2048"));
        assert!(is_optional("secp256r1", "Falcon-512"));
        assert!(is_draft_in_tls("Falcon-1024") && !is_draft_in_tls("ML-DSA-65"));
        assert!(is_draft_in_tls("SLH-DSA-SHA2-128s") && !is_draft_in_tls("RSA-2048"));
    }
}

//! Counts TLS handshakes for `GABION_STATS`.
//!
//! A provider sees single operations, and most of them could belong to any use. These belong to TLS
//! for certain:
//!
//! - A key share. libssl names the group when it generates one, and a KEM has no other use for that
//!   parameter ([`is_key_share`]). The client decapsulates with such a key; the server puts the
//!   client's share into one, and encapsulates to it.
//! - A CertificateVerify message of TLS 1.3. The signed text begins with 64 spaces and the name
//!   of the signer (RFC 8446, section 4.4.3).
//! - The end of a handshake of TLS 1.3. Both sides derive the resumption master secret once, after
//!   the client's Finished message.
//!
//! Operations that fail, and signatures that do not verify, are not counted.

use gabion_engine::Kind as AlgorithmKind;
use gabion_provider_stats::tls::Side;

use crate::ffi::{ParamsIn, name};
use crate::key_types::KeyType;
use crate::stats;
use crate::tls_columns::{HANDSHAKE, SIGNATURE, SIGNATURES, SIGNATURES_FROM, X25519};

/// Returns whether parameters of a key generation are those of libssl for a key share. It passes an
/// empty name for KEMs.
pub fn is_key_share(params: ParamsIn<'_>) -> bool {
    params.has(name::GROUP)
}

/// Counts the encapsulation or decapsulation of a key exchange.
pub fn count_kem(key_type: KeyType, side: Side) {
    let side = usize::from(side == Side::Server);
    stats::count_tls(key_type.index() * 2 + side);
}

/// Counts a key exchange with X25519. In TLS 1.3 and 1.2, client and server make the same calls in
/// exchanged roles, so the side is unknown.
pub fn count_x25519() {
    stats::count_tls(X25519);
}

/// Counts a signature that was made, or verified, if the message is that of CertificateVerify.
pub fn count_signature(key_type: KeyType, message: &[u8], is_made: bool) {
    if let Some(column) = signature_column(key_type, message, is_made) {
        stats::count_tls(column);
    }
}

fn signature_column(key_type: KeyType, message: &[u8], is_made: bool) -> Option<usize> {
    const SPACES: [u8; 64] = [b' '; 64];
    let rest = message.strip_prefix(&SPACES)?.strip_prefix(b"TLS 1.3, ")?;
    let by_server = rest.starts_with(b"server CertificateVerify\0");
    if !by_server && !rest.starts_with(b"client CertificateVerify\0") {
        return None;
    }
    let index = key_type.index().checked_sub(SIGNATURES_FROM)?;
    if index >= SIGNATURES || key_type.info().kind != AlgorithmKind::Signature {
        return None;
    }
    // The signer makes it, and its peer verifies it.
    let is_server_side = by_server == is_made;
    Some(SIGNATURE + 4 * index + 2 * usize::from(!by_server) + usize::from(is_server_side))
}

/// Counts a completed handshake if a derivation's label is that of the resumption master secret.
pub fn count_derivation(prefix: &[u8], label: &[u8]) {
    if prefix == b"tls13 " && label == b"res master" {
        stats::count_tls(HANDSHAKE);
    }
}

#[cfg(test)]
mod tests {
    use gabion_provider_stats::tls::{Column, Kind};

    use super::*;
    use crate::key_types::KEY_TYPES;
    use crate::tls_columns::column;

    #[test]
    fn certificate_verify_messages_are_recognized() {
        let key_type =
            KEY_TYPES.into_iter().find(|key_type| key_type.name() == "ML-DSA-65").unwrap();
        let message = |spaces: usize, text: &str| [" ".repeat(spaces), text.to_owned()].concat();
        let of = |text: &str, is_made| {
            let at = signature_column(key_type, message(64, text).as_bytes(), is_made)?;
            let Column { kind, side, name } = column(at);
            assert_eq!(name, "mldsa65");
            Some((kind, side.unwrap()))
        };
        let (server, client) =
            ("TLS 1.3, server CertificateVerify\0hash", "TLS 1.3, client CertificateVerify\0hash");
        assert_eq!(of(server, true), Some((Kind::ServerSignature, Side::Server)));
        assert_eq!(of(server, false), Some((Kind::ServerSignature, Side::Client)));
        assert_eq!(of(client, true), Some((Kind::ClientSignature, Side::Client)));
        assert_eq!(of(client, false), Some((Kind::ClientSignature, Side::Server)));
        for other in
            ["", "hash", "TLS 1.3, server CertificateVerify", "TLS 1.3, server Certificate\0"]
        {
            assert_eq!(of(other, true), None, "{other}");
        }
        for spaces in [0, 63, 65] {
            assert_eq!(signature_column(key_type, message(spaces, server).as_bytes(), true), None);
        }
        let kem = KEY_TYPES[0];
        assert_eq!(signature_column(kem, message(64, server).as_bytes(), true), None);
    }
}

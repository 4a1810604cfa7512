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
use gabion_provider_stats::tls::{Column, Kind, Side};

use crate::ffi::{ParamsIn, name};
use crate::key_types::{KEY_TYPES, KeyType};
use crate::stats::{self, EPHEMERAL};

/// The first signature algorithm that TLS could use, and the number of those that follow.
const SIGNATURES_FROM: usize = EPHEMERAL;
const SIGNATURES: usize = 21;

/// Columns of key exchanges: client and server for each KEM. Those of X25519 have one column.
const X25519: usize = 2 * (EPHEMERAL - 1);
/// Columns of signatures: for each algorithm the server's, made and verified, and the client's.
const SIGNATURE: usize = X25519 + 1;
/// The column of completed handshakes.
const HANDSHAKE: usize = SIGNATURE + 4 * SIGNATURES;
/// The number of columns.
pub const COLUMNS: usize = HANDSHAKE + 1;

const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// Returns the description of a column.
pub fn column(index: usize) -> Column {
    let tls_name = |key_type: KeyType| {
        let info = key_type.info();
        info.tls.map_or(info.name, |tls| tls.name)
    };
    if index >= HANDSHAKE {
        return Column { kind: Kind::Handshake, side: None, name: "TLSv1.3" };
    }
    if let Some(index) = index.checked_sub(SIGNATURE) {
        let kind = [Kind::ServerSignature, Kind::ClientSignature][index / 2 % 2];
        let key_type = KEY_TYPES[SIGNATURES_FROM + index / 4];
        return Column { kind, side: Some(SIDES[index % 2]), name: tls_name(key_type) };
    }
    let name = tls_name(KEY_TYPES[index / 2]);
    Column { kind: Kind::KeyExchange, side: (index < X25519).then(|| SIDES[index % 2]), name }
}

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
    use super::*;

    #[test]
    fn columns_describe_what_is_counted() {
        let described = |index: usize| {
            let Column { kind, side, name } = column(index);
            format!("{} {} {name}", kind.name(), side.map_or("-", Side::name))
        };
        let all: Vec<String> = (0..COLUMNS).map(described).collect();
        assert_eq!(all[0], "key_exchange client MLKEM512");
        assert_eq!(all[7], "key_exchange server X25519MLKEM768");
        assert_eq!(all[X25519], "key_exchange - x25519");
        assert_eq!(all[SIGNATURE], "server_sig client mldsa44");
        assert_eq!(all[HANDSHAKE], "handshake - TLSv1.3");
        // Name, kind and side with a zero at their ends (gabion_provider_stats::tls).
        for Column { kind, side, name } in (0..COLUMNS).map(column) {
            assert!(name.len() < 40 && kind.name().len() < 16);
            assert!(side.is_none_or(|side| side.name().len() < 8));
        }
        let mut distinct = all.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), COLUMNS);
        // The signatures that TLS knows are those with columns.
        for key_type in KEY_TYPES.into_iter().filter(|key_type| key_type.hash.is_none()) {
            let info = key_type.info();
            let has_column =
                (SIGNATURES_FROM..SIGNATURES_FROM + SIGNATURES).contains(&key_type.index());
            if info.kind == AlgorithmKind::Signature && info.tls.is_some() {
                assert!(has_column, "{key_type}");
            }
        }
    }

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

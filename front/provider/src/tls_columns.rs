//! The columns of TLS events in the file of counters.

use gabion_provider_stats::tls::{Column, Kind, Side};

use crate::key_types::{EPHEMERAL, KEY_TYPES, KeyType};

/// The first signature algorithm that TLS could use, and the number of those that follow.
pub const SIGNATURES_FROM: usize = EPHEMERAL;
pub const SIGNATURES: usize = 21;

/// Columns of key exchanges: client and server for each KEM. Those of X25519 have one column.
pub const X25519: usize = 2 * (EPHEMERAL - 1);
/// Columns of signatures: for each algorithm the server's, made and verified, and the client's.
pub const SIGNATURE: usize = X25519 + 1;
/// The column of completed handshakes.
pub const HANDSHAKE: usize = SIGNATURE + 4 * SIGNATURES;
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

#[cfg(test)]
mod tests {
    use gabion_engine::Kind as AlgorithmKind;

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
}

//! The measured connections, in order.

use super::Usage;
use crate::pairs;
use crate::wire::Table;

/// A published row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Old {
    pub(super) authentication: &'static str,
    pub(super) key_exchange: &'static str,
    pub(super) server: Usage,
    pub(super) client: Usage,
}

/// A planned row; a missing name has no successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowPlan {
    pub(super) table: Table,
    pub(super) old: Option<Old>,
    pub(super) signature: Option<&'static str>,
    pub(super) group: Option<&'static str>,
    /// Remarks on the row.
    pub(super) note: Option<&'static str>,
}

/// Published figures in the order of the listing: stack, allocations, total heap, peak heap.
type PublishedFigures = [u64; 4];

/// Rows of algorithms that differ in nothing the listing shows have the same figures there, too.
const OLD: [(&str, &str, PublishedFigures, PublishedFigures); 19] = [
    (FALCON_1, P256, [48960, 250, 113548, 40990], [29935, 768, 179427, 41765]),
    (FALCON_5, P256, [89088, 250, 125232, 45630], [29935, 768, 191365, 47469]),
    ("DILITHIUM_LEVEL2", P256, [56328, 243, 128153, 50250], [30856, 805, 206412, 56299]),
    ("DILITHIUM_LEVEL3", P256, [86216, 243, 140128, 55161], [33928, 805, 220633, 61245]),
    ("DILITHIUM_LEVEL5", P256, [119944, 243, 152046, 59829], [40328, 805, 238167, 67049]),
    (RSA, P256, CURVE.0, CURVE.1),
    (RSA, "KYBER_LEVEL1", KYBER_1.0, KYBER_1.1),
    (RSA, "KYBER_LEVEL3", KYBER_3.0, KYBER_3.1),
    (RSA, "KYBER_LEVEL5", KYBER_5.0, KYBER_5.1),
    (RSA, "KYBER_90S_LEVEL1", KYBER_1.0, KYBER_1.1),
    (RSA, "KYBER_90S_LEVEL3", KYBER_3.0, KYBER_3.1),
    (RSA, "KYBER_90S_LEVEL5", KYBER_5.0, KYBER_5.1),
    (RSA, "P256_KYBER_LEVEL1", HYBRID_1.0, HYBRID_1.1),
    (RSA, "P384_KYBER_LEVEL3", HYBRID_3.0, HYBRID_3.1),
    (RSA, "P521_KYBER_LEVEL5", HYBRID_5.0, HYBRID_5.1),
    (RSA, "P256_KYBER_90S_LEVEL1", HYBRID_1.0, HYBRID_1.1),
    (RSA, "P384_KYBER_90S_LEVEL3", HYBRID_3.0, HYBRID_3.1),
    (RSA, "P521_KYBER_90S_LEVEL5", HYBRID_5.0, HYBRID_5.1),
    (ECDSA, P256, CURVE.0, CURVE.1),
];

/// The remark on the row that is listed last, after those of the groups, as `ECDSA SECP256R1`.
const OF_ECDSA: &str =
    "the published figures are those of RSA 2048 over ECC SECP256R1, to the byte";

const FALCON_1: &str = "FALCON_LEVEL1";
const FALCON_5: &str = "FALCON_LEVEL5";
const RSA: &str = "RSA 2048";
const ECDSA: &str = "ECDSA SECP256R1";
const P256: &str = "ECC SECP256R1";
const CURVE: (PublishedFigures, PublishedFigures) =
    ([52896, 253, 121784, 39573], [54640, 897, 202472, 41760]);
const KYBER_1: (PublishedFigures, PublishedFigures) =
    ([52896, 206, 66864, 28474], [54640, 879, 147235, 44538]);
const KYBER_3: (PublishedFigures, PublishedFigures) =
    ([52896, 206, 67888, 28794], [54640, 879, 149411, 46010]);
const KYBER_5: (PublishedFigures, PublishedFigures) =
    ([52896, 206, 69232, 29274], [54640, 879, 151907, 47642]);
const HYBRID_1: (PublishedFigures, PublishedFigures) =
    ([52896, 223, 118940, 37652], [54640, 896, 199376, 48932]);
const HYBRID_3: (PublishedFigures, PublishedFigures) =
    ([52896, 223, 120108, 38468], [54640, 896, 201728, 50468]);
const HYBRID_5: (PublishedFigures, PublishedFigures) =
    ([52896, 223, 121614, 39458], [54640, 896, 204422, 52172]);

const TODAY: [(&str, &str); 8] = [
    ("ECDSA-P-256", "x25519"),
    ("ECDSA-P-256", "X25519MLKEM768"),
    ("RSA-2048", "X25519MLKEM768"),
    ("ML-DSA-44", "X25519MLKEM768"),
    ("ML-DSA-65", "X25519MLKEM768"),
    ("ML-DSA-87", "X25519MLKEM768"),
    ("ML-DSA-65", "SecP256r1MLKEM768"),
    ("ML-DSA-87", "SecP384r1MLKEM1024"),
];

/// Returns the planned rows of `table`, in the order in which they are printed.
pub(super) fn planned(table: Table) -> Vec<RowPlan> {
    match table {
        Table::Seed => seed(),
        Table::Today => today(),
        Table::All => seed().into_iter().chain(today()).collect(),
    }
}

fn seed() -> Vec<RowPlan> {
    let usage = |[stack, allocations, heap_total, heap_peak]: PublishedFigures| Usage {
        allocations,
        heap_total,
        heap_peak,
        stack: Some(stack),
    };
    let row = |&(authentication, key_exchange, server, client): &(
        _,
        _,
        PublishedFigures,
        PublishedFigures,
    )| RowPlan {
        table: Table::Seed,
        signature: pairs::successor(authentication),
        group: pairs::successor(key_exchange),
        note: (authentication == ECDSA).then_some(OF_ECDSA),
        old: Some(Old {
            authentication,
            key_exchange,
            server: usage(server),
            client: usage(client),
        }),
    };
    OLD.iter().map(row).collect()
}

fn today() -> Vec<RowPlan> {
    let row = |&(signature, group)| RowPlan {
        table: Table::Today,
        old: None,
        signature: Some(signature),
        group: Some(group),
        note: None,
    };
    TODAY.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_rows_keep_their_order_and_find_their_successors() {
        let rows = planned(Table::Seed);
        assert_eq!(rows.len(), 19);
        assert_eq!(rows[0].signature, Some("Falcon-512"));
        assert_eq!((rows[4].signature, rows[4].group), (Some("ML-DSA-87"), Some("secp256r1")));
        assert_eq!(rows[8].group, Some("MLKEM1024"));
        assert_eq!(rows[14].group, Some("SecP521r1MLKEM1024"));
        assert_eq!(rows.iter().filter(|row| row.group.is_none()).count(), 6);
        let last = &rows[18];
        assert_eq!(last.old.unwrap().authentication, "ECDSA SECP256R1");
        assert_eq!((last.signature, last.group), (Some("ECDSA-P-256"), Some("secp256r1")));
        // Its figures belong to another row than its name says; the note states that.
        assert_eq!(last.old.unwrap().client, rows[5].old.unwrap().client);
        assert!(last.note.is_some() && rows[..18].iter().all(|row| row.note.is_none()));
        let old = rows[3].old.unwrap();
        assert_eq!((old.server.stack, old.server.heap_peak), (Some(86216), 55161));
        assert_eq!((old.client.allocations, old.client.heap_total), (805, 220_633));
    }
}

//! The measured connections, in order.

use super::{Mode, Table};
use crate::pairs;

/// A published row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Old {
    pub(super) authentication: &'static str,
    pub(super) key_exchange: &'static str,
    pub(super) total: u64,
}

/// A planned row; a missing name has no successor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowPlan {
    pub(super) table: Table,
    pub(super) old: Option<Old>,
    pub(super) signature: Option<&'static str>,
    pub(super) group: Option<&'static str>,
    pub(super) mode: Mode,
}

/// Authentication, key exchange and total of the published rows. Their text says mutual
/// authentication of all; the totals of the DILITHIUM rows are those of a server that alone proves
/// who it is (two more public keys and signatures of 3732 bytes and more would not fit into them).
const OLD: [(&str, &str, u64); 22] = [
    ("RSA 2048 bit", "ECC SECP256R1", 5455),
    ("RSA 2048 bit", "KYBER_LEVEL1", 6633),
    ("RSA 2048 bit", "KYBER_LEVEL3", 7337),
    ("RSA 2048 bit", "KYBER_LEVEL5", 8201),
    ("RSA 2048 bit", "KYBER_90S_LEVEL1", 6633),
    ("RSA 2048 bit", "KYBER_90S_LEVEL3", 7337),
    ("RSA 2048 bit", "KYBER_90S_LEVEL5", 8201),
    ("RSA 2048 bit", "P256_KYBER_LEVEL1", 6763),
    ("RSA 2048 bit", "P384_KYBER_LEVEL3", 7531),
    ("RSA 2048 bit", "P521_KYBER_LEVEL5", 8467),
    ("RSA 2048 bit", "P256_KYBER90S_LEVEL1", 6763),
    ("RSA 2048 bit", "P384_KYBER90S_LEVEL3", 7531),
    ("RSA 2048 bit", "P521_KYBER90S_LEVEL5", 8467),
    ("FALCON_LEVEL1", "ECC SECP256R1", 6997),
    ("FALCON_LEVEL5", "ECC SECP256R1", 11248),
    ("FALCON_LEVEL1", "KYBER_LEVEL1", 8180),
    ("FALCON_LEVEL1", "P256_KYBER_LEVEL1", 8308),
    ("FALCON_LEVEL5", "KYBER_LEVEL5", 14007),
    ("FALCON_LEVEL5", "P521_KYBER_LEVEL5", 14257),
    ("DILITHIUM_LEVEL2", "ECC SECP256R1", 7918),
    ("DILITHIUM_LEVEL3", "ECC SECP256R1", 10233),
    ("DILITHIUM_LEVEL5", "ECC SECP256R1", 13477),
];

const GROUPS: [&str; 12] = [
    "x25519",
    "secp256r1",
    "X25519MLKEM768",
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
    "MLKEM512",
    "MLKEM768",
    "MLKEM1024",
    "SecP256r1MLKEM512",
    "SecP384r1MLKEM768",
    "SecP521r1MLKEM1024",
    "MLKEM512X25519",
];

const SIGNATURES: [&str; 5] = ["ECDSA-P-256", "RSA-2048", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"];

/// The group of the signatures without a settled codepoint.
const DRAFTS_GROUP: &str = "X25519MLKEM768";

/// Returns the planned rows of `table`, in the order in which they are printed.
pub(super) fn planned(table: Table) -> Vec<RowPlan> {
    match table {
        Table::Seed => seed(),
        Table::Today => today(),
        Table::All => seed().into_iter().chain(today()).collect(),
    }
}

fn seed() -> Vec<RowPlan> {
    let row = |&(authentication, key_exchange, total): &(&'static str, &'static str, u64)| {
        let server_only = authentication.starts_with("DILITHIUM");
        RowPlan {
            table: Table::Seed,
            old: Some(Old { authentication, key_exchange, total }),
            signature: pairs::successor(authentication),
            group: pairs::successor(key_exchange),
            mode: if server_only { Mode::Server } else { Mode::Mutual },
        }
    };
    OLD.iter().map(row).collect()
}

fn today() -> Vec<RowPlan> {
    let mut rows = Vec::new();
    for mode in [Mode::Server, Mode::Mutual] {
        let settled =
            SIGNATURES.iter().flat_map(|sig| GROUPS.iter().map(move |group| (*sig, *group)));
        let drafts = pairs::drafts_in_tls().map(|signature| (signature, DRAFTS_GROUP));
        rows.extend(settled.chain(drafts).map(|(signature, group)| RowPlan {
            table: Table::Today,
            old: None,
            signature: Some(signature),
            group: Some(group),
            mode,
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_rows_keep_their_order_and_find_their_successors() {
        let rows = planned(Table::Seed);
        assert_eq!(rows.len(), 22);
        let names: Vec<_> = rows.iter().map(|row| (row.signature, row.group, row.mode)).collect();
        assert_eq!(names[0], (Some("RSA-2048"), Some("secp256r1"), Mode::Mutual));
        assert_eq!(names[4], (Some("RSA-2048"), None, Mode::Mutual));
        assert_eq!(names[9], (Some("RSA-2048"), Some("SecP521r1MLKEM1024"), Mode::Mutual));
        assert_eq!(names[18].0, Some("Falcon-1024"));
        assert_eq!(names[21], (Some("ML-DSA-87"), Some("secp256r1"), Mode::Server));
        let without = rows.iter().filter(|row| row.group.is_none()).count();
        assert_eq!(without, 6, "KYBER 90S, alone and in hybrids");
        assert!(rows.iter().all(|row| row.signature.is_some()));
    }

    #[test]
    fn differences_between_published_totals_are_the_standards_too() {
        let total = |group: &str| {
            OLD.iter().find(|row| row.0 == "RSA 2048 bit" && row.1 == group).unwrap().2
        };
        let shares = |group: &str| pairs::key_shares(group).unwrap() as u64;
        assert_eq!(
            total("KYBER_LEVEL3") - total("KYBER_LEVEL1"),
            shares("MLKEM768") - shares("MLKEM512")
        );
        assert_eq!(
            total("P521_KYBER_LEVEL5") - total("KYBER_LEVEL5"),
            shares("SecP521r1MLKEM1024") - shares("MLKEM1024")
        );
    }

    #[test]
    fn all_is_both() {
        assert_eq!(planned(Table::All).len(), 22 + planned(Table::Today).len());
        // Each mode has 12 groups with 5 signatures, and one group with 12 SLH-DSA and 4 Falcon.
        assert_eq!(planned(Table::Today).len(), 2 * (12 * 5 + 16));
    }
}

//! The predecessors of the standards: round 3 of the NIST process, as wolfSSL and Open Quantum Safe
//! implemented it.
//!
//! An old name is accepted on input for the algorithm that followed. It is a name only: keys,
//! ciphertexts and signatures of the drafts are not compatible with the standards'.

use super::Kind;

/// Sizes in bytes of an algorithm before its standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldSizes {
    /// Public key.
    pub public_key: usize,
    /// Private key.
    pub private_key: usize,
    /// Ciphertext, or the longest signature.
    pub output: usize,
    /// Shared secret of a KEM; 0 for a signature.
    pub shared_secret: usize,
}

/// One algorithm as it was before its standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldName {
    /// wolfSSL's name.
    pub name: &'static str,
    /// Other names: that of the submission first, then other spellings.
    pub others: &'static [&'static str],
    /// The operations that it offered.
    pub kind: Kind,
    /// The TLS codepoint it used, where it is known.
    pub codepoint: Option<u16>,
    /// The object identifier it used, where it had one.
    pub oid: Option<&'static str>,
    /// The sizes, if known.
    pub sizes: Option<OldSizes>,
    /// The name of the algorithm that followed, which need not be a row of the table yet; none
    /// where nothing did.
    pub successor: Option<&'static str>,
}

impl OldName {
    /// Finds an old name in any case, its object identifier included.
    pub fn lookup(text: &str) -> Option<&'static OldName> {
        OLD_NAMES.iter().find(|old| {
            [old.name].iter().chain(old.others).any(|name| name.eq_ignore_ascii_case(text))
                || old.oid == Some(text)
        })
    }
}

/// Round 3 allowed any length of a KEM's secret; implementations returned 32 bytes.
const KEM_SECRET: usize = 32;

const fn kem(
    names: (&'static str, &'static [&'static str]),
    codepoint: Option<u16>,
    sizes: Option<[usize; 3]>,
    successor: Option<&'static str>,
) -> OldName {
    old(Kind::Kem, names, codepoint, None, sizes, successor)
}

const fn signature(
    names: (&'static str, &'static [&'static str]),
    codepoint: Option<u16>,
    oid: Option<&'static str>,
    sizes: Option<[usize; 3]>,
    successor: Option<&'static str>,
) -> OldName {
    old(Kind::Signature, names, codepoint, oid, sizes, successor)
}

const fn old(
    kind: Kind,
    (name, others): (&'static str, &'static [&'static str]),
    codepoint: Option<u16>,
    oid: Option<&'static str>,
    sizes: Option<[usize; 3]>,
    successor: Option<&'static str>,
) -> OldName {
    let sizes = match sizes {
        Some([public_key, private_key, output]) => {
            let shared_secret = if matches!(kind, Kind::Kem) { KEM_SECRET } else { 0 };
            Some(OldSizes { public_key, private_key, output, shared_secret })
        }
        None => None,
    };
    OldName { name, others, kind, codepoint, oid, sizes, successor }
}

/// Every old name.
pub static OLD_NAMES: [OldName; 26] = [
    kem(("KYBER_LEVEL1", &["KYBER512"]), Some(570), Some([800, 1632, 768]), Some("ML-KEM-512")),
    kem(("KYBER_LEVEL3", &["KYBER768"]), Some(572), Some([1184, 2400, 1088]), Some("ML-KEM-768")),
    kem(("KYBER_LEVEL5", &["KYBER1024"]), Some(573), Some([1568, 3168, 1568]), Some("ML-KEM-1024")),
    kem(("P256_KYBER_LEVEL1", &[]), Some(12090), None, Some("SecP256r1MLKEM512")),
    kem(("P384_KYBER_LEVEL3", &[]), Some(12092), None, Some("SecP384r1MLKEM768")),
    kem(("P521_KYBER_LEVEL5", &[]), Some(12093), None, Some("SecP521r1MLKEM1024")),
    // Kyber and Dilithium over AES and SHA-2 were dropped by their authors and by NIST. wolfSSL's
    // tables gave them names, and of Kyber sizes, but neither codepoints nor object identifiers.
    kem(("KYBER_90S_LEVEL1", &["KYBER512-90S"]), None, Some([800, 1632, 768]), None),
    kem(("KYBER_90S_LEVEL3", &["KYBER768-90S"]), None, Some([1184, 2400, 1088]), None),
    kem(("KYBER_90S_LEVEL5", &["KYBER1024-90S"]), None, Some([1568, 3168, 1568]), None),
    kem(("P256_KYBER_90S_LEVEL1", &["P256_KYBER90S_LEVEL1"]), None, None, None),
    kem(("P384_KYBER_90S_LEVEL3", &["P384_KYBER90S_LEVEL3"]), None, None, None),
    kem(("P521_KYBER_90S_LEVEL5", &["P521_KYBER90S_LEVEL5"]), None, None, None),
    signature(
        ("DILITHIUM_LEVEL2", &["DILITHIUM2"]),
        Some(65184),
        Some("1.3.6.1.4.1.2.267.7.4.4"),
        Some([1312, 2528, 2420]),
        Some("ML-DSA-44"),
    ),
    signature(
        ("DILITHIUM_LEVEL3", &["DILITHIUM3"]),
        Some(65187),
        Some("1.3.6.1.4.1.2.267.7.6.5"),
        Some([1952, 4000, 3293]),
        Some("ML-DSA-65"),
    ),
    signature(
        ("DILITHIUM_LEVEL5", &["DILITHIUM5"]),
        Some(65189),
        Some("1.3.6.1.4.1.2.267.7.8.7"),
        Some([2592, 4864, 4595]),
        Some("ML-DSA-87"),
    ),
    signature(("DILITHIUM_AES_LEVEL2", &["DILITHIUM2_AES"]), None, None, None, None),
    signature(("DILITHIUM_AES_LEVEL3", &["DILITHIUM3_AES"]), None, None, None, None),
    signature(("DILITHIUM_AES_LEVEL5", &["DILITHIUM5_AES"]), None, None, None, None),
    signature(
        ("SPHINCS_FAST_LEVEL1", &["SPHINCS+-SHAKE256-128f-simple"]),
        None,
        Some("1.3.9999.6.7.4"),
        Some([32, 64, 17088]),
        Some("SLH-DSA-SHAKE-128f"),
    ),
    signature(
        ("SPHINCS_FAST_LEVEL3", &["SPHINCS+-SHAKE256-192f-simple"]),
        None,
        Some("1.3.9999.6.8.3"),
        Some([48, 96, 35664]),
        Some("SLH-DSA-SHAKE-192f"),
    ),
    signature(
        ("SPHINCS_FAST_LEVEL5", &["SPHINCS+-SHAKE256-256f-simple"]),
        None,
        Some("1.3.9999.6.9.3"),
        Some([64, 128, 49856]),
        Some("SLH-DSA-SHAKE-256f"),
    ),
    signature(
        ("SPHINCS_SMALL_LEVEL1", &["SPHINCS+-SHAKE256-128s-simple"]),
        None,
        Some("1.3.9999.6.7.10"),
        Some([32, 64, 7856]),
        Some("SLH-DSA-SHAKE-128s"),
    ),
    signature(
        ("SPHINCS_SMALL_LEVEL3", &["SPHINCS+-SHAKE256-192s-simple"]),
        None,
        Some("1.3.9999.6.8.7"),
        Some([48, 96, 16224]),
        Some("SLH-DSA-SHAKE-192s"),
    ),
    signature(
        ("SPHINCS_SMALL_LEVEL5", &["SPHINCS+-SHAKE256-256s-simple"]),
        None,
        Some("1.3.9999.6.9.7"),
        Some([64, 128, 29792]),
        Some("SLH-DSA-SHAKE-256s"),
    ),
    // Falcon is the third round's still; what FIPS 206 will make of it has another name.
    signature(
        ("FALCON_LEVEL1", &["FALCON512"]),
        Some(65035),
        Some("1.3.9999.3.1"),
        Some([897, 1281, 690]),
        Some("Falcon-512"),
    ),
    signature(
        ("FALCON_LEVEL5", &["FALCON1024"]),
        Some(65038),
        Some("1.3.9999.3.4"),
        Some([1793, 2305, 1330]),
        Some("Falcon-1024"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{ALGORITHMS, Algorithm};

    #[test]
    fn an_old_name_leads_to_its_successor_in_any_case() {
        for old in &OLD_NAMES {
            let successor = ALGORITHMS.iter().find(|row| Some(row.name) == old.successor);
            if let Some(row) = successor {
                assert_eq!(row.kind, old.kind, "{}", old.name);
                assert_eq!(row.old(), Some(old), "one old name for each successor");
            }
            let expected = successor.map(|row| (row.algorithm, Some(old.name)));
            for name in [old.name].iter().chain(old.others).copied().chain(old.oid) {
                assert_eq!(OldName::lookup(name), Some(old));
                // Falcon's submission name may be spelt as a name of today.
                let found = Algorithm::lookup(&name.to_lowercase());
                assert_eq!(found.map(|found| found.0), expected.map(|found| found.0), "{name}");
            }
        }
        assert_eq!(
            Algorithm::lookup("kyber768"),
            Some((Algorithm::MlKem768, Some("KYBER_LEVEL3")))
        );
        assert_eq!(Algorithm::lookup("KYBER_90S_LEVEL1"), None);
        assert_eq!(OldName::lookup("ML-KEM-512"), None);
    }

    #[test]
    fn successors_of_families_that_are_there_are_rows() {
        for old in &OLD_NAMES {
            let Some(successor) = old.successor else { continue };
            let family = successor.rsplit_once('-').map_or(successor, |name| name.0);
            let of_family = ALGORITHMS.iter().any(|row| row.name.starts_with(family));
            let there = ALGORITHMS.iter().any(|row| row.name == successor);
            assert_eq!(there, of_family, "{successor}, which follows {}", old.name);
        }
    }

    /// The values that wolfSSL and Open Quantum Safe published, as an independent copy: name, name
    /// of the submission, TLS codepoint, object identifier, sizes, and the standard that followed.
    const PUBLISHED: &str = "
KYBER_LEVEL1 KYBER512 570 - 800/1632/768/32 ML-KEM-512
KYBER_LEVEL3 KYBER768 572 - 1184/2400/1088/32 ML-KEM-768
KYBER_LEVEL5 KYBER1024 573 - 1568/3168/1568/32 ML-KEM-1024
P256_KYBER_LEVEL1 - 12090 - - SecP256r1MLKEM512
P384_KYBER_LEVEL3 - 12092 - - SecP384r1MLKEM768
P521_KYBER_LEVEL5 - 12093 - - SecP521r1MLKEM1024
KYBER_90S_LEVEL1 KYBER512-90S - - 800/1632/768/32 -
KYBER_90S_LEVEL3 KYBER768-90S - - 1184/2400/1088/32 -
KYBER_90S_LEVEL5 KYBER1024-90S - - 1568/3168/1568/32 -
P256_KYBER_90S_LEVEL1 P256_KYBER90S_LEVEL1 - - - -
P384_KYBER_90S_LEVEL3 P384_KYBER90S_LEVEL3 - - - -
P521_KYBER_90S_LEVEL5 P521_KYBER90S_LEVEL5 - - - -
DILITHIUM_LEVEL2 DILITHIUM2 65184 1.3.6.1.4.1.2.267.7.4.4 1312/2528/2420/0 ML-DSA-44
DILITHIUM_LEVEL3 DILITHIUM3 65187 1.3.6.1.4.1.2.267.7.6.5 1952/4000/3293/0 ML-DSA-65
DILITHIUM_LEVEL5 DILITHIUM5 65189 1.3.6.1.4.1.2.267.7.8.7 2592/4864/4595/0 ML-DSA-87
DILITHIUM_AES_LEVEL2 DILITHIUM2_AES - - - -
DILITHIUM_AES_LEVEL3 DILITHIUM3_AES - - - -
DILITHIUM_AES_LEVEL5 DILITHIUM5_AES - - - -
SPHINCS_FAST_LEVEL1 SPHINCS+-SHAKE256-128f-simple - 1.3.9999.6.7.4 32/64/17088/0 SLH-DSA-SHAKE-128f
SPHINCS_FAST_LEVEL3 SPHINCS+-SHAKE256-192f-simple - 1.3.9999.6.8.3 48/96/35664/0 SLH-DSA-SHAKE-192f
SPHINCS_FAST_LEVEL5 SPHINCS+-SHAKE256-256f-simple - 1.3.9999.6.9.3 64/128/49856/0 SLH-DSA-SHAKE-256f
SPHINCS_SMALL_LEVEL1 SPHINCS+-SHAKE256-128s-simple - 1.3.9999.6.7.10 32/64/7856/0 SLH-DSA-SHAKE-128s
SPHINCS_SMALL_LEVEL3 SPHINCS+-SHAKE256-192s-simple - 1.3.9999.6.8.7 48/96/16224/0 SLH-DSA-SHAKE-192s
SPHINCS_SMALL_LEVEL5 SPHINCS+-SHAKE256-256s-simple - 1.3.9999.6.9.7 64/128/29792/0 SLH-DSA-SHAKE-256s
FALCON_LEVEL1 FALCON512 65035 1.3.9999.3.1 897/1281/690/0 Falcon-512
FALCON_LEVEL5 FALCON1024 65038 1.3.9999.3.4 1793/2305/1330/0 Falcon-1024
";

    #[test]
    fn old_names_match_the_published_table() {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let mut rows = PUBLISHED.lines().skip(1);
        for old in &OLD_NAMES {
            let sizes = old.sizes.map(|sizes| {
                let OldSizes { public_key, private_key, output, shared_secret } = sizes;
                format!("{public_key}/{private_key}/{output}/{shared_secret}")
            });
            let columns = [
                old.name.to_owned(),
                or_dash((!old.others.is_empty()).then(|| old.others.join(","))),
                or_dash(old.codepoint.map(|codepoint| codepoint.to_string())),
                or_dash(old.oid.map(str::to_owned)),
                or_dash(sizes),
                or_dash(old.successor.map(str::to_owned)),
            ];
            assert_eq!(Some(&*columns.join(" ")), rows.next());
        }
        assert_eq!(rows.next(), None);
    }

    #[test]
    fn old_identifiers_are_unique_and_unused() {
        for (i, a) in OLD_NAMES.iter().enumerate() {
            for b in &OLD_NAMES[i + 1..] {
                assert_ne!(a.name, b.name);
                assert!(a.codepoint.is_none() || a.codepoint != b.codepoint);
                assert!(a.oid.is_none() || a.oid != b.oid);
            }
            for row in &ALGORITHMS {
                assert!(a.codepoint.is_none() || a.codepoint != row.tls.map(|tls| tls.number));
                assert!(a.oid.is_none() || a.oid != row.oid);
            }
        }
    }
}

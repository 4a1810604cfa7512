//! Every algorithm's names, identifiers and sizes, as one table.
//!
//! The command line prints this table, the provider registers from it, the tests check it. Sources:
//! FIPS 203 tables 2 and 3, FIPS 204 tables 1 and 2, the CSOR object identifiers, RFC 9881, RFC 9935,
//! the IANA TLS registries; old names and numbers as wolfSSL and Open Quantum Safe used them.

use std::fmt;
use std::str::FromStr;

/// A parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Algorithm {
    /// ML-KEM-512 (FIPS 203).
    MlKem512,
    /// ML-KEM-768 (FIPS 203).
    MlKem768,
    /// ML-KEM-1024 (FIPS 203).
    MlKem1024,
    /// ML-DSA-44 (FIPS 204).
    MlDsa44,
    /// ML-DSA-65 (FIPS 204).
    MlDsa65,
    /// ML-DSA-87 (FIPS 204).
    MlDsa87,
}

/// What an algorithm is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Key encapsulation: keygen, encaps, decaps.
    Kem,
    /// Signature: keygen, sign, verify.
    Signature,
}

/// A name and number in a TLS registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codepoint {
    /// The registry's name: a NamedGroup of a KEM, a SignatureScheme of a signature.
    pub name: &'static str,
    /// The registered number.
    pub number: u16,
}

/// What came before the standard: the draft's name and numbers, accepted on input as a name only.
/// Keys and signatures of the drafts are not compatible with the standard's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldName {
    /// wolfSSL's name before the standards.
    pub name: &'static str,
    /// The TLS codepoint it used.
    pub codepoint: u16,
    /// The object identifier it used, where it had one.
    pub oid: Option<&'static str>,
}

/// One row of the table. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmInfo {
    /// The parameter set.
    pub algorithm: Algorithm,
    /// The standard's name, the only one that is printed as the main name.
    pub name: &'static str,
    /// The standard.
    pub standard: &'static str,
    /// KEM or signature.
    pub kind: Kind,
    /// NIST security category, 1 to 5.
    pub category: u8,
    /// Bits of security as OpenSSL reports them for this category.
    pub security_bits: u16,
    /// Object identifier, dotted.
    pub oid: &'static str,
    /// The name that goes with the object identifier in RFC 9881 and RFC 9935.
    pub oid_name: &'static str,
    /// TLS 1.3 registration.
    pub tls: Codepoint,
    /// OpenSSL's names, the main one first.
    pub openssl: &'static [&'static str],
    /// wolfSSL's name today.
    pub wolfssl: &'static str,
    /// liboqs's name.
    pub oqs: &'static str,
    /// The pre-standard name and numbers.
    pub old: OldName,
    /// Object identifier of the pre-hash variant (HashML-DSA), where there is one.
    pub prehash_oid: Option<&'static str>,
    /// Encoded public key.
    pub public_key: usize,
    /// Expanded private key as the standard encodes it.
    pub private_key: usize,
    /// Seed form of the private key.
    pub seed: usize,
    /// Ciphertext of a KEM, signature of a signature.
    pub output: usize,
    /// Shared secret of a KEM, 0 for a signature.
    pub shared_secret: usize,
}

#[allow(clippy::too_many_arguments)] // One argument for each group of columns.
const fn kem(
    algorithm: Algorithm,
    category: u8,
    security_bits: u16,
    sizes: [usize; 3],
    oid: &'static str,
    tls: Codepoint,
    names: [&'static str; 4],
    openssl: &'static [&'static str],
    old: OldName,
) -> AlgorithmInfo {
    AlgorithmInfo {
        algorithm,
        name: names[0],
        standard: "FIPS 203",
        kind: Kind::Kem,
        category,
        security_bits,
        oid,
        oid_name: names[1],
        tls,
        openssl,
        wolfssl: names[2],
        oqs: names[3],
        old,
        prehash_oid: None,
        public_key: sizes[0],
        private_key: sizes[1],
        seed: 64,
        output: sizes[2],
        shared_secret: 32,
    }
}

#[allow(clippy::too_many_arguments)] // One argument for each group of columns.
const fn dsa(
    algorithm: Algorithm,
    category: u8,
    security_bits: u16,
    sizes: [usize; 3],
    oids: [&'static str; 2],
    tls: Codepoint,
    names: [&'static str; 4],
    openssl: &'static [&'static str],
    old: OldName,
) -> AlgorithmInfo {
    AlgorithmInfo {
        algorithm,
        name: names[0],
        standard: "FIPS 204",
        kind: Kind::Signature,
        category,
        security_bits,
        oid: oids[0],
        oid_name: names[1],
        tls,
        openssl,
        wolfssl: names[2],
        oqs: names[3],
        old,
        prehash_oid: Some(oids[1]),
        public_key: sizes[0],
        private_key: sizes[1],
        seed: 32,
        output: sizes[2],
        shared_secret: 0,
    }
}

const fn tls(name: &'static str, number: u16) -> Codepoint {
    Codepoint { name, number }
}

const fn old(name: &'static str, codepoint: u16, oid: Option<&'static str>) -> OldName {
    OldName { name, codepoint, oid }
}

/// The table, in the order of [`Algorithm`].
pub static ALGORITHMS: [AlgorithmInfo; 6] = [
    kem(
        Algorithm::MlKem512,
        1,
        128,
        [800, 1632, 768],
        "2.16.840.1.101.3.4.4.1",
        tls("MLKEM512", 0x0200),
        ["ML-KEM-512", "id-alg-ml-kem-512", "ML_KEM_512", "ML-KEM-512"],
        &["ML-KEM-512", "MLKEM512", "id-alg-ml-kem-512"],
        old("KYBER_LEVEL1", 570, None),
    ),
    kem(
        Algorithm::MlKem768,
        3,
        192,
        [1184, 2400, 1088],
        "2.16.840.1.101.3.4.4.2",
        tls("MLKEM768", 0x0201),
        ["ML-KEM-768", "id-alg-ml-kem-768", "ML_KEM_768", "ML-KEM-768"],
        &["ML-KEM-768", "MLKEM768", "id-alg-ml-kem-768"],
        old("KYBER_LEVEL3", 572, None),
    ),
    kem(
        Algorithm::MlKem1024,
        5,
        256,
        [1568, 3168, 1568],
        "2.16.840.1.101.3.4.4.3",
        tls("MLKEM1024", 0x0202),
        ["ML-KEM-1024", "id-alg-ml-kem-1024", "ML_KEM_1024", "ML-KEM-1024"],
        &["ML-KEM-1024", "MLKEM1024", "id-alg-ml-kem-1024"],
        old("KYBER_LEVEL5", 573, None),
    ),
    dsa(
        Algorithm::MlDsa44,
        2,
        128,
        [1312, 2560, 2420],
        ["2.16.840.1.101.3.4.3.17", "2.16.840.1.101.3.4.3.32"],
        tls("mldsa44", 0x0904),
        ["ML-DSA-44", "id-ml-dsa-44", "ML_DSA_44", "ML-DSA-44"],
        &["ML-DSA-44", "MLDSA44", "id-ml-dsa-44"],
        old("DILITHIUM_LEVEL2", 65184, Some("1.3.6.1.4.1.2.267.7.4.4")),
    ),
    dsa(
        Algorithm::MlDsa65,
        3,
        192,
        [1952, 4032, 3309],
        ["2.16.840.1.101.3.4.3.18", "2.16.840.1.101.3.4.3.33"],
        tls("mldsa65", 0x0905),
        ["ML-DSA-65", "id-ml-dsa-65", "ML_DSA_65", "ML-DSA-65"],
        &["ML-DSA-65", "MLDSA65", "id-ml-dsa-65"],
        old("DILITHIUM_LEVEL3", 65187, Some("1.3.6.1.4.1.2.267.7.6.5")),
    ),
    dsa(
        Algorithm::MlDsa87,
        5,
        256,
        [2592, 4896, 4627],
        ["2.16.840.1.101.3.4.3.19", "2.16.840.1.101.3.4.3.34"],
        tls("mldsa87", 0x0906),
        ["ML-DSA-87", "id-ml-dsa-87", "ML_DSA_87", "ML-DSA-87"],
        &["ML-DSA-87", "MLDSA87", "id-ml-dsa-87"],
        old("DILITHIUM_LEVEL5", 65189, Some("1.3.6.1.4.1.2.267.7.8.7")),
    ),
];

impl Algorithm {
    /// Every parameter set, in the table's order.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        ALGORITHMS.iter().map(|row| row.algorithm)
    }

    /// The row of the table.
    pub fn info(self) -> &'static AlgorithmInfo {
        // The table is in the order of the enum; a test holds it to that.
        &ALGORITHMS[self as usize]
    }

    /// The standard's name.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Looks an algorithm up by any of its names, in any case, or by its object identifier.
    /// The second value is the old name if that is what was given.
    pub fn lookup(text: &str) -> Option<(Algorithm, Option<&'static str>)> {
        ALGORITHMS.iter().find_map(|row| {
            let is = |name: &str| name.eq_ignore_ascii_case(text);
            if is(row.old.name) {
                return Some((row.algorithm, Some(row.old.name)));
            }
            let known = [row.name, row.oid, row.oid_name, row.tls.name, row.wolfssl, row.oqs];
            (known.into_iter().any(is) || row.openssl.iter().any(|name| is(name)))
                .then_some((row.algorithm, None))
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that stands in no row of the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown algorithm `{0}`; `gabion algorithms` lists those there are")]
pub struct UnknownAlgorithm(pub String);

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Algorithm::lookup(text)
            .map(|found| found.0)
            .ok_or_else(|| UnknownAlgorithm(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum() {
        for (index, row) in ALGORITHMS.iter().enumerate() {
            assert_eq!(row.algorithm as usize, index);
            assert_eq!(row.algorithm.info().name, row.name);
        }
    }

    #[test]
    fn every_name_leads_to_its_row_in_any_case() {
        for row in &ALGORITHMS {
            let names = [row.name, row.oid, row.oid_name, row.tls.name, row.wolfssl, row.oqs];
            for name in names.into_iter().chain(row.openssl.iter().copied()) {
                assert_eq!(Algorithm::lookup(&name.to_lowercase()), Some((row.algorithm, None)));
            }
            assert_eq!(Algorithm::lookup(row.old.name), Some((row.algorithm, Some(row.old.name))));
        }
        assert!("KYBER".parse::<Algorithm>().is_err());
    }

    #[test]
    fn identifiers_are_unique() {
        for (i, a) in ALGORITHMS.iter().enumerate() {
            for b in &ALGORITHMS[i + 1..] {
                assert!(a.oid != b.oid && a.tls.number != b.tls.number && a.name != b.name);
                assert!(a.old.codepoint != b.old.codepoint);
            }
        }
    }
}

//! The provider's key types: one list, from which the core's lists, the dispatch tables and the
//! counters follow.
//!
//! An entry is a row of the table of algorithms, or the pre-hash variant of one: OpenSSL knows
//! HashML-DSA and HashSLH-DSA by object identifiers of their own, each of which fixes the hash, so
//! they are key types of their own here.

use std::fmt;

use gabion_engine::{ALGORITHMS, Algorithm, AlgorithmInfo, Family, Kind, Prehash};
use pkcs8::der::Encode;

/// A key type that the provider serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyType {
    /// The row whose keys and operations it uses.
    pub algorithm: Algorithm,
    /// The hash whose digest is signed, where it is a pre-hash variant.
    pub hash: Option<Prehash>,
}

/// The names of a pre-hash variant, the main one first, then the long and the short name of
/// OpenSSL's table of objects.
struct PrehashNames {
    algorithm: Algorithm,
    names: [&'static str; 3],
}

/// The number of KEMs and key exchanges, which come first in [`KEY_TYPES`].
pub const EPHEMERAL: usize = 11;

/// The list: one line an algorithm; then one a pre-hash variant.
macro_rules! key_types {
    (
        $($algorithm:ident,)*
        ; $($row:ident with $hash:ident, $name:literal, $long:literal, $short:literal;)*
    ) => {
        /// The number of key types.
        const LEN: usize =
            [$(Algorithm::$algorithm,)* $(Algorithm::$row,)*].len();

        /// Every key type, in the order of the provider's own tables.
        pub const KEY_TYPES: [KeyType; LEN] = [
            $(KeyType { algorithm: Algorithm::$algorithm, hash: None },)*
            $(KeyType { algorithm: Algorithm::$row, hash: Some(Prehash::$hash) },)*
        ];

        static PREHASH_NAMES: &[PrehashNames] = &[
            $(PrehashNames { algorithm: Algorithm::$row, names: [$name, $long, $short] },)*
        ];

        /// Calls a `const fn` for each of [`KEY_TYPES`], with its position (see [`at`]) as the
        /// const argument, and collects the results in an array.
        macro_rules! for_each_key_type {
            ($function:ident) => {
                [
                    $($function::<{ gabion_engine::Algorithm::$algorithm as usize }>(),)*
                    $($function::<
                        { $crate::key_types::PREHASH_FROM + gabion_engine::Algorithm::$row as usize }
                    >(),)*
                ]
            };
        }
        pub(crate) use for_each_key_type;
    };
}

key_types! {
    MlKem512,
    MlKem768,
    MlKem1024,
    X25519MlKem768,
    SecP256r1MlKem768,
    SecP384r1MlKem1024,
    SecP256r1MlKem512,
    SecP384r1MlKem768,
    SecP521r1MlKem1024,
    MlKem512X25519,
    X25519,
    MlDsa44,
    MlDsa65,
    MlDsa87,
    SlhDsaSha2_128s,
    SlhDsaSha2_128f,
    SlhDsaSha2_192s,
    SlhDsaSha2_192f,
    SlhDsaSha2_256s,
    SlhDsaSha2_256f,
    SlhDsaShake128s,
    SlhDsaShake128f,
    SlhDsaShake192s,
    SlhDsaShake192f,
    SlhDsaShake256s,
    SlhDsaShake256f,
    FnDsa512,
    FnDsa1024,
    Falcon512,
    Falcon1024,
    FalconPadded512,
    FalconPadded1024,
    MlDsa44Rsa2048PssSha256,
    MlDsa44Rsa2048Pkcs15Sha256,
    MlDsa44Ed25519Sha512,
    MlDsa44EcdsaP256Sha256,
    MlDsa65Rsa3072PssSha512,
    MlDsa65Rsa3072Pkcs15Sha512,
    MlDsa65Rsa4096PssSha512,
    MlDsa65Rsa4096Pkcs15Sha512,
    MlDsa65EcdsaP256Sha512,
    MlDsa65EcdsaP384Sha512,
    MlDsa65Ed25519Sha512,
    MlDsa87EcdsaP384Sha512,
    MlDsa87Rsa3072PssSha512,
    MlDsa87Rsa4096PssSha512,
    MlDsa87EcdsaP521Sha512,
    Hss,
    Xmss,
    XmssMt,
    ;
    MlDsa44 with Sha2_512, "HashML-DSA-44-with-SHA512",
        "HASH-ML-DSA-44-WITH-SHA512", "id-hash-ml-dsa-44-with-sha512";
    MlDsa65 with Sha2_512, "HashML-DSA-65-with-SHA512",
        "HASH-ML-DSA-65-WITH-SHA512", "id-hash-ml-dsa-65-with-sha512";
    MlDsa87 with Sha2_512, "HashML-DSA-87-with-SHA512",
        "HASH-ML-DSA-87-WITH-SHA512", "id-hash-ml-dsa-87-with-sha512";
    SlhDsaSha2_128s with Sha2_256, "HashSLH-DSA-SHA2-128s-with-SHA256",
        "SLH-DSA-SHA2-128s-WITH-SHA256", "id-hash-slh-dsa-sha2-128s-with-sha256";
    SlhDsaSha2_128f with Sha2_256, "HashSLH-DSA-SHA2-128f-with-SHA256",
        "SLH-DSA-SHA2-128f-WITH-SHA256", "id-hash-slh-dsa-sha2-128f-with-sha256";
    SlhDsaSha2_192s with Sha2_512, "HashSLH-DSA-SHA2-192s-with-SHA512",
        "SLH-DSA-SHA2-192s-WITH-SHA512", "id-hash-slh-dsa-sha2-192s-with-sha512";
    SlhDsaSha2_192f with Sha2_512, "HashSLH-DSA-SHA2-192f-with-SHA512",
        "SLH-DSA-SHA2-192f-WITH-SHA512", "id-hash-slh-dsa-sha2-192f-with-sha512";
    SlhDsaSha2_256s with Sha2_512, "HashSLH-DSA-SHA2-256s-with-SHA512",
        "SLH-DSA-SHA2-256s-WITH-SHA512", "id-hash-slh-dsa-sha2-256s-with-sha512";
    SlhDsaSha2_256f with Sha2_512, "HashSLH-DSA-SHA2-256f-with-SHA512",
        "SLH-DSA-SHA2-256f-WITH-SHA512", "id-hash-slh-dsa-sha2-256f-with-sha512";
    SlhDsaShake128s with Shake128, "HashSLH-DSA-SHAKE-128s-with-SHAKE128",
        "SLH-DSA-SHAKE-128s-WITH-SHAKE128", "id-hash-slh-dsa-shake-128s-with-shake128";
    SlhDsaShake128f with Shake128, "HashSLH-DSA-SHAKE-128f-with-SHAKE128",
        "SLH-DSA-SHAKE-128f-WITH-SHAKE128", "id-hash-slh-dsa-shake-128f-with-shake128";
    SlhDsaShake192s with Shake256, "HashSLH-DSA-SHAKE-192s-with-SHAKE256",
        "SLH-DSA-SHAKE-192s-WITH-SHAKE256", "id-hash-slh-dsa-shake-192s-with-shake256";
    SlhDsaShake192f with Shake256, "HashSLH-DSA-SHAKE-192f-with-SHAKE256",
        "SLH-DSA-SHAKE-192f-WITH-SHAKE256", "id-hash-slh-dsa-shake-192f-with-shake256";
    SlhDsaShake256s with Shake256, "HashSLH-DSA-SHAKE-256s-with-SHAKE256",
        "SLH-DSA-SHAKE-256s-WITH-SHAKE256", "id-hash-slh-dsa-shake-256s-with-shake256";
    SlhDsaShake256f with Shake256, "HashSLH-DSA-SHAKE-256f-with-SHAKE256",
        "SLH-DSA-SHAKE-256f-WITH-SHAKE256", "id-hash-slh-dsa-shake-256f-with-shake256";
}

/// HSS, under which the store loader is counted: the type of a stored key is only known once it is
/// read.
pub const HSS: KeyType = KeyType { algorithm: Algorithm::Hss, hash: None };

/// The places of pre-hash variants begin here; below stand the rows of the table of algorithms.
pub const PREHASH_FROM: usize = ALGORITHMS.len();

/// The index in [`KEY_TYPES`] of what stands at a place; [`NONE`] where that is not served.
const INDEXES: [u8; 2 * PREHASH_FROM] = {
    assert!(LEN < NONE as usize);
    let mut indexes = [NONE; 2 * PREHASH_FROM];
    let mut index = 0;
    while index < LEN {
        indexes[KEY_TYPES[index].place()] = index as u8;
        index += 1;
    }
    indexes
};

const NONE: u8 = u8::MAX;

/// Returns the key type at a position given as a const argument.
pub fn at<const PLACE: usize>() -> KeyType {
    KEY_TYPES[INDEXES[PLACE] as usize]
}

impl KeyType {
    /// Where it stands among all that could be served.
    const fn place(self) -> usize {
        let base = if self.hash.is_some() { PREHASH_FROM } else { 0 };
        base + self.algorithm as usize
    }

    /// Returns the index in [`KEY_TYPES`]. All existing values are in it; any other would map to
    /// the first.
    pub fn index(self) -> usize {
        match INDEXES[self.place()] {
            NONE => 0,
            index => usize::from(index),
        }
    }

    /// The row of the table of algorithms.
    pub fn info(self) -> &'static AlgorithmInfo {
        self.algorithm.info()
    }

    fn prehash_names(self) -> Option<&'static PrehashNames> {
        let of = |row: &&PrehashNames| self.hash.is_some() && row.algorithm == self.algorithm;
        PREHASH_NAMES.iter().find(of)
    }

    /// The main name.
    pub fn name(self) -> &'static str {
        self.prehash_names().map_or(self.info().name, |row| row.names[0])
    }

    /// The object identifier, dotted.
    pub fn oid(self) -> Option<&'static str> {
        match self.hash {
            Some(_) => self.info().prehash_oid,
            None => self.info().oid,
        }
    }

    /// The object identifier that public keys had before, which is read and not written.
    pub fn oid_before(self) -> Option<&'static str> {
        self.info().oid_before.filter(|_| self.hash.is_none())
    }

    /// Every name, the main one first and the object identifiers last, of which one may be read
    /// alone. They are the default provider's where it has the algorithm; else the standard's, that
    /// of TLS and those that wolfSSL and Open Quantum Safe gave it.
    pub fn names(self) -> Vec<&'static str> {
        let info = self.info();
        let mut names: Vec<&'static str> = Vec::new();
        let tls = info.tls.map(|tls| tls.name);
        let others = [info.oid_name, tls, info.wolfssl, info.oqs];
        match self.prehash_names() {
            Some(row) => names.extend(row.names),
            None if !info.openssl.is_empty() => names.extend(info.openssl),
            None => names.extend([info.name].into_iter().chain(others.into_iter().flatten())),
        }
        names.extend(self.oid());
        names.extend(self.oid_before());
        let mut unique: Vec<&'static str> = Vec::new();
        for name in names {
            if !unique.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                unique.push(name);
            }
        }
        unique
    }

    /// Returns whether its code is in this build.
    pub fn is_built(self) -> bool {
        self.info().family.is_built()
    }

    /// Returns whether OpenSSL's table of objects contains the identifier of this key type.
    /// Otherwise it is registered with the core.
    pub fn is_known_object(self) -> bool {
        self.hash.is_none() && !self.info().openssl.is_empty()
    }

    /// Returns whether it is a key exchange, which is served where a switch says so.
    pub fn is_exchange(self) -> bool {
        self.info().kind == Kind::KeyExchange
    }

    /// Returns the length of the seed that a key can be generated from. Private keys of X25519 are
    /// random bytes without a seed.
    pub fn seed_len(self) -> Option<usize> {
        self.info().seed.filter(|_| !self.is_exchange())
    }

    /// Returns whether a private key keeps the seed that it was generated from. The random bytes of
    /// an SLH-DSA key are most of the private key, and not a format of it (RFC 9909, section 6).
    pub fn keeps_seed(self) -> bool {
        self.seed_len().is_some() && self.info().family != Family::SlhDsa
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The DER encoding of an AlgorithmIdentifier without parameters (RFC 9881, section 2), as
/// certificates carry it: SEQUENCE { OBJECT IDENTIFIER }. None where there is no identifier.
pub fn algorithm_identifier(key_type: KeyType) -> Option<Vec<u8>> {
    let oid = pkcs8::ObjectIdentifier::new(key_type.oid()?).ok()?;
    pkcs8::AlgorithmIdentifierRef { oid, parameters: None }.to_der().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(algorithm: Algorithm) -> KeyType {
        KeyType { algorithm, hash: None }
    }

    #[test]
    fn names_are_those_of_the_default_provider() {
        for (algorithm, names) in [
            (Algorithm::MlKem768, "ML-KEM-768:MLKEM768:id-alg-ml-kem-768:2.16.840.1.101.3.4.4.2"),
            (Algorithm::MlDsa65, "ML-DSA-65:MLDSA65:id-ml-dsa-65:2.16.840.1.101.3.4.3.18"),
            (
                Algorithm::SlhDsaShake192f,
                "SLH-DSA-SHAKE-192f:id-slh-dsa-shake-192f:2.16.840.1.101.3.4.3.29",
            ),
            (Algorithm::FalconPadded512, "Falcon-padded-512:falconpadded512:1.3.9999.3.16"),
            (Algorithm::FnDsa1024, "FN-DSA-1024-draft"),
            (Algorithm::SecP384r1MlKem1024, "SecP384r1MLKEM1024"),
            (Algorithm::SecP256r1MlKem512, "SecP256r1MLKEM512:p256_mlkem512"),
            (Algorithm::SecP521r1MlKem1024, "SecP521r1MLKEM1024:p521_mlkem1024"),
            (Algorithm::MlKem512X25519, "MLKEM512X25519"),
            (Algorithm::X25519, "X25519:1.3.101.110"),
        ] {
            assert_eq!(plain(algorithm).names().join(":"), names);
        }
    }

    #[test]
    fn no_name_stands_for_two_things() {
        let mut seen = std::collections::HashSet::new();
        for key_type in KEY_TYPES {
            assert_eq!(key_type.names()[0], key_type.name());
            for name in key_type.names() {
                assert!(seen.insert(name.to_ascii_lowercase()), "{name}");
            }
        }
    }

    #[test]
    fn places_lead_back_to_the_list() {
        for (index, key_type) in KEY_TYPES.into_iter().enumerate() {
            assert_eq!(key_type.index(), index, "{key_type}");
        }
        assert_eq!(at::<{ Algorithm::MlDsa65 as usize }>(), plain(Algorithm::MlDsa65));
        let hashed = at::<{ PREHASH_FROM + Algorithm::MlDsa65 as usize }>();
        assert_eq!(hashed.hash, Some(Prehash::Sha2_512));
        assert_eq!(hashed.oid(), Some("2.16.840.1.101.3.4.3.33"));
    }

    #[test]
    fn a_pre_hash_variant_names_the_hash_of_its_identifier() {
        let hashed = KEY_TYPES.iter().filter(|key_type| key_type.hash.is_some());
        assert_eq!(hashed.clone().count(), 15);
        for key_type in hashed {
            let hash =
                key_type.hash.unwrap().name().replace("SHA2-", "SHA").replace("SHAKE-", "SHAKE");
            for name in &key_type.names()[..3] {
                assert!(name.to_ascii_uppercase().ends_with(&format!("-WITH-{hash}")), "{name}");
                assert!(name.to_ascii_lowercase().contains(&key_type.info().name.to_lowercase()));
            }
        }
    }

    #[test]
    fn algorithm_identifier_is_der() {
        let of = |name: &str| {
            algorithm_identifier(
                *KEY_TYPES.iter().find(|key_type| key_type.name() == name).unwrap(),
            )
        };
        let der = b"\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x12";
        assert_eq!(of("ML-DSA-65").as_deref(), Some(&der[..]));
        // An arc above 127.
        assert_eq!(of("Falcon-512").as_deref(), Some(&b"\x30\x07\x06\x05\x2b\xce\x0f\x03\x0b"[..]));
        assert_eq!(of("FN-DSA-512-draft"), None);
    }
}

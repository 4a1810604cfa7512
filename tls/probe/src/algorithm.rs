//! Names of the algorithms of keys and signatures by their object identifiers, and whether each is
//! post-quantum.
//!
//! Post-quantum algorithms are rows of the engine's table. Classical algorithms, which have no row
//! there, and composites that Gabion does not implement are listed here.

use gabion_engine::{ALGORITHMS, Algorithm, AlgorithmInfo, OLD_NAMES};
use pkcs8::der::asn1::{AnyRef, UintRef};
use pkcs8::der::{self, Decode, Reader, SliceReader};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use serde::{Deserialize, Serialize};

/// The algorithm of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyKind {
    /// The name, such as `ML-DSA-65`, `RSA-2048` or `ECDSA P-256`.
    pub name: String,
    /// Whether it resists quantum computers; `false` if the algorithm is unknown.
    pub is_post_quantum: bool,
    /// The size in bits: the modulus of RSA, the field of a curve, the encoded public key of a
    /// post-quantum algorithm; 0 if unknown.
    pub bits: usize,
}

/// The algorithm of a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureKind {
    /// The name, such as `ML-DSA-65` or `RSA with SHA-256`.
    pub name: String,
    /// Whether it resists quantum computers; `false` if the algorithm is unknown.
    pub is_post_quantum: bool,
}

/// Elliptic curves: object identifier, name, bits of the field.
const CURVES: [(&str, &str, usize); 16] = [
    ("1.2.840.10045.3.1.1", "P-192", 192),
    ("1.3.132.0.33", "P-224", 224),
    ("1.2.840.10045.3.1.7", "P-256", 256),
    ("1.3.132.0.34", "P-384", 384),
    ("1.3.132.0.35", "P-521", 521),
    ("1.3.132.0.10", "secp256k1", 256),
    ("1.3.36.3.3.2.8.1.1.3", "brainpoolP192r1", 192),
    ("1.3.36.3.3.2.8.1.1.5", "brainpoolP224r1", 224),
    ("1.3.36.3.3.2.8.1.1.7", "brainpoolP256r1", 256),
    ("1.3.36.3.3.2.8.1.1.8", "brainpoolP256t1", 256),
    ("1.3.36.3.3.2.8.1.1.9", "brainpoolP320r1", 320),
    ("1.3.36.3.3.2.8.1.1.11", "brainpoolP384r1", 384),
    ("1.3.36.3.3.2.8.1.1.12", "brainpoolP384t1", 384),
    ("1.3.36.3.3.2.8.1.1.13", "brainpoolP512r1", 512),
    ("1.3.36.3.3.2.8.1.1.14", "brainpoolP512t1", 512),
    ("1.2.156.10197.1.301", "SM2", 256),
];

/// Classical algorithms of keys without parameters: object identifier, name, bits.
const CLASSICAL_KEYS: [(&str, &str, usize); 6] = [
    ("1.3.101.110", "X25519", 256),
    ("1.3.101.111", "X448", 448),
    ("1.3.101.112", "Ed25519", 256),
    ("1.3.101.113", "Ed448", 456),
    ("1.2.643.7.1.1.1.1", "GOST R 34.10-2012 256", 256),
    ("1.2.643.7.1.1.1.2", "GOST R 34.10-2012 512", 512),
];

/// Classical signatures: object identifier, name.
const CLASSICAL_SIGNATURES: [(&str, &str); 28] = [
    ("1.2.840.113549.1.1.2", "RSA with MD2"),
    ("1.2.840.113549.1.1.4", "RSA with MD5"),
    ("1.2.840.113549.1.1.5", "RSA with SHA-1"),
    ("1.3.14.3.2.29", "RSA with SHA-1"),
    ("1.2.840.113549.1.1.14", "RSA with SHA-224"),
    ("1.2.840.113549.1.1.11", "RSA with SHA-256"),
    ("1.2.840.113549.1.1.12", "RSA with SHA-384"),
    ("1.2.840.113549.1.1.13", "RSA with SHA-512"),
    ("2.16.840.1.101.3.4.3.14", "RSA with SHA3-256"),
    ("2.16.840.1.101.3.4.3.15", "RSA with SHA3-384"),
    ("2.16.840.1.101.3.4.3.16", "RSA with SHA3-512"),
    ("1.2.840.10045.4.1", "ECDSA with SHA-1"),
    ("1.2.840.10045.4.3.1", "ECDSA with SHA-224"),
    ("1.2.840.10045.4.3.2", "ECDSA with SHA-256"),
    ("1.2.840.10045.4.3.3", "ECDSA with SHA-384"),
    ("1.2.840.10045.4.3.4", "ECDSA with SHA-512"),
    ("2.16.840.1.101.3.4.3.10", "ECDSA with SHA3-256"),
    ("2.16.840.1.101.3.4.3.11", "ECDSA with SHA3-384"),
    ("2.16.840.1.101.3.4.3.12", "ECDSA with SHA3-512"),
    ("1.2.840.10040.4.3", "DSA with SHA-1"),
    ("2.16.840.1.101.3.4.3.1", "DSA with SHA-224"),
    ("2.16.840.1.101.3.4.3.2", "DSA with SHA-256"),
    ("1.3.101.112", "Ed25519"),
    ("1.3.101.113", "Ed448"),
    ("1.2.156.10197.1.501", "SM2 with SM3"),
    ("1.2.643.7.1.1.3.2", "GOST R 34.10-2012 256"),
    ("1.2.643.7.1.1.3.3", "GOST R 34.10-2012 512"),
    ("1.2.643.2.2.3", "GOST R 34.10-2001"),
];

/// Composites that Gabion does not implement: signatures on other curves
/// (draft-ietf-lamps-pq-composite-sigs) and KEMs (draft-ietf-lamps-pq-composite-kem).
const OTHER_COMPOSITES: [(&str, &str); 15] = [
    ("1.3.6.1.5.5.7.6.47", "MLDSA65-ECDSA-brainpoolP256r1-SHA512-draft19"),
    ("1.3.6.1.5.5.7.6.50", "MLDSA87-ECDSA-brainpoolP384r1-SHA512-draft19"),
    ("1.3.6.1.5.5.7.6.51", "MLDSA87-Ed448-SHAKE256-draft19"),
    ("1.3.6.1.5.5.7.6.55", "MLKEM768-RSA2048-SHA3-256"),
    ("1.3.6.1.5.5.7.6.56", "MLKEM768-RSA3072-SHA3-256"),
    ("1.3.6.1.5.5.7.6.57", "MLKEM768-RSA4096-SHA3-256"),
    ("1.3.6.1.5.5.7.6.58", "MLKEM768-X25519-SHA3-256"),
    ("1.3.6.1.5.5.7.6.59", "MLKEM768-ECDH-P256-SHA3-256"),
    ("1.3.6.1.5.5.7.6.60", "MLKEM768-ECDH-P384-SHA3-256"),
    ("1.3.6.1.5.5.7.6.61", "MLKEM768-ECDH-brainpoolP256r1-SHA3-256"),
    ("1.3.6.1.5.5.7.6.62", "MLKEM1024-RSA3072-SHA3-256"),
    ("1.3.6.1.5.5.7.6.63", "MLKEM1024-ECDH-P384-SHA3-256"),
    ("1.3.6.1.5.5.7.6.64", "MLKEM1024-ECDH-brainpoolP384r1-SHA3-256"),
    ("1.3.6.1.5.5.7.6.65", "MLKEM1024-X448-SHA3-256"),
    ("1.3.6.1.5.5.7.6.66", "MLKEM1024-ECDH-P521-SHA3-256"),
];

/// Hash functions in the parameters of RSASSA-PSS.
const HASHES: [(&str, &str); 8] = [
    ("1.3.14.3.2.26", "SHA-1"),
    ("2.16.840.1.101.3.4.2.4", "SHA-224"),
    ("2.16.840.1.101.3.4.2.1", "SHA-256"),
    ("2.16.840.1.101.3.4.2.2", "SHA-384"),
    ("2.16.840.1.101.3.4.2.3", "SHA-512"),
    ("2.16.840.1.101.3.4.2.8", "SHA3-256"),
    ("2.16.840.1.101.3.4.2.9", "SHA3-384"),
    ("2.16.840.1.101.3.4.2.10", "SHA3-512"),
];

const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_OAEP: &str = "1.2.840.113549.1.1.7";
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const EC: &str = "1.2.840.10045.2.1";
const DSA: &str = "1.2.840.10040.4.1";
const DH: &str = "1.2.840.113549.1.3.1";
const DHX: &str = "1.2.840.10046.2.1";

/// Finds the second field of the row with this identifier.
fn find(table: &[(&'static str, &'static str)], oid: &str) -> Option<&'static str> {
    table.iter().find(|row| row.0 == oid).map(|row| row.1)
}

/// Returns the name of a post-quantum algorithm by its object identifier: a standard or a draft,
/// its pre-hash variant, or what an implementation of round 3 used.
fn post_quantum_name(oid: &str) -> Option<String> {
    let is_named = |row: &&AlgorithmInfo| row.oid == Some(oid) || row.oid_before == Some(oid);
    let resists = |row: &&AlgorithmInfo| row.category.is_some();
    if let Some(row) = ALGORITHMS.iter().filter(resists).find(is_named) {
        return Some(row.name.to_owned());
    }
    if let Some(row) = ALGORITHMS.iter().find(|row| row.prehash_oid == Some(oid)) {
        return Some(format!("Hash{}", row.name));
    }
    let old = OLD_NAMES.iter().find(|old| old.oid == Some(oid)).map(|old| old.name);
    old.or_else(|| find(&OTHER_COMPOSITES, oid)).map(str::to_owned)
}

/// Returns the NIST security category of a post-quantum algorithm by the name that this module
/// gives it; `None` for classical and unknown algorithms.
#[must_use]
pub fn category(name: &str) -> Option<u8> {
    let plain = name.strip_prefix("Hash").unwrap_or(name);
    if let Some((algorithm, _)) = Algorithm::lookup(plain) {
        return algorithm.info().category;
    }
    OTHER_COMPOSITES.iter().find(|row| row.1 == name)?;
    Some(if name.starts_with("MLDSA87") || name.starts_with("MLKEM1024") { 5 } else { 3 })
}

/// Returns whether an algorithm is post-quantum by the name that this module gives it.
#[must_use]
pub fn is_post_quantum(name: &str) -> bool {
    category(name).is_some() || OLD_NAMES.iter().any(|old| old.name == name)
}

impl KeyKind {
    /// Returns a classical algorithm.
    #[must_use]
    pub fn classical(name: impl Into<String>, bits: usize) -> KeyKind {
        KeyKind { name: name.into(), is_post_quantum: false, bits }
    }

    /// Returns the kind of an RSA key with a modulus of this many bits.
    #[must_use]
    pub fn rsa(bits: usize) -> KeyKind {
        KeyKind::classical(if bits == 0 { "RSA".to_owned() } else { format!("RSA-{bits}") }, bits)
    }

    /// Returns the kind of the key in a SubjectPublicKeyInfo.
    #[must_use]
    pub fn of_public(info: &SubjectPublicKeyInfoRef<'_>) -> KeyKind {
        let bytes = info.subject_public_key.raw_bytes();
        let mut kind = KeyKind::of_identifier(&info.algorithm);
        if kind.name == "RSA" {
            return KeyKind::rsa(integer_bits(bytes, 0).unwrap_or(0));
        }
        if kind.is_post_quantum {
            kind.bits = 8 * bytes.len();
        }
        kind
    }

    /// Returns the kind of a private key by its identifier and the content of its OCTET STRING
    /// (RFC 5958).
    #[must_use]
    pub fn of_private(identifier: &AlgorithmIdentifierRef<'_>, octets: &[u8]) -> KeyKind {
        let mut kind = KeyKind::of_identifier(identifier);
        if kind.name == "RSA" {
            return KeyKind::rsa(integer_bits(octets, 1).unwrap_or(0));
        }
        if let Some(row) = ALGORITHMS.iter().find(|row| row.name == kind.name) {
            kind.bits = 8 * row.public_key.exact().unwrap_or(0);
        }
        kind
    }

    /// Returns the kind without what only the key itself says.
    #[must_use]
    pub fn of_identifier(identifier: &AlgorithmIdentifierRef<'_>) -> KeyKind {
        let oid = identifier.oid.to_string();
        let first_integer = || Some(integer_bits_of(identifier.parameters?, 0).unwrap_or(0));
        match oid.as_str() {
            RSA | RSA_OAEP | RSA_PSS => return KeyKind::rsa(0),
            EC => return KeyKind::of_curve(identifier.parameters),
            DSA => return KeyKind::sized("DSA", first_integer()),
            DH | DHX => return KeyKind::sized("DH", first_integer()),
            _ => {}
        }
        if let Some(name) = post_quantum_name(&oid) {
            return KeyKind { name, is_post_quantum: true, bits: 0 };
        }
        match CLASSICAL_KEYS.iter().find(|row| row.0 == oid) {
            Some((_, name, bits)) => KeyKind::classical(*name, *bits),
            None => KeyKind::classical(format!("unknown ({oid})"), 0),
        }
    }

    /// Returns the kind of an elliptic-curve key with these parameters.
    #[must_use]
    pub fn of_curve(parameters: Option<AnyRef<'_>>) -> KeyKind {
        let named = parameters.and_then(|any| any.decode_as::<pkcs8::ObjectIdentifier>().ok());
        let Some(oid) = named.map(|oid| oid.to_string()) else {
            return KeyKind::classical("ECDSA with explicit parameters", 0);
        };
        match CURVES.iter().find(|row| row.0 == oid) {
            Some((_, "SM2", bits)) => KeyKind::classical("SM2", *bits),
            Some((_, curve, bits)) => KeyKind::classical(format!("ECDSA {curve}"), *bits),
            None => KeyKind::classical(format!("ECDSA on curve {oid}"), 0),
        }
    }

    fn sized(name: &str, bits: Option<usize>) -> KeyKind {
        match bits {
            Some(bits) if bits > 0 => KeyKind::classical(format!("{name}-{bits}"), bits),
            _ => KeyKind::classical(name, 0),
        }
    }
}

impl SignatureKind {
    /// Returns the kind of a signature by its identifier.
    #[must_use]
    pub fn of_identifier(identifier: &AlgorithmIdentifierRef<'_>) -> SignatureKind {
        let oid = identifier.oid.to_string();
        if let Some(name) = post_quantum_name(&oid) {
            return SignatureKind { name, is_post_quantum: true };
        }
        let name = match find(&CLASSICAL_SIGNATURES, &oid) {
            Some(name) => name.to_owned(),
            None if oid == RSA_PSS => match pss_hash(identifier.parameters) {
                Some(hash) => format!("RSA-PSS with {hash}"),
                None => "RSA-PSS".to_owned(),
            },
            None => format!("unknown ({oid})"),
        };
        SignatureKind { name, is_post_quantum: false }
    }
}

/// Returns the hash function of RSASSA-PSS parameters (RFC 8017, appendix A.2.3), SHA-1 by default.
fn pss_hash(parameters: Option<AnyRef<'_>>) -> Option<&'static str> {
    let parameters = parameters?;
    let mut fields = SliceReader::new(parameters.value()).ok()?;
    if fields.is_finished() {
        return Some("SHA-1");
    }
    let first = AnyRef::decode(&mut fields).ok()?;
    let explicit = der::Tag::ContextSpecific { constructed: true, number: der::TagNumber(0) };
    if der::Tagged::tag(&first) != explicit {
        return Some("SHA-1");
    }
    let hash = AlgorithmIdentifierRef::from_der(first.value()).ok()?;
    find(&HASHES, &hash.oid.to_string())
}

/// Returns the bits of the integer that follows `skip` others in a SEQUENCE.
pub(crate) fn integer_bits(sequence: &[u8], skip: usize) -> Option<usize> {
    integer_bits_of(AnyRef::from_der(sequence).ok()?, skip)
}

fn integer_bits_of(sequence: AnyRef<'_>, skip: usize) -> Option<usize> {
    let mut fields = SliceReader::new(sequence.value()).ok()?;
    for _ in 0..skip {
        AnyRef::decode(&mut fields).ok()?;
    }
    let bytes = UintRef::decode(&mut fields).ok()?.as_bytes();
    Some(8 * bytes.len() - bytes.first()?.leading_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::{Family, Kind};

    #[test]
    fn every_signature_of_the_table_has_a_category_or_is_classical() {
        for row in ALGORITHMS.iter().filter(|row| row.kind == Kind::Signature) {
            let Some(oid) = row.oid else { continue };
            let is_classical = matches!(row.family, Family::Ed25519 | Family::Ecdsa);
            assert_eq!(post_quantum_name(oid).is_none(), is_classical, "{}", row.name);
            assert_eq!(category(row.name).is_none(), is_classical, "{}", row.name);
            if let Some(oid) = row.prehash_oid {
                let name = post_quantum_name(oid).unwrap();
                assert_eq!(name, format!("Hash{}", row.name));
                assert_eq!(category(&name), row.category, "{name}");
            }
        }
        for (oid, name) in OTHER_COMPOSITES {
            assert_eq!(post_quantum_name(oid).as_deref(), Some(name));
            assert!(category(name).is_some());
        }
        for old in OLD_NAMES.iter().filter(|old| old.oid.is_some()) {
            let name = post_quantum_name(old.oid.unwrap()).unwrap();
            assert!(is_post_quantum(&name), "{name}");
        }
        for name in ["RSA-2048", "RSA with SHA-256", "ECDSA P-256", "unknown (1.2)"] {
            assert_eq!(category(name), None, "{name}");
            assert!(!is_post_quantum(name), "{name}");
        }
    }

    #[test]
    fn rows_are_listed_once() {
        let signatures: Vec<&str> = CLASSICAL_SIGNATURES.iter().map(|row| row.0).collect();
        let keys: Vec<&str> = CURVES.iter().chain(&CLASSICAL_KEYS).map(|row| row.0).collect();
        for oids in [signatures, keys] {
            for (at, oid) in oids.iter().enumerate() {
                assert!(!oids[..at].contains(oid), "{oid}");
                assert!(pkcs8::ObjectIdentifier::new(oid).is_ok(), "{oid}");
            }
        }
    }
}

//! Every algorithm's names, identifiers and sizes, as one table.
//!
//! ```text
//!   mod.rs        Algorithm (the list), AlgorithmInfo (the columns), lookup
//!   ml_kem.rs ..  the rows, one file a family, each row one call of the family's const fn
//!   old.rs        what came before the standards, with its successor where it has one
//! ```
//!
//! The command line prints this table, the provider registers from it, the tests check it. Sources:
//! FIPS 203 tables 2 and 3, FIPS 204 tables 1 and 2, FIPS 205 table 2, the CSOR object identifiers,
//! RFC 9802, RFC 9881, RFC 9909, RFC 9935, the IANA TLS registries; old names and numbers as wolfSSL and Open Quantum Safe used them.
//!
//! To add an algorithm: a row in its family's file, a line in the list below. Nothing else counts
//! rows or lists them.

mod composite;
mod ecc;
mod ed25519;
mod fn_dsa;
mod hss;
mod hybrid;
mod ml_dsa;
mod ml_kem;
mod old;
mod slh_dsa;
mod xmss;

use std::fmt;
use std::str::FromStr;

use crate::rsa;

pub use old::{OLD_NAMES, OldName, OldSizes};

/// The list: one line an algorithm, which names its variant and its row. The table is in this order,
/// so that `algorithm as usize` is a row's place.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $variant:ident = $row:expr,)*) => {
        /// A parameter set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Algorithm {
            $($(#[$doc])* $variant,)*
        }

        /// The table, in the order of [`Algorithm`].
        pub static ALGORITHMS: [AlgorithmInfo; [$(Algorithm::$variant),*].len()] =
            [$(AlgorithmInfo { algorithm: Algorithm::$variant, ..$row }),*];
    };
}

// One paragraph per family; a new row goes to the end of its family's paragraph.
algorithms! {
    // ML-KEM
    /// ML-KEM-512 (FIPS 203).
    MlKem512 = ml_kem::ML_KEM_512,
    /// ML-KEM-768 (FIPS 203).
    MlKem768 = ml_kem::ML_KEM_768,
    /// ML-KEM-1024 (FIPS 203).
    MlKem1024 = ml_kem::ML_KEM_1024,

    // ML-DSA
    /// ML-DSA-44 (FIPS 204).
    MlDsa44 = ml_dsa::ML_DSA_44,
    /// ML-DSA-65 (FIPS 204).
    MlDsa65 = ml_dsa::ML_DSA_65,
    /// ML-DSA-87 (FIPS 204).
    MlDsa87 = ml_dsa::ML_DSA_87,

    // SLH-DSA
    /// SLH-DSA-SHA2-128s (FIPS 205).
    SlhDsaSha2_128s = slh_dsa::SLH_DSA_SHA2_128S,
    /// SLH-DSA-SHA2-128f (FIPS 205).
    SlhDsaSha2_128f = slh_dsa::SLH_DSA_SHA2_128F,
    /// SLH-DSA-SHA2-192s (FIPS 205).
    SlhDsaSha2_192s = slh_dsa::SLH_DSA_SHA2_192S,
    /// SLH-DSA-SHA2-192f (FIPS 205).
    SlhDsaSha2_192f = slh_dsa::SLH_DSA_SHA2_192F,
    /// SLH-DSA-SHA2-256s (FIPS 205).
    SlhDsaSha2_256s = slh_dsa::SLH_DSA_SHA2_256S,
    /// SLH-DSA-SHA2-256f (FIPS 205).
    SlhDsaSha2_256f = slh_dsa::SLH_DSA_SHA2_256F,
    /// SLH-DSA-SHAKE-128s (FIPS 205).
    SlhDsaShake128s = slh_dsa::SLH_DSA_SHAKE_128S,
    /// SLH-DSA-SHAKE-128f (FIPS 205).
    SlhDsaShake128f = slh_dsa::SLH_DSA_SHAKE_128F,
    /// SLH-DSA-SHAKE-192s (FIPS 205).
    SlhDsaShake192s = slh_dsa::SLH_DSA_SHAKE_192S,
    /// SLH-DSA-SHAKE-192f (FIPS 205).
    SlhDsaShake192f = slh_dsa::SLH_DSA_SHAKE_192F,
    /// SLH-DSA-SHAKE-256s (FIPS 205).
    SlhDsaShake256s = slh_dsa::SLH_DSA_SHAKE_256S,
    /// SLH-DSA-SHAKE-256f (FIPS 205).
    SlhDsaShake256f = slh_dsa::SLH_DSA_SHAKE_256F,

    // Falcon, FN-DSA
    /// FN-DSA-512, as drafted.
    FnDsa512 = fn_dsa::FN_DSA_512,
    /// FN-DSA-1024, as drafted.
    FnDsa1024 = fn_dsa::FN_DSA_1024,
    /// Falcon-512 of round 3, signatures of variable length.
    Falcon512 = fn_dsa::FALCON_512,
    /// Falcon-1024 of round 3, signatures of variable length.
    Falcon1024 = fn_dsa::FALCON_1024,
    /// Falcon-512 of round 3, padded signatures.
    FalconPadded512 = fn_dsa::FALCON_PADDED_512,
    /// Falcon-1024 of round 3, padded signatures.
    FalconPadded1024 = fn_dsa::FALCON_PADDED_1024,

    // Ed25519
    /// Ed25519 (RFC 8032), verified strictly.
    Ed25519 = ed25519::ED25519,
    /// Ed25519 (RFC 8032), verified by the rules of ZIP 215.
    Ed25519Zip215 = ed25519::ED25519_ZIP215,

    // Key exchange and ECDSA
    /// X25519 (RFC 7748).
    X25519 = ecc::X25519,
    /// ECDH on P-256 (SP 800-56A).
    EcdhP256 = ecc::ECDH_P256,
    /// ECDH on P-384 (SP 800-56A).
    EcdhP384 = ecc::ECDH_P384,
    /// ECDH on P-521 (SP 800-56A).
    EcdhP521 = ecc::ECDH_P521,
    /// ECDSA on P-256 with SHA-256 (FIPS 186-5), signatures in DER.
    EcdsaP256 = ecc::ECDSA_P256,
    /// ECDSA on P-384 with SHA-384 (FIPS 186-5), signatures in DER.
    EcdsaP384 = ecc::ECDSA_P384,
    /// ECDSA on P-521 with SHA-512 (FIPS 186-5), signatures in DER.
    EcdsaP521 = ecc::ECDSA_P521,

    // Hybrid KEMs
    /// ML-KEM-768 and X25519, for TLS (RFC 10024).
    X25519MlKem768 = hybrid::X25519_ML_KEM_768,
    /// ECDH on P-256 and ML-KEM-768, for TLS (RFC 10024).
    SecP256r1MlKem768 = hybrid::SECP256R1_ML_KEM_768,
    /// ECDH on P-384 and ML-KEM-1024, for TLS (RFC 10024).
    SecP384r1MlKem1024 = hybrid::SECP384R1_ML_KEM_1024,
    /// ECDH on P-256 and ML-KEM-512, for TLS (draft-rosomakho-tls-ecdhe-mlkem512).
    SecP256r1MlKem512 = hybrid::SECP256R1_ML_KEM_512,
    /// ECDH on P-384 and ML-KEM-768, for TLS, by private agreement.
    SecP384r1MlKem768 = hybrid::SECP384R1_ML_KEM_768,
    /// ECDH on P-521 and ML-KEM-1024, for TLS, by private agreement.
    SecP521r1MlKem1024 = hybrid::SECP521R1_ML_KEM_1024,
    /// X-Wing: ML-KEM-768 and X25519 under a hash (draft-connolly-cfrg-xwing-kem).
    XWing = hybrid::X_WING,
    /// ML-KEM-512 and X25519, for TLS (draft-rosomakho-tls-ecdhe-mlkem512).
    MlKem512X25519 = hybrid::ML_KEM_512_X25519,

    // Composite signatures
    /// Composite of ML-DSA-44 and RSA-2048 PSS (draft 19).
    MlDsa44Rsa2048PssSha256 = composite::MLDSA44_RSA2048_PSS_SHA256,
    /// Composite of ML-DSA-44 and RSA-2048 PKCS#1 v1.5 (draft 19).
    MlDsa44Rsa2048Pkcs15Sha256 = composite::MLDSA44_RSA2048_PKCS15_SHA256,
    /// Composite of ML-DSA-44 and Ed25519 (draft 19).
    MlDsa44Ed25519Sha512 = composite::MLDSA44_ED25519_SHA512,
    /// Composite of ML-DSA-44 and ECDSA-P256 (draft 19).
    MlDsa44EcdsaP256Sha256 = composite::MLDSA44_ECDSA_P256_SHA256,
    /// Composite of ML-DSA-65 and RSA-3072 PSS (draft 19).
    MlDsa65Rsa3072PssSha512 = composite::MLDSA65_RSA3072_PSS_SHA512,
    /// Composite of ML-DSA-65 and RSA-3072 PKCS#1 v1.5 (draft 19).
    MlDsa65Rsa3072Pkcs15Sha512 = composite::MLDSA65_RSA3072_PKCS15_SHA512,
    /// Composite of ML-DSA-65 and RSA-4096 PSS (draft 19).
    MlDsa65Rsa4096PssSha512 = composite::MLDSA65_RSA4096_PSS_SHA512,
    /// Composite of ML-DSA-65 and RSA-4096 PKCS#1 v1.5 (draft 19).
    MlDsa65Rsa4096Pkcs15Sha512 = composite::MLDSA65_RSA4096_PKCS15_SHA512,
    /// Composite of ML-DSA-65 and ECDSA-P256 (draft 19).
    MlDsa65EcdsaP256Sha512 = composite::MLDSA65_ECDSA_P256_SHA512,
    /// Composite of ML-DSA-65 and ECDSA-P384 (draft 19).
    MlDsa65EcdsaP384Sha512 = composite::MLDSA65_ECDSA_P384_SHA512,
    /// Composite of ML-DSA-65 and Ed25519 (draft 19).
    MlDsa65Ed25519Sha512 = composite::MLDSA65_ED25519_SHA512,
    /// Composite of ML-DSA-87 and ECDSA-P384 (draft 19).
    MlDsa87EcdsaP384Sha512 = composite::MLDSA87_ECDSA_P384_SHA512,
    /// Composite of ML-DSA-87 and RSA-3072 PSS (draft 19).
    MlDsa87Rsa3072PssSha512 = composite::MLDSA87_RSA3072_PSS_SHA512,
    /// Composite of ML-DSA-87 and RSA-4096 PSS (draft 19).
    MlDsa87Rsa4096PssSha512 = composite::MLDSA87_RSA4096_PSS_SHA512,
    /// Composite of ML-DSA-87 and ECDSA-P521 (draft 19).
    MlDsa87EcdsaP521Sha512 = composite::MLDSA87_ECDSA_P521_SHA512,

    // Hash-based signatures whose keys change with each signature
    /// HSS, LMS trees under each other (RFC 8554); one tree is HSS with one level.
    Hss = hss::HSS,
    /// XMSS (RFC 8391).
    Xmss = xmss::XMSS,
    /// XMSS^MT, trees of XMSS under each other (RFC 8391).
    XmssMt = xmss::XMSS_MT,
}

/// The operations that an algorithm offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Key encapsulation: keygen, encaps, decaps.
    Kem,
    /// Signature: keygen, sign, verify.
    Signature,
    /// Key exchange (Diffie-Hellman): keygen, derive.
    KeyExchange,
}

impl Kind {
    /// The kind in one word, as reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kem => "kem",
            Kind::Signature => "signature",
            Kind::KeyExchange => "key-exchange",
        }
    }
}

/// The algorithms that share one implementation, by which the engine selects the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// FIPS 203.
    MlKem,
    /// FIPS 204.
    MlDsa,
    /// FIPS 205.
    SlhDsa,
    /// RFC 8032 on edwards25519.
    Ed25519,
    /// FIPS 206 as drafted, and Falcon.
    FnDsa,
    /// RFC 8554, RFC 9858 and SP 800-208: LMS and HSS.
    Hss,
    /// RFC 8391 and SP 800-208: XMSS and XMSS^MT.
    Xmss,
    /// X25519 and ECDH.
    Ecdh,
    /// ECDSA.
    Ecdsa,
    /// ML-KEM combined with a curve.
    Hybrid,
    /// draft-ietf-lamps-pq-composite-sigs.
    Composite,
}

impl Family {
    /// The Cargo feature that builds its code; each is on by default.
    pub const fn feature(self) -> &'static str {
        match self {
            Family::MlKem => "ml-kem",
            Family::MlDsa => "ml-dsa",
            Family::SlhDsa => "slh-dsa",
            Family::Ed25519 => "ed25519",
            Family::FnDsa => "fn-dsa",
            Family::Hss => "hss",
            Family::Xmss => "xmss",
            Family::Ecdh | Family::Ecdsa => "ecc",
            Family::Hybrid => "hybrid",
            Family::Composite => "composite",
        }
    }

    /// Returns whether this build contains its code. Dispatchers ask this of a family named in the
    /// code, and the linker omits the code of families that are not built.
    pub const fn is_built(self) -> bool {
        match self {
            Family::MlKem => cfg!(feature = "ml-kem"),
            Family::MlDsa => cfg!(feature = "ml-dsa"),
            Family::SlhDsa => cfg!(feature = "slh-dsa"),
            Family::Ed25519 => cfg!(feature = "ed25519"),
            Family::FnDsa => cfg!(feature = "fn-dsa"),
            Family::Hss => cfg!(feature = "hss"),
            Family::Xmss => cfg!(feature = "xmss"),
            Family::Ecdh | Family::Ecdsa => cfg!(feature = "ecc"),
            Family::Hybrid => cfg!(feature = "hybrid"),
            Family::Composite => cfg!(feature = "composite"),
        }
    }
}

/// The length of an encoding in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A fixed length.
    Fixed(usize),
    /// A length that varies between values, with this maximum.
    UpTo(usize),
    /// Depends on the key, as with HSS and XMSS, whose keys carry the parameter set. The value is
    /// the maximum over all keys; ask the key for the exact size before allocating a signature.
    OfKey(usize),
}

impl Size {
    /// The most bytes that there are.
    pub const fn max(self) -> usize {
        match self {
            Size::Fixed(len) | Size::UpTo(len) | Size::OfKey(len) => len,
        }
    }

    /// The number of bytes, where it is one for all keys and values.
    pub const fn exact(self) -> Option<usize> {
        match self {
            Size::Fixed(len) => Some(len),
            Size::UpTo(_) | Size::OfKey(_) => None,
        }
    }

    /// Returns whether two values may differ in length.
    pub const fn varies(self) -> bool {
        self.exact().is_none()
    }
}

/// A component of a hybrid or composite algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An algorithm of this table.
    Algorithm(Algorithm),
    /// RSA, which occurs only in composites and has no row in the table.
    Rsa(rsa::Params),
}

impl Part {
    /// The part's own row; none for RSA.
    pub const fn algorithm(self) -> Option<Algorithm> {
        match self {
            Part::Algorithm(algorithm) => Some(algorithm),
            Part::Rsa(_) => None,
        }
    }

    /// Returns whether the part is RSA: its keys take longest to make, and their encodings have no
    /// fixed length.
    pub const fn is_rsa(self) -> bool {
        matches!(self, Part::Rsa(_))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Algorithm(algorithm) => algorithm.fmt(f),
            Part::Rsa(params) => params.fmt(f),
        }
    }
}

/// A name and number in a TLS registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codepoint {
    /// The registry's name: a NamedGroup of a KEM, a SignatureScheme of a signature.
    pub name: &'static str,
    /// The number: registered or, for a private group or scheme, the one that its users agree on.
    pub number: u16,
}

impl Codepoint {
    const fn new(name: &'static str, number: u16) -> Self {
        Codepoint { name, number }
    }
}

/// One row of the table. Sizes are in bytes; `None` marks a property that the algorithm lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmInfo {
    /// The parameter set.
    pub algorithm: Algorithm,
    /// The standard's name, the only one that is printed as the main name.
    pub name: &'static str,
    /// The standard, or the draft with its version.
    pub standard: &'static str,
    /// Whether that is a draft, a submission or a private agreement, and no standard.
    pub draft: bool,
    /// The operations that it offers.
    pub kind: Kind,
    /// The implementation that it belongs to.
    pub family: Family,
    /// Whether every signature changes the private key. Signing twice in one state reveals the key,
    /// so functions that make, read or use ordinary private keys do not accept these algorithms.
    pub stateful: bool,
    /// NIST security category, 1 to 5; none where a quantum computer breaks it.
    pub category: Option<u8>,
    /// Bits of security as OpenSSL reports them for this category.
    pub security_bits: u16,
    /// Object identifier, dotted.
    pub oid: Option<&'static str>,
    /// An object identifier that its public keys had before, which is read and never written.
    pub oid_before: Option<&'static str>,
    /// The object identifier in the parameters of the AlgorithmIdentifier: the curve of
    /// `id-ecPublicKey`.
    pub parameters_oid: Option<&'static str>,
    /// The name that goes with the object identifier in the RFC that assigns it.
    pub oid_name: Option<&'static str>,
    /// TLS 1.3 group or signature scheme.
    pub tls: Option<Codepoint>,
    /// The private number that its users agreed on before the registry had one, and still use, under the
    /// name that keeps it apart.
    pub tls_before: Option<Codepoint>,
    /// OpenSSL's names, the main one first.
    pub openssl: &'static [&'static str],
    /// wolfSSL's name today.
    pub wolfssl: Option<&'static str>,
    /// liboqs's name.
    pub oqs: Option<&'static str>,
    /// Object identifier of the pre-hash variant (HashML-DSA, HashSLH-DSA), where there is one.
    pub prehash_oid: Option<&'static str>,
    /// The components of a hybrid or composite, in the order in which their keys stand in its
    /// encodings; empty for all other algorithms. This is the only list of components.
    pub parts: &'static [Part],
    /// Encoded public key.
    pub public_key: Size,
    /// Private key as the standard encodes it.
    pub private_key: Size,
    /// Seed that the private key can be made of again.
    pub seed: Option<usize>,
    /// Ciphertext of a KEM, signature of a signature, 0 for a key exchange.
    pub output: Size,
    /// Shared secret of a KEM or a key exchange, 0 for a signature.
    pub shared_secret: usize,
}

impl AlgorithmInfo {
    /// A row of which only the names and sizes that every algorithm has are set: `sizes` are those
    /// of the public key, the private key and the output.
    const fn new(
        (kind, family): (Kind, Family),
        name: &'static str,
        standard: &'static str,
        (category, security_bits): (Option<u8>, u16),
        sizes: [usize; 3],
    ) -> Self {
        AlgorithmInfo {
            // Set by the list, which says which variant a row belongs to.
            algorithm: Algorithm::MlKem512,
            name,
            standard,
            draft: false,
            kind,
            family,
            stateful: false,
            category,
            security_bits,
            oid: None,
            oid_before: None,
            parameters_oid: None,
            oid_name: None,
            tls: None,
            tls_before: None,
            openssl: &[],
            wolfssl: None,
            oqs: None,
            prehash_oid: None,
            parts: &[],
            public_key: Size::Fixed(sizes[0]),
            private_key: Size::Fixed(sizes[1]),
            seed: None,
            output: Size::Fixed(sizes[2]),
            shared_secret: 0,
        }
    }

    /// Every name of the row but the old one, the object identifier included where it says which
    /// algorithm is meant.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let oid = if self.parameters_oid.is_some() { None } else { self.oid };
        let [tls, before] = [self.tls, self.tls_before].map(|tls| tls.map(|tls| tls.name));
        let optional = [oid, self.oid_name, tls, before, self.wolfssl, self.oqs];
        std::iter::once(self.name)
            .chain(optional.into_iter().flatten())
            .chain(self.openssl.iter().copied())
    }

    /// The parts that have a row of their own, in the order of [`Self::parts`].
    pub fn part_algorithms(&self) -> impl Iterator<Item = Algorithm> {
        self.parts.iter().filter_map(|part| part.algorithm())
    }

    /// Returns whether a part is RSA.
    pub fn has_rsa(&self) -> bool {
        self.parts.iter().any(|part| part.is_rsa())
    }

    /// Returns the draft algorithm that this one replaced, if any.
    pub fn old(&self) -> Option<&'static OldName> {
        OLD_NAMES.iter().find(|old| old.successor == Some(self.name))
    }
}

impl Algorithm {
    /// Every parameter set, in the table's order.
    pub fn all() -> impl Iterator<Item = Algorithm> {
        ALGORITHMS.iter().map(|row| row.algorithm)
    }

    /// The row of the table.
    pub fn info(self) -> &'static AlgorithmInfo {
        // The list makes both the enum and the table, in one order.
        &ALGORITHMS[self as usize]
    }

    /// The standard's name.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Looks an algorithm up by any of its names, in any case, or by its object identifier. The
    /// second value is the old name if `text` is one.
    pub fn lookup(text: &str) -> Option<(Algorithm, Option<&'static str>)> {
        let known = |row: &&AlgorithmInfo| row.names().any(|name| name.eq_ignore_ascii_case(text));
        if let Some(row) = ALGORITHMS.iter().find(known) {
            return Some((row.algorithm, None));
        }
        let old = OldName::lookup(text)?;
        let successor = ALGORITHMS.iter().find(|row| Some(row.name) == old.successor)?;
        Some((successor.algorithm, Some(old.name)))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that stands in no row of the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; `gabion algorithms` lists those there are", self.reason())]
pub struct UnknownAlgorithm(pub String);

impl UnknownAlgorithm {
    /// Returns the reason why the name is unknown, as a sentence without a full stop.
    pub fn reason(&self) -> String {
        let name = &self.0;
        match (composite::refused(name), OldName::lookup(name).map(|old| old.successor)) {
            (Some(part), _) => format!("`{name}` is not supported, because {part} is not"),
            (None, Some(Some(successor))) => format!(
                "`{name}` is an old name: {successor} followed, and older keys may not be keys of it"
            ),
            (None, Some(None)) => format!("`{name}` is an old name, and nothing followed"),
            (None, None) => format!("unknown algorithm `{name}`"),
        }
    }
}

/// Any name of today. An old one is an error, since a key of round 3 may be as long as one of the standard
/// and is another; [`Algorithm::lookup`] takes old names too, and says that it was one.
impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match Algorithm::lookup(text) {
            Some((algorithm, None)) => Ok(algorithm),
            _ => Err(UnknownAlgorithm(text.to_owned())),
        }
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
            for name in row.names() {
                assert_eq!(Algorithm::lookup(&name.to_lowercase()), Some((row.algorithm, None)));
            }
        }
        let error = |name: &str| name.parse::<Algorithm>().unwrap_err().to_string();
        assert!(error("KYBER").starts_with("unknown algorithm `KYBER`"));
        for name in ["id-MLDSA87-Ed448-SHAKE256", "mldsa87-ed448-shake256", "1.3.6.1.5.5.7.6.51"] {
            assert!(error(name).contains("because Ed448 is not"), "{name}");
        }
        // Old names lead on by the lookup alone, which says that they are old.
        assert!(error("KYBER512").contains("old name: ML-KEM-512 followed, and older keys"));
        assert!(error("kyber_90s_level1").contains("old name, and nothing followed"));
        assert!("Falcon512".parse::<Algorithm>().is_ok(), "liboqs's name of today");
    }

    #[test]
    fn identifiers_are_unique() {
        for (i, a) in ALGORITHMS.iter().enumerate() {
            for b in &ALGORITHMS[i + 1..] {
                assert_ne!(a.name, b.name);
                // A curve's keys serve key exchange and signatures under one identifier.
                let same_key = a.parameters_oid.is_some() && a.kind != b.kind;
                let id = |row: &AlgorithmInfo| row.oid.map(|oid| (oid, row.parameters_oid));
                assert!(id(a).is_none() || id(a) != id(b) || same_key, "{} {}", a.name, b.name);
                assert!(a.oid_before.is_none() || a.oid_before != b.oid_before);
                assert!(a.prehash_oid.is_none() || a.prehash_oid != b.prehash_oid);
                let numbers = |row: &AlgorithmInfo| {
                    [row.tls, row.tls_before].map(|tls| tls.map(|tls| tls.number))
                };
                let of_b = numbers(b);
                let is_of_b = |number: &Option<u16>| number.is_some() && of_b.contains(number);
                assert!(!numbers(a).iter().any(is_of_b), "{} {}", a.name, b.name);
            }
        }
    }

    #[test]
    fn columns_fit_the_kind() {
        for row in &ALGORITHMS {
            let secret = row.kind != Kind::Signature;
            assert_eq!(row.shared_secret > 0, secret, "{}", row.name);
            assert_eq!(row.output.max() == 0, row.kind == Kind::KeyExchange, "{}", row.name);
            assert!(row.public_key.max() > 0 && row.seed != Some(0));
            assert_eq!(row.private_key.max() == 0, row.stateful, "{}", row.name);
            let has_parts = matches!(row.family, Family::Hybrid | Family::Composite);
            assert_eq!(row.parts.len(), if has_parts { 2 } else { 0 }, "{}", row.name);
            assert!(row.part_algorithms().all(|part| part.info().parts.is_empty()));
        }
    }
}

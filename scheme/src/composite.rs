//! Composite ML-DSA signatures (draft-ietf-lamps-pq-composite-sigs-19): the parameters, and what
//! the two parts sign.
//!
//! ```text
//!   M' = "CompositeAlgorithmSignatures2025" || label || |ctx| || ctx || PH(M)      section 2.2
//!
//!   public key   ML-DSA (1312, 1952, 2592)   | classical: RSAPublicKey, point, 32 bytes
//!   private key  ML-DSA's seed (32)          | classical: RSAPrivateKey, ECPrivateKey, 32 bytes
//!   signature    ML-DSA (2420, 3309, 4627)   | classical: RSA, Ecdsa-Sig-Value, 64 bytes
//! ```
//!
//! ML-DSA signs M' in pure mode with the label for its context, the classical part signs M'. A
//! signature is valid only if both parts verify. The engine puts the parts together.
//!
//! The parts over the brainpool curves and Ed448 are not here; the table of algorithms refuses
//! their names.

use crate::algorithms::{ALGORITHMS, Algorithm, Part};
use crate::prehash::Prehash;
use crate::rsa;

/// The first bytes of every M' (section 2.2).
const PREFIX: &[u8; 32] = b"CompositeAlgorithmSignatures2025";

/// An elliptic curve of ECDSA with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// P-256 with SHA-256.
    P256,
    /// P-384 with SHA-384.
    P384,
    /// P-521 with SHA-512.
    P521,
}

/// The classical part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classical {
    /// RSA.
    Rsa(rsa::Params),
    /// ECDSA.
    Ecdsa(Curve),
    /// Ed25519.
    Ed25519,
}

/// A composite algorithm.
#[derive(Debug, PartialEq, Eq)]
pub struct Params {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The parameter set of the ML-DSA component.
    pub ml_dsa: Algorithm,
    /// The classical component.
    pub classical: Classical,
    /// PH, which makes a message short.
    pub prehash: Prehash,
    /// The label, which identifies the algorithm in the signed message.
    pub label: &'static str,
}

/// Returns a row with both components from the table; an algorithm that is not a composite does not
/// compile.
const fn row(algorithm: Algorithm, prehash: Prehash, label: &'static str) -> Params {
    let [Part::Algorithm(ml_dsa), classical] = *ALGORITHMS[algorithm as usize].parts else {
        panic!("a composite is an ML-DSA and a classical part");
    };
    let classical = match classical {
        Part::Rsa(params) => Classical::Rsa(params),
        Part::Algorithm(Algorithm::EcdsaP256) => Classical::Ecdsa(Curve::P256),
        Part::Algorithm(Algorithm::EcdsaP384) => Classical::Ecdsa(Curve::P384),
        Part::Algorithm(Algorithm::EcdsaP521) => Classical::Ecdsa(Curve::P521),
        Part::Algorithm(Algorithm::Ed25519) => Classical::Ed25519,
        Part::Algorithm(_) => panic!("no composite has such a classical part"),
    };
    Params { algorithm, ml_dsa, classical, prehash, label }
}

/// The parameters of section 6 for each composite, in the order of the object identifiers.
static PARAMS: [Params; 15] = [
    row(
        Algorithm::MlDsa44Rsa2048PssSha256,
        Prehash::Sha2_256,
        "COMPSIG-MLDSA44-RSA2048-PSS-SHA256",
    ),
    row(
        Algorithm::MlDsa44Rsa2048Pkcs15Sha256,
        Prehash::Sha2_256,
        "COMPSIG-MLDSA44-RSA2048-PKCS15-SHA256",
    ),
    row(Algorithm::MlDsa44Ed25519Sha512, Prehash::Sha2_512, "COMPSIG-MLDSA44-Ed25519-SHA512"),
    row(Algorithm::MlDsa44EcdsaP256Sha256, Prehash::Sha2_256, "COMPSIG-MLDSA44-ECDSA-P256-SHA256"),
    row(
        Algorithm::MlDsa65Rsa3072PssSha512,
        Prehash::Sha2_512,
        "COMPSIG-MLDSA65-RSA3072-PSS-SHA512",
    ),
    row(
        Algorithm::MlDsa65Rsa3072Pkcs15Sha512,
        Prehash::Sha2_512,
        "COMPSIG-MLDSA65-RSA3072-PKCS15-SHA512",
    ),
    row(
        Algorithm::MlDsa65Rsa4096PssSha512,
        Prehash::Sha2_512,
        "COMPSIG-MLDSA65-RSA4096-PSS-SHA512",
    ),
    row(
        Algorithm::MlDsa65Rsa4096Pkcs15Sha512,
        Prehash::Sha2_512,
        "COMPSIG-MLDSA65-RSA4096-PKCS15-SHA512",
    ),
    row(Algorithm::MlDsa65EcdsaP256Sha512, Prehash::Sha2_512, "COMPSIG-MLDSA65-ECDSA-P256-SHA512"),
    row(Algorithm::MlDsa65EcdsaP384Sha512, Prehash::Sha2_512, "COMPSIG-MLDSA65-ECDSA-P384-SHA512"),
    row(Algorithm::MlDsa65Ed25519Sha512, Prehash::Sha2_512, "COMPSIG-MLDSA65-Ed25519-SHA512"),
    row(Algorithm::MlDsa87EcdsaP384Sha512, Prehash::Sha2_512, "COMPSIG-MLDSA87-ECDSA-P384-SHA512"),
    row(
        Algorithm::MlDsa87Rsa3072PssSha512,
        Prehash::Sha2_512,
        "COMPSIG-MLDSA87-RSA3072-PSS-SHA512",
    ),
    row(
        Algorithm::MlDsa87Rsa4096PssSha512,
        Prehash::Sha2_512,
        "COMPSIG-MLDSA87-RSA4096-PSS-SHA512",
    ),
    row(Algorithm::MlDsa87EcdsaP521Sha512, Prehash::Sha2_512, "COMPSIG-MLDSA87-ECDSA-P521-SHA512"),
];

/// The parameters of a composite algorithm, if it is one.
pub fn params(algorithm: Algorithm) -> Option<&'static Params> {
    PARAMS.iter().find(|params| params.algorithm == algorithm)
}

impl Curve {
    /// ECDSA on it, in the table.
    pub const fn ecdsa(self) -> Algorithm {
        match self {
            Curve::P256 => Algorithm::EcdsaP256,
            Curve::P384 => Algorithm::EcdsaP384,
            Curve::P521 => Algorithm::EcdsaP521,
        }
    }

    /// Bytes of a scalar.
    pub const fn scalar_len(self) -> usize {
        match self {
            Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    /// Returns the bytes before and after the scalar of an ECPrivateKey (RFC 5915) with the named
    /// curve and without the public key, the only form that the draft allows.
    pub const fn private_key_der(self) -> (&'static [u8], &'static [u8]) {
        match self {
            Curve::P256 => (
                &[0x30, 0x31, 2, 1, 1, 4, 32],
                &[0xa0, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
            ),
            Curve::P384 => {
                (&[0x30, 0x3e, 2, 1, 1, 4, 48], &[0xa0, 0x07, 6, 5, 0x2b, 0x81, 0x04, 0x00, 0x22])
            }
            Curve::P521 => {
                (&[0x30, 0x50, 2, 1, 1, 4, 66], &[0xa0, 0x07, 6, 5, 0x2b, 0x81, 0x04, 0x00, 0x23])
            }
        }
    }
}

impl Classical {
    /// Returns the name, for messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Classical::Rsa(_) => "RSA",
            Classical::Ecdsa(Curve::P256) => "ECDSA P-256",
            Classical::Ecdsa(Curve::P384) => "ECDSA P-384",
            Classical::Ecdsa(Curve::P521) => "ECDSA P-521",
            Classical::Ed25519 => "Ed25519",
        }
    }

    /// Bytes of the longest public key, private key and signature.
    pub const fn sizes(&self) -> [usize; 3] {
        match self {
            Classical::Rsa(params) => [params.pk_len(), params.sk_len_max(), params.sig_len()],
            Classical::Ecdsa(curve) => {
                let scalar = curve.scalar_len();
                let (before, behind) = curve.private_key_der();
                // Two integers, each with a leading zero where its top bit may be set, which that
                // of a scalar of P-521 is not.
                let integer = 2 + scalar + if scalar == 66 { 0 } else { 1 };
                let sequence = if 2 * integer < 128 { 2 } else { 3 };
                [1 + 2 * scalar, before.len() + scalar + behind.len(), sequence + 2 * integer]
            }
            Classical::Ed25519 => [32, 32, 64],
        }
    }
}

impl Params {
    /// M' of a message and its context of at most 255 bytes.
    pub fn representative(&self, context: &[u8], message: &[u8]) -> Vec<u8> {
        self.representative_of_digest(context, &self.prehash.digest(message))
    }

    /// M' of PH(M), computed elsewhere (section 10.4, external pre-hashing).
    pub fn representative_of_digest(&self, context: &[u8], digest: &[u8]) -> Vec<u8> {
        [&PREFIX[..], self.label.as_bytes(), &[context.len() as u8], context, digest].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Family;

    #[test]
    fn every_composite_of_the_table_has_its_parameters_and_sizes() {
        let of_table: Vec<_> = Algorithm::all()
            .filter(|algorithm| algorithm.info().family == Family::Composite)
            .collect();
        let of_params: Vec<_> = PARAMS.iter().map(|params| params.algorithm).collect();
        assert_eq!(of_table, of_params);
        for params in &PARAMS {
            let (row, part) = (params.algorithm.info(), params.ml_dsa.info());
            let [public, private, signature] = params.classical.sizes();
            assert_eq!(row.public_key.max(), part.public_key.max() + public, "{}", row.name);
            assert_eq!(row.private_key.max(), 32 + private, "{}", row.name);
            assert_eq!(row.output.max(), part.output.max() + signature, "{}", row.name);
            let varies = matches!(params.classical, Classical::Ecdsa(_));
            assert_eq!(row.output.varies(), varies, "{}", row.name);
            let plain = row.name.strip_suffix("-draft19").unwrap();
            assert_eq!(params.label, format!("COMPSIG-{plain}"));
            assert_eq!(row.oid_name, Some(format!("id-{plain}").as_str()));
            assert_eq!(part.family, Family::MlDsa, "{}", row.name);
        }
    }

    /// The draft's example (appendix, "message representative"), of an algorithm of another label.
    #[test]
    fn the_representative_is_the_drafts() {
        let params = params(Algorithm::MlDsa65EcdsaP256Sha512).unwrap();
        let message: [u8; 10] = std::array::from_fn(|i| i as u8);
        let context = [8, 0x13, 6, 0x12, 5, 0x16, 0x26, 0x23];
        let made = params.representative(&context, &message);
        let mut expected = b"CompositeAlgorithmSignatures2025".to_vec();
        expected.extend_from_slice(b"COMPSIG-MLDSA65-ECDSA-P256-SHA512");
        expected.push(8);
        expected.extend_from_slice(&context);
        let digest = "0f89ee1fcb7b0a4f7809d1267a029719004c5a5e5ec323a7c3523a20974f9a3f\
                      202f56fadba4cd9e8d654ab9f2e96dc5c795ea176fa20ede8d854c342f903533";
        let hex: String = made[expected.len()..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((&made[..expected.len()], hex.as_str()), (&expected[..], digest));
    }
}

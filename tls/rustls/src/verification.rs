//! Verifies signatures of peers, in certificates and handshakes.
//!
//! While building a path, webpki verifies one signature at a time: that of a certificate, with the
//! key of its potential issuer. A chain therefore is not verified as a batch. Verifying all
//! certificates of a peer in advance would include those on no path, whose number the peer
//! controls. In addition, two or three lanes gain little over the parallelism within one
//! verification.
//!
//! Public keys are expanded once and stored in a global bounded cache, because rustls keeps
//! algorithms as `'static` values and no configuration could own the cache. A forked child does not
//! use a cache that its parent has used, since a thread may have held one of its locks.

use gabion_engine::{Algorithm, Engine, Error, KeyCache, Message, VerifyKey, forks};
use once_cell::race::OnceBox;
use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use webpki::aws_lc_rs as theirs;

/// Size of the cache of expanded public keys in bytes: a hundred ML-DSA-65 keys of 39 KiB each.
pub const CACHE_LEN: usize = 4 << 20;

/// ML-DSA-44 (FIPS 204, RFC 9881).
pub static ML_DSA_44: &dyn SignatureVerificationAlgorithm = &EngineAlgorithm {
    algorithm: Algorithm::MlDsa44,
    key: alg_id::ML_DSA_44,
    signature: alg_id::ML_DSA_44,
};
/// ML-DSA-65 (FIPS 204, RFC 9881).
pub static ML_DSA_65: &dyn SignatureVerificationAlgorithm = &EngineAlgorithm {
    algorithm: Algorithm::MlDsa65,
    key: alg_id::ML_DSA_65,
    signature: alg_id::ML_DSA_65,
};
/// ML-DSA-87 (FIPS 204, RFC 9881).
pub static ML_DSA_87: &dyn SignatureVerificationAlgorithm = &EngineAlgorithm {
    algorithm: Algorithm::MlDsa87,
    key: alg_id::ML_DSA_87,
    signature: alg_id::ML_DSA_87,
};
/// Ed25519 (RFC 8032, RFC 8410).
pub static ED25519: &dyn SignatureVerificationAlgorithm = &EngineAlgorithm {
    algorithm: Algorithm::Ed25519,
    key: alg_id::ED25519,
    signature: alg_id::ED25519,
};
/// ECDSA on P-256 with SHA-256 (FIPS 186-5, RFC 5758).
pub static ECDSA_P256_SHA256: &dyn SignatureVerificationAlgorithm = &EngineAlgorithm {
    algorithm: Algorithm::EcdsaP256,
    key: alg_id::ECDSA_P256,
    signature: alg_id::ECDSA_SHA256,
};
/// ECDSA on P-384 with SHA-384 (FIPS 186-5, RFC 5758).
pub static ECDSA_P384_SHA384: &dyn SignatureVerificationAlgorithm = &EngineAlgorithm {
    algorithm: Algorithm::EcdsaP384,
    key: alg_id::ECDSA_P384,
    signature: alg_id::ECDSA_SHA384,
};

/// The algorithms that the provider verifies, ML-DSA preferred. RSA, P-521, other hashes of a curve
/// and compressed points are verified by aws-lc-rs.
pub static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        ML_DSA_65,
        ML_DSA_87,
        ML_DSA_44,
        ED25519,
        ECDSA_P256_SHA256,
        ECDSA_P384_SHA384,
        theirs::ECDSA_P256_SHA384,
        theirs::ECDSA_P256_SHA512,
        theirs::ECDSA_P384_SHA256,
        theirs::ECDSA_P384_SHA512,
        theirs::ECDSA_P521_SHA256,
        theirs::ECDSA_P521_SHA384,
        theirs::ECDSA_P521_SHA512,
        theirs::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
        theirs::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
        theirs::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        theirs::RSA_PKCS1_2048_8192_SHA256,
        theirs::RSA_PKCS1_2048_8192_SHA384,
        theirs::RSA_PKCS1_2048_8192_SHA512,
        theirs::RSA_PKCS1_2048_8192_SHA256_ABSENT_PARAMS,
        theirs::RSA_PKCS1_2048_8192_SHA384_ABSENT_PARAMS,
        theirs::RSA_PKCS1_2048_8192_SHA512_ABSENT_PARAMS,
    ],
    // TLS 1.3 uses the first of each, which has the curve of the scheme. TLS 1.2 tries all, because
    // its schemes determine only the hash.
    mapping: &[
        (SignatureScheme::ML_DSA_65, &[ML_DSA_65]),
        (SignatureScheme::ML_DSA_87, &[ML_DSA_87]),
        (SignatureScheme::ML_DSA_44, &[ML_DSA_44]),
        (
            SignatureScheme::ECDSA_NISTP384_SHA384,
            &[ECDSA_P384_SHA384, theirs::ECDSA_P256_SHA384, theirs::ECDSA_P521_SHA384],
        ),
        (
            SignatureScheme::ECDSA_NISTP256_SHA256,
            &[ECDSA_P256_SHA256, theirs::ECDSA_P384_SHA256, theirs::ECDSA_P521_SHA256],
        ),
        (
            SignatureScheme::ECDSA_NISTP521_SHA512,
            &[theirs::ECDSA_P521_SHA512, theirs::ECDSA_P384_SHA512, theirs::ECDSA_P256_SHA512],
        ),
        (SignatureScheme::ED25519, &[ED25519]),
        (SignatureScheme::RSA_PSS_SHA512, &[theirs::RSA_PSS_2048_8192_SHA512_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA384, &[theirs::RSA_PSS_2048_8192_SHA384_LEGACY_KEY]),
        (SignatureScheme::RSA_PSS_SHA256, &[theirs::RSA_PSS_2048_8192_SHA256_LEGACY_KEY]),
        (SignatureScheme::RSA_PKCS1_SHA512, &[theirs::RSA_PKCS1_2048_8192_SHA512]),
        (SignatureScheme::RSA_PKCS1_SHA384, &[theirs::RSA_PKCS1_2048_8192_SHA384]),
        (SignatureScheme::RSA_PKCS1_SHA256, &[theirs::RSA_PKCS1_2048_8192_SHA256]),
    ],
};

/// A signature algorithm of the engine, with its identifiers in certificates.
#[derive(Debug)]
struct EngineAlgorithm {
    algorithm: Algorithm,
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
}

impl SignatureVerificationAlgorithm for EngineAlgorithm {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        if let Some(other) = for_other_points(self.algorithm, public_key) {
            return other.verify_signature(public_key, message, signature);
        }
        let verify = || {
            let engine = Engine::global()?;
            let key = expanded(engine, self.algorithm, public_key)?;
            engine.verify(&key, Message::Pure { context: b"", message }, signature)
        };
        verify().map_err(|_: Error| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }
}

/// Returns aws-lc-rs's verifier for a key on a curve that is not an uncompressed point. The engine
/// reads uncompressed points only; certificates may also have compressed ones (RFC 5480, section
/// 2.2).
fn for_other_points(
    algorithm: Algorithm,
    public_key: &[u8],
) -> Option<&'static dyn SignatureVerificationAlgorithm> {
    const UNCOMPRESSED: u8 = 4; // SEC 1, section 2.3.3
    match algorithm {
        _ if public_key.first() == Some(&UNCOMPRESSED) => None,
        Algorithm::EcdsaP256 => Some(theirs::ECDSA_P256_SHA256),
        Algorithm::EcdsaP384 => Some(theirs::ECDSA_P384_SHA384),
        _ => None,
    }
}

/// A key cache, with the process that created it.
struct ProcessCache {
    process: Option<u64>,
    keys: KeyCache,
}

/// Returns the expanded key of a peer: from the cache, unless this is a child of the process that
/// created it.
fn expanded(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<VerifyKey, Error> {
    static CACHE: OnceBox<ProcessCache> = OnceBox::new();
    let this = forks::token();
    let make = || Box::new(ProcessCache { process: this, keys: KeyCache::new(CACHE_LEN) });
    let cached = CACHE.get_or_init(make);
    // If forks cannot be detected, any process may be a child.
    if this.is_some() && cached.process == this {
        return cached.keys.signature_public(engine, algorithm, bytes);
    }
    engine.signature_public(algorithm, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::OsEntropy;
    use std::collections::HashSet;

    #[test]
    fn no_pair_of_identifiers_comes_twice() {
        let pairs = ALGORITHMS.all.iter().map(|algorithm| {
            let ids = (algorithm.public_key_alg_id(), algorithm.signature_alg_id());
            (ids.0.as_ref().to_vec(), ids.1.as_ref().to_vec())
        });
        assert_eq!(pairs.collect::<HashSet<_>>().len(), ALGORITHMS.all.len());
        assert!(!ALGORITHMS.fips());
    }

    /// The identifiers and schemes equal those of rustls with aws-lc-rs.
    #[test]
    fn identifiers_and_schemes_are_those_of_aws_lc_rs() {
        let stock = rustls::crypto::aws_lc_rs::default_provider();
        let stock = stock.signature_verification_algorithms;
        let ids = |of: &WebPkiSupportedAlgorithms| {
            let each = of.all.iter().map(|one| (one.public_key_alg_id(), one.signature_alg_id()));
            each.map(|(key, signature)| (key.as_ref().to_vec(), signature.as_ref().to_vec()))
                .collect::<HashSet<_>>()
        };
        assert_eq!(ids(&ALGORITHMS), ids(&stock));
        let schemes = |of: &WebPkiSupportedAlgorithms| {
            of.supported_schemes().into_iter().map(u16::from).collect::<HashSet<_>>()
        };
        assert_eq!(schemes(&ALGORITHMS), schemes(&stock));
        // The first algorithm of each scheme, used by TLS 1.3, is for the same keys.
        for (scheme, algorithms) in ALGORITHMS.mapping {
            let same = stock.mapping.iter().find(|(other, _)| other == scheme).unwrap().1;
            assert_eq!(algorithms.len(), same.len(), "{scheme:?}");
            assert_eq!(algorithms[0].public_key_alg_id(), same[0].public_key_alg_id());
        }
    }

    #[test]
    fn signatures_verify_and_altered_ones_do_not() {
        let engine = Engine::global().unwrap();
        for ours in [ML_DSA_44, ML_DSA_65, ML_DSA_87, ED25519, ECDSA_P256_SHA256, ECDSA_P384_SHA384]
        {
            let algorithm = gabion_engine::key_file::of_identifier(
                &identifier(ours.public_key_alg_id()),
                gabion_engine::Kind::Signature,
            );
            let algorithm = algorithm.unwrap().unwrap();
            let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
            let message = Message::Pure { context: b"", message: b"text" };
            let signature = engine.sign(&key, message, &OsEntropy).unwrap();
            let check = |public: &[u8], message: &[u8], signature: &[u8]| {
                ours.verify_signature(public, message, signature).is_ok()
            };
            let public = key.public_bytes();
            // The first check fills the cache, the second one uses it.
            assert!(check(public, b"text", &signature) && check(public, b"text", &signature));
            assert!(!check(public, b"texts", &signature), "{algorithm}");
            for at in [0, signature.len() / 2, signature.len() - 1] {
                let mut altered = signature.clone();
                altered[at] ^= 1;
                assert!(!check(public, b"text", &altered), "{algorithm}, byte {at}");
            }
            for len in [0, 1, signature.len() - 1] {
                assert!(!check(public, b"text", &signature[..len]), "{algorithm}, {len} bytes");
            }
            assert!(!check(public, b"text", &[&signature[..], &[0]].concat()), "{algorithm}");
            for key in [&public[1..], &[][..], &[0xff; 3]] {
                assert!(!check(key, b"text", &signature), "{algorithm}");
            }
        }
    }

    /// All encodings of public keys get the same verdict as with aws-lc-rs, so that no certificate
    /// is rejected that aws-lc-rs accepts. The exception are Ed25519 keys: see the next test.
    #[test]
    fn encodings_of_public_keys_are_accepted_as_by_aws_lc_rs() {
        let engine = Engine::global().unwrap();
        let stock = rustls::crypto::aws_lc_rs::default_provider();
        let mut accepted = 0;
        for ours in ALGORITHMS.all {
            let ids = (ours.public_key_alg_id(), ours.signature_alg_id());
            let stock = stock.signature_verification_algorithms.all.iter();
            let same = |other: &&&dyn SignatureVerificationAlgorithm| {
                (other.public_key_alg_id(), other.signature_alg_id()) == ids
            };
            let theirs = *stock.clone().find(same).unwrap();
            // RSA is verified entirely by aws-lc-rs.
            let Ok(Some(algorithm)) = gabion_engine::key_file::of_identifier(
                &identifier(ids.0),
                gabion_engine::Kind::Signature,
            ) else {
                continue;
            };
            let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
            let message = Message::Pure { context: b"", message: b"text" };
            // With the hash of the curve: under the identifiers of other hashes both reject it.
            let signature = engine.sign(&key, message, &OsEntropy).unwrap();
            let public = key.public_bytes();
            let mut encodings = vec![
                public.to_vec(),
                public[1..].to_vec(),
                [public, &[0]].concat(),
                vec![0],
                vec![],
                vec![0; public.len()],
                vec![0xff; public.len()],
            ];
            let half = public.len() / 2;
            for first in 0..=8 {
                encodings.push([&[first], &public[1..]].concat());
                encodings.push([&[first], &public[1..=half]].concat());
                encodings.push([&[first], &public[1..half]].concat());
                // Every second x is not on the curve.
                let mut other = public[1..=half].to_vec();
                other[half - 1] ^= 1;
                encodings.push([&[first], &other[..]].concat());
            }
            let mut altered = signature.clone();
            *altered.last_mut().unwrap() ^= 1;
            for encoding in &encodings {
                for signature in [&signature, &altered] {
                    let verdicts = [*ours, theirs]
                        .map(|it| it.verify_signature(encoding, b"text", signature).is_ok());
                    assert_eq!(verdicts[0], verdicts[1], "{algorithm}: {encoding:02x?}");
                    accepted += usize::from(verdicts[0]);
                }
            }
        }
        assert!(accepted > 10, "{accepted}");
    }

    /// Ed25519 keys of small order are rejected, although aws-lc-rs accepts them: everyone can make
    /// signatures for such keys.
    #[test]
    fn ed25519_keys_of_small_order_are_refused() {
        // The neutral element, and R = 0, S = 0: [0]B = R + [k]A for every message.
        let neutral = [&[1], &[0; 31][..]].concat();
        let signature = [&neutral[..], &[0; 32]].concat();
        let theirs = webpki::aws_lc_rs::ED25519;
        assert!(theirs.verify_signature(&neutral, b"text", &signature).is_ok());
        assert!(ED25519.verify_signature(&neutral, b"text", &signature).is_err());
    }

    /// Returns the identifier of a SubjectPublicKeyInfo with this algorithm and any key.
    fn identifier(id: AlgorithmIdentifier) -> gabion_engine::key_file::Identifier {
        let spki = rustls::sign::public_key_to_spki(&id, [0; 4]);
        let encoded = gabion_engine::key_file::EncodedKey::from_der(spki.as_ref()).unwrap();
        match encoded {
            gabion_engine::key_file::EncodedKey::Public(key) => key.identifier,
            gabion_engine::key_file::EncodedKey::Private(_) => panic!("a public key"),
        }
    }
}

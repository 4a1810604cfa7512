//! Signatures of peers: in certificates, and over handshakes.
//!
//! webpki asks for one signature at a time, while it builds a path: of the certificate that it looks at, by
//! the key of the one that may have issued it. So a chain is no batch. Verifying all signatures of what a peer
//! sent before webpki looks at it would verify those of certificates that are on no path, as many as the peer
//! likes to send, and two or three lanes gain little over what fills lanes from the inside.
//!
//! Public keys are expanded once, and kept in one bounded cache: rustls has its algorithms as `'static`
//! values, so that there is no configuration that could hold one. A forked child does not use the cache that its
//! parent had begun to use, since a thread may have held a lock of it.

use gabion_engine::{Algorithm, Engine, Error, KeyCache, Message, VerifyKey, forks};
use once_cell::race::OnceBox;
use rustls::SignatureScheme;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use webpki::aws_lc_rs as theirs;

/// Bytes of expanded public keys that are kept: a hundred of ML-DSA-65, of 39 KiB each.
pub const CACHE_LEN: usize = 4 << 20;

/// ML-DSA-44 (FIPS 204, RFC 9881).
pub static ML_DSA_44: &dyn SignatureVerificationAlgorithm =
    &Ours { algorithm: Algorithm::MlDsa44, key: alg_id::ML_DSA_44, signature: alg_id::ML_DSA_44 };
/// ML-DSA-65 (FIPS 204, RFC 9881).
pub static ML_DSA_65: &dyn SignatureVerificationAlgorithm =
    &Ours { algorithm: Algorithm::MlDsa65, key: alg_id::ML_DSA_65, signature: alg_id::ML_DSA_65 };
/// ML-DSA-87 (FIPS 204, RFC 9881).
pub static ML_DSA_87: &dyn SignatureVerificationAlgorithm =
    &Ours { algorithm: Algorithm::MlDsa87, key: alg_id::ML_DSA_87, signature: alg_id::ML_DSA_87 };
/// Ed25519 (RFC 8032, RFC 8410).
pub static ED25519: &dyn SignatureVerificationAlgorithm =
    &Ours { algorithm: Algorithm::Ed25519, key: alg_id::ED25519, signature: alg_id::ED25519 };
/// ECDSA on P-256 with SHA-256 (FIPS 186-5, RFC 5758).
pub static ECDSA_P256_SHA256: &dyn SignatureVerificationAlgorithm = &Ours {
    algorithm: Algorithm::EcdsaP256,
    key: alg_id::ECDSA_P256,
    signature: alg_id::ECDSA_SHA256,
};
/// ECDSA on P-384 with SHA-384 (FIPS 186-5, RFC 5758).
pub static ECDSA_P384_SHA384: &dyn SignatureVerificationAlgorithm = &Ours {
    algorithm: Algorithm::EcdsaP384,
    key: alg_id::ECDSA_P384,
    signature: alg_id::ECDSA_SHA384,
};

/// What the provider verifies, ML-DSA preferred. RSA, P-521 and a curve's other hashes are those of aws-lc-rs.
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
    // TLS 1.3 takes the first of each, whose curve is the scheme's; TLS 1.2 tries all, since there a scheme
    // says only which hash.
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

/// An algorithm of the engine, with the identifiers that certificates have for it.
#[derive(Debug)]
struct Ours {
    algorithm: Algorithm,
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
}

impl SignatureVerificationAlgorithm for Ours {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
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

/// A cache, and the process that made it.
struct Cached {
    process: Option<u64>,
    keys: KeyCache,
}

/// A peer's key: out of the cache, unless this is a child of the process that made it.
fn expanded(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<VerifyKey, Error> {
    static CACHE: OnceBox<Cached> = OnceBox::new();
    let this = forks::token();
    let make = || Box::new(Cached { process: this, keys: KeyCache::new(CACHE_LEN) });
    let cached = CACHE.get_or_init(make);
    // Where forks can't be told, any process may be a child.
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

    /// What webpki has is what there is here, so that no certificate is refused that aws-lc-rs takes.
    #[test]
    fn all_that_rustls_verifies_is_verified() {
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
        // And the first of each scheme, which TLS 1.3 takes, is for the same keys.
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
            // Once out of the cache, and once into it.
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

    /// The identifier of a SubjectPublicKeyInfo that has this one and any key.
    fn identifier(id: AlgorithmIdentifier) -> gabion_engine::key_file::Identifier {
        let spki = rustls::sign::public_key_to_spki(&id, [0; 4]);
        let encoded = gabion_engine::key_file::Encoded::from_der(spki.as_ref()).unwrap();
        match encoded {
            gabion_engine::key_file::Encoded::Public(key) => key.identifier,
            gabion_engine::key_file::Encoded::Private(_) => panic!("a public key"),
        }
    }
}

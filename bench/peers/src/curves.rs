//! ECDSA and key exchange on elliptic curves: aws-lc-rs, p256, p384, p521, x25519-dalek.
//!
//! Signatures are DER over SHA-256, SHA-384 or SHA-512, as TLS pairs them with the curves.

use aws_lc_rs::agreement::{self, PrivateKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self as aws, EcdsaKeyPair, EcdsaSigningAlgorithm, EcdsaVerificationAlgorithm, KeyPair as _,
    ParsedPublicKey,
};

use crate::peer::{Error, Exchange, Randomness, Result, Signer};

const AWS_LC: &str = "aws-lc-rs";

fn failed(peer: &'static str, call: &'static str, detail: impl std::fmt::Debug) -> Error {
    Error::Call { peer, call, detail: format!("{detail:?}") }
}

/// Private key number `call` of `N` bytes: below the order of its curve, which for P-521 is a bit
/// more than 520 bits.
fn private_key<const N: usize>(call: u64) -> [u8; N] {
    let mut bytes: [u8; N] = gabion_rows::inputs::bytes(51, call);
    if N == 66 {
        bytes[0] = 0;
    }
    bytes
}

/// ECDSA of aws-lc-rs.
pub fn aws_lc_signer(name: &str) -> Result<Option<Box<dyn Signer>>> {
    let (signing, verification) = match name {
        "ECDSA-P-256" => (&aws::ECDSA_P256_SHA256_ASN1_SIGNING, &aws::ECDSA_P256_SHA256_ASN1),
        "ECDSA-P-384" => (&aws::ECDSA_P384_SHA384_ASN1_SIGNING, &aws::ECDSA_P384_SHA384_ASN1),
        "ECDSA-P-521" => (&aws::ECDSA_P521_SHA512_ASN1_SIGNING, &aws::ECDSA_P521_SHA512_ASN1),
        _ => return Ok(None),
    };
    let pair = EcdsaKeyPair::generate(signing)
        .map_err(|error| failed(AWS_LC, "EcdsaKeyPair::generate", error))?;
    let random = SystemRandom::new();
    Ok(Some(Box::new(AwsSigner { signing, verification, pair, public: None, random })))
}

struct AwsSigner {
    signing: &'static EcdsaSigningAlgorithm,
    verification: &'static EcdsaVerificationAlgorithm,
    pair: EcdsaKeyPair,
    /// The parsed public key, from the first verification on.
    public: Option<ParsedPublicKey>,
    random: SystemRandom,
}

impl Signer for AwsSigner {
    fn keygen(&mut self) -> Result<()> {
        self.pair = EcdsaKeyPair::generate(self.signing)
            .map_err(|error| failed(AWS_LC, "EcdsaKeyPair::generate", error))?;
        self.public = None;
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let signature = self.pair.sign(&self.random, message);
        Ok(signature.map_err(|error| failed(AWS_LC, "sign", error))?.as_ref().to_vec())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let key = match &self.public {
            Some(key) => key,
            None => {
                let key = ParsedPublicKey::new(self.verification, self.pair.public_key().as_ref())
                    .map_err(|error| failed(AWS_LC, "ParsedPublicKey::new", error))?;
                self.public.insert(key)
            }
        };
        Ok(key.verify_sig(message, signature).is_ok())
    }
}

/// Key exchange of aws-lc-rs, with the private key given.
pub fn aws_lc_exchange(name: &str, private: &[u8]) -> Result<Option<Box<dyn Exchange>>> {
    let algorithm = match name {
        "X25519" => &agreement::X25519,
        "ECDH-P-256" => &agreement::ECDH_P256,
        "ECDH-P-384" => &agreement::ECDH_P384,
        "ECDH-P-521" => &agreement::ECDH_P521,
        _ => return Ok(None),
    };
    let key = aws_private(algorithm, private)?;
    let public = aws_public(&key)?;
    Ok(Some(Box::new(AwsExchange { algorithm, encoded: private.to_vec(), key, public })))
}

fn aws_private(algorithm: &'static agreement::Algorithm, private: &[u8]) -> Result<PrivateKey> {
    PrivateKey::from_private_key(algorithm, private)
        .map_err(|error| failed(AWS_LC, "PrivateKey::from_private_key", error))
}

fn aws_public(key: &PrivateKey) -> Result<Vec<u8>> {
    let public =
        key.compute_public_key().map_err(|error| failed(AWS_LC, "compute_public_key", error))?;
    Ok(public.as_ref().to_vec())
}

fn aws_agree(
    algorithm: &'static agreement::Algorithm,
    key: &PrivateKey,
    peer: &[u8],
) -> Result<Vec<u8>> {
    let peer = agreement::UnparsedPublicKey::new(algorithm, peer);
    let refused = failed(AWS_LC, "agree", "refused");
    agreement::agree(key, peer, refused, |secret| Ok(secret.to_vec()))
}

struct AwsExchange {
    algorithm: &'static agreement::Algorithm,
    encoded: Vec<u8>,
    key: PrivateKey,
    public: Vec<u8>,
}

impl Exchange for AwsExchange {
    fn randomness(&self) -> Randomness {
        Randomness::Drawn
    }

    fn public(&self) -> &[u8] {
        &self.public
    }

    fn keygen(&mut self) -> Result<Vec<u8>> {
        let key = PrivateKey::generate(self.algorithm)
            .map_err(|error| failed(AWS_LC, "PrivateKey::generate", error))?;
        aws_public(&key)
    }

    fn derive_fresh(&mut self, peer: &[u8]) -> Result<Vec<u8>> {
        aws_agree(self.algorithm, &aws_private(self.algorithm, &self.encoded)?, peer)
    }

    fn derive_cached(&mut self, peer: &[u8]) -> Result<Vec<u8>> {
        aws_agree(self.algorithm, &self.key, peer)
    }
}

/// The slots of one curve of RustCrypto.
macro_rules! curve {
    ($library:ident, $name:literal, $ecdsa:literal, $ecdh:literal, $bytes:literal) => {
        pub mod $library {
            //! One crate.
            use $library::ecdsa::signature::{Signer as _, Verifier as _};
            use $library::ecdsa::{DerSignature, SigningKey, VerifyingKey};
            use $library::{PublicKey, SecretKey};

            use super::{Error, Exchange, Randomness, Result, Signer, failed, private_key};

            /// ECDSA with the nonces of RFC 6979.
            pub fn signer(name: &str) -> Result<Option<Box<dyn Signer>>> {
                if name != $ecdsa {
                    return Ok(None);
                }
                let key = key(0)?;
                let public = *key.verifying_key();
                Ok(Some(Box::new(Pair { key, public, calls: 0 })))
            }

            /// ECDH with the private key given.
            pub fn exchange(name: &str, private: &[u8]) -> Result<Option<Box<dyn Exchange>>> {
                if name != $ecdh {
                    return Ok(None);
                }
                let key = secret(private)?;
                let (encoded, public) =
                    (private.to_vec(), key.public_key().to_sec1_bytes().into_vec());
                Ok(Some(Box::new(Secret { encoded, key, public, calls: 0 })))
            }

            fn error(call: &'static str) -> impl Fn($library::elliptic_curve::Error) -> Error {
                move |error| failed($name, call, error)
            }

            fn key(call: u64) -> Result<SigningKey> {
                SigningKey::from_slice(&private_key::<$bytes>(call))
                    .map_err(|error| failed($name, "SigningKey::from_slice", error))
            }

            fn secret(bytes: &[u8]) -> Result<SecretKey> {
                SecretKey::from_slice(bytes).map_err(error("SecretKey::from_slice"))
            }

            fn derive(key: &SecretKey, peer: &[u8]) -> Result<Vec<u8>> {
                let peer = PublicKey::from_sec1_bytes(peer).map_err(error("from_sec1_bytes"))?;
                Ok(key.diffie_hellman(&peer).raw_secret_bytes().to_vec())
            }

            struct Pair {
                key: SigningKey,
                public: VerifyingKey,
                calls: u64,
            }

            impl Signer for Pair {
                fn keygen(&mut self) -> Result<()> {
                    self.calls += 1;
                    self.key = key(self.calls)?;
                    self.public = *self.key.verifying_key();
                    Ok(())
                }

                fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
                    let signature: std::result::Result<DerSignature, _> =
                        self.key.try_sign(message);
                    let signature = signature.map_err(|error| failed($name, "try_sign", error))?;
                    Ok(signature.as_bytes().to_vec())
                }

                fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
                    let signature = DerSignature::try_from(signature);
                    Ok(signature.is_ok_and(|sig| self.public.verify(message, &sig).is_ok()))
                }
            }

            struct Secret {
                encoded: Vec<u8>,
                key: SecretKey,
                public: Vec<u8>,
                calls: u64,
            }

            impl Exchange for Secret {
                fn randomness(&self) -> Randomness {
                    Randomness::Given
                }

                fn public(&self) -> &[u8] {
                    &self.public
                }

                fn keygen(&mut self) -> Result<Vec<u8>> {
                    self.calls += 1;
                    let key = secret(&private_key::<$bytes>(self.calls))?;
                    Ok(key.public_key().to_sec1_bytes().into_vec())
                }

                fn derive_fresh(&mut self, peer: &[u8]) -> Result<Vec<u8>> {
                    derive(&secret(&self.encoded)?, peer)
                }

                fn derive_cached(&mut self, peer: &[u8]) -> Result<Vec<u8>> {
                    derive(&self.key, peer)
                }
            }
        }
    };
}

curve!(p256, "p256", "ECDSA-P-256", "ECDH-P-256", 32);
curve!(p384, "p384", "ECDSA-P-384", "ECDH-P-384", 48);
curve!(p521, "p521", "ECDSA-P-521", "ECDH-P-521", 66);

/// X25519 of x25519-dalek, with the private key given.
pub fn dalek_exchange(name: &str, private: &[u8]) -> Result<Option<Box<dyn Exchange>>> {
    let Ok(encoded) = private.try_into() else {
        return Ok(None);
    };
    if name != "X25519" {
        return Ok(None);
    }
    let key = x25519_dalek::StaticSecret::from(encoded);
    let public = x25519_dalek::PublicKey::from(&key).to_bytes();
    Ok(Some(Box::new(Dalek { encoded, key, public, calls: 0 })))
}

struct Dalek {
    encoded: [u8; 32],
    key: x25519_dalek::StaticSecret,
    public: [u8; 32],
    calls: u64,
}

/// Refuses the peer's points of low order, as a handshake has to (RFC 8446, section 7.4.2).
fn dalek_derive(key: &x25519_dalek::StaticSecret, peer: &[u8]) -> Result<Vec<u8>> {
    let peer: [u8; 32] =
        peer.try_into().map_err(|error| failed("x25519-dalek", "public key", error))?;
    let secret = key.diffie_hellman(&x25519_dalek::PublicKey::from(peer));
    if !secret.was_contributory() {
        return Err(failed("x25519-dalek", "diffie_hellman", "a point of low order"));
    }
    Ok(secret.as_bytes().to_vec())
}

impl Exchange for Dalek {
    fn randomness(&self) -> Randomness {
        Randomness::Given
    }

    fn public(&self) -> &[u8] {
        &self.public
    }

    fn keygen(&mut self) -> Result<Vec<u8>> {
        self.calls += 1;
        let key = x25519_dalek::StaticSecret::from(private_key::<32>(self.calls));
        Ok(x25519_dalek::PublicKey::from(&key).to_bytes().to_vec())
    }

    fn derive_fresh(&mut self, peer: &[u8]) -> Result<Vec<u8>> {
        dalek_derive(&x25519_dalek::StaticSecret::from(self.encoded), peer)
    }

    fn derive_cached(&mut self, peer: &[u8]) -> Result<Vec<u8>> {
        dalek_derive(&self.key, peer)
    }
}

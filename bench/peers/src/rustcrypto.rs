//! RustCrypto's ml-kem and ml-dsa: portable Rust, with the features that are on by default.
//!
//! Both deprecate the expanded private keys that `fresh` begins with, in favour of seeds.

#![allow(deprecated)]

use ml_dsa::Keypair as _;
use ml_kem::array::Array;
use ml_kem::{Decapsulate as _, ExpandedKeyEncoding as _, KeyExport as _};

use crate::peer::{
    Dsa, DsaSet, Error, Identity, Kem, KemSet, Operation, Peer, Randomness, Result, Secret,
};

const KEM: &str = "ml-kem";
const DSA: &str = "ml-dsa";

/// One of the two crates.
pub struct RustCrypto {
    identity: Identity,
}

impl RustCrypto {
    /// Both, which are part of this program.
    pub fn all() -> [RustCrypto; 2] {
        [(KEM, "0.3.4"), (DSA, "0.1.2")].map(|(name, version)| RustCrypto {
            identity: Identity {
                name: name.to_owned(),
                version: version.to_owned(),
                license: "Apache-2.0 OR MIT".to_owned(),
                build: crate::RUST_BUILD.to_owned(),
            },
        })
    }
}

impl Peer for RustCrypto {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        Ok(match set.name {
            "ML-KEM-512" if self.identity.name == KEM => Some(Box::new(Kem512::default())),
            "ML-KEM-768" if self.identity.name == KEM => Some(Box::new(Kem768::default())),
            "ML-KEM-1024" if self.identity.name == KEM => Some(Box::new(Kem1024::default())),
            _ => None,
        })
    }

    fn dsa(&self, set: &'static DsaSet) -> Result<Option<Box<dyn Dsa>>> {
        Ok(match set.name {
            "ML-DSA-44" if self.identity.name == DSA => Some(Box::new(Dsa44::default())),
            "ML-DSA-65" if self.identity.name == DSA => Some(Box::new(Dsa65::default())),
            "ML-DSA-87" if self.identity.name == DSA => Some(Box::new(Dsa87::default())),
            _ => None,
        })
    }
}

fn failed(peer: &'static str, call: &'static str, detail: impl std::fmt::Debug) -> Error {
    Error::Call { peer, call, detail: format!("{detail:?}") }
}

/// The key loaded before, or the caller's mistake.
fn loaded<'a, T>(peer: &'static str, key: &'a Option<T>) -> Result<&'a T> {
    key.as_ref().ok_or_else(|| failed(peer, "load", "no key was loaded"))
}

/// One parameter set of ML-KEM. Conversions from slices fail only on a wrong length.
macro_rules! kem {
    ($name:ident, $set:ident) => {
        #[derive(Default)]
        struct $name {
            public: Option<ml_kem::EncapsulationKey<ml_kem::$set>>,
            private: Option<ml_kem::DecapsulationKey<ml_kem::$set>>,
        }

        impl $name {
            fn public(ek: &[u8]) -> Result<ml_kem::EncapsulationKey<ml_kem::$set>> {
                let ek = Array::try_from(ek).map_err(|error| failed(KEM, "public key", error))?;
                ml_kem::EncapsulationKey::<ml_kem::$set>::new(&ek)
                    .map_err(|error| failed(KEM, "EncapsulationKey::new", error))
            }

            fn private(dk: &[u8]) -> Result<ml_kem::DecapsulationKey<ml_kem::$set>> {
                let dk = Array::try_from(dk).map_err(|error| failed(KEM, "private key", error))?;
                ml_kem::DecapsulationKey::<ml_kem::$set>::from_expanded(&dk)
                    .map_err(|error| failed(KEM, "DecapsulationKey::from_expanded", error))
            }

            fn encapsulate(
                key: &ml_kem::EncapsulationKey<ml_kem::$set>,
                m: &Secret,
                ct: &mut [u8],
            ) -> Secret {
                let (ciphertext, secret) = key.encapsulate_deterministic(&Array::from(*m));
                ct.copy_from_slice(&ciphertext);
                secret.into()
            }

            fn decapsulate(
                key: &ml_kem::DecapsulationKey<ml_kem::$set>,
                ct: &[u8],
            ) -> Result<Secret> {
                let secret = key.decapsulate_slice(ct);
                Ok(secret.map_err(|error| failed(KEM, "decapsulate_slice", error))?.into())
            }
        }

        impl Kem for $name {
            fn randomness(&self, operation: Operation) -> Randomness {
                match operation {
                    Operation::Decaps => Randomness::None,
                    _ => Randomness::Given,
                }
            }

            fn keeps_key(&self, operation: Operation) -> bool {
                operation != Operation::Keygen
            }

            fn keygen(&mut self, seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()> {
                let seed = Array::from(*seed);
                let pair = ml_kem::DecapsulationKey::<ml_kem::$set>::from_seed(seed);
                ek.copy_from_slice(&pair.encapsulation_key().to_bytes());
                dk.copy_from_slice(&pair.to_expanded_bytes());
                Ok(())
            }

            fn load(&mut self, _seed: &[u8; 64], ek: &[u8], dk: &[u8]) -> Result<()> {
                self.public = Some($name::public(ek)?);
                self.private = Some($name::private(dk)?);
                Ok(())
            }

            fn encaps_fresh(&mut self, ek: &[u8], m: &Secret, ct: &mut [u8]) -> Result<Secret> {
                Ok($name::encapsulate(&$name::public(ek)?, m, ct))
            }

            fn encaps_cached(&mut self, m: &Secret, ct: &mut [u8]) -> Result<Secret> {
                Ok($name::encapsulate(loaded(KEM, &self.public)?, m, ct))
            }

            fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret> {
                $name::decapsulate(&$name::private(dk)?, ct)
            }

            fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret> {
                $name::decapsulate(loaded(KEM, &self.private)?, ct)
            }
        }
    };
}

kem!(Kem512, MlKem512);
kem!(Kem768, MlKem768);
kem!(Kem1024, MlKem1024);

/// One parameter set of ML-DSA; a decoded key has matrix A and its vectors expanded.
macro_rules! dsa {
    ($name:ident, $set:ident) => {
        #[derive(Default)]
        struct $name {
            public: Option<ml_dsa::VerifyingKey<ml_dsa::$set>>,
            private: Option<Box<ml_dsa::ExpandedSigningKey<ml_dsa::$set>>>,
        }

        impl $name {
            fn public(pk: &[u8]) -> Result<ml_dsa::VerifyingKey<ml_dsa::$set>> {
                let pk = Array::try_from(pk).map_err(|error| failed(DSA, "public key", error))?;
                Ok(ml_dsa::VerifyingKey::<ml_dsa::$set>::decode(&pk))
            }

            fn private(sk: &[u8]) -> Result<ml_dsa::ExpandedSigningKey<ml_dsa::$set>> {
                let sk = Array::try_from(sk).map_err(|error| failed(DSA, "private key", error))?;
                Ok(ml_dsa::ExpandedSigningKey::<ml_dsa::$set>::from_expanded(&sk))
            }

            fn sign(
                key: &ml_dsa::ExpandedSigningKey<ml_dsa::$set>,
                message: &[u8],
                sig: &mut [u8],
            ) -> Result<()> {
                let signature = key
                    .sign_deterministic(message, &[])
                    .map_err(|error| failed(DSA, "sign_deterministic", error))?;
                sig.copy_from_slice(&signature.encode());
                Ok(())
            }

            fn verify(
                key: &ml_dsa::VerifyingKey<ml_dsa::$set>,
                message: &[u8],
                sig: &[u8],
            ) -> Result<bool> {
                let sig = Array::try_from(sig).map_err(|error| failed(DSA, "signature", error))?;
                let signature = ml_dsa::Signature::<ml_dsa::$set>::decode(&sig);
                Ok(signature.is_some_and(|sig| key.verify_with_context(message, &[], &sig)))
            }
        }

        impl Dsa for $name {
            fn randomness(&self, operation: Operation) -> Randomness {
                match operation {
                    Operation::Verify => Randomness::None,
                    _ => Randomness::Given,
                }
            }

            fn keeps_key(&self, operation: Operation) -> bool {
                operation != Operation::Keygen
            }

            fn keygen(&mut self, xi: &[u8; 32], pk: &mut [u8], sk: &mut [u8]) -> Result<()> {
                let pair = ml_dsa::SigningKey::<ml_dsa::$set>::from_seed(&Array::from(*xi));
                pk.copy_from_slice(&pair.verifying_key().encode());
                sk.copy_from_slice(&pair.expanded_key().to_expanded());
                Ok(())
            }

            fn load(&mut self, pk: &[u8], sk: &[u8]) -> Result<()> {
                self.public = Some($name::public(pk)?);
                self.private = Some(Box::new($name::private(sk)?));
                Ok(())
            }

            fn sign_fresh(&mut self, sk: &[u8], message: &[u8], sig: &mut [u8]) -> Result<()> {
                $name::sign(&$name::private(sk)?, message, sig)
            }

            fn sign_cached(&mut self, message: &[u8], sig: &mut [u8]) -> Result<()> {
                $name::sign(loaded(DSA, &self.private)?, message, sig)
            }

            fn verify_fresh(&mut self, pk: &[u8], message: &[u8], sig: &[u8]) -> Result<bool> {
                $name::verify(&$name::public(pk)?, message, sig)
            }

            fn verify_cached(&mut self, message: &[u8], sig: &[u8]) -> Result<bool> {
                $name::verify(loaded(DSA, &self.public)?, message, sig)
            }
        }
    };
}

dsa!(Dsa44, MlDsa44);
dsa!(Dsa65, MlDsa65);
dsa!(Dsa87, MlDsa87);

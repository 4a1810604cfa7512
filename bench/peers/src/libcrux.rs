//! libcrux-ml-kem and libcrux-ml-dsa: formally verified, AVX2 on x86-64, Neon on Arm.
//!
//! `fresh` calls the functions that choose by CPUID and adds the two input checks that the
//! library leaves to its caller. `cached` uses the unpacked keys of ML-KEM; ML-DSA has none.

use libcrux_ml_dsa::{ml_dsa_44, ml_dsa_65, ml_dsa_87};
use libcrux_ml_kem::{mlkem512, mlkem768, mlkem1024};

use crate::peer::{
    Dsa, DsaSet, Error, Identity, Kem, KemSet, Operation, Peer, Randomness, Result, Secret,
};

const NAME: &str = "libcrux";

/// The library.
pub struct Libcrux {
    identity: Identity,
}

impl Libcrux {
    /// The library is part of this program.
    pub fn new() -> Libcrux {
        Libcrux {
            identity: Identity {
                name: NAME.to_owned(),
                version: "0.0.11".to_owned(),
                license: "Apache-2.0".to_owned(),
                build: crate::RUST_BUILD.to_owned(),
            },
        }
    }
}

impl Peer for Libcrux {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        Ok(match set.name {
            "ML-KEM-512" => Some(Box::new(Kem512::default())),
            "ML-KEM-768" => Some(Box::new(Kem768::default())),
            "ML-KEM-1024" => Some(Box::new(Kem1024::default())),
            _ => None,
        })
    }

    fn dsa(&self, set: &'static DsaSet) -> Result<Option<Box<dyn Dsa>>> {
        Ok(match set.name {
            "ML-DSA-44" => Some(Box::new(Dsa44)),
            "ML-DSA-65" => Some(Box::new(Dsa65)),
            "ML-DSA-87" => Some(Box::new(Dsa87)),
            _ => None,
        })
    }
}

/// Whether the instructions of the unpacked interface compiled in below are there.
fn has_unpacked() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    true
}

fn failed(call: &'static str, detail: impl std::fmt::Debug) -> Error {
    Error::Call { peer: NAME, call, detail: format!("{detail:?}") }
}

/// One parameter set of ML-KEM. Conversions from slices fail only on a wrong length.
macro_rules! kem {
    ($name:ident, $module:ident, $pair:ident, $public:ident) => {
        #[derive(Default)]
        struct $name {
            pair: unpacked::$module::$pair,
            public: unpacked::$module::$public,
        }

        impl Kem for $name {
            fn randomness(&self, operation: Operation) -> Randomness {
                match operation {
                    Operation::Decaps => Randomness::None,
                    _ => Randomness::Given,
                }
            }

            fn keeps_key(&self, operation: Operation) -> bool {
                operation != Operation::Keygen && has_unpacked()
            }

            fn keygen(&mut self, seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()> {
                let pair = $module::generate_key_pair(*seed);
                ek.copy_from_slice(pair.pk());
                dk.copy_from_slice(pair.sk());
                Ok(())
            }

            fn load(&mut self, _seed: &[u8; 64], ek: &[u8], dk: &[u8]) -> Result<()> {
                if !has_unpacked() {
                    return Ok(());
                }
                let ek = ek.try_into().map_err(|error| failed("public key", error))?;
                unpacked::$module::unpacked_public_key(&ek, &mut self.public);
                let dk = dk.try_into().map_err(|error| failed("private key", error))?;
                unpacked::$module::key_pair_from_private_mut(&dk, &mut self.pair);
                Ok(())
            }

            fn encaps_fresh(&mut self, ek: &[u8], m: &Secret, ct: &mut [u8]) -> Result<Secret> {
                let ek = ek.try_into().map_err(|error| failed("public key", error))?;
                if !$module::validate_public_key(&ek) {
                    return Err(failed("validate_public_key", false));
                }
                let (ciphertext, secret) = $module::encapsulate(&ek, *m);
                ct.copy_from_slice(ciphertext.as_ref());
                Ok(secret)
            }

            fn encaps_cached(&mut self, m: &Secret, ct: &mut [u8]) -> Result<Secret> {
                let (ciphertext, secret) = unpacked::$module::encapsulate(&self.public, *m);
                ct.copy_from_slice(ciphertext.as_ref());
                Ok(secret)
            }

            fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret> {
                let dk = dk.try_into().map_err(|error| failed("private key", error))?;
                let ct = ct.try_into().map_err(|error| failed("ciphertext", error))?;
                if !$module::validate_private_key(&dk, &ct) {
                    return Err(failed("validate_private_key", false));
                }
                Ok($module::decapsulate(&dk, &ct))
            }

            fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret> {
                let ct = ct.try_into().map_err(|error| failed("ciphertext", error))?;
                Ok(unpacked::$module::decapsulate(&self.pair, &ct))
            }
        }
    };
}

/// The unpacked interface, which exists only for a chosen instruction set.
mod unpacked {
    #[cfg(target_arch = "x86_64")]
    pub use libcrux_ml_kem::{
        mlkem512::avx2::unpacked as mlkem512, mlkem768::avx2::unpacked as mlkem768,
        mlkem1024::avx2::unpacked as mlkem1024,
    };
    #[cfg(target_arch = "aarch64")]
    pub use libcrux_ml_kem::{
        mlkem512::neon::unpacked as mlkem512, mlkem768::neon::unpacked as mlkem768,
        mlkem1024::neon::unpacked as mlkem1024,
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub use libcrux_ml_kem::{
        mlkem512::portable::unpacked as mlkem512, mlkem768::portable::unpacked as mlkem768,
        mlkem1024::portable::unpacked as mlkem1024,
    };
}

kem!(Kem512, mlkem512, MlKem512KeyPairUnpacked, MlKem512PublicKeyUnpacked);
kem!(Kem768, mlkem768, MlKem768KeyPairUnpacked, MlKem768PublicKeyUnpacked);
kem!(Kem1024, mlkem1024, MlKem1024KeyPairUnpacked, MlKem1024PublicKeyUnpacked);

/// One parameter set of ML-DSA. Keys are byte strings only: nothing to keep.
macro_rules! dsa {
    ($name:ident, $module:ident, $signing:ident, $verification:ident, $signature:ident) => {
        struct $name;

        impl Dsa for $name {
            fn randomness(&self, operation: Operation) -> Randomness {
                match operation {
                    Operation::Verify => Randomness::None,
                    _ => Randomness::Given,
                }
            }

            fn keeps_key(&self, _operation: Operation) -> bool {
                false
            }

            fn keygen(&mut self, xi: &[u8; 32], pk: &mut [u8], sk: &mut [u8]) -> Result<()> {
                let pair = $module::generate_key_pair(*xi);
                pk.copy_from_slice(pair.verification_key.as_ref());
                sk.copy_from_slice(pair.signing_key.as_ref());
                Ok(())
            }

            fn load(&mut self, _pk: &[u8], _sk: &[u8]) -> Result<()> {
                Ok(())
            }

            fn sign_fresh(&mut self, sk: &[u8], message: &[u8], sig: &mut [u8]) -> Result<()> {
                let sk = sk.try_into().map_err(|error| failed("signing key", error))?;
                let sk = $module::$signing::new(sk);
                let signature = $module::sign(&sk, message, &[], [0; 32])
                    .map_err(|error| failed("sign", error))?;
                sig.copy_from_slice(signature.as_ref());
                Ok(())
            }

            fn sign_cached(&mut self, _message: &[u8], _sig: &mut [u8]) -> Result<()> {
                Err(failed("sign", "no cached form of the key"))
            }

            fn verify_fresh(&mut self, pk: &[u8], message: &[u8], sig: &[u8]) -> Result<bool> {
                let pk = pk.try_into().map_err(|error| failed("verification key", error))?;
                let sig = sig.try_into().map_err(|error| failed("signature", error))?;
                let pk = $module::$verification::new(pk);
                let sig = $module::$signature::new(sig);
                Ok($module::verify(&pk, message, &[], &sig).is_ok())
            }

            fn verify_cached(&mut self, _message: &[u8], _sig: &[u8]) -> Result<bool> {
                Err(failed("verify", "no cached form of the key"))
            }
        }
    };
}

dsa!(Dsa44, ml_dsa_44, MLDSA44SigningKey, MLDSA44VerificationKey, MLDSA44Signature);
dsa!(Dsa65, ml_dsa_65, MLDSA65SigningKey, MLDSA65VerificationKey, MLDSA65Signature);
dsa!(Dsa87, ml_dsa_87, MLDSA87SigningKey, MLDSA87VerificationKey, MLDSA87Signature);

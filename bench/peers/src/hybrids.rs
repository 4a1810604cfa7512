//! Hybrid KEMs of libraries in Rust: libcrux-kem, rustls and x-wing.
//!
//! libcrux-kem calls X25519MLKEM768 by its draft; keys, ciphertexts and secrets are those of today. Its
//! keys are byte strings inside, so that a loaded one saves the checks. rustls has hybrids as the key
//! exchange groups of its TLS, out of aws-lc-rs: a pair is used once and never encoded.

use libcrux_kem::{Algorithm, Ct, PrivateKey, PublicKey};
use rand_core::{TryCryptoRng, TryRng};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::crypto::{ActiveKeyExchange, SupportedKxGroup};
use x_wing::{Decapsulate as _, Decapsulator as _, KeyExport as _};

use crate::peer::{
    Encapsulation, Error, Hybrid, HybridPair, HybridSet, Identity, Key, Operation, Peer,
    Randomness, Result,
};

const LIBCRUX: &str = "libcrux-kem";
const RUSTLS: &str = "rustls";
const X_WING: &str = "x-wing";

/// A library that is part of this program.
struct Library {
    identity: Identity,
    slot: fn(&HybridSet) -> Option<Box<dyn Hybrid>>,
}

impl Peer for Library {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn hybrid(&self, set: &'static HybridSet) -> Result<Option<Box<dyn Hybrid>>> {
        Ok((self.slot)(set))
    }
}

/// libcrux-kem.
pub fn libcrux() -> Box<dyn Peer> {
    Box::new(Library {
        identity: Identity {
            name: LIBCRUX.to_owned(),
            version: "0.0.10".to_owned(),
            license: "Apache-2.0".to_owned(),
            build: format!("libcrux-ml-kem 0.0.11; {}", crate::RUST_BUILD),
        },
        slot: |set| {
            let algorithm = match set.name {
                "X25519MLKEM768" => Algorithm::X25519MlKem768Draft00,
                "X-Wing" => Algorithm::XWingKemDraft06,
                _ => return None,
            };
            Some(Box::new(Libcrux { algorithm, public: None, private: None }))
        },
    })
}

/// rustls over aws-lc-rs.
pub fn rustls() -> Box<dyn Peer> {
    Box::new(Library {
        identity: Identity {
            name: RUSTLS.to_owned(),
            version: "0.23.46".to_owned(),
            license: "Apache-2.0 OR ISC OR MIT".to_owned(),
            build: format!("aws-lc-rs 1.19.0, {}; {}", crate::aws_lc::C_FLAGS, crate::RUST_BUILD),
        },
        slot: |set| {
            let group = match set.name {
                "X25519MLKEM768" => kx_group::X25519MLKEM768,
                "SecP256r1MLKEM768" => kx_group::SECP256R1MLKEM768,
                _ => return None,
            };
            Some(Box::new(Rustls { group, pair: None }))
        },
    })
}

/// RustCrypto's x-wing.
pub fn x_wing() -> Box<dyn Peer> {
    Box::new(Library {
        identity: Identity {
            name: X_WING.to_owned(),
            version: "0.1.1".to_owned(),
            license: "Apache-2.0 OR MIT".to_owned(),
            build: format!("ml-kem 0.3.4, x25519-dalek 3.0.0; {}", crate::RUST_BUILD),
        },
        slot: |set| {
            let is_it = set.name == "X-Wing";
            is_it.then(|| Box::new(XWing { public: None, private: None }) as Box<dyn Hybrid>)
        },
    })
}

fn failed(peer: &'static str, call: &'static str, detail: impl std::fmt::Debug) -> Error {
    Error::Call { peer, call, detail: format!("{detail:?}") }
}

/// The key loaded or made before, or the caller's mistake.
fn kept<'a, T>(peer: &'static str, key: &'a Option<T>) -> Result<&'a T> {
    key.as_ref().ok_or_else(|| failed(peer, "load", "no key was loaded"))
}

/// A random number generator that returns fixed bytes, and then fails.
struct FixedRng<'a>(&'a [u8]);

impl TryRng for FixedRng<'_> {
    type Error = std::fmt::Error;

    fn try_next_u32(&mut self) -> std::result::Result<u32, Self::Error> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> std::result::Result<u64, Self::Error> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> std::result::Result<(), Self::Error> {
        let (given, rest) = self.0.split_at_checked(out.len()).ok_or(std::fmt::Error)?;
        out.copy_from_slice(given);
        self.0 = rest;
        Ok(())
    }
}

impl TryCryptoRng for FixedRng<'_> {}

struct Libcrux {
    algorithm: Algorithm,
    public: Option<PublicKey>,
    private: Option<PrivateKey>,
}

impl Libcrux {
    fn encapsulate(key: &PublicKey, m: &[u8; 64]) -> Result<Encapsulation> {
        let (secret, ct) = key
            .encapsulate_derand(m)
            .map_err(|error| failed(LIBCRUX, "PublicKey::encapsulate_derand", error))?;
        Ok((ct.encode(), secret.encode()))
    }

    fn ciphertext(&self, ct: &[u8]) -> Result<Ct> {
        Ct::decode(self.algorithm, ct).map_err(|error| failed(LIBCRUX, "Ct::decode", error))
    }

    fn decapsulate(key: &PrivateKey, ct: &Ct) -> Result<Vec<u8>> {
        let secret =
            ct.decapsulate(key).map_err(|error| failed(LIBCRUX, "Ct::decapsulate", error))?;
        Ok(secret.encode())
    }
}

impl Hybrid for Libcrux {
    fn source(&self) -> Randomness {
        Randomness::Given
    }

    fn keygen(&mut self, seed: &[u8; 96]) -> Result<HybridPair> {
        let (private, public) = libcrux_kem::key_gen(self.algorithm, &mut FixedRng(seed))
            .map_err(|error| failed(LIBCRUX, "key_gen", error))?;
        let pair = HybridPair { public: public.encode(), private: Some(private.encode()) };
        self.private = Some(private);
        Ok(pair)
    }

    fn load(&mut self, public: &[u8]) -> Result<()> {
        let key = PublicKey::decode(self.algorithm, public);
        self.public = Some(key.map_err(|error| failed(LIBCRUX, "PublicKey::decode", error))?);
        Ok(())
    }

    fn encaps_fresh(&mut self, public: &[u8], m: &[u8; 64]) -> Result<Encapsulation> {
        let key = PublicKey::decode(self.algorithm, public)
            .map_err(|error| failed(LIBCRUX, "PublicKey::decode", error))?;
        Self::encapsulate(&key, m)
    }

    fn encaps_cached(&mut self, m: &[u8; 64]) -> Result<Encapsulation> {
        Self::encapsulate(kept(LIBCRUX, &self.public)?, m)
    }

    /// The check of the decapsulation key, which is a seed in X-Wing, is left to the caller.
    fn decaps_fresh(&mut self, private: &[u8], ct: &[u8]) -> Result<Vec<u8>> {
        let key = PrivateKey::decode(self.algorithm, private)
            .map_err(|error| failed(LIBCRUX, "PrivateKey::decode", error))?;
        let ct = self.ciphertext(ct)?;
        if let (PrivateKey::X25519MlKem768Draft00(key), Ct::X25519MlKem768Draft00(ct, _)) =
            (&key, &ct)
            && !libcrux_ml_kem::mlkem768::validate_private_key(&key.mlkem, ct)
        {
            return Err(failed(LIBCRUX, "validate_private_key", false));
        }
        Self::decapsulate(&key, &ct)
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Vec<u8>> {
        Self::decapsulate(kept(LIBCRUX, &self.private)?, &self.ciphertext(ct)?)
    }
}

struct Rustls {
    group: &'static dyn SupportedKxGroup,
    pair: Option<Box<dyn ActiveKeyExchange>>,
}

impl Hybrid for Rustls {
    fn source(&self) -> Randomness {
        Randomness::Drawn
    }

    fn does(&self, operation: Operation, key: Key) -> bool {
        match operation {
            Operation::Decaps => key == Key::Cached,
            _ => key == Key::Fresh,
        }
    }

    fn is_used_up(&self) -> bool {
        true
    }

    fn keygen(&mut self, _seed: &[u8; 96]) -> Result<HybridPair> {
        let pair = self.group.start().map_err(|error| failed(RUSTLS, "start", error))?;
        let public = pair.pub_key().to_vec();
        self.pair = Some(pair);
        Ok(HybridPair { public, private: None })
    }

    fn load(&mut self, _public: &[u8]) -> Result<()> {
        Ok(())
    }

    fn encaps_fresh(&mut self, public: &[u8], _m: &[u8; 64]) -> Result<Encapsulation> {
        let done = self
            .group
            .start_and_complete(public)
            .map_err(|error| failed(RUSTLS, "start_and_complete", error))?;
        let secret = done.secret.secret_bytes().to_vec();
        Ok((done.pub_key, secret))
    }

    fn encaps_cached(&mut self, _m: &[u8; 64]) -> Result<Encapsulation> {
        Err(failed(RUSTLS, "start_and_complete", "no cached form of the key"))
    }

    fn decaps_fresh(&mut self, _private: &[u8], _ct: &[u8]) -> Result<Vec<u8>> {
        Err(failed(RUSTLS, "complete", "no encoded form of the key"))
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Vec<u8>> {
        let pair = self.pair.take().ok_or_else(|| failed(RUSTLS, "complete", "no pair is left"))?;
        let secret = pair.complete(ct).map_err(|error| failed(RUSTLS, "complete", error))?;
        Ok(secret.secret_bytes().to_vec())
    }
}

/// The private key is a seed, which the crate expands again for each decapsulation.
struct XWing {
    public: Option<x_wing::EncapsulationKey>,
    private: Option<x_wing::DecapsulationKey>,
}

impl XWing {
    fn public(bytes: &[u8]) -> Result<x_wing::EncapsulationKey> {
        x_wing::EncapsulationKey::try_from(bytes)
            .map_err(|error| failed(X_WING, "EncapsulationKey::try_from", error))
    }

    fn encapsulate(key: &x_wing::EncapsulationKey, m: &[u8; 64]) -> Encapsulation {
        let (ct, secret) = key.encapsulate_deterministic(&(*m).into());
        (ct.to_vec(), secret.to_vec())
    }

    fn decapsulate(key: &x_wing::DecapsulationKey, ct: &[u8]) -> Result<Vec<u8>> {
        let secret = key.decapsulate_slice(ct);
        Ok(secret.map_err(|error| failed(X_WING, "decapsulate_slice", error))?.to_vec())
    }
}

impl Hybrid for XWing {
    fn source(&self) -> Randomness {
        Randomness::Given
    }

    fn keygen(&mut self, seed: &[u8; 96]) -> Result<HybridPair> {
        let mut first = [0; 32];
        first.copy_from_slice(&seed[..32]);
        let key = x_wing::DecapsulationKey::from(first);
        let public = key.encapsulation_key().to_bytes().to_vec();
        let private = Some(key.as_bytes().to_vec());
        self.private = Some(key);
        Ok(HybridPair { public, private })
    }

    fn load(&mut self, public: &[u8]) -> Result<()> {
        self.public = Some(Self::public(public)?);
        Ok(())
    }

    fn encaps_fresh(&mut self, public: &[u8], m: &[u8; 64]) -> Result<Encapsulation> {
        Ok(Self::encapsulate(&Self::public(public)?, m))
    }

    fn encaps_cached(&mut self, m: &[u8; 64]) -> Result<Encapsulation> {
        Ok(Self::encapsulate(kept(X_WING, &self.public)?, m))
    }

    fn decaps_fresh(&mut self, private: &[u8], ct: &[u8]) -> Result<Vec<u8>> {
        let seed: [u8; 32] =
            private.try_into().map_err(|error| failed(X_WING, "private key", error))?;
        Self::decapsulate(&x_wing::DecapsulationKey::from(seed), ct)
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Vec<u8>> {
        Self::decapsulate(kept(X_WING, &self.private)?, ct)
    }
}

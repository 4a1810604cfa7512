//! Crates that are measured for one thing each: signatures beside ML-DSA, and key exchange.

use aws_lc_rs::signature::{self as aws, KeyPair as _};
use ed25519_dalek::Signer as _;
use slh_dsa::signature::{Keypair as _, Verifier as _};

use crate::peer::{Error, Exchange, Identity, Kem, KemSet, Peer, Result, Signer};
use crate::{curves, falcon};

/// Makes the slot of a scheme by name.
type Make = fn(&str) -> Result<Option<Box<dyn Signer>>>;

/// Makes the slot of a key exchange by name, from a private key.
type MakeExchange = fn(&str, &[u8]) -> Result<Option<Box<dyn Exchange>>>;

/// Makes the slot of a parameter set of ML-KEM.
type MakeKem = fn(&KemSet) -> Option<Box<dyn Kem>>;

/// A crate as a library with schemes.
struct Crate {
    identity: Identity,
    make: Make,
    exchange: MakeExchange,
    kem: MakeKem,
}

impl Peer for Crate {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        Ok((self.kem)(set))
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        (self.make)(name)
    }

    fn exchange(&self, name: &str, private: &[u8]) -> Result<Option<Box<dyn Exchange>>> {
        (self.exchange)(name, private)
    }
}

fn library(name: &str, version: &str, license: &str, make: Make) -> Box<dyn Peer> {
    curve((name, version, license), make, |_, _| Ok(None))
}

fn curve(
    (name, version, license): (&str, &str, &str),
    make: Make,
    exchange: MakeExchange,
) -> Box<dyn Peer> {
    let identity = identity(name, version, license);
    Box::new(Crate { identity, make, exchange, kem: |_| None })
}

fn identity(name: &str, version: &str, license: &str) -> Identity {
    let [name, version, license, build] =
        [name, version, license, crate::RUST_BUILD].map(str::to_owned);
    Identity { name, version, license, build }
}

/// The crates that are measured for nothing else, but graviola, which is for some processors only.
pub fn all() -> Vec<Box<dyn Peer>> {
    let both = "Apache-2.0 OR MIT";
    vec![
        library("fn-dsa", "0.4.0", "Unlicense", falcon::draft),
        library("fn-dsa", "0.3.0", "Unlicense", falcon::round3),
        curve(("p256", "0.14.0", both), curves::p256::signer, curves::p256::exchange),
        curve(("p384", "0.14.0", both), curves::p384::signer, curves::p384::exchange),
        curve(("p521", "0.14.0", both), curves::p521::signer, curves::p521::exchange),
        curve(("x25519-dalek", "3.0.0", "BSD-3-Clause"), |_| Ok(None), curves::dalek_exchange),
        library("slh-dsa", "0.2.0-rc.5", both, slh),
        library("ed25519-dalek", "3.0.0", "BSD-3-Clause", |name| ed25519(name, dalek)),
    ]
}

/// graviola, where its assembly can run.
pub fn graviola() -> Option<Box<dyn Peer>> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("adx") && is_x86_feature_detected!("avx2") {
        return Some(Box::new(Crate {
            identity: identity("graviola", "0.4.4", "Apache-2.0 OR ISC OR MIT-0"),
            make: |name| ed25519(name, from_graviola),
            exchange: |_, _| Ok(None),
            kem: |set| match set.name {
                "ML-KEM-768" => Some(Box::new(crate::graviola::Kem768::default())),
                _ => None,
            },
        }));
    }
    None
}

/// Ed25519 and ECDSA of aws-lc-rs, whose other schemes are in `aws_lc`.
pub fn aws_lc(name: &str) -> Result<Option<Box<dyn Signer>>> {
    match ed25519(name, from_aws)? {
        Some(slot) => Ok(Some(slot)),
        None => curves::aws_lc_signer(name),
    }
}

fn ed25519(
    name: &str,
    make: fn(&[u8; 32]) -> Result<Box<dyn Signer>>,
) -> Result<Option<Box<dyn Signer>>> {
    if name != "Ed25519" {
        return Ok(None);
    }
    make(&gabion_rows::inputs::bytes(30, 0)).map(Some)
}

fn failed(peer: &'static str, call: &'static str, detail: impl std::fmt::Debug) -> Error {
    Error::Call { peer, call, detail: format!("{detail:?}") }
}

/// The next seed, so that each key generation has its own.
fn next(calls: &mut u64) -> [u8; 32] {
    *calls += 1;
    gabion_rows::inputs::bytes(31, *calls)
}

/// One parameter set of slh-dsa.
struct Slh<P: slh_dsa::ParameterSet> {
    key: slh_dsa::SigningKey<P>,
    n: usize,
    calls: u64,
}

/// The key pair number `call`, from seeds of n bytes each.
fn make_slh<P: slh_dsa::ParameterSet>(n: usize, call: u64) -> slh_dsa::SigningKey<P> {
    let seeds: [[u8; 32]; 3] =
        std::array::from_fn(|part| gabion_rows::inputs::bytes(20 + part as u64, call));
    slh_dsa::SigningKey::slh_keygen_internal(&seeds[0][..n], &seeds[1][..n], &seeds[2][..n])
}

fn slh_slot<P: slh_dsa::ParameterSet + 'static>(n: usize) -> Result<Option<Box<dyn Signer>>> {
    Ok(Some(Box::new(Slh::<P> { key: make_slh(n, 0), n, calls: 0 })))
}

impl<P: slh_dsa::ParameterSet> Signer for Slh<P> {
    fn keygen(&mut self) -> Result<()> {
        self.calls += 1;
        self.key = make_slh(self.n, self.calls);
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let signature =
            self.key.try_sign(message).map_err(|error| failed("slh-dsa", "try_sign", error))?;
        Ok(signature.to_vec())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let signature = slh_dsa::Signature::try_from(signature)
            .map_err(|error| failed("slh-dsa", "Signature::try_from", error))?;
        Ok(self.key.verifying_key().verify(message, &signature).is_ok())
    }
}

fn slh(name: &str) -> Result<Option<Box<dyn Signer>>> {
    match name {
        "SLH-DSA-SHAKE-128s" => slh_slot::<slh_dsa::Shake128s>(16),
        "SLH-DSA-SHAKE-128f" => slh_slot::<slh_dsa::Shake128f>(16),
        "SLH-DSA-SHAKE-192s" => slh_slot::<slh_dsa::Shake192s>(24),
        "SLH-DSA-SHAKE-192f" => slh_slot::<slh_dsa::Shake192f>(24),
        "SLH-DSA-SHAKE-256s" => slh_slot::<slh_dsa::Shake256s>(32),
        "SLH-DSA-SHAKE-256f" => slh_slot::<slh_dsa::Shake256f>(32),
        "SLH-DSA-SHA2-128s" => slh_slot::<slh_dsa::Sha2_128s>(16),
        "SLH-DSA-SHA2-128f" => slh_slot::<slh_dsa::Sha2_128f>(16),
        "SLH-DSA-SHA2-192s" => slh_slot::<slh_dsa::Sha2_192s>(24),
        "SLH-DSA-SHA2-192f" => slh_slot::<slh_dsa::Sha2_192f>(24),
        "SLH-DSA-SHA2-256s" => slh_slot::<slh_dsa::Sha2_256s>(32),
        "SLH-DSA-SHA2-256f" => slh_slot::<slh_dsa::Sha2_256f>(32),
        _ => Ok(None),
    }
}

struct Dalek {
    key: ed25519_dalek::SigningKey,
    calls: u64,
}

fn dalek(seed: &[u8; 32]) -> Result<Box<dyn Signer>> {
    Ok(Box::new(Dalek { key: ed25519_dalek::SigningKey::from_bytes(seed), calls: 0 }))
}

impl Signer for Dalek {
    fn keygen(&mut self) -> Result<()> {
        self.key = ed25519_dalek::SigningKey::from_bytes(&next(&mut self.calls));
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.key.sign(message).to_bytes().to_vec())
    }

    /// The strict verification, which is the one that Gabion does.
    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let signature = ed25519_dalek::Signature::from_slice(signature)
            .map_err(|error| failed("ed25519-dalek", "from_slice", error))?;
        Ok(self.key.verifying_key().verify_strict(message, &signature).is_ok())
    }
}

struct AwsLc {
    pair: aws::Ed25519KeyPair,
    public: Vec<u8>,
    calls: u64,
}

fn from_aws(seed: &[u8; 32]) -> Result<Box<dyn Signer>> {
    let pair = aws::Ed25519KeyPair::from_seed_unchecked(seed)
        .map_err(|error| failed("aws-lc-rs", "from_seed_unchecked", error))?;
    let public = pair.public_key().as_ref().to_vec();
    Ok(Box::new(AwsLc { pair, public, calls: 0 }))
}

impl Signer for AwsLc {
    fn keygen(&mut self) -> Result<()> {
        let seed = next(&mut self.calls);
        self.pair = aws::Ed25519KeyPair::from_seed_unchecked(&seed)
            .map_err(|error| failed("aws-lc-rs", "from_seed_unchecked", error))?;
        self.public = self.pair.public_key().as_ref().to_vec();
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.pair.sign(message).as_ref().to_vec())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let key = aws::UnparsedPublicKey::new(&aws::ED25519, &self.public);
        Ok(key.verify(message, signature).is_ok())
    }
}

#[cfg(target_arch = "x86_64")]
struct Graviola {
    key: graviola::signing::eddsa::Ed25519SigningKey,
    public: graviola::signing::eddsa::Ed25519VerifyingKey,
    calls: u64,
}

#[cfg(target_arch = "x86_64")]
fn from_graviola(seed: &[u8; 32]) -> Result<Box<dyn Signer>> {
    let key = graviola::signing::eddsa::Ed25519SigningKey::from_bytes(seed)
        .map_err(|error| failed("graviola", "from_bytes", error))?;
    let public = key.public_key();
    Ok(Box::new(Graviola { key, public, calls: 0 }))
}

#[cfg(target_arch = "x86_64")]
impl Signer for Graviola {
    fn keygen(&mut self) -> Result<()> {
        let seed = next(&mut self.calls);
        self.key = graviola::signing::eddsa::Ed25519SigningKey::from_bytes(&seed)
            .map_err(|error| failed("graviola", "from_bytes", error))?;
        self.public = self.key.public_key();
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        Ok(self.key.sign(message).to_vec())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        Ok(self.public.verify(signature, message).is_ok())
    }
}

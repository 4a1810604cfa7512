//! AWS-LC through aws-lc-rs, the library most Rust servers use.
//!
//! Its public interface draws the randomness of ML-KEM and of signing itself, so those rows hold
//! one call of its generator; signing is hedged, so its attempts are not those of the others and
//! only the mean compares. It keeps a parsed key but not the expanded matrix.

use aws_lc_rs::encoding::AsRawBytes;
use aws_lc_rs::kem::{
    Algorithm, Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_512, ML_KEM_768, ML_KEM_1024,
};
use aws_lc_rs::signature::{
    KeyPair, ML_DSA_44, ML_DSA_44_SIGNING, ML_DSA_65, ML_DSA_65_SIGNING, ML_DSA_87,
    ML_DSA_87_SIGNING, ParsedPublicKey, PqdsaKeyPair, PqdsaSigningAlgorithm,
    PqdsaVerificationAlgorithm, UnparsedPublicKey,
};

use crate::peer::{
    Dsa, DsaSet, Error, Exchange, Identity, Kem, KemSet, Operation, Peer, Randomness, Result,
    Secret, Signer,
};

const NAME: &str = "aws-lc-rs";

/// What its C was compiled with beside the flags of its own build script.
pub const C_FLAGS: &str = match option_env!("AWS_LC_SYS_CFLAGS") {
    Some(flags) => flags,
    None => "its own release flags",
};

/// The library.
pub struct AwsLc {
    identity: Identity,
}

impl AwsLc {
    /// The library is part of this program.
    pub fn new() -> AwsLc {
        AwsLc {
            identity: Identity {
                name: NAME.to_owned(),
                version: "1.19.0".to_owned(),
                license: "ISC AND (Apache-2.0 OR ISC)".to_owned(),
                build: format!("aws-lc-sys 0.47.0, {C_FLAGS}; {}", crate::RUST_BUILD),
            },
        }
    }
}

impl Peer for AwsLc {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        crate::crates::aws_lc(name)
    }

    fn exchange(&self, name: &str, private: &[u8]) -> Result<Option<Box<dyn Exchange>>> {
        crate::curves::aws_lc_exchange(name, private)
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        let algorithm = match set.name {
            "ML-KEM-512" => &ML_KEM_512,
            "ML-KEM-768" => &ML_KEM_768,
            "ML-KEM-1024" => &ML_KEM_1024,
            _ => return Ok(None),
        };
        Ok(Some(Box::new(AwsKem { algorithm, public: None, private: None })))
    }

    fn dsa(&self, set: &'static DsaSet) -> Result<Option<Box<dyn Dsa>>> {
        let (signing, verification) = match set.name {
            "ML-DSA-44" => (&ML_DSA_44_SIGNING, &ML_DSA_44),
            "ML-DSA-65" => (&ML_DSA_65_SIGNING, &ML_DSA_65),
            "ML-DSA-87" => (&ML_DSA_87_SIGNING, &ML_DSA_87),
            _ => return Ok(None),
        };
        Ok(Some(Box::new(AwsDsa { signing, verification, public: None, private: None })))
    }
}

fn failed(call: &'static str, detail: impl std::fmt::Display) -> Error {
    Error::Call { peer: NAME, call, detail: detail.to_string() }
}

/// The key loaded before, or the caller's mistake.
fn loaded<T>(key: &Option<T>) -> Result<&T> {
    key.as_ref().ok_or_else(|| failed("load", "no key was loaded"))
}

struct AwsKem {
    algorithm: &'static Algorithm,
    public: Option<EncapsulationKey>,
    private: Option<DecapsulationKey>,
}

fn encapsulate(key: &EncapsulationKey, ct: &mut [u8]) -> Result<Secret> {
    let (ciphertext, secret) = key.encapsulate().map_err(|error| failed("encapsulate", error))?;
    ct.copy_from_slice(ciphertext.as_ref());
    secret.as_ref().try_into().map_err(|error| failed("encapsulate", error))
}

fn decapsulate(key: &DecapsulationKey, ct: &[u8]) -> Result<Secret> {
    let secret =
        key.decapsulate(Ciphertext::from(ct)).map_err(|error| failed("decapsulate", error))?;
    secret.as_ref().try_into().map_err(|error| failed("decapsulate", error))
}

impl Kem for AwsKem {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Decaps => Randomness::None,
            _ => Randomness::Drawn,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen
    }

    fn keygen(&mut self, _seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()> {
        let pair = DecapsulationKey::generate(self.algorithm)
            .map_err(|error| failed("DecapsulationKey::generate", error))?;
        let public =
            pair.encapsulation_key().map_err(|error| failed("encapsulation_key", error))?;
        let bytes = public.key_bytes().map_err(|error| failed("key_bytes", error))?;
        ek.copy_from_slice(bytes.as_ref());
        let bytes = pair.key_bytes().map_err(|error| failed("key_bytes", error))?;
        dk.copy_from_slice(bytes.as_ref());
        Ok(())
    }

    fn load(&mut self, _seed: &[u8; 64], ek: &[u8], dk: &[u8]) -> Result<()> {
        let public = EncapsulationKey::new(self.algorithm, ek);
        self.public = Some(public.map_err(|error| failed("EncapsulationKey::new", error))?);
        let private = DecapsulationKey::new(self.algorithm, dk);
        self.private = Some(private.map_err(|error| failed("DecapsulationKey::new", error))?);
        Ok(())
    }

    fn encaps_fresh(&mut self, ek: &[u8], _m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        let key = EncapsulationKey::new(self.algorithm, ek)
            .map_err(|error| failed("EncapsulationKey::new", error))?;
        encapsulate(&key, ct)
    }

    fn encaps_cached(&mut self, _m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        encapsulate(loaded(&self.public)?, ct)
    }

    fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret> {
        let key = DecapsulationKey::new(self.algorithm, dk)
            .map_err(|error| failed("DecapsulationKey::new", error))?;
        decapsulate(&key, ct)
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret> {
        decapsulate(loaded(&self.private)?, ct)
    }
}

struct AwsDsa {
    signing: &'static PqdsaSigningAlgorithm,
    verification: &'static PqdsaVerificationAlgorithm,
    public: Option<ParsedPublicKey>,
    private: Option<PqdsaKeyPair>,
}

fn sign(key: &PqdsaKeyPair, message: &[u8], sig: &mut [u8]) -> Result<()> {
    key.sign(message, sig).map(|_| ()).map_err(|error| failed("sign", error))
}

impl Dsa for AwsDsa {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Keygen => Randomness::Given,
            Operation::Sign => Randomness::Drawn,
            _ => Randomness::None,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen
    }

    fn keygen(&mut self, xi: &[u8; 32], pk: &mut [u8], sk: &mut [u8]) -> Result<()> {
        let pair = PqdsaKeyPair::from_seed(self.signing, xi)
            .map_err(|error| failed("PqdsaKeyPair::from_seed", error))?;
        pk.copy_from_slice(pair.public_key().as_ref());
        let bytes =
            pair.private_key().as_raw_bytes().map_err(|error| failed("as_raw_bytes", error))?;
        sk.copy_from_slice(bytes.as_ref());
        Ok(())
    }

    fn load(&mut self, pk: &[u8], sk: &[u8]) -> Result<()> {
        let public = ParsedPublicKey::new(self.verification, pk);
        self.public = Some(public.map_err(|error| failed("ParsedPublicKey::new", error))?);
        let private = PqdsaKeyPair::from_raw_private_key(self.signing, sk);
        self.private = Some(private.map_err(|error| failed("from_raw_private_key", error))?);
        Ok(())
    }

    fn sign_fresh(&mut self, sk: &[u8], message: &[u8], sig: &mut [u8]) -> Result<()> {
        let key = PqdsaKeyPair::from_raw_private_key(self.signing, sk)
            .map_err(|error| failed("from_raw_private_key", error))?;
        sign(&key, message, sig)
    }

    fn sign_cached(&mut self, message: &[u8], sig: &mut [u8]) -> Result<()> {
        sign(loaded(&self.private)?, message, sig)
    }

    fn verify_fresh(&mut self, pk: &[u8], message: &[u8], sig: &[u8]) -> Result<bool> {
        Ok(UnparsedPublicKey::new(self.verification, pk).verify(message, sig).is_ok())
    }

    fn verify_cached(&mut self, message: &[u8], sig: &[u8]) -> Result<bool> {
        Ok(loaded(&self.public)?.verify_sig(message, sig).is_ok())
    }
}

//! ML-KEM-768 of graviola, whose keys are made and used and not taken in.
//!
//! The functions that take their randomness from the caller are there for graviola's own tests and in no
//! documentation; the public ones draw it and then call these. What those do besides, a check of the processor
//! and, for a private key, that each is used once, is not measured.

use graviola::key_agreement::mlkem768::{Ciphertext, DecapKey, EncapKey, Message};

use crate::peer::{Error, Kem, Key, Operation, Randomness, Result, Secret};

const NAME: &str = "graviola";

fn failed(call: &'static str, detail: impl std::fmt::Debug) -> Error {
    Error::Call { peer: NAME, call, detail: format!("{detail:?}") }
}

/// ML-KEM-768, with the pair that was loaded.
#[derive(Default)]
pub struct Kem768 {
    public: Option<EncapKey>,
    private: Option<DecapKey>,
}

/// Bytes of a length that the set says.
fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N]> {
    bytes.try_into().map_err(|error| failed("a length", error))
}

fn public(ek: &[u8]) -> Result<EncapKey> {
    EncapKey::from_bytes(sized(ek)?).map_err(|error| failed("EncapKey::from_bytes", error))
}

fn encapsulate(key: EncapKey, m: &Secret, ct: &mut [u8]) -> Secret {
    let (secret, ciphertext) = key.encaps_internal(Message(*m));
    ct.copy_from_slice(ciphertext.as_ref());
    *secret.as_ref()
}

impl Kem for Kem768 {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Decaps => Randomness::None,
            _ => Randomness::Given,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen
    }

    fn does(&self, operation: Operation, key: Key) -> bool {
        (operation, key) != (Operation::Decaps, Key::Fresh)
    }

    fn keygen(&mut self, seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()> {
        let key = DecapKey::keygen_internal(seed);
        ek.copy_from_slice(&key.encapsulation_key().as_bytes());
        dk.copy_from_slice(&key.as_bytes());
        Ok(())
    }

    fn load(&mut self, seed: &[u8; 64], ek: &[u8], dk: &[u8]) -> Result<()> {
        let key = DecapKey::keygen_internal(seed);
        if key.as_bytes()[..] != *dk {
            return Err(failed("load", "the seed makes another key"));
        }
        self.public = Some(public(ek)?);
        self.private = Some(key);
        Ok(())
    }

    fn encaps_fresh(&mut self, ek: &[u8], m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        Ok(encapsulate(public(ek)?, m, ct))
    }

    fn encaps_cached(&mut self, m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        let key = self.public.clone().ok_or_else(|| failed("load", "no key was loaded"))?;
        Ok(encapsulate(key, m, ct))
    }

    fn decaps_fresh(&mut self, _dk: &[u8], _ct: &[u8]) -> Result<Secret> {
        Err(failed("decaps", "private keys are not taken in"))
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret> {
        let key = self.private.as_ref().ok_or_else(|| failed("load", "no key was loaded"))?;
        Ok(*key.decaps_internal(&Ciphertext::from(*sized(ct)?)).as_ref())
    }
}

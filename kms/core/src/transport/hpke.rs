//! HPKE (RFC 9180) in base mode, with one message per context: X-Wing (KEM 0x647a), HKDF-SHA256,
//! AES-256-GCM.
//!
//! X-Wing's shared secret is the input of the key schedule without further processing
//! (draft-connolly-cfrg-xwing-kem, section 5.8).

use gabion_engine::{Algorithm, Engine, KemPrivateKey, KemPublicKey, OsEntropy};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::KEY_MAX;
use crate::error::Error;
use crate::model::Symmetric;
use crate::symmetric::Aead;

/// The size of AES-GCM's nonce in bytes.
const NONCE: usize = 12;
/// The size of AES-GCM's tag in bytes.
const TAG: usize = 16;

/// A cipher suite, by the numbers of RFC 9180, section 7, and of the KEM's draft.
#[derive(Clone, Copy)]
struct Suite {
    kem: u16,
    kdf: u16,
    aead: u16,
    /// The size of the AEAD's key in bytes.
    key: usize,
}

const SUITE: Suite = Suite { kem: 0x647a, kdf: 0x0001, aead: 0x0002, key: 32 };

/// Wraps a key for the holder of a private key.
///
/// # Errors
/// No randomness; no healthy backend.
pub fn seal(
    engine: &Engine,
    public: &KemPublicKey,
    info: &[u8],
    key: &[u8],
) -> Result<Vec<u8>, Error> {
    let (enc, shared) = engine.encaps(public, &OsEntropy)?;
    let (aead, nonce) = SUITE.context(&shared, info)?;
    let sealed = aead.seal_with(&nonce, key, b"")?;
    // The nonce is derived by both sides, so it is not sent.
    Ok([&enc[..], &sealed[NONCE..]].concat())
}

/// Unwraps a key that was wrapped for this private key and `info`.
///
/// # Errors
/// [`Error::DecryptFailed`], without the cause; no healthy backend.
pub fn open(
    engine: &Engine,
    private: &KemPrivateKey,
    info: &[u8],
    wrapped: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let enc_len = Algorithm::XWing.info().output.max();
    if wrapped.len() > enc_len + KEY_MAX + TAG {
        return Err(Error::DecryptFailed);
    }
    let (enc, sealed) = wrapped.split_at_checked(enc_len).ok_or(Error::DecryptFailed)?;
    let shared = match engine.decaps(private, enc) {
        Err(
            gabion_engine::Error::Input(_)
            | gabion_engine::Error::Lane { status: gabion_engine::Status::InvalidInput, .. },
        ) => return Err(Error::DecryptFailed),
        shared => shared?,
    };
    let (aead, nonce) = SUITE.context(&shared, info)?;
    aead.open(&[&nonce[..], sealed].concat(), b"").ok_or(Error::DecryptFailed)
}

impl Suite {
    /// Returns `suite_id` (RFC 9180, section 5.1).
    fn id(self) -> [u8; 10] {
        let mut id = *b"HPKE\0\0\0\0\0\0";
        for (place, number) in id[4..].chunks_exact_mut(2).zip([self.kem, self.kdf, self.aead]) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        id
    }

    /// Returns the cipher of a context and its only nonce.
    fn context(self, shared: &[u8], info: &[u8]) -> Result<(Aead, [u8; NONCE]), Error> {
        let (key, nonce) = self.schedule(shared, info)?;
        let aead = Aead::new(Symmetric::Aes256Gcm96, &key).ok_or_else(internal)?;
        Ok((aead, nonce))
    }

    /// Returns the key and the base nonce, which is that of the first message: `KeySchedule` of the
    /// base mode (RFC 9180, section 5.1).
    fn schedule(
        self,
        shared: &[u8],
        info: &[u8],
    ) -> Result<(Zeroizing<Vec<u8>>, [u8; NONCE]), Error> {
        let (psk_id, _) = self.extract(b"", b"psk_id_hash", b"");
        let (info, _) = self.extract(b"", b"info_hash", info);
        // The base mode is 0.
        let context = [&[0_u8][..], &psk_id, &info].concat();
        let (_, secret) = self.extract(shared, b"secret", b"");
        let mut key = Zeroizing::new(vec![0; self.key]);
        self.expand(&secret, b"key", &context, &mut key)?;
        let mut nonce = [0; NONCE];
        self.expand(&secret, b"base_nonce", &context, &mut nonce)?;
        Ok((key, nonce))
    }

    /// `LabeledExtract` (RFC 9180, section 4).
    fn extract(self, salt: &[u8], label: &[u8], ikm: &[u8]) -> ([u8; 32], Hkdf<Sha256>) {
        let ikm = Zeroizing::new([&b"HPKE-v1"[..], &self.id(), label, ikm].concat());
        let (prk, hkdf) = Hkdf::<Sha256>::extract(Some(salt), &ikm);
        (prk.into(), hkdf)
    }

    /// `LabeledExpand` (RFC 9180, section 4).
    fn expand(
        self,
        prk: &Hkdf<Sha256>,
        label: &[u8],
        info: &[u8],
        out: &mut [u8],
    ) -> Result<(), Error> {
        let len = (out.len() as u16).to_be_bytes();
        let info = [&len[..], b"HPKE-v1", &self.id(), label, info].concat();
        prk.expand(&info, out).map_err(|_| internal())
    }
}

/// The error for lengths that the suite does not have.
fn internal() -> Error {
    Error::Engine(gabion_engine::Error::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9180, A.1.1: the key schedule of another suite, whose hash is the same.
    #[test]
    fn the_key_schedule_is_the_standards() {
        let suite = Suite { kem: 0x0020, kdf: 0x0001, aead: 0x0001, key: 16 };
        let shared = base16ct::mixed::decode_vec(
            "fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc",
        );
        let info = base16ct::mixed::decode_vec("4f6465206f6e2061204772656369616e2055726e");
        let (key, nonce) = suite.schedule(&shared.unwrap(), &info.unwrap()).unwrap();
        assert_eq!(base16ct::lower::encode_string(&key[..]), "4531685d41d65f03dc48f6b8302c05b0");
        assert_eq!(base16ct::lower::encode_string(&nonce), "56d890e5accaaf011cff4b7d");
    }

    #[test]
    fn hpke_opens_only_with_its_info() {
        let engine = Engine::global().unwrap();
        let pair = engine.kem_generate(Algorithm::XWing, &OsEntropy).unwrap();
        let other = engine.kem_generate(Algorithm::XWing, &OsEntropy).unwrap();
        let wrapped = seal(engine, &pair.public(), b"words", b"key").unwrap();
        assert_eq!(wrapped.len(), 1120 + 3 + TAG);
        assert_eq!(**open(engine, &pair, b"words", &wrapped).unwrap(), *b"key");
        let refused = |pair, info: &[u8], wrapped: &[u8]| {
            let error = open(engine, pair, info, wrapped).err();
            assert_eq!(error, Some(Error::DecryptFailed));
        };
        refused(&pair, b"word", &wrapped);
        refused(&other, b"words", &wrapped);
        for len in [0, 1, 1119, 1120, 1121, 1135, wrapped.len() - 1] {
            refused(&pair, b"words", &wrapped[..len]);
        }
        refused(&pair, b"words", &[&wrapped[..], &[0]].concat());
        refused(&pair, b"words", &vec![0; 1120 + KEY_MAX + TAG + 1]);
        for place in (0..wrapped.len()).step_by(61).chain(1120..wrapped.len()) {
            let mut damaged = wrapped.clone();
            damaged[place] ^= 0x10;
            refused(&pair, b"words", &damaged);
        }
    }
}

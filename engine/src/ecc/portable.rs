//! Curves by RustCrypto's p256, p384 and p521 and by x25519-dalek: pure Rust, on every processor.
//!
//! Lengths and the form of points were checked by the caller.

use x25519_dalek::{PublicKey as MontgomeryPoint, StaticSecret};

use super::{Curve, is_zero};

/// Runs `$body` with `$library` as the crate of a curve; none for X25519.
macro_rules! of_curve {
    ($curve:expr, $library:ident => $body:expr) => {
        match $curve {
            Curve::X25519 => None,
            Curve::P256 => {
                use p256 as $library;
                $body
            }
            Curve::P384 => {
                use p384 as $library;
                $body
            }
            Curve::P521 => {
                use p521 as $library;
                $body
            }
        }
    };
}

/// The key of 32 bytes; the caller checked the length.
fn montgomery(private: &[u8]) -> Option<StaticSecret> {
    private.first_chunk().map(|bytes| StaticSecret::from(*bytes))
}

pub(super) fn is_private(curve: Curve, private: &[u8]) -> bool {
    curve == Curve::X25519
        || of_curve!(curve, nist => nist::SecretKey::from_slice(private).ok().map(drop)).is_some()
}

pub(super) fn is_public(curve: Curve, public: &[u8]) -> bool {
    curve == Curve::X25519
        || of_curve!(curve, nist => nist::PublicKey::from_sec1_bytes(public).ok().map(drop))
            .is_some()
}

pub(super) fn public_key(curve: Curve, private: &[u8]) -> Option<Vec<u8>> {
    if curve == Curve::X25519 {
        return Some(MontgomeryPoint::from(&montgomery(private)?).as_bytes().to_vec());
    }
    of_curve!(curve, nist => {
        let key = nist::SecretKey::from_slice(private).ok()?;
        Some(key.public_key().to_sec1_bytes().into_vec())
    })
}

pub(super) fn derive(curve: Curve, private: &[u8], public: &[u8], shared: &mut [u8]) -> bool {
    if curve == Curve::X25519 {
        let Some((key, peer)) = montgomery(private).zip(public.first_chunk::<32>()) else {
            return false;
        };
        let secret = key.diffie_hellman(&MontgomeryPoint::from(*peer));
        if is_zero(secret.as_bytes()) {
            return false;
        }
        shared.copy_from_slice(secret.as_bytes());
        return true;
    }
    of_curve!(curve, nist => {
        let key = nist::SecretKey::from_slice(private).ok();
        let peer = nist::PublicKey::from_sec1_bytes(public).ok();
        key.zip(peer).map(|(key, peer)| {
            let scalar = key.to_nonzero_scalar();
            let secret = nist::ecdh::diffie_hellman(&scalar, peer.as_affine());
            shared.copy_from_slice(secret.raw_secret_bytes());
        })
    })
    .is_some()
}

pub(super) fn sign(
    curve: Curve,
    private: &[u8],
    digest: &[u8],
    hedge: Option<&[u8; 32]>,
) -> Option<Vec<u8>> {
    of_curve!(curve, nist => {
        use nist::ecdsa::signature::hazmat::{PrehashSigner, RandomizedPrehashSigner};
        let key = nist::ecdsa::SigningKey::from_slice(private).ok()?;
        let signature: nist::ecdsa::Signature = match hedge {
            None => key.sign_prehash(digest).ok()?,
            Some(hedge) => key.sign_prehash_with_rng(&mut Drawn(hedge), digest).ok()?,
        };
        Some(signature.to_bytes().to_vec())
    })
}

pub(super) fn verify(curve: Curve, public: &[u8], digest: &[u8], signature: &[u8]) -> bool {
    of_curve!(curve, nist => {
        use nist::ecdsa::signature::hazmat::PrehashVerifier;
        let key = nist::ecdsa::VerifyingKey::from_sec1_bytes(public).ok();
        let signature = nist::ecdsa::Signature::from_slice(signature).ok();
        let verified = |(key, signature): (nist::ecdsa::VerifyingKey, nist::ecdsa::Signature)| {
            key.verify_prehash(digest, &signature).ok()
        };
        key.zip(signature).and_then(verified)
    })
    .is_some()
}

/// Randomness that was drawn already, as a generator: what it gives is repeated where more is asked
/// for than was drawn, since all of it goes into one hash.
struct Drawn<'a>(&'a [u8; 32]);

impl p256::ecdsa::signature::rand_core::TryRng for Drawn<'_> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        let mut word = [0; 4];
        self.try_fill_bytes(&mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        let mut word = [0; 8];
        self.try_fill_bytes(&mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        for (byte, drawn) in out.iter_mut().zip(self.0.iter().cycle()) {
            *byte = *drawn;
        }
        Ok(())
    }
}

impl p256::ecdsa::signature::rand_core::TryCryptoRng for Drawn<'_> {}

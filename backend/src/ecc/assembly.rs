//! Curves by graviola: formally verified assembly of s2n-bignum under safe Rust.
//!
//! Every function returns `None` if this library does not support the curve, or if the processor
//! lacks the instructions.

use graviola::hashing::{Sha256, Sha384};
use graviola::key_agreement::{p256, p384, x25519};
use graviola::signing::ecdsa;
use zeroize::Zeroize;

use super::Curve;

/// A guard over a call of the library, which clears memory through 32-byte registers and leaves their upper parts in use; once this is
/// dropped, they no longer are.
struct UpperHalvesGuard;

impl Drop for UpperHalvesGuard {
    fn drop(&mut self) {
        crate::empty_upper_halves();
    }
}

/// Returns whether the processor has the instructions that the library requires; it panics
/// otherwise.
pub(super) fn serves(curve: Curve) -> bool {
    #[cfg(target_arch = "x86_64")]
    let detected = is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("adx")
        && is_x86_feature_detected!("avx")
        && is_x86_feature_detected!("avx2");
    #[cfg(target_arch = "aarch64")]
    let detected = std::arch::is_aarch64_feature_detected!("neon")
        && std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull")
        && std::arch::is_aarch64_feature_detected!("sha2");
    detected && curve != Curve::P521
}

pub(super) fn public_key(curve: Curve, private: &[u8]) -> Option<Option<Vec<u8>>> {
    if !serves(curve) {
        return None;
    }
    let _leave = UpperHalvesGuard;
    Some(match curve {
        Curve::X25519 => x25519::StaticPrivateKey::try_from_slice(private)
            .ok()
            .map(|key| key.public_key().as_bytes().to_vec()),
        Curve::P256 => p256::StaticPrivateKey::from_bytes(private)
            .ok()
            .map(|key| key.public_key_uncompressed().to_vec()),
        // `p384_base` takes less than half as long.
        Curve::P384 | Curve::P521 => return None,
    })
}

/// A peer's validated public key, with the library's precomputed values.
pub(super) enum Peer {
    X25519(x25519::PublicKey),
    P256(Box<p256::PublicKey>),
    P384(Box<p384::PublicKey>),
}

/// The peer of these bytes; `Some(None)` where they are no public key.
pub(super) fn peer(curve: Curve, public: &[u8]) -> Option<Option<Peer>> {
    if !serves(curve) {
        return None;
    }
    let _leave = UpperHalvesGuard;
    Some(match curve {
        Curve::X25519 => x25519::PublicKey::try_from_slice(public).ok().map(Peer::X25519),
        Curve::P256 => p256::PublicKey::from_x962_uncompressed(public)
            .ok()
            .map(|peer| Peer::P256(Box::new(peer))),
        Curve::P384 => p384::PublicKey::from_x962_uncompressed(public)
            .ok()
            .map(|peer| Peer::P384(Box::new(peer))),
        Curve::P521 => return None,
    })
}

pub(super) fn derive(
    curve: Curve,
    private: &[u8],
    public: &[u8],
    shared: &mut [u8],
) -> Option<bool> {
    peer(curve, public).map(|peer| peer.is_some_and(|peer| derive_with(private, &peer, shared)))
}

pub(super) fn derive_with(private: &[u8], peer: &Peer, shared: &mut [u8]) -> bool {
    /// One curve of the library; its modules have the same shape, and no trait in common.
    macro_rules! derive {
        ($module:ident, $private:ident, $peer:ident) => {{
            let key = $module::StaticPrivateKey::$private(private).ok();
            match key.and_then(|key| key.diffie_hellman($peer).ok()) {
                None => false,
                Some(mut secret) => {
                    shared.copy_from_slice(&secret.0);
                    secret.0.zeroize();
                    true
                }
            }
        }};
    }
    let _leave = UpperHalvesGuard;
    match peer {
        Peer::X25519(peer) => derive!(x25519, try_from_slice, peer),
        Peer::P256(peer) => derive!(p256, from_bytes, peer),
        Peer::P384(peer) => derive!(p384, from_bytes, peer),
    }
}

/// Signs, hedged with 16 bytes of the operating system's randomness; also returns `None` if those
/// are not available.
pub(super) fn sign(curve: Curve, private: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    if !serves(curve) {
        return None;
    }
    let _leave = UpperHalvesGuard;
    match curve {
        Curve::P256 => {
            let mut room = [0; 2 * 32];
            let private_key = p256::StaticPrivateKey::from_bytes(private).ok()?;
            let key = ecdsa::SigningKey::<ecdsa::P256> { private_key };
            key.sign::<Sha256>(&[message], &mut room).ok().map(<[u8]>::to_vec)
        }
        // `p384_sign` takes half as long.
        Curve::X25519 | Curve::P384 | Curve::P521 => None,
    }
}

pub(super) fn verify(
    curve: Curve,
    public: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Option<bool> {
    if !serves(curve) {
        return None;
    }
    let _leave = UpperHalvesGuard;
    Some(match curve {
        Curve::P256 => ecdsa::VerifyingKey::<ecdsa::P256>::from_x962_uncompressed(public)
            .and_then(|key| key.verify::<Sha256>(&[message], signature))
            .is_ok(),
        Curve::P384 => ecdsa::VerifyingKey::<ecdsa::P384>::from_x962_uncompressed(public)
            .and_then(|key| key.verify::<Sha384>(&[message], signature))
            .is_ok(),
        Curve::X25519 | Curve::P521 => return None,
    })
}

//! Curves by RustCrypto's p256, p384 and p521 and by x25519-dalek: pure Rust, on every processor.
//!
//! Lengths and the form of points were checked by the caller.

use gabion_scheme::ct;
use gabion_scheme::room::with_room;
use p256::elliptic_curve::group::{Curve as _, Group as _};
use p256::elliptic_curve::point::AffineCoordinates;
use p256::elliptic_curve::{CurveArithmetic, Field, FieldBytes, NonZeroScalar};
use x25519_dalek::{PublicKey as MontgomeryPoint, StaticSecret};
use zeroize::Zeroizing;

use super::{Curve, is_zero};

/// Runs `$body` with `$library` as the crate of a curve and `$nist` as its type; none for X25519.
macro_rules! of_curve {
    ($curve:expr, $library:ident, $nist:ident => $body:expr) => {
        match $curve {
            Curve::X25519 => None,
            Curve::P256 => {
                #[allow(unused_imports, reason = "not every body needs both")]
                use p256::{self as $library, NistP256 as $nist};
                $body
            }
            Curve::P384 => {
                #[allow(unused_imports, reason = "not every body needs both")]
                use p384::{self as $library, NistP384 as $nist};
                $body
            }
            Curve::P521 => {
                #[allow(unused_imports, reason = "not every body needs both")]
                use p521::{self as $library, NistP521 as $nist};
                $body
            }
        }
    };
}

/// The key of 32 bytes; the caller checked the length.
fn montgomery(private: &[u8]) -> Option<StaticSecret> {
    private.first_chunk().map(|bytes| StaticSecret::from(*bytes))
}

/// The scalar of bytes, from 1 to the order minus one.
pub(super) fn scalar<C: CurveArithmetic>(private: &[u8]) -> Option<Zeroizing<NonZeroScalar<C>>> {
    let bytes = Zeroizing::new(FieldBytes::<C>::try_from(private).ok()?);
    let found = NonZeroScalar::<C>::from_repr(*bytes);
    // The caller learns whether the bytes are a private key, and nothing else about them.
    let is_one = ct::declassified(found.is_some().unwrap_u8()) == 1;
    let other = NonZeroScalar::<C>::new(C::Scalar::ONE).into_option()?;
    let chosen = Zeroizing::new(found.unwrap_or(other));
    is_one.then_some(chosen)
}

/// The point of a scalar, as TLS has it.
fn point<C: CurveArithmetic<AffinePoint: AffineCoordinates>>(scalar: &NonZeroScalar<C>) -> Vec<u8> {
    // A scalar below the order, and not zero, so that this is not the neutral element.
    let point = C::ProjectivePoint::mul_by_generator(scalar).to_affine();
    let public = [&[4], &point.x()[..], &point.y()[..]].concat();
    ct::declassify(&public); // It is the public key.
    public
}

pub(super) fn is_private(curve: Curve, private: &[u8]) -> bool {
    curve == Curve::X25519
        || of_curve!(curve, library, Nist => scalar::<Nist>(private).map(drop)).is_some()
}

pub(super) fn is_public(curve: Curve, public: &[u8]) -> bool {
    curve == Curve::X25519
        || of_curve!(curve, library, Nist => library::PublicKey::from_sec1_bytes(public).ok().map(drop))
            .is_some()
}

pub(super) fn public_key(curve: Curve, private: &[u8]) -> Option<Vec<u8>> {
    if curve == Curve::X25519 {
        return Some(MontgomeryPoint::from(&montgomery(private)?).as_bytes().to_vec());
    }
    of_curve!(curve, library, Nist => Some(point::<Nist>(&*scalar(private)?)))
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
    of_curve!(curve, library, Nist => {
        let key = scalar::<Nist>(private);
        let peer = library::PublicKey::from_sec1_bytes(public).ok();
        key.zip(peer).map(|(key, peer)| {
            let secret = library::ecdh::diffie_hellman(&*key, peer.as_affine());
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
    of_curve!(curve, library, Nist => {
        use library::ecdsa::signature::hazmat::{PrehashSigner, RandomizedPrehashSigner};
        let key = library::ecdsa::SigningKey::from(*scalar::<Nist>(private)?);
        let signature: library::ecdsa::Signature = match hedge {
            None => key.sign_prehash(digest).ok()?,
            Some(hedge) => key.sign_prehash_with_rng(&mut FixedRandomness(hedge), digest).ok()?,
        };
        let signature = signature.to_bytes().to_vec();
        ct::declassify(&signature); // It is given out.
        Some(signature)
    })
}

/// Returns whether a signature verifies.
///
/// # Errors
/// No memory, which says nothing of the signature.
pub(super) fn verify(
    curve: Curve,
    public: &[u8],
    digest: &[u8],
    signature: &[u8],
) -> Result<bool, gabion_scheme::Error> {
    let here = || verify_here(curve, public, digest, signature);
    // The tables of points in p521 need more stack than an asynchronous job of OpenSSL has left.
    if curve == Curve::P521 { with_room(here) } else { Ok(here()) }
}

fn verify_here(curve: Curve, public: &[u8], digest: &[u8], signature: &[u8]) -> bool {
    of_curve!(curve, library, Nist => {
        use library::ecdsa::signature::hazmat::PrehashVerifier;
        let key = library::ecdsa::VerifyingKey::from_sec1_bytes(public).ok();
        let signature = library::ecdsa::Signature::from_slice(signature).ok();
        let verified = |(key, signature): (library::ecdsa::VerifyingKey, library::ecdsa::Signature)| {
            key.verify_prehash(digest, &signature).ok()
        };
        key.zip(signature).and_then(verified)
    })
    .is_some()
}

/// Drawn randomness over and over, where more is asked for than was drawn, since all of it goes into one
/// hash.
pub(super) fn repeat(drawn: &[u8; 32], out: &mut [u8]) {
    for (byte, drawn) in out.iter_mut().zip(drawn.iter().cycle()) {
        *byte = *drawn;
    }
}

/// A generator that returns 32 bytes that were drawn before.
struct FixedRandomness<'a>(&'a [u8; 32]);

impl p256::ecdsa::signature::rand_core::TryRng for FixedRandomness<'_> {
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
        repeat(self.0, out);
        Ok(())
    }
}

impl p256::ecdsa::signature::rand_core::TryCryptoRng for FixedRandomness<'_> {}

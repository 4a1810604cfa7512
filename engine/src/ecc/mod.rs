//! Elliptic curves: X25519 (RFC 7748), ECDH (SP 800-56A) and ECDSA (FIPS 186-5) on P-256, P-384 and
//! P-521.
//!
//! ```text
//!   family::ecdh, ecdsa, hybrid --> this module --+-- p384_base: public keys of P-384
//!                                                 +-- p384_sign: signatures of P-384
//!                                                 +-- assembly: graviola, where the processor has
//!                                                 |             what it needs; not P-521
//!                                                 +-- portable: RustCrypto and dalek, everywhere
//! ```
//!
//! Only `p384_base` is our own arithmetic (ADR 0011). Keys are byte strings: a private scalar and a point as TLS
//! has them, 32 bytes little-endian for X25519, big-endian and uncompressed (SEC 1, section 2.3.3)
//! for the others. All give the same answers; a test holds them to it, and the self-test
//! checks known answers through whichever serves.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod assembly;
mod der;
pub(crate) mod lanes;
mod p384_base;
mod p384_sign;
mod portable;
#[cfg(test)]
mod rfc6979;
mod self_test;
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod wycheproof;

use gabion_scheme::algorithms::Family;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, ct};
use zeroize::Zeroizing;

pub(crate) use der::{from_der, to_der};
pub(crate) use self_test::self_test;

use crate::entropy::Entropy;
use crate::error::EntropyError;

/// Candidates for a private scalar before the source of randomness counts as broken: one is refused
/// with probability below 2^-31.
const CANDIDATES_MAX: usize = 16;

/// A curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    X25519,
    P256,
    P384,
    P521,
}

impl Curve {
    /// The curve of an algorithm of the table, key exchange or signature; none where their code is not in
    /// this build.
    pub(crate) fn of(algorithm: Algorithm) -> Option<Curve> {
        if !Family::Ecdh.is_built() {
            return None;
        }
        Some(match algorithm {
            Algorithm::X25519 => Curve::X25519,
            Algorithm::EcdhP256 | Algorithm::EcdsaP256 => Curve::P256,
            Algorithm::EcdhP384 | Algorithm::EcdsaP384 => Curve::P384,
            Algorithm::EcdhP521 | Algorithm::EcdsaP521 => Curve::P521,
            _ => return None,
        })
    }

    /// Bytes of a private scalar, of a coordinate and of a shared secret.
    pub(crate) fn scalar_len(self) -> usize {
        match self {
            Curve::X25519 | Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    /// Bytes of a public key.
    pub(crate) fn public_len(self) -> usize {
        match self {
            Curve::X25519 => 32,
            _ => 1 + 2 * self.scalar_len(),
        }
    }

    /// The hash that its signatures use (RFC 8446, section 4.2.3): as strong as the curve.
    pub(crate) fn hash(self) -> Prehash {
        match self {
            Curve::X25519 | Curve::P256 => Prehash::Sha2_256,
            Curve::P384 => Prehash::Sha2_384,
            Curve::P521 => Prehash::Sha2_512,
        }
    }

    /// Whether bytes have the form of a public key: the right length, an uncompressed point.
    fn is_formed(self, public: &[u8]) -> bool {
        public.len() == self.public_len() && (self == Curve::X25519 || public[0] == 4)
    }
}

/// What is signed: a message, or its digest by the curve's own hash.
#[derive(Clone, Copy)]
pub(crate) enum Signed<'a> {
    Message(&'a [u8]),
    Digest(&'a [u8]),
}

impl Signed<'_> {
    fn digest(self, curve: Curve) -> Vec<u8> {
        match self {
            Signed::Message(message) => curve.hash().digest(message),
            Signed::Digest(digest) => digest.to_vec(),
        }
    }
}

/// The crate that does what is not done in lanes or by arithmetic of our own.
pub(crate) fn library(curve: Curve) -> &'static str {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if assembly::serves(curve) {
        return "graviola";
    }
    match curve {
        Curve::X25519 => "x25519-dalek",
        Curve::P256 => "p256",
        Curve::P384 => "p384",
        Curve::P521 => "p521",
    }
}

/// Draws a private key: FIPS 186-5, A.2.2, testing candidates; RFC 7748, section 6.1.
///
/// # Errors
/// No randomness, or randomness that never gives a scalar.
pub(crate) fn generate(
    curve: Curve,
    entropy: &dyn Entropy,
) -> Result<Zeroizing<Vec<u8>>, EntropyError> {
    let mut scalar = Zeroizing::new(vec![0; curve.scalar_len()]);
    fill(curve, entropy, &mut scalar)?;
    Ok(scalar)
}

/// Draws one private key a lane into `scalars`, all of them at once; the few that are no scalars
/// again, each by itself.
///
/// # Errors
/// As [`generate`].
pub(crate) fn fill(
    curve: Curve,
    entropy: &dyn Entropy,
    scalars: &mut [u8],
) -> Result<(), EntropyError> {
    entropy.fill(scalars)?;
    for scalar in scalars.chunks_exact_mut(curve.scalar_len()) {
        let mut draws = 1;
        loop {
            if curve == Curve::P521 {
                // 521 bits are 65 bytes and one bit.
                scalar[0] &= 1;
            }
            if is_private(curve, scalar) {
                break;
            }
            if draws == CANDIDATES_MAX {
                return Err(EntropyError(format!("{draws} draws gave no private key")));
            }
            entropy.fill(scalar)?;
            draws += 1;
        }
    }
    Ok(())
}

/// Whether a private key is one: the right length, and a scalar from 1 to the order minus one.
pub(crate) fn is_private(curve: Curve, private: &[u8]) -> bool {
    private.len() == curve.scalar_len() && portable::is_private(curve, private)
}

/// Whether a public key is one: a point of the curve, not the neutral one. Any 32 bytes are a key
/// of X25519 (RFC 7748, section 5).
pub(crate) fn is_public(curve: Curve, public: &[u8]) -> bool {
    curve.is_formed(public) && portable::is_public(curve, public)
}

/// The public key of a private one; none where that is not one.
pub(crate) fn public_key(curve: Curve, private: &[u8]) -> Option<Vec<u8>> {
    if private.len() != curve.scalar_len() {
        return None;
    }
    if curve == Curve::P384 {
        return p384_base::public_keys(&[private]).pop().flatten();
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(answer) = assembly::public_key(curve, private) {
        return answer;
    }
    portable::public_key(curve, private)
}

/// A public key that was checked, decoded once for its check and for what it is used for.
pub(crate) struct Peer {
    curve: Curve,
    bytes: Vec<u8>,
    /// Decoded, where a library serves that keeps keys so.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    decoded: Option<assembly::Peer>,
}

impl Peer {
    /// The peer of these bytes; none where they are no public key (see [`is_public`]).
    pub(crate) fn decode(curve: Curve, public: &[u8]) -> Option<Peer> {
        let bytes = public.to_vec();
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if curve.is_formed(public)
            && let Some(decoded) = assembly::peer(curve, public)
        {
            return decoded.map(|peer| Peer { curve, bytes, decoded: Some(peer) });
        }
        is_public(curve, public).then_some(Peer::own(curve, bytes))
    }

    /// The public key of a key pair that was made here: good, and rarely a peer's.
    pub(crate) fn own(curve: Curve, bytes: Vec<u8>) -> Peer {
        Peer {
            curve,
            bytes,
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            decoded: None,
        }
    }

    /// Its encoding.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As [`derive`].
    fn derive(&self, private: &[u8], shared: &mut [u8]) -> bool {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(peer) = &self.decoded {
            shared.fill(0);
            let len = self.curve.scalar_len();
            let fits = private.len() == len && shared.len() == len;
            return fits && assembly::derive_with(private, peer, shared);
        }
        derive(self.curve, private, &self.bytes, shared)
    }
}

/// A peer's public key, as it came or checked before.
#[derive(Clone, Copy)]
pub(crate) enum PeerKey<'a> {
    Encoded(&'a [u8]),
    Checked(&'a Peer),
}

impl PeerKey<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            PeerKey::Encoded(bytes) => bytes,
            PeerKey::Checked(peer) => peer.bytes(),
        }
    }

    /// As [`derive`].
    fn derive(&self, curve: Curve, private: &[u8], shared: &mut [u8]) -> bool {
        match self {
            PeerKey::Encoded(bytes) => derive(curve, private, bytes, shared),
            PeerKey::Checked(peer) => peer.derive(private, shared),
        }
    }
}

/// Diffie-Hellman into `shared`, the x coordinate (SP 800-56A, 5.7.1.2; RFC 7748, section 6.1).
/// Says false, and leaves `shared` all zero, where the peer's key is no point or the result is
/// the neutral one (all zero for X25519).
pub(crate) fn derive(curve: Curve, private: &[u8], public: &[u8], shared: &mut [u8]) -> bool {
    shared.fill(0);
    let fits = private.len() == curve.scalar_len() && shared.len() == curve.scalar_len();
    if !fits || !curve.is_formed(public) {
        return false;
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Some(answer) = assembly::derive(curve, private, public, shared) {
        return answer;
    }
    portable::derive(curve, private, public, shared)
}

/// Whether a shared secret is all zero, which RFC 7748, section 6.1, has refused. What that says of
/// the peer's key the peer knew before.
fn is_zero(shared: &[u8; 32]) -> bool {
    ct::declassified(ct::eq_mask(shared, &[0; 32])) == u64::MAX
}

/// What goes into the nonce of an ECDSA signature beside key and digest (RFC 6979, section 3.6).
#[derive(Clone, Copy)]
pub(crate) enum Hedge<'a> {
    /// Nothing: the same signature every time.
    None,
    /// Fresh randomness. On P-256 the assembly library takes the operating system's in place of it, of
    /// its own; the nonce is secret without any.
    Fresh(&'a [u8; 32]),
    /// Just these bytes: for tests.
    Given(&'a [u8; 32]),
}

/// An ECDSA signature `r || s`, with the nonce of RFC 6979. None where the private key is not one.
pub(crate) fn sign(
    curve: Curve,
    private: &[u8],
    signed: Signed<'_>,
    hedge: Hedge<'_>,
) -> Option<Vec<u8>> {
    if private.len() != curve.scalar_len() || curve == Curve::X25519 {
        return None;
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let (Signed::Message(message), Hedge::Fresh(_)) = (signed, hedge)
        && let Some(signature) = assembly::sign(curve, private, message)
    {
        return Some(signature);
    }
    let hedge = match hedge {
        Hedge::None => None,
        Hedge::Fresh(drawn) | Hedge::Given(drawn) => Some(drawn),
    };
    let digest = signed.digest(curve);
    if curve == Curve::P384 {
        return p384_sign::sign(private, &digest, hedge);
    }
    portable::sign(curve, private, &digest, hedge)
}

/// Whether `r || s` is the key's ECDSA signature (FIPS 186-5, section 6.4.2).
///
/// # Errors
/// No memory, which says nothing of the signature.
pub(crate) fn verify(
    curve: Curve,
    public: &[u8],
    signed: Signed<'_>,
    signature: &[u8],
) -> Result<bool, gabion_scheme::Error> {
    let fits = signature.len() == 2 * curve.scalar_len() && curve.is_formed(public);
    if !fits || curve == Curve::X25519 {
        return Ok(false);
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Signed::Message(message) = signed
        && let Some(answer) = assembly::verify(curve, public, message, signature)
    {
        return Ok(answer);
    }
    portable::verify(curve, public, &signed.digest(curve), signature)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Gives candidates that are no scalars so many times, and then good ones.
    struct Unlucky(Cell<usize>);

    impl Entropy for Unlucky {
        fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            out.fill(if left == 0 { 1 } else { 0xff });
            Ok(())
        }
    }

    #[test]
    fn a_candidate_that_is_no_scalar_is_drawn_again() {
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            // Both lanes come from the first draw; the first one then draws by itself.
            let mut scalars = vec![0; 2 * curve.scalar_len()];
            fill(curve, &Unlucky(Cell::new(3)), &mut scalars).unwrap();
            assert!(scalars[1..].iter().all(|&byte| byte == 1), "{curve:?}");
            let always = Unlucky(Cell::new(usize::MAX));
            assert!(fill(curve, &always, &mut scalars).is_err(), "{curve:?}");
            let most = Unlucky(Cell::new(CANDIDATES_MAX - 1));
            assert!(generate(curve, &most).is_ok(), "{curve:?}");
            assert!(generate(curve, &Unlucky(Cell::new(CANDIDATES_MAX))).is_err(), "{curve:?}");
        }
    }
}

//! Elliptic curves: X25519 (RFC 7748), ECDH (SP 800-56A) and ECDSA (FIPS 186-5) on P-256, P-384 and
//! P-521.
//!
//! ```text
//!   the engine's families -->       this module --+-- p384_base: public keys of P-384
//!                                                 +-- p384_sign: signatures of P-384
//!                                                 +-- assembly: graviola, where the processor has
//!                                                 |             the instructions; not P-521
//!                                                 +-- portable: RustCrypto and dalek, everywhere
//! ```
//!
//! Only `p384_base` is our own arithmetic (ADR 0011). Keys are byte strings: a private scalar and a
//! point as in TLS, 32 bytes little-endian for X25519, big-endian and uncompressed (SEC 1, section
//! 2.3.3) for the others. All implementations give equal answers; a test compares them, and the
//! self-test checks known answers with the selected one.

#![forbid(unsafe_code)]

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod assembly;
mod der;
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod libraries;
mod p384_base;
mod p384_sign;
mod portable;
#[cfg(test)]
mod rfc6979;
#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod wycheproof;

use gabion_scheme::algorithms::Family;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, ct};

pub use der::{from_der, to_der};
pub use p384_base::public_keys as p384_public_keys;

/// A curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Curve25519 in Montgomery's form.
    X25519,
    /// secp256r1.
    P256,
    /// secp384r1.
    P384,
    /// secp521r1.
    P521,
}

impl Curve {
    /// The curve of an algorithm of the table, key exchange or signature; none where their code is not in
    /// this build.
    pub fn of(algorithm: Algorithm) -> Option<Curve> {
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
    pub fn scalar_len(self) -> usize {
        match self {
            Curve::X25519 | Curve::P256 => 32,
            Curve::P384 => 48,
            Curve::P521 => 66,
        }
    }

    /// Bytes of a public key.
    pub fn public_len(self) -> usize {
        match self {
            Curve::X25519 => 32,
            _ => 1 + 2 * self.scalar_len(),
        }
    }

    /// The hash that its signatures use (RFC 8446, section 4.2.3): as strong as the curve.
    pub fn hash(self) -> Prehash {
        match self {
            Curve::X25519 | Curve::P256 => Prehash::Sha2_256,
            Curve::P384 => Prehash::Sha2_384,
            Curve::P521 => Prehash::Sha2_512,
        }
    }

    /// Returns whether bytes have the form of a public key: the right length, an uncompressed
    /// point.
    fn is_formed(self, public: &[u8]) -> bool {
        public.len() == self.public_len() && (self == Curve::X25519 || public[0] == 4)
    }
}

/// The input of an ECDSA signature: a message, or its digest by any hash.
#[derive(Clone, Copy)]
pub enum SignatureInput<'a> {
    /// The message.
    Message(&'a [u8]),
    /// The digest.
    Digest(&'a [u8]),
}

impl SignatureInput<'_> {
    fn digest(self, curve: Curve) -> Vec<u8> {
        match self {
            SignatureInput::Message(message) => curve.hash().digest(message),
            SignatureInput::Digest(digest) => digest.to_vec(),
        }
    }
}

/// Returns the name of the crate for operations that neither lanes nor our own arithmetic serve.
pub fn library(curve: Curve) -> &'static str {
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

/// Returns whether a private key is one: the right length, and a scalar from 1 to the order minus
/// one.
pub fn is_private(curve: Curve, private: &[u8]) -> bool {
    private.len() == curve.scalar_len() && portable::is_private(curve, private)
}

/// Returns whether a public key is one: a point of the curve, not the neutral one. Any 32 bytes are
/// a key of X25519 (RFC 7748, section 5).
pub fn is_public(curve: Curve, public: &[u8]) -> bool {
    curve.is_formed(public) && portable::is_public(curve, public)
}

/// The public key of a private one; none where that is not one.
pub fn public_key(curve: Curve, private: &[u8]) -> Option<Vec<u8>> {
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

/// A validated public key, decoded once for its validation and use.
pub struct Peer {
    curve: Curve,
    bytes: Vec<u8>,
    /// The decoded key, if the library in use keeps decoded keys.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    decoded: Option<assembly::Peer>,
}

impl Peer {
    /// The peer of these bytes; none where they are no public key (see [`is_public`]).
    pub fn decode(curve: Curve, public: &[u8]) -> Option<Peer> {
        let bytes = public.to_vec();
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if curve.is_formed(public)
            && let Some(decoded) = assembly::peer(curve, public)
        {
            return decoded.map(|peer| Peer { curve, bytes, decoded: Some(peer) });
        }
        is_public(curve, public).then_some(Peer::from_own_key(curve, bytes))
    }

    /// The public key of a key pair that was made here: good, and rarely a peer's.
    pub fn from_own_key(curve: Curve, bytes: Vec<u8>) -> Peer {
        Peer {
            curve,
            bytes,
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            decoded: None,
        }
    }

    /// Returns the encoded key.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Derives a shared secret like [`derive`].
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
pub enum PeerKey<'a> {
    /// The encoded key, not validated.
    Encoded(&'a [u8]),
    /// Checked before.
    Checked(&'a Peer),
}

impl PeerKey<'_> {
    /// Returns the encoded key.
    pub fn bytes(&self) -> &[u8] {
        match self {
            PeerKey::Encoded(bytes) => bytes,
            PeerKey::Checked(peer) => peer.bytes(),
        }
    }

    /// Derives a shared secret like [`derive()`].
    pub fn derive(&self, curve: Curve, private: &[u8], shared: &mut [u8]) -> bool {
        match self {
            PeerKey::Encoded(bytes) => derive(curve, private, bytes, shared),
            PeerKey::Checked(peer) => peer.derive(private, shared),
        }
    }
}

/// Diffie-Hellman into `shared`, the x coordinate (SP 800-56A, 5.7.1.2; RFC 7748, section 6.1).
/// Says false, and leaves `shared` all zero, where the peer's key is no point or the result is
/// the neutral one (all zero for X25519).
pub fn derive(curve: Curve, private: &[u8], public: &[u8], shared: &mut [u8]) -> bool {
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

/// Returns whether a shared secret is all zero; RFC 7748, section 6.1, requires that it be refused.
/// The result reveals only a property of the peer's key, which the peer already knows.
fn is_zero(shared: &[u8; 32]) -> bool {
    ct::declassified(ct::eq_mask(shared, &[0; 32])) == u64::MAX
}

/// The additional input to the nonce of an ECDSA signature, after key and digest (RFC 6979, section
/// 3.6).
#[derive(Clone, Copy)]
pub enum Hedge<'a> {
    /// Nothing: signatures are deterministic.
    None,
    /// Fresh randomness. On P-256 the assembly library uses the operating system's randomness in
    /// place of it; the nonce is secret without any.
    Fresh(&'a [u8; 32]),
    /// These exact bytes: for tests.
    Fixed(&'a [u8; 32]),
}

/// An ECDSA signature `r || s`, with the nonce of RFC 6979. None where the private key is not one.
pub fn sign(
    curve: Curve,
    private: &[u8],
    signed: SignatureInput<'_>,
    hedge: Hedge<'_>,
) -> Option<Vec<u8>> {
    if private.len() != curve.scalar_len() || curve == Curve::X25519 {
        return None;
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let (SignatureInput::Message(message), Hedge::Fresh(_)) = (signed, hedge)
        && let Some(signature) = assembly::sign(curve, private, message)
    {
        return Some(signature);
    }
    let hedge = match hedge {
        Hedge::None => None,
        Hedge::Fresh(drawn) | Hedge::Fixed(drawn) => Some(drawn),
    };
    let digest = signed.digest(curve);
    if curve == Curve::P384 {
        return p384_sign::sign(private, &digest, hedge);
    }
    portable::sign(curve, private, &digest, hedge)
}

/// Returns whether `r || s` is the key's ECDSA signature (FIPS 186-5, section 6.4.2).
///
/// # Errors
/// No memory, which says nothing of the signature.
pub fn verify(
    curve: Curve,
    public: &[u8],
    signed: SignatureInput<'_>,
    signature: &[u8],
) -> Result<bool, gabion_scheme::Error> {
    let fits = signature.len() == 2 * curve.scalar_len() && curve.is_formed(public);
    if !fits || curve == Curve::X25519 {
        return Ok(false);
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let SignatureInput::Message(message) = signed
        && let Some(answer) = assembly::verify(curve, public, message, signature)
    {
        return Ok(answer);
    }
    portable::verify(curve, public, &signed.digest(curve), signature)
}

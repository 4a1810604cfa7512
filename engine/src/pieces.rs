//! Messages that come in pieces: hashed as they come, where the standard hashes them once and
//! first.
//!
//! ```text
//!   ML-DSA      mu = SHAKE256(SHAKE256(pk, 64) || M', 64)    (FIPS 204, Algorithm 7, line 6)
//!   pre-hash    the digest of M by the hash that the algorithm names
//! ```
//!
//! SLH-DSA, Falcon and FN-DSA hash a message behind a value that is drawn or made of all of it
//! first, so theirs has to be there whole. The hashes are RustCrypto's.

use gabion_scheme::ml_dsa::CONTEXT_MAX;
use gabion_scheme::prehash::Prehash;
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512, Shake128, Shake256};

use crate::Error;

/// Bytes of the hash of a public key, and of mu.
const MU_LEN: usize = 64;

/// The state of a message that is processed in pieces.
pub struct Pieces {
    hash: Box<dyn Absorb>,
    /// Length of the result in bytes.
    len: usize,
}

impl Pieces {
    /// Returns the pieces of a message that is signed by its digest; `None` if the hash is not
    /// supported here, so that the complete message is needed.
    pub fn to_digest(hash: Prehash) -> Option<Pieces> {
        let state: Box<dyn Absorb> = match hash {
            Prehash::Sha2_224 => Box::new(Sha2(Sha224::default())),
            Prehash::Sha2_256 => Box::new(Sha2(Sha256::default())),
            Prehash::Sha2_384 => Box::new(Sha2(Sha384::default())),
            Prehash::Sha2_512 => Box::new(Sha2(Sha512::default())),
            Prehash::Sha2_512_224 => Box::new(Sha2(Sha512_224::default())),
            Prehash::Sha2_512_256 => Box::new(Sha2(Sha512_256::default())),
            Prehash::Sha3_224 => Box::new(Sha3(Sha3_224::default())),
            Prehash::Sha3_256 => Box::new(Sha3(Sha3_256::default())),
            Prehash::Sha3_384 => Box::new(Sha3(Sha3_384::default())),
            Prehash::Sha3_512 => Box::new(Sha3(Sha3_512::default())),
            Prehash::Shake128 => Box::new(Shake(Shake128::default())),
            Prehash::Shake256 => Box::new(Shake(Shake256::default())),
            _ => return None,
        };
        Some(Pieces { hash: state, len: hash.digest_len() })
    }

    /// Returns the pieces of a message under an ML-DSA public key, to be signed or verified as
    /// [`Message::Mu`](crate::Message::Mu). Without a context string, the pieces are those of the
    /// formatted message M'.
    ///
    /// # Errors
    /// [`Error::Input`] if the context string is longer than 255 bytes.
    pub fn to_mu(public_key: &[u8], context: Option<&[u8]>) -> Result<Pieces, Error> {
        let mut key = Shake(Shake256::default());
        key.absorb(public_key);
        let mut pieces = Pieces { hash: Box::new(Shake(Shake256::default())), len: MU_LEN };
        pieces.add(&key.digest(MU_LEN));
        if let Some(context) = context {
            let len = u8::try_from(context.len());
            let len = len.map_err(|_| gabion_scheme::Error::ContextTooLong(context.len()))?;
            // M' = 0 || |ctx| || ctx || M (FIPS 204, Algorithm 2, line 10).
            pieces.add(&[0, len]);
            pieces.add(context);
        }
        Ok(pieces)
    }

    /// Appends the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.hash.absorb(piece);
    }

    /// Returns the digest or mu of the pieces so far; more may follow.
    pub fn so_far(&self) -> Vec<u8> {
        self.hash.digest(self.len)
    }
}

// A longer one has no length of one byte.
const _: () = assert!(CONTEXT_MAX == u8::MAX as usize);

impl Clone for Pieces {
    fn clone(&self) -> Self {
        Pieces { hash: self.hash.boxed(), len: self.len }
    }
}

/// A hash that takes a message piece by piece.
trait Absorb: Send + Sync {
    fn absorb(&mut self, piece: &[u8]);
    /// Returns the output over the pieces so far; its length can be chosen for XOFs only.
    fn digest(&self, len: usize) -> Vec<u8>;
    fn boxed(&self) -> Box<dyn Absorb>;
}

#[derive(Clone)]
struct Sha2<D>(D);

impl<D: sha2::Digest + Clone + Send + Sync + 'static> Absorb for Sha2<D> {
    fn absorb(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    fn digest(&self, _len: usize) -> Vec<u8> {
        self.0.clone().finalize().to_vec()
    }

    fn boxed(&self) -> Box<dyn Absorb> {
        Box::new(self.clone())
    }
}

#[derive(Clone)]
struct Sha3<D>(D);

impl<D: sha3::Digest + Clone + Send + Sync + 'static> Absorb for Sha3<D> {
    fn absorb(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    fn digest(&self, _len: usize) -> Vec<u8> {
        self.0.clone().finalize().to_vec()
    }

    fn boxed(&self) -> Box<dyn Absorb> {
        Box::new(self.clone())
    }
}

#[derive(Clone)]
struct Shake<X>(X);

impl<X: Update + ExtendableOutput + Clone + Send + Sync + 'static> Absorb for Shake<X> {
    fn absorb(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    fn digest(&self, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.0.clone().finalize_xof().read(&mut out);
        out
    }

    fn boxed(&self) -> Box<dyn Absorb> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Engine, Message, OsEntropy};

    const CUTS: [usize; 6] = [0, 1, 7, 136, 168, 1000];

    fn message() -> Vec<u8> {
        (0..1312_u32).map(|at| (at % 251) as u8).collect()
    }

    /// The message's pieces between the cuts, in their order.
    fn add_all(pieces: &mut Pieces, message: &[u8]) {
        let ends = CUTS[1..].iter().copied().chain([message.len()]);
        for (start, end) in CUTS.into_iter().zip(ends) {
            pieces.add(&message[start..end]);
        }
    }

    #[test]
    fn digests_are_those_of_the_whole_message() {
        use Prehash as P;
        for hash in [
            P::Sha2_224,
            P::Sha2_256,
            P::Sha2_384,
            P::Sha2_512,
            P::Sha2_512_224,
            P::Sha2_512_256,
            P::Sha3_224,
            P::Sha3_256,
            P::Sha3_384,
            P::Sha3_512,
            P::Shake128,
            P::Shake256,
        ] {
            let mut pieces = Pieces::to_digest(hash).unwrap();
            assert_eq!(pieces.so_far(), hash.digest(b""), "{hash:?}");
            let copy = pieces.clone();
            add_all(&mut pieces, &message());
            assert_eq!(pieces.so_far(), hash.digest(&message()), "{hash:?}");
            assert_eq!(pieces.so_far(), hash.digest(&message()), "{hash:?}, asked again");
            assert_eq!(copy.so_far(), hash.digest(b""), "{hash:?}, a copy goes its own way");
        }
    }

    #[test]
    fn mu_verifies_what_was_signed_whole() {
        let engine = Engine::global().unwrap();
        let message = message();
        for algorithm in [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87] {
            let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
            let check = |whole: Message<'_>, pieces: &Pieces| {
                let mu: [u8; 64] = pieces.so_far().try_into().unwrap();
                let signature = engine.sign(&key, whole, &OsEntropy).unwrap();
                engine.verify(&key.public(), Message::Mu(&mu), &signature)
            };
            let context: &[u8] = &[5; 255];
            let pure = Message::Pure { context, message: &message };
            let mut pieces = Pieces::to_mu(key.public_bytes(), Some(context)).unwrap();
            assert!(check(pure, &pieces).is_err(), "{algorithm}: nothing came yet");
            add_all(&mut pieces, &message);
            assert_eq!(check(pure, &pieces), Ok(()), "{algorithm}");
            let mut formatted = Pieces::to_mu(key.public_bytes(), None).unwrap();
            add_all(&mut formatted, &message);
            assert_eq!(check(Message::Internal(&message), &formatted), Ok(()), "{algorithm}");
            assert!(check(pure, &formatted).is_err(), "{algorithm}: another form");
            assert!(Pieces::to_mu(key.public_bytes(), Some(&[0; 256])).is_err());
        }
    }
}

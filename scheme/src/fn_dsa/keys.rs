//! Keys with everything that derives from them.

use std::fmt;
use std::sync::{Mutex, MutexGuard, TryLockError};

use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use zeroize::Zeroizing;

use super::crates::{self, Signer, Verifier};
use super::params::{Design, MU_LEN, Params, SEED_LEN};
use super::private::Basis;
use crate::ct;
use crate::error::{Error, Status};
use crate::identity::Identity;

/// Signers that a key keeps for its next signatures: as many threads can sign at once without
/// decoding it again, at 120 KiB each.
const SIGNERS_MAX: usize = 16;
/// Times that a thread tries to have the list of signers, which others have for a few instructions.
const IDLE_TRIES: usize = 64;

/// A public key, decoded.
pub struct VerifyKey {
    params: &'static Params,
    bytes: Vec<u8>,
    verifier: Verifier,
    identity: Identity,
}

impl VerifyKey {
    /// Decodes a public key: the header, and n coefficients below q.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::PublicKey`].
    pub fn decode(params: &'static Params, bytes: &[u8]) -> Result<Self, Error> {
        Error::check_length("public key", params.pk_len(), bytes)?;
        let refuse = |reason| Error::PublicKey { algorithm: params.algorithm.name(), reason };
        if bytes[0] != params.pk_header() {
            return Err(refuse("its first byte is not that of the parameter set"));
        }
        let verifier = Verifier::decode(params, bytes)
            .ok_or_else(|| refuse("a coefficient is not below q = 12289"))?;
        Ok(VerifyKey { params, bytes: bytes.to_vec(), verifier, identity: Identity::new() })
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.params
    }

    /// The encoding, `pk_len` bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number that names this key, and no other one of this process.
    pub fn id(&self) -> u64 {
        self.identity.get()
    }

    pub(super) fn verifier(&self) -> &Verifier {
        &self.verifier
    }
}

/// A private key with its public key, shared between threads by reference: a signature takes a
/// signer out of the key and puts it back.
pub struct SigningKey {
    params: &'static Params,
    bytes: Zeroizing<Vec<u8>>,
    verify_key: VerifyKey,
    /// Only tried: see [`SigningKey::idle`].
    signers: Mutex<Vec<Signer>>,
}

impl SigningKey {
    /// Decodes a private key and tests it as key generation does: f and g are short, their
    /// orthogonalised basis is, f G - g F = q. In FN-DSA the hash of the public key belongs to it.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::PrivateKey`]; [`Error::NoMemory`], which says nothing of the key.
    pub fn decode(params: &'static Params, bytes: &[u8]) -> Result<Self, Error> {
        Error::check_length("private key", params.sk_len(), bytes)?;
        let refuse = |reason| Error::PrivateKey { algorithm: params.algorithm.name(), reason };
        if bytes[0] != params.sk_header() {
            return Err(refuse("its first byte is not that of the parameter set"));
        }
        if Basis::decode(params, bytes).is_none() {
            return Err(refuse("f, g and F are no short basis (Falcon round 3, section 3.8.2)"));
        }
        let signer = Signer::decode(params, bytes)?
            .ok_or_else(|| refuse("f, g and F do not decode to a key"))?;
        let mut public = vec![0; params.pk_len()];
        signer.public_key(&mut public);
        // The public key is what the private key makes public.
        ct::declassify(&public);
        if params.design == Design::FnDsaDraft {
            let mut hash = [0; MU_LEN];
            let mut sponge = Shake256::default();
            sponge.update(&public);
            sponge.finalize_xof().read(&mut hash);
            if hash != bytes[bytes.len() - MU_LEN..] {
                return Err(refuse("the hash in it is not that of its public key"));
            }
        }
        let verify_key = VerifyKey::decode(params, &public)?;
        let bytes = Zeroizing::new(bytes.to_vec());
        // With room for all, so that the list stays where it is: a fork sees it at any moment.
        let mut signers = Vec::with_capacity(SIGNERS_MAX);
        signers.push(signer);
        Ok(SigningKey { params, bytes, verify_key, signers: Mutex::new(signers) })
    }

    /// The parameter set.
    pub fn params(&self) -> &'static Params {
        self.params
    }

    /// The encoding, `sk_len` bytes. Secret.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number that names this key, and no other one of this process but its public half.
    pub fn id(&self) -> u64 {
        self.verify_key.id()
    }

    /// The public key that belongs to it.
    pub fn verify_key(&self) -> &VerifyKey {
        &self.verify_key
    }

    /// Calls `with` with a signer that no other thread uses.
    ///
    /// # Errors
    /// [`Status::NoMemory`]; [`Status::Fault`] if the key does not decode again.
    pub(super) fn with_signer<T>(&self, with: impl FnOnce(&mut Signer) -> T) -> Result<T, Status> {
        // A separate binding, so that the list is not locked while the signer is used.
        let idle = self.idle().and_then(|mut idle| idle.pop());
        let mut signer = match idle {
            Some(signer) => signer,
            None => Signer::decode(self.params, &self.bytes)
                .map_err(|error| Status::from_key_error(&error))?
                .ok_or(Status::Fault)?,
        };
        let result = with(&mut signer);
        if let Some(mut idle) = self.idle()
            && idle.len() < SIGNERS_MAX
        {
            idle.push(signer);
        }
        Ok(result)
    }

    /// Returns the list of idle signers, or `None` if it stays locked. That happens in a forked
    /// child if another thread of the parent held the lock during the fork; the child then decodes
    /// its own signers.
    fn idle(&self) -> Option<MutexGuard<'_, Vec<Signer>>> {
        for _ in 0..IDLE_TRIES {
            match self.signers.try_lock() {
                Ok(idle) => return Some(idle),
                Err(TryLockError::Poisoned(idle)) => return Some(idle.into_inner()),
                // A thread that has it needs some nanoseconds, unless the system stopped it there.
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({}, ..)", self.params.algorithm)
    }
}

impl fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyKey({}, ..)", self.params.algorithm)
    }
}

/// Makes the key pair of a seed.
///
/// # Errors
/// [`Status::NoMemory`]; [`Status::Fault`] if what the crate made fails the tests of an imported key.
pub fn generate(params: &'static Params, seed: &[u8; SEED_LEN]) -> Result<SigningKey, Status> {
    let of = |error: Error| match Status::from_key_error(&error) {
        Status::NoMemory => Status::NoMemory,
        _ => Status::Fault,
    };
    let mut private = Zeroizing::new(vec![0; params.sk_len()]);
    let mut public = vec![0; params.pk_len()];
    crates::generate(params, seed, &mut private, &mut public).map_err(of)?;
    let key = SigningKey::decode(params, &private).map_err(of)?;
    if key.verify_key.bytes == public { Ok(key) } else { Err(Status::Fault) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;
    use crate::fn_dsa::params;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Simulates a forked child in which the thread that holds the lock does not exist.
    #[test]
    fn a_list_of_signers_that_stays_locked_is_done_without() {
        let params = params(Algorithm::Falcon512).unwrap();
        let key = std::sync::Arc::new(generate(params, &[7; SEED_LEN]).unwrap());
        let _held = key.signers.lock().unwrap();
        let (ended, end) = mpsc::channel();
        let other = std::sync::Arc::clone(&key);
        std::thread::spawn(move || {
            let mut public = vec![0; params.pk_len()];
            let made = other.with_signer(|signer| signer.public_key(&mut public));
            let _ = ended.send((made, public));
        });
        let (made, public) = end.recv_timeout(Duration::from_secs(60)).expect("it waits for ever");
        assert_eq!((made, &public[..]), (Ok(()), key.verify_key().bytes()));
    }
}

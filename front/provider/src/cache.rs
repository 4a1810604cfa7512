//! Public keys of signatures that came in lately, expanded: a client gets the same certificates
//! with every connection.
//!
//! Only signature keys, and only public ones: the key shares of a handshake never come back. The
//! cache belongs to one loading of the provider and goes with it.

use std::sync::Arc;

use gabion_engine::keys::PublicKey;
use gabion_engine::{Algorithm, Engine, Error, KeyCache};

use crate::process::{ForkAware, PerProcess, Process};

/// Bytes of expanded keys at most: 200 keys of ML-DSA-65, which take 39 KiB each.
const CAPACITY: usize = 8 << 20;

/// The cache of a loading of the provider, one for each process that has it.
pub struct PublicKeys {
    keys: PerProcess<KeyCache>,
}

/// A child creates a new cache, since a thread that it did not inherit may have held a lock of its
/// parent's.
impl ForkAware for KeyCache {}

impl PublicKeys {
    /// Returns an empty cache.
    pub fn new(process: &Arc<Process>) -> Self {
        PublicKeys { keys: PerProcess::new(process) }
    }

    /// Returns the public key with these bytes.
    ///
    /// # Errors
    /// See [`PublicKey::import`].
    pub fn find(
        &self,
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<PublicKey, Error> {
        match self.keys.get(|| KeyCache::new(CAPACITY)) {
            Some(keys) => keys.public(engine, algorithm, bytes),
            None => PublicKey::import(engine, algorithm, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::OsEntropy;

    #[test]
    fn keys_are_found_again_by_one_process() {
        let engine = Engine::global().unwrap();
        let algorithm = Algorithm::MlDsa44;
        let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
        let cache = PublicKeys::new(&Arc::new(Process::new()));
        for _ in 0..3 {
            let found = cache.find(engine, algorithm, key.public_bytes()).unwrap();
            assert_eq!(found.bytes(), key.public_bytes());
        }
        assert!(cache.find(engine, algorithm, &key.public_bytes()[1..]).is_err());
        assert_eq!(cache.keys.get(|| unreachable!()).unwrap().stats().hits, 2);
    }
}

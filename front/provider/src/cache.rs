//! Public keys of signatures that came in lately, expanded: a client gets the same certificates
//! with every connection.
//!
//! Only signature keys, and only public ones: the key shares of a handshake never come back. The
//! cache belongs to one loading of the provider and goes with it.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use gabion_engine::{Algorithm, Engine, Error, KeyCache, VerifyKey};

/// Bytes of expanded keys at most: 200 keys of ML-DSA-65, which take 39 KiB each.
const CAPACITY: usize = 8 << 20;

/// The cache of a loading of the provider, one for each process that has it.
#[derive(Default)]
pub struct PublicKeys {
    current: AtomicPtr<Owned>,
}

struct Owned {
    process: u32,
    keys: KeyCache,
}

impl PublicKeys {
    /// The verification key with these bytes.
    ///
    /// # Errors
    /// As [`Engine::dsa_public`].
    pub fn verify_key(
        &self,
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<VerifyKey, Error> {
        self.keys(std::process::id()).dsa_public(engine, algorithm, bytes)
    }

    /// The cache of a process. A forked child makes one of its own, since a thread that it did not
    /// inherit may have held a lock of its parent's; that one's memory stays as it is.
    fn keys(&self, process: u32) -> &KeyCache {
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: null, or from the box below; one that was in place is not freed before `self` is.
        if let Some(owned) = unsafe { current.as_ref() }
            && owned.process == process
        {
            return &owned.keys;
        }
        let fresh = Box::into_raw(Box::new(Owned { process, keys: KeyCache::new(CAPACITY) }));
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match self.current.compare_exchange(current, fresh, order.0, order.1) {
            // SAFETY: as above.
            Ok(_) => unsafe { &(*fresh).keys },
            // Another thread of this process was first.
            Err(theirs) => {
                // SAFETY: from the box above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                // SAFETY: what is in place is never null again, and as above.
                unsafe { &(*theirs).keys }
            }
        }
    }
}

impl Drop for PublicKeys {
    fn drop(&mut self) {
        let current = std::mem::replace(self.current.get_mut(), null_mut());
        if !current.is_null() {
            // SAFETY: from the box in `keys`; nobody uses a provider that is torn down.
            drop(unsafe { Box::from_raw(current) });
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
        let key = engine.dsa_generate(algorithm, &OsEntropy).unwrap();
        let cache = PublicKeys::default();
        for _ in 0..3 {
            let found = cache.verify_key(engine, algorithm, key.public_bytes()).unwrap();
            assert_eq!(found.bytes(), key.public_bytes());
        }
        assert!(cache.verify_key(engine, algorithm, &key.public_bytes()[1..]).is_err());
        let mine = std::process::id();
        assert_eq!(cache.keys(mine).stats().hits, 2);
        // As a forked child would see it, which then keeps its own.
        assert_eq!(cache.keys(mine ^ 1).stats().keys, 0);
        assert_eq!(cache.keys(mine ^ 1).stats().hits, 0);
    }

    #[test]
    fn threads_agree_on_one_cache() {
        let cache = PublicKeys::default();
        let seen: Vec<usize> = std::thread::scope(|scope| {
            let ask = || std::ptr::from_ref(cache.keys(7)).addr();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|&at| at == seen[0]));
    }
}

//! Key pairs for key shares, of KEMs and X25519, made in advance by a background thread, eight at a
//! time.
//!
//! ```text
//!   keygen --> a key on the shelf? --yes--> it leaves the shelf and is the caller's alone
//!     |                |
//!     |                no: the caller makes one itself, as if there were no pool
//!     |
//!     +--> shelf half empty: the caller draws the randomness of 8 keys from OpenSSL's seed source
//!                 |
//!                 v
//!          thread: makes 8 key pairs in lanes, puts them on the shelf, sleeps
//! ```
//!
//! A client's key share does not depend on the peer, so it can be made before the connection, and
//! eight keys cost little more than two. These properties must hold:
//!
//! - **Single use.** A key is removed from its shelf under the lock before any caller gets it.
//! - **Bounded.** At most two [`BATCH`]es per algorithm, and one order at a time.
//! - **Fork safety.** A child never uses its parent's shelves ([`PerProcess`]); if forks cannot be
//!   detected, there is no pool.
//! - **The library context's randomness.** It is drawn by the thread that requests a key, within
//!   its call of the core. The pool's thread never calls OpenSSL, which may be shutting down.
//! - **No thread without need.** The thread starts when an algorithm has had [`USES_MIN`] key
//!   generations within [`IDLE`]. A pool that is unused for that long wipes its keys, and its
//!   thread sleeps.
//! - **No waiting for the thread.** A library context may be freed, and a key generated, in a
//!   constructor or destructor that `dlopen` or `dlclose` runs while holding the loader's lock. A
//!   thread needs that lock to start and to end. Teardown therefore tells the thread to end and
//!   returns. The module stays mapped (build.rs), and all data of the thread is owned by it or
//!   lives as long as the process.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use gabion_engine::keys::PrivateKey;
use gabion_engine::{Algorithm, Engine, Entropy, EntropyError, Kind, host};
use zeroize::Zeroizing;

use crate::core::ClampedEntropy;
use crate::process::{ForkAware, PerProcess, Process};

#[cfg(all(test, loom))]
mod loom;
mod shelves;

use shelves::{Shelves, Sizes};

/// Algorithms that have a shelf: those whose keys are cheaper together, or dear enough alone.
const POOLED: [Algorithm; 11] = [
    Algorithm::X25519MlKem768,
    Algorithm::X25519,
    Algorithm::MlKem512,
    Algorithm::MlKem768,
    Algorithm::MlKem1024,
    Algorithm::SecP256r1MlKem768,
    Algorithm::SecP384r1MlKem1024,
    Algorithm::SecP256r1MlKem512,
    Algorithm::SecP384r1MlKem768,
    Algorithm::SecP521r1MlKem1024,
    Algorithm::MlKem512X25519,
];

/// Keys that are made together: a full group of lanes. On a shelf lie two batches at most, 16 x 13
/// KiB for ML-KEM-768.
const BATCH: usize = 8;

/// Key generations of an algorithm within [`IDLE`] that show that a pool will be used.
const USES_MIN: u32 = 8;

/// How long an unused key is kept, at most twice this.
const IDLE: Duration = Duration::from_secs(10);

/// Bytes of randomness for one key: the seed of ML-KEM (d and z, FIPS 203, Algorithm 19), and a
/// scalar of the curve, which is as long as the curve's part of the shared secret. Of X25519 alone,
/// the scalar.
fn randomness(algorithm: Algorithm) -> usize {
    const SEED: usize = 64;
    const SHARED: usize = 32;
    match algorithm.info().kind {
        Kind::Kem => SEED + algorithm.info().shared_secret - SHARED,
        Kind::KeyExchange | Kind::Signature => algorithm.info().private_key.max(),
    }
}

/// The pools of one loading of the provider.
pub struct KeyPools {
    pools: PerProcess<Pools>,
    is_on: bool,
}

impl KeyPools {
    /// Returns empty pools, which stay empty unless `is_on`.
    pub fn new(process: &Arc<Process>, is_on: bool) -> Self {
        KeyPools { pools: PerProcess::new(process), is_on }
    }

    /// Takes a key pair out of the pool. Returns `None` if no key is ready: the caller then
    /// generates one. Randomness for future keys is drawn from `entropy`.
    pub fn take(
        &self,
        engine: &'static Engine,
        algorithm: Algorithm,
        entropy: &dyn Entropy,
    ) -> Option<PrivateKey> {
        if !self.is_on {
            return None;
        }
        self.pools.get(|| Pools::new(engine, IDLE))?.take(algorithm, entropy)
    }
}

/// The pools of one process, and their thread.
struct Pools {
    shared: Arc<PoolContext>,
    /// [`NONE`], [`STARTING`] or [`RUNNING`]. No lock: who starts a thread may have to wait for the
    /// loader's, which another caller may hold.
    thread: AtomicU8,
}

/// There is no thread.
const NONE: u8 = 0;
/// A caller is starting it.
const STARTING: u8 = 1;
/// It makes keys until the pools are dropped.
const RUNNING: u8 = 2;

/// The context that takers and the thread share.
struct PoolContext {
    engine: &'static Engine,
    shelves: Shelves<PrivateKey>,
}

impl Pools {
    fn new(engine: &'static Engine, idle: Duration) -> Self {
        let sizes = Sizes { batch: BATCH, uses_min: USES_MIN, idle };
        let shelves = Shelves::new(POOLED.len(), sizes);
        Pools { shared: Arc::new(PoolContext { engine, shelves }), thread: AtomicU8::new(NONE) }
    }

    fn take(&self, algorithm: Algorithm, entropy: &dyn Entropy) -> Option<PrivateKey> {
        let place = POOLED.iter().position(|&pooled| pooled == algorithm)?;
        let (key, orders) = self.shared.shelves.take(place);
        if orders {
            self.order(place, entropy);
        }
        key
    }

    /// Draws the randomness of a batch on this thread, and wakes the other one.
    fn order(&self, place: usize, entropy: &dyn Entropy) {
        let mut bytes = Zeroizing::new(vec![0; BATCH * randomness(POOLED[place])]);
        // Without randomness, or without a thread, there are no keys ahead. The caller's own key
        // needs randomness too, and says so.
        let is_ready = entropy.fill(&mut bytes).is_ok() && self.has_thread();
        self.shared.shelves.order(place, is_ready.then_some(bytes));
    }

    /// Starts the thread unless it is running. Returns false if the system cannot start one, or
    /// another caller is starting it; a later order may then have a thread.
    fn has_thread(&self) -> bool {
        let (acquire, release) = (Ordering::Acquire, Ordering::Release);
        match self.thread.compare_exchange(NONE, STARTING, acquire, acquire) {
            Ok(_) => {
                let shared = Arc::clone(&self.shared);
                // The handle is dropped, because the thread is never joined.
                let starts = host::spawn("gabion-keys".to_owned(), move || shared.work()).is_ok();
                self.thread.store(if starts { RUNNING } else { NONE }, release);
                starts
            }
            Err(state) => state == RUNNING,
        }
    }
}

impl ForkAware for Pools {
    /// Wipes the parent's keys in the memory of its child, but for those that a thread of the
    /// parent was putting on a shelf or taking off it at the fork.
    fn forget(&self) {
        self.shared.shelves.try_clear();
    }
}

impl Drop for Pools {
    /// Only in the process that made it: a child leaks it.
    fn drop(&mut self) {
        self.shared.shelves.close();
        // Where the thread is at the shelves just now, it wipes them when it goes.
        self.shared.shelves.try_clear();
    }
}

impl PoolContext {
    /// The loop of the thread until the pools are dropped.
    fn work(&self) {
        self.shelves.work(|place, bytes| self.make(POOLED[place], bytes));
        self.shelves.try_clear();
    }

    /// Makes the keys of an order; none where that fails.
    fn make(&self, algorithm: Algorithm, bytes: Zeroizing<Vec<u8>>) -> Vec<PrivateKey> {
        let entropy = EntropyBuffer { bytes, used: Cell::new(0) };
        let make = || make(self.engine, algorithm, &entropy);
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(make));
        made.map_or_else(|_| Vec::new(), Result::unwrap_or_default)
    }
}

/// Makes a batch of keys.
fn make(
    engine: &Engine,
    algorithm: Algorithm,
    entropy: &EntropyBuffer,
) -> Result<Vec<PrivateKey>, gabion_engine::Error> {
    let clamped = ClampedEntropy(entropy);
    let entropy: &dyn Entropy = match algorithm.info().kind {
        Kind::KeyExchange => &clamped,
        Kind::Kem | Kind::Signature => entropy,
    };
    PrivateKey::generate_many(engine, algorithm, BATCH, entropy)
}

/// A buffer of randomness that was drawn before.
struct EntropyBuffer {
    bytes: Zeroizing<Vec<u8>>,
    used: Cell<usize>,
}

impl Entropy for EntropyBuffer {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        let (from, to) = (self.used.get(), self.used.get() + out.len());
        let bytes = self.bytes.get(from..to);
        // One in 2^32 random strings is not a valid P-256 or P-384 scalar; it is drawn again.
        let bytes = bytes.ok_or_else(|| EntropyError("the drawn randomness is used up".into()))?;
        out.copy_from_slice(bytes);
        self.used.set(to);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;
    use gabion_engine::{ExchangePrivateKey, OsEntropy, SharedSecret};
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    const LONG: Duration = Duration::from_secs(3600);

    fn engine() -> &'static Engine {
        Engine::global().unwrap()
    }

    const CAPACITY: usize = 2 * BATCH;

    fn place(algorithm: Algorithm) -> usize {
        POOLED.iter().position(|&pooled| pooled == algorithm).unwrap()
    }

    fn stock(pools: &Pools, algorithm: Algorithm) -> usize {
        pools.shared.shelves.stock(place(algorithm))
    }

    /// Waits for what must come; how long it takes does not matter.
    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..60_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{what}");
    }

    fn is_full(pools: &Pools, algorithm: Algorithm) -> bool {
        stock(pools, algorithm) > CAPACITY - BATCH
    }

    /// Uses a pool until its shelf is filled.
    fn warm(pools: &Pools, algorithm: Algorithm) {
        for _ in 0..USES_MIN {
            assert!(pools.take(algorithm, &OsEntropy).is_none());
        }
        until("the shelf is filled", || stock(pools, algorithm) == BATCH);
        assert!(pools.take(algorithm, &OsEntropy).is_some());
        until("the next batch comes", || is_full(pools, algorithm));
    }

    fn bytes(key: &PrivateKey) -> Vec<u8> {
        key.bytes().to_vec()
    }

    /// The secret that a key shares with a peer of its algorithm, as each side has it.
    fn exchanged(algorithm: Algorithm, key: &PrivateKey) -> (SharedSecret, SharedSecret) {
        match key {
            PrivateKey::Kem(key) => {
                assert_eq!(key.algorithm(), algorithm);
                let (ct, secret) = engine().encaps(&key.public(), &OsEntropy).unwrap();
                (engine().decaps(key, &ct).unwrap(), secret)
            }
            PrivateKey::Exchange(key) => {
                assert_eq!(key.algorithm(), algorithm);
                let mut clamped: [u8; 32] = key.bytes().try_into().unwrap();
                gabion_engine::clamp(&mut clamped);
                assert_eq!(key.bytes(), clamped);
                let peer = engine().exchange_generate(algorithm, &OsEntropy).unwrap();
                let derive = |key, peer: &ExchangePrivateKey| engine().derive(key, &peer.public());
                (derive(key, &peer).unwrap(), derive(&peer, key).unwrap())
            }
            _ => panic!("{algorithm}"),
        }
    }

    #[test]
    fn no_thread_starts_before_there_was_use() {
        let pools = Pools::new(engine(), LONG);
        for algorithm in [Algorithm::X25519MlKem768, Algorithm::MlKem768] {
            for _ in 1..USES_MIN {
                assert!(pools.take(algorithm, &OsEntropy).is_none());
            }
        }
        assert_eq!(pools.thread.load(Ordering::Relaxed), NONE);
        // Uses that are far apart do not count: with an interval of zero, all are.
        let pools = Pools::new(engine(), Duration::ZERO);
        for _ in 0..4 * USES_MIN {
            assert!(pools.take(Algorithm::MlKem768, &OsEntropy).is_none());
            let since = pools.shared.shelves.since(place(Algorithm::MlKem768)).unwrap();
            until("the clock goes on", || since.elapsed() > Duration::ZERO);
        }
        assert_eq!(pools.thread.load(Ordering::Relaxed), NONE);
    }

    #[test]
    fn every_key_is_good_and_given_once() {
        let pools = Pools::new(engine(), LONG);
        for algorithm in POOLED {
            warm(&pools, algorithm);
            let mut seen = HashSet::new();
            while seen.len() < 5 * BATCH {
                let Some(key) = pools.take(algorithm, &OsEntropy) else {
                    std::thread::yield_now();
                    continue;
                };
                assert!(seen.insert(bytes(&key)), "{algorithm}: a key came twice");
                let (shared, theirs) = exchanged(algorithm, &key);
                assert!(shared == theirs, "{algorithm}");
                assert!(stock(&pools, algorithm) <= CAPACITY);
            }
        }
    }

    #[test]
    fn threads_share_no_key() {
        let pools = Pools::new(engine(), LONG);
        warm(&pools, Algorithm::MlKem512);
        // Until each has had some, however slowly the machine refills the shelf.
        let take = || {
            let mut keys = Vec::new();
            while keys.len() < CAPACITY {
                match pools.take(Algorithm::MlKem512, &OsEntropy) {
                    Some(key) => keys.push(bytes(&key)),
                    None => std::thread::yield_now(),
                }
            }
            keys
        };
        let taken: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 4 * CAPACITY);
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), taken.len());
    }

    #[test]
    fn a_batch_takes_just_the_randomness_that_was_drawn_for_it() {
        for algorithm in POOLED {
            let bytes = Zeroizing::new(vec![0x5a; BATCH * randomness(algorithm)]);
            let entropy = EntropyBuffer { bytes, used: Cell::new(0) };
            assert_eq!(make(engine(), algorithm, &entropy).unwrap().len(), BATCH);
            assert_eq!(entropy.used.get(), entropy.bytes.len(), "{algorithm}");
            assert!(entropy.fill(&mut [0]).is_err());
        }
    }

    #[test]
    fn unused_keys_are_wiped_and_come_back_with_use() {
        let algorithm = Algorithm::X25519MlKem768;
        let pools = Pools::new(engine(), Duration::from_millis(50));
        for _ in 0..2 {
            until("the shelf is filled", || {
                pools.take(algorithm, &OsEntropy).is_some() || stock(&pools, algorithm) > 0
            });
            until("the shelf is wiped", || {
                let is_filled = pools.shared.shelves.is_filled(place(algorithm));
                stock(&pools, algorithm) == 0 && !is_filled
            });
        }
    }

    /// A source that fails when it is told to.
    struct Fickle(AtomicBool);

    impl Entropy for Fickle {
        fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
            if self.0.load(Ordering::Relaxed) {
                return Err(EntropyError("none today".into()));
            }
            OsEntropy.fill(out)
        }
    }

    #[test]
    fn without_randomness_there_are_no_keys_ahead() {
        let pools = Pools::new(engine(), LONG);
        let source = Fickle(AtomicBool::new(true));
        for _ in 0..4 * USES_MIN {
            assert!(pools.take(Algorithm::MlKem1024, &source).is_none());
        }
        assert_eq!(pools.thread.load(Ordering::Relaxed), NONE);
        source.0.store(false, Ordering::Relaxed);
        until("the pool recovers", || pools.take(Algorithm::MlKem1024, &source).is_some());
    }

    #[test]
    fn a_forked_child_has_none_of_its_parents_keys() {
        let algorithm = Algorithm::X25519MlKem768;
        let process = Arc::new(Process::new());
        let pools = KeyPools::new(&process, true);
        let take = || pools.take(engine(), algorithm, &OsEntropy);
        until("a key comes", || take().is_some());
        let mine = pools.pools.get(|| unreachable!()).unwrap();
        until("the shelf is filled", || is_full(mine, algorithm));
        // SAFETY: the child uses its copy of the pool and ends by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no pointer is passed.
            unsafe { libc::alarm(60) };
            // Its own pool has seen no use yet, and the parent's copy is wiped.
            let first = take().is_none() && stock(mine, algorithm) == 0;
            let own = (0..100_000).any(|_| {
                std::thread::sleep(Duration::from_micros(100));
                take().is_some()
            });
            drop(pools);
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(if first && own { 0 } else { 1 }) }
        }
        let mut status = -1;
        // SAFETY: a child of ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "status {status:#x}");
        assert!(is_full(mine, algorithm) && take().is_some());
    }

    #[test]
    fn dropping_pools_ends_their_thread_and_wipes_the_shelves() {
        let pools = Pools::new(engine(), LONG);
        warm(&pools, Algorithm::MlKem768);
        let shared = Arc::clone(&pools.shared);
        assert_eq!(Arc::strong_count(&shared), 3);
        drop(pools);
        until("the thread goes", || Arc::strong_count(&shared) == 1);
        assert_eq!(shared.shelves.stock(place(Algorithm::MlKem768)), 0);
    }

    /// The engine's own locks apart, a batch takes as long as it likes.
    #[test]
    fn dropping_pools_does_not_block() {
        let pools = Pools::new(engine(), LONG);
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::clone(&pools.shared);
        std::thread::scope(|scope| {
            // The part of the thread, in the middle of a batch.
            scope.spawn(|| {
                shared.shelves.work(|_, _| {
                    begun.store(true, Ordering::Relaxed);
                    until("the pools are dropped", || ended.load(Ordering::Relaxed));
                    Vec::new()
                });
            });
            pools.thread.store(RUNNING, Ordering::Relaxed);
            (0..USES_MIN).for_each(|_| drop(pools.take(Algorithm::MlKem768, &OsEntropy)));
            until("a batch is begun", || begun.load(Ordering::Relaxed));
            drop(pools);
            ended.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn take_does_not_wait_for_a_starting_thread() {
        let pools = Pools::new(engine(), LONG);
        pools.thread.store(STARTING, Ordering::Relaxed);
        for _ in 0..4 * USES_MIN {
            assert!(pools.take(Algorithm::MlKem768, &OsEntropy).is_none());
        }
        // The thread failed to start: the next caller tries again.
        pools.thread.store(NONE, Ordering::Relaxed);
        until("a key comes", || pools.take(Algorithm::MlKem768, &OsEntropy).is_some());
    }

    #[test]
    fn disabled_pool_returns_no_key() {
        let pools = KeyPools::new(&Arc::new(Process::new()), false);
        for _ in 0..4 * USES_MIN {
            assert!(pools.take(engine(), Algorithm::MlKem768, &OsEntropy).is_none());
        }
    }
}

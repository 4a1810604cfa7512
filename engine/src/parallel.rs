//! Runs a large batch on several cores.
//!
//! ```text
//!   lanes   0 ........ 63 | 64 ....... 127 | 128 ...... 191 | ..
//!           calling thread  scoped thread    the first idle one takes the next piece
//! ```
//!
//! Pieces are contiguous and outputs are not moved, so every lane ends as in a serial run. Threads
//! are scoped and end with the call.

use std::num::NonZero;
use std::ops::Range;

use gabion_backend::{Batch, Task};
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, Status, ct};

use crate::entropy::{Entropy, Randomness};
use crate::error::{Error, check_count};
use crate::keys::exchange::{ExchangePrivateKey, ExchangePublicKey};
use crate::keys::kem::{self, KemPrivateKey, KemPublicKey, SharedSecret};
use crate::keys::signature::{self, SigningKey, VerifyKey};
use crate::memory;
use crate::route::Engine;
use crate::threads::on_threads;

/// Pieces for each thread at most, so that a thread that comes late or is slowed leaves work to the
/// others.
const PIECES_EACH: usize = 4;
/// Lanes of a piece are a multiple of this: the widest group of any backend.
const GROUP: usize = 16;

/// The partition of a batch: on how many threads, and how many lanes a piece has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partition {
    threads: usize,
    lanes: usize,
}

impl Partition {
    /// Returns `None` if the batch is too small for a second thread.
    fn new(lanes_min: usize, lanes: usize, threads: NonZero<usize>) -> Option<Partition> {
        let threads = threads.get().min(lanes / lanes_min);
        let each = lanes.div_ceil(threads.max(1) * PIECES_EACH);
        let lanes = each.next_multiple_of(lanes_min.min(GROUP)).max(lanes_min);
        (threads > 1).then_some(Partition { threads, lanes })
    }
}

/// `n` keys in order, `cut.lanes` of them made at a time: those of a range.
fn make_many<K: Send>(
    cut: Partition,
    n: usize,
    make: impl Fn(Range<usize>) -> Result<Vec<K>, Error> + Sync,
) -> Result<Vec<K>, Error> {
    let mut made: Vec<Vec<K>> = Vec::new();
    made.resize_with(n.div_ceil(cut.lanes), Vec::new);
    let pieces = made.iter_mut().enumerate().collect();
    on_threads(cut.threads, pieces, |(piece, keys): (usize, &mut Vec<K>)| {
        let start = piece * cut.lanes;
        *keys = make(start..n.min(start + cut.lanes))?;
        Ok(())
    })?;
    Ok(made.into_iter().flatten().collect())
}

impl Engine {
    /// Runs a batch as [`Engine::run`] does, on up to `threads` threads, the calling one included.
    /// Small batches stay on the calling thread.
    ///
    /// # Errors
    /// Those of [`Engine::run`]. If a piece fails as a whole, the batch fails without output.
    pub fn run_parallel(
        &self,
        batch: &mut Batch<'_>,
        threads: NonZero<usize>,
    ) -> Result<(), Error> {
        let piece = self.piece(batch.algorithm(), batch.task(), batch.lanes());
        let Some(cut) = Partition::new(piece, batch.lanes(), threads) else {
            return self.run(batch);
        };
        batch.status.fill(Status::NotRun);
        batch.check()?;
        let pieces = batch.pieces(cut.lanes);
        let ended = on_threads(cut.threads, pieces, |mut piece| self.run(&mut piece));
        if ended.is_err() {
            batch.reset();
        }
        ended
    }

    /// Returns the functions for many lanes of any algorithm, running on up to `threads` threads,
    /// including the calling one.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, Message, OsEntropy, Status};
    ///
    /// let engine = Engine::global()?;
    /// let cores = engine.parallel(std::thread::available_parallelism()?);
    /// let (n, room) = (20, Algorithm::EcdsaP256.info().output.max());
    /// let pairs = cores.signature_generate_many(Algorithm::EcdsaP256, n, &OsEntropy)?;
    /// let messages = vec![Message::Pure { context: b"", message: b"text" }; n];
    /// let (mut signatures, mut lengths) = (vec![0; n * room], vec![0; n]);
    /// let mut status = vec![Status::NotRun; n];
    /// let keys: Vec<_> = pairs.iter().collect();
    /// cores.sign_many(
    ///     &keys,
    ///     &messages,
    ///     Some(&OsEntropy),
    ///     &mut signatures,
    ///     &mut lengths,
    ///     &mut status,
    /// )?;
    /// let public: Vec<_> = pairs.iter().map(|key| key.public()).collect();
    /// let keys: Vec<_> = public.iter().collect();
    /// cores.verify_many(&keys, &messages, &signatures, &lengths, &mut status)?;
    /// assert!(status.iter().all(|status| status.is_ok()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parallel(&self, threads: NonZero<usize>) -> Parallel<'_> {
        Parallel { engine: self, threads }
    }
}

/// The doors of an [`Engine`] for many lanes, on several threads; [`Engine::parallel`] gives it.
///
/// - Lanes, outputs and verdicts are those of the engine's functions of the same names, in the same
///   order, whatever the number of threads.
/// - Small batches stay on the calling thread; threads start with a call and end before it does.
/// - Randomness is drawn once for each piece of a batch, on the thread that runs it.
/// - A bad lane fails alone. Where a piece fails as a whole the batch does, and nothing comes out.
#[derive(Clone, Copy)]
pub struct Parallel<'e> {
    engine: &'e Engine,
    threads: NonZero<usize>,
}

impl Parallel<'_> {
    /// Verifies many signatures; see [`Engine::verify_many`].
    ///
    /// # Errors
    /// Those of [`Engine::verify_many`], after which every status is [`Status::NotRun`].
    pub fn verify_many(
        &self,
        keys: &[&VerifyKey],
        messages: &[Message<'_>],
        signatures: &[u8],
        lengths: &[usize],
        status: &mut [Status],
    ) -> Result<(), Error> {
        status.fill(Status::NotRun);
        let room = signature::check_signed_lanes(keys, messages, signatures, lengths, status)?;
        let Some(cut) = self.cut(keys.first().map(|key| key.algorithm()), Task::Verify, keys.len())
        else {
            return self.engine.verify_many(keys, messages, signatures, lengths, status);
        };
        let inputs = keys.chunks(cut.lanes).zip(messages.chunks(cut.lanes));
        let given = signatures.chunks(cut.lanes * room).zip(lengths.chunks(cut.lanes));
        let pieces = inputs.zip(given).zip(status.chunks_mut(cut.lanes)).collect();
        let ended = on_threads(cut.threads, pieces, |(((keys, messages), given), status)| {
            self.engine.verify_many(keys, messages, given.0, given.1, status)
        });
        if ended.is_err() {
            status.fill(Status::NotRun);
        }
        ended
    }

    /// Signs many messages; see [`Engine::sign_many`]. Without a source of randomness it signs
    /// deterministically, which some algorithms refuse.
    ///
    /// # Errors
    /// Those of [`Engine::sign_many`], after which every output is zero.
    pub fn sign_many(
        &self,
        keys: &[&SigningKey],
        messages: &[Message<'_>],
        entropy: Option<&(dyn Entropy + Sync)>,
        signatures: &mut [u8],
        lengths: &mut [usize],
        status: &mut [Status],
    ) -> Result<(), Error> {
        // Created on the thread that uses it, because it may contain data that must not be shared
        // between threads.
        let randomness =
            || entropy.map_or(Randomness::Deterministic, |entropy| Randomness::Fresh(entropy));
        let algorithms = keys.iter().map(|key| key.algorithm());
        let lens = [messages.len(), lengths.len(), status.len()];
        let rooms = keys.iter().map(|key| key.signature_len_max());
        let room = signature::check_lanes(algorithms, rooms, keys.len(), lens, signatures.len());
        let cut = self.cut(keys.first().map(|key| key.algorithm()), Task::Sign, keys.len());
        let (Ok(room), Some(cut)) = (room, cut) else {
            return self.engine.sign_many(
                keys,
                messages,
                randomness(),
                signatures,
                lengths,
                status,
            );
        };
        let inputs = keys.chunks(cut.lanes).zip(messages.chunks(cut.lanes));
        let made = signatures.chunks_mut(cut.lanes * room).zip(lengths.chunks_mut(cut.lanes));
        let pieces = inputs.zip(made).zip(status.chunks_mut(cut.lanes)).collect();
        let ended = on_threads(cut.threads, pieces, |(((keys, messages), made), status)| {
            self.engine.sign_many(keys, messages, randomness(), made.0, made.1, status)
        });
        if ended.is_err() {
            status.fill(Status::NotRun);
            lengths.fill(0);
            ct::wipe(signatures);
        }
        ended
    }

    /// Encapsulates many times; see [`Engine::encaps_many`].
    ///
    /// # Errors
    /// Those of [`Engine::encaps_many`], after which every output is zero.
    pub fn encaps_many(
        &self,
        keys: &[&KemPublicKey],
        entropy: &(dyn Entropy + Sync),
        ct: &mut [u8],
        shared: &mut [u8],
        status: &mut [Status],
    ) -> Result<(), Error> {
        let lens = (ct.len(), shared.len(), status.len());
        let algorithms = keys.iter().map(|key| key.algorithm());
        let fits = kem::check_lanes(algorithms, keys.len(), lens).is_ok();
        let first = keys.first().map(|key| key.algorithm());
        let Some((cut, algorithm)) =
            self.cut(first, Task::Encaps, keys.len()).zip(first).filter(|_| fits)
        else {
            return self.engine.encaps_many(keys, Randomness::Fresh(entropy), ct, shared, status);
        };
        let info = algorithm.info();
        let made = ct.chunks_mut(cut.lanes * info.output.max());
        let made = made.zip(shared.chunks_mut(cut.lanes * info.shared_secret));
        let pieces = keys.chunks(cut.lanes).zip(made).zip(status.chunks_mut(cut.lanes)).collect();
        let ended = on_threads(cut.threads, pieces, |((keys, made), status)| {
            self.engine.encaps_many(keys, Randomness::Fresh(entropy), made.0, made.1, status)
        });
        if ended.is_err() {
            status.fill(Status::NotRun);
            ct.fill(0);
            ct::wipe(shared);
        }
        ended
    }

    /// Decapsulates many ciphertexts; see [`Engine::decaps_many`].
    ///
    /// # Errors
    /// Those of [`Engine::decaps_many`], after which every output is zero.
    pub fn decaps_many(
        &self,
        keys: &[&KemPrivateKey],
        ct: &[u8],
        shared: &mut [u8],
        status: &mut [Status],
    ) -> Result<(), Error> {
        let lens = (ct.len(), shared.len(), status.len());
        let algorithms = keys.iter().map(|key| key.algorithm());
        let fits = kem::check_lanes(algorithms, keys.len(), lens).is_ok();
        let first = keys.first().map(|key| key.algorithm());
        let Some((cut, algorithm)) =
            self.cut(first, Task::Decaps, keys.len()).zip(first).filter(|_| fits)
        else {
            return self.engine.decaps_many(keys, ct, shared, status);
        };
        let info = algorithm.info();
        let inputs = keys.chunks(cut.lanes).zip(ct.chunks(cut.lanes * info.output.max()));
        let made = shared.chunks_mut(cut.lanes * info.shared_secret);
        let pieces = inputs.zip(made).zip(status.chunks_mut(cut.lanes)).collect();
        let ended = on_threads(cut.threads, pieces, |(((keys, ct), shared), status)| {
            self.engine.decaps_many(keys, ct, shared, status)
        });
        if ended.is_err() {
            status.fill(Status::NotRun);
            ct::wipe(shared);
        }
        ended
    }

    /// Derives the shared secrets of many pairs of keys; see [`Engine::derive_many`].
    ///
    /// # Errors
    /// Those of [`Engine::derive_many`].
    pub fn derive_many(
        &self,
        lanes: &[(&ExchangePrivateKey, &ExchangePublicKey)],
    ) -> Result<Vec<Result<SharedSecret, Error>>, Error> {
        let first = lanes.first().map(|lane| lane.0.algorithm());
        let is_one = lanes
            .iter()
            .all(|(key, peer)| [key.algorithm(), peer.algorithm()].map(Some) == [first; 2]);
        let Some(cut) = self.cut(first, Task::Derive, lanes.len()).filter(|_| is_one) else {
            return self.engine.derive_many(lanes);
        };
        let mut secrets = vec![Err(Error::Lost); lanes.len()];
        let pieces = lanes.chunks(cut.lanes).zip(secrets.chunks_mut(cut.lanes)).collect();
        on_threads(cut.threads, pieces, |(lanes, places)| {
            let secrets = self.engine.derive_many(lanes)?;
            places.iter_mut().zip(secrets).for_each(|(place, secret)| *place = secret);
            Ok(())
        })?;
        Ok(secrets)
    }

    /// Makes `n` key pairs of a signature algorithm; see [`Engine::signature_generate_many`].
    ///
    /// # Errors
    /// Those of [`Engine::signature_generate_many`].
    pub fn signature_generate_many(
        &self,
        algorithm: Algorithm,
        n: usize,
        entropy: &(dyn Entropy + Sync),
    ) -> Result<Vec<SigningKey>, Error> {
        let make = |n| self.engine.signature_generate_many(algorithm, n, entropy);
        self.generate(algorithm, n, make)
    }

    /// Makes `n` key pairs of a KEM; see [`Engine::kem_generate_many`].
    ///
    /// # Errors
    /// Those of [`Engine::kem_generate_many`].
    pub fn kem_generate_many(
        &self,
        algorithm: Algorithm,
        n: usize,
        entropy: &(dyn Entropy + Sync),
    ) -> Result<Vec<KemPrivateKey>, Error> {
        let make = |n| self.engine.kem_generate_many(algorithm, n, entropy);
        self.generate(algorithm, n, make)
    }

    /// Makes `n` key pairs of a key exchange; see [`Engine::exchange_generate_many`].
    ///
    /// # Errors
    /// Those of [`Engine::exchange_generate_many`].
    pub fn exchange_generate_many(
        &self,
        algorithm: Algorithm,
        n: usize,
        entropy: &(dyn Entropy + Sync),
    ) -> Result<Vec<ExchangePrivateKey>, Error> {
        let make = |n| self.engine.exchange_generate_many(algorithm, n, entropy);
        self.generate(algorithm, n, make)
    }

    /// Decodes many public keys of a signature algorithm; see [`Engine::signature_public_many`].
    ///
    /// # Errors
    /// Those of [`Engine::signature_public_many`].
    pub fn signature_public_many(
        &self,
        algorithm: Algorithm,
        encoded: &[&[u8]],
    ) -> Result<Vec<Result<VerifyKey, Error>>, Error> {
        self.decode(algorithm, encoded, |encoded| {
            self.engine.signature_public_many(algorithm, encoded)
        })
    }

    /// Decodes many public keys of a KEM; see [`Engine::kem_public_many`].
    ///
    /// # Errors
    /// Those of [`Engine::kem_public_many`].
    pub fn kem_public_many(
        &self,
        algorithm: Algorithm,
        encoded: &[&[u8]],
    ) -> Result<Vec<Result<KemPublicKey, Error>>, Error> {
        self.decode(algorithm, encoded, |encoded| self.engine.kem_public_many(algorithm, encoded))
    }

    fn decode<K: Send>(
        &self,
        algorithm: Algorithm,
        encoded: &[&[u8]],
        decode: impl Fn(&[&[u8]]) -> Result<Vec<K>, Error> + Sync,
    ) -> Result<Vec<K>, Error> {
        match self.cut(Some(algorithm), Task::DecodePublic, encoded.len()) {
            Some(cut) => make_many(cut, encoded.len(), |range| decode(&encoded[range])),
            None => decode(encoded),
        }
    }

    fn generate<K: Send>(
        &self,
        algorithm: Algorithm,
        n: usize,
        make: impl Fn(usize) -> Result<Vec<K>, Error> + Sync,
    ) -> Result<Vec<K>, Error> {
        check_count(n)?;
        memory::check_keys(algorithm.info(), n)?;
        match self.cut(Some(algorithm), Task::Keygen, n) {
            Some(cut) => make_many(cut, n, |range| make(range.len())),
            None => make(n),
        }
    }

    fn cut(&self, algorithm: Option<Algorithm>, task: Task, lanes: usize) -> Option<Partition> {
        Partition::new(self.engine.piece(algorithm?, task, lanes), lanes, self.threads)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn threads(n: usize) -> NonZero<usize> {
        NonZero::new(n).unwrap()
    }

    #[test]
    fn batch_is_split_by_minimum_lanes_per_thread() {
        let of = |lanes_min, lanes, n| Partition::new(lanes_min, lanes, threads(n));
        assert_eq!(of(64, 1000, 1), None);
        assert_eq!(of(64, 127, 8), None);
        assert_eq!(of(64, 0, 8), None);
        assert_eq!(of(64, 128, 8), Some(Partition { threads: 2, lanes: 64 }));
        // 1000 / (2 * 4) = 125, of which groups of 16 make 128.
        assert_eq!(of(64, 1000, 2), Some(Partition { threads: 2, lanes: 128 }));
        assert_eq!(of(4, 9, 8), Some(Partition { threads: 2, lanes: 4 }));
        assert_eq!(of(1, 3, 8), Some(Partition { threads: 3, lanes: 1 }));
        // One that is not to be cut.
        assert_eq!(of(usize::MAX, 1000, 8), None);
    }

    #[test]
    fn pieces_not_started_are_skipped_after_a_failure() {
        let ran = AtomicUsize::new(0);
        let run = |piece| {
            ran.fetch_add(1, Ordering::Relaxed);
            if piece == 2 { Err(Error::Closed) } else { Ok(()) }
        };
        assert_eq!(on_threads(1, (0..10).collect(), run), Err(Error::Closed));
        assert_eq!(ran.load(Ordering::Relaxed), 3);
        assert_eq!(on_threads(4, (3..10).collect(), run), Ok(()));
        assert_eq!(ran.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn a_thread_that_panics_fails_the_batch() {
        // The calling thread waits in its piece until another has taken the one that panics.
        let taken = std::sync::Barrier::new(2);
        let own = std::thread::current().id();
        let run = |_| {
            taken.wait();
            assert!(std::thread::current().id() == own, "a fault that a test put in");
            Ok(())
        };
        assert_eq!(on_threads(2, vec![0, 1], run), Err(Error::Lost));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_of_a_batch_take_no_signals() {
        const SIGTERM: u32 = 15;
        let taken = std::sync::Barrier::new(2);
        let own = std::thread::current().id();
        let run = |_| {
            taken.wait();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
            let is_ours = std::thread::current().id() != own;
            assert_eq!(blocked >> (SIGTERM - 1) & 1 == 1, is_ours);
            Ok(())
        };
        assert_eq!(on_threads(2, vec![0, 1], run), Ok(()));
    }
}

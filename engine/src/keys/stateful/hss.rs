//! Private keys of HSS and LMS: made on several threads, with word of how far they are, and used up by signing.
//!
//! ```text
//!   HssSecret --StatefulKey::generate: waves of pieces on threads--> StatefulKey --sign_indexed(Indexes)--> signatures
//!      |                      |        ^                               |    ^
//!      | encode()             v        |                       trees() |    | open()
//!      v                 Progress { row }, to go on from               v    |
//!   key file                                                     what is kept beside the key file
//! ```
//!
//! The secret is the private key. Everything else can be made from it again, in as much time as it took. A
//! [`StatefulKey`] is not `Clone`, knows no index, and takes [`Indexes`] by value: see [`super`].
//!
//! What [`StatefulKey::trees`] gives is public. But a signer believes it: with a node of another tree an upper leaf
//! would sign twice. So whoever keeps it authenticates it.

use std::fmt;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_backend::Task;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms::{self, Generation, Kept, LmOts, Lms, Piece, Scratch, SigningKey};
use gabion_scheme::{Algorithm, Status};
use zeroize::Zeroizing;

use super::{IndexedSigner, Indexes};
use crate::entropy::Entropy;
use crate::error::{Error, check_length, lane_error, private_key};
use crate::memory;
use crate::route::Engine;
use crate::threads::on_threads;

pub use gabion_scheme::lms::Levels;

/// Pieces of a wave for each thread: some tens of milliseconds, beside which starting threads is nothing.
const PIECES_EACH: usize = 8;
/// Bytes before the row of a tree in [`StatefulKey::trees`]: level, number, length of the row, length of the signed
/// key.
const KEPT_HEAD: usize = 4 + 8 + 8 + 4;

/// What a private key of HSS is: its sets, the identifier I, and the seed that all secrets derive from.
pub struct HssSecret {
    levels: Levels,
    id: [u8; 16],
    seed: Zeroizing<Vec<u8>>,
}

impl HssSecret {
    /// A new one.
    ///
    /// # Errors
    /// [`Error::Entropy`].
    pub fn draw(levels: Levels, entropy: &dyn Entropy) -> Result<Self, Error> {
        let (mut id, mut seed) = ([0; 16], Zeroizing::new(vec![0; levels.n()]));
        entropy.fill(&mut id)?;
        entropy.fill(&mut seed)?;
        Ok(HssSecret { levels, id, seed })
    }

    /// One that was drawn elsewhere.
    ///
    /// # Errors
    /// [`Error::Input`] if the seed is not as long as a hash value.
    pub fn new(levels: Levels, id: [u8; 16], seed: &[u8]) -> Result<Self, Error> {
        check_length("a seed of HSS", levels.n(), seed)?;
        Ok(HssSecret { levels, id, seed: Zeroizing::new(seed.to_vec()) })
    }

    /// The sets.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// `u32str(L) || (type || otstype) of each level || SEED || I`, as hash-sigs and others write keys, but for the
    /// index, which is none of a key file's. Secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let sets = self.levels.sets();
        let mut bytes =
            Zeroizing::new(Vec::with_capacity(4 + 8 * sets.len() + self.seed.len() + 16));
        bytes.extend_from_slice(&(sets.len() as u32).to_be_bytes());
        for (lms, ots) in sets {
            bytes.extend_from_slice(&lms.typecode.to_be_bytes());
            bytes.extend_from_slice(&ots.typecode.to_be_bytes());
        }
        bytes.extend_from_slice(&self.seed);
        bytes.extend_from_slice(&self.id);
        bytes
    }

    /// Reads what [`HssSecret::encode`] gave.
    ///
    /// # Errors
    /// [`Error::Input`] if it is of another length, or names no sets or those of several hash functions.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let refused = || private_key(Algorithm::Hss, "it is no list of sets, a seed and I");
        let (count, rest) = bytes.split_first_chunk().ok_or_else(refused)?;
        let count = u32::from_be_bytes(*count) as usize;
        let len = count.checked_mul(8).filter(|_| count <= lms::LEVELS_MAX).ok_or_else(refused)?;
        let (codes, rest) = rest.split_at_checked(len).ok_or_else(refused)?;
        let sets = codes.as_chunks::<8>().0.iter().map(|[a, b, c, d, e, f, g, h]| {
            let lms = Lms::of_typecode(u32::from_be_bytes([*a, *b, *c, *d]));
            lms.zip(LmOts::of_typecode(u32::from_be_bytes([*e, *f, *g, *h])))
        });
        let sets: Vec<_> = sets.collect::<Option<_>>().ok_or_else(refused)?;
        let levels = Levels::new(&sets)?;
        let (seed, id) = rest.split_at_checked(levels.n()).ok_or_else(refused)?;
        let id = id.try_into().map_err(|_| refused())?;
        HssSecret::new(levels, id, seed)
    }
}

impl fmt::Debug for HssSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HssSecret of {:?}", self.levels.sets())
    }
}

/// How far key generation is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Leaves of the top tree that are done.
    pub done: u32,
    /// All of them.
    pub all: u32,
    /// What is done, to go on from another time. Public, and as much worth guarding as what
    /// [`StatefulKey::trees`] gives.
    pub row: &'a [u8],
}

/// A private key of HSS that signs, with the trees it signs with.
pub struct StatefulKey<'e> {
    engine: &'e Engine,
    /// None after a panic, which may have left a tree that is none.
    key: Option<SigningKey>,
    public: lms::VerifyKey,
    scratch: Scratch,
}

impl<'e> StatefulKey<'e> {
    /// Makes the key of a secret, from `row` on, which an earlier [`Progress`] gave or which is empty, on up to
    /// `threads` threads. `watch` hears of each wave, a fraction of a second, and may stop there: then the
    /// answer is `None`.
    ///
    /// # Errors
    /// [`Error::Input`] if the row is none of this key's; no healthy backend; no memory.
    pub fn generate(
        engine: &'e Engine,
        secret: &HssSecret,
        row: &[u8],
        threads: NonZero<usize>,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Self>, Error> {
        memory::check()?;
        let kernels = engine.kernels_for(Algorithm::Hss)?;
        let made = guarded(Task::Keygen, || {
            let made = Generation::new(secret.levels.clone(), &secret.id, &secret.seed)?;
            let mut made = made.resume(kernels, row)?;
            let pieces = threads.get().saturating_mul(PIECES_EACH);
            loop {
                let (done, all) = made.progress();
                if watch(Progress { done, all, row: made.row() }).is_break() {
                    return Ok(None);
                }
                if done == all {
                    return Ok(Some(made.finish()?));
                }
                let run = |mut piece: Piece<'_>| {
                    piece.run(kernels, &mut Scratch::new()).map_err(Error::from)
                };
                on_threads(threads.get(), made.wave(pieces), run)?;
                made.close(kernels, pieces);
            }
        })?;
        Ok(made.map(|key| {
            let public = key.verify_key().clone();
            StatefulKey { engine, key: Some(key), public, scratch: Scratch::new() }
        }))
    }

    /// Opens a key that was made, whose public key is `public`, to sign from `index` on. `trees` is what
    /// [`StatefulKey::trees`] gave, authenticated, or empty: what it lacks is made again, on up to `threads` threads
    /// where it is the top tree. The first signature takes no longer than any other then.
    ///
    /// # Errors
    /// [`Error::Input`] if the secret does not make the public key, or there is no such index; no healthy
    /// backend; no memory.
    pub fn open(
        engine: &'e Engine,
        secret: &HssSecret,
        public: &[u8],
        trees: &[u8],
        index: u64,
        threads: NonZero<usize>,
    ) -> Result<Self, Error> {
        let kept: Vec<_> = Kepts(trees).collect();
        let row = kept.iter().find(|kept| kept.level == 0).map_or(&[][..], |kept| kept.row);
        let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
        let mut made = Self::generate(engine, secret, row, threads, &mut go_on);
        if matches!(made, Err(Error::Input(_))) && !row.is_empty() {
            made = Self::generate(engine, secret, &[], threads, &mut go_on);
        }
        let mut key = made?.ok_or(Error::Lost)?;
        if key.public.bytes() != public {
            let reason = "its trees do not lead to its public key";
            return Err(private_key(Algorithm::Hss, reason));
        }
        key.run(Task::DecodePrivate, |key, kernels, scratch| {
            for kept in kept.into_iter().filter(|kept| kept.level > 0) {
                match key.restore(kernels, kept, scratch) {
                    // What does not fit is made again when it is needed.
                    Ok(()) | Err(gabion_scheme::Error::PrivateKey { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            key.reach(kernels, index, scratch)
        })?;
        Ok(key)
    }

    /// The sets, and the public key.
    pub fn verify_key(&self) -> &lms::VerifyKey {
        &self.public
    }

    /// How many signatures the key makes in all.
    pub fn signatures(&self) -> u64 {
        self.key.as_ref().map_or(0, |key| key.levels().signatures())
    }

    /// Bytes of a signature.
    pub fn signature_len(&self) -> usize {
        self.key.as_ref().map_or(0, |key| key.levels().signature_len())
    }

    /// What is worth keeping of its trees where it is closed: nodes, and the signed keys of lower trees. Public; see
    /// the module.
    pub fn trees(&self) -> Vec<u8> {
        let kept = self.key.as_ref().map(SigningKey::kept).unwrap_or_default();
        let mut bytes = Vec::new();
        for Kept { level, number, row, signed } in kept {
            bytes.extend_from_slice(&(level as u32).to_be_bytes());
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.extend_from_slice(&(row.len() as u64).to_be_bytes());
            bytes.extend_from_slice(&(signed.len() as u32).to_be_bytes());
            bytes.extend_from_slice(row);
            bytes.extend_from_slice(signed);
        }
        bytes
    }

    /// Signs by any index. Whoever signs two messages by one has given the key away: for tests and benchmarks
    /// alone.
    ///
    /// # Errors
    /// As [`IndexedSigner::sign_indexed`].
    pub fn testing_only_sign_at(
        &mut self,
        index: u64,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        memory::check()?;
        let len = self.signature_len();
        let bytes = messages.len().checked_mul(len);
        let mut all = memory::filled(bytes.ok_or(Error::TooMany { lanes: messages.len() })?, 0)?;
        self.run(Task::Sign, |key, kernels, scratch| {
            key.sign(kernels, index, messages, &mut all, scratch)
        })?;
        Ok(all.chunks_exact(len).map(<[u8]>::to_vec).collect())
    }

    /// Does something with the key on the best healthy kernels. A panic ends the key; after a fault the backend is
    /// tested again.
    fn run(
        &mut self,
        task: Task,
        work: impl FnOnce(
            &mut SigningKey,
            &dyn Kernels,
            &mut Scratch,
        ) -> Result<(), gabion_scheme::Error>,
    ) -> Result<(), Error> {
        let kernels = self.engine.kernels_for(Algorithm::Hss)?;
        let mut key = self.key.take().ok_or(Error::Lost)?;
        let scratch = &mut self.scratch;
        let (key, done) = guarded(task, || {
            let done = work(&mut key, kernels, scratch);
            Ok((key, done))
        })?;
        self.key = Some(key);
        done.map_err(|error| match error {
            gabion_scheme::Error::Fault(_) => {
                self.engine.suspect(Algorithm::Hss, "a signature of HSS failed its check");
                lane_error(Algorithm::Hss, task, Status::Fault)
            }
            error => error.into(),
        })
    }
}

impl IndexedSigner for StatefulKey<'_> {
    fn sign_indexed(
        &mut self,
        indexes: Indexes,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        if indexes.count() != messages.len() as u64 {
            return Err(Error::Lost);
        }
        self.testing_only_sign_at(indexes.first(), messages)
    }
}

impl fmt::Debug for StatefulKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatefulKey of {:?}", self.public)
    }
}

/// The trees of [`StatefulKey::trees`], as far as they are whole.
struct Kepts<'a>(&'a [u8]);

impl<'a> Iterator for Kepts<'a> {
    type Item = Kept<'a>;

    fn next(&mut self) -> Option<Kept<'a>> {
        let (head, rest) = self.0.split_first_chunk::<KEPT_HEAD>()?;
        let number = |from: usize, to: usize| {
            head[from..to].iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
        };
        let [level, row, signed] = [number(0, 4), number(12, 20), number(20, 24)]
            .map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let number = number(4, 12);
        let (row, rest) = rest.split_at_checked(row)?;
        let (signed, rest) = rest.split_at_checked(signed)?;
        self.0 = rest;
        Some(Kept { level, number, row, signed })
    }
}

/// Runs something over kernels, and makes an error of a panic.
fn guarded<T>(task: Task, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or(Err(Error::Panicked { algorithm: Algorithm::Hss, task }))
}

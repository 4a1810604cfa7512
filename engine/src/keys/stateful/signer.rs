//! Stateful keys with their trees: generated on several threads with progress reports, closed, and
//! opened again.
//!
//! ```text
//!   secret --StatefulKey::generate: waves of pieces on threads--> StatefulKey --sign_indexed(Indexes)--> signatures
//!      |                      |        ^                               |    ^
//!      | encode()             v        |                       trees() |    | open()
//!      v                 Progress { row }, to go on from               v    |
//!   key file                                                     the cache of trees
//! ```
//!
//! The secret is the private key: of HSS [`HssSecret`](super::hss::HssSecret), of XMSS and XMSS^MT
//! [`XmssSecret`](super::xmss::XmssSecret). Everything else can be computed from it again, but that
//! takes as long as the generation. A [`StatefulKey`] is not `Clone`, knows no index, and takes
//! [`Indexes`] by value: see [`super`].
//!
//! The result of [`StatefulKey::trees`] is public, but a signer trusts it: with a node of another
//! tree, an upper leaf would sign twice. Programs that store it must therefore authenticate it.

use std::fmt;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_backend::{Batch, Operation, Task};
use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms::StoredTree;
use gabion_scheme::{Algorithm, Status, ct};

use super::{IndexedSigner, Indexes};
use crate::error::{Error, lane_error, private_key};
use crate::memory;
use crate::route::Engine;
use crate::threads::on_threads;

/// Pieces of a wave per thread: some tens of milliseconds, which makes the cost of starting threads
/// negligible.
const PIECES_EACH: usize = 8;
/// Pieces of a wave for a device: 2^17 leaves, some tenths of a second.
const PIECES_OF_DEVICE: usize = 1 << 11;
/// Bytes before the row of a tree in [`StatefulKey::trees`]: level, number, length of the row,
/// length of what the tree above says of it.
const KEPT_HEAD: usize = 4 + 8 + 8 + 4;

/// The progress of key generation.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Leaves of the top tree that are done.
    pub done: u32,
    /// All leaves of the top tree.
    pub all: u32,
    /// The nodes computed so far, for resuming later. Public, but must be authenticated like the
    /// result of [`StatefulKey::trees`].
    pub row: &'a [u8],
}

/// The private key of a scheme, with the functions that build its trees and sign.
pub trait Secret {
    /// The generation of a key's trees.
    type Generation;
    /// A piece of it.
    type Piece<'a>: Send;
    /// A key that signs.
    type Key;
    /// The public key.
    type Public: Clone + fmt::Debug;
    /// Working memory.
    type Scratch: Default;

    /// Returns the algorithm.
    fn algorithm(&self) -> Algorithm;

    /// Starts making its trees.
    ///
    /// # Errors
    /// Those of the scheme's `Generation::new`.
    fn begin(&self) -> Result<Self::Generation, gabion_scheme::Error>;

    /// Returns the number of signatures of a key.
    fn signatures(key: &Self::Key) -> u64;

    /// Returns the signature length in bytes.
    fn signature_len(key: &Self::Key) -> usize;

    /// See `Generation::resume`.
    ///
    /// # Errors
    /// Those of `Generation::resume`.
    fn resume(
        generation: Self::Generation,
        k: &dyn Kernels,
        row: &[u8],
    ) -> Result<Self::Generation, gabion_scheme::Error>;

    /// See `Generation::progress`.
    fn progress(generation: &Self::Generation) -> (u32, u32);

    /// See `Generation::row`.
    fn row(generation: &Self::Generation) -> &[u8];

    /// See `Generation::wave`.
    fn wave(generation: &mut Self::Generation, count: usize) -> Vec<Self::Piece<'_>>;

    /// See `Generation::span`.
    fn span(generation: &mut Self::Generation, count: usize) -> Option<Self::Piece<'_>>;

    /// Returns the operation that computes the nodes of a piece as a batch, and their number.
    fn batch<'a>(&self, piece: Self::Piece<'a>) -> (Operation<'a>, usize);

    /// See `Piece::run`.
    ///
    /// # Errors
    /// Those of `Piece::run`.
    fn run(piece: Self::Piece<'_>, k: &dyn Kernels) -> Result<(), gabion_scheme::Error>;

    /// See `Generation::close`.
    fn close(generation: &mut Self::Generation, k: &dyn Kernels, count: usize);

    /// See `Generation::finish`.
    ///
    /// # Errors
    /// Those of `Generation::finish`.
    fn finish(generation: Self::Generation) -> Result<Self::Key, gabion_scheme::Error>;

    /// Returns the public key.
    fn public(key: &Self::Key) -> &Self::Public;

    /// Returns the encoding of a public key.
    fn public_bytes(public: &Self::Public) -> &[u8];

    /// See `SigningKey::stored_trees`.
    fn stored_trees(key: &Self::Key) -> Vec<StoredTree<'_>>;

    /// See `SigningKey::restore`.
    ///
    /// # Errors
    /// Those of `SigningKey::restore`.
    fn restore(
        key: &mut Self::Key,
        k: &dyn Kernels,
        kept: StoredTree<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<(), gabion_scheme::Error>;

    /// See `SigningKey::reach`.
    ///
    /// # Errors
    /// Those of `SigningKey::reach`.
    fn reach(
        key: &mut Self::Key,
        k: &dyn Kernels,
        index: u64,
        scratch: &mut Self::Scratch,
    ) -> Result<(), gabion_scheme::Error>;

    /// See `SigningKey::sign`: signs messages with consecutive indexes.
    ///
    /// # Errors
    /// Those of `SigningKey::sign`.
    fn sign(
        key: &mut Self::Key,
        k: &dyn Kernels,
        messages: (u64, &[&[u8]]),
        out: &mut [u8],
        scratch: &mut Self::Scratch,
    ) -> Result<(), gabion_scheme::Error>;
}

/// Implements the functions that have the same name in the module of every scheme.
macro_rules! of_scheme {
    ($scheme:ident) => {
        type Generation = $scheme::Generation;
        type Piece<'a> = $scheme::Piece<'a>;
        type Key = $scheme::SigningKey;
        type Public = $scheme::VerifyKey;
        type Scratch = $scheme::Scratch;

        fn resume(
            generation: Self::Generation,
            k: &dyn gabion_scheme::kernels::Kernels,
            row: &[u8],
        ) -> Result<Self::Generation, gabion_scheme::Error> {
            generation.resume(k, row)
        }

        fn progress(generation: &Self::Generation) -> (u32, u32) {
            generation.progress()
        }

        fn row(generation: &Self::Generation) -> &[u8] {
            generation.row()
        }

        fn wave(generation: &mut Self::Generation, count: usize) -> Vec<Self::Piece<'_>> {
            generation.wave(count)
        }

        fn span(generation: &mut Self::Generation, count: usize) -> Option<Self::Piece<'_>> {
            generation.span(count)
        }

        fn run(
            mut piece: Self::Piece<'_>,
            k: &dyn gabion_scheme::kernels::Kernels,
        ) -> Result<(), gabion_scheme::Error> {
            piece.run(k, &mut Self::Scratch::default())
        }

        fn close(
            generation: &mut Self::Generation,
            k: &dyn gabion_scheme::kernels::Kernels,
            count: usize,
        ) {
            generation.close(k, count);
        }

        fn finish(generation: Self::Generation) -> Result<Self::Key, gabion_scheme::Error> {
            generation.finish()
        }

        fn public(key: &Self::Key) -> &Self::Public {
            key.verify_key()
        }

        fn public_bytes(public: &Self::Public) -> &[u8] {
            public.bytes()
        }

        fn stored_trees(key: &Self::Key) -> Vec<$scheme::StoredTree<'_>> {
            key.stored_trees()
        }

        fn restore(
            key: &mut Self::Key,
            k: &dyn gabion_scheme::kernels::Kernels,
            kept: $scheme::StoredTree<'_>,
            scratch: &mut Self::Scratch,
        ) -> Result<(), gabion_scheme::Error> {
            key.restore(k, kept, scratch)
        }

        fn reach(
            key: &mut Self::Key,
            k: &dyn gabion_scheme::kernels::Kernels,
            index: u64,
            scratch: &mut Self::Scratch,
        ) -> Result<(), gabion_scheme::Error> {
            key.reach(k, index, scratch)
        }

        fn sign(
            key: &mut Self::Key,
            k: &dyn gabion_scheme::kernels::Kernels,
            (index, messages): (u64, &[&[u8]]),
            out: &mut [u8],
            scratch: &mut Self::Scratch,
        ) -> Result<(), gabion_scheme::Error> {
            key.sign(k, index, messages, out, scratch)
        }
    };
}
pub(super) use of_scheme;

/// Makes the next pieces on devices. Returns whether that succeeded; if not, the pieces are
/// unchanged.
fn made_by_devices<S: Secret>(engine: &Engine, secret: &S, made: &mut S::Generation) -> bool {
    let Some(piece) = S::span(made, PIECES_OF_DEVICE) else { return false };
    let (operation, nodes) = secret.batch(piece);
    let mut status = vec![Status::NotRun; nodes];
    let done = engine.run_on_devices(&mut Batch { operation, status: &mut status });
    done && status.iter().all(|status| status.is_ok())
}

/// A private key that signs, with the trees it signs with.
pub struct StatefulKey<'e, S: Secret> {
    engine: &'e Engine,
    algorithm: Algorithm,
    /// `None` after a panic, which may have left an invalid tree.
    key: Option<S::Key>,
    public: S::Public,
    scratch: S::Scratch,
}

impl<'e, S: Secret> StatefulKey<'e, S> {
    /// Generates the key of a secret on up to `threads` threads, starting from the nodes in `row`:
    /// those of an earlier [`Progress`], or empty. `watch` is called after each wave, a fraction of
    /// a second, and may stop the generation: then the result is `None`.
    ///
    /// # Errors
    /// [`Error::Input`] if the row does not belong to this key; no healthy backend; no memory.
    pub fn generate(
        engine: &'e Engine,
        secret: &S,
        row: &[u8],
        threads: NonZero<usize>,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Self>, Error> {
        memory::check()?;
        let algorithm = secret.algorithm();
        let kernels = engine.kernels_for(algorithm)?;
        let made = guarded((algorithm, Task::Keygen), || {
            let mut made = S::resume(secret.begin()?, kernels, row)?;
            let pieces = threads.get().saturating_mul(PIECES_EACH);
            let (done, all) = S::progress(&made);
            let mut on_devices = engine.asks_devices_for(all - done);
            loop {
                let (done, all) = S::progress(&made);
                if watch(Progress { done, all, row: S::row(&made) }).is_break() {
                    return Ok(None);
                }
                if done == all {
                    return Ok(Some(S::finish(made)?));
                }
                on_devices = on_devices && made_by_devices(engine, secret, &mut made);
                if on_devices {
                    S::close(&mut made, kernels, PIECES_OF_DEVICE);
                    continue;
                }
                let run = |piece: S::Piece<'_>| S::run(piece, kernels).map_err(Error::from);
                on_threads(threads.get(), S::wave(&mut made, pieces), run)?;
                S::close(&mut made, kernels, pieces);
            }
        })?;
        Ok(made.map(|key| {
            let public = S::public(&key).clone();
            let scratch = S::Scratch::default();
            StatefulKey { engine, algorithm, key: Some(key), public, scratch }
        }))
    }

    /// Opens an existing key with the public key `public`, to sign from `index` on. `trees` is the
    /// authenticated result of [`StatefulKey::trees`], or empty. Missing trees are computed, the
    /// top tree on up to `threads` threads, so that the first signature takes no longer than any
    /// other.
    ///
    /// # Errors
    /// [`Error::Input`] if the secret does not derive the public key, or the index does not exist;
    /// no healthy backend; no memory.
    pub fn open(
        engine: &'e Engine,
        secret: &S,
        public: &[u8],
        trees: &[u8],
        index: u64,
        threads: NonZero<usize>,
    ) -> Result<Self, Error> {
        let kept: Vec<_> = TreesView(trees).collect();
        let row = kept.iter().find(|kept| kept.level == 0).map_or(&[][..], |kept| kept.row);
        let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
        let mut made = Self::generate(engine, secret, row, threads, &mut go_on);
        if matches!(made, Err(Error::Input(_))) && !row.is_empty() {
            made = Self::generate(engine, secret, &[], threads, &mut go_on);
        }
        let mut key = made?.ok_or(Error::Lost)?;
        if S::public_bytes(&key.public) != public {
            let reason = "its trees do not lead to its public key";
            return Err(private_key(key.algorithm, reason));
        }
        key.run(Task::DecodePrivate, |key, kernels, scratch| {
            for kept in kept.into_iter().filter(|kept| kept.level > 0) {
                match S::restore(key, kernels, kept, scratch) {
                    // Cached trees that do not match are computed again when needed.
                    Ok(()) | Err(gabion_scheme::Error::PrivateKey { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            S::reach(key, kernels, index, scratch)
        })?;
        Ok(key)
    }

    /// Returns the sets and the public key.
    pub fn verify_key(&self) -> &S::Public {
        &self.public
    }

    /// Returns the total number of signatures of the key.
    pub fn signatures(&self) -> u64 {
        self.key.as_ref().map_or(0, S::signatures)
    }

    /// Returns the signature length in bytes.
    pub fn signature_len(&self) -> usize {
        self.key.as_ref().map_or(0, S::signature_len)
    }

    /// Returns the trees to cache: nodes, and the signed keys of lower trees. The result is public
    /// (see the module), and empty if there is no memory for it.
    pub fn trees(&self) -> Vec<u8> {
        let kept = self.key.as_ref().map(S::stored_trees).unwrap_or_default();
        let len = kept.iter().map(|kept| KEPT_HEAD + kept.row.len() + kept.signed.len()).sum();
        let Ok(mut bytes) = memory::room(len) else { return Vec::new() };
        for StoredTree { level, number, row, signed } in kept {
            bytes.extend_from_slice(&(level as u32).to_be_bytes());
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.extend_from_slice(&(row.len() as u64).to_be_bytes());
            bytes.extend_from_slice(&(signed.len() as u32).to_be_bytes());
            bytes.extend_from_slice(row);
            bytes.extend_from_slice(signed);
        }
        bytes
    }

    /// Signs with any index, for tests and benchmarks only. Signing two messages with one index
    /// reveals the key.
    ///
    /// # Errors
    /// Those of [`IndexedSigner::sign_indexed`].
    pub fn testing_only_sign_at(
        &mut self,
        index: u64,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        memory::check()?;
        let len = self.signature_len();
        let bytes = messages.len().checked_mul(len);
        let mut all = memory::filled(bytes.ok_or(Error::TooMany { lanes: messages.len() })?, 0)?;
        let signed = self.run(Task::Sign, |key, kernels, scratch| {
            S::sign(key, kernels, (index, messages), &mut all, scratch)
        });
        if signed.is_err() {
            // After a panic there are secrets in it, where values of one-time signatures begin.
            ct::wipe(&mut all);
        }
        signed?;
        Ok(all.chunks_exact(len).map(<[u8]>::to_vec).collect())
    }

    /// Does something with the key on the best healthy kernels. A panic ends the key; after a fault
    /// the backend is tested again.
    fn run(
        &mut self,
        task: Task,
        work: impl FnOnce(
            &mut S::Key,
            &dyn Kernels,
            &mut S::Scratch,
        ) -> Result<(), gabion_scheme::Error>,
    ) -> Result<(), Error> {
        let algorithm = self.algorithm;
        let kernels = self.engine.kernels_for(algorithm)?;
        let mut key = self.key.take().ok_or(Error::Lost)?;
        let scratch = &mut self.scratch;
        let (key, done) = guarded((algorithm, task), || {
            let done = work(&mut key, kernels, scratch);
            Ok((key, done))
        })?;
        self.key = Some(key);
        done.map_err(|error| match error {
            gabion_scheme::Error::Fault(_) => {
                self.engine.suspect(algorithm, "a signature by an index failed its check");
                lane_error(algorithm, task, Status::Fault)
            }
            error => error.into(),
        })
    }
}

impl<S: Secret> IndexedSigner for StatefulKey<'_, S> {
    fn check(&self) -> Result<(), Error> {
        memory::check()?;
        self.engine.kernels_for(self.algorithm)?;
        self.key.as_ref().map(drop).ok_or(Error::Lost)
    }

    fn sign_indexed(
        &mut self,
        indexes: Indexes,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        if indexes.count() != messages.len() as u64 {
            return Err(Error::Lost);
        }
        indexes.check_process()?;
        self.testing_only_sign_at(indexes.first(), messages)
    }
}

impl<S: Secret> fmt::Debug for StatefulKey<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatefulKey of {:?}", self.public)
    }
}

/// A view of the encoded trees of [`StatefulKey::trees`], as far as they are complete.
struct TreesView<'a>(&'a [u8]);

impl<'a> Iterator for TreesView<'a> {
    type Item = StoredTree<'a>;

    fn next(&mut self) -> Option<StoredTree<'a>> {
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
        Some(StoredTree { level, number, row, signed })
    }
}

/// Runs something over kernels, and makes an error of a panic.
pub(super) fn guarded<T>(
    (algorithm, task): (Algorithm, Task),
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Panicked { algorithm, task }))
}

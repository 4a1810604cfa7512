//! The engine: runs single operations and batches on the backends, and is used by all frontends.
//!
//! ```text
//!   front --(one operation)--> Engine::encaps, sign, ..  --+
//!   front --(many lanes)-----> Engine::run ----------------+--> route --> Backend::run --> statuses
//!                                                          |
//!                              self-test of (backend, algorithm) before its first use;
//!                              a backend that fails is withdrawn, and the next one runs the batch
//! ```
//!
//! - A single operation runs immediately on the calling thread, as a batch of one.
//! - Loading the library runs no code: [`Engine::global`] detects the machine at its first call.
//!   Threads are started only on request ([`Engine::parallel`], [`Engine::run_parallel`],
//!   [`Queue::with_workers`]). A self-test runs on the caller's thread, on a separate stack.
//! - All state that a fork copies is immutable, atomic or unused working memory, so a forked child
//!   continues with its copy. Whatever another thread was computing at the fork (a self-test, a
//!   table, data derived from a key) the child computes again. The exception are the curves of
//!   RustCrypto (P-521, and others where graviola is not used): the child may have to wait for
//!   their table. See docs/guide/engine.md.
//! - Randomness comes from the caller's [`Entropy`], drawn once per batch.
//! - Signatures are verified before they are returned only with [`Config::verify_after_sign`], off
//!   by default. Those of stateful keys always are.
//!
//! # Examples
//! ```
//! use gabion_engine::{Algorithm, Engine, OsEntropy};
//!
//! let engine = Engine::global()?;
//! let key = engine.kem_generate(Algorithm::MlKem768, &OsEntropy)?;
//! let (ciphertext, shared) = engine.encaps(&key.public(), &OsEntropy)?;
//! assert_eq!(engine.decaps(&key, &ciphertext)?, shared);
//! # Ok::<(), gabion_engine::Error>(())
//! ```

#![forbid(unsafe_code)]

/// Compiles the example of the crate's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod after_sign;
mod cache;
mod code;
mod config;
mod ecc;
pub mod ecdsa;
mod entropy;
mod error;
mod family;
#[cfg(feature = "cuda")]
pub mod gpu;
pub mod key_file;
pub mod key_schedule;
pub mod keys;
mod known_answers;
pub mod memory;
mod parallel;
mod pieces;
mod queue;
mod route;
mod self_test;
mod start;
mod sync;
mod threads;

pub use cache::{CacheStats, KeyCache};
pub use code::code_of;
pub use config::{BACKEND_VARIABLE, Config, GPU_VARIABLE, VERIFY_VARIABLE};
pub use entropy::{Entropy, OsEntropy, Randomness};
pub use error::{EntropyError, Error};
pub use gabion_backend::{
    Backend, Batch, BatchOutcome, Dsa, Ed25519, FnDsa, Hss, Kem, Keys, Operation, Slh, Task,
    X25519, Xmss,
};
pub use gabion_backend::{forks, host, rights};
pub use gabion_scheme::Error as InputError;
pub use gabion_scheme::algorithms::{
    ALGORITHMS, AlgorithmInfo, Codepoint, Family, Kind, OLD_NAMES, OldName, OldSizes, Part, Size,
    UnknownAlgorithm,
};
pub use gabion_scheme::message::Message;
pub use gabion_scheme::prehash::Prehash;
pub use gabion_scheme::room::with_room;
pub use gabion_scheme::{Algorithm, Status, ct, ed25519, lms, ml_dsa, ml_kem, slh_dsa, xmss};
pub use keys::exchange::{ExchangePrivateKey, ExchangePublicKey, clamp};
pub use keys::kem::{KemPrivateKey, KemPublicKey, SharedSecret};
pub use keys::signature::{SigningKey, VerifyKey};
pub use parallel::Parallel;
pub use pieces::Pieces;
#[cfg(fuzzing)]
pub use queue::testing_only_schedule;
pub use queue::{Limits, Queue, Ticket};
pub use route::{BackendReport, BackendState, DeviceCounts, Engine, watch_devices};

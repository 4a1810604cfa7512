//! The seam between the engine and what runs a batch.
//!
//! A batch is one operation of one parameter set over `n` lanes. Inputs and outputs are contiguous
//! arrays of fixed-size byte strings, `[lane][byte]`, so that a device can take them as they are;
//! messages, whose lengths differ, come as slices. Keys come encoded (fresh) or expanded (known).
//!
//! # Contract of every backend
//! - Each lane ends with one [`Status`]. A bad input fails its own lane only.
//! - An output is complete where the lane says [`Status::Ok`] and all zero everywhere else.
//! - The engine sets every status to [`Status::NotRun`] beforehand, so a lost batch is no success.
//! - Lengths that do not fit each other are a misuse: [`Batch::check`] names it before anything
//!   runs, and `run` may panic on a batch that was not checked.

mod ed25519;
mod fn_dsa;
mod outputs;
mod slh;
mod split;
mod task;
mod x25519;

use gabion_scheme::error::{Error, Status};
use gabion_scheme::{Algorithm, ml_dsa, ml_kem};

pub use ed25519::Ed25519;
pub use fn_dsa::FnDsa;
pub use slh::Slh;
pub use task::Task;
pub use x25519::X25519;

/// The keys of a batch.
pub enum Keys<'a, T> {
    /// One encoded key a lane, contiguous. They are decoded, checked and expanded on the way.
    Fresh(&'a [u8]),
    /// One expanded key a lane; the same reference may stand in many lanes.
    Known(&'a [&'a T]),
}

impl<T> Keys<'_, T> {
    /// Whether these are the keys of `lanes` lanes, `len` bytes each where encoded.
    fn fit(&self, lanes: usize, len: usize, is_of: impl Fn(&T) -> bool) -> bool {
        match self {
            Keys::Fresh(bytes) => bytes.len() == lanes * len,
            Keys::Known(keys) => keys.len() == lanes && keys.iter().all(|key| is_of(key)),
        }
    }
}

/// What a batch does. `n` is the number of lanes.
pub enum Operation<'a> {
    /// ML-KEM key pairs from seeds, encoded: `ek[n][ek_len]`, `dk[n][dk_len]`.
    KemKeygen {
        /// The parameter set.
        params: &'static ml_kem::Params,
        /// Seeds (d, z).
        seeds: &'a [[u8; ml_kem::SEED_LEN]],
        /// Encapsulation keys.
        ek: &'a mut [u8],
        /// Decapsulation keys.
        dk: &'a mut [u8],
    },
    /// ML-KEM key pairs from seeds, expanded for use.
    KemGenerate {
        /// The parameter set.
        params: &'static ml_kem::Params,
        /// Seeds (d, z).
        seeds: &'a [[u8; ml_kem::SEED_LEN]],
        /// Where the keys go; blank before.
        keys: &'a mut [ml_kem::DecapsKey],
    },
    /// ML-KEM encapsulation keys, decoded, checked and expanded for use.
    KemDecodePublic {
        /// The parameter set.
        params: &'static ml_kem::Params,
        /// Encoded keys `[n][ek_len]`.
        bytes: &'a [u8],
        /// Where the keys go; blank before.
        keys: &'a mut [ml_kem::EncapsKey],
    },
    /// ML-KEM decapsulation keys, decoded, checked and expanded for use.
    KemDecodePrivate {
        /// The parameter set.
        params: &'static ml_kem::Params,
        /// Encoded keys `[n][dk_len]`.
        bytes: &'a [u8],
        /// Where the keys go; blank before.
        keys: &'a mut [ml_kem::DecapsKey],
    },
    /// Encapsulation: `ct[n][ct_len]`, `shared[n]`.
    KemEncaps {
        /// The parameter set.
        params: &'static ml_kem::Params,
        /// Encapsulation keys.
        keys: Keys<'a, ml_kem::EncapsKey>,
        /// Randomness m.
        m: &'a [[u8; ml_kem::SECRET_LEN]],
        /// Ciphertexts.
        ct: &'a mut [u8],
        /// Shared secrets.
        shared: &'a mut [[u8; ml_kem::SECRET_LEN]],
    },
    /// Decapsulation of `ct[n][ct_len]` into `shared[n]`.
    KemDecaps {
        /// The parameter set.
        params: &'static ml_kem::Params,
        /// Decapsulation keys.
        keys: Keys<'a, ml_kem::DecapsKey>,
        /// Ciphertexts.
        ct: &'a [u8],
        /// Shared secrets.
        shared: &'a mut [[u8; ml_kem::SECRET_LEN]],
    },
    /// ML-DSA key pairs from seeds, encoded: `pk[n][pk_len]`, `sk[n][sk_len]`.
    DsaKeygen {
        /// The parameter set.
        params: &'static ml_dsa::Params,
        /// Seeds xi.
        seeds: &'a [[u8; ml_dsa::SEED_LEN]],
        /// Public keys.
        pk: &'a mut [u8],
        /// Private keys, expanded form.
        sk: &'a mut [u8],
    },
    /// ML-DSA key pairs from seeds, expanded for use.
    DsaGenerate {
        /// The parameter set.
        params: &'static ml_dsa::Params,
        /// Seeds xi.
        seeds: &'a [[u8; ml_dsa::SEED_LEN]],
        /// Where the keys go; blank before.
        keys: &'a mut [ml_dsa::SigningKey],
    },
    /// ML-DSA public keys, decoded and expanded for use.
    DsaDecodePublic {
        /// The parameter set.
        params: &'static ml_dsa::Params,
        /// Encoded keys `[n][pk_len]`.
        bytes: &'a [u8],
        /// Where the keys go; blank before.
        keys: &'a mut [ml_dsa::VerifyKey],
    },
    /// ML-DSA private keys, decoded, checked and expanded for use.
    DsaDecodePrivate {
        /// The parameter set.
        params: &'static ml_dsa::Params,
        /// Encoded keys `[n][sk_len]`.
        bytes: &'a [u8],
        /// Where the keys go; blank before.
        keys: &'a mut [ml_dsa::SigningKey],
    },
    /// Signatures `sig[n][sig_len]`.
    DsaSign {
        /// The parameter set.
        params: &'static ml_dsa::Params,
        /// Private keys.
        keys: Keys<'a, ml_dsa::SigningKey>,
        /// What is signed.
        messages: &'a [ml_dsa::Message<'a>],
        /// Randomness rnd; all zero for the deterministic variant.
        rnd: &'a [[u8; 32]],
        /// Signatures.
        sig: &'a mut [u8],
    },
    /// Verification of `sig[n][sig_len]`.
    DsaVerify {
        /// The parameter set.
        params: &'static ml_dsa::Params,
        /// Public keys.
        keys: Keys<'a, ml_dsa::VerifyKey>,
        /// What was signed.
        messages: &'a [ml_dsa::Message<'a>],
        /// Signatures.
        sig: &'a [u8],
    },
    /// SLH-DSA.
    Slh(Slh<'a>),
    /// Ed25519.
    Ed25519(Ed25519<'a>),
    /// FN-DSA and Falcon.
    FnDsa(FnDsa<'a>),
    /// X25519.
    X25519(X25519<'a>),
}

/// One operation over `status.len()` lanes.
pub struct Batch<'a> {
    /// What to do, with its inputs and outputs.
    pub operation: Operation<'a>,
    /// One verdict a lane.
    pub status: &'a mut [Status],
}

impl Batch<'_> {
    /// The parameter set of the batch.
    pub fn algorithm(&self) -> Algorithm {
        match &self.operation {
            Operation::KemKeygen { params, .. }
            | Operation::KemGenerate { params, .. }
            | Operation::KemDecodePublic { params, .. }
            | Operation::KemDecodePrivate { params, .. }
            | Operation::KemEncaps { params, .. }
            | Operation::KemDecaps { params, .. } => params.algorithm,
            Operation::DsaKeygen { params, .. }
            | Operation::DsaGenerate { params, .. }
            | Operation::DsaDecodePublic { params, .. }
            | Operation::DsaDecodePrivate { params, .. }
            | Operation::DsaSign { params, .. }
            | Operation::DsaVerify { params, .. } => params.algorithm,
            Operation::Slh(operation) => operation.algorithm(),
            Operation::Ed25519(operation) => operation.algorithm(),
            Operation::FnDsa(operation) => operation.algorithm(),
            Operation::X25519(operation) => operation.algorithm(),
        }
    }

    /// The number of lanes.
    pub fn lanes(&self) -> usize {
        self.status.len()
    }

    /// What the batch does, for messages.
    pub fn task(&self) -> Task {
        match &self.operation {
            Operation::KemKeygen { .. } | Operation::KemGenerate { .. } => Task::Keygen,
            Operation::DsaKeygen { .. } | Operation::DsaGenerate { .. } => Task::Keygen,
            Operation::KemDecodePublic { .. } | Operation::DsaDecodePublic { .. } => {
                Task::DecodePublic
            }
            Operation::KemDecodePrivate { .. } | Operation::DsaDecodePrivate { .. } => {
                Task::DecodePrivate
            }
            Operation::KemEncaps { .. } => Task::Encaps,
            Operation::KemDecaps { .. } => Task::Decaps,
            Operation::DsaSign { .. } => Task::Sign,
            Operation::DsaVerify { .. } => Task::Verify,
            Operation::Slh(operation) => operation.task(),
            Operation::Ed25519(operation) => operation.task(),
            Operation::FnDsa(operation) => operation.task(),
            Operation::X25519(operation) => operation.task(),
        }
    }

    /// Checks that every array has the shape that the number of lanes asks for, and that every known
    /// key is one: a blank or refused key computes too, and protects nothing.
    ///
    /// # Errors
    /// [`Error::Batch`].
    pub fn check(&self) -> Result<(), Error> {
        let n = self.lanes();
        let fits = match &self.operation {
            Operation::KemKeygen { params: p, seeds, ek, dk } => {
                seeds.len() == n && ek.len() == n * p.ek_len() && dk.len() == n * p.dk_len()
            }
            Operation::KemGenerate { params: p, seeds, keys } => {
                seeds.len() == n && keys.len() == n && keys.iter().all(|key| key.params() == *p)
            }
            Operation::KemDecodePublic { params: p, bytes, keys } => {
                bytes.len() == n * p.ek_len()
                    && keys.len() == n
                    && keys.iter().all(|key| key.params() == *p)
            }
            Operation::KemDecodePrivate { params: p, bytes, keys } => {
                bytes.len() == n * p.dk_len()
                    && keys.len() == n
                    && keys.iter().all(|key| key.params() == *p)
            }
            Operation::KemEncaps { params: p, keys, m, ct, shared } => {
                keys.fit(n, p.ek_len(), |key| key.is_expanded() && key.params() == *p)
                    && m.len() == n
                    && ct.len() == n * p.ct_len()
                    && shared.len() == n
            }
            Operation::KemDecaps { params: p, keys, ct, shared } => {
                keys.fit(n, p.dk_len(), |key| key.is_expanded() && key.params() == *p)
                    && ct.len() == n * p.ct_len()
                    && shared.len() == n
            }
            Operation::DsaKeygen { params: p, seeds, pk, sk } => {
                seeds.len() == n && pk.len() == n * p.pk_len() && sk.len() == n * p.sk_len()
            }
            Operation::DsaGenerate { seeds, keys, .. } => seeds.len() == n && keys.len() == n,
            Operation::DsaDecodePublic { params: p, bytes, keys } => {
                bytes.len() == n * p.pk_len() && keys.len() == n
            }
            Operation::DsaDecodePrivate { params: p, bytes, keys } => {
                bytes.len() == n * p.sk_len() && keys.len() == n
            }
            Operation::DsaSign { params: p, keys, messages, rnd, sig } => {
                keys.fit(n, p.sk_len(), |key| key.is_expanded() && key.params() == *p)
                    && messages.len() == n
                    && rnd.len() == n
                    && sig.len() == n * p.sig_len()
            }
            Operation::DsaVerify { params: p, keys, messages, sig } => {
                keys.fit(n, p.pk_len(), |key| key.is_expanded() && key.params() == *p)
                    && messages.len() == n
                    && sig.len() == n * p.sig_len()
            }
            Operation::Slh(operation) => operation.fits(n),
            Operation::Ed25519(operation) => operation.fits(n),
            Operation::FnDsa(operation) => operation.fits(n),
            Operation::X25519(operation) => operation.fits(n),
        };
        if fits {
            return Ok(());
        }
        Err(Error::Batch { lanes: n })
    }
}

/// What can run a batch.
pub trait Backend: Send + Sync {
    /// A short name for reports and for `GABION_BACKEND`.
    fn name(&self) -> &'static str;

    /// Operations that run side by side for the price of about one.
    fn lanes(&self) -> usize;

    /// Runs a checked batch to its end and sets every status.
    fn run(&self, batch: &mut Batch<'_>);
}

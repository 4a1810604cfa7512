//! The operations of FN-DSA and Falcon.

use gabion_scheme::Algorithm;
use gabion_scheme::ct;
use gabion_scheme::fn_dsa::{Params, RANDOM_LEN, SEED_LEN, SigningKey, VerifyKey};
use gabion_scheme::message::Message;

use super::{Keys, Task};

/// What a batch of FN-DSA or Falcon does. `n` is the number of lanes.
pub enum FnDsa<'a> {
    /// Key pairs from seeds.
    Generate {
        /// The parameter set.
        params: &'static Params,
        /// Seeds.
        seeds: &'a [[u8; SEED_LEN]],
        /// Where the keys go.
        keys: &'a mut [Option<SigningKey>],
    },
    /// Public keys, decoded and checked.
    DecodePublic {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][pk_len]`.
        bytes: &'a [u8],
        /// Where the keys go.
        keys: &'a mut [Option<VerifyKey>],
    },
    /// Private keys, decoded and checked.
    DecodePrivate {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][sk_len]`.
        bytes: &'a [u8],
        /// Where the keys go.
        keys: &'a mut [Option<SigningKey>],
    },
    /// Signatures `sig[n][sig_len_max]`, with zeros behind those that are shorter;
    /// [`gabion_scheme::fn_dsa::made_len`] says where one ends.
    Sign {
        /// The parameter set.
        params: &'static Params,
        /// Private keys.
        keys: Keys<'a, SigningKey>,
        /// What is signed.
        messages: &'a [Message<'a>],
        /// Randomness.
        random: &'a [[u8; RANDOM_LEN]],
        /// Signatures.
        sig: &'a mut [u8],
    },
    /// Verification of `sig[n][sig_len_max]`, of which `lengths[n]` bytes are the signature.
    Verify {
        /// The parameter set.
        params: &'static Params,
        /// Public keys.
        keys: Keys<'a, VerifyKey>,
        /// What was signed.
        messages: &'a [Message<'a>],
        /// Signatures.
        sig: &'a [u8],
        /// Their lengths.
        lengths: &'a [usize],
    },
}

impl<'a> FnDsa<'a> {
    fn params(&self) -> &'static Params {
        match self {
            FnDsa::Generate { params, .. }
            | FnDsa::DecodePublic { params, .. }
            | FnDsa::DecodePrivate { params, .. }
            | FnDsa::Sign { params, .. }
            | FnDsa::Verify { params, .. } => params,
        }
    }

    /// The parameter set.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.params().algorithm
    }

    /// What it does, for messages.
    pub(super) fn task(&self) -> Task {
        match self {
            FnDsa::Generate { .. } => Task::Keygen,
            FnDsa::DecodePublic { .. } => Task::DecodePublic,
            FnDsa::DecodePrivate { .. } => Task::DecodePrivate,
            FnDsa::Sign { .. } => Task::Sign,
            FnDsa::Verify { .. } => Task::Verify,
        }
    }

    /// Whether the arrays are those of `n` lanes.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            FnDsa::Generate { seeds, keys, .. } => seeds.len() == n && keys.len() == n,
            FnDsa::DecodePublic { params: p, bytes, keys } => {
                bytes.len() == n * p.pk_len() && keys.len() == n
            }
            FnDsa::DecodePrivate { params: p, bytes, keys } => {
                bytes.len() == n * p.sk_len() && keys.len() == n
            }
            FnDsa::Sign { params: p, keys, messages, random, sig } => {
                keys.fit(n, p.sk_len(), |key| key.params() == *p)
                    && messages.len() == n
                    && random.len() == n
                    && sig.len() == n * p.sig_len_max()
            }
            FnDsa::Verify { params: p, keys, messages, sig, lengths } => {
                keys.fit(n, p.pk_len(), |key| key.params() == *p)
                    && messages.len() == n
                    && sig.len() == n * p.sig_len_max()
                    && lengths.len() == n
                    && lengths.iter().all(|&length| length <= p.sig_len_max())
            }
        }
    }

    /// Clears the output of one lane.
    pub(super) fn clear(&mut self, lane: usize) {
        match self {
            FnDsa::Generate { keys, .. } | FnDsa::DecodePrivate { keys, .. } => keys[lane] = None,
            FnDsa::DecodePublic { keys, .. } => keys[lane] = None,
            FnDsa::Sign { params, sig, .. } => {
                let len = params.sig_len_max();
                ct::wipe(&mut sig[lane * len..(lane + 1) * len]);
            }
            FnDsa::Verify { .. } => {}
        }
    }
    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            FnDsa::Generate { params, seeds, keys } => {
                let (seeds, keys) = (seeds.split_at(lane), keys.split_at_mut(lane));
                (
                    FnDsa::Generate { params, seeds: seeds.0, keys: keys.0 },
                    FnDsa::Generate { params, seeds: seeds.1, keys: keys.1 },
                )
            }
            FnDsa::DecodePublic { params, bytes, keys } => {
                let (bytes, keys) =
                    (bytes.split_at(lane * params.pk_len()), keys.split_at_mut(lane));
                (
                    FnDsa::DecodePublic { params, bytes: bytes.0, keys: keys.0 },
                    FnDsa::DecodePublic { params, bytes: bytes.1, keys: keys.1 },
                )
            }
            FnDsa::DecodePrivate { params, bytes, keys } => {
                let (bytes, keys) =
                    (bytes.split_at(lane * params.sk_len()), keys.split_at_mut(lane));
                (
                    FnDsa::DecodePrivate { params, bytes: bytes.0, keys: keys.0 },
                    FnDsa::DecodePrivate { params, bytes: bytes.1, keys: keys.1 },
                )
            }
            FnDsa::Sign { params, keys, messages, random, sig } => {
                let keys = keys.split_at(lane, params.sk_len());
                let (messages, random) = (messages.split_at(lane), random.split_at(lane));
                let sig = sig.split_at_mut(lane * params.sig_len_max());
                let half = |keys, messages, random, sig| FnDsa::Sign {
                    params,
                    keys,
                    messages,
                    random,
                    sig,
                };
                (
                    half(keys.0, messages.0, random.0, sig.0),
                    half(keys.1, messages.1, random.1, sig.1),
                )
            }
            FnDsa::Verify { params, keys, messages, sig, lengths } => {
                let keys = keys.split_at(lane, params.pk_len());
                let (messages, lengths) = (messages.split_at(lane), lengths.split_at(lane));
                let sig = sig.split_at(lane * params.sig_len_max());
                let half = |keys, messages, sig, lengths| FnDsa::Verify {
                    params,
                    keys,
                    messages,
                    sig,
                    lengths,
                };
                (
                    half(keys.0, messages.0, sig.0, lengths.0),
                    half(keys.1, messages.1, sig.1, lengths.1),
                )
            }
        }
    }

    /// The same operation for a shorter time.
    pub(super) fn reborrow(&mut self) -> FnDsa<'_> {
        match self {
            FnDsa::Generate { params, seeds, keys } => FnDsa::Generate { params, seeds, keys },
            FnDsa::DecodePublic { params, bytes, keys } => {
                FnDsa::DecodePublic { params, bytes, keys }
            }
            FnDsa::DecodePrivate { params, bytes, keys } => {
                FnDsa::DecodePrivate { params, bytes, keys }
            }
            FnDsa::Sign { params, keys, messages, random, sig } => {
                FnDsa::Sign { params, keys: keys.reborrow(), messages, random, sig }
            }
            FnDsa::Verify { params, keys, messages, sig, lengths } => {
                FnDsa::Verify { params, keys: keys.reborrow(), messages, sig, lengths }
            }
        }
    }
}

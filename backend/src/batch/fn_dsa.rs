//! The operations of FN-DSA and Falcon.

use gabion_scheme::Algorithm;
use gabion_scheme::fn_dsa::{Params, RANDOM_LEN, SEED_LEN, SigningKey, VerifyKey};
use gabion_scheme::message::Message;

use super::outputs::wipe;
use super::split::halves;
use super::{Keys, Task};

/// An operation of FN-DSA or Falcon. `n` is the number of lanes.
pub enum FnDsa<'a> {
    /// Key pairs from seeds.
    Generate {
        /// The parameter set.
        params: &'static Params,
        /// Seeds.
        seeds: &'a [[u8; SEED_LEN]],
        /// The output keys.
        keys: &'a mut [Option<SigningKey>],
    },
    /// Public keys, decoded and checked.
    DecodePublic {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][pk_len]`.
        bytes: &'a [u8],
        /// The output keys.
        keys: &'a mut [Option<VerifyKey>],
    },
    /// Private keys, decoded and checked.
    DecodePrivate {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][sk_len]`.
        bytes: &'a [u8],
        /// The output keys.
        keys: &'a mut [Option<SigningKey>],
    },
    /// Signatures `sig[n][sig_len_max]`, with zeros behind those that are shorter;
    /// [`gabion_scheme::fn_dsa::made_len`] says where one ends.
    Sign {
        /// The parameter set.
        params: &'static Params,
        /// Private keys.
        keys: Keys<'a, SigningKey>,
        /// The messages to sign.
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
        /// The signed messages.
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

    /// Returns the task, for messages.
    pub(super) fn task(&self) -> Task {
        match self {
            FnDsa::Generate { .. } => Task::Keygen,
            FnDsa::DecodePublic { .. } => Task::DecodePublic,
            FnDsa::DecodePrivate { .. } => Task::DecodePrivate,
            FnDsa::Sign { .. } => Task::Sign,
            FnDsa::Verify { .. } => Task::Verify,
        }
    }

    /// Returns whether the arrays are those of `n` lanes.
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
            FnDsa::Sign { params, sig, .. } => wipe(sig, lane, params.sig_len_max()),
            FnDsa::Verify { .. } => {}
        }
    }

    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            FnDsa::Generate { params, seeds, keys } => {
                halves!(lane, FnDsa::Generate { params; each seeds, each_mut keys })
            }
            FnDsa::DecodePublic { params, bytes, keys } => {
                halves!(lane, FnDsa::DecodePublic { params; bytes bytes[pk_len], each_mut keys })
            }
            FnDsa::DecodePrivate { params, bytes, keys } => {
                halves!(lane, FnDsa::DecodePrivate { params; bytes bytes[sk_len], each_mut keys })
            }
            FnDsa::Sign { params, keys, messages, random, sig } => halves!(lane,
                FnDsa::Sign { params; keys keys[sk_len], each messages, each random,
                    bytes_mut sig[sig_len_max] }),
            FnDsa::Verify { params, keys, messages, sig, lengths } => halves!(lane,
                FnDsa::Verify { params; keys keys[pk_len], each messages, bytes sig[sig_len_max],
                    each lengths }),
        }
    }

    /// Reborrows the operation for a shorter lifetime.
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

//! The operations of SLH-DSA.

use gabion_scheme::Algorithm;
use gabion_scheme::message::Message;
use gabion_scheme::slh_dsa::{Params, SigningKey, VerifyKey};

use super::outputs::wipe;
use super::split::halves;
use super::{Keys, Task};

/// An operation of SLH-DSA. `n` is the number of lanes.
pub enum Slh<'a> {
    /// Key pairs from seeds, expanded for use.
    Generate {
        /// The parameter set.
        params: &'static Params,
        /// SK.seed, SK.prf and PK.seed of each key, `[n][seed_len]`.
        seeds: &'a [u8],
        /// The output keys; blank before.
        keys: &'a mut [SigningKey],
    },
    /// Public keys, decoded.
    DecodePublic {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][pk_len]`.
        bytes: &'a [u8],
        /// The output keys; blank before.
        keys: &'a mut [VerifyKey],
    },
    /// Private keys, decoded, checked and expanded for use.
    DecodePrivate {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][sk_len]`.
        bytes: &'a [u8],
        /// The output keys; blank before.
        keys: &'a mut [SigningKey],
    },
    /// Signatures `sig[n][sig_len]`.
    Sign {
        /// The parameter set.
        params: &'static Params,
        /// Private keys.
        keys: Keys<'a, SigningKey>,
        /// The messages to sign.
        messages: &'a [Message<'a>],
        /// Randomness opt_rand, as many bytes a lane as a hash value has; none for the
        /// deterministic variant.
        opt_rand: Option<&'a [u8]>,
        /// Signatures.
        sig: &'a mut [u8],
    },
    /// Verification of `sig[n][sig_len]`.
    Verify {
        /// The parameter set.
        params: &'static Params,
        /// Public keys.
        keys: Keys<'a, VerifyKey>,
        /// The signed messages.
        messages: &'a [Message<'a>],
        /// Signatures.
        sig: &'a [u8],
    },
}

impl Slh<'_> {
    /// The parameter set.
    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Slh::Generate { params, .. }
            | Slh::DecodePublic { params, .. }
            | Slh::DecodePrivate { params, .. }
            | Slh::Sign { params, .. }
            | Slh::Verify { params, .. } => params.algorithm,
        }
    }

    /// Returns the task, for messages.
    pub(super) fn task(&self) -> Task {
        match self {
            Slh::Generate { .. } => Task::Keygen,
            Slh::DecodePublic { .. } => Task::DecodePublic,
            Slh::DecodePrivate { .. } => Task::DecodePrivate,
            Slh::Sign { .. } => Task::Sign,
            Slh::Verify { .. } => Task::Verify,
        }
    }

    /// Returns whether the arrays are those of `n` lanes, and known keys are keys.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            Slh::Generate { params: p, seeds, keys } => {
                seeds.len() == n * p.seed_len() && keys.len() == n
            }
            Slh::DecodePublic { params: p, bytes, keys } => {
                bytes.len() == n * p.pk_len() && keys.len() == n
            }
            Slh::DecodePrivate { params: p, bytes, keys } => {
                bytes.len() == n * p.sk_len() && keys.len() == n
            }
            Slh::Sign { params: p, keys, messages, opt_rand, sig } => {
                keys.fit(n, p.sk_len(), |key| key.is_expanded() && key.params() == *p)
                    && messages.len() == n
                    && opt_rand.is_none_or(|bytes| bytes.len() == n * p.opt_rand_len())
                    && sig.len() == n * p.sig_len()
            }
            Slh::Verify { params: p, keys, messages, sig } => {
                keys.fit(n, p.pk_len(), |key| key.is_expanded() && key.params() == *p)
                    && messages.len() == n
                    && sig.len() == n * p.sig_len()
            }
        }
    }

    /// Clears the output of one lane.
    pub(super) fn clear(&mut self, lane: usize) {
        match self {
            Slh::Generate { params, keys, .. } | Slh::DecodePrivate { params, keys, .. } => {
                keys[lane] = SigningKey::blank(params);
            }
            Slh::DecodePublic { params, keys, .. } => keys[lane] = VerifyKey::blank(params),
            Slh::Sign { params, sig, .. } => wipe(sig, lane, params.sig_len()),
            Slh::Verify { .. } => {}
        }
    }
}

impl<'a> Slh<'a> {
    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            Slh::Generate { params, seeds, keys } => {
                halves!(lane, Slh::Generate { params; bytes seeds[seed_len], each_mut keys })
            }
            Slh::DecodePublic { params, bytes, keys } => {
                halves!(lane, Slh::DecodePublic { params; bytes bytes[pk_len], each_mut keys })
            }
            Slh::DecodePrivate { params, bytes, keys } => {
                halves!(lane, Slh::DecodePrivate { params; bytes bytes[sk_len], each_mut keys })
            }
            Slh::Sign { params, keys, messages, opt_rand, sig } => {
                halves!(lane, Slh::Sign { params;
                keys keys[sk_len], each messages, maybe opt_rand[opt_rand_len], bytes_mut sig[sig_len] })
            }
            Slh::Verify { params, keys, messages, sig } => halves!(lane, Slh::Verify { params;
                keys keys[pk_len], each messages, bytes sig[sig_len] }),
        }
    }

    /// Reborrows the operation for a shorter lifetime.
    pub(super) fn reborrow(&mut self) -> Slh<'_> {
        match self {
            Slh::Generate { params, seeds, keys } => Slh::Generate { params, seeds, keys },
            Slh::DecodePublic { params, bytes, keys } => Slh::DecodePublic { params, bytes, keys },
            Slh::DecodePrivate { params, bytes, keys } => {
                Slh::DecodePrivate { params, bytes, keys }
            }
            Slh::Sign { params, keys, messages, opt_rand, sig } => {
                let opt_rand = *opt_rand;
                Slh::Sign { params, keys: keys.reborrow(), messages, opt_rand, sig }
            }
            Slh::Verify { params, keys, messages, sig } => {
                Slh::Verify { params, keys: keys.reborrow(), messages, sig }
            }
        }
    }
}

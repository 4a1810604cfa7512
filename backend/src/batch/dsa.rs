//! The operations of ML-DSA.

use gabion_scheme::Algorithm;
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{Params, SEED_LEN, SigningKey, VerifyKey};

use super::outputs::wipe;
use super::split::halves;
use super::{Keys, Task};

/// An operation of ML-DSA. `n` is the number of lanes.
pub enum Dsa<'a> {
    /// Key pairs from seeds, encoded: `pk[n][pk_len]`, `sk[n][sk_len]`.
    Keygen {
        /// The parameter set.
        params: &'static Params,
        /// Seeds xi.
        seeds: &'a [[u8; SEED_LEN]],
        /// Public keys.
        pk: &'a mut [u8],
        /// Private keys, expanded form.
        sk: &'a mut [u8],
    },
    /// Key pairs from seeds, expanded for use.
    Generate {
        /// The parameter set.
        params: &'static Params,
        /// Seeds xi.
        seeds: &'a [[u8; SEED_LEN]],
        /// The output keys; blank before.
        keys: &'a mut [SigningKey],
    },
    /// Public keys, decoded and expanded for use.
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
        /// Randomness rnd; all zero for the deterministic variant.
        rnd: &'a [[u8; 32]],
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

impl<'a> Dsa<'a> {
    fn params(&self) -> &'static Params {
        match self {
            Dsa::Keygen { params, .. }
            | Dsa::Generate { params, .. }
            | Dsa::DecodePublic { params, .. }
            | Dsa::DecodePrivate { params, .. }
            | Dsa::Sign { params, .. }
            | Dsa::Verify { params, .. } => params,
        }
    }

    /// The parameter set.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.params().algorithm
    }

    /// Returns the task, for messages.
    pub(super) fn task(&self) -> Task {
        match self {
            Dsa::Keygen { .. } | Dsa::Generate { .. } => Task::Keygen,
            Dsa::DecodePublic { .. } => Task::DecodePublic,
            Dsa::DecodePrivate { .. } => Task::DecodePrivate,
            Dsa::Sign { .. } => Task::Sign,
            Dsa::Verify { .. } => Task::Verify,
        }
    }

    /// Returns whether the arrays are those of `n` lanes, and known keys are keys.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            Dsa::Keygen { params: p, seeds, pk, sk } => {
                seeds.len() == n && pk.len() == n * p.pk_len() && sk.len() == n * p.sk_len()
            }
            Dsa::Generate { seeds, keys, .. } => seeds.len() == n && keys.len() == n,
            Dsa::DecodePublic { params: p, bytes, keys } => {
                bytes.len() == n * p.pk_len() && keys.len() == n
            }
            Dsa::DecodePrivate { params: p, bytes, keys } => {
                bytes.len() == n * p.sk_len() && keys.len() == n
            }
            Dsa::Sign { params: p, keys, messages, rnd, sig } => {
                keys.fit(n, p.sk_len(), |key| key.is_expanded() && key.params() == *p)
                    && messages.len() == n
                    && rnd.len() == n
                    && sig.len() == n * p.sig_len()
            }
            Dsa::Verify { params: p, keys, messages, sig } => {
                keys.fit(n, p.pk_len(), |key| key.is_expanded() && key.params() == *p)
                    && messages.len() == n
                    && sig.len() == n * p.sig_len()
            }
        }
    }

    /// Clears the output of one lane.
    pub(super) fn clear(&mut self, lane: usize) {
        match self {
            Dsa::Keygen { params, pk, sk, .. } => {
                wipe(pk, lane, params.pk_len());
                wipe(sk, lane, params.sk_len());
            }
            Dsa::Generate { params, keys, .. } | Dsa::DecodePrivate { params, keys, .. } => {
                keys[lane] = SigningKey::blank(params);
            }
            Dsa::DecodePublic { params, keys, .. } => keys[lane] = VerifyKey::blank(params),
            Dsa::Sign { params, sig, .. } => wipe(sig, lane, params.sig_len()),
            Dsa::Verify { .. } => {}
        }
    }

    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            Dsa::Keygen { params, seeds, pk, sk } => halves!(lane, Dsa::Keygen { params;
                each seeds, bytes_mut pk[pk_len], bytes_mut sk[sk_len] }),
            Dsa::Generate { params, seeds, keys } => {
                halves!(lane, Dsa::Generate { params; each seeds, each_mut keys })
            }
            Dsa::DecodePublic { params, bytes, keys } => {
                halves!(lane, Dsa::DecodePublic { params; bytes bytes[pk_len], each_mut keys })
            }
            Dsa::DecodePrivate { params, bytes, keys } => {
                halves!(lane, Dsa::DecodePrivate { params; bytes bytes[sk_len], each_mut keys })
            }
            Dsa::Sign { params, keys, messages, rnd, sig } => halves!(lane, Dsa::Sign { params;
                keys keys[sk_len], each messages, each rnd, bytes_mut sig[sig_len] }),
            Dsa::Verify { params, keys, messages, sig } => halves!(lane, Dsa::Verify { params;
                keys keys[pk_len], each messages, bytes sig[sig_len] }),
        }
    }

    /// Reborrows the operation for a shorter lifetime.
    pub(super) fn reborrow(&mut self) -> Dsa<'_> {
        match self {
            Dsa::Keygen { params, seeds, pk, sk } => Dsa::Keygen { params, seeds, pk, sk },
            Dsa::Generate { params, seeds, keys } => Dsa::Generate { params, seeds, keys },
            Dsa::DecodePublic { params, bytes, keys } => Dsa::DecodePublic { params, bytes, keys },
            Dsa::DecodePrivate { params, bytes, keys } => {
                Dsa::DecodePrivate { params, bytes, keys }
            }
            Dsa::Sign { params, keys, messages, rnd, sig } => {
                Dsa::Sign { params, keys: keys.reborrow(), messages, rnd, sig }
            }
            Dsa::Verify { params, keys, messages, sig } => {
                Dsa::Verify { params, keys: keys.reborrow(), messages, sig }
            }
        }
    }
}

//! The operations of Ed25519.

use gabion_scheme::Algorithm;
use gabion_scheme::ct;
use gabion_scheme::ed25519::{PUBLIC_LEN, Rules, SEED_LEN, SIGNATURE_LEN, SigningKey, VerifyKey};

use super::{Keys, Task};

/// An operation of Ed25519 over `n` lanes.
pub enum Ed25519<'a> {
    /// Key pairs from seeds (RFC 8032, section 5.1.5).
    Generate {
        /// Seeds.
        seeds: &'a [[u8; SEED_LEN]],
        /// The output keys; blank before.
        keys: &'a mut [SigningKey],
    },
    /// Signatures (RFC 8032, section 5.1.6).
    Sign {
        /// Private keys.
        keys: &'a [&'a SigningKey],
        /// The messages to sign.
        messages: &'a [&'a [u8]],
        /// Signatures `[n][64]`.
        sig: &'a mut [u8],
    },
    /// Verification under a set of rules.
    Verify {
        /// The rules; known keys were decoded under them.
        rules: Rules,
        /// Public keys.
        keys: Keys<'a, VerifyKey>,
        /// The signed messages.
        messages: &'a [&'a [u8]],
        /// Signatures `[n][64]`.
        sig: &'a [u8],
        /// 128 random bits for each lane: under [`Rules::Zip215`] all lanes are then verified by one
        /// equation, with the verdicts that they have without.
        z: Option<&'a [[u8; 16]]>,
    },
}

impl<'a> Ed25519<'a> {
    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            Ed25519::Generate { seeds, keys } => {
                let (seeds, keys) = (seeds.split_at(lane), keys.split_at_mut(lane));
                let piece = |seeds, keys| Ed25519::Generate { seeds, keys };
                (piece(seeds.0, keys.0), piece(seeds.1, keys.1))
            }
            Ed25519::Sign { keys, messages, sig } => {
                let (keys, messages) = (keys.split_at(lane), messages.split_at(lane));
                let sig = sig.split_at_mut(lane * SIGNATURE_LEN);
                let piece = |keys, messages, sig| Ed25519::Sign { keys, messages, sig };
                (piece(keys.0, messages.0, sig.0), piece(keys.1, messages.1, sig.1))
            }
            Ed25519::Verify { rules, keys, messages, sig, z } => {
                let (keys, messages) = (keys.split_at(lane, PUBLIC_LEN), messages.split_at(lane));
                let sig = sig.split_at(lane * SIGNATURE_LEN);
                // Each piece has a separate equation.
                let z = z.map(|z| z.split_at(lane)).unzip();
                let piece =
                    |keys, messages, sig, z| Ed25519::Verify { rules, keys, messages, sig, z };
                (piece(keys.0, messages.0, sig.0, z.0), piece(keys.1, messages.1, sig.1, z.1))
            }
        }
    }

    /// Reborrows the operation for a shorter lifetime.
    pub(super) fn reborrow(&mut self) -> Ed25519<'_> {
        match self {
            Ed25519::Generate { seeds, keys } => Ed25519::Generate { seeds, keys },
            Ed25519::Sign { keys, messages, sig } => Ed25519::Sign { keys, messages, sig },
            Ed25519::Verify { rules, keys, messages, sig, z } => {
                Ed25519::Verify { rules: *rules, keys: keys.reborrow(), messages, sig, z: *z }
            }
        }
    }

    /// The parameter set: one for each set of rules.
    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Ed25519::Verify { rules: Rules::Zip215, .. } => Algorithm::Ed25519Zip215,
            _ => Algorithm::Ed25519,
        }
    }

    pub(super) fn task(&self) -> Task {
        match self {
            Ed25519::Generate { .. } => Task::Keygen,
            Ed25519::Sign { .. } => Task::Sign,
            Ed25519::Verify { .. } => Task::Verify,
        }
    }

    /// Returns whether the arrays are those of `n` lanes, and known keys are valid.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            Ed25519::Generate { seeds, keys } => seeds.len() == n && keys.len() == n,
            Ed25519::Sign { keys, messages, sig } => {
                keys.len() == n
                    && keys.iter().all(|key| key.is_expanded())
                    && messages.len() == n
                    && sig.len() == n * SIGNATURE_LEN
            }
            Ed25519::Verify { rules, keys, messages, sig, z } => {
                keys.fit(n, PUBLIC_LEN, |key| key.rules() == *rules)
                    && messages.len() == n
                    && sig.len() == n * SIGNATURE_LEN
                    && z.is_none_or(|z| z.len() == n)
            }
        }
    }

    /// Clears the output of one lane.
    pub(super) fn clear(&mut self, lane: usize) {
        match self {
            Ed25519::Generate { keys, .. } => keys[lane] = SigningKey::blank(),
            Ed25519::Sign { sig, .. } => {
                ct::wipe(&mut sig[lane * SIGNATURE_LEN..(lane + 1) * SIGNATURE_LEN]);
            }
            Ed25519::Verify { .. } => {}
        }
    }
}

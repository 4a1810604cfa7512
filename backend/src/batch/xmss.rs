//! The operations of XMSS and XMSS^MT.

use gabion_scheme::Algorithm;
use gabion_scheme::xmss::{Piece, Scheme, VerifyKey};

use super::Task;

/// An operation of XMSS or XMSS^MT over `n` lanes. Signing is not a batch, because each signature
/// changes the key.
pub enum Xmss<'a> {
    /// Verification (RFC 8391, Algorithms 14 and 17).
    Verify {
        /// The scheme of the keys.
        scheme: Scheme,
        /// Public keys, of any of its sets.
        keys: &'a [&'a VerifyKey],
        /// The signed messages.
        messages: &'a [&'a [u8]],
        /// Signatures, of any length: a malformed one fails its own lane.
        signatures: &'a [&'a [u8]],
    },
    /// Nodes of a tree during key generation, one a lane, which a processor makes in pieces.
    Nodes {
        /// The scheme of the key.
        scheme: Scheme,
        /// The nodes, and their output.
        piece: Piece<'a>,
    },
}

impl<'a> Xmss<'a> {
    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            Xmss::Verify { scheme, keys, messages, signatures } => {
                let (keys, messages) = (keys.split_at(lane), messages.split_at(lane));
                let signatures = signatures.split_at(lane);
                let piece = |keys, messages, signatures| Xmss::Verify {
                    scheme,
                    keys,
                    messages,
                    signatures,
                };
                (piece(keys.0, messages.0, signatures.0), piece(keys.1, messages.1, signatures.1))
            }
            Xmss::Nodes { scheme, piece } => {
                let (first, others) = piece.split_at(lane);
                (Xmss::Nodes { scheme, piece: first }, Xmss::Nodes { scheme, piece: others })
            }
        }
    }

    /// Reborrows the operation for a shorter lifetime.
    pub(super) fn reborrow(&mut self) -> Xmss<'_> {
        match self {
            Xmss::Verify { scheme, keys, messages, signatures } => {
                Xmss::Verify { scheme: *scheme, keys, messages, signatures }
            }
            Xmss::Nodes { scheme, piece } => {
                Xmss::Nodes { scheme: *scheme, piece: piece.reborrow() }
            }
        }
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Xmss::Verify { scheme, .. } | Xmss::Nodes { scheme, .. } => (*scheme).into(),
        }
    }

    pub(super) fn task(&self) -> Task {
        match self {
            Xmss::Verify { .. } => Task::Verify,
            Xmss::Nodes { .. } => Task::Keygen,
        }
    }

    /// Returns whether the arrays are those of `n` lanes, and every key is one of the scheme.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            Xmss::Verify { scheme, keys, messages, signatures } => {
                [keys.len(), messages.len(), signatures.len()] == [n; 3]
                    && keys.iter().all(|key| key.set().is_some_and(|set| set.scheme == *scheme))
            }
            Xmss::Nodes { piece, .. } => piece.nodes() == n,
        }
    }

    /// Clears the output of one lane. A verification only has a status.
    pub(super) fn clear(&mut self, lane: usize) {
        if let Xmss::Nodes { piece, .. } = self {
            piece.clear(lane);
        }
    }
}

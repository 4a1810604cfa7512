//! The operations of HSS.

use gabion_scheme::Algorithm;
use gabion_scheme::lms::{Piece, VerifyKey};

use super::Task;

/// An operation of HSS over `n` lanes. Signing is not a batch, because each signature changes the
/// key.
pub enum Hss<'a> {
    /// Verification (RFC 8554, section 6.3).
    Verify {
        /// Public keys, of any sets and numbers of levels.
        keys: &'a [&'a VerifyKey],
        /// The signed messages.
        messages: &'a [&'a [u8]],
        /// Signatures, of any length: a malformed one fails its own lane.
        signatures: &'a [&'a [u8]],
    },
    /// Nodes of a tree during key generation, one a lane, which a processor makes in pieces.
    Nodes {
        /// The nodes, and their output.
        piece: Piece<'a>,
    },
}

impl<'a> Hss<'a> {
    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            Hss::Verify { keys, messages, signatures } => {
                let (keys, messages) = (keys.split_at(lane), messages.split_at(lane));
                let signatures = signatures.split_at(lane);
                let piece = |keys, messages, signatures| Hss::Verify { keys, messages, signatures };
                (piece(keys.0, messages.0, signatures.0), piece(keys.1, messages.1, signatures.1))
            }
            Hss::Nodes { piece } => {
                let (first, others) = piece.split_at(lane);
                (Hss::Nodes { piece: first }, Hss::Nodes { piece: others })
            }
        }
    }

    /// Reborrows the operation for a shorter lifetime.
    pub(super) fn reborrow(&mut self) -> Hss<'_> {
        match self {
            Hss::Verify { keys, messages, signatures } => {
                Hss::Verify { keys, messages, signatures }
            }
            Hss::Nodes { piece } => Hss::Nodes { piece: piece.reborrow() },
        }
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        Algorithm::Hss
    }

    pub(super) fn task(&self) -> Task {
        match self {
            Hss::Verify { .. } => Task::Verify,
            Hss::Nodes { .. } => Task::Keygen,
        }
    }

    /// Returns whether the arrays are those of `n` lanes, and every key is one.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            Hss::Verify { keys, messages, signatures } => {
                [keys.len(), messages.len(), signatures.len()] == [n; 3]
                    && keys.iter().all(|key| key.is_expanded())
            }
            Hss::Nodes { piece, .. } => piece.nodes() == n,
        }
    }

    /// Clears the output of one lane. A verification only has a status.
    pub(super) fn clear(&mut self, lane: usize) {
        if let Hss::Nodes { piece, .. } = self {
            piece.clear(lane);
        }
    }
}

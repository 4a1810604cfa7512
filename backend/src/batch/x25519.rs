//! The operations of X25519.

use gabion_scheme::Algorithm;
use gabion_scheme::ct;
use gabion_scheme::x25519::LEN;

use super::Task;

/// An operation of X25519 over `n` lanes.
pub enum X25519<'a> {
    /// Computes the public keys of private ones (RFC 7748, section 6.1).
    Public {
        /// Private keys.
        private: &'a [[u8; LEN]],
        /// Public keys.
        public: &'a mut [[u8; LEN]],
    },
    /// Shared secrets (RFC 7748, section 6.1); a lane whose secret is all zero has no valid key.
    Derive {
        /// Private keys.
        private: &'a [[u8; LEN]],
        /// The peers' public keys.
        peers: &'a [[u8; LEN]],
        /// Shared secrets.
        shared: &'a mut [[u8; LEN]],
    },
}

impl<'a> X25519<'a> {
    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            X25519::Public { private, public } => {
                let (private, public) = (private.split_at(lane), public.split_at_mut(lane));
                let piece = |private, public| X25519::Public { private, public };
                (piece(private.0, public.0), piece(private.1, public.1))
            }
            X25519::Derive { private, peers, shared } => {
                let (private, peers) = (private.split_at(lane), peers.split_at(lane));
                let shared = shared.split_at_mut(lane);
                let piece = |private, peers, shared| X25519::Derive { private, peers, shared };
                (piece(private.0, peers.0, shared.0), piece(private.1, peers.1, shared.1))
            }
        }
    }

    /// Reborrows the operation for a shorter lifetime.
    pub(super) fn reborrow(&mut self) -> X25519<'_> {
        match self {
            X25519::Public { private, public } => X25519::Public { private, public },
            X25519::Derive { private, peers, shared } => X25519::Derive { private, peers, shared },
        }
    }

    /// There is one parameter set.
    pub(super) fn algorithm(&self) -> Algorithm {
        Algorithm::X25519
    }

    pub(super) fn task(&self) -> Task {
        match self {
            X25519::Public { .. } => Task::Keygen,
            X25519::Derive { .. } => Task::Derive,
        }
    }

    /// Returns whether the arrays are those of `n` lanes.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            X25519::Public { private, public } => private.len() == n && public.len() == n,
            X25519::Derive { private, peers, shared } => {
                private.len() == n && peers.len() == n && shared.len() == n
            }
        }
    }

    /// Clears the output of one lane.
    pub(super) fn clear(&mut self, lane: usize) {
        match self {
            X25519::Public { public, .. } => public[lane] = [0; LEN],
            X25519::Derive { shared, .. } => ct::wipe(&mut shared[lane]),
        }
    }
}

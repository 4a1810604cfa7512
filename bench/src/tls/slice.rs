//! The times of handshakes: of one, and of those in a slice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A handshake of TLS 1.3 takes two turns of each side; one with a retry, three.
pub(super) const TURNS_MAX: usize = 8;

/// The times of one handshake.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handshake {
    pub(super) client_ns: u64,
    pub(super) server_ns: u64,
    pub(super) bytes_c2s: u64,
    pub(super) bytes_s2c: u64,
}

/// The times of the handshakes in one slice, over all threads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Slice {
    pub(super) handshakes: u64,
    pub(super) client_ns: u64,
    pub(super) server_ns: u64,
    /// CPU time of the whole loop.
    pub(super) loop_ns: u64,
    /// Handshakes by bytes sent: signatures in DER differ by a byte or two.
    pub(super) bytes_c2s: BTreeMap<u64, u64>,
    pub(super) bytes_s2c: BTreeMap<u64, u64>,
}

impl Slice {
    pub(super) fn add(&mut self, handshake: &Handshake) {
        self.handshakes += 1;
        self.client_ns += handshake.client_ns;
        self.server_ns += handshake.server_ns;
        *self.bytes_c2s.entry(handshake.bytes_c2s).or_default() += 1;
        *self.bytes_s2c.entry(handshake.bytes_s2c).or_default() += 1;
    }

    /// Adds what another thread, or another slice, counted.
    pub(super) fn merge(&mut self, other: &Slice) {
        self.handshakes += other.handshakes;
        self.client_ns += other.client_ns;
        self.server_ns += other.server_ns;
        self.loop_ns += other.loop_ns;
        for (mine, theirs) in
            [(&mut self.bytes_c2s, &other.bytes_c2s), (&mut self.bytes_s2c, &other.bytes_s2c)]
        {
            for (bytes, count) in theirs {
                *mine.entry(*bytes).or_default() += count;
            }
        }
    }
}

//! Clearing what a batch must not give out.

use gabion_scheme::ct;
use gabion_scheme::error::Status;

use super::Batch;

impl Batch<'_> {
    /// Clears the output of every lane whose status is not [`Status::Ok`]: bytes become zero, keys
    /// blank. Backends must do this themselves; this call covers those that did not.
    pub fn clear_failed(&mut self) {
        for lane in 0..self.status.len() {
            if !self.status[lane].is_ok() {
                self.operation.clear(lane);
            }
        }
    }

    /// Discards all statuses and outputs. For a batch whose backend cannot be trusted.
    pub fn reset(&mut self) {
        self.status.fill(Status::NotRun);
        self.clear_failed();
    }
}

/// Zeroes the lane's `len` bytes of an array `[lane][len]`.
pub(super) fn wipe(bytes: &mut [u8], lane: usize, len: usize) {
    ct::wipe(&mut bytes[lane * len..(lane + 1) * len]);
}

//! HSS batches.

use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms;

use crate::batch::Hss;

/// Runs a checked batch.
pub(super) fn run<K: Kernels>(
    k: &K,
    operation: &mut Hss<'_>,
    status: &mut [Status],
    scratch: &mut lms::Scratch,
) {
    match operation {
        Hss::Verify { keys, messages, signatures } => {
            lms::verify(k, keys, messages, signatures, status, scratch);
        }
        Hss::Nodes { piece, .. } => {
            let done = piece.run(k, scratch);
            status.fill(done.as_ref().map_or_else(Status::from_key_error, |()| Status::Ok));
            if done.is_err() {
                (0..piece.nodes()).for_each(|node| piece.clear(node));
            }
        }
    }
}

//! XMSS and XMSS^MT batches.

use gabion_scheme::error::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::xmss;

use crate::batch::Xmss;

/// Runs a checked batch.
pub(super) fn run<K: Kernels>(
    k: &K,
    operation: &mut Xmss<'_>,
    status: &mut [Status],
    scratch: &mut xmss::Scratch,
) {
    match operation {
        Xmss::Verify { keys, messages, signatures, .. } => {
            xmss::verify(k, keys, messages, signatures, status, scratch);
        }
        Xmss::Nodes { piece, .. } => {
            let done = piece.run(k, scratch);
            status.fill(done.as_ref().map_or_else(Status::from_key_error, |()| Status::Ok));
            if done.is_err() {
                (0..piece.nodes()).for_each(|node| piece.clear(node));
            }
        }
    }
}

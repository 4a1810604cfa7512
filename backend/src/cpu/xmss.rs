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
    let Xmss::Verify { keys, messages, signatures, .. } = operation;
    xmss::verify(k, keys, messages, signatures, status, scratch);
}

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
    let Hss::Verify { keys, messages, signatures } = operation;
    lms::verify(k, keys, messages, signatures, status, scratch);
}

//! XMSS by the SHA2 extension, two streams of SHA-256 side by side (RFC 8391, SP 800-208).
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on the hashed input.

use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::xmss_sha256::{Compress, Row};

use super::{Sha2, registers, sha256};
use crate::common::chains::xmss::{self as streams, Isa};

/// Streams that run side by side.
const STREAMS: usize = 2;

/// Two streams, of which the first so many are in use.
#[derive(Clone, Copy)]
struct Rows {
    /// The proof that the processor has the extension.
    _sha2: Sha2,
    count: usize,
}

impl Compress<STREAMS> for Rows {
    fn compress(
        self,
        from: &[Row<STREAMS>; 8],
        block: [&Row<STREAMS>; 16],
        into: &mut [Row<STREAMS>; 8],
    ) {
        // SAFETY: the token proves that the processor has the extension.
        unsafe { sha256::compress_rows(from, &block, into, self.count) }
    }
}

impl Isa<STREAMS> for Rows {
    fn with_streams(self, count: usize) -> Self {
        Rows { count, ..self }
    }

    fn few(self) -> usize {
        0
    }

    fn run_few(self, _: &mut [XmssChain<'_>]) {}

    fn hash_few(self, _: &mut [XmssHash<'_>]) {}

    fn make_few(self, _: &mut [XmssSecret<'_>]) {}

    fn clear(self) {
        // SAFETY: the token proves that the processor has NEON.
        unsafe { registers::clear() }
    }
}

/// Runs every chain of SHA-256 to its end.
pub(super) fn chain_many(sha2: Sha2, jobs: &mut [XmssChain<'_>]) {
    streams::chain_many(Rows { _sha2: sha2, count: STREAMS }, jobs);
}

/// Runs every hash of SHA-256.
pub(super) fn hash_many(sha2: Sha2, jobs: &mut [XmssHash<'_>]) {
    streams::hash_many(Rows { _sha2: sha2, count: STREAMS }, jobs);
}

/// Makes every secret of SHA-256.
pub(super) fn secret_many(sha2: Sha2, jobs: &mut [XmssSecret<'_>]) {
    streams::secret_many(Rows { _sha2: sha2, count: STREAMS }, jobs);
}

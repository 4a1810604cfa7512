//! Helpers of the families' self-tests: the seed and message of each lane, and a batch that checks
//! every lane.

use gabion_backend::{Backend, Batch, Operation};
use gabion_scheme::{Status, ct};
use sha3::{Digest, Sha3_256};

/// The context of the signatures.
pub(crate) const CONTEXT: &[u8] = b"gabion";
/// Lanes of the short test, for backends without lanes.
pub(crate) const LANES_FEW: usize = 2;

/// The seed of a lane.
pub(crate) fn seed<const N: usize>(lane: usize) -> [u8; N] {
    std::array::from_fn(|j| (17 * lane + 31 * j + 5) as u8)
}

/// The message (200 bytes, so that its sponge takes more than one block) or the encapsulation
/// randomness (32 bytes) of a lane.
pub(crate) fn message<const N: usize>(lane: usize) -> [u8; N] {
    std::array::from_fn(|j| (29 * lane + 13 * j + 1) as u8)
}

/// Runs one operation and insists on every lane's success.
pub(crate) fn all_ok(
    backend: &dyn Backend,
    lanes: usize,
    operation: Operation<'_>,
) -> Result<(), String> {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation, status: &mut status };
    let name = batch.task();
    batch.check().map_err(|error| error.to_string())?;
    backend.run(&mut batch).check_done(&status).map_err(|what| format!("{name}: {what}"))?;
    match status.iter().position(|status| !status.is_ok()) {
        None => Ok(()),
        Some(lane) => Err(format!("{name}: lane {lane} of {lanes} says {:?}", status[lane])),
    }
}

/// SHA3-256 over answers, in hexadecimal digits.
fn digest_of(answers: &[Vec<u8>]) -> String {
    let digest = answers.iter().fold(Sha3_256::new(), Sha3_256::chain_update).finalize();
    ct::declassify(&digest);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Answers against their known digest.
pub(crate) fn check_digest(answers: &[Vec<u8>], expected: &str) -> Result<(), String> {
    let digest = digest_of(answers);
    if digest == expected {
        return Ok(());
    }
    Err(format!("the known answer over {} lanes differs: {digest}", answers.len()))
}

/// Runs one operation and fails unless each lane has the expected status.
pub(crate) fn expect_statuses(
    backend: &dyn Backend,
    operation: Operation<'_>,
    expected: &[Status],
    what: &str,
) -> Result<(), String> {
    let mut status = vec![Status::NotRun; expected.len()];
    let mut batch = Batch { operation, status: &mut status };
    batch.check().map_err(|error| error.to_string())?;
    backend.run(&mut batch).check_done(&status).map_err(|why| format!("{what}: {why}"))?;
    if status == expected { Ok(()) } else { Err(format!("{what}: {status:?}")) }
}

//! Against two other people's implementations, in process and on random inputs.
//!
//! ```text
//!   counted seeds --> the other implementation --> expected keys, ciphertexts, signatures, verdicts
//!        |                                                      |
//!        +--> batches of 1 to 64 lanes, on every backend --> equal?
//! ```
//!
//! | algorithms | bit for bit, with given randomness | both ways, with randomness of their own |
//! |---|---|---|
//! | ML-KEM | libcrux | AWS-LC |
//! | ML-DSA | libcrux | AWS-LC |
//! | Ed25519, strict and ZIP 215 | ed25519-dalek, AWS-LC | |
//! | SLH-DSA | slh-dsa, fips205 | |
//! | LMS, HSS | hbs-lms; wolfSSL where it is built | |
//! | XMSS^MT | xmss | |
//! | Falcon | | pqcrypto-falcon; its definition, written down |
//! | FN-DSA | | its definition, written down; keys by pqcrypto-falcon |
//!
//! OpenSSL is compared in the tests of the provider and of the command line, both ways. The seeds
//! are counted, so a failure can be run again.
//!
//! `GABION_SOAK=N` compares with each of the two:
//! - N operations, or up to two more, of each parameter set of ML-KEM, ML-DSA and Ed25519, and as many of
//!   ZIP 215's verdicts with their definition;
//! - N / 100 of each set of FN-DSA and Falcon;
//! - N / 10,000 signatures and N / 100 verifications of each set of SLH-DSA;
//! - N / 10,000 keys, with their signatures, of sets of HSS and XMSS^MT.
//!
//! If `GABION_SOAK_TALLY` names a file, each comparison adds a line that says how many there were.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod ed25519;
mod falcon;
mod fn_dsa;
mod hss;
mod hss_wolfssl;
mod ml_dsa;
mod ml_kem;
mod slh_dsa;
mod xmss;

use std::io::Write;
use std::ops::Range;
use std::sync::Mutex;

use gabion_engine::{Algorithm, Batch, Config, Engine, Operation, Status};
use sha3::digest::{ExtendableOutput, Update, XofReader};

/// Random bytes that depend on the label and the round alone.
fn random<const N: usize>(label: &str, round: usize) -> [u8; N] {
    let mut source = sha3::Shake128::default();
    source.update(label.as_bytes());
    source.update(&round.to_le_bytes());
    let mut out = [0; N];
    source.finalize_xof().read(&mut out);
    out
}

/// A number below `bound`, of the label and the round alone.
fn random_below(label: &str, round: usize, bound: usize) -> usize {
    u64::from_le_bytes(random(label, round)) as usize % bound
}

/// Returns the value of `GABION_SOAK`, if set.
fn soak() -> Option<usize> {
    std::env::var("GABION_SOAK").ok()?.parse().ok()
}

/// Returns how many operations are compared: a share of the soak's count and no fewer, `least`
/// without one.
fn count(share: usize, least: usize) -> usize {
    soak().map_or(least, |count| count.div_ceil(share).max(1))
}

/// An engine of each backend of this machine.
fn engines() -> Vec<Engine> {
    gabion_backend::cpus()
        .iter()
        .map(|backend| Config { backend: Some(backend.name().to_owned()), ..Config::default() })
        .map(|config| Engine::new(&config).unwrap())
        .collect()
}

/// `total` rounds in batches of several sizes, the largest most of all.
fn batches(total: usize) -> impl Iterator<Item = Range<usize>> {
    let (mut start, mut sizes) = (0, [64, 1, 33, 64, 8, 7, 64, 16, 2].into_iter().cycle());
    std::iter::from_fn(move || {
        let size = sizes.next().unwrap_or(1).min(total - start);
        start += size;
        (size > 0).then(|| start - size..start)
    })
}

/// Runs an operation over `n` lanes and gives their verdicts.
fn run(engine: &Engine, n: usize, operation: Operation<'_>) -> Vec<Status> {
    let mut status = vec![Status::NotRun; n];
    engine.run(&mut Batch { operation, status: &mut status }).unwrap();
    status
}

/// Runs an operation over `n` lanes, all of which succeed.
fn run_all(engine: &Engine, n: usize, operation: Operation<'_>) {
    let status = run(engine, n, operation);
    assert!(status.iter().all(|status| status.is_ok()), "{status:?}");
}

/// Says how many operations were found equal.
fn tally(algorithm: Algorithm, against: &str, operations: usize) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    println!("{algorithm} against {against}: {operations} operations");
    let Some(path) = std::env::var_os("GABION_SOAK_TALLY") else { return };
    let line = serde_json::json!({
        "algorithm": algorithm.name(), "against": against, "operations": operations,
    });
    let _turn = ONE_AT_A_TIME.lock().unwrap();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    writeln!(file.unwrap(), "{line}").unwrap();
}

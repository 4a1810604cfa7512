//! The self-test of Ed25519: known keys and signatures, and every way to verify them.
//!
//! The digests were made with OpenSSL 3.0 (`pkey` of a seed, `pkeyutl -sign -rawin`).

use gabion_backend::{Backend, Batch, Ed25519, Keys, Operation};
use gabion_scheme::Status;
use gabion_scheme::ed25519::{Rules, SigningKey, VerifyKey};
use sha3::{Digest, Sha3_256};

use super::{all_ok, message, seed};

/// SHA3-256 over every lane's `pk || seed || sig`: for two lanes, for nine.
pub(super) const EXPECTED: [&str; 2] = [
    "075749f74385c5ddcb64c7cc2c682b987738dc0d5497f34c09fb8e18fffdc98f",
    "b5600782aae156e8c5d57358877f26d68f844d05e25957ff022bddec1a40b661",
];

/// How often a key is used: its multiples are made on the way.
const USES: usize = 4;

pub(super) fn run(backend: &dyn Backend, rules: Rules, n: usize) -> Result<[u8; 32], String> {
    let seeds: Vec<[u8; 32]> = (0..n).map(seed).collect();
    let mut keys = vec![SigningKey::blank(); n];
    let generate = Ed25519::Generate { seeds: &seeds, keys: &mut keys };
    all_ok(backend, n, Operation::Ed25519(generate))?;
    let texts: Vec<[u8; 200]> = (0..n).map(message).collect();
    let messages: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
    let known: Vec<_> = keys.iter().collect();
    let mut sig = vec![0; 64 * n];
    let sign = Ed25519::Sign { keys: &known, messages: &messages, sig: &mut sig };
    all_ok(backend, n, Operation::Ed25519(sign))?;
    // One lane alone takes another way.
    let mut alone = [0; 64];
    let sign = Ed25519::Sign { keys: &known[..1], messages: &messages[..1], sig: &mut alone };
    all_ok(backend, 1, Operation::Ed25519(sign))?;
    if alone[..] != sig[..64] {
        return Err("a signature by itself is not that of a batch".to_owned());
    }
    let mut key = [SigningKey::blank()];
    let generate = Ed25519::Generate { seeds: &seeds[..1], keys: &mut key };
    all_ok(backend, 1, Operation::Ed25519(generate))?;
    if key[0].public() != keys[0].public() {
        return Err("a key by itself is not that of a batch".to_owned());
    }
    let public: Vec<u8> = keys.iter().flat_map(|key| *key.public()).collect();
    let decoded: Vec<_> =
        keys.iter().filter_map(|key| VerifyKey::decode(rules, key.public())).collect();
    let decoded: Vec<_> = decoded.iter().collect();
    for turn in 0..=USES {
        for lanes in [n, 1] {
            let keys = || match turn {
                0 => Keys::Fresh(&public[..32 * lanes]),
                _ => Keys::Known(&decoded[..lanes]),
            };
            verify(backend, rules, keys, &messages[..lanes], &sig[..64 * lanes])?;
        }
    }
    let mut hash = Sha3_256::new();
    for (key, sig) in keys.iter().zip(sig.as_chunks::<64>().0) {
        hash.update(key.public());
        hash.update(key.seed());
        hash.update(sig);
    }
    Ok(hash.finalize().into())
}

/// Every lane must verify, one by one and by a sum; a corrupted one must fail alone.
fn verify<'a>(
    backend: &dyn Backend,
    rules: Rules,
    keys: impl Fn() -> Keys<'a, VerifyKey>,
    messages: &[&[u8]],
    sig: &[u8],
) -> Result<(), String> {
    let n = messages.len();
    let z: Vec<[u8; 16]> = (0..n).map(|lane| seed(lane + 100)).collect();
    for z in [None, Some(&z[..])] {
        let operation = Ed25519::Verify { rules, keys: keys(), messages, sig, z };
        all_ok(backend, n, Operation::Ed25519(operation))?;
        let mut corrupted = sig.to_vec();
        corrupted[64 * (n - 1) + 32] ^= 1;
        let mut status = vec![Status::NotRun; n];
        let operation = Ed25519::Verify { rules, keys: keys(), messages, sig: &corrupted, z };
        let operation = Operation::Ed25519(operation);
        backend.run(&mut Batch { operation, status: &mut status });
        if status[n - 1] != Status::InvalidSignature || !status[..n - 1].iter().all(|s| s.is_ok()) {
            return Err("a corrupted signature was not refused in its own lane alone".to_owned());
        }
    }
    Ok(())
}

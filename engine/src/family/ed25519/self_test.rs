//! The self-test of Ed25519: known keys and signatures, and every way to verify them.
//!
//! The digests were made with OpenSSL 3.0 (`pkey` of a seed, `pkeyutl -sign -rawin`).

use gabion_backend::{Backend, Batch, Ed25519, Keys, Operation};
use gabion_scheme::Status;
use gabion_scheme::ed25519::{Rules, SigningKey, VerifyKey};

use crate::known_answers::{LANES_FEW, all_ok, check_digest, expect_statuses, message, seed};

/// SHA3-256 over every lane's `pk || seed || sig`: for two lanes, for nine.
const EXPECTED: [&str; 2] = [
    "075749f74385c5ddcb64c7cc2c682b987738dc0d5497f34c09fb8e18fffdc98f",
    "b5600782aae156e8c5d57358877f26d68f844d05e25957ff022bddec1a40b661",
];

/// The number of uses of a key, during which its multiples are precomputed.
const USES: usize = 4;

pub(crate) fn run(backend: &dyn Backend, rules: Rules, n: usize) -> Result<(), String> {
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
    // Lanes of every width; few of them take another way.
    for n in 1..n {
        let mut some = vec![0; 64 * n];
        let sign = Ed25519::Sign { keys: &known[..n], messages: &messages[..n], sig: &mut some };
        all_ok(backend, n, Operation::Ed25519(sign))?;
        if some[..] != sig[..64 * n] {
            return Err(format!("signatures of {n} lanes are not what they are among more"));
        }
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
    of_mixed_order(backend, rules, (&public[..32], messages[0], &sig[..64]))?;
    let made = keys.iter().zip(sig.as_chunks::<64>().0);
    let answers: Vec<_> =
        made.map(|(key, sig)| [&key.public()[..], key.seed(), sig].concat()).collect();
    check_digest(&answers, EXPECTED[usize::from(n > LANES_FEW)])
}

/// A public key with a component of order 8, and a signature that only the cofactored equation
/// accepts. Computed by an independent program.
const MIXED_KEY: [u8; 32] = [
    0xfc, 0x0d, 0xb3, 0x63, 0x84, 0x9f, 0x58, 0x4d, 0x07, 0xfb, 0x5e, 0x3e, 0xec, 0x03, 0x34, 0x18,
    0x4a, 0x16, 0xb2, 0xfe, 0xab, 0xa5, 0x8a, 0x31, 0xd6, 0xcf, 0x12, 0x38, 0xc8, 0xe0, 0xd0, 0xb6,
];
const MIXED_SIGNATURE: [u8; 64] = [
    0xb6, 0xe0, 0x96, 0xbc, 0x1e, 0x2b, 0x74, 0xae, 0xfc, 0x7e, 0xcb, 0x12, 0xc2, 0x9b, 0x22, 0xb5,
    0x89, 0x38, 0xd0, 0xba, 0x53, 0x45, 0xc6, 0x39, 0x84, 0xba, 0x5d, 0x8e, 0xf3, 0x85, 0xd1, 0xd2,
    0x22, 0xe5, 0xf8, 0xd1, 0x2a, 0x14, 0xcc, 0xc5, 0x77, 0xd3, 0x49, 0x72, 0xd6, 0xda, 0x3b, 0x84,
    0x87, 0x91, 0xa2, 0x59, 0x1f, 0xa3, 0x9a, 0x00, 0x0b, 0xf3, 0x2c, 0x6b, 0x60, 0xfe, 0xd7, 0x05,
];

/// Tests a signature of mixed order, whose message is that of lane 0, among valid ones and alone:
/// RFC 8032's strict equation rejects it, ZIP 215 does not.
fn of_mixed_order(
    backend: &dyn Backend,
    rules: Rules,
    (public, message, sig): (&[u8], &[u8], &[u8]),
) -> Result<(), String> {
    let expected = match rules {
        Rules::Strict => Status::InvalidSignature,
        Rules::Zip215 => Status::Ok,
    };
    let keys = [public, &MIXED_KEY, public].concat();
    let sigs = [sig, &MIXED_SIGNATURE, sig].concat();
    let z: [[u8; 16]; 3] = [0, 1, 2].map(|lane| seed(lane + 100));
    let decoded: Vec<_> =
        keys.as_chunks().0.iter().filter_map(|key| VerifyKey::decode(rules, key)).collect();
    let known: Vec<_> = decoded.iter().collect();
    for (lanes, expected) in
        [(0..3, vec![Status::Ok, expected, Status::Ok]), (1..2, vec![expected])]
    {
        for z in [None, Some(&z[lanes.clone()])] {
            let fresh = Keys::Fresh(&keys[32 * lanes.start..32 * lanes.end]);
            let known = known.get(lanes.clone()).map(Keys::Known);
            for keys in [Some(fresh), known].into_iter().flatten() {
                let sig = &sigs[64 * lanes.start..64 * lanes.end];
                let messages = &[message; 3][lanes.clone()];
                let verify = Ed25519::Verify { rules, keys, messages, sig, z };
                let what = "a signature whose key is of mixed order";
                expect_statuses(backend, Operation::Ed25519(verify), &expected, what)?;
            }
        }
    }
    Ok(())
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
        backend.run(&mut Batch { operation, status: &mut status }).check_done(&status)?;
        if status[n - 1] != Status::InvalidSignature || !status[..n - 1].iter().all(|s| s.is_ok()) {
            return Err("a corrupted signature was not refused in its own lane alone".to_owned());
        }
    }
    Ok(())
}

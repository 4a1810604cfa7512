//! The self-test of ML-KEM.

use gabion_backend::{Backend, Kem, Keys, Operation};
use gabion_scheme::ml_kem::{DecapsKey, EncapsKey, Params};
use gabion_scheme::{Algorithm, Status, ct};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use crate::known_answers::{all_ok, check_digest, expect_statuses, message, seed};

/// Returns which seeds the lanes take: nine in a row, and eight of which two at least, of each
/// parameter set, need more than three blocks for an entry of their matrix (SampleNTT; some 7 of
/// 1000 entries do).
fn lanes() -> Vec<usize> {
    (0..9).chain(92..100).collect()
}

/// SHA3-256 over every lane's `ek || dk || ct || K || K of the corrupted ct`: of two lanes, of
/// nine, and of the eight others.
static EXPECTED: [(Algorithm, [&str; 3]); 3] = [
    (
        Algorithm::MlKem512,
        [
            "592db881728b6780bea18f84481ac3dae98326b563be68135df79fdbdbe455c9",
            "5c0dd7e99da4a7a3567a4c00ac63f86aac2f37250f4b9d018d056a0adc167d6a",
            "ceb244080bfb13af42aa7d643f0784ad9445486e5d67eff2cb284462da96985d",
        ],
    ),
    (
        Algorithm::MlKem768,
        [
            "7ec55924515341f15d91abf1abe3e10d41767979b11fac8adb08a9f5aef6f003",
            "e5d96ff13cc814696956021ac9cef579988f51af4789b1d4312879b45d937c8d",
            "15de9daf3193a13c51e164b47370c8c150f860cd3d346c0b31f454e939451b6c",
        ],
    ),
    (
        Algorithm::MlKem1024,
        [
            "d112e438f31fbffad5c2b51596808c1418bbd9f842b566f2afb2b6f2d6826b10",
            "fb82cc3e53320ac69e57fa7b1c0d478612a24121704e3e70f8d9fde2f32ab7e5",
            "da272cfff764a4434480c7a1af429b1a90d68b9a528a2d529b1394ec247f2d81",
        ],
    ),
];

/// The modulus (FIPS 203, section 2.4).
const Q: u16 = 3329;

/// The answer of a lane.
#[derive(Clone, PartialEq, Eq)]
struct Answer {
    ek: Vec<u8>,
    dk: Vec<u8>,
    ct: Vec<u8>,
    shared: [u8; 32],
    /// The secret that a corrupted ciphertext yields.
    rejected: [u8; 32],
}

pub(crate) fn run(backend: &dyn Backend, params: &'static Params) -> Result<(), String> {
    let lanes = lanes();
    let all = answers(backend, params, &lanes)?;
    let expected = EXPECTED.iter().find(|row| row.0 == params.algorithm);
    let [two, nine, others] = expected.map_or([""; 3], |row| row.1);
    let bytes: Vec<Vec<u8>> = all
        .iter()
        .map(|lane| [&lane.ek[..], &lane.dk, &lane.ct, &lane.shared, &lane.rejected].concat())
        .collect();
    check_digest(&bytes[..2], two)?;
    check_digest(&bytes[..9], nine)?;
    check_digest(&bytes[9..], others)?;
    // One lane works with keys as they are made, the other with keys that were decoded. A backend
    // without lanes works on one after the other.
    let most = if backend.lanes() > 1 { 8 } else { 1 };
    for (first, n) in (1..=most).map(|n| (0, n)).chain([(1, 1)]) {
        if answers(backend, params, &lanes[first..first + n])? != all[first..first + n] {
            return Err(format!("{n} lanes from {first} on are not what they are among more"));
        }
    }
    encoded_keys(backend, params, &all[..2])?;
    refusals(backend, params, &all[0])
}

/// Returns the answers of these lanes.
fn answers(
    backend: &dyn Backend,
    params: &'static Params,
    lanes: &[usize],
) -> Result<Vec<Answer>, String> {
    let n = lanes.len();
    let seeds: Vec<[u8; 64]> = lanes.iter().map(|&lane| seed(lane)).collect();
    let mut keys = vec![DecapsKey::blank(params); n];
    all_ok(backend, n, Operation::Kem(Kem::Generate { params, seeds: &seeds, keys: &mut keys }))?;
    // Every second lane uses keys that are decoded from their encodings.
    let ek: Vec<u8> = keys.iter().flat_map(|key| key.encaps_key().bytes()).copied().collect();
    let dk: Vec<u8> = keys.iter().flat_map(|key| key.bytes()).copied().collect();
    let mut public = vec![EncapsKey::blank(params); n];
    let mut private = vec![DecapsKey::blank(params); n];
    let operation = Operation::Kem(Kem::DecodePublic { params, bytes: &ek, keys: &mut public });
    all_ok(backend, n, operation)?;
    let operation = Operation::Kem(Kem::DecodePrivate { params, bytes: &dk, keys: &mut private });
    all_ok(backend, n, operation)?;
    let is_decoded = |at: usize| lanes[at] % 2 == 1;
    let known: Vec<_> =
        (0..n).map(|at| if is_decoded(at) { &public[at] } else { keys[at].encaps_key() }).collect();
    let m: Vec<[u8; 32]> = lanes.iter().map(|&lane| message(lane)).collect();
    let (mut ct, mut shared) = (vec![0; n * params.ct_len()], vec![[0; 32]; n]);
    let own = Keys::Known(&known[..]);
    let operation =
        Operation::Kem(Kem::Encaps { params, keys: own, m: &m, ct: &mut ct, shared: &mut shared });
    all_ok(backend, n, operation)?;
    let known: Vec<_> =
        (0..n).map(|at| if is_decoded(at) { &private[at] } else { &keys[at] }).collect();
    let opened = open(backend, params, &known, &ct)?;
    // The self-test's secrets are constants of this file.
    ct::declassify(&shared);
    if opened != shared {
        return Err("decaps does not give what encaps gave".to_owned());
    }
    let mut corrupted = ct.clone();
    for (lane, ct) in lanes.iter().zip(corrupted.chunks_exact_mut(params.ct_len())) {
        ct[*lane] ^= 1;
    }
    let rejected = open(backend, params, &known, &corrupted)?;
    changed_ciphertexts(backend, params, &known, &ct)?;
    let made = keys.iter().zip(ct.chunks_exact(params.ct_len())).zip(shared.iter().zip(&rejected));
    let answer = made.map(|((key, ct), (&shared, &rejected))| {
        ct::declassify(key.bytes());
        let (ek, dk) = (key.encaps_key().bytes().to_vec(), key.bytes().to_vec());
        Answer { ek, dk, ct: ct.to_vec(), shared, rejected }
    });
    Ok(answer.collect())
}

/// Opens ciphertexts.
fn open(
    backend: &dyn Backend,
    params: &'static Params,
    known: &[&DecapsKey],
    ct: &[u8],
) -> Result<Vec<[u8; 32]>, String> {
    let mut shared = vec![[0; 32]; known.len()];
    let keys = Keys::Known(known);
    let operation = Operation::Kem(Kem::Decaps { params, keys, ct, shared: &mut shared });
    all_ok(backend, known.len(), operation)?;
    // As above.
    ct::declassify(&shared);
    Ok(shared)
}

/// Ciphertexts with one changed byte each, from the first to the last, open to J(z || c) (FIPS 203,
/// Algorithm 18, line 7).
fn changed_ciphertexts(
    backend: &dyn Backend,
    params: &'static Params,
    known: &[&DecapsKey],
    ct: &[u8],
) -> Result<(), String> {
    let n = known.len();
    let turns = 3usize.div_ceil(n);
    for turn in 0..turns {
        let mut changed = ct.to_vec();
        for (lane, ct) in changed.chunks_exact_mut(params.ct_len()).enumerate() {
            let place = (turn * n + lane) * (ct.len() - 1) / (turns * n - 1);
            ct[place] ^= 0x80;
        }
        let opened = open(backend, params, known, &changed)?;
        let lanes = known.iter().zip(changed.chunks_exact(params.ct_len())).zip(opened);
        for ((key, ct), opened) in lanes {
            // z stands at the end.
            let z = key.bytes().last_chunk::<32>().copied().unwrap_or_default();
            ct::declassify(&z);
            let mut expected = [0; 32];
            let mut hash = Shake256::default();
            hash.update(&z);
            hash.update(ct);
            hash.finalize_xof().read(&mut expected);
            if opened != expected {
                return Err("a changed ciphertext was not rejected".to_owned());
            }
        }
    }
    Ok(())
}

/// Keys that come as encodings with a batch.
fn encoded_keys(
    backend: &dyn Backend,
    params: &'static Params,
    lanes: &[Answer],
) -> Result<(), String> {
    let n = lanes.len();
    let join = |part: fn(&Answer) -> &[u8]| lanes.iter().flat_map(part).copied().collect();
    let (ek, dk): (Vec<u8>, Vec<u8>) = (join(|lane| &lane.ek), join(|lane| &lane.dk));
    let made: Vec<u8> = join(|lane| &lane.ct);
    let m: Vec<[u8; 32]> = (0..n).map(message).collect();
    let (mut ct, mut shared) = (vec![0; n * params.ct_len()], vec![[0; 32]; n]);
    let keys = Keys::Fresh(&ek);
    let operation =
        Operation::Kem(Kem::Encaps { params, keys, m: &m, ct: &mut ct, shared: &mut shared });
    all_ok(backend, n, operation)?;
    let mut opened = vec![[0; 32]; n];
    let keys = Keys::Fresh(&dk);
    let operation = Operation::Kem(Kem::Decaps { params, keys, ct: &made, shared: &mut opened });
    all_ok(backend, n, operation)?;
    ct::declassify(&shared);
    ct::declassify(&opened);
    let expected: Vec<[u8; 32]> = lanes.iter().map(|lane| lane.shared).collect();
    if ct == made && shared == expected && opened == expected {
        return Ok(());
    }
    Err("encoded keys do not give what keys give".to_owned())
}

/// Sets a coefficient, counted over the whole of an encoded vector (ByteEncode_12, FIPS 203,
/// Algorithm 5).
fn set_coefficient(encoded: &mut [u8], at: usize, value: u16) {
    let [low, high] = value.to_le_bytes();
    let bytes = &mut encoded[at / 2 * 3..][..3];
    if at.is_multiple_of(2) {
        (bytes[0], bytes[1]) = (low, bytes[1] & 0xf0 | high);
    } else {
        (bytes[1], bytes[2]) = (bytes[1] & 15 | low << 4, high << 4 | low >> 4);
    }
}

/// Public keys with a coefficient that is not below q (section 7.2), private keys with another hash
/// (section 7.3).
fn refusals(backend: &dyn Backend, params: &'static Params, lane: &Answer) -> Result<(), String> {
    const NO: Status = Status::InvalidKey;
    let last = (params.ek_len() - 32) / 3 * 2 - 1;
    let changes =
        [(0, Q), (0, Q - 1), (last, Q), (last / 2, 4095), (last, Q - 1), (last / 2 + 1, Q)];
    let mut ek = lane.ek.repeat(changes.len());
    for (ek, (at, value)) in ek.chunks_exact_mut(params.ek_len()).zip(changes) {
        set_coefficient(ek, at, value);
    }
    let expected = changes.map(|(_, value)| if value < Q { Status::Ok } else { NO });
    let mut keys = vec![EncapsKey::blank(params); changes.len()];
    let operation = Operation::Kem(Kem::DecodePublic { params, bytes: &ek, keys: &mut keys });
    expect_statuses(backend, operation, &expected, "public keys with coefficients round q")?;
    let (m, mut shared) = ([[1; 32]; 2], [[0; 32]; 2]);
    let mut ct = vec![0; 2 * params.ct_len()];
    let keys = Keys::Fresh(&ek[..2 * params.ek_len()]);
    let operation =
        Operation::Kem(Kem::Encaps { params, keys, m: &m, ct: &mut ct, shared: &mut shared });
    expect_statuses(
        backend,
        operation,
        &expected[..2],
        "an encoded public key with a coefficient of q",
    )?;
    let mut dk = lane.dk.repeat(3);
    // H(ek) and z are the last.
    dk[params.dk_len() - 64] ^= 1;
    dk[3 * params.dk_len() - 33] ^= 0x80;
    let mut keys = vec![DecapsKey::blank(params); 3];
    let operation = Operation::Kem(Kem::DecodePrivate { params, bytes: &dk, keys: &mut keys });
    expect_statuses(backend, operation, &[NO, Status::Ok, NO], "private keys with another hash")
}

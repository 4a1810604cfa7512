//! ML-KEM on the device against the portable backend: random inputs, every number of lanes around a
//! block, malformed keys, modified ciphertexts.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Kem, Keys, Operation};
use gabion_cuda_emulator::{SelectedBackend, selected_backend};
use gabion_scheme::Status;
use gabion_scheme::ml_kem::{DecapsKey, EncapsKey, ML_KEM_512, ML_KEM_768, ML_KEM_1024, Params};

const SETS: [&Params; 3] = [&ML_KEM_512, &ML_KEM_768, &ML_KEM_1024];

fn backend_with(slot_bytes: usize) -> SelectedBackend {
    selected_backend(slot_bytes).unwrap()
}

fn run(backend: &dyn Backend, kem: Kem<'_>, lanes: usize) -> Vec<Status> {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation: Operation::Kem(kem), status: &mut status };
    batch.check().unwrap();
    assert_eq!(backend.run(&mut batch), BatchOutcome::Done);
    status
}

fn random<const N: usize>(n: usize) -> Vec<[u8; N]> {
    let mut all = vec![[0; N]; n];
    getrandom::fill(all.as_flattened_mut()).unwrap();
    all
}

/// Key pairs of both backends, which are the same.
fn keygen(cuda: &dyn Backend, params: &'static Params, n: usize) -> (Vec<u8>, Vec<u8>) {
    let seeds = random(n);
    let mut made: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for backend in [cuda, &Cpu::new(Portable)] {
        let (mut ek, mut dk) = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
        let kem = Kem::Keygen { params, seeds: &seeds, ek: &mut ek, dk: &mut dk };
        assert!(run(backend, kem, n).iter().all(|status| status.is_ok()));
        made.push((ek, dk));
    }
    assert!(made[0] == made[1], "{} keys of {}", n, params.algorithm.name());
    made.swap_remove(0)
}

/// Ciphertexts, secrets and verdicts of both backends, which are the same.
fn encaps(
    cuda: &dyn Backend,
    params: &'static Params,
    keys: impl Fn() -> Keys<'static, EncapsKey>,
    n: usize,
) -> (Vec<u8>, Vec<[u8; 32]>, Vec<Status>) {
    let m = random(n);
    let mut made = Vec::new();
    for backend in [cuda, &Cpu::new(Portable)] {
        let (mut ct, mut shared) = (vec![0xaa; n * params.ct_len()], vec![[0xaa; 32]; n]);
        let kem = Kem::Encaps { params, keys: keys(), m: &m, ct: &mut ct, shared: &mut shared };
        let status = run(backend, kem, n);
        made.push((ct, shared, status));
    }
    assert!(made[0] == made[1], "{} ciphertexts of {}", n, params.algorithm.name());
    made.swap_remove(0)
}

fn decaps(
    cuda: &dyn Backend,
    params: &'static Params,
    keys: impl Fn() -> Keys<'static, DecapsKey>,
    ct: &[u8],
) -> (Vec<[u8; 32]>, Vec<Status>) {
    let n = ct.len() / params.ct_len();
    let mut made = Vec::new();
    for backend in [cuda, &Cpu::new(Portable)] {
        let mut shared = vec![[0xaa; 32]; n];
        let kem = Kem::Decaps { params, keys: keys(), ct, shared: &mut shared };
        let status = run(backend, kem, n);
        made.push((shared, status));
    }
    assert!(made[0] == made[1], "{} secrets of {}", n, params.algorithm.name());
    made.swap_remove(0)
}

/// For the time of the test process: closures above are simpler with keys that stay.
fn leak<T>(value: Vec<T>) -> &'static [T] {
    Box::leak(value.into_boxed_slice())
}

#[test]
fn random_batches_are_those_of_the_portable_backend() {
    for params in SETS {
        let cuda = backend_with(32 << 20);
        for n in [1, 2, 3, 4, 5, 31, 64, 127, 128, 129, 200] {
            let (ek, dk) = keygen(&cuda, params, n);
            let (ek, dk) = (leak(ek), leak(dk));
            let (ct, shared, status) = encaps(&cuda, params, || Keys::Fresh(ek), n);
            assert!(status.iter().all(|status| status.is_ok()));
            let (again, status) = decaps(&cuda, params, || Keys::Fresh(dk), &ct);
            assert!(status.iter().all(|status| status.is_ok()));
            assert_eq!(shared, again);
        }
    }
}

#[test]
fn known_keys_are_as_good_as_fresh_ones() {
    for params in SETS {
        let cuda = backend_with(32 << 20);
        let keys: Vec<DecapsKey> =
            random(3).iter().map(|seed| DecapsKey::from_seed(&Portable, params, seed)).collect();
        let keys = leak(keys);
        let lanes: Vec<&DecapsKey> = [0, 1, 2, 1, 0].iter().map(|&i| &keys[i]).collect();
        let lanes = leak(lanes);
        let publics = leak(lanes.iter().map(|key| key.encaps_key()).collect());
        let (ct, shared, _) = encaps(&cuda, params, || Keys::Known(publics), 5);
        let (again, _) = decaps(&cuda, params, || Keys::Known(lanes), &ct);
        assert_eq!(shared, again);
    }
}

#[test]
fn a_batch_that_is_larger_than_a_slot_runs_in_chunks() {
    // Some 20 lanes of ML-KEM-768.
    let cuda = backend_with(400 << 10);
    let (ek, dk) = keygen(&cuda, &ML_KEM_768, 67);
    let (ek, dk) = (leak(ek), leak(dk));
    let (ct, shared, _) = encaps(&cuda, &ML_KEM_768, || Keys::Fresh(ek), 67);
    let (again, _) = decaps(&cuda, &ML_KEM_768, || Keys::Fresh(dk), &ct);
    assert_eq!(shared, again);
}

#[test]
fn the_public_half_alone_is_that_of_the_pair() {
    for params in SETS {
        let (n, seeds) = (130, random(130));
        let (mut ek, mut dk) = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
        let pair = Kem::Keygen { params, seeds: &seeds, ek: &mut ek, dk: &mut dk };
        assert!(run(&Cpu::new(Portable), pair, n).iter().all(|status| status.is_ok()));
        for backend in [&backend_with(32 << 20) as &dyn Backend, &Cpu::new(Portable)] {
            let mut half = vec![0; ek.len()];
            let kem = Kem::Publish { params, seeds: &seeds, ek: &mut half };
            assert!(run(backend, kem, n).iter().all(|status| status.is_ok()));
            assert!(half == ek, "{} on {}", params.algorithm.name(), backend.name());
        }
    }
}

#[test]
fn a_slot_that_holds_no_lane_declines() {
    let (mut ek, mut dk) = (vec![0; ML_KEM_512.ek_len()], vec![0; ML_KEM_512.dk_len()]);
    let (params, seeds) = (&ML_KEM_512, [[1; 64]]);
    let kem = Kem::Keygen { params, seeds: &seeds, ek: &mut ek, dk: &mut dk };
    let mut status = [Status::NotRun];
    let mut batch = Batch { operation: Operation::Kem(kem), status: &mut status };
    assert_eq!(backend_with(10_000).run(&mut batch), BatchOutcome::Declined);
}

#[test]
fn bad_keys_fail_their_own_lane_only() {
    for params in SETS {
        let cuda = backend_with(32 << 20);
        let n = 9;
        let (mut ek, mut dk) = keygen(&cuda, params, n);
        let good = leak(ek.clone());
        // A coefficient of q, one of 4095, and the last one of a key.
        let ek_len = params.ek_len();
        (ek[ek_len], ek[ek_len + 1]) = (0x01, ek[ek_len + 1] & 0xf0 | 0x0d);
        (ek[4 * ek_len + 10], ek[4 * ek_len + 11]) = (0xff, 0xff);
        ek[7 * ek_len + 384 * params.k - 1] = 0xff;
        let ek = leak(ek);
        let (_, _, status) = encaps(&cuda, params, || Keys::Fresh(ek), n);
        let bad = |lane: usize| [1, 4, 7].contains(&lane);
        for (lane, status) in status.iter().enumerate() {
            assert_eq!(*status == Status::InvalidKey, bad(lane), "lane {lane}");
        }

        let (ct, _, _) = encaps(&cuda, params, || Keys::Fresh(good), n);
        // A secret coefficient too large, another hash, another key under the hash, a coefficient of the key too
        // large with the right hash.
        let dk_len = params.dk_len();
        (dk[dk_len], dk[dk_len + 1]) = (0xff, 0xff);
        dk[3 * dk_len - 64] ^= 1;
        dk[3 * dk_len + 384 * params.k + 40] ^= 1;
        let at = 5 * dk_len + 384 * params.k;
        (dk[at], dk[at + 1]) = (0xff, 0xff);
        use sha3::Digest;
        let hash = sha3::Sha3_256::digest(&dk[at..at + ek_len]);
        dk[6 * dk_len - 64..6 * dk_len - 32].copy_from_slice(&hash);
        let dk = leak(dk);
        let (_, status) = decaps(&cuda, params, || Keys::Fresh(dk), &ct);
        for (lane, status) in status.iter().enumerate() {
            let bad = [1, 2, 3, 5].contains(&lane);
            assert_eq!(*status == Status::InvalidKey, bad, "lane {lane}");
        }
    }
}

#[test]
fn changed_ciphertexts_are_rejected_implicitly() {
    for params in SETS {
        let cuda = backend_with(32 << 20);
        let n = 40;
        let (ek, dk) = keygen(&cuda, params, n);
        let (ek, dk) = (leak(ek), leak(dk));
        let (mut ct, shared, _) = encaps(&cuda, params, || Keys::Fresh(ek), n);
        // One bit of each but the first: all over the ciphertext, its last byte too.
        let len = params.ct_len();
        for lane in 1..n {
            let byte = if lane == 1 { len - 1 } else { lane * 1009 % len };
            ct[lane * len + byte] ^= 1 << (lane % 8);
        }
        let (again, status) = decaps(&cuda, params, || Keys::Fresh(dk), &ct);
        assert!(status.iter().all(|status| status.is_ok()));
        for lane in 0..n {
            assert_eq!(again[lane] == shared[lane], lane == 0, "lane {lane}");
        }
    }
}

//! Keys that stay on the device: right whether they are there or not, sent once, gone when they are dropped.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Kem, Keys, Operation};
use gabion_cuda::{Cuda, Fault};
use gabion_cuda_emulator::{Action, Call, Emulator, Hook, HookedDevice};
use gabion_scheme::Status;
use gabion_scheme::ml_kem::{DecapsKey, ML_KEM_512, ML_KEM_768, ML_KEM_1024, Params};

/// A hook that counts uploads and can fail once.
#[derive(Default)]
struct UploadCounter {
    sent: AtomicUsize,
    calls: AtomicUsize,
    /// The call that fails, counted from one.
    fails: AtomicUsize,
    /// How often there is memory; always at 0.
    memory: AtomicUsize,
    asked: AtomicUsize,
}

impl Hook for UploadCounter {
    fn before(&self, _device: &Emulator, call: Call<'_>) -> Result<Action, Fault> {
        if matches!(call, Call::Pin(_) | Call::Restart) {
            return Ok(Action::Pass);
        }
        let now = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if now == self.fails.load(Ordering::Relaxed) {
            return Err(Fault::Failed);
        }
        match call {
            Call::Allocate(_) => {
                let asked = self.asked.fetch_add(1, Ordering::Relaxed);
                let memory = self.memory.load(Ordering::Relaxed);
                if memory > 0 && asked >= memory {
                    return Err(Fault::NoMemory);
                }
            }
            Call::Upload { from, .. } => {
                self.sent.fetch_add(from.len(), Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(Action::Pass)
    }
}

fn counted_device(slot_bytes: usize) -> Cuda<HookedDevice<UploadCounter>> {
    Cuda::new(HookedDevice::default(), slot_bytes, Duration::from_secs(60))
}

fn keys(params: &'static Params, n: usize) -> Vec<DecapsKey> {
    let mut seeds = vec![[0; 64]; n];
    getrandom::fill(seeds.as_flattened_mut()).unwrap();
    seeds.iter().map(|seed| DecapsKey::from_seed(&Portable, params, seed)).collect()
}

/// Encapsulates for each key and decapsulates; the secrets of a batch that is done are the same. Bytes that were sent.
fn round(
    cuda: &Cuda<HookedDevice<UploadCounter>>,
    params: &'static Params,
    lanes: &[&DecapsKey],
) -> (BatchOutcome, usize) {
    let before = cuda.device().hook.sent.load(Ordering::Relaxed);
    let n = lanes.len();
    let (mut m, mut ct) = (vec![[0; 32]; n], vec![0; n * params.ct_len()]);
    getrandom::fill(m.as_flattened_mut()).unwrap();
    let (mut shared, mut again) = (vec![[0; 32]; n], vec![[0; 32]; n]);
    let publics: Vec<_> = lanes.iter().map(|key| key.encaps_key()).collect();
    let keys = Keys::Known(&publics);
    let encaps = Kem::Encaps { params, keys, m: &m, ct: &mut ct, shared: &mut shared };
    let ran = run(cuda, encaps, n);
    if ran != BatchOutcome::Done {
        return (ran, 0);
    }
    // By one that has nothing resident, on the processor.
    let reference = gabion_backend::Cpu::new(Portable);
    let decaps = Kem::Decaps { params, keys: Keys::Known(lanes), ct: &ct, shared: &mut again };
    assert_eq!(run(&reference, decaps, n), BatchOutcome::Done);
    assert_eq!(shared, again);
    again.fill([0; 32]);
    let decaps = Kem::Decaps { params, keys: Keys::Known(lanes), ct: &ct, shared: &mut again };
    let ran = run(cuda, decaps, n);
    assert!(ran != BatchOutcome::Done || shared == again);
    (ran, cuda.device().hook.sent.load(Ordering::Relaxed) - before)
}

fn run(backend: &dyn Backend, kem: Kem<'_>, n: usize) -> BatchOutcome {
    let mut status = vec![Status::NotRun; n];
    let mut batch = Batch { operation: Operation::Kem(kem), status: &mut status };
    batch.check().unwrap();
    let ran = backend.run(&mut batch);
    assert!(ran != BatchOutcome::Done || status.iter().all(|status| status.is_ok()));
    ran
}

#[test]
fn a_key_is_sent_once() {
    for params in [&ML_KEM_512, &ML_KEM_768, &ML_KEM_1024] {
        let cuda = counted_device(4 << 20);
        let keys = keys(params, 3);
        let lanes: Vec<_> = (0..150).map(|i| &keys[i % 3]).collect();
        let (first, second) = (round(&cuda, params, &lanes), round(&cuda, params, &lanes));
        let pair = params.ek_len() + params.dk_len();
        // The canary's, too.
        assert!(first.1 >= second.1 + 4 * pair, "{first:?} and {second:?}");
        // Messages, ciphertexts, and an address a lane.
        assert!(second.1 < 152 * (32 + params.ct_len() + 2 * 8) + 4096, "{second:?}");
        assert_eq!((first.0, second.0), (BatchOutcome::Done, BatchOutcome::Done));
    }
}

#[test]
fn without_memory_for_them_keys_are_sent() {
    let params = &ML_KEM_512;
    let cuda = counted_device(1 << 20);
    // The first memory is that of the slot.
    cuda.device().hook.memory.store(1, Ordering::Relaxed);
    let keys = keys(params, 2);
    let lanes = [&keys[0], &keys[1]];
    for _ in 0..2 {
        let (ran, sent) = round(&cuda, params, &lanes);
        assert_eq!(ran, BatchOutcome::Done);
        assert!(sent > 2 * (params.ek_len() + params.dk_len()), "{sent}");
    }
}

#[test]
fn dropped_resident_key_is_cleared_by_the_next_batch() {
    let params = &ML_KEM_768;
    let cuda = counted_device(4 << 20);
    let mut keys = keys(params, 2);
    let stays = keys.remove(1);
    let secret = keys[0].bytes()[..32].to_vec();
    assert_eq!(round(&cuda, params, &[&keys[0], &stays]).0, BatchOutcome::Done);
    assert!(cuda.device().device.holds(&secret), "nothing is resident");
    drop(keys);
    let again = round(&cuda, params, &[&stays]);
    assert_eq!(again.0, BatchOutcome::Done);
    assert!(!cuda.device().device.holds(&secret), "a dropped key stays");
    assert!(cuda.device().device.holds(&stays.bytes()[..32]), "another key went with it");
}

#[test]
fn keys_make_room_for_others_and_too_many_are_sent() {
    let params = &ML_KEM_512;
    // Some 50 private keys of 4 KB.
    let cuda = counted_device(200 << 10);
    let keys = keys(params, 90);
    let all: Vec<_> = keys.iter().collect();
    for part in [&all[..30], &all[30..60], &all[60..], &all[..30], &all[..], &all[20..50]] {
        assert_eq!(round(&cuda, params, part).0, BatchOutcome::Done);
        assert_eq!(round(&cuda, params, part).0, BatchOutcome::Done);
    }
}

#[test]
fn resident_keys_survive_any_failing_call() {
    let params = &ML_KEM_512;
    let keys = keys(params, 2);
    let lanes = [&keys[0], &keys[1], &keys[0]];
    let mut losses = 0;
    for at in 1.. {
        let cuda = counted_device(1 << 20);
        // Nothing is resident, or it all is.
        if at % 2 == 0 {
            assert_eq!(round(&cuda, params, &lanes).0, BatchOutcome::Done);
        }
        let begin = cuda.device().hook.calls.load(Ordering::Relaxed);
        cuda.device().hook.fails.store(begin + at / 2 + 1, Ordering::Relaxed);
        losses += usize::from(round(&cuda, params, &lanes).0 == BatchOutcome::Lost);
        let came = cuda.device().hook.calls.load(Ordering::Relaxed) > begin + at / 2;
        cuda.device().hook.fails.store(0, Ordering::Relaxed);
        assert_eq!(round(&cuda, params, &lanes).0, BatchOutcome::Done, "after call {at}");
        assert_eq!(round(&cuda, params, &lanes).0, BatchOutcome::Done, "after call {at}");
        if !came {
            break;
        }
    }
    assert!(losses > 20, "{losses} losses");
}

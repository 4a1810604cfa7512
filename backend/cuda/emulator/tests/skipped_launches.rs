//! A device that reports a launch as done without running it, in memory that earlier batches used:
//! their canary must not pass for the canary of this batch.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Dsa, Kem, Keys, Operation};
use gabion_cuda::{Cuda, Fault};
use gabion_cuda_emulator::{Action, Call, Emulator, Hook, HookedDevice};
use gabion_scheme::Status;
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa;
use gabion_scheme::ml_kem::ML_KEM_512;

/// A hook that skips one launch.
#[derive(Default)]
struct LaunchSkipper {
    /// Launches until the one that is left out; none at 0.
    left: AtomicUsize,
}

impl Hook for LaunchSkipper {
    fn before(&self, _device: &Emulator, call: Call<'_>) -> Result<Action, Fault> {
        if !matches!(call, Call::Launch(_)) {
            return Ok(Action::Pass);
        }
        let order = (Ordering::Relaxed, Ordering::Relaxed);
        let left = self.left.fetch_update(order.0, order.1, |left| left.checked_sub(1));
        Ok(if left == Ok(1) { Action::Skip } else { Action::Pass })
    }
}

const N: usize = 40;
const TASKS: usize = 6;

fn dsa() -> &'static ml_dsa::Params {
    ml_dsa::params(Algorithm::MlDsa44).unwrap()
}

fn random<const LEN: usize>() -> Vec<[u8; LEN]> {
    let mut all = vec![[0; LEN]; N];
    getrandom::fill(all.as_flattened_mut()).unwrap();
    all
}

fn run(backend: &dyn Backend, operation: Operation<'_>) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; N];
    let mut batch = Batch { operation, status: &mut status };
    batch.check().unwrap();
    (backend.run(&mut batch), status)
}

/// The inputs of a task; running it returns a backend's answer with all outputs.
struct Inputs {
    seeds: Vec<[u8; 64]>,
    short: Vec<[u8; 32]>,
    ek: Vec<u8>,
    dk: Vec<u8>,
    ct: Vec<u8>,
    pk: Vec<u8>,
    sk: Vec<u8>,
    sig: Vec<u8>,
}

const MESSAGE: Message<'_> = Message::Pure { context: &[], message: b"message" };

impl Inputs {
    fn new() -> Self {
        let (kem, dsa, cpu) = (&ML_KEM_512, dsa(), Cpu::new(Portable));
        let mut it = Inputs {
            seeds: random(),
            short: random(),
            ek: vec![0; N * kem.ek_len()],
            dk: vec![0; N * kem.dk_len()],
            ct: vec![0; N * kem.ct_len()],
            pk: vec![0; N * dsa.pk_len()],
            sk: vec![0; N * dsa.sk_len()],
            sig: vec![0; N * dsa.sig_len()],
        };
        for task in [0, 1, 3, 4] {
            let (ran, status, outputs) = it.run(&cpu, task);
            assert!(ran == BatchOutcome::Done && status.iter().all(|status| status.is_ok()));
            let mut outputs = outputs.into_iter();
            let mut next = || outputs.next().unwrap_or_default();
            match task {
                0 => (it.ek, it.dk) = (next(), next()),
                1 => it.ct = next(),
                3 => (it.pk, it.sk) = (next(), next()),
                _ => it.sig = next(),
            }
        }
        // Every third one is not good.
        for sig in it.sig.chunks_exact_mut(dsa.sig_len()).step_by(3) {
            sig[100] ^= 1;
        }
        it
    }

    fn run(&self, backend: &dyn Backend, task: usize) -> (BatchOutcome, Vec<Status>, Vec<Vec<u8>>) {
        let (kem, dsa) = (&ML_KEM_512, dsa());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut shared = vec![[0; 32]; N];
        let messages = &[MESSAGE; N];
        let operation = match task {
            0 => {
                (first, second) = (vec![0; self.ek.len()], vec![0; self.dk.len()]);
                let (ek, dk) = (&mut first[..], &mut second[..]);
                Operation::Kem(Kem::Keygen { params: kem, seeds: &self.seeds, ek, dk })
            }
            1 => {
                first = vec![0; self.ct.len()];
                Operation::Kem(Kem::Encaps {
                    params: kem,
                    keys: Keys::Fresh(&self.ek),
                    m: &self.short,
                    ct: &mut first,
                    shared: &mut shared,
                })
            }
            2 => Operation::Kem(Kem::Decaps {
                params: kem,
                keys: Keys::Fresh(&self.dk),
                ct: &self.ct,
                shared: &mut shared,
            }),
            3 => {
                (first, second) = (vec![0; self.pk.len()], vec![0; self.sk.len()]);
                let (pk, sk) = (&mut first[..], &mut second[..]);
                Operation::Dsa(Dsa::Keygen { params: dsa, seeds: &self.short, pk, sk })
            }
            4 => {
                first = vec![0; self.sig.len()];
                let (keys, rnd) = (Keys::Fresh(&self.sk[..]), &self.short[..]);
                let sig = &mut first[..];
                Operation::Dsa(Dsa::Sign { params: dsa, keys, messages, rnd, sig })
            }
            _ => {
                let (keys, sig) = (Keys::Fresh(&self.pk[..]), &self.sig[..]);
                Operation::Dsa(Dsa::Verify { params: dsa, keys, messages, sig })
            }
        };
        let (ran, status) = run(backend, operation);
        (ran, status, vec![first, second, shared.concat()])
    }
}

#[test]
fn stale_output_does_not_pass_the_canary() {
    let cpu = Cpu::new(Portable);
    let all = [Inputs::new(), Inputs::new()];
    let expected: Vec<Vec<_>> =
        all.iter().map(|it| (0..TASKS).map(|task| it.run(&cpu, task)).collect()).collect();
    let mut losses = 0;
    for task in 0..TASKS {
        for launch in 1..40 {
            let cuda = Cuda::new(
                HookedDevice::new(LaunchSkipper::default()),
                64 << 20,
                Duration::from_secs(60),
            );
            // Batches of every kind leave their own in the slot, this one's kind first and last.
            for before in [task, 2, 5, task, 1] {
                assert_eq!(all[0].run(&cuda, before), expected[0][before]);
            }
            cuda.device().hook.left.store(launch, Ordering::Relaxed);
            let got = all[1].run(&cuda, task);
            match got.0 {
                // An attempt of which a step was left out is no signature; a later one of the same op is another good one.
                BatchOutcome::Done if task == 4 => {
                    let (keys, sig) = (Keys::Fresh(&all[1].pk[..]), &got.2[0][..]);
                    let messages = &[MESSAGE; N];
                    let verify = Dsa::Verify { params: dsa(), keys, messages, sig };
                    let (ran, status) = run(&cpu, Operation::Dsa(verify));
                    assert_eq!(
                        (ran, status),
                        (BatchOutcome::Done, vec![Status::Ok; N]),
                        "launch {launch}"
                    );
                }
                BatchOutcome::Done => {
                    assert!(got == expected[1][task], "launch {launch} of task {task}")
                }
                ran => {
                    assert_eq!(ran, BatchOutcome::Lost);
                    losses += 1;
                }
            }
            if cuda.device().hook.left.load(Ordering::Relaxed) > 0 {
                break; // After the last launch.
            }
        }
    }
    assert!(losses > 20, "{losses} losses");
}

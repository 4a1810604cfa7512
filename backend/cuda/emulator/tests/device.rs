//! Faults of a GPU that is there: what takes too long, a kernel that touches memory that it does not have, no memory, a
//! context that goes away under a batch. No result is wrong, nothing hangs, and it works again.
//!
//! A kernel's wrong address can disable CUDA for the rest of a process: then every batch is lost.
//! So each of these tests runs in a separate process (bench/gpu.sh).
//!
//! Only on the GPU that `GABION_CUDA_DEVICE` names; elsewhere nothing runs here, and tests/faults.rs has a device that fails on
//! purpose. The GPU is never reset from outside: each fault is one of this process's own context.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Kem, Keys, Operation};
use gabion_cuda::driver::Nvidia;
use gabion_cuda::{Cuda, Device, Fault, Launch, forward_device};
use gabion_cuda_emulator::DEVICE;
use gabion_scheme::Status;
use gabion_scheme::ml_kem::ML_KEM_768;

/// A GPU that is hurried, or one of whose launches is given an address that it does not have.
struct MisusedDevice {
    device: Nvidia,
    is_hurried: AtomicBool,
    /// Launches until the one that is spoilt; none at 0.
    spoils: AtomicUsize,
}

/// The GPU that the environment names, if it names one.
fn named_gpu() -> Option<MisusedDevice> {
    let Some(number) = std::env::var(DEVICE).ok().filter(|named| !named.is_empty()) else {
        println!("{DEVICE} names no GPU");
        return None;
    };
    let device = Nvidia::open(number.parse().unwrap()).unwrap();
    let (is_hurried, spoils) = (AtomicBool::new(false), AtomicUsize::new(0));
    Some(MisusedDevice { device, is_hurried, spoils })
}

impl Device for MisusedDevice {
    forward_device!(device: allocate, pin, upload, clear, download, restart);

    unsafe fn launch(&self, stream: usize, launch: &Launch<'_>) -> Result<(), Fault> {
        let left = self
            .spoils
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let mut arguments = launch.arguments.to_vec();
        if left == Ok(1) {
            // Every address: nothing of the process is at the first page, and the device stops at it.
            let (words, _) = arguments.as_chunks_mut::<8>();
            for word in words.iter_mut().filter(|word| u64::from_le_bytes(**word) > 1 << 32) {
                *word = 256u64.to_le_bytes();
            }
        }
        let launch = Launch { arguments: &arguments, ..*launch };
        // SAFETY: the caller's, or a launch that the device stops.
        unsafe { self.device.launch(stream, &launch) }
    }

    fn finish(&self, stream: usize, at_most: Duration) -> Result<(), Fault> {
        let is_hurried = self.is_hurried.load(Ordering::Relaxed);
        self.device.finish(stream, if is_hurried { Duration::from_micros(1) } else { at_most })
    }
}

/// Key pairs with their expected ciphertexts and shared secrets.
struct Case {
    seeds: Vec<[u8; 64]>,
    ek: Vec<u8>,
    dk: Vec<u8>,
    ct: Vec<u8>,
    shared: Vec<[u8; 32]>,
}

fn run(backend: &dyn Backend, kem: Kem<'_>, lanes: usize) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation: Operation::Kem(kem), status: &mut status };
    batch.check().unwrap();
    (backend.run(&mut batch), status)
}

impl Case {
    fn new(n: usize) -> Self {
        let (params, cpu) = (&ML_KEM_768, Cpu::new(Portable));
        let mut seeds = vec![[0; 64]; n];
        getrandom::fill(seeds.as_flattened_mut()).unwrap();
        let mut case = Case {
            seeds,
            ek: vec![0; n * params.ek_len()],
            dk: vec![0; n * params.dk_len()],
            ct: vec![0; n * params.ct_len()],
            shared: vec![[0; 32]; n],
        };
        let Case { seeds, ek, dk, ct, shared } = &mut case;
        let m: Vec<[u8; 32]> = seeds.iter().map(|seed| seed[..32].try_into().unwrap()).collect();
        assert_eq!(run(&cpu, Kem::Keygen { params, seeds, ek, dk }, n).0, BatchOutcome::Done);
        let encaps = Kem::Encaps { params, keys: Keys::Fresh(ek), m: &m, ct, shared };
        assert_eq!(run(&cpu, encaps, n).0, BatchOutcome::Done);
        case
    }

    /// Runs a key generation and a decapsulation: what is done is right, and of what is not nothing left.
    fn check(&self, backend: &dyn Backend) -> BatchOutcome {
        let (params, n) = (&ML_KEM_768, self.seeds.len());
        let (mut ek, mut dk) = (vec![0; self.ek.len()], vec![0; self.dk.len()]);
        let keygen = Kem::Keygen { params, seeds: &self.seeds, ek: &mut ek, dk: &mut dk };
        let (ran, status) = run(backend, keygen, n);
        match ran {
            BatchOutcome::Done => {
                assert!(status.iter().all(|status| status.is_ok()));
                assert!(ek == self.ek && dk == self.dk, "wrong keys");
            }
            BatchOutcome::Lost | BatchOutcome::Declined => {
                assert!(status.iter().all(|&status| status == Status::NotRun));
                assert!(
                    ek.iter().chain(&dk).all(|&byte| byte == 0),
                    "keys of a batch that is lost"
                );
                return ran;
            }
        }
        let mut shared = vec![[0; 32]; n];
        let keys = Keys::Fresh(&self.dk[..]);
        let decaps = Kem::Decaps { params, keys, ct: &self.ct, shared: &mut shared };
        let (ran, status) = run(backend, decaps, n);
        if ran == BatchOutcome::Done {
            assert!(status.iter().all(|status| status.is_ok()));
            assert!(shared == self.shared, "wrong secrets");
        } else {
            assert!(shared.iter().all(|shared| *shared == [0; 32]));
        }
        ran
    }
}

/// How long a batch waits at most, without faults.
const AT_MOST: Duration = Duration::from_secs(10);

#[test]
fn timed_out_batch_is_lost_and_the_next_succeeds() {
    let Some(device) = named_gpu() else { return };
    let (cuda, case) = (Cuda::new(device, 64 << 20, AT_MOST), Case::new(2000));
    assert_eq!(case.check(&cuda), BatchOutcome::Done);
    for _ in 0..5 {
        cuda.device().is_hurried.store(true, Ordering::Relaxed);
        assert_eq!(case.check(&cuda), BatchOutcome::Lost);
        cuda.device().is_hurried.store(false, Ordering::Relaxed);
        assert_eq!(case.check(&cuda), BatchOutcome::Done);
    }
}

#[test]
fn invalid_memory_access_loses_the_batch() {
    let Some(device) = named_gpu() else { return };
    let (cuda, case) = (Cuda::new(device, 64 << 20, AT_MOST), Case::new(300));
    assert_eq!(case.check(&cuda), BatchOutcome::Done);
    for launch in 1..6 {
        cuda.device().spoils.store(launch, Ordering::Relaxed);
        let begun = Instant::now();
        assert_eq!(case.check(&cuda), BatchOutcome::Lost, "launch {launch}");
        assert!(begun.elapsed() < AT_MOST + Duration::from_secs(5), "{:?}", begun.elapsed());
        if !is_back(&cuda, &case) {
            break;
        }
    }
}

/// Returns whether the device does batches again. If it does not, it loses each of them.
fn is_back(cuda: &Cuda<MisusedDevice>, case: &Case) -> bool {
    let answers: Vec<BatchOutcome> = (0..3).map(|_| case.check(cuda)).collect();
    println!("afterwards: {answers:?}");
    assert!(
        answers.iter().all(|ran| *ran == answers[0] && *ran != BatchOutcome::Declined),
        "{answers:?}"
    );
    answers[0] == BatchOutcome::Done
}

#[test]
fn without_memory_a_batch_is_lost() {
    let Some(device) = named_gpu() else { return };
    let free = device.device.free_bytes().unwrap() as usize;
    let case = Case::new(3);
    // A slot may fit; all of them do not.
    let cuda = Cuda::new(device, free / 2 + free / 4, AT_MOST);
    let answers: Vec<BatchOutcome> = (0..2).map(|_| case.check(&cuda)).collect();
    assert!(answers.iter().all(|ran| *ran != BatchOutcome::Declined), "{answers:?}");
    let Some(device) = named_gpu() else { return };
    let cuda = Cuda::new(device, 1 << 44, AT_MOST);
    assert_eq!(case.check(&cuda), BatchOutcome::Lost);
    drop(cuda);
    let Some(device) = named_gpu() else { return };
    assert_eq!(case.check(&Cuda::new(device, 64 << 20, AT_MOST)), BatchOutcome::Done);
}

#[test]
fn a_context_that_goes_away_under_batches_loses_them() {
    let Some(device) = named_gpu() else { return };
    let (cuda, case) = (Cuda::new(device, 64 << 20, AT_MOST), Case::new(1000));
    assert_eq!(case.check(&cuda), BatchOutcome::Done);
    let is_over = AtomicBool::new(false);
    let counts = [AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    counts[case.check(&cuda) as usize].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..8u64 {
            std::thread::sleep(Duration::from_millis(40 + 7 * round));
            // Whether it came back is the next batches' concern.
            let _ = cuda.device().restart();
        }
        std::thread::sleep(Duration::from_millis(300));
        is_over.store(true, Ordering::Relaxed);
    });
    let [done, declined, lost] = counts.map(AtomicUsize::into_inner);
    println!("{done} done, {declined} declined, {lost} lost");
    assert!(done > 0 && lost > 0);
    is_back(&cuda, &case);
}

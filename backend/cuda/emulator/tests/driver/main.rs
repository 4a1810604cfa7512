//! The driver over a libcuda that has no GPU, and that fails in every way it can.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod fake;
mod faults;
mod gpu;

use std::time::{Duration, Instant};

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Kem, Operation};
use gabion_cuda::driver::{NoDevice, Nvidia, check_over, devices_over};
use gabion_cuda::{Cuda, Device, Fault, HashArguments, Launch};
use gabion_scheme::Status;
use gabion_scheme::ml_kem::ML_KEM_768;
use sha3::Digest;

use fake::{LIBRARY, new_world, release, run_late_operations, world};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);
/// Messages of a launch, and bytes of each; outputs of SHA3-256.
const N: usize = 150;
const LENGTH: usize = 100;
const OUT: usize = 32;
/// The fill byte of unwritten memory.
const UNWRITTEN: u8 = 0xee;

fn open() -> Nvidia {
    Nvidia::over(&LIBRARY, 0).unwrap()
}

fn message(number: usize, salt: u8) -> Vec<u8> {
    (0..LENGTH).map(|i| (i * 7 + number * 3) as u8 ^ salt | 1).collect()
}

/// Where messages and outputs of a launch are on the device.
fn place(device: &Nvidia) -> Result<u64, Fault> {
    device.allocate(N * LENGTH + N * OUT)
}

/// Asks a stream to hash messages that are in `from` into `to`.
///
/// # Safety
/// As for `Device::upload` and `Device::download`.
unsafe fn ask(
    device: &Nvidia,
    stream: usize,
    at: u64,
    from: &[u8],
    to: &mut [u8],
) -> Result<(), Fault> {
    let out = at + (N * LENGTH) as u64;
    let arguments = HashArguments { messages: at, out, length: LENGTH as u32, n: N as u32 };
    let blocks = (N as u32).div_ceil(128);
    // SAFETY: the caller's, and so many messages and outputs.
    unsafe {
        device.upload(stream, at, from.as_ptr(), N * LENGTH)?;
        device.launch(stream, &Launch::new("gabion_sha3_256", &arguments, blocks))?;
        device.download(stream, out, to.as_mut_ptr(), N * OUT)
    }
}

/// Memory of either kind.
enum Memory {
    Plain(Vec<u8>),
    Pinned(gabion_cuda::PinnedBuffer),
}

impl Memory {
    fn new(device: &Nvidia, is_pinned: bool, bytes: usize, fill: u8) -> Result<Self, Fault> {
        let mut memory = if is_pinned {
            Memory::Pinned(device.pin(bytes)?)
        } else {
            Memory::Plain(vec![0; bytes])
        };
        memory.bytes().fill(fill);
        Ok(memory)
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Memory::Plain(bytes) => bytes,
            Memory::Pinned(bytes) => bytes,
        }
    }
}

/// One chunk on a stream: hashes, and compares. After a fault nothing is written, whatever happens late.
fn batch(device: &Nvidia, stream: usize, is_pinned: bool, at_most: Duration) -> Result<(), Fault> {
    let salt = 16 * stream as u8;
    let mut from = Memory::new(device, is_pinned, N * LENGTH, 0)?;
    let mut to = Memory::new(device, is_pinned, N * OUT, UNWRITTEN)?;
    let messages: Vec<u8> = (0..N).flat_map(|number| message(number, salt)).collect();
    from.bytes()[..N * LENGTH].copy_from_slice(&messages);
    let at = place(device)?;
    // SAFETY: both stay until it has finished.
    let asked = unsafe { ask(device, stream, at, from.bytes(), to.bytes()) };
    let finished = device.finish(stream, at_most);
    let done = asked.and(finished);
    let outputs = to.bytes()[..N * OUT].to_vec();
    if done.is_ok() {
        for (number, output) in outputs.chunks_exact(OUT).enumerate() {
            let expected = sha3::Sha3_256::digest(message(number, salt));
            assert_eq!(output, &expected[..], "message {number}");
        }
    } else if finished.is_err() {
        run_late_operations();
        assert!(to.bytes()[..N * OUT] == outputs, "written after it has finished");
        // The device may write pinned memory directly, even before the fault.
        assert!(
            is_pinned || outputs.iter().all(|&byte| byte == UNWRITTEN),
            "written after a fault"
        );
    }
    done
}

/// Returns whether any byte of memory that is locked for the device is not zero.
fn is_dirty() -> bool {
    world(|world| {
        world.locked.iter().any(|(&start, &bytes)| {
            // SAFETY: locked memory is mapped.
            let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, bytes) };
            bytes.iter().any(|&byte| byte != 0)
        })
    })
}

fn contexts() -> usize {
    world(|world| world.contexts.len())
}

#[test]
fn devices_are_listed_and_unsupported_ones_refused() {
    let _alone = new_world();
    assert_eq!(check_over(&LIBRARY), Ok(()));
    world(|world| assert_eq!(world.call, 1, "nothing is begun"));
    let all = devices_over(&LIBRARY).unwrap();
    assert_eq!(all.len(), 2);
    let one = &all[1];
    assert_eq!((one.ordinal, one.name.as_str(), one.capability), (1, "Fake 1", (9, 0)));
    assert_eq!(one.uuid, "GPU-47474747-4747-4747-4747-474747474747");
    assert_eq!((one.bus.as_str(), one.driver), ("0000:47:00.0", (13, 0)));
    assert_eq!((one.multiprocessors, one.clock_khz, one.copy_engines), (132, 1_980_000, 3));
    assert_eq!((one.memory_bytes, one.serves()), (80 << 30, Ok(())));
    let refused = |ordinal| Nvidia::over(&LIBRARY, ordinal).err().unwrap();
    assert_eq!(refused(2), NoDevice::NoSuchGpu { ordinal: 2, count: 2 });
    world(|world| world.version = 12080);
    assert_eq!(refused(0), NoDevice::OldDriver { version: (12, 8), least: (13, 0) });
    assert_eq!(check_over(&LIBRARY), Err(refused(0)));
    world(|world| (world.version, world.capability) = (13000, (7, 0)));
    let old = NoDevice::OldGpu { name: "Fake 0".into(), capability: (7, 0), least: (7, 5) };
    assert_eq!(refused(0), old);
    assert_eq!(old.to_string(), "Fake 0 has compute capability 7.0; 7.5 or later is needed");
    world(|world| world.count = 0);
    assert_eq!(refused(0), NoDevice::NoGpu);
    assert_eq!(devices_over(&LIBRARY).err(), Some(NoDevice::NoGpu));
    world(|world| (world.count, world.is_gone) = (1, true));
    let text = "the NVIDIA driver refused cuInit: CUDA_ERROR_UNKNOWN (999)";
    assert_eq!(refused(0).to_string(), text);
    assert_eq!(contexts(), 0);
}

#[test]
fn without_a_driver_there_is_an_error_and_no_panic() {
    // Where there is one the answer is another, and no panic either.
    match gabion_cuda::driver::devices() {
        Ok(devices) => assert!(!devices.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[test]
fn memory_is_zero_and_aligned() {
    let _alone = new_world();
    let device = open();
    let at = device.allocate(1000).unwrap();
    assert_eq!(at % 256, 0);
    let mut bytes = vec![UNWRITTEN; 1000];
    // SAFETY: stays until it has finished.
    unsafe { device.download(3, at, bytes.as_mut_ptr(), bytes.len()) }.unwrap();
    device.finish(3, LONG).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
    assert_eq!(device.allocate(1 << 40), Err(Fault::NoMemory));
    assert_eq!(batch(&device, 0, false, LONG), Ok(()), "no memory breaks nothing");
    assert_eq!(device.free_bytes(), Ok(79 << 30));
}

#[test]
fn copies_go_through_staging_or_straight_from_pinned_memory() {
    let _alone = new_world();
    let device = open();
    for round in 0..3 {
        for stream in 0..3 {
            assert_eq!(batch(&device, stream, false, LONG), Ok(()), "{round}");
        }
        assert!(!is_dirty(), "staging is wiped");
    }
    let staged = device.counters().staged;
    assert_eq!(staged, 9 * (N * LENGTH + N * OUT) as u64);
    for _ in 0..3 {
        assert_eq!(batch(&device, 1, true, LONG), Ok(()));
    }
    let counters = device.counters();
    assert_eq!((counters.staged, counters.launches), (staged, 12));
    assert_eq!(counters.uploaded, 12 * (N * LENGTH) as u64);
    assert_eq!(counters.downloaded, 12 * (N * OUT) as u64);
    // Staging of three streams; pinned memory went back.
    world(|world| assert_eq!((world.unlocked_copies, world.locked.len()), (0, 3)));
    drop(device);
    world(|world| assert_eq!((world.contexts.len(), world.locked.len()), (0, 0)));
}

#[test]
fn streams_overlap_and_staging_grows() {
    let _alone = new_world();
    let device = open();
    for round in 0..2 {
        let at: Vec<u64> = (0..4).map(|_| place(&device).unwrap()).collect();
        let from: Vec<Vec<u8>> = (0..4u8)
            .map(|salt| (0..N).flat_map(|number| message(number, salt)).collect())
            .collect();
        let mut to = vec![vec![UNWRITTEN; N * OUT]; 8];
        for (i, to) in to.iter_mut().enumerate() {
            // Two of each stream, so that its staging does not suffice at first.
            // SAFETY: all stay until they have finished.
            unsafe { ask(&device, i % 4, at[i % 4], &from[i % 4], to) }.unwrap();
        }
        // A large one as well.
        let large = vec![round + 1; 300_000];
        let mut back = vec![0; 300_000];
        let place = device.allocate(300_000).unwrap();
        // SAFETY: as above.
        unsafe {
            device.upload(2, place, large.as_ptr(), large.len()).unwrap();
            device.download(2, place, back.as_mut_ptr(), back.len()).unwrap();
        }
        assert!(to.iter().flatten().all(|&byte| byte == UNWRITTEN), "not before it has finished");
        for stream in [3, 1, 0, 2] {
            device.finish(stream, LONG).unwrap();
        }
        assert_eq!(back, large);
        for (i, to) in to.iter().enumerate() {
            let expected = sha3::Sha3_256::digest(message(9, i as u8 % 4));
            assert_eq!(to[9 * OUT..10 * OUT], expected[..], "{i}");
        }
        assert!(!is_dirty());
    }
    // By now in one piece each, the third stream's as large as it needs.
    world(|world| {
        let sizes: Vec<usize> = world.locked.values().copied().collect();
        assert_eq!(sizes.len(), 4, "{sizes:?}");
        assert_eq!(sizes.iter().filter(|&&size| size == 1 << 20).count(), 1, "{sizes:?}");
    });
}

#[test]
fn other_cuda_contexts_of_a_thread_stay_current() {
    let _alone = new_world();
    fake::push(0xf00);
    let device = open();
    assert_eq!(batch(&device, 0, true, LONG), Ok(()));
    assert_eq!(device.restart(), Ok(()));
    assert_eq!(batch(&device, 0, false, LONG), Ok(()));
    drop(device);
    assert_eq!(fake::stack(), [0xf00]);
}

#[test]
fn launches_are_timed_when_asked_for() {
    let _alone = new_world();
    let device = open();
    assert_eq!(batch(&device, 0, false, LONG), Ok(()));
    assert!(device.times().is_empty());
    device.profile(true);
    for stream in [0, 1, 0] {
        assert_eq!(batch(&device, stream, false, LONG), Ok(()));
    }
    assert_eq!(device.times(), [("gabion_sha3_256".to_owned(), 3, 0.75)]);
    let events = || world(|world| world.calls["cuEventCreate"]);
    let before = events();
    assert_eq!(batch(&device, 0, false, LONG), Ok(()));
    assert_eq!(events(), before, "events are used again");
    device.profile(false);
    assert_eq!(batch(&device, 0, false, LONG), Ok(()));
    assert!(device.times().is_empty());
}

#[test]
fn an_unknown_kernel_and_arguments_of_another_length_are_refused() {
    let _alone = new_world();
    let device = open();
    let arguments = HashArguments::default();
    for (kernel, bytes) in [("gabion_sha1", 24), ("gabion_sha3_256", 16), ("gabion\0", 24)] {
        let launch = Launch { arguments: &[0; 24][..bytes], ..Launch::new(kernel, &arguments, 1) };
        // SAFETY: no messages at all.
        assert_eq!(unsafe { device.launch(0, &launch) }, Err(Fault::Failed), "{kernel:?}");
        assert_eq!(device.finish(0, LONG), Err(Fault::Failed));
        assert_eq!(device.restart(), Ok(()));
    }
    world(|world| assert!(!world.calls.contains_key("cuLaunchKernel")));
}

#[test]
fn timeout_destroys_the_context_and_restart_creates_one() {
    let _alone = new_world();
    for is_pinned in [false, true] {
        let device = open();
        let mut kept = device.pin(5000).unwrap();
        kept.fill(3);
        assert_eq!(batch(&device, 1, false, LONG), Ok(()));
        let at = place(&device).unwrap();
        world(|world| world.is_stuck = true);
        let mut from = Memory::new(&device, is_pinned, N * LENGTH, 1).unwrap();
        let mut to = Memory::new(&device, is_pinned, N * OUT, UNWRITTEN).unwrap();
        let begun = Instant::now();
        // SAFETY: both stay until it has finished.
        unsafe { ask(&device, 1, at, from.bytes(), to.bytes()) }.unwrap();
        assert_eq!(device.finish(1, SHORT), Err(Fault::TimedOut));
        assert!(begun.elapsed() >= SHORT);
        if is_pinned {
            assert_eq!(contexts(), 0, "the device copies to memory that is given back");
        }
        world(|world| world.is_stuck = false);
        run_late_operations();
        assert!(to.bytes().iter().all(|&byte| byte == UNWRITTEN));
        assert_eq!(device.finish(1, LONG), Err(Fault::Failed));
        assert_eq!(device.allocate(1), Err(Fault::Failed));
        assert_eq!(device.clear(0, at, 1), Err(Fault::Failed));
        assert_eq!(device.restart(), Ok(()));
        assert_eq!((contexts(), device.counters().restarts), (1, 1));
        assert!(is_dirty(), "pinned memory stays as it is");
        drop((from, to));
        kept.fill(0);
        assert!(!is_dirty(), "staging was wiped");
        // Pinned memory is locked in the new context.
        let staged = device.counters().staged;
        let at = place(&device).unwrap();
        // SAFETY: it stays until it has finished.
        unsafe { device.upload(0, at, kept.as_ptr(), 100) }.unwrap();
        assert_eq!((device.finish(0, LONG), device.counters().staged), (Ok(()), staged));
        assert_eq!(batch(&device, 1, is_pinned, LONG), Ok(()));
        // And goes back after its device.
        drop(device);
        assert_eq!(contexts(), 0);
        kept.fill(1);
        drop(kept);
        world(|world| assert_eq!(world.locked.len(), 0));
    }
}

#[test]
fn stuck_context_does_not_block_the_caller() {
    let _alone = new_world();
    let device = open();
    assert_eq!(batch(&device, 0, false, LONG), Ok(()));
    world(|world| (world.is_stuck, world.is_held) = (true, true));
    let begun = Instant::now();
    // Its output is not written late either, though the context is there.
    let at = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SHORT);
            world(|world| world.is_stuck = false);
        });
        batch(&device, 0, false, Duration::ZERO)
    });
    assert!(at.is_err());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!((device.restart(), contexts()), (Err(Fault::TimedOut), 1));
    release();
    assert_eq!((device.restart(), contexts()), (Ok(()), 1));
    assert!(!is_dirty());
    assert_eq!(batch(&device, 0, false, LONG), Ok(()));
}

#[test]
fn copies_are_correct_without_pinned_memory() {
    let _alone = new_world();
    world(|world| world.locks_nothing = true);
    let device = open();
    for (batches, is_pinned) in [(1, false), (2, true)] {
        assert_eq!(batch(&device, 0, is_pinned, LONG), Ok(()));
        assert_eq!(device.counters().staged, batches * (N * LENGTH + N * OUT) as u64);
        assert_eq!(device.restart(), Ok(()));
    }
    world(|world| assert!(world.unlocked_copies > 0 && world.locked.is_empty()));
}

#[test]
fn locks_that_outlive_their_context_are_undone() {
    let _alone = new_world();
    world(|world| world.keeps_locks = true);
    let device = open();
    for is_pinned in [false, true, false] {
        assert_eq!(batch(&device, 0, is_pinned, LONG), Ok(()));
        let kept = device.pin(1).unwrap();
        world(|world| world.is_stuck = true);
        assert_eq!(device.finish(0, LONG), Ok(()));
        let at = device.gpu_times_out();
        assert_eq!(at, Err(Fault::TimedOut));
        world(|world| world.is_stuck = false);
        // It goes back while there is no context.
        drop(kept);
        assert_eq!(device.restart(), Ok(()));
    }
    drop(device);
    world(|world| assert_eq!((world.locked.len(), world.contexts.len()), (0, 0)));
}

/// A stream that times out.
trait TimesOut {
    fn gpu_times_out(&self) -> Result<(), Fault>;
}

impl TimesOut for Nvidia {
    fn gpu_times_out(&self) -> Result<(), Fault> {
        let word = [0u8; 4];
        world(|world| world.is_stuck = false);
        let at = self.allocate(256)?;
        world(|world| world.is_stuck = true);
        // SAFETY: it stays until it has finished.
        unsafe { self.upload(5, at, word.as_ptr(), word.len())? };
        self.finish(5, SHORT)
    }
}

#[test]
fn a_forked_child_asks_the_driver_for_nothing() {
    let _alone = new_world();
    let device = open();
    let mut pinned = device.pin(4096).unwrap();
    pinned.fill(9);
    assert_eq!(batch(&device, 0, false, LONG), Ok(()));
    let at = place(&device).unwrap();
    let calls = world(|world| world.call);
    // SAFETY: the child reads its memory, drops its values, and ends by _exit.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let is_zero = pinned.iter().all(|&byte| byte == 0);
            let refused = [
                device.allocate(1).map(drop),
                device.clear(0, at, 1),
                device.upload(0, at, pinned.as_ptr(), 1),
                device.finish(0, LONG),
                device.restart(),
            ];
            let is_refused = refused.iter().all(|done| *done == Err(Fault::Failed));
            drop(pinned);
            drop(device);
            let is_quiet = world(|world| world.call == calls && world.contexts.len() == 1);
            libc::_exit(i32::from(!(is_zero && is_refused && is_quiet)));
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        status
    };
    assert_eq!(status, 0);
    assert!(pinned.iter().all(|&byte| byte == 9));
    assert_eq!(batch(&device, 0, true, LONG), Ok(()));
}

#[test]
fn whole_batches_run_over_the_driver() {
    let _alone = new_world();
    let cuda = Cuda::new(open(), 1 << 20, LONG);
    let (params, lanes) = (&ML_KEM_768, 70);
    let seeds: Vec<[u8; 64]> = (0..lanes).map(|lane| [lane as u8; 64]).collect();
    let keygen = |backend: &dyn Backend| {
        let (mut ek, mut dk) = (vec![0; lanes * params.ek_len()], vec![0; lanes * params.dk_len()]);
        let mut status = vec![Status::NotRun; lanes];
        let operation = Kem::Keygen { params, seeds: &seeds, ek: &mut ek, dk: &mut dk };
        let mut batch = Batch { operation: Operation::Kem(operation), status: &mut status };
        (backend.run(&mut batch), status, ek, dk)
    };
    let expected = keygen(&Cpu::new(Portable));
    assert_eq!(expected.0, BatchOutcome::Done);
    assert!(keygen(&cuda) == expected);
    assert!(cuda.device().counters().launches > 0);
    world(|world| world.trouble = Some((fake::InjectedFault::ContextLost, world.call + 40)));
    let (ran, _, ek, dk) = keygen(&cuda);
    assert!(ran == BatchOutcome::Lost && ek.iter().chain(&dk).all(|&byte| byte == 0));
    assert!(keygen(&cuda) == expected);
}

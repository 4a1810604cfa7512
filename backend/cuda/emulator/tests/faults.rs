//! A device that does everything wrong that a device can do: whatever it does, no result that is wrong leaves, nothing
//! hangs, nothing stays in memory, and afterwards the backend works again.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Dsa, Kem, Keys, Operation, Xmss};
use gabion_cuda::{Cuda, Device, Fault, Launch};
use gabion_cuda_emulator::{Action, Call, Emulator, Hook, HookedDevice};
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::Message;
use gabion_scheme::ml_kem::ML_KEM_768;
use gabion_scheme::xmss::{Generation, Set};
use gabion_scheme::{Status, ml_dsa};

/// A fault injected at one call of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    /// The call fails without having been executed.
    Fails,
    /// This call and all later ones fail until the device is restarted.
    Dies,
    /// This call and all later ones fail, and restarts fail too.
    NeverRecovers,
    /// A launch is said to be done and is not, or not before the next call of another kind.
    RunsLate,
    /// The call fails after its deadline.
    TimesOut,
    /// A copy from the device has a bit that is wrong; counted by such copies.
    Corrupts,
    /// A launch runs and its kernel computes nonsense: all memory that was uploaded has changed before.
    Upsets,
}

/// The faults that can occur at any call.
const TROUBLES: [InjectedFault; 6] = [
    InjectedFault::Fails,
    InjectedFault::Dies,
    InjectedFault::NeverRecovers,
    InjectedFault::RunsLate,
    InjectedFault::TimesOut,
    InjectedFault::Upsets,
];

/// A device with one injected fault at one call.
struct FaultyDevice {
    trouble: InjectedFault,
    at: usize,
    calls: AtomicUsize,
    copies: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_dead: bool,
    is_gone: bool,
    /// Whether the trouble came.
    came: bool,
    /// The last array that was uploaded and is not of addresses: what a wrong one reads or writes is an error of a GPU, and
    /// this process's own memory here.
    uploaded: Option<(u64, usize)>,
    /// Where memory was allocated.
    allocated: Vec<std::ops::Range<u64>>,
    /// A launch that waits.
    late: Option<(String, Vec<u8>, u32)>,
}

impl FaultyDevice {
    fn new(trouble: InjectedFault, at: usize) -> Self {
        let (calls, copies) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let state = Mutex::new(State::default());
        FaultyDevice { trouble, at, calls, copies, state }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call; whether the trouble is at it.
    fn call(&self) -> Result<bool, Fault> {
        let is_now = self.calls.fetch_add(1, Ordering::Relaxed) == self.at
            && self.trouble != InjectedFault::Corrupts;
        let mut state = self.state();
        if state.is_dead {
            return Err(Fault::Failed);
        }
        if !is_now {
            return Ok(false);
        }
        state.came = true;
        match self.trouble {
            InjectedFault::Fails => Err(Fault::Failed),
            InjectedFault::TimesOut => Err(Fault::TimedOut),
            InjectedFault::Dies | InjectedFault::NeverRecovers => {
                state.is_dead = true;
                state.is_gone = self.trouble == InjectedFault::NeverRecovers;
                Err(Fault::Failed)
            }
            InjectedFault::RunsLate | InjectedFault::Corrupts | InjectedFault::Upsets => Ok(true),
        }
    }
}

impl Hook for FaultyDevice {
    fn before(&self, device: &Emulator, call: Call<'_>) -> Result<Action, Fault> {
        match call {
            // Not counted: memory of the host, and downloads, which have a fault type for
            // themselves.
            Call::Pin(_) | Call::Download(_) => return Ok(Action::Pass),
            Call::Restart => {
                let mut state = self.state();
                if state.is_gone {
                    return Err(Fault::Failed);
                }
                (state.is_dead, state.late) = (false, None);
                return Ok(Action::Pass);
            }
            _ => {}
        }
        let is_now = self.call()?;
        match call {
            Call::Upload { to, from } => {
                let first = from.first_chunk().map(|first| u64::from_le_bytes(*first));
                let mut state = self.state();
                let is_address =
                    |first| state.allocated.iter().any(|memory| memory.contains(&first));
                if !first.is_some_and(is_address) {
                    state.uploaded = Some((to, from.len()));
                }
            }
            Call::Launch(launch) if is_now && self.trouble == InjectedFault::RunsLate => {
                let launch = (launch.kernel.to_owned(), launch.arguments.to_vec(), launch.blocks);
                self.state().late = Some(launch);
                return Ok(Action::Skip);
            }
            Call::Launch(_) if is_now && self.trouble == InjectedFault::Upsets => {
                let (address, bytes) = self.state().uploaded.unwrap();
                let mut changed = vec![0u8; bytes];
                // SAFETY: this device copies at once.
                unsafe { device.download(0, address, changed.as_mut_ptr(), bytes)? };
                changed.iter_mut().for_each(|byte| *byte ^= 0x11);
                // SAFETY: likewise.
                unsafe { device.upload(0, address, changed.as_ptr(), bytes)? };
            }
            _ => {}
        }
        Ok(Action::Pass)
    }

    fn allocated(&self, address: u64, bytes: usize) {
        self.state().allocated.push(address..address + bytes as u64);
    }

    fn downloaded(&self, device: &Emulator, bytes: &mut [u8]) -> Result<(), Fault> {
        let is_now = self.copies.fetch_add(1, Ordering::Relaxed) == self.at;
        if is_now && self.trouble == InjectedFault::Corrupts {
            self.state().came = true;
            *bytes.last_mut().unwrap() ^= 0x40;
        }
        // The late kernel writes now, when no call waits for it.
        if let Some((kernel, arguments, blocks)) = self.state().late.take() {
            let launch = Launch { kernel: &kernel, arguments: &arguments, blocks };
            // SAFETY: as it would have been; a restart forgets it.
            unsafe { device.launch(0, &launch)? };
        }
        Ok(())
    }
}

/// Inputs, and the outputs of the portable backend.
struct Case {
    seeds: Vec<[u8; 64]>,
    ek: Vec<u8>,
    dk: Vec<u8>,
    m: Vec<[u8; 32]>,
    ct: Vec<u8>,
    shared: Vec<[u8; 32]>,
    pk: Vec<u8>,
    sig: Vec<u8>,
    tree: Vec<u8>,
    nodes: Vec<u8>,
}

const LANES: usize = 3;
const TASKS: usize = 5;

fn dsa() -> &'static ml_dsa::Params {
    ml_dsa::params(Algorithm::MlDsa44).unwrap()
}

/// A set whose trees are quickly made; S_XMSS has 24 bytes.
fn xmss() -> &'static Set {
    Set::from_name("XMSSMT-SHA2_20/4_192").unwrap()
}

impl Case {
    fn new() -> Self {
        let (kem, dsa) = (&ML_KEM_768, dsa());
        let mut case = Case {
            seeds: (0..LANES).map(|i| [i as u8 + 1; 64]).collect(),
            ek: vec![0; LANES * kem.ek_len()],
            dk: vec![0; LANES * kem.dk_len()],
            m: (0..LANES).map(|i| [i as u8 + 9; 32]).collect(),
            ct: vec![0; LANES * kem.ct_len()],
            shared: vec![[0; 32]; LANES],
            pk: vec![0; LANES * dsa.pk_len()],
            sig: vec![0; LANES * dsa.sig_len()],
            tree: (0..72).map(|i| 3 * i + 1).collect(),
            nodes: Vec::new(),
        };
        let portable = Cpu::new(Portable);
        let Case { seeds, ek, dk, m, ct, shared, pk, sig, .. } = &mut case;
        let _ = run(&portable, Operation::Kem(Kem::Keygen { params: kem, seeds, ek, dk }));
        let keys = Keys::Fresh(&ek[..]);
        let _ = run(&portable, Operation::Kem(Kem::Encaps { params: kem, keys, m, ct, shared }));
        let (seeds, mut sk) = (&[[1; 32], [2; 32], [3; 32]], vec![0; LANES * dsa.sk_len()]);
        let _ = run(&portable, Operation::Dsa(Dsa::Keygen { params: dsa, seeds, pk, sk: &mut sk }));
        let (keys, messages, rnd) = (Keys::Fresh(&sk[..]), &[MESSAGE; LANES], &[[0; 32]; LANES]);
        let _ = run(&portable, Operation::Dsa(Dsa::Sign { params: dsa, keys, messages, rnd, sig }));
        // The last one is not good.
        let last = sig.len() - dsa.sig_len();
        sig[last + 40] ^= 1;
        let mut making = Generation::new(xmss(), &case.tree).unwrap();
        let mut piece = making.span(1).unwrap().split_at(LANES).0;
        let (scheme, of) = (xmss().scheme, piece.reborrow());
        let _ = run(&portable, Operation::Xmss(Xmss::Nodes { scheme, piece: of }));
        case.nodes = piece.job().output.to_vec();
        case
    }

    /// Returns whether a secret of any task stands anywhere on the device.
    fn stays(&self, device: &Emulator) -> bool {
        if device.holds(&self.tree[..24]) {
            return true;
        }
        let lanes = self.seeds.iter().zip(&self.m).zip(&self.shared).zip(self.dk.chunks(2400));
        lanes.into_iter().any(|(((seed, m), shared), dk)| {
            [&seed[..], m, shared, &dk[..32]].into_iter().any(|secret| device.holds(secret))
        })
    }

    /// Runs one task on a backend. If it is done its results are right; if it is not, nothing left.
    fn check(&self, backend: &dyn Backend, task: usize) -> BatchOutcome {
        let kem = &ML_KEM_768;
        let (mut ek, mut dk) = (vec![0; self.ek.len()], vec![0; self.dk.len()]);
        let (mut ct, mut shared) = (vec![0; self.ct.len()], vec![[0; 32]; LANES]);
        let mut making = Generation::new(xmss(), &self.tree).unwrap();
        let mut piece = making.span(1).unwrap().split_at(LANES).0;
        let operation = match task {
            4 => Operation::Xmss(Xmss::Nodes { scheme: xmss().scheme, piece: piece.reborrow() }),
            0 => Operation::Kem(Kem::Keygen {
                params: kem,
                seeds: &self.seeds,
                ek: &mut ek,
                dk: &mut dk,
            }),
            1 => Operation::Kem(Kem::Encaps {
                params: kem,
                keys: Keys::Fresh(&self.ek),
                m: &self.m,
                ct: &mut ct,
                shared: &mut shared,
            }),
            2 => Operation::Kem(Kem::Decaps {
                params: kem,
                keys: Keys::Fresh(&self.dk),
                ct: &self.ct,
                shared: &mut shared,
            }),
            _ => Operation::Dsa(Dsa::Verify {
                params: dsa(),
                keys: Keys::Fresh(&self.pk),
                messages: &[MESSAGE; LANES],
                sig: &self.sig,
            }),
        };
        let (ran, status) = run(backend, operation);
        let nodes = piece.job().output;
        if ran != BatchOutcome::Done {
            assert!(status.iter().all(|&status| status == Status::NotRun), "{status:?}");
            let zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
            assert!(zero(&ek) && zero(&dk) && zero(&ct) && zero(shared.as_flattened()));
            assert!(zero(nodes));
            return ran;
        }
        let good = [Status::Ok; LANES];
        match task {
            0 => assert!(status == good && ek == self.ek && dk == self.dk),
            1 => assert!(status == good && ct == self.ct && shared == self.shared),
            2 => assert!(status == good && shared == self.shared),
            4 => assert!(status == good && nodes == self.nodes),
            _ => assert_eq!(status, [Status::Ok, Status::Ok, Status::InvalidSignature]),
        }
        ran
    }
}

const MESSAGE: Message<'_> = Message::Pure { context: b"context", message: b"message" };

fn run(backend: &dyn Backend, operation: Operation<'_>) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; LANES];
    let mut batch = Batch { operation, status: &mut status };
    (backend.run(&mut batch), status)
}

fn faulty_device(trouble: InjectedFault, at: usize) -> Cuda<HookedDevice<FaultyDevice>> {
    Cuda::new(HookedDevice::new(FaultyDevice::new(trouble, at)), 1 << 20, Duration::from_secs(60))
}

#[test]
fn fault_at_any_call_yields_no_wrong_output_and_recovers() {
    let case = Case::new();
    for trouble in TROUBLES {
        for task in 0..TASKS {
            let mut losses = 0;
            for at in 0.. {
                let cuda = faulty_device(trouble, at);
                let ran = case.check(&cuda, task);
                let (came, is_gone) = {
                    let state = cuda.device().hook.state();
                    (state.came, state.is_gone)
                };
                assert!(
                    ran == BatchOutcome::Done || came,
                    "{trouble:?} at {at}: {ran:?} without a cause"
                );
                losses += usize::from(ran == BatchOutcome::Lost);
                if !came {
                    break; // After the last call of this task.
                }
                // No secret stays, and the next batch finds the device as it should be, unless that is gone.
                let stays = case.stays(&cuda.device().device);
                assert!(is_gone || !stays, "{trouble:?} at {at} of task {task}: a secret stays");
                let expected = if is_gone { BatchOutcome::Lost } else { BatchOutcome::Done };
                let again = case.check(&cuda, task);
                assert_eq!(again, expected, "{trouble:?} at {at} of task {task}");
            }
            assert!(losses > 0, "{trouble:?} of task {task} never lost a batch");
        }
    }
}

#[test]
fn corrupted_copies_are_detected_by_canary_and_status_words() {
    let case = Case::new();
    for task in 0..TASKS {
        // The canary's parts of two arrays, two, one, none and one come first, and the status words last. A bit that changes in
        // an output, which is what comes between, is beyond what a check of ours sees: memory and bus have their own.
        let copies: [&[usize]; TASKS] = [&[0, 2, 4], &[0, 1, 4], &[0, 2], &[0], &[0, 2]];
        for &at in copies[task] {
            let cuda = faulty_device(InjectedFault::Corrupts, at);
            assert_eq!(case.check(&cuda, task), BatchOutcome::Lost, "copy {at} of task {task}");
            assert!(cuda.device().hook.state().came);
            assert!(!case.stays(&cuda.device().device));
            assert_eq!(case.check(&cuda, task), BatchOutcome::Done);
        }
    }
}

#[test]
fn many_threads_share_the_slots() {
    let case = Case::new();
    for trouble in [InjectedFault::Fails, InjectedFault::Dies, InjectedFault::RunsLate] {
        let cuda = faulty_device(trouble, 40);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (case, cuda, done) = (&case, &cuda, &done);
                scope.spawn(move || {
                    for round in 0..4 {
                        let ran = case.check(cuda, (thread + round) % TASKS);
                        done.fetch_add(usize::from(ran == BatchOutcome::Done), Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(cuda.device().hook.state().came);
        assert!(done.into_inner() > 0, "{trouble:?}: no batch was done");
        assert_eq!(case.check(&cuda, 0), BatchOutcome::Done);
        assert!(!case.stays(&cuda.device().device));
    }
}

#[test]
fn without_memory_a_batch_is_lost_and_the_next_one_is_not() {
    let case = Case::new();
    let cuda = poor(|asked| asked == 0);
    assert_eq!(case.check(&cuda, 0), BatchOutcome::Lost);
    assert_eq!(case.check(&cuda, 0), BatchOutcome::Done);
}

#[test]
fn chunks_of_one_batch_overlap_and_come_back_in_order() {
    let case = Case::new();
    for task in 0..TASKS {
        // A lane or two and the canary in a slot.
        let slot_bytes = [40 << 10, 40 << 10, 50 << 10, 120 << 10, 4 << 10][task];
        let cuda = Cuda::new(Emulator::new(), slot_bytes, Duration::from_secs(60));
        assert_eq!(case.check(&cuda, task), BatchOutcome::Done);
        assert!(!case.stays(cuda.device()));
        assert!(cuda.device().allocations() > 1, "task {task} took one slot");
    }
}

#[test]
fn with_memory_for_one_slot_batches_take_turns() {
    let case = Case::new();
    let cuda = poor(|asked| asked > 0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (case, cuda) = (&case, &cuda);
            scope.spawn(move || {
                for round in 0..3 {
                    assert_eq!(case.check(cuda, (thread + round) % TASKS), BatchOutcome::Done);
                }
            });
        }
    });
    assert_eq!(cuda.device().device.allocations(), 1);
}

/// Refuses memory by how often it was asked for some before.
struct Poor {
    asked: AtomicUsize,
    refuses: fn(usize) -> bool,
}

fn poor(refuses: fn(usize) -> bool) -> Cuda<HookedDevice<Poor>> {
    let device = HookedDevice::new(Poor { asked: AtomicUsize::new(0), refuses });
    Cuda::new(device, 1 << 20, Duration::from_secs(60))
}

impl Hook for Poor {
    fn before(&self, _device: &Emulator, call: Call<'_>) -> Result<Action, Fault> {
        match call {
            Call::Allocate(_) if (self.refuses)(self.asked.fetch_add(1, Ordering::Relaxed)) => {
                Err(Fault::NoMemory)
            }
            _ => Ok(Action::Pass),
        }
    }
}

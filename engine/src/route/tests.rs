//! A route over doubles that decline, lose, cost, lie and come back.

mod sequences;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Kem, Keys, Operation, Task};
use gabion_scheme::{Algorithm, Status, ml_kem};

use super::slot::Fit;
use super::{BackendState, Clock, Engine};
use crate::error::Error;
use crate::self_test::TESTS;

const KEM: Algorithm = Algorithm::MlKem512;
/// The bytes that a test double writes to outputs that it must not return.
const GARBAGE: u8 = 0xa5;

/// The behaviour of a double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Sound,
    /// Declines everything; having written, which it must not.
    Declines,
    /// Declines one task.
    DeclinesTask(Task),
    /// Declines batches of so many lanes or less.
    DeclinesUpTo(usize),
    /// Loses everything, having written.
    Loses,
    /// Loses the batches of self-tests only.
    LosesTests,
    /// Flips a bit of the last lane's secret, and calls it good.
    Lies,
    /// Returns wrong answers in self-tests only.
    LiesInTests,
    /// Leaves the last lane without a verdict.
    LeavesALane,
    /// Fails with a lack of memory for the last lane.
    LacksMemory,
    Panics,
    /// Touches nothing, and calls it done.
    Idle,
}

/// A test's control over a double.
struct DoubleControl {
    behaviour: Mutex<Behaviour>,
    cost: Mutex<Option<u64>>,
    /// Batches that came, tests included, and questions for a cost.
    runs: AtomicUsize,
    asked: AtomicUsize,
}

impl DoubleControl {
    fn set(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }

    /// Returns how many batches come while something is done.
    fn runs_in<T>(&self, act: impl FnOnce() -> T) -> (T, usize) {
        let before = self.runs();
        let made = act();
        (made, self.runs() - before)
    }
}

struct Double {
    name: &'static str,
    strings: Arc<DoubleControl>,
}

impl Double {
    /// Returns a double with so much cost, and its control.
    fn costing(name: &'static str, cost: Option<u64>) -> (Box<dyn Backend>, Arc<DoubleControl>) {
        let strings = Arc::new(DoubleControl {
            behaviour: Mutex::new(Behaviour::Sound),
            cost: Mutex::new(cost),
            runs: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
        });
        (Box::new(Double { name, strings: Arc::clone(&strings) }), strings)
    }
}

impl Backend for Double {
    fn name(&self) -> &'static str {
        self.name
    }

    fn lanes(&self) -> usize {
        1
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        self.strings.runs.fetch_add(1, Ordering::Relaxed);
        let behaviour = *self.strings.behaviour.lock().unwrap();
        if behaviour == Behaviour::Idle {
            return BatchOutcome::Done;
        }
        let ran = Cpu::new(Portable).run(batch);
        match behaviour {
            Behaviour::Sound | Behaviour::Idle => ran,
            Behaviour::LosesTests | Behaviour::LiesInTests if is_ours(batch) => ran,
            Behaviour::DeclinesTask(task) if task != batch.task() => ran,
            Behaviour::DeclinesUpTo(lanes) if lanes < batch.lanes() => ran,
            Behaviour::Declines | Behaviour::DeclinesTask(_) | Behaviour::DeclinesUpTo(_) => {
                soil(batch);
                BatchOutcome::Declined
            }
            Behaviour::Loses | Behaviour::LosesTests => {
                soil(batch);
                BatchOutcome::Lost
            }
            Behaviour::Lies | Behaviour::LiesInTests => {
                if let Some(secret) = secrets(batch).and_then(<[_]>::last_mut) {
                    secret[31] ^= 1;
                }
                ran
            }
            Behaviour::LeavesALane | Behaviour::LacksMemory => {
                let lacking = behaviour == Behaviour::LacksMemory;
                let status = if lacking { Status::NoMemory } else { Status::NotRun };
                batch.status.iter_mut().next_back().into_iter().for_each(|last| *last = status);
                ran
            }
            Behaviour::Panics => panic!("a fault that a test put in"),
        }
    }

    fn knows_costs(&self) -> bool {
        self.strings.cost.lock().unwrap().is_some()
    }

    fn cost(&self, _: Algorithm, _: Task, lanes: usize) -> Option<u64> {
        self.strings.asked.fetch_add(1, Ordering::Relaxed);
        self.strings.cost.lock().unwrap().map(|cost| cost / lanes as u64)
    }

    fn piece(&self, _: Algorithm, _: Task) -> usize {
        500
    }
}

fn secrets<'b>(batch: &'b mut Batch<'_>) -> Option<&'b mut [[u8; 32]]> {
    match &mut batch.operation {
        Operation::Kem(Kem::Encaps { shared, .. } | Kem::Decaps { shared, .. }) => Some(shared),
        _ => None,
    }
}

/// Returns whether a batch is of these tests, whose randomness is one byte over and over, and of no
/// self-test.
fn is_ours(batch: &Batch<'_>) -> bool {
    match &batch.operation {
        Operation::Kem(Kem::Encaps { m, .. }) => m.iter().all(|m| *m == [m[0]; 32]),
        _ => false,
    }
}

/// Leaves invalid secrets, and lanes with an error status.
fn soil(batch: &mut Batch<'_>) {
    batch.status.fill(Status::Ok);
    if let Some(shared) = secrets(batch) {
        shared.fill([GARBAGE; 32]);
    }
}

/// A clock that a test sets by hand.
#[derive(Clone, Default)]
struct ManualClock {
    millis: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

impl ManualClock {
    fn clock(&self) -> Clock {
        let (origin, hand) = (Instant::now(), self.clone());
        Arc::new(move || {
            hand.reads.fetch_add(1, Ordering::Relaxed);
            origin + Duration::from_millis(hand.millis.load(Ordering::Relaxed) as u64)
        })
    }

    fn wind(&self, millis: usize) {
        self.millis.fetch_add(millis, Ordering::Relaxed);
    }
}

fn engine(backends: Vec<Box<dyn Backend>>) -> (Engine, ManualClock) {
    let hand = ManualClock::default();
    (Engine::over(backends, TESTS, false, &hand.clock()), hand)
}

/// An engine over one double, and portable code behind it if it is not alone.
fn one(is_alone: bool) -> (Engine, ManualClock, Arc<DoubleControl>) {
    let (double, strings) = Double::costing("double", None);
    let portable: Option<Box<dyn Backend>> = (!is_alone).then(|| Box::new(Cpu::new(Portable)) as _);
    let (engine, hand) = engine([double].into_iter().chain(portable).collect());
    (engine, hand, strings)
}

/// Encapsulates some lanes with given randomness; secrets and verdicts. Everything is garbage
/// before.
fn encaps(
    engine: &Engine,
    algorithm: Algorithm,
    random: u8,
    lanes: usize,
) -> (Result<(), Error>, Vec<[u8; 32]>, Vec<Status>) {
    let params = ml_kem::params(algorithm).unwrap();
    let mut key = ml_kem::DecapsKey::blank(params);
    let operation = Operation::Kem(Kem::Generate {
        params,
        seeds: &[[random; 64]],
        keys: std::slice::from_mut(&mut key),
    });
    let mut made = [Status::NotRun];
    assert_eq!(
        Cpu::new(Portable).run(&mut Batch { operation, status: &mut made }),
        BatchOutcome::Done
    );
    let (mut ct, mut shared) = (vec![1; lanes * params.ct_len()], vec![[1; 32]; lanes]);
    let mut status = vec![Status::Ok; lanes];
    let m: Vec<_> = (0..lanes).map(|lane| [random.wrapping_add(lane as u8); 32]).collect();
    let operation = Operation::Kem(Kem::Encaps {
        params,
        keys: Keys::Known(&vec![key.encaps_key(); lanes]),
        m: &m,
        ct: &mut ct,
        shared: &mut shared,
    });
    let ended = engine.run(&mut Batch { operation, status: &mut status });
    if ended.is_err() {
        assert!(ct.iter().all(|&byte| byte == 0), "a ciphertext came out");
    }
    (ended, shared, status)
}

/// Insists on the answer that portable code gives.
fn is_right(engine: &Engine, algorithm: Algorithm, random: u8, lanes: usize) {
    let (portable, _) = self::engine(vec![Box::new(Cpu::new(Portable))]);
    let expected = encaps(&portable, algorithm, random, lanes);
    assert_eq!(expected.0, Ok(()));
    assert_eq!(encaps(engine, algorithm, random, lanes), expected);
}

fn is_unserved(engine: &Engine, algorithm: Algorithm) {
    let unserved = Err(Error::BackendUnavailable { algorithm, task: Task::Encaps });
    assert_eq!(
        encaps(engine, algorithm, 1, 3),
        (unserved, vec![[0; 32]; 3], vec![Status::NotRun; 3])
    );
}

/// Returns whether a backend was withdrawn for an algorithm at least.
fn is_withdrawn(engine: &Engine, at: usize) -> bool {
    engine.slots[at].reasons().is_some()
}

#[test]
fn declined_batch_falls_through_and_backend_is_tried_again() {
    let (engine, _, double) = one(false);
    is_right(&engine, KEM, 1, 3);
    double.set(Behaviour::Declines);
    for _ in 0..3 {
        assert_eq!(double.runs_in(|| is_right(&engine, KEM, 2, 3)).1, 1);
    }
    double.set(Behaviour::DeclinesUpTo(2));
    assert_eq!(double.runs_in(|| is_right(&engine, KEM, 3, 2)).1, 1);
    let (alone, _, double) = one(true);
    is_right(&alone, KEM, 1, 3);
    double.set(Behaviour::Declines);
    is_unserved(&alone, KEM);
    double.set(Behaviour::Sound);
    is_right(&alone, KEM, 1, 3);
    assert!(!is_withdrawn(&alone, 0) && !alone.slots[0].is_quarantined());
}

/// Neither a secret nor a verdict that it had no right to write.
#[test]
fn output_of_a_declining_backend_is_discarded() {
    for behaviour in [Behaviour::Declines, Behaviour::Loses] {
        let (first, of_first) = Double::costing("first", None);
        let (idle, of_idle) = Double::costing("idle", None);
        let (engine, _) = engine(vec![first, idle, Box::new(Cpu::new(Portable))]);
        assert!(engine.slots.iter().all(|slot| slot.fit(KEM, None) == Ok(Fit::Yes)));
        of_first.set(behaviour);
        of_idle.set(Behaviour::Idle);
        is_right(&engine, KEM, 1, 3);
        assert!(is_withdrawn(&engine, 1), "{behaviour:?}");
    }
}

#[test]
fn backend_that_lost_a_batch_is_quarantined_and_returns() {
    let (engine, hand, double) = one(false);
    is_right(&engine, KEM, 1, 3);
    double.set(Behaviour::Loses);
    assert_eq!(double.runs_in(|| is_right(&engine, KEM, 2, 3)).1, 1);
    // No test is run within a second, for any algorithm.
    double.set(Behaviour::Sound);
    let nobody = double.runs_in(|| {
        is_right(&engine, KEM, 3, 3);
        hand.wind(999);
        is_right(&engine, KEM, 3, 1);
        is_right(&engine, Algorithm::MlKem768, 4, 3);
        assert!(engine.slots[0].is_quarantined());
        assert_eq!(engine.backend_for(KEM).unwrap().name(), "portable");
    });
    assert_eq!(nobody.1, 0);
    // It is tested before it runs a batch again, and each algorithm anew.
    hand.wind(1);
    for algorithm in [KEM, Algorithm::MlKem768] {
        assert!(double.runs_in(|| is_right(&engine, algorithm, 5, 3)).1 > 1, "{algorithm}");
        assert_eq!(double.runs_in(|| is_right(&engine, algorithm, 6, 3)).1, 1, "{algorithm}");
    }
    assert!(!is_withdrawn(&engine, 0) && !engine.slots[0].is_quarantined());
}

#[test]
fn failed_retest_extends_quarantine() {
    for behaviour in [Behaviour::Loses, Behaviour::LacksMemory, Behaviour::Declines] {
        let (engine, hand, double) = one(false);
        is_right(&engine, KEM, 1, 3);
        double.set(Behaviour::Loses);
        is_right(&engine, KEM, 2, 3);
        double.set(behaviour);
        hand.wind(1000);
        assert!(double.runs_in(|| is_right(&engine, KEM, 3, 3)).1 > 0, "{behaviour:?}");
        double.set(Behaviour::Sound);
        assert_eq!(double.runs_in(|| is_right(&engine, KEM, 4, 3)).1, 0, "{behaviour:?}");
        assert!(engine.slots[0].is_quarantined(), "{behaviour:?}");
        // A backend that declines an algorithm entirely stays quarantined; the next algorithm may
        // probe it.
        let other = Algorithm::MlKem768;
        let asked = double.runs_in(|| is_right(&engine, other, 4, 3)).1 > 0;
        assert_eq!(asked, behaviour == Behaviour::Declines);
        hand.wind(1000);
        let asked = double.runs_in(|| is_right(&engine, KEM, 5, 3)).1 > 0;
        assert_eq!(asked, behaviour != Behaviour::Declines, "{behaviour:?}");
    }
}

#[test]
fn declined_retest_extends_quarantine_until_another_algorithm() {
    let (engine, hand, double) = one(false);
    is_right(&engine, KEM, 1, 3);
    double.set(Behaviour::Loses);
    is_right(&engine, KEM, 2, 3);
    double.set(Behaviour::Declines);
    hand.wind(1000);
    is_right(&engine, KEM, 3, 3);
    // The declined task is left to the next backend, even though the double would run it now.
    double.set(Behaviour::Sound);
    hand.wind(1000);
    assert_eq!(double.runs_in(|| is_right(&engine, KEM, 4, 3)).1, 0);
    assert!(engine.slots[0].is_quarantined());
    is_right(&engine, Algorithm::MlKem768, 5, 3);
    assert!(!engine.slots[0].is_quarantined());
}

#[test]
fn backend_that_loses_its_first_batch_is_quarantined() {
    let (engine, hand, double) = one(true);
    double.set(Behaviour::Loses);
    is_unserved(&engine, KEM);
    assert_eq!(
        engine.backend_for(KEM).err(),
        Some(Error::BackendUnavailable { algorithm: KEM, task: Task::Encaps })
    );
    assert_eq!(engine.report()[0].state, BackendState::Quarantined);
    double.set(Behaviour::Sound);
    is_unserved(&engine, KEM);
    hand.wind(1000);
    is_right(&engine, KEM, 1, 3);
}

#[test]
fn a_wrong_answer_withdraws_for_that_algorithm_alone() {
    for behaviour in [Behaviour::Lies, Behaviour::LeavesALane, Behaviour::Panics] {
        let (engine, hand, double) = one(false);
        is_right(&engine, KEM, 1, 3);
        double.set(Behaviour::Loses);
        is_right(&engine, KEM, 2, 3);
        // When it returns, it gives wrong answers.
        double.set(behaviour);
        hand.wind(1000);
        is_right(&engine, KEM, 3, 3);
        double.set(Behaviour::Sound);
        hand.wind(1000);
        assert_eq!(double.runs_in(|| is_right(&engine, KEM, 4, 3)).1, 0, "{behaviour:?}");
        assert!(
            double.runs_in(|| is_right(&engine, Algorithm::MlKem768, 4, 3)).1 > 0,
            "{behaviour:?}"
        );
        assert!(is_withdrawn(&engine, 0), "{behaviour:?}");
    }
    // A lane without a verdict is a wrong answer at any time.
    let (engine, _, double) = one(false);
    is_right(&engine, KEM, 1, 3);
    double.set(Behaviour::LeavesALane);
    is_right(&engine, KEM, 2, 3);
    double.set(Behaviour::Sound);
    assert_eq!(double.runs_in(|| is_right(&engine, KEM, 3, 3)).1, 0);
}

#[test]
fn a_task_that_was_declined_in_the_test_is_not_asked_for() {
    let (engine, _, double) = one(false);
    double.set(Behaviour::DeclinesTask(Task::Encaps));
    is_right(&engine, KEM, 1, 3);
    double.set(Behaviour::Sound);
    assert_eq!(double.runs_in(|| is_right(&engine, KEM, 2, 3)).1, 0);
    // It runs the rest.
    assert_eq!(engine.backend_for(KEM).unwrap().name(), "double");
    let key = || engine.kem_generate(KEM, &crate::OsEntropy).unwrap();
    assert_eq!(double.runs_in(key).1, 1);
    // A batch of it that it ran is enough.
    double.set(Behaviour::DeclinesUpTo(2));
    is_right(&engine, Algorithm::MlKem768, 1, 1);
    assert_eq!(double.runs_in(|| is_right(&engine, Algorithm::MlKem768, 2, 3)).1, 1);
}

#[test]
fn cheapest_backend_runs_the_batch() {
    let (dear, of_dear) = Double::costing("dear", Some(7000));
    let (cheap, of_cheap) = Double::costing("cheap", Some(6000));
    let portable = Box::new(Cpu::new(Portable));
    let (engine, hand) = engine(vec![dear, cheap, portable]);
    let who = |lanes| {
        let (_, by_cheap) = of_cheap.runs_in(|| is_right(&engine, KEM, 1, lanes));
        if by_cheap > 0 { "cheap" } else { "dear" }
    };
    assert_eq!(who(1), "cheap");
    *of_cheap.cost.lock().unwrap() = Some(8000);
    assert_eq!((who(1), who(3)), ("dear", "dear"));
    // Where it can't say, the order decides.
    *of_dear.cost.lock().unwrap() = None;
    assert_eq!(who(1), "dear");
    // One that is set aside has no part in it, and the one that is left is not asked.
    *of_dear.cost.lock().unwrap() = Some(1);
    of_dear.set(Behaviour::Loses);
    assert_eq!(who(1), "cheap");
    let asked = of_cheap.asked.load(Ordering::Relaxed);
    assert_eq!(who(1), "cheap");
    assert_eq!(of_cheap.asked.load(Ordering::Relaxed), asked);
    of_dear.set(Behaviour::Sound);
    hand.wind(1000);
    assert_eq!((who(1), who(1)), ("dear", "dear"));
}

#[test]
fn only_backend_with_costs_is_not_queried() {
    let (double, strings) = Double::costing("double", Some(1));
    let (engine, _) = engine(vec![double, Box::new(Cpu::new(Portable))]);
    is_right(&engine, KEM, 1, 3);
    assert_eq!(strings.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn the_chosen_backend_says_how_small_a_piece_may_be() {
    let (engine, hand, double) = one(false);
    let piece = || engine.piece(KEM, Task::Encaps, 1000);
    assert_eq!(piece(), 500);
    is_right(&engine, KEM, 1, 3);
    double.set(Behaviour::Loses);
    is_right(&engine, KEM, 1, 3);
    assert_eq!(piece(), 64);
    hand.wind(1000);
    assert_eq!(piece(), 500);
}

#[test]
fn the_clock_is_not_read_while_all_are_at_hand() {
    let (engine, hand, double) = one(false);
    let reads = hand.reads.load(Ordering::Relaxed);
    is_right(&engine, KEM, 1, 1);
    double.set(Behaviour::Declines);
    is_right(&engine, KEM, 1, 1);
    assert_eq!(hand.reads.load(Ordering::Relaxed), reads);
}

#[test]
fn batching_pays_for_hybrids_and_for_signatures_of_many_hashes() {
    let clock: Clock = Arc::new(Instant::now);
    let engine = Engine::over(Vec::new(), TESTS, false, &clock);
    for algorithm in [Algorithm::X25519MlKem768, Algorithm::MlDsa65, Algorithm::SlhDsaShake128f] {
        assert!(engine.batching_pays(algorithm), "{algorithm}");
    }
    for algorithm in [
        Algorithm::MlKem768,
        Algorithm::X25519,
        Algorithm::Ed25519,
        Algorithm::EcdsaP256,
        Algorithm::FnDsa512,
        Algorithm::MlDsa65Ed25519Sha512,
    ] {
        assert!(!engine.batching_pays(algorithm), "{algorithm}");
    }
}

//! Doubles that change their minds at random: what comes out is right, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Cpu, Task};
use gabion_scheme::{Algorithm, Status};

use super::{Behaviour, Double, DoubleControl, Engine, ManualClock, encaps, engine};
use crate::error::Error;

const KEMS: [Algorithm; 2] = [Algorithm::MlKem512, Algorithm::MlKem768];
const LANES_MAX: usize = 4;

/// Numbers that look random and are the same in each run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % n as u64) as usize
    }

    /// A behaviour, mostly one that passes.
    fn behaviour(&mut self) -> Behaviour {
        match self.below(24) {
            0..8 => Behaviour::Sound,
            8..11 => Behaviour::Declines,
            11 => Behaviour::DeclinesTask(Task::Encaps),
            12 => Behaviour::DeclinesTask(Task::Keygen),
            13 => Behaviour::DeclinesUpTo(self.below(LANES_MAX)),
            14..20 => Behaviour::Loses,
            20 => Behaviour::LosesTests,
            21 => Behaviour::LiesInTests,
            22 => Behaviour::LeavesALane,
            _ => Behaviour::Panics,
        }
    }
}

/// The answers of portable code, by algorithm, number and lanes.
struct Answers(Vec<Vec<[u8; 32]>>);

impl Answers {
    const RANDOMS: usize = 8;

    fn new() -> Self {
        let (portable, _) = engine(vec![Box::new(Cpu::new(Portable))]);
        let all =
            KEMS.into_iter().flat_map(|kem| (0..Self::RANDOMS).map(move |random| (kem, random)));
        Answers(
            all.map(|(kem, random)| encaps(&portable, kem, random as u8, LANES_MAX).1).collect(),
        )
    }

    /// Runs a batch and insists on the right answer, or on none; the error if there was one.
    fn check(&self, engine: &Engine, random: &mut Random) -> Option<(Algorithm, Error)> {
        let (kem, number, lanes) =
            (random.below(KEMS.len()), random.below(Self::RANDOMS), 1 + random.below(LANES_MAX));
        let (ended, secrets, status) = encaps(engine, KEMS[kem], number as u8, lanes);
        let expected = &self.0[kem * Self::RANDOMS + number];
        match ended {
            Ok(()) => {
                assert_eq!(secrets, expected[..lanes]);
                assert_eq!(status, vec![Status::Ok; lanes]);
                None
            }
            Err(error) => {
                assert_eq!(secrets, vec![[0; 32]; lanes], "{error}");
                assert_eq!(status, vec![Status::NotRun; lanes], "{error}");
                Some((KEMS[kem], error))
            }
        }
    }
}

/// Returns three doubles, two of which may know their costs, and portable code behind them if
/// `has_portable`.
fn three(
    random: &mut Random,
    has_portable: bool,
) -> (Engine, ManualClock, Vec<Arc<DoubleControl>>) {
    let cost = |random: &mut Random| (random.below(2) == 0).then(|| 1 + random.below(9) as u64);
    let doubles = ["first", "second", "third"].map(|name| Double::costing(name, cost(random)));
    let (mut backends, strings): (Vec<Box<dyn Backend>>, Vec<_>) = doubles.into_iter().unzip();
    if has_portable {
        backends.push(Box::new(Cpu::new(Portable)));
    }
    let (engine, hand) = engine(backends);
    (engine, hand, strings)
}

/// Insists on it that an error is the right one.
fn is_due(engine: &Engine, doubles: &[Arc<DoubleControl>], kem: Algorithm, error: &Error) {
    let unblamed = || engine.slots.iter().zip(doubles).filter(|(slot, _)| slot.is_unblamed(kem));
    let is_sound = |double: &DoubleControl| *double.behaviour.lock().unwrap() == Behaviour::Sound;
    match error {
        Error::NoBackend(_) => assert_eq!(unblamed().count(), 0, "one is left"),
        Error::BackendUnavailable { .. } => {
            assert!(unblamed().count() > 0, "none is left");
            let task = Task::Encaps;
            let fit = unblamed().find(|(slot, double)| {
                is_sound(double) && !slot.is_quarantined() && slot.may_be_fit(kem, task)
            });
            assert!(fit.is_none(), "one could have run it");
        }
        Error::Panicked { .. } => {
            let panics = |double: &Arc<DoubleControl>| {
                *double.behaviour.lock().unwrap() == Behaviour::Panics
            };
            assert!(doubles.iter().any(panics));
        }
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn random_backend_faults_yield_correct_results_or_errors() {
    let answers = Answers::new();
    let (mut served, mut unserved) = (0, 0);
    for seed in 0..24 {
        let mut random = Random(seed);
        let has_portable = seed % 3 == 0;
        let (engine, hand, doubles) = three(&mut random, has_portable);
        for _ in 0..40 {
            let (double, behaviour) = (random.below(3), random.behaviour());
            doubles[double].set(behaviour);
            hand.wind([0, 0, 300, 700, 1000][random.below(5)]);
            match answers.check(&engine, &mut random) {
                None => served += 1,
                Some((kem, error)) => {
                    assert!(!has_portable, "{error}");
                    is_due(&engine, &doubles, kem, &error);
                    unserved += 1;
                }
            }
        }
    }
    // Both happen.
    assert!(served > 100 && unserved > 20, "{served} {unserved}");
}

#[test]
fn threads_that_use_doubles_at_once_get_right_answers_or_none() {
    const BATCHES: usize = 150;
    let answers = Answers::new();
    for has_portable in [false, true] {
        let (engine, hand, doubles) = three(&mut Random(7), has_portable);
        let served = AtomicUsize::new(0);
        let use_it = |seed| {
            let mut random = Random(seed);
            for _ in 0..BATCHES {
                match answers.check(&engine, &mut random) {
                    None => _ = served.fetch_add(1, Ordering::Relaxed),
                    Some((_, error)) => {
                        assert!(
                            !has_portable && matches!(error, Error::BackendUnavailable { .. }),
                            "{error}"
                        );
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let users: Vec<_> = (100..103).map(|seed| scope.spawn(move || use_it(seed))).collect();
            let mut random = Random(99);
            let all_ended = || users.iter().all(|user| user.is_finished());
            // Sound doubles serve the first batch. After that no more need be served: all may be
            // aside for good.
            while served.load(Ordering::Relaxed) == 0 && !all_ended() {
                std::thread::yield_now();
            }
            while !all_ended() {
                let moods = [
                    Behaviour::Sound,
                    Behaviour::Loses,
                    Behaviour::LosesTests,
                    Behaviour::Declines,
                ];
                doubles[random.below(3)].set(moods[random.below(4)]);
                hand.wind(random.below(700));
                std::thread::yield_now();
            }
        });
        let served = served.into_inner();
        assert!(served > 0 && (!has_portable || served == 3 * BATCHES), "{served}");
        // No backend gave a wrong answer: all return, and no partial test result of a loss remains.
        // A backend that declined both algorithms while quarantined is not probed with them again:
        // a third one brings it back.
        doubles.iter().for_each(|double| double.set(Behaviour::Sound));
        for _ in 0..2 {
            hand.wind(1000);
            for slot in &engine.slots {
                let mut all = KEMS.into_iter().chain([Algorithm::MlKem1024]);
                assert!(all.all(|kem| slot.fit(kem, None).is_ok()));
            }
        }
        assert!(engine.slots.iter().all(|slot| !slot.is_quarantined() && slot.reasons().is_none()));
    }
}

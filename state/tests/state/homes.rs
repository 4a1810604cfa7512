//! One key and several homes on one machine, like those of users and containers, each with a live
//! anchor: recovered in one, copied to another, restored where the backup was made, handed over,
//! taken back, retired.
//!
//! ```text
//!   a copy of the key        homes whose anchors may witness it
//!   made in H                H
//!   recovered in H           H and no other; if that failed, H or those of before
//!   signed with in H         H
//!   copied, restored         those of the original when it was copied or backed up
//!   handed over by H         H no more, for any copy; taken back in H: H
//!   retired in H             H no more, for any copy and for ever
//!        v
//!   Oracle: no other home signs, and an index signs one message
//! ```
//!
//! The input of `recover` is honest: the burnt indexes cover all signatures, and the former homes
//! sign no more, except by copies of the recovered key.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use gabion_disk::testing::faulty::{FaultPlan, Sim};
use gabion_engine::keys::stateful::LedgerError;
use gabion_state::{backup, create, hand_over, recover, restore, retire, status, take_back};

use crate::faults::{Counts, Scenarios, asked_for, strike_all};
use crate::simulation::{
    CounterEntropy, KEY, OpenProcess, Oracle, Outcome, SignBy, Wrap, identity, message, new_key,
    real_lms, sign, sound,
};

/// How many faults script/test runs.
const FEW: usize = 500;

type Home = usize;
type Place = usize;

/// The homes.
const A: Home = 0;
const B: Home = 1;
const C: Home = 2;
const HOMES: [Home; 3] = [A, B, C];

/// Where the key and its copies are.
const PLACES: [&str; 3] = [KEY, "/copy/k", "/copy/third"];
const BACKUP: &str = "/copy/backup";

/// The steps of a scenario.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Signs a message, opening the key if the home has not.
    Sign(Home, Place),
    /// Signs a message, and ends the scenario if that fails, because the later steps rely on it.
    MustSign(Home, Place),
    /// Closes what a home has open.
    Close(Home),
    /// A home's process ends without closing anything.
    Kill(Home),
    /// Recovers, and burns what no witness saw of what was signed.
    Recover(Home, Place),
    /// Copies the key's files over others.
    Copy(Place, Place),
    /// Writes a backup.
    Backup(Home, Place),
    /// Removes what is there and restores the backup.
    Restore(Home, Place),
    /// Writes a backup that hands the key over, in place of an earlier backup, and types it again until there is one.
    HandOver(Home, Place),
    /// Destroys the backup and takes back what was handed over from the home, and burns what no witness saw.
    TakeBack(Home, Place),
    /// Retires the key.
    Retire(Home, Place),
}

use Step::*;

/// The scenarios, begun with a key that A makes at the first place, and which of their signatures are released if
/// nothing strikes.
const SCENARIOS: &[(&str, &[Step], &[bool])] = &[
    (
        "recovered elsewhere, and brought back",
        &[
            Backup(A, 0),
            Restore(B, 1),
            Recover(B, 1),
            Copy(1, 0),
            Sign(A, 0),
            Sign(B, 1),
            Sign(A, 0),
            Sign(B, 1),
        ],
        &[false, true, false, true],
    ),
    (
        "brought back after signatures of both",
        &[
            Sign(A, 0),
            Close(A),
            Backup(A, 0),
            Restore(B, 1),
            Recover(B, 1),
            Copy(1, 2),
            Copy(1, 0),
            Sign(B, 1),
            Sign(B, 1),
            Close(B),
            Sign(A, 0),
            Copy(1, 0),
            Sign(A, 0),
            Sign(A, 2),
            Sign(C, 2),
            Sign(B, 1),
        ],
        &[true, true, true, false, false, false, false, true],
    ),
    (
        "recovered in place",
        &[
            Sign(B, 0),
            Recover(B, 0),
            Copy(0, 1),
            Sign(A, 0),
            Sign(B, 1),
            Sign(A, 0),
            Sign(B, 0),
            Sign(B, 1),
        ],
        &[false, false, true, false, false, true],
    ),
    (
        "recovered back and forth",
        &[
            Sign(A, 0),
            Close(A),
            Recover(B, 0),
            Copy(0, 1),
            Sign(B, 0),
            Close(B),
            Recover(A, 0),
            Copy(0, 1),
            Sign(B, 0),
            Sign(B, 1),
            Sign(A, 0),
            Kill(A),
            Sign(B, 0),
            Sign(A, 1),
            Sign(A, 0),
        ],
        &[true, true, false, false, true, false, false, true],
    ),
    (
        "recovered several times",
        &[
            Recover(A, 0),
            Copy(0, 1),
            Recover(B, 1),
            Copy(1, 0),
            Recover(C, 0),
            Copy(0, 1),
            Copy(0, 2),
            Sign(A, 0),
            Sign(B, 1),
            Sign(C, 2),
            Sign(A, 1),
            Sign(B, 0),
            Sign(C, 2),
        ],
        &[false, false, true, false, false, true],
    ),
    (
        "killed and recovered once more",
        &[
            Recover(B, 0),
            Kill(B),
            Copy(0, 1),
            Recover(B, 0),
            Copy(0, 1),
            Sign(A, 1),
            Sign(A, 0),
            Sign(B, 0),
            Kill(B),
            Sign(A, 1),
            Sign(B, 0),
        ],
        &[false, false, true, false, true],
    ),
    (
        "restored once more where the backup was made",
        &[
            Sign(A, 0),
            Close(A),
            Backup(A, 0),
            MustSign(A, 0),
            Close(A),
            Restore(A, 0),
            Sign(A, 0),
            Recover(A, 0),
            Sign(A, 0),
            Close(A),
            Restore(A, 0),
            Sign(A, 0),
            Recover(A, 0),
            Sign(A, 0),
        ],
        &[true, true, false, true, false, true],
    ),
    (
        "restored here and there",
        &[
            Backup(A, 0),
            MustSign(A, 0),
            Close(A),
            Restore(B, 1),
            Recover(B, 1),
            Restore(A, 0),
            Sign(A, 0),
            Sign(B, 1),
            Close(B),
            Copy(1, 0),
            Sign(A, 0),
            Sign(B, 0),
        ],
        &[true, false, true, false, true],
    ),
    (
        "handed over",
        &[
            Sign(A, 0),
            HandOver(A, 0),
            Sign(A, 0),
            Recover(A, 0),
            Sign(A, 0),
            Restore(B, 1),
            Sign(B, 1),
            Recover(B, 1),
            Sign(B, 1),
            Copy(1, 0),
            Sign(A, 0),
            Sign(B, 1),
        ],
        &[true, false, false, false, true, false, true],
    ),
    (
        "handed over and restored where it was made",
        &[
            MustSign(A, 0),
            Kill(A),
            HandOver(A, 0),
            Restore(A, 0),
            Sign(A, 0),
            Recover(A, 0),
            Sign(A, 0),
            Restore(B, 1),
            Recover(B, 1),
            Sign(B, 1),
            Sign(A, 0),
        ],
        &[true, false, false, true, false],
    ),
    (
        "handed back",
        &[
            Copy(0, 2),
            HandOver(A, 0),
            Restore(B, 1),
            Recover(B, 1),
            MustSign(B, 1),
            HandOver(B, 1),
            Sign(B, 1),
            Restore(A, 0),
            Sign(A, 0),
            TakeBack(A, 0),
            Sign(A, 0),
            Copy(0, 1),
            Sign(B, 1),
            Sign(A, 2),
            Sign(A, 0),
        ],
        &[true, false, false, true, false, false, true],
    ),
    (
        "a hand-over given up",
        &[Sign(A, 0), HandOver(A, 0), Sign(A, 0), TakeBack(A, 0), Sign(A, 0)],
        &[true, false, true],
    ),
    (
        "retired",
        &[
            Sign(A, 0),
            Copy(0, 1),
            Retire(A, 0),
            Sign(A, 0),
            Recover(A, 0),
            TakeBack(A, 1),
            Sign(A, 1),
            Sign(A, 0),
        ],
        &[true, false, false, false],
    ),
];

/// Homes whose anchors may witness a copy of the key.
type Witnesses = BTreeSet<Home>;

/// The expectations that all processes are checked against.
#[derive(Default)]
struct Judge {
    oracle: Mutex<Oracle>,
    /// By places, and of the backup.
    witnesses: Mutex<[Witnesses; PLACES.len() + 1]>,
    messages: AtomicU64,
}

impl Judge {
    fn witnesses(&self) -> MutexGuard<'_, [Witnesses; PLACES.len() + 1]> {
        self.witnesses.lock().unwrap()
    }

    /// Signs by a process of a home; whether that worked.
    fn sign(&self, home: Home, place: Place, running: &mut OpenProcess, signer: &SignBy) -> bool {
        let message = [(None, message(&self.messages))];
        let open = running.open(PLACES[place], 1);
        let signed = open.is_ok_and(|ledger| sign(ledger, signer, &self.oracle, &message).is_ok());
        if !signed {
            // As a command does, which ends.
            running.ledger = None;
            return false;
        }
        let before = std::mem::replace(&mut self.witnesses()[place], [home].into());
        if !before.contains(&home) {
            let wrong =
                format!("home {home} signed at place {place}, whose witnesses were {before:?}");
            self.oracle.lock().unwrap().wrongs.push(wrong);
        }
        true
    }
}

/// A scenario that runs.
struct Homes {
    sim: Sim,
    wrap: Wrap,
    signer: SignBy,
    entropy: Arc<CounterEntropy>,
    judge: Arc<Judge>,
    /// By homes: the process that lives, and where the key is that it has open.
    running: [Option<(OpenProcess, Place)>; HOMES.len()],
    /// Homes whose anchor says that the key was handed over, and those in which it was retired.
    gone: BTreeSet<Home>,
    retired: BTreeSet<Home>,
    signed: Vec<bool>,
}

const THE_BACKUP: usize = PLACES.len();

impl Homes {
    fn new(plan: FaultPlan, seed: u64, wrap: &Wrap, signer: &SignBy) -> Self {
        let homes = Homes {
            sim: Sim::new(plan, seed),
            wrap: Arc::clone(wrap),
            signer: Arc::clone(signer),
            entropy: Arc::new(CounterEntropy(AtomicU64::new(seed))),
            judge: Arc::default(),
            running: [const { None }; HOMES.len()],
            gone: BTreeSet::new(),
            retired: BTreeSet::new(),
            signed: Vec::new(),
        };
        homes.set_racer();
        homes
    }

    /// Another process: it tries to sign in homes whose anchors are no witnesses.
    fn set_racer(&self) {
        let racing = Mutex::new(());
        let (sim, wrap, entropy) =
            (self.sim.clone(), Arc::clone(&self.wrap), Arc::clone(&self.entropy));
        let (judge, signer) = (Arc::clone(&self.judge), Arc::clone(&self.signer));
        self.sim.set_racer(Arc::new(move || {
            // The racer's own calls may trigger it again.
            let Ok(_racing) = racing.try_lock() else { return };
            intrude(&sim, &wrap, &entropy, &judge, &signer);
        }));
    }

    /// The process of a home that lives, which has nothing open elsewhere.
    fn running(&mut self, home: Home, place: Place) -> &mut OpenProcess {
        let (sim, wrap, entropy) = (&self.sim, &self.wrap, &self.entropy);
        let running = &mut self.running[home];
        if running.as_ref().is_some_and(|(running, _)| sim.is_dead(running.process)) {
            *running = None;
        }
        let new = || (OpenProcess::at_home(sim, wrap, entropy, home as u8 + 1), place);
        let (running, open) = running.get_or_insert_with(new);
        if *open != place {
            *open = place;
            if let Some(ledger) = running.ledger.take() {
                let _ = ledger.close();
            }
        }
        running
    }

    fn close(&mut self, home: Home) {
        if let Some(ledger) = self.running[home].as_mut().and_then(|(it, _)| it.ledger.take()) {
            let _ = ledger.close();
        }
    }

    /// Signs, and once more if that failed: a command that is refused is typed again.
    fn sign(&mut self, home: Home, place: Place) -> bool {
        let (judge, signer) = (Arc::clone(&self.judge), Arc::clone(&self.signer));
        let signed = (0..2).any(|_| judge.sign(home, place, self.running(home, place), &signer));
        self.signed.push(signed);
        signed
    }

    fn recover(&mut self, home: Home, place: Place, takes_back: bool) {
        HOMES.iter().for_each(|home| self.close(*home));
        let before = self.judge.witnesses()[place].clone();
        // Until it is known to have worked, and where it was interrupted.
        self.judge.witnesses()[place].insert(home);
        let (environment, key) =
            (self.running(home, place).environment.clone(), Path::new(PLACES[place]));
        let top = self.judge.oracle.lock().unwrap().top();
        let burn = status(&environment, key).map_or(top, |seen| top.saturating_sub(seen.index));
        let recovered = match takes_back {
            true => take_back(&environment, key, &identity(32), burn),
            false => recover(&environment, key, &identity(32), burn),
        };
        let mut witnesses = self.judge.witnesses();
        let is_refused = self.retired.contains(&home) || self.gone.contains(&home) && !takes_back;
        if is_refused {
            witnesses[place] = before;
            if recovered.is_ok() {
                let wrong = format!("home {home} recovered a key that had left it");
                self.judge.oracle.lock().unwrap().wrongs.push(wrong);
            }
            return;
        }
        if takes_back {
            // Also where it failed: it may have got as far as the anchor.
            self.gone.remove(&home);
        }
        match recovered {
            Ok(_) => witnesses[place] = [home].into(),
            Err(LedgerError::Exhausted { .. }) => witnesses[place] = before,
            Err(_) => {}
        }
    }

    fn copy(&mut self, from: Place, to: Place) {
        self.sim.remove(PLACES[to]);
        self.sim.copy(PLACES[from], PLACES[to]);
        let mut witnesses = self.judge.witnesses();
        witnesses[to] = witnesses[from].clone();
    }

    fn restore(&mut self, home: Home, place: Place) {
        self.close(home);
        if self.sim.files().contains_key(Path::new(BACKUP)) {
            self.sim.remove(PLACES[place]);
            let environment = self.running(home, place).environment.clone();
            let _ = restore(&environment, Path::new(BACKUP), Path::new(PLACES[place]));
            let mut witnesses = self.judge.witnesses();
            witnesses[place] = witnesses[THE_BACKUP].clone();
        }
    }

    /// Hands the key over; whether there is a backup of that.
    fn hand_over(&mut self, home: Home, place: Place) -> bool {
        self.close(home);
        self.sim.remove(BACKUP);
        let has_left = (0..4).any(|_| {
            let environment = self.running(home, place).environment.clone();
            let handed =
                hand_over(&environment, Path::new(PLACES[place]), &identity(32), Path::new(BACKUP));
            handed.is_ok() || self.sim.files().contains_key(Path::new(BACKUP))
        });
        if has_left {
            self.gone.insert(home);
            let mut witnesses = self.judge.witnesses();
            witnesses.iter_mut().for_each(|homes| homes.retain(|other| *other != home));
            witnesses[THE_BACKUP] = witnesses[place].clone();
        }
        has_left
    }

    /// Runs a step; whether the scenario goes on.
    fn step(&mut self, step: Step) -> bool {
        match step {
            Sign(home, place) => drop(self.sign(home, place)),
            MustSign(home, place) => return self.sign(home, place),
            Close(home) => self.close(home),
            Kill(home) => {
                if let Some((running, _)) = &self.running[home] {
                    self.sim.kill(running.process);
                }
            }
            Recover(home, place) => self.recover(home, place, false),
            HandOver(home, place) => return self.hand_over(home, place),
            TakeBack(home, place) => {
                self.sim.remove(BACKUP);
                self.recover(home, place, true);
            }
            Retire(home, place) => {
                self.close(home);
                let environment = self.running(home, place).environment.clone();
                if retire(&environment, Path::new(PLACES[place]), &identity(32)).is_err() {
                    return false;
                }
                self.retired.insert(home);
                let mut witnesses = self.judge.witnesses();
                witnesses.iter_mut().for_each(|homes| homes.retain(|other| *other != home));
            }
            Copy(from, to) => self.copy(from, to),
            Backup(home, place) => {
                self.close(home);
                let environment = self.running(home, place).environment.clone();
                if backup(&environment, Path::new(PLACES[place]), Path::new(BACKUP)).is_err() {
                    // Without it there is nothing to restore, and no reason to stop signing.
                    return false;
                }
                let mut witnesses = self.judge.witnesses();
                witnesses[THE_BACKUP] = witnesses[place].clone();
            }
            Restore(home, place) => self.restore(home, place),
        }
        true
    }

    /// Runs the steps, and then every home at every place that it must not sign at.
    fn run(mut self, steps: &[Step]) -> (Outcome, Vec<bool>) {
        for _ in 0..3 {
            self.judge.witnesses()[0] = [A].into();
            if create(&self.running(A, 0).environment.clone(), &new_key()).is_ok() {
                break;
            }
            self.running[A] = None;
            self.sim.remove("/keys/");
            self.sim.remove("/home/");
        }
        let _ = steps.iter().try_for_each(|step| self.step(*step).then_some(()));
        self.running = [const { None }; HOMES.len()];
        self.sim.set_racer(Arc::new(|| {}));
        intrude(&self.sim, &self.wrap, &self.entropy, &self.judge, &self.signer);
        let oracle = self.judge.oracle.lock().unwrap();
        let injected = self.sim.state().injected.clone();
        let calls = self.sim.calls();
        let outcome = Outcome {
            injected,
            calls,
            released: oracle.released,
            burnt: 0,
            wrongs: oracle.wrongs.clone(),
            goes_on: Ok(()),
        };
        (outcome, self.signed)
    }
}

/// Tries to sign at each place in each home whose anchor is no witness of what is there.
fn intrude(sim: &Sim, wrap: &Wrap, entropy: &Arc<CounterEntropy>, judge: &Judge, signer: &SignBy) {
    for (home, place) in HOMES.iter().flat_map(|home| (0..PLACES.len()).map(|at| (*home, at))) {
        if !judge.witnesses()[place].contains(&home) {
            let mut running = OpenProcess::at_home(sim, wrap, entropy, home as u8 + 1);
            judge.sign(home, place, &mut running, signer);
        }
    }
}

/// Up to `count` faults at a key with several homes.
pub fn strike(count: usize, wrap: &Wrap, stop: &dyn Fn(&Counts) -> bool) -> Counts {
    let names = SCENARIOS.iter().map(|(name, ..)| *name).collect();
    let signer = real_lms();
    let run = |scenario: usize, plan, seed| {
        Homes::new(plan, seed, wrap, &signer).run(SCENARIOS[scenario].1).0
    };
    strike_all(count, &Scenarios { names, run: &run }, stop)
}

#[test]
fn recovered_key_signs_in_one_home_under_faults() {
    let (count, begun) = (asked_for().map_or(FEW, |count| count / 4), Instant::now());
    let counts = strike(count, &sound(), &|_| false);
    counts.judge("hbs-home-faults", count, &["LMS_SHA256_M32_H5_W1 in three homes"], begun);
}

#[test]
fn only_the_home_that_recovered_a_key_signs_with_it() {
    for (name, steps, expected) in SCENARIOS {
        let homes = Homes::new(Vec::new(), 1, &sound(), &real_lms());
        let (outcome, signed) = homes.run(steps);
        assert!(outcome.wrongs.is_empty(), "{name}: {:?}", outcome.wrongs);
        assert_eq!(signed, *expected, "{name}");
    }
}

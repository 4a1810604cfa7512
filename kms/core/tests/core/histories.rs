//! Histories of changes and uses, against a model of a few lines; and many threads at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use gabion_kms::Code;
use gabion_kms::model::{Minimum, State, VersionId};
use gabion_kms::operations::{Kms, Options};
use gabion_kms::seal::{Share, Shares, Slots, UnsealMethod, init, unseal};
use gabion_kms::store::{MemoryStore, Store};

use crate::seals::adopted;
use crate::verbs::{create, pure};

/// A key as the pages describe one.
struct Model {
    /// By number, from 1: none was destroyed, else whether it is enabled.
    versions: Vec<Option<bool>>,
    min_sign: u32,
    min_verify: u32,
    min_decrypt: u32,
    is_deleted: bool,
}

impl Model {
    fn latest(&self) -> u32 {
        self.versions.len() as u32
    }

    fn state(&self, number: u32) -> Result<bool, Code> {
        match number.checked_sub(1).and_then(|place| self.versions.get(place as usize)) {
            _ if self.is_deleted => Err(Code::KeyDeleted),
            None => Err(Code::NotFound),
            Some(None) => Err(Code::VersionDestroyed),
            Some(Some(is_enabled)) => Ok(*is_enabled),
        }
    }

    fn may(&self, number: u32, oldest: u32) -> Result<(), Code> {
        match self.state(number)? {
            _ if number < oldest => Err(Code::VersionNotAllowed),
            false => Err(Code::VersionDisabled),
            true => Ok(()),
        }
    }

    fn may_sign(&self, number: u32) -> Result<(), Code> {
        self.may(number, if self.min_sign == 0 { self.latest() } else { self.min_sign })
    }

    fn rotate(&mut self) -> Result<(), Code> {
        self.state(self.latest())?;
        self.versions.push(Some(true));
        Ok(())
    }

    fn set(&mut self, number: u32, is_enabled: bool) -> Result<(), Code> {
        // A deleted key's versions can be disabled still.
        let was = std::mem::replace(&mut self.is_deleted, false);
        let state = self.state(number);
        self.is_deleted = was;
        state?;
        self.versions[number as usize - 1] = Some(is_enabled);
        Ok(())
    }

    fn set_minimum(&mut self, of: Minimum, number: u32) -> Result<(), Code> {
        if self.is_deleted {
            return Err(Code::KeyDeleted);
        }
        if (of, number) != (Minimum::Sign, 0) {
            self.state(number)?;
        }
        match of {
            Minimum::Sign => self.min_sign = number,
            Minimum::Verify => self.min_verify = number,
            Minimum::Decrypt => self.min_decrypt = number,
        }
        Ok(())
    }

    fn trim(&mut self, before: u32) -> Result<(), Code> {
        self.state(before)?;
        let in_use = [self.min_verify, self.min_decrypt, self.min_sign];
        if in_use.iter().any(|&oldest| oldest != 0 && oldest < before) {
            return Err(Code::BadRequest);
        }
        self.versions[..before as usize - 1].fill(None);
        Ok(())
    }
}

/// One key under a history, its service, and all that was signed.
struct History {
    store: Arc<MemoryStore>,
    shares: Vec<Share>,
    kms: Kms,
    id: VersionId,
    model: Model,
    signed: Vec<(u32, Vec<u8>, Vec<u8>)>,
    seed: u64,
}

impl History {
    fn new(algorithm: &str, seed: u64) -> Self {
        let store = Arc::new(MemoryStore::new());
        let recovery = Shares { shares: 3, threshold: 2 };
        let slots = Slots { recovery, passphrase: None };
        let (sealer, shares) = adopted(&*store, init(&*store, &slots));
        let kms = Kms::new(Arc::clone(&store) as Arc<dyn Store>, sealer, Options::default());
        let kms = kms.unwrap();
        let id = create(&kms, "key", algorithm);
        let model = Model {
            versions: vec![Some(true)],
            min_sign: 0,
            min_verify: 1,
            min_decrypt: 1,
            is_deleted: false,
        };
        History { store, shares, kms, id, model, signed: Vec::new(), seed }
    }

    fn draw(&mut self, n: u32) -> u32 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as u32 % n
    }

    /// A version, sometimes one that there is not.
    fn number(&mut self) -> u32 {
        let latest = self.model.latest();
        self.draw(latest + 2)
    }

    /// One step of both, which have to answer alike.
    fn step(&mut self) {
        // A deleted key answers little: it is restored soon.
        let is_restored = self.model.is_deleted && self.draw(3) == 0;
        let kind = if is_restored { 14 } else { self.draw(16) };
        let number = self.number();
        let (key, code) = (self.id.key.clone(), |result: Result<(), gabion_kms::Error>| {
            result.map_err(|error| error.code())
        });
        let (got, wanted) = match kind {
            0..4 => {
                let version = Some(number).filter(|_| kind > 0);
                let by = version.unwrap_or(self.model.latest());
                let text = format!("{}", self.signed.len()).into_bytes();
                let signed = self.kms.sign(&key, version, pure(&text));
                let got = signed.map(|signed| {
                    assert_eq!(signed.by.version, by);
                    self.signed.push((by, text, signed.signature));
                });
                (code(got), self.model.may_sign(by))
            }
            4..8 => {
                self.verify_one();
                return;
            }
            8 => (code(self.kms.rotate(&key).map(drop)), self.model.rotate()),
            9 | 10 => {
                let state = if kind == 9 { State::Disabled } else { State::Enabled };
                (code(self.kms.set_state(&key, number, state)), self.model.set(number, kind == 10))
            }
            11 | 12 => {
                let of = [Minimum::Sign, Minimum::Verify, Minimum::Decrypt][self.draw(3) as usize];
                (code(self.kms.set_minimum(&key, of, number)), self.model.set_minimum(of, number))
            }
            13 => (code(self.kms.trim(&key, number)), self.model.trim(number)),
            14 if self.model.is_deleted => {
                self.model.is_deleted = false;
                (code(self.kms.restore(&key)), Ok(()))
            }
            14 => {
                self.model.is_deleted = true;
                (code(self.kms.delete(&key)), Ok(()))
            }
            _ => {
                self.restart();
                return;
            }
        };
        assert_eq!(got, wanted, "step {kind} of version {number}");
    }

    fn verify_one(&mut self) {
        let Some(which) = (self.signed.len() as u32).checked_sub(1).map(|last| self.draw(last + 1))
        else {
            return;
        };
        let (by, text, signature) = self.signed[which as usize].clone();
        let version = VersionId { version: by, ..self.id.clone() };
        let wanted = self.model.may(by, self.model.min_verify).map(|()| true);
        let got = self.kms.verify(&version, pure(&text), &signature);
        assert_eq!(got.map_err(|error| error.code()), wanted, "version {by}");
    }

    /// Restarts the service, whose state is then read from the store.
    fn restart(&mut self) {
        let sealer = unseal(&*self.store, UnsealMethod::Shares(&self.shares[..2])).unwrap();
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        self.kms = Kms::new(store, sealer, Options::default()).unwrap();
    }
}

#[test]
fn histories_answer_as_the_model_does() {
    for (algorithm, seeds, steps) in [("ed25519", 12, 250), ("ml-dsa-44", 3, 120)] {
        let mut signed = 0;
        for seed in 0..seeds {
            let mut history = History::new(algorithm, seed);
            for _ in 0..steps {
                history.step();
            }
            signed += history.signed.len();
        }
        assert!(signed > seeds as usize * 2, "{signed}");
    }
}

/// Rotation under load: every answer is of one version as a whole, and versions never go back.
#[test]
fn rotation_under_load_tears_nothing() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "key", "ed25519");
    let (is_over, uses) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !is_over.load(Ordering::Acquire) {
                    let signed = kms.sign(&id.key, None, pure(b"x")).unwrap();
                    assert!(signed.by.version >= last);
                    last = signed.by.version;
                    assert_eq!(kms.verify(&signed.by, pure(b"x"), &signed.signature), Ok(true));
                    uses.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for version in 2..=80 {
            assert_eq!(kms.rotate(&id.key).unwrap().version, version);
        }
        is_over.store(true, Ordering::Release);
    });
    assert!(uses.load(Ordering::Relaxed) > 100);
}

/// A use that begins after a version's withdrawal was answered never succeeds.
#[test]
fn no_result_is_released_after_withdrawal() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "key", "ed25519");
    let good = kms.sign(&id.key, None, pure(b"x")).unwrap().signature;
    for round in 0..20 {
        kms.set_state(&id.key, 1, State::Enabled).unwrap();
        let (is_withdrawn, refusals) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let knew = is_withdrawn.load(Ordering::Acquire);
                        let signed = kms.sign(&id.key, None, pure(b"x")).is_ok();
                        let verified = kms.verify(&id, pure(b"x"), &good).is_ok();
                        assert!(!(knew && (signed || verified)), "round {round}");
                        refusals.fetch_add(usize::from(knew), Ordering::Relaxed);
                    }
                });
            }
            kms.set_state(&id.key, 1, State::Disabled).unwrap();
            is_withdrawn.store(true, Ordering::Release);
        });
        assert_eq!(kms.sign(&id.key, None, pure(b"x")).unwrap_err().code(), Code::VersionDisabled);
    }
}

/// A use that is under way while its version is withdrawn is not released either.
#[test]
fn withdrawal_during_a_use_withholds_its_result() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "key", "slh-dsa-shake-256f");
    // Once before, so that the key is expanded.
    kms.sign(&id.key, None, pure(b"x")).unwrap();
    let begun = Instant::now();
    kms.sign(&id.key, None, pure(b"x")).unwrap();
    let long = begun.elapsed();
    // On a busy machine the signature may be there before the change begins: then once more.
    for _ in 0..20 {
        let (is_begun, barrier) = (AtomicBool::new(false), Barrier::new(2));
        let signed = std::thread::scope(|scope| {
            let signing = scope.spawn(|| {
                barrier.wait();
                is_begun.store(true, Ordering::Release);
                kms.sign(&id.key, None, pure(b"x")).map(drop).map_err(|error| error.code())
            });
            barrier.wait();
            while !is_begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            std::thread::sleep(long / 4);
            kms.set_state(&id.key, 1, State::Disabled).unwrap();
            signing.join().unwrap()
        });
        kms.set_state(&id.key, 1, State::Enabled).unwrap();
        if signed == Err(Code::VersionDisabled) {
            return;
        }
        assert_eq!(signed, Ok(()));
    }
    panic!("every signature was released");
}

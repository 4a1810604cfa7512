//! Keys in sectors under faults: made in parts, interrupted in sectors and between them, used on two machines, copied and
//! restored.
//!
//! ```text
//!   KEY-0.part, KEY-1.part ..    stopped, killed, begun by two at once, copied, put back when the keys are there or gone
//!        v
//!   KEY-0, KEY-1 ..              each with a state, an anchor and a log; one of them moved to another machine
//!        v
//!   signatures of all of them --> Oracle: an index of a secret has one signature, under whatever public key
//! ```
//!
//! Starting a key anew makes another public key, possibly with sectors that were begun under the
//! old one. So the oracle is keyed by the secrets of sectors, and not by public keys.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use gabion_disk::testing::faulty::{FaultPlan, Sim};
use gabion_engine::Error;
use gabion_engine::keys::stateful::hss::StatefulKey;
use gabion_engine::keys::stateful::{
    IndexedSigner, Indexes, Ledger, LedgerError, Progress, Request, digest_of, sign_requests,
};
use gabion_state::{
    Environment, FilesLedger, KeyFile, KeyId, OpenKeys, Options, ResumableSectors, Secret, Sets,
    backup, check_place, discard, hand_over, recover, restore,
};

use crate::faults::{Counts, Scenarios, asked_for, strike_all};
use crate::simulation::{CounterEntropy, Oracle, Outcome, Wrap, message, process_on, sound};
use crate::test_home::{ONE, engine, key_options};

/// 32 leaves in all.
const SET: &str = "LMS_SHA256_M32_H5_W1";
/// How many faults script/test runs.
const FEW: usize = 500;
/// More leaves than there are: nothing stops it.
const ALL: u32 = u32::MAX;

/// The steps of a scenario.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Makes the keys in a separate process until so many leaves are done, and writes them if the
    /// limit was not reached.
    Make(u32),
    /// Signs so many messages with a sector, opening it if it is not open.
    Sign(usize, u64),
    /// Closes all.
    Close,
    /// The process ends without closing anything.
    Kill,
    /// Copies the folder of the keys.
    Keep,
    /// Puts what was copied over what is there, which is closed before.
    PutBack,
    /// Puts back only the unfinished files.
    PutPartsBack,
    /// Loses the keys and their anchors.
    LoseKeys,
    /// Writes a backup of a sector.
    Backup(usize),
    /// Removes a sector's files and restores its backup.
    Restore(usize),
    /// Recovers a sector, and burns nothing but what a witness saw.
    Recover(usize),
    /// Hands a sector over to another machine, as docs/guide/hbs.md says, while no process signs
    /// with it. Its files stay.
    Move(usize),
    /// Signs with the sector that was brought there.
    SignMoved(usize),
}

use Step::*;

/// The scenarios, and how many sectors the key has in each.
const SCENARIOS: &[(&str, usize, &[Step])] = &[
    (
        "sectors",
        2,
        &[
            Make(ALL),
            Sign(0, 1),
            Sign(1, 2),
            Close,
            Sign(1, 1),
            Sign(0, 1),
            Kill,
            Sign(0, 1),
            Sign(1, 3),
        ],
    ),
    (
        "four sectors",
        4,
        &[Make(9), Make(ALL), Sign(3, 1), Sign(0, 1), Sign(2, 9), Sign(1, 8), Close, Sign(3, 2)],
    ),
    (
        "stopped",
        2,
        &[
            Make(0),
            Make(1),
            Make(17),
            Make(ALL),
            Sign(0, 1),
            Sign(1, 1),
            Close,
            Make(ALL),
            Sign(1, 1),
        ],
    ),
    (
        "parts put back",
        2,
        &[
            Make(17),
            Keep,
            Make(ALL),
            Sign(0, 2),
            Sign(1, 2),
            PutPartsBack,
            Make(ALL),
            Sign(0, 1),
            Sign(1, 1),
        ],
    ),
    (
        "keys lost, parts put back",
        2,
        &[
            Make(17),
            Keep,
            Make(ALL),
            Sign(0, 1),
            Sign(1, 1),
            LoseKeys,
            PutPartsBack,
            Make(ALL),
            Sign(0, 1),
            Sign(1, 1),
        ],
    ),
    (
        "old sectors put back",
        2,
        &[
            Make(ALL),
            Sign(0, 1),
            Close,
            Keep,
            Sign(0, 1),
            Sign(1, 1),
            PutBack,
            Sign(0, 1),
            Sign(1, 1),
            Recover(0),
            Recover(1),
            Sign(0, 1),
            Sign(1, 1),
        ],
    ),
    (
        "a sector backed up",
        2,
        &[
            Make(ALL),
            Sign(1, 1),
            Close,
            Backup(1),
            Sign(0, 1),
            Sign(1, 2),
            Restore(1),
            Sign(1, 1),
            Sign(0, 1),
            Recover(1),
            Sign(1, 1),
        ],
    ),
    (
        "a sector moved",
        2,
        &[
            Make(ALL),
            Sign(1, 1),
            Close,
            Move(1),
            SignMoved(1),
            Sign(0, 1),
            Kill,
            SignMoved(1),
            Sign(1, 1),
            Sign(0, 1),
        ],
    ),
    (
        "a sector moved and looked for here",
        2,
        &[
            Make(ALL),
            Keep,
            Sign(1, 2),
            Close,
            Move(1),
            Sign(1, 1),
            Recover(1),
            Sign(1, 1),
            SignMoved(1),
            PutBack,
            Sign(1, 1),
            Recover(1),
            Sign(1, 1),
            Recover(0),
            Sign(0, 2),
        ],
    ),
];

/// Keys generated by earlier scenarios, by key file: scenarios are similar and draw the same random
/// bytes.
static KEYS: LazyLock<Mutex<HashMap<KeyId, GeneratedSector>>> = LazyLock::new(Mutex::default);

/// A key with its tree, and its signatures.
struct GeneratedSector {
    key: StatefulKey<'static>,
    signed: HashMap<(u64, Vec<u8>), Vec<u8>>,
}

/// Signs with the key of a file.
struct FileSigner {
    /// The identifier of its secret, in whatever sector and under whatever public key.
    secret: KeyId,
    /// The identifier of the key.
    key: KeyId,
}

impl FileSigner {
    /// Of a private key's file, which has no passphrase here.
    fn of(file: &KeyFile) -> Result<Self, Error> {
        let Secret::Hss(secret) = file.unlock(None)? else { panic!("a sector is one of LMS") };
        let levels = secret.levels();
        let key = format!("{:?} {:?} {:?}", *secret.encode(), levels.sectors(), file.public());
        let hand =
            FileSigner { secret: digest_of(&secret.encode()), key: digest_of(key.as_bytes()) };
        let mut keys = KEYS.lock().unwrap();
        if let Entry::Vacant(place) = keys.entry(hand.key) {
            let first = levels.indexes().start;
            let key = StatefulKey::open(engine(), &secret, file.public(), &[], first, ONE)?;
            place.insert(GeneratedSector { key, signed: HashMap::new() });
        }
        Ok(hand)
    }
}

impl IndexedSigner for FileSigner {
    fn sign_indexed(
        &mut self,
        indexes: Indexes,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut keys = KEYS.lock().unwrap();
        let GeneratedSector { key, signed } = keys.get_mut(&self.key).unwrap();
        let one = |(index, message): (u64, &&[u8])| match signed.get(&(index, message.to_vec())) {
            Some(signature) => Ok(signature.clone()),
            None => {
                let made = key.testing_only_sign_at(index, &[message])?.remove(0);
                signed.insert((index, message.to_vec()), made.clone());
                Ok(made)
            }
        };
        (indexes.first()..).zip(messages).map(one).collect()
    }
}

/// A process, and the sectors that it has open.
struct Host {
    process: u64,
    environment: Environment,
    open_keys: Arc<OpenKeys>,
    open: HashMap<PathBuf, (FilesLedger, FileSigner)>,
}

impl Host {
    fn sign(
        &mut self,
        key: &Path,
        messages: &[Vec<u8>],
        oracle: &Mutex<Oracle>,
    ) -> Result<(), Error> {
        if !self.open.contains_key(key) {
            let file = KeyFile::read(&*self.environment.disk, key)?;
            let open_keys = Some(Arc::clone(&self.open_keys));
            let options = Options { wait: Duration::ZERO, open_keys, ..Options::default() };
            let ledger = FilesLedger::open(&self.environment, key, file.public(), options)?;
            // As a `Signer` does.
            assert_eq!(
                ledger.indexes(),
                file.sets().indexes(),
                "no state of another sector is put here"
            );
            self.open.insert(key.to_owned(), (ledger, FileSigner::of(&file)?));
        }
        let (ledger, hand) = self.open.get_mut(key).unwrap();
        let requests: Vec<_> =
            messages.iter().map(|message| Request { message, id: None }).collect();
        let signed = sign_requests(ledger, hand, &requests);
        let secret = hand.secret;
        if signed.is_err() {
            // As a command does, which ends.
            self.open.remove(key);
        }
        let mut oracle = oracle.lock().unwrap();
        signed?.iter().for_each(|signed| oracle.saw_of(secret, signed.index, &signed.signature));
        Ok(())
    }
}

/// A scenario that runs.
struct Hosts {
    sim: Sim,
    wrap: Wrap,
    entropy: Arc<CounterEntropy>,
    oracle: Arc<Mutex<Oracle>>,
    count: usize,
    current: Option<Host>,
    elsewhere: Option<Host>,
    copied: Vec<(PathBuf, Vec<u8>)>,
    messages: Arc<AtomicU64>,
    /// Sectors that left the first machine.
    gone: HashSet<usize>,
}

/// Processes of two machines share one disk here, on which each has a home.
const HERE: u8 = 1;
const ELSEWHERE: u8 = 2;

fn sector(number: usize) -> PathBuf {
    PathBuf::from(format!("/keys/k-{number}"))
}

fn moved(number: usize) -> PathBuf {
    PathBuf::from(format!("/copy/k-{number}"))
}

fn ends_with(name: &Path, ending: &str) -> bool {
    name.to_str().unwrap().ends_with(ending)
}

/// Makes the keys, as `gabion hbs keygen` does; whether nothing stopped it.
fn keygen(environment: &Environment, count: usize, stop_at: u32) -> Result<bool, Error> {
    let keys: Vec<(PathBuf, Vec<PathBuf>)> =
        (0..count).map(|at| (sector(at), Vec::new())).collect();
    for (key, anchors) in &keys {
        check_place(environment, key, anchors, false, true)?;
    }
    let sets: Sets = SET.parse().unwrap();
    let begun = ResumableSectors::begin(environment, &keys, &sets, None)?;
    let mut watch = |progress: Progress<'_>| match progress.done >= stop_at {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let Some(made) = begun.generate(engine(), ONE, Duration::ZERO, &mut watch)? else {
        return Ok(false);
    };
    let mut written = 0;
    let done = made.iter().zip(&keys).try_for_each(|(made, (key, _))| {
        made.write(environment, &key_options(key))?;
        written += 1;
        Ok(())
    });
    if done.is_err() {
        keys[..written].iter().for_each(|(key, _)| discard(environment, key));
    }
    done.map(|()| true)
}

fn host(sim: &Sim, wrap: &Wrap, entropy: &Arc<CounterEntropy>, machine: u8) -> Host {
    let (process, environment) = process_on(sim, wrap, entropy, (machine, machine));
    Host { process, environment, open_keys: Arc::new(OpenKeys::new()), open: HashMap::new() }
}

impl Hosts {
    fn new(count: usize, plan: FaultPlan, seed: u64, wrap: Wrap) -> Self {
        let hosts = Hosts {
            sim: Sim::new(plan, seed),
            wrap,
            // All runs start with the same entropy, so that they draw the same keys.
            entropy: Arc::new(CounterEntropy(AtomicU64::new(1))),
            oracle: Arc::default(),
            count,
            current: None,
            elsewhere: None,
            copied: Vec::new(),
            messages: Arc::default(),
            gone: HashSet::new(),
        };
        hosts.set_racer();
        hosts
    }

    /// Another process: it signs with the first sector where there is one, and else makes the keys.
    fn set_racer(&self) {
        let racing: Mutex<Option<Host>> = Mutex::new(None);
        let (sim, wrap, entropy) =
            (self.sim.clone(), Arc::clone(&self.wrap), Arc::clone(&self.entropy));
        let (oracle, messages, count) =
            (Arc::clone(&self.oracle), Arc::clone(&self.messages), self.count);
        self.sim.set_racer(Arc::new(move || {
            // The racer's own calls may trigger it again.
            let Ok(mut racing) = racing.try_lock() else { return };
            if racing.as_ref().is_some_and(|host| sim.is_dead(host.process)) {
                *racing = None;
            }
            let racer = racing.get_or_insert_with(|| host(&sim, &wrap, &entropy, HERE));
            match sim.files().contains_key(&sector(0)) {
                true => drop(racer.sign(&sector(0), &[message(&messages)], &oracle)),
                false => drop(keygen(&racer.environment, count, ALL)),
            }
        }));
    }

    /// The process that lives.
    fn current(&mut self) -> &mut Host {
        if self.current.as_ref().is_none_or(|host| self.sim.is_dead(host.process)) {
            self.current = None;
            self.current = Some(host(&self.sim, &self.wrap, &self.entropy, HERE));
        }
        self.current.as_mut().unwrap()
    }

    /// Returns the process on the other machine.
    fn elsewhere(&mut self) -> &mut Host {
        if self.elsewhere.as_ref().is_none_or(|host| self.sim.is_dead(host.process)) {
            self.elsewhere = None;
            self.elsewhere = Some(host(&self.sim, &self.wrap, &self.entropy, ELSEWHERE));
        }
        self.elsewhere.as_mut().unwrap()
    }

    fn is_there(&self, key: &Path) -> bool {
        self.sim.files().contains_key(key)
    }

    /// After an error, follows its advice, and tries again.
    fn make(&mut self, stop_at: u32) {
        for _ in 0..4 {
            let there = (0..self.count).filter(|at| self.is_there(&sector(*at))).count();
            if there == self.count {
                return;
            }
            if there > 0 {
                // The advice is to remove the key with its files and its anchor if it is not used
                // anywhere; a process may have signed anyway.
                self.lose_keys();
            }
            self.current = None;
            let environment = self.current().environment.clone();
            match keygen(&environment, self.count, stop_at) {
                Ok(_) => return,
                // "remove it to begin anew"
                Err(Error::Ledger(LedgerError::Unsafe(_)) | Error::KeyFile(_)) => {
                    (0..self.count).for_each(|at| {
                        self.sim.remove_file(&format!("{}.part", sector(at).display()));
                    });
                }
                Err(_) => {}
            }
        }
    }

    /// Removes the keys that are there, with their files and anchors; what was begun stays.
    fn lose_keys(&mut self) {
        self.current = None;
        self.gone.clear();
        let files = self.sim.files();
        for at in 0..self.count {
            let name = |ending: &str| format!("{}{ending}", sector(at).display());
            if !files.contains_key(&sector(at)) {
                continue;
            }
            // The head of a state has eight bytes, and then the key; so does the name of an anchor.
            // Files of a broken ledger may be shorter.
            let state = files.get(Path::new(&name(".state")));
            if let Some(id) = state.and_then(|state| state.get(8..40)) {
                let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
                let first = 32 / self.count * at;
                let number = if first > 0 { format!("-{first}") } else { String::new() };
                self.sim.remove_file(&format!("/home/gabion/anchors/{id}{number}"));
            }
            ["", ".state", ".log", ".lock", ".trees"]
                .iter()
                .for_each(|ending| self.sim.remove_file(&name(ending)));
        }
    }

    /// Signs, and retries once after a failure.
    fn sign(&mut self, number: usize, count: u64) {
        for _ in 0..2 {
            let messages: Vec<_> = (0..count).map(|_| message(&self.messages)).collect();
            let oracle = Arc::clone(&self.oracle);
            if self.current().sign(&sector(number), &messages, &oracle).is_ok() {
                break;
            }
        }
    }

    fn put_back(&mut self, which: impl Fn(&Path) -> bool) {
        self.close();
        for (name, bytes) in self.copied.iter().filter(|(name, _)| which(name)) {
            self.sim.put(name, bytes.clone());
        }
    }

    fn close(&mut self) {
        for (_, (ledger, _)) in std::mem::take(&mut self.current().open) {
            let _ = ledger.close();
        }
    }

    /// A backup that hands the sector over, from there another key, which goes on with what a witness saw, of which there is
    /// none. Where no backup came of it, whatever was left, nothing is brought.
    fn bring(&mut self, number: usize) {
        self.close();
        let (from, to, file) = (sector(number), moved(number), Path::new("/copy/backup"));
        let (here, there) =
            (self.current().environment.clone(), self.elsewhere().environment.clone());
        let Ok(key) = KeyFile::read(&*here.disk, &from) else { return };
        let has_left = (0..4).any(|_| {
            let here = self.current().environment.clone();
            hand_over(&here, &from, &key.identity(), file).is_ok() || self.is_there(file)
        });
        if !has_left {
            return;
        }
        self.gone.insert(number);
        let brought = restore(&there, file, &to)
            .and_then(|()| recover(&there, &to, &key.identity(), 0).map(drop));
        if brought.is_err() {
            self.sim.remove(&format!("{}", to.display()));
        }
        self.sim.remove("/copy/backup");
    }

    fn restore(&mut self, number: usize) {
        self.close();
        let environment = self.current().environment.clone();
        if self.is_there(Path::new("/copy/backup")) {
            self.sim.remove(&format!("{}", sector(number).display()));
            let _ = restore(&environment, Path::new("/copy/backup"), &sector(number));
        }
    }

    fn recover(&mut self, number: usize) {
        self.close();
        let environment = self.current().environment.clone();
        let Ok(file) = KeyFile::read(&*environment.disk, &sector(number)) else { return };
        let _ = recover(&environment, &sector(number), &file.identity(), 0);
    }

    fn step(&mut self, step: Step) {
        match step {
            Make(stop_at) => self.make(stop_at),
            Sign(number, count) => self.sign(number, count),
            Close => self.close(),
            Kill => {
                let process = self.current().process;
                self.sim.kill(process);
            }
            Keep => {
                let files = self.sim.files().into_iter();
                self.copied = files.filter(|(name, _)| name.starts_with("/keys")).collect();
            }
            PutBack => self.put_back(|_| true),
            PutPartsBack => self.put_back(|name| ends_with(name, ".part")),
            LoseKeys => {
                self.close();
                self.lose_keys();
            }
            Backup(number) => {
                let environment = self.current().environment.clone();
                let _ = backup(&environment, &sector(number), Path::new("/copy/backup"));
            }
            Restore(number) => self.restore(number),
            Recover(number) => self.recover(number),
            Move(number) => self.bring(number),
            SignMoved(number) => {
                let (messages, oracle) = ([message(&self.messages)], Arc::clone(&self.oracle));
                let _ = self.elsewhere().sign(&moved(number), &messages, &oracle);
            }
        }
    }

    /// Runs the steps, and a process after them that signs with each sector that is there.
    fn run(mut self, steps: &[Step]) -> Outcome {
        steps.iter().for_each(|step| self.step(*step));
        (self.current, self.elsewhere) = (None, None);
        self.sim.set_racer(Arc::new(|| {}));
        let (mut goes_on, mut burnt) = (Ok(()), 0);
        let there: Vec<_> = (0..self.count).filter(|at| self.is_there(&sector(*at))).collect();
        for at in there {
            let mut signed = Ok(());
            if self.gone.contains(&at) {
                self.current = None;
                let (messages, oracle) = ([message(&self.messages)], Arc::clone(&self.oracle));
                if self.current().sign(&sector(at), &messages, &oracle).is_ok() {
                    let wrong = format!("sector {at} signed where it had been handed over");
                    oracle.lock().unwrap().wrongs.push(wrong);
                }
                continue;
            }
            // A fault may have waited for this one, and for the one after it.
            for _ in 0..3 {
                self.current = None;
                let (messages, oracle) = ([message(&self.messages)], Arc::clone(&self.oracle));
                signed = self.current().sign(&sector(at), &messages, &oracle);
                // A key that is used up is asked no more: what struck then would say nothing of it.
                if matches!(signed, Ok(()) | Err(Error::Ledger(LedgerError::Exhausted { .. }))) {
                    break;
                }
            }
            let open = self.current().open.get(&sector(at));
            burnt += open.and_then(|(ledger, _)| ledger.remaining().ok()).map_or(0, |it| it.burnt);
            match signed {
                Ok(()) | Err(Error::Ledger(LedgerError::Exhausted { .. })) => {}
                Err(Error::Ledger(error)) => goes_on = Err(error),
                Err(error) => panic!("{error}"),
            }
        }
        self.current = None;
        let oracle = self.oracle.lock().unwrap();
        let injected = self.sim.state().injected.clone();
        let (released, wrongs) = (oracle.released, oracle.wrongs.clone());
        Outcome { injected, calls: self.sim.calls(), released, burnt, wrongs, goes_on }
    }
}

fn run(scenario: usize, plan: FaultPlan, seed: u64, wrap: &Wrap) -> Outcome {
    let (_, count, steps) = SCENARIOS[scenario];
    Hosts::new(count, plan, seed, Arc::clone(wrap)).run(steps)
}

/// Up to `count` faults at keys in sectors.
pub fn strike(count: usize, wrap: &Wrap, stop: &dyn Fn(&Counts) -> bool) -> Counts {
    let names = SCENARIOS.iter().map(|(name, ..)| *name).collect();
    let run = |scenario, plan, seed| run(scenario, plan, seed, wrap);
    strike_all(count, &Scenarios { names, run: &run }, stop)
}

#[test]
fn sector_index_never_signs_twice_under_faults() {
    let (count, begun) = (asked_for().map_or(FEW, |count| count / 4), Instant::now());
    let counts = strike(count, &sound(), &|_| false);
    counts.judge("hbs-sector-faults", count, &["LMS_SHA256_M32_H5_W1 in 2 and 4 sectors"], begun);
}

#[test]
fn sector_scenarios_succeed_without_faults() {
    for (scenario, (name, count, _)) in SCENARIOS.iter().enumerate() {
        let outcome = run(scenario, Vec::new(), 1, &sound());
        assert!(outcome.wrongs.is_empty(), "{name}: {:?}", outcome.wrongs);
        println!(
            "{name}: {count} sectors, {} calls, {} signatures",
            outcome.calls, outcome.released
        );
        assert!(outcome.released >= 5, "{name}");
        assert!(outcome.goes_on.is_ok(), "{name}: {:?}", outcome.goes_on);
    }
}

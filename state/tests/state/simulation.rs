//! Scenarios, run over a disk that fails, and the oracle that watches what leaves.
//!
//! ```text
//!   scenario (a list of steps) x fault (a call, a kind, a seed)
//!        v
//!   a process at a time; killed: the next one goes on, from what the disk kept
//!        v
//!   released signatures --> Oracle: one index, one signature; one request id, one message
//! ```

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gabion_backend::portable::Portable;
use gabion_disk::Disk;
use gabion_disk::testing::faulty::{Dice, Fault, FaultPlan, Sim, SimDisk};
use gabion_engine::keys::stateful::{
    IndexedSigner, Indexes, Ledger, LedgerError, Request, digest_of, sign_requests,
};
use gabion_engine::{Entropy, EntropyError, Error};
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels};
use gabion_scheme::xmss::{self, Set};
use gabion_state::{
    Environment, FilesLedger, KeyId, KeyIdentity, Machine, NewKey, OpenKeys, Options, Process,
    Trees, backup, create, recover, restore,
};

pub const KEY: &str = "/keys/k";
pub const COPY: &str = "/copy/k";
pub const PUBLIC: &[u8] = b"the public key of all scenarios";
pub const SECRET: &[u8] = b"the private key of all scenarios";

/// A machine whose clock jumps and which may be started again.
pub struct SimMachine {
    pub sim: Sim,
    pub process: u64,
    pub name: u8,
    /// The number of the home: each user and container has one.
    pub home: u8,
    clock: AtomicU64,
}

impl Machine for SimMachine {
    fn boot(&self) -> [u8; 32] {
        [self.sim.state().boot as u8; 32]
    }

    fn id(&self) -> io::Result<[u8; 32]> {
        Ok([self.name; 32])
    }

    fn process(&self) -> Option<Process> {
        Some((self.process as u32, self.process))
    }

    fn now(&self) -> u64 {
        // Backwards as often as forwards.
        let mut dice = Dice(self.clock.fetch_add(1, Ordering::Relaxed));
        dice.roll()
    }

    fn host(&self) -> String {
        "simulated".to_owned()
    }

    fn anchors(&self) -> Option<PathBuf> {
        let home = if self.home == 1 { "gabion".to_owned() } else { format!("on-{}", self.home) };
        Some(PathBuf::from(format!("/home/{home}/anchors")))
    }

    fn pause(&self, _time: Duration) {}
}

/// Entropy that never repeats.
pub struct CounterEntropy(pub AtomicU64);

impl Entropy for CounterEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        let mut dice = Dice(self.0.fetch_add(1, Ordering::Relaxed));
        out.iter_mut().for_each(|byte| *byte = dice.roll() as u8);
        Ok(())
    }
}

/// The released signatures, and violations.
#[derive(Default)]
pub struct Oracle {
    /// By identifier of the secret, and index.
    signatures: HashMap<(KeyId, u64), Vec<u8>>,
    requests: HashMap<String, [u8; 32]>,
    pub released: u64,
    pub wrongs: Vec<String>,
}

impl Oracle {
    /// One more than the highest index of the one secret that there is.
    pub fn top(&self) -> u64 {
        self.signatures.keys().map(|(_, index)| index + 1).max().unwrap_or(0)
    }

    /// A signature of a secret's left.
    pub fn saw_of(&mut self, key: KeyId, index: u64, signature: &[u8]) {
        self.released += 1;
        if self.signatures.entry((key, index)).or_insert_with(|| signature.to_vec()) != signature {
            self.wrongs.push(format!("index {index} signed two messages"));
        }
    }

    /// Records a signature of the only secret, with its request.
    fn saw(&mut self, index: u64, signature: &[u8], id: Option<&str>, message: &[u8]) {
        self.saw_of([0; 32], index, signature);
        let Some(id) = id else { return };
        let digest = digest_of(message);
        if *self.requests.entry(id.to_owned()).or_insert(digest) != digest {
            self.wrongs.push(format!("request {id} has two messages"));
        }
    }
}

/// The steps of a scenario.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Signs so many messages in one call, opening the key if it is not open.
    Sign(u64),
    /// Signs the message for a request id.
    SignWithId(&'static str, &'static str),
    /// Closes the key.
    Close,
    /// The process ends without closing it.
    Kill,
    /// Reserves more than one call needs from now on.
    ReserveAhead(u64),
    /// Copies the key's folder.
    Copy,
    /// Signs with the copy.
    SignCopy,
    /// Puts the copied files over the key's, which is closed before.
    PutBack,
    /// Writes a backup.
    Backup,
    /// Removes the key's files and restores the backup.
    Restore,
    /// Recovers, and burns nothing but what a witness saw.
    Recover,
    /// Loses the log.
    LoseLog,
    /// Removes the lock, while processes have the key open.
    LoseLock,
    /// Forgets a request id.
    Forget(&'static str),
    /// Keeps trees.
    Keep,
    /// Takes one of three reserved indexes, gives back the others and signs nothing.
    GiveBack,
}

use Step::*;

/// The scenarios. Each is begun with a key that is made under the same faults.
pub const SCENARIOS: &[(&str, &[Step])] = &[
    ("one by one", &[Sign(1), Sign(1), Sign(1), Close]),
    ("blocks", &[ReserveAhead(4), Sign(1), Sign(1), Sign(3), Close, Sign(2), Close]),
    ("batches", &[Sign(3), Sign(2), Close, Sign(4)]),
    (
        "requests",
        &[
            SignWithId("a", "x"),
            SignWithId("b", "y"),
            SignWithId("a", "x"),
            Close,
            SignWithId("a", "x"),
            SignWithId("b", "z"),
        ],
    ),
    (
        "forgotten",
        &[
            SignWithId("a", "x"),
            Forget("a"),
            SignWithId("a", "y"),
            Close,
            SignWithId("a", "y"),
            SignWithId("a", "x"),
        ],
    ),
    ("copied", &[Sign(1), Copy, Sign(1), SignCopy, Sign(1), Close, SignCopy]),
    ("copy first", &[Sign(1), Close, Copy, SignCopy, Sign(1), SignCopy, Sign(2)]),
    (
        "put back",
        &[ReserveAhead(3), Sign(1), Copy, Sign(1), Close, PutBack, Sign(1), Recover, Sign(1)],
    ),
    (
        "put back at once",
        &[Copy, SignWithId("a", "x"), PutBack, SignWithId("a", "y"), Sign(1), PutBack, Sign(1)],
    ),
    ("backed up", &[Sign(1), Close, Backup, Sign(2), Close, Restore, Sign(1), Recover, Sign(1)]),
    (
        "killed",
        &[ReserveAhead(4), Sign(1), Kill, Sign(1), Kill, Copy, Sign(1), Kill, PutBack, Sign(1)],
    ),
    (
        "given back",
        &[ReserveAhead(3), GiveBack, Sign(1), GiveBack, Close, GiveBack, Sign(2), Close, Sign(1)],
    ),
    ("used up", &[Sign(12), Sign(12), Close, Sign(7), Sign(2), Sign(1), Sign(1), Close]),
    (
        "log lost",
        &[
            ReserveAhead(3),
            Sign(1),
            LoseLog,
            Sign(1),
            Recover,
            Sign(1),
            Close,
            LoseLog,
            Recover,
            Sign(1),
        ],
    ),
    (
        "lock lost",
        &[
            ReserveAhead(3),
            Sign(1),
            LoseLock,
            Sign(1),
            Recover,
            Sign(1),
            Close,
            Recover,
            Sign(1),
            Kill,
            LoseLock,
            Recover,
        ],
    ),
    ("trees", &[Keep, Sign(1), Keep, Close, Keep, Sign(1)]),
];

/// The identity of a key of [`PUBLIC`] with `end` indexes.
pub fn identity(end: u64) -> KeyIdentity {
    KeyIdentity { public: PUBLIC.to_vec(), indexes: 0..end }
}

/// The key of all scenarios.
pub fn new_key() -> NewKey<'static> {
    NewKey {
        key: Path::new(KEY),
        secret: SECRET,
        public: PUBLIC,
        first: 0,
        next: 0,
        end: 32,
        warn_at: 2,
        anchors: &[],
        allow_network: false,
        note: "made",
    }
}

/// How the state is kept: as it should be, or broken on purpose.
pub type Wrap = Arc<dyn Fn(SimDisk) -> Arc<dyn Disk> + Send + Sync>;

/// Returns a wrapper that changes nothing.
pub fn sound() -> Wrap {
    Arc::new(|disk| Arc::new(disk))
}

/// Makes signatures of a real key.
pub type SignBy = Arc<dyn Fn(u64, &[u8]) -> Vec<u8> + Send + Sync>;

/// The result of a run.
pub struct Outcome {
    pub injected: Vec<Fault>,
    pub calls: usize,
    pub released: u64,
    pub burnt: u64,
    pub wrongs: Vec<String>,
    /// Whether a new process can sign afterwards.
    pub goes_on: Result<(), LedgerError>,
}

/// A scenario that runs.
pub struct Simulation {
    sim: Sim,
    wrap: Wrap,
    signer: SignBy,
    entropy: Arc<CounterEntropy>,
    oracle: Arc<Mutex<Oracle>>,
    current: Option<OpenProcess>,
    copy: Option<OpenProcess>,
    copied: Vec<(PathBuf, Vec<u8>)>,
    ahead: u64,
    messages: Arc<AtomicU64>,
}

/// A simulated process and the key that it has open.
pub struct OpenProcess {
    pub process: u64,
    pub environment: Environment,
    open_keys: Arc<OpenKeys>,
    pub ledger: Option<FilesLedger>,
}

/// Returns the environment of a new process on a simulated machine.
pub fn environment(sim: &Sim, entropy: &Arc<CounterEntropy>) -> Environment {
    process_on(sim, &sound(), entropy, (1, 1)).1
}

/// Returns a new process of a machine and a home, and its environment.
pub fn process_on(
    sim: &Sim,
    wrap: &Wrap,
    entropy: &Arc<CounterEntropy>,
    (name, home): (u8, u8),
) -> (u64, Environment) {
    let disk = sim.process();
    let process = disk.process;
    let clock = AtomicU64::new(process);
    let machine = SimMachine { sim: sim.clone(), process, name, home, clock };
    let environment = Environment {
        disk: wrap(disk),
        machine: Arc::new(machine),
        entropy: Arc::clone(entropy) as Arc<dyn Entropy + Send + Sync>,
    };
    (process, environment)
}

impl OpenProcess {
    fn new(sim: &Sim, wrap: &Wrap, entropy: &Arc<CounterEntropy>) -> Self {
        Self::at_home(sim, wrap, entropy, 1)
    }

    pub fn at_home(sim: &Sim, wrap: &Wrap, entropy: &Arc<CounterEntropy>, home: u8) -> Self {
        let (process, environment) = process_on(sim, wrap, entropy, (1, home));
        OpenProcess { process, environment, open_keys: Arc::new(OpenKeys::new()), ledger: None }
    }

    pub fn open(&mut self, key: &str, ahead: u64) -> Result<&FilesLedger, LedgerError> {
        if self.ledger.is_none() {
            let open_keys = Some(Arc::clone(&self.open_keys));
            let options = Options { ahead, wait: Duration::ZERO, open_keys, ..Options::default() };
            self.ledger =
                Some(FilesLedger::open(&self.environment, Path::new(key), PUBLIC, options)?);
        }
        Ok(self.ledger.as_ref().unwrap())
    }
}

/// A signer over a function that makes signatures.
pub struct FakeSigner<'a>(pub &'a SignBy);

impl IndexedSigner for FakeSigner<'_> {
    fn sign_indexed(
        &mut self,
        indexes: Indexes,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        Ok((indexes.first()..)
            .zip(messages)
            .map(|(index, message)| (self.0)(index, message))
            .collect())
    }
}

/// Signs, and shows the oracle what left.
pub fn sign(
    ledger: &FilesLedger,
    signer: &SignBy,
    oracle: &Mutex<Oracle>,
    messages: &[(Option<&str>, Vec<u8>)],
) -> Result<(), Error> {
    let requests: Vec<Request<'_>> =
        messages.iter().map(|(id, message)| Request { message, id: *id }).collect();
    let signed = sign_requests(ledger, &mut FakeSigner(signer), &requests)?;
    let mut oracle = oracle.lock().unwrap();
    for (signed, (id, message)) in signed.iter().zip(messages) {
        oracle.saw(signed.index, &signed.signature, *id, message);
    }
    Ok(())
}

impl Simulation {
    pub fn new(plan: FaultPlan, seed: u64, wrap: Wrap, signer: SignBy) -> Self {
        let world = Simulation {
            sim: Sim::new(plan, seed),
            wrap,
            signer,
            entropy: Arc::new(CounterEntropy(AtomicU64::new(seed))),
            oracle: Arc::default(),
            current: None,
            copy: None,
            copied: Vec::new(),
            ahead: 1,
            messages: Arc::default(),
        };
        world.set_racer();
        world
    }

    /// Another process, which opens the key where it can and keeps it open.
    fn set_racer(&self) {
        let racing: Mutex<Option<OpenProcess>> = Mutex::new(None);
        let (sim, wrap, entropy) =
            (self.sim.clone(), Arc::clone(&self.wrap), Arc::clone(&self.entropy));
        let (signer, oracle) = (Arc::clone(&self.signer), Arc::clone(&self.oracle));
        let messages = Arc::clone(&self.messages);
        self.sim.set_racer(Arc::new(move || {
            // The racer's own calls may trigger it again.
            let Ok(mut racing) = racing.try_lock() else { return };
            if racing.as_ref().is_some_and(|running| sim.is_dead(running.process)) {
                *racing = None;
            }
            let running = racing.get_or_insert_with(|| OpenProcess::new(&sim, &wrap, &entropy));
            let Ok(ledger) = running.open(KEY, 1) else { return };
            let message = message(&messages);
            if sign(ledger, &signer, &oracle, &[(None, message)]).is_err() {
                running.ledger = None;
            }
        }));
    }

    /// Runs the steps, and a process after them that signs.
    pub fn run(mut self, steps: &[Step]) -> Outcome {
        // If no key was made, another process tries again.
        for _ in 0..3 {
            // Another process may have signed with a key that came to nothing.
            if self.make_key().is_ok() || self.oracle.lock().unwrap().released > 0 {
                break;
            }
            self.current = None;
            self.sim.remove("/keys/");
            self.sim.remove("/home/");
        }
        for step in steps {
            self.step(*step);
        }
        self.current = None;
        self.copy = None;
        self.sim.set_racer(Arc::new(|| {}));
        let mut last = OpenProcess::new(&self.sim, &self.wrap, &self.entropy);
        let mut goes_on = self.sign_by(&mut last, KEY, &[(None, message(&self.messages))]);
        // A fault may have waited for this one, and for the one after it.
        for _ in 0..2 {
            if goes_on.is_ok() {
                break;
            }
            last = OpenProcess::new(&self.sim, &self.wrap, &self.entropy);
            goes_on = self.sign_by(&mut last, KEY, &[(None, message(&self.messages))]);
        }
        let burnt = last.ledger.as_ref().and_then(|ledger| ledger.remaining().ok());
        last.ledger = None;
        let oracle = self.oracle.lock().unwrap();
        let goes_on = match goes_on {
            Ok(()) | Err(Error::Ledger(LedgerError::Exhausted { .. })) => Ok(()),
            Err(Error::Ledger(error)) => Err(error),
            Err(error) => panic!("{error}"),
        };
        let injected = self.sim.state().injected.clone();
        Outcome {
            injected,
            calls: self.sim.calls(),
            released: oracle.released,
            burnt: burnt.map_or(0, |remaining| remaining.burnt),
            wrongs: oracle.wrongs.clone(),
            goes_on,
        }
    }

    fn make_key(&mut self) -> Result<(), LedgerError> {
        create(&self.running().environment, &new_key())
    }

    /// The process that lives.
    fn running(&mut self) -> &mut OpenProcess {
        let is_dead = self.current.as_ref().is_none_or(|running| self.sim.is_dead(running.process));
        if is_dead {
            self.current = None;
            self.current = Some(OpenProcess::new(&self.sim, &self.wrap, &self.entropy));
        }
        self.current.as_mut().unwrap()
    }

    fn sign_by(
        &self,
        running: &mut OpenProcess,
        key: &str,
        messages: &[(Option<&str>, Vec<u8>)],
    ) -> Result<(), Error> {
        let signed = running
            .open(key, self.ahead)
            .map_err(Error::from)
            .and_then(|ledger| sign(ledger, &self.signer, &self.oracle, messages));
        if signed.is_err() {
            // As a command does, which ends.
            running.ledger = None;
        }
        signed
    }

    /// Signs, and retries once after a failure.
    fn sign(&mut self, messages: &[(Option<&str>, Vec<u8>)]) {
        for _ in 0..2 {
            self.running();
            let mut running = self.current.take().unwrap();
            let signed = self.sign_by(&mut running, KEY, messages);
            self.current = Some(running);
            if signed.is_ok() {
                break;
            }
        }
    }

    fn close(&mut self) {
        if let Some(ledger) = self.running().ledger.take() {
            let _ = ledger.close();
        }
    }

    fn forget(&mut self, id: &str) {
        self.running();
        let mut running = self.current.take().unwrap();
        let forgotten = running.open(KEY, 1).and_then(|ledger| ledger.forget(id));
        // The caller may reuse the id, whether or not it saw the call succeed.
        self.oracle.lock().unwrap().requests.remove(id);
        if forgotten.is_err() {
            running.ledger = None;
        }
        self.current = Some(running);
    }

    fn step(&mut self, step: Step) {
        match step {
            Sign(count) => {
                let fresh = (0..count).map(|_| (None, message(&self.messages)));
                let fresh: Vec<_> = fresh.collect();
                self.sign(&fresh);
            }
            SignWithId(id, text) => self.sign(&[(Some(id), text.as_bytes().to_vec())]),
            Close => self.close(),
            Kill => {
                if let Some(running) = &self.current {
                    self.sim.kill(running.process);
                }
            }
            ReserveAhead(count) => self.ahead = count,
            Copy => {
                self.sim.copy("/keys/", "/copy/");
                let files = self.sim.files().into_iter();
                self.copied = files.filter(|(name, _)| name.starts_with("/keys")).collect();
            }
            SignCopy => self.sign_copy(),
            PutBack => {
                self.close();
                for (name, bytes) in self.copied.clone() {
                    self.sim.put(&name, bytes);
                }
            }
            Backup => {
                let environment = self.running().environment.clone();
                self.sim.remove("/copy/backup");
                let _ = backup(&environment, Path::new(KEY), Path::new("/copy/backup"));
            }
            Restore => {
                self.close();
                let environment = self.running().environment.clone();
                if self.sim.files().contains_key(Path::new("/copy/backup")) {
                    self.sim.remove("/keys/");
                    let _ = restore(&environment, Path::new("/copy/backup"), Path::new(KEY));
                }
            }
            LoseLog => {
                self.close();
                self.sim.remove("/keys/k.log");
            }
            LoseLock => self.sim.remove("/keys/k.lock"),
            Recover => self.recover(),
            Forget(id) => self.forget(id),
            Keep => {
                let environment = self.running().environment.clone();
                let trees = Trees::new(&environment, Path::new(KEY), SECRET);
                let _ = trees.save(b"trees");
                if let Some(kept) = trees.load() {
                    assert_eq!(kept, b"trees");
                }
            }
            GiveBack => {
                let ahead = self.ahead;
                if let Ok(mut three) = self.running().open(KEY, ahead).and_then(|it| it.reserve(3))
                {
                    let _ = three.take(1);
                    three.close();
                }
            }
        }
    }

    fn sign_copy(&mut self) {
        let is_dead = self.copy.as_ref().is_none_or(|running| self.sim.is_dead(running.process));
        let mut running = match self.copy.take().filter(|_| !is_dead) {
            Some(running) => running,
            None => OpenProcess::new(&self.sim, &self.wrap, &self.entropy),
        };
        let message = message(&self.messages);
        let _ = self.sign_by(&mut running, COPY, &[(None, message)]);
        self.copy = Some(running);
    }

    /// Recovers above what the witnesses that are here saw, and no further.
    fn recover(&mut self) {
        self.close();
        let environment = self.running().environment.clone();
        let _ = recover(&environment, Path::new(KEY), &identity(32), 0);
    }
}

/// A message that never came before.
pub fn message(messages: &AtomicU64) -> Vec<u8> {
    format!("message {}", messages.fetch_add(1, Ordering::Relaxed)).into_bytes()
}

/// A stand-in for a signature: of two messages it is two.
pub fn stand_in() -> SignBy {
    Arc::new(|index, message| [&index.to_be_bytes()[..], &digest_of(message)].concat())
}

/// Signatures of a real key, LMS with H5 and W1, whose 32 indexes are those of all scenarios. Each is checked before
/// it leaves.
pub fn real_lms() -> SignBy {
    let levels = Levels::new(&[(&LMS[0], &LM_OTS[0])]).unwrap();
    assert_eq!(levels.signatures(), 32);
    let mut scratch = lms::Scratch::new();
    let mut key = lms::generate(&Portable, levels, &[5; 16], &[7; 32], &mut scratch).unwrap();
    remembered(move |index, message| {
        let mut signature = vec![0; key.levels().signature_len()];
        key.sign(&Portable, index, &[message], &mut signature, &mut scratch).unwrap();
        signature
    })
}

/// Signs by XMSS^MT, with trees of height 5, of which the first has these indexes.
pub fn real_xmss() -> SignBy {
    let set = Set::from_name("XMSSMT-SHA2_20/4_192").unwrap();
    let mut scratch = xmss::Scratch::new();
    let mut key = xmss::generate(&Portable, set, &[7; 72], &mut scratch).unwrap();
    remembered(move |index, message| {
        let mut signature = vec![0; set.signature_len()];
        key.sign(&Portable, index, &[message], &mut signature, &mut scratch).unwrap();
        signature
    })
}

/// Signs once what has come before: an index and a message have one signature, and scenarios are alike.
fn remembered(mut sign: impl FnMut(u64, &[u8]) -> Vec<u8> + Send + 'static) -> SignBy {
    let mut known: HashMap<(u64, Vec<u8>), Vec<u8>> = HashMap::new();
    let sign = move |index, message: &[u8]| {
        let made = known.entry((index, message.to_vec())).or_insert_with(|| sign(index, message));
        made.clone()
    };
    let sign = Mutex::new(sign);
    Arc::new(move |index, message| (sign.lock().unwrap())(index, message))
}

/// Runs a scenario.
pub fn run(scenario: usize, plan: FaultPlan, seed: u64, wrap: &Wrap, signer: &SignBy) -> Outcome {
    Simulation::new(plan, seed, Arc::clone(wrap), Arc::clone(signer)).run(SCENARIOS[scenario].1)
}

#[test]
fn indexes_reserved_before_a_reboot_are_burnt() {
    let mut world = Simulation::new(Vec::new(), 1, sound(), stand_in());
    world.make_key().unwrap();
    let sim = world.sim.clone();
    let ledger = world.running().open(KEY, 8).unwrap();
    let mut first = ledger.reserve(2).unwrap();
    assert_eq!(first.take(1).unwrap().first(), 0);
    sim.state().boot += 1;
    assert_eq!(ledger.reserve(1).unwrap().take(1).unwrap().first(), 8);
    assert!(matches!(first.take(1), Err(LedgerError::Unsafe(_))));
    first.close();
    assert_eq!(ledger.reserve(1).unwrap().take(1).unwrap().first(), 9);
}

/// No other reservation comes in between, which would notice the restart.
#[test]
fn a_reservation_from_before_a_start_of_the_machine_gives_no_index() {
    let mut world = Simulation::new(Vec::new(), 1, sound(), stand_in());
    world.make_key().unwrap();
    let sim = world.sim.clone();
    let ledger = world.running().open(KEY, 8).unwrap();
    let mut first = ledger.reserve(2).unwrap();
    assert_eq!(first.take(1).unwrap().first(), 0);
    sim.state().boot += 1;
    assert!(matches!(first.take(1), Err(LedgerError::Unsafe(_))));
    first.close();
    assert_eq!(ledger.reserve(1).unwrap().take(1).unwrap().first(), 8);
}

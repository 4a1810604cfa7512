//! The time of a signature with its state on a disk, compared to one with its state in memory, and
//! to a sync alone.
//!
//! ```text
//!   round:   memory    the key, by a ledger in memory
//!            expected  the same; as often as the state is synced, a block is written in place and synced
//!            disk      Signer, N indexes reserved at once: state synced, anchor synced, N signatures
//! ```
//!
//! A sync takes longer after a signature than after another sync. So the expected time is measured
//! with both by turns, and not summed up.
//!
//! All three run by turns, so that disturbances of the disk and the machine affect them alike.
//! Syncs are counted where the state requests them.

use std::io;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gabion_disk::{Access, Disk, DiskFile, RealDisk};
use gabion_engine::Engine;
use gabion_engine::keys::stateful::{Progress, Request, Secret, StatefulKey};
use gabion_rows::operations::Operation;
use gabion_state::{Encoding, Environment, GeneratedKey, KeyFileOptions, SignerOptions};
use regex::Regex;
use tempfile::TempDir;

use super::counting_disk::CountingDisk;
use super::sets::{self, SETS, Set};
use super::{Signer, key};
use crate::Error;
use crate::inputs;
use crate::machine::Machine;

pub use gabion_rows::hbs::Durable as Row;

/// Signatures that a set makes at least which is measured: several reservations of the most indexes.
const SIGNATURES_MIN: u64 = 1 << 15;
/// Indexes that are reserved at once.
const RESERVED: [usize; 3] = [1, 64, 1024];
/// The number of rounds; a figure is the median.
const ROUNDS: usize = 5;
/// Bytes of a block of the state.
const BLOCK: usize = 4096;

/// The options of a measurement, and its folder.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only rows whose `set:operation` matches.
    pub filter: Option<Regex>,
    /// Time for each figure, in seconds; more than 0 and at most 3600.
    pub seconds: f64,
    /// The folder in which a key is made, which selects the measured disk. The files are removed.
    pub folder: PathBuf,
}

/// Measures every row that the filter picks; `emit` gets each as soon as it is there, and ends the measurement by `false`.
///
/// # Errors
/// `Usage` for a value out of range, a filter that picks nothing or a folder that takes no files; `NotReady` without a
/// healthy backend; `Failed` when the disk fails, or a signature.
pub fn measure(config: &Config, mut emit: impl FnMut(Row) -> bool) -> Result<(), Error> {
    super::check_seconds(config.seconds)?;
    let wants = |set: &&Set| {
        let name = format!("{}:{}", set.name(), Operation::Sign.word());
        config.filter.as_ref().is_none_or(|filter| filter.is_match(&name))
    };
    let wanted: Vec<&Set> =
        SETS.iter().filter(|set| set.signatures() >= SIGNATURES_MIN).filter(wants).collect();
    if wanted.is_empty() {
        let text = "no row matches the filter; rows of keys with 32768 signatures and more are named like L1_H15_W4:sign";
        return Err(Error::Usage(text.to_owned()));
    }
    let engine = Engine::global()?;
    for set in wanted {
        let goes_on = match set.secret()? {
            sets::Secret::Hss(secret) => rows(config, engine, set, &secret, &mut emit)?,
            sets::Secret::Xmss(secret) => rows(config, engine, set, &secret, &mut emit)?,
        };
        if goes_on.is_break() {
            break;
        }
    }
    Ok(())
}

/// The rows of one set: for each number of reserved indexes one message a call, and all of them in one.
fn rows<S: Secret + Sync>(
    config: &Config,
    engine: &'static Engine,
    set: &Set,
    secret: &S,
    emit: &mut impl FnMut(Row) -> bool,
) -> Result<ControlFlow<()>, Error> {
    let machine = Machine::detect();
    let threads = NonZero::new(machine.cores).unwrap_or(NonZero::<usize>::MIN);
    let mut in_memory = key(engine, secret, threads)?;
    let mut on_disk = OnDisk::new(&config.folder, engine, set, threads)?;
    for reserve in RESERVED {
        let mut batches = vec![1, reserve];
        batches.dedup();
        for batch in batches {
            let what = Workload { set, reserve, batch, seconds: config.seconds };
            let row = what.row(&mut in_memory, &mut on_disk, &machine)?;
            if !emit(row) {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The workload of a row.
struct Workload<'s> {
    set: &'s Set,
    reserve: usize,
    batch: usize,
    seconds: f64,
}

/// Figures of a round, in seconds but for the last two: of a signature and of a sync.
struct Round {
    probe: f64,
    memory: f64,
    expected: f64,
    durable: f64,
    syncs: f64,
    signatures: u64,
}

impl Workload<'_> {
    fn row<S: Secret>(
        &self,
        in_memory: &mut StatefulKey<'_, S>,
        on_disk: &mut OnDisk<'_>,
        machine: &Machine,
    ) -> Result<Row, Error> {
        let mut memory = Signer::new(in_memory, self.batch);
        on_disk.open(self)?;
        let mut probe = on_disk.probe()?;
        let rounds = (0..ROUNDS).map(|_| {
            on_disk.make_room(self)?;
            let before = on_disk.syncs();
            let (durable, signatures) = self.time_signatures(|| on_disk.sign(self))?;
            let syncs = (on_disk.syncs() - before) as f64 / signatures as f64;
            let (in_memory, _) = self.time_signatures(|| time_in_memory(&mut memory))?;
            // Syncs that a call's signatures have not had yet.
            let mut owed = 0.0;
            let (expected, _) = self.time_signatures(|| {
                owed += syncs * self.batch as f64;
                let mut took = 0.0;
                while owed >= 1.0 {
                    took += on_disk.time_sync(&mut probe)?;
                    owed -= 1.0;
                }
                Ok(took + time_in_memory(&mut memory)?)
            })?;
            let probe = probe.of_one();
            Ok(Round { probe, memory: in_memory, expected, durable, syncs, signatures })
        });
        let rounds = rounds.collect::<Result<Vec<_>, Error>>()?;
        let middle = |of: fn(&Round) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let [probe, memory, expected, durable, syncs] = [
            middle(|round| round.probe),
            middle(|round| round.memory),
            middle(|round| round.expected),
            middle(|round| round.durable),
            middle(|round| round.syncs),
        ];
        let micros = |seconds: f64| (seconds * 1e9).round() / 1e3;
        let hundredths = |value: f64| (value * 100.0).round() / 100.0;
        Ok(Row {
            set: self.set.name(),
            operation: Operation::Sign,
            batch: self.batch,
            reserve: self.reserve,
            threads: 1,
            signature_bytes: self.set.signature_bytes(),
            signatures: rounds.iter().map(|round| round.signatures).sum(),
            us_per_op: micros(durable),
            memory_us_per_op: micros(memory),
            fdatasync_us: micros(probe),
            syncs_per_op: (syncs * 1e5).round() / 1e5,
            expected_us_per_op: micros(expected),
            over_expected: hundredths(durable / expected),
            over_memory: hundredths(durable / memory),
            machine: machine.clone(),
        })
    }

    /// Times signatures: returns seconds a signature and how many were made, in whole reservations, until the time is over.
    fn time_signatures(
        &self,
        mut call: impl FnMut() -> Result<f64, Error>,
    ) -> Result<(f64, u64), Error> {
        let (mut took, mut made) = (0.0, 0);
        while made == 0 || took < self.seconds / ROUNDS as f64 && made < self.signatures_max() {
            for _ in 0..self.reserve / self.batch {
                took += call()?;
            }
            made += self.reserve as u64;
        }
        Ok((took / made as f64, made))
    }

    /// Signatures of a round at most, so that a key's are enough for it.
    fn signatures_max(&self) -> u64 {
        self.set.signatures() / 4
    }
}

/// Keys with a state on a disk, all of one secret, and none of which leaves this process.
struct OnDisk<'a> {
    engine: &'static Engine,
    set: &'a Set,
    folder: TempDir,
    /// The counter of syncs on its disk.
    disk: CountingDisk,
    around: Environment,
    made: GeneratedKey,
    /// The number of keys written so far.
    number: u32,
    open: Option<gabion_state::Signer>,
    messages: Vec<[u8; 32]>,
}

impl<'a> OnDisk<'a> {
    fn new(
        folder: &Path,
        engine: &'static Engine,
        set: &'a Set,
        threads: NonZero<usize>,
    ) -> Result<Self, Error> {
        let made = TempDir::with_prefix_in(".gabion-bench-", folder);
        let folder = made.map_err(|cause| {
            Error::Usage(format!("{} takes no files: {cause}", folder.display()))
        })?;
        let disk = CountingDisk::default();
        let around = Environment { disk: Arc::new(disk.clone()), ..Environment::real() };
        let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
        let made = GeneratedKey::generate(&around, engine, set.sets()?, threads, &mut go_on)?;
        let made = made.ok_or_else(|| Error::Failed("key generation was stopped".to_owned()))?;
        let (number, open, messages) = (0, None, Vec::new());
        Ok(OnDisk { engine, set, folder, disk, around, made, number, open, messages })
    }

    /// Writes a new key, opens it, and signs one reservation with it, so that no initialization is
    /// timed.
    fn open(&mut self, what: &Workload<'_>) -> Result<(), Error> {
        self.open = None;
        self.number += 1;
        let folder = self.folder.path().join(format!("keys-{}", self.number));
        std::fs::create_dir(&folder).map_err(|cause| self.failed(&cause))?;
        let key = folder.join("key");
        let anchors = [self.folder.path().join(format!("anchor-{}", self.number))];
        let making = KeyFileOptions {
            key: &key,
            passphrase: None,
            encoding: Encoding::Hss,
            next: 0,
            warn_at: None,
            anchors: &anchors,
            // Measuring a network file system is a deliberate choice.
            allow_network: true,
            note: "made by `gabion bench hbs --durable`",
        };
        self.made.write(&self.around, &making)?;
        let opening = SignerOptions {
            ahead: what.reserve as u64,
            reserve_anyway: true,
            ..SignerOptions::default()
        };
        let signer = gabion_state::Signer::open(&self.around, self.engine, &key, None, &opening)?;
        self.open = Some(signer);
        self.messages = (0..what.batch).map(inputs::message).collect();
        for _ in 0..what.reserve / what.batch {
            self.sign(what)?;
        }
        Ok(())
    }

    /// Another key where one has too few signatures left for a round.
    fn make_room(&mut self, what: &Workload<'_>) -> Result<(), Error> {
        let left = self.signer()?.remaining()?.left;
        if left < what.signatures_max() + what.reserve as u64 { self.open(what) } else { Ok(()) }
    }

    fn signer(&self) -> Result<&gabion_state::Signer, Error> {
        self.open.as_ref().ok_or_else(|| Error::Failed("no key is open".to_owned()))
    }

    /// Seconds of one call, which signs a batch.
    fn sign(&self, what: &Workload<'_>) -> Result<f64, Error> {
        let signer = self.signer()?;
        let start = Instant::now();
        let requests = self.messages.iter().map(|message| Request { message, id: None });
        let signed = signer.sign(&requests.collect::<Vec<_>>())?;
        let took = start.elapsed().as_secs_f64();
        match signed.len() == what.batch && signed[0].bytes.len() == self.set.signature_bytes() {
            true => Ok(took),
            false => Err(Error::Failed("a signature is missing".to_owned())),
        }
    }

    fn syncs(&self) -> u64 {
        self.disk.syncs()
    }

    /// Files whose blocks are written in place and synced, as those of state and anchor are.
    fn probe(&self) -> Result<Probe, Error> {
        let made = ["probe-1", "probe-2"].map(|name| {
            let path = self.folder.path().join(name);
            let file = RealDisk.open(&path, Access::New)?;
            // Another row makes its own.
            RealDisk.remove(&path)?;
            gabion_disk::write_all(&*file, &[1; 3 * BLOCK], 0)?;
            file.sync()?;
            RealDisk.sync_folder(self.folder.path())?;
            Ok(file)
        });
        let [one, other] = made.map(|file| file.map_err(|cause| self.failed(&cause)));
        Ok(Probe { files: [one?, other?], synced: 0, took: 0.0 })
    }

    /// Times one sync in seconds, of the files in turn.
    fn time_sync(&self, probe: &mut Probe) -> Result<f64, Error> {
        probe.sync().map_err(|cause| self.failed(&cause))
    }

    fn failed(&self, cause: &io::Error) -> Error {
        Error::Failed(format!("{}: {cause}", self.folder.path().display()))
    }
}

/// Syncs by themselves, of blocks as long as those of a state.
struct Probe {
    files: [Box<dyn DiskFile>; 2],
    synced: usize,
    took: f64,
}

impl Probe {
    fn sync(&mut self) -> io::Result<f64> {
        let at = self.synced;
        let (file, slot) = (&self.files[at % 2], (1 + at / 2 % 2) * BLOCK);
        let start = Instant::now();
        gabion_disk::write_all(&**file, &[at as u8; 240], slot as u64)?;
        file.sync()?;
        let took = start.elapsed().as_secs_f64();
        self.synced += 1;
        self.took += took;
        Ok(took)
    }

    /// Seconds of a sync, the mean since this was asked before.
    fn of_one(&mut self) -> f64 {
        let mean = self.took / self.synced.max(1) as f64;
        (self.synced, self.took) = (0, 0.0);
        mean
    }
}

/// Times a call that signs with a ledger in memory, in seconds.
fn time_in_memory<S: Secret>(memory: &mut Signer<'_, '_, S>) -> Result<f64, Error> {
    memory.prepare()?;
    let start = Instant::now();
    memory.sign()?;
    Ok(start.elapsed().as_secs_f64())
}

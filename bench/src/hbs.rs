//! Costs of making keys of HSS, XMSS and XMSS^MT, of signing and of verifying, and their distance
//! from the costs of the hashes alone.
//!
//! ```text
//!   Set ──> Secret ──keygen, 1 thread and all──> StatefulKey ──sign, by a ledger in memory──> verify
//!    │                                                                 │
//!    └─counts: compressions in lanes, and alone ──x── price of one, ───┴──> Hbs { cycles, floor, slowest }
//!                                                     on these kernels
//! ```
//!
//! Indexes come in order. A floor is the number of compressions: those of chains at the price that they have when all lanes
//! are full, and those that wait for each other at the price of one chain by itself.

mod counting_disk;
pub mod durable;
pub(crate) mod sets;

use std::cell::RefCell;
use std::convert::Infallible;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Instant;

use gabion_engine::keys::stateful::{
    Ledger, Progress, Request, Secret, StatefulKey, sign_requests, testing_only_ledger,
};
use gabion_engine::{Algorithm, Engine, Message, Status};
pub use gabion_rows::hbs::Hbs as Row;
use gabion_rows::operations::Operation;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::{LmsChain, LmsFamily, PREFIX, STEPS_MAX};
use regex::Regex;

use crate::Error;
use crate::clock::{Centre, Clock, Figures, Plan};
use crate::cpu_time::thread_cpu_ns;
use crate::inputs;
use crate::machine::Machine;
use sets::{Count, SETS, Set};

/// Signatures of a call in the rows of batches.
const BATCH: usize = 64;
/// Fewest keys of which a row is the median.
const KEYS_MIN: usize = 3;
/// Those of a set.
const OPERATIONS: [Operation; 3] = [Operation::Keygen, Operation::Sign, Operation::Verify];

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only rows whose `set:operation` matches.
    pub filter: Option<Regex>,
    /// Time for each figure, in seconds; more than 0 and at most 3600.
    pub seconds: f64,
}

/// Measures every row that the filter picks; `emit` gets each as soon as it is there, and ends the measurement by `false`.
///
/// # Errors
/// `Usage` for a value out of range or a filter that picks nothing; `NotReady` without a healthy backend; `Failed` when a
/// signature is wrong.
pub fn measure(config: &Config, mut emit: impl FnMut(Row) -> bool) -> Result<(), Error> {
    check_seconds(config.seconds)?;
    let wants = |set: &Set, operation: Operation| {
        let name = format!("{}:{}", set.name(), operation.word());
        config.filter.as_ref().is_none_or(|filter| filter.is_match(&name))
    };
    let of = |set: &Set| OPERATIONS.into_iter().filter(|one| wants(set, *one)).collect::<Vec<_>>();
    let wanted = SETS.iter().map(|set| (set, of(set))).filter(|(_, wanted)| !wanted.is_empty());
    let wanted = wanted.collect::<Vec<_>>();
    if wanted.is_empty() {
        let text = "no row matches the filter; rows are named like L2_H10_W4:sign";
        return Err(Error::Usage(text.to_owned()));
    }
    let mut bench = Bench::new(config.seconds)?;
    for (set, wanted) in wanted {
        let goes_on = match set.secret()? {
            sets::Secret::Hss(secret) => bench.rows(set, &secret, &wanted, &mut emit)?,
            sets::Secret::Xmss(secret) => bench.rows(set, &secret, &wanted, &mut emit)?,
        };
        if goes_on.is_break() {
            break;
        }
    }
    Ok(())
}

fn check_seconds(seconds: f64) -> Result<(), Error> {
    match seconds > 0.0 && seconds <= 3600.0 {
        true => Ok(()),
        false => {
            Err(Error::Usage("the time of a row is more than 0 and at most 3600 s".to_owned()))
        }
    }
}

struct Bench {
    engine: &'static Engine,
    clock: Clock,
    machine: Machine,
    seconds: f64,
    /// Core cycles of a compression where lanes are full, and where one waits for the other.
    prices: [Option<f64>; 2],
}

/// The workload of a row.
struct Workload<'s> {
    set: &'s Set,
    operation: Operation,
    batch: usize,
    threads: usize,
}

impl Bench {
    fn new(seconds: f64) -> Result<Self, Error> {
        let engine = Engine::global()?;
        let kernels = engine.backend_for(Algorithm::Hss)?.kernels();
        let kernels = kernels.ok_or(Error::NotReady("a backend without kernels".to_owned()))?;
        let machine = Machine::detect();
        let mut bench = Bench { engine, clock: Clock::new(), machine, seconds, prices: [None; 2] };
        bench.prices = [bench.price(kernels, BATCH), bench.price(kernels, 1)];
        Ok(bench)
    }

    /// Core cycles of a step of chains that are all of one length.
    fn price(&mut self, kernels: &dyn Kernels, chains: usize) -> Option<f64> {
        let mut values = vec![[1u8; 32]; chains];
        let plan = self.plan(Centre::Median, 5, chains * STEPS_MAX as usize);
        let run = |_| -> Result<(), Infallible> {
            let jobs = values.iter_mut().map(|value| LmsChain {
                family: LmsFamily::Sha256,
                prefix: [2; PREFIX],
                seed: None,
                start: 0,
                steps: STEPS_MAX,
                value,
            });
            kernels.lms_chain_many(&mut jobs.collect::<Vec<_>>());
            Ok(())
        };
        let Ok(figures) = self.clock.measure(&plan, run);
        figures.core_cycles_per_op
    }

    fn plan(&self, centre: Centre, samples_min: usize, operations_per_call: usize) -> Plan {
        Plan { seconds: self.seconds, samples_min, centre, operations_per_call }
    }

    /// One thread, and all that there are.
    fn threads(&self) -> impl Iterator<Item = NonZero<usize>> + use<> {
        let all = NonZero::new(self.machine.cores).filter(|all| all.get() > 1);
        [Some(NonZero::<usize>::MIN), all].into_iter().flatten()
    }

    /// The rows of one set.
    fn rows<S: Secret + Sync>(
        &mut self,
        set: &Set,
        secret: &S,
        wanted: &[Operation],
        emit: &mut impl FnMut(Row) -> bool,
    ) -> Result<ControlFlow<()>, Error> {
        if wanted.contains(&Operation::Keygen) {
            for threads in self.threads() {
                if !emit(self.keygen(set, secret, threads)?) {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        if wanted == [Operation::Keygen] {
            return Ok(ControlFlow::Continue(()));
        }
        let mut key = key(self.engine, secret, NonZero::<usize>::MIN)?;
        for batch in [1, BATCH] {
            if wanted.contains(&Operation::Sign) && !emit(self.sign(set, &mut key, batch)?) {
                return Ok(ControlFlow::Break(()));
            }
        }
        for batch in [1, BATCH] {
            let of = (set, secret.algorithm());
            if wanted.contains(&Operation::Verify) && !emit(self.verify(of, &mut key, batch)?) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Measures key generation, including the first signature, which makes the trees below the top.
    fn keygen<S: Secret + Sync>(
        &mut self,
        set: &Set,
        secret: &S,
        threads: NonZero<usize>,
    ) -> Result<Row, Error> {
        let (plan, engine) = (self.plan(Centre::Median, KEYS_MIN, 1), self.engine);
        let figures = self.clock.measure(&plan, |_| -> Result<(), Error> {
            key(engine, secret, threads)?.testing_only_sign_at(0, &[b"first"])?;
            Ok(())
        })?;
        let what = Workload { set, operation: Operation::Keygen, batch: 1, threads: threads.get() };
        Ok(self.row(&what, &figures, &set.keygen(), None))
    }

    fn sign<S: Secret>(
        &mut self,
        set: &Set,
        key: &mut StatefulKey<'_, S>,
        batch: usize,
    ) -> Result<Row, Error> {
        let signer = RefCell::new(Signer::new(key, batch));
        let plan = self.plan(Centre::Mean, 1, batch);
        let figures = self.clock.measure_prepared(
            &plan,
            |_| signer.borrow_mut().prepare(),
            |_| signer.borrow_mut().sign(),
        )?;
        let worst = signer.into_inner().worst(self.seconds)?;
        let what = Workload { set, operation: Operation::Sign, batch, threads: 1 };
        Ok(self.row(&what, &figures, &set.sign(), Some(worst)))
    }

    fn verify<S: Secret>(
        &mut self,
        (set, algorithm): (&Set, Algorithm),
        key: &mut StatefulKey<'_, S>,
        batch: usize,
    ) -> Result<Row, Error> {
        let public = S::public_bytes(key.verify_key());
        let public = self.engine.signature_public(algorithm, public)?;
        let message = &inputs::message(0)[..];
        let signatures = key.testing_only_sign_at(0, &vec![message; batch])?;
        let message = Message::Pure { context: &[], message };
        let plan = self.plan(Centre::Median, 16, batch);
        let figures = if batch == 1 {
            self.clock.measure(&plan, |_| self.engine.verify(&public, message, &signatures[0]))?
        } else {
            let (keys, messages) = (vec![&public; batch], vec![message; batch]);
            let lengths: Vec<_> = signatures.iter().map(Vec::len).collect();
            let (signatures, mut status) = (signatures.concat(), vec![Status::NotRun; batch]);
            self.clock.measure(&plan, |_| -> Result<(), Error> {
                self.engine.verify_many(&keys, &messages, &signatures, &lengths, &mut status)?;
                let is_right = status.iter().all(|status| status.is_ok());
                is_right.then_some(()).ok_or_else(|| Error::Failed("a signature is wrong".into()))
            })?
        };
        let what = Workload { set, operation: Operation::Verify, batch, threads: 1 };
        Ok(self.row(&what, &figures, &set.verify(batch), None))
    }

    fn row(
        &self,
        Workload { set, operation, batch, threads }: &Workload<'_>,
        figures: &Figures,
        count: &Count,
        max_over_median: Option<f64>,
    ) -> Row {
        let [lane, alone] = self.prices;
        // In a batch nothing waits for itself.
        let alone = if *batch > 1 { lane } else { alone };
        let floor = lane.zip(alone).map(|(lane, alone)| count.lanes * lane + count.alone * alone);
        let over = figures.core_cycles_per_op.zip(floor).map(|(cycles, floor)| cycles / floor);
        let hundredths = |value: f64| (value * 100.0).round() / 100.0;
        Row {
            set: set.name(),
            operation: *operation,
            batch: *batch,
            threads: *threads,
            signature_bytes: set.signature_bytes(),
            core_cycles_per_op: figures.core_cycles_per_op,
            ops_per_s: figures.ops_per_s,
            max_over_median: max_over_median.map(hundredths),
            floor_cycles: floor.map(f64::round),
            over_floor: over.map(hundredths),
            cycles_per_compression: self.prices.map(|price| price.map(hundredths)),
            seed_ops_per_s: set.seed(*operation),
            peer: None,
            ratio: None,
            peers: Vec::new(),
            machine: self.machine.clone(),
        }
    }
}

/// The key of a secret, with its top tree.
fn key<'e, S: Secret + Sync>(
    engine: &'e Engine,
    secret: &S,
    threads: NonZero<usize>,
) -> Result<StatefulKey<'e, S>, Error> {
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let key = StatefulKey::generate(engine, secret, &[], threads, &mut go_on)?;
    key.ok_or_else(|| Error::Failed("key generation was stopped".to_owned()))
}

/// A key that signs by a ledger in memory, from the first index on and then again.
struct Signer<'k, 'e, S: Secret> {
    key: &'k mut StatefulKey<'e, S>,
    ledger: Box<dyn Ledger>,
    messages: Vec<[u8; 32]>,
}

impl<'k, 'e, S: Secret> Signer<'k, 'e, S> {
    fn new(key: &'k mut StatefulKey<'e, S>, batch: usize) -> Self {
        let ledger = Box::new(testing_only_ledger(key.signatures()));
        Signer { key, ledger, messages: (0..batch).map(inputs::message).collect() }
    }

    /// Restarts with the first trees if no index is left.
    fn prepare(&mut self) -> Result<(), Error> {
        let left = self.ledger.remaining().map_err(gabion_engine::Error::from)?.left;
        if left < self.messages.len() as u64 {
            self.ledger = Box::new(testing_only_ledger(self.key.signatures()));
            self.key.testing_only_sign_at(0, &[b"first"])?;
        }
        Ok(())
    }

    fn sign(&mut self) -> Result<(), Error> {
        let requests = self.messages.iter().map(|message| Request { message, id: None });
        let requests = requests.collect::<Vec<_>>();
        std::hint::black_box(sign_requests(&*self.ledger, self.key, &requests)?);
        Ok(())
    }

    /// Returns the ratio of the slowest call to the median one, in CPU time, which excludes other
    /// work on the machine.
    fn worst(&mut self, seconds: f64) -> Result<f64, Error> {
        let (start, mut took) = (Instant::now(), Vec::new());
        while took.len() < 16 || start.elapsed().as_secs_f64() < seconds {
            self.prepare()?;
            let before = thread_cpu_ns();
            self.sign()?;
            took.push(thread_cpu_ns() - before);
        }
        took.sort_unstable();
        let median = took[took.len() / 2].max(1);
        Ok(took[took.len() - 1] as f64 / median as f64)
    }
}

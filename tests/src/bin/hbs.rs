//! How fast keys of HSS are made, sign and are verified with on this machine, and how far that is from the hashes that
//! it takes: one JSON object a line.
//!
//! ```text
//! cargo run --release -p gabion-tests --bin hbs [FILTER [SECONDS]]
//! ```
//!
//! FILTER picks sets by a part of their name, as `L2_H10_W4`; SECONDS (1) go to each figure of signing and verifying.
//! Indexes come in order and from memory. `keygen` has all trees that the first signature needs, and a row for one
//! thread and one for two. The floor is the number of compressions, those of chains at the price that they have when
//! all lanes are full, and those that wait for each other at the price of one chain by itself.

use std::convert::Infallible;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Instant;

use gabion_bench::clock::{Centre, Clock, Figures, Plan};
use gabion_engine::keys::stateful::hss::{HssSecret, Levels, Progress, StatefulKey};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_engine::{Algorithm, Engine, Message, OsEntropy, Status};
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::{LmsChain, LmsFamily, PREFIX, STEPS_MAX};

type Error = Box<dyn std::error::Error>;

/// Levels, height and w of the sets that are measured.
const SETS: [(usize, u32, u32); 10] = [
    (1, 10, 4),
    (1, 15, 2),
    (1, 15, 4),
    (2, 10, 2),
    (2, 10, 4),
    (2, 10, 8),
    (3, 5, 2),
    (3, 5, 4),
    (3, 5, 8),
    (3, 10, 4),
];
/// Signatures of a call in the rows of batches.
const BATCH: usize = 64;

fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let seconds = std::env::args().nth(2).map_or(Ok(1.0), |seconds| seconds.parse());
    let Ok(seconds) = seconds else {
        eprintln!("error: SECONDS is the time for each figure");
        return ExitCode::from(2);
    };
    match run(&filter, seconds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(filter: &str, seconds: f64) -> Result<(), Error> {
    let engine = Engine::global()?;
    let kernels =
        engine.backend_for(Algorithm::Hss)?.kernels().ok_or("a backend without kernels")?;
    let mut bench = Bench { engine, clock: Clock::new(), seconds, lane: 0.0, alone: 0.0 };
    bench.lane = bench.price(kernels, BATCH);
    bench.alone = bench.price(kernels, 1);
    for (levels, h, w) in SETS {
        let set = format!("L{levels}_H{h}_W{w}");
        if set.contains(filter) {
            bench.measure(&set, levels, h, w)?;
        }
    }
    Ok(())
}

struct Bench {
    engine: &'static Engine,
    clock: Clock,
    seconds: f64,
    /// Core cycles of a compression where lanes are full.
    lane: f64,
    /// The same where one waits for the other.
    alone: f64,
}

/// Compressions of SHA-256 of an operation.
struct Count {
    lanes: f64,
    alone: f64,
}

impl Bench {
    /// Core cycles of a step of chains that are all of one length.
    fn price(&mut self, kernels: &dyn Kernels, chains: usize) -> f64 {
        let mut values = vec![[1u8; 32]; chains];
        let plan = self.plan(chains * STEPS_MAX as usize);
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
        cycles(&figures)
    }

    fn plan(&self, operations_per_call: usize) -> Plan {
        Plan { seconds: self.seconds, samples_min: 5, centre: Centre::Median, operations_per_call }
    }

    fn measure(&mut self, set: &str, levels: usize, h: u32, w: u32) -> Result<(), Error> {
        let named = |wanted: u32, (family, n, of): (LmsFamily, usize, u32)| {
            (family, n, of) == (LmsFamily::Sha256, 32, wanted)
        };
        let lms = LMS.iter().find(|lms| named(h, (lms.family, lms.n, lms.h)));
        let ots = LM_OTS.iter().find(|ots| named(w, (ots.family, ots.n, ots.w)));
        let (lms, ots) = lms.zip(ots).ok_or("a set is missing")?;
        let counts = counts(levels, h, w, ots.chains());
        let secret = HssSecret::draw(Levels::new(&vec![(lms, ots); levels])?, &OsEntropy)?;
        for threads in [1, 2] {
            let start = Instant::now();
            let mut key = self.key(&secret, threads)?;
            key.testing_only_sign_at(0, &[b"first"])?;
            let elapsed = start.elapsed().as_secs_f64();
            let hz = self.clock.core_hz().unwrap_or(f64::NAN);
            self.print(
                set,
                ("keygen", 1, threads),
                (elapsed * hz, 1.0 / elapsed),
                &counts[0],
                None,
            );
        }
        let mut key = self.key(&secret, 1)?;
        for batch in [1, BATCH] {
            self.sign(set, &mut key, batch, &counts[1])?;
        }
        for batch in [1, BATCH] {
            self.verify(set, &mut key, batch, &counts[2])?;
        }
        Ok(())
    }

    fn key(&self, secret: &HssSecret, threads: usize) -> Result<StatefulKey<'static>, Error> {
        let threads = NonZero::new(threads).ok_or("no threads")?;
        let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
        let key = StatefulKey::generate(self.engine, secret, &[], threads, &mut go_on)?;
        Ok(key.ok_or("nobody stopped it")?)
    }

    fn sign(
        &mut self,
        set: &str,
        key: &mut StatefulKey<'_>,
        batch: usize,
        count: &Count,
    ) -> Result<(), Error> {
        let all = key.signatures();
        let messages = vec![&b"a message of thirty-two bytes...."[..32]; batch];
        let (mut next, mut slowest) = (0, 0f64);
        let plan = self.plan(batch);
        let figures = self.clock.measure(&plan, |_| -> Result<(), Error> {
            if next + batch as u64 > all {
                next = 0;
            }
            let start = Instant::now();
            key.testing_only_sign_at(next, &messages)?;
            if next > 0 {
                slowest = slowest.max(start.elapsed().as_secs_f64() * 1e9 / batch as f64);
            }
            next += batch as u64;
            Ok(())
        })?;
        let worst = slowest / figures.ns_per_op.p50;
        let took = (cycles(&figures), figures.ops_per_s);
        self.print(set, ("sign", batch, 1), took, count, Some(worst));
        Ok(())
    }

    fn verify(
        &mut self,
        set: &str,
        key: &mut StatefulKey<'_>,
        batch: usize,
        count: &Count,
    ) -> Result<(), Error> {
        let public = self.engine.signature_public(Algorithm::Hss, key.verify_key().bytes())?;
        let message = &b"message"[..];
        let signatures = key.testing_only_sign_at(0, &vec![message; batch])?;
        let message = Message::Pure { context: &[], message };
        let plan = self.plan(batch);
        let figures = if batch == 1 {
            self.clock.measure(&plan, |_| self.engine.verify(&public, message, &signatures[0]))?
        } else {
            let (keys, messages) = (vec![&public; batch], vec![message; batch]);
            let lengths: Vec<_> = signatures.iter().map(Vec::len).collect();
            let (signatures, mut status) = (signatures.concat(), vec![Status::NotRun; batch]);
            self.clock.measure(&plan, |_| -> Result<(), Error> {
                self.engine.verify_many(&keys, &messages, &signatures, &lengths, &mut status)?;
                let is_right = status.iter().all(|status| status.is_ok());
                is_right.then_some(()).ok_or_else(|| "a signature is wrong".into())
            })?
        };
        self.print(set, ("verify", batch, 1), (cycles(&figures), figures.ops_per_s), count, None);
        Ok(())
    }

    fn print(
        &self,
        set: &str,
        (operation, batch, threads): (&str, usize, usize),
        (cycles, ops): (f64, f64),
        count: &Count,
        worst: Option<f64>,
    ) {
        // In a batch nothing waits for itself.
        let alone = if batch > 1 { self.lane } else { self.alone };
        let floor = count.lanes * self.lane + count.alone * alone;
        let row = serde_json::json!({
            "set": set,
            "operation": operation,
            "batch": batch,
            "threads": threads,
            "core_cycles_per_op": cycles.round(),
            "ops_per_s": ops,
            "cycles_per_compression": [self.lane, self.alone],
            "floor_cycles": floor.round(),
            "over_floor": cycles / floor,
            "max_over_median": worst,
        });
        println!("{row}");
    }
}

fn cycles(figures: &Figures) -> f64 {
    figures.core_cycles_per_op.unwrap_or(f64::NAN)
}

/// Compressions of making all trees that the first signature needs, of a signature with its check and its share of the
/// next tree, and of a verification.
fn counts(levels: usize, h: u32, w: u32, chains: usize) -> [Count; 3] {
    let (levels, leaves, chains) = (levels as f64, f64::from(1u32 << h), chains as f64);
    let steps = chains * f64::from(1u32 << w);
    // K of 22 + 32 p bytes and what ends a message; a leaf is one compression, a node two, a digest two.
    let k = ((22.0 + 32.0 * chains + 9.0) / 64.0).ceil();
    let leaf = steps + k + 1.0;
    let tree = leaves * (leaf + 2.0);
    // Each tree below the top is signed by the one above and grows by a leaf a signature.
    let signed = (levels - 1.0) * leaf;
    let grown = if levels > 1.0 { steps } else { 0.0 };
    let path = k + 1.0 + 2.0 * f64::from(h) + 2.0;
    [
        Count { lanes: levels * tree + signed, alone: 0.0 },
        Count {
            lanes: steps + grown,
            alone: (k + 3.0) * if levels > 1.0 { 2.0 } else { 1.0 } + 4.0,
        },
        // The levels' paths side by side.
        Count { lanes: levels * (steps - chains) / 2.0 + (levels - 1.0) * path, alone: path },
    ]
}

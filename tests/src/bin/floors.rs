//! How far each operation is from what this machine's kernels would allow: the floors of
//! docs/reference/performance.md, as one JSON object a line.
//!
//! ```text
//! cargo run --release -p gabion-tests --bin floors [FILTER [BATCH]]
//! ```
//!
//! A floor is the hashing of an operation at the price that a hash has when every lane is full and
//! nothing is absorbed or squeezed but whole blocks, plus the time of the arithmetic kernels as
//! they are. The time above it is moving bytes, idle lanes and bookkeeping. Both are measured here,
//! on the best backend, in batches of BATCH (64), by the harness that `gabion bench engine` uses.

use std::process::ExitCode;

use gabion_backend::{Backend, Cpu};
use gabion_bench::clock::{Centre, Clock, Plan};
use gabion_bench::engine::{Config, measure_on};
use gabion_engine::Engine;
use gabion_rows::operations::Floor;
use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhContext, SlhFamily, SlhHash};
use gabion_scheme::kernels::{Kernels, Sponge, Xof};
use gabion_tests::stopwatch::{Totals, Watch};

/// Hashes of a call that is measured for the price of one, and operations unless told otherwise.
const BATCH: usize = 64;
/// Seconds for each figure.
const SECONDS: f64 = 0.3;

/// Core cycles of one of each, all lanes full.
struct Prices {
    permutation: f64,
    /// A step of a chain of SLH-DSA's SHAKE family.
    shake_step: f64,
    sha256: f64,
    sha512: f64,
}

fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let batch = std::env::args().nth(2).map_or(Ok(BATCH), |batch| batch.parse());
    let Ok(batch) = batch else {
        eprintln!("error: BATCH is the number of operations of a call");
        return ExitCode::from(2);
    };
    match run(&filter, batch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

fn run(filter: &str, batch: usize) -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(target_arch = "x86_64")]
    if let (Some(kernels), Some(again)) =
        (gabion_backend::avx512::Avx512::detect(), gabion_backend::avx512::Avx512::detect())
    {
        return measure((filter, batch), kernels, &again);
    }
    #[cfg(target_arch = "x86_64")]
    if let (Some(kernels), Some(again)) =
        (gabion_backend::avx2::Avx2::detect(), gabion_backend::avx2::Avx2::detect())
    {
        return measure((filter, batch), kernels, &again);
    }
    use gabion_backend::portable::Portable;
    measure((filter, batch), Portable, &Portable)
}

fn measure<K: Kernels + 'static>(
    (filter, batch): (&str, usize),
    kernels: K,
    same: &K,
) -> Result<(), Box<dyn std::error::Error>> {
    let prices = prices(same)?;
    let watch = Watch::default();
    let backend: Box<dyn Backend> = Box::new(watch.backend(kernels, Cpu::new));
    let engine = Engine::with_backends(vec![backend], &gabion_engine::Config::default())?;
    // Every self-test runs now, so that none is counted below.
    engine.report();
    watch.take();
    let config = Config {
        filter: Some(regex::Regex::new(filter)?),
        backend: None,
        batch,
        threads: 1,
        seconds: SECONDS,
    };
    let mut failed = None;
    measure_on(&engine, &config, |row| {
        let totals = watch.take();
        let written = serde_json::to_string(&line(&row, &totals, &prices));
        failed = written.map(|text| println!("{text}")).err();
        failed.is_none()
    })?;
    failed.map_or(Ok(()), |cause| Err(cause.into()))
}

/// One row: what an operation hashes, what that and its arithmetic cost.
fn line(row: &gabion_bench::engine::Row, totals: &Totals, prices: &Prices) -> Floor {
    let each = |total: f64| total / totals.lanes;
    let hashing = each(totals.permutations) * prices.permutation
        + each(totals.shake_steps) * prices.shake_step
        + each(totals.sha256) * prices.sha256
        + each(totals.sha512) * prices.sha512;
    // The arithmetic's share of the time is the same in ticks as in cycles.
    let cycles = row.figures.core_cycles_per_op.unwrap_or(f64::NAN);
    let arithmetic = totals.arithmetic / totals.all * cycles;
    let round = |value: f64| (value * 10.0).round() / 10.0;
    Floor {
        subject: row.subject.clone(),
        backend: row.backend.clone(),
        batch: row.batch,
        permutations: round(each(totals.permutations)),
        shake_steps: round(each(totals.shake_steps)),
        sha256: round(each(totals.sha256)),
        sha512: round(each(totals.sha512)),
        cycles_per_permutation: round(prices.permutation),
        cycles_per_shake_step: round(prices.shake_step),
        cycles_per_sha256: round(prices.sha256),
        cycles_per_sha512: round(prices.sha512),
        hashing_cycles: hashing.round(),
        arithmetic_cycles: arithmetic.round(),
        floor_cycles: (hashing + arithmetic).round(),
    }
}

/// Measures the hashes with all lanes full.
fn prices<K: Kernels>(k: &K) -> Result<Prices, Box<dyn std::error::Error>> {
    let mut clock = Clock::new();
    let mut price = |units: usize, call: &mut dyn FnMut()| -> f64 {
        let plan = Plan {
            seconds: SECONDS,
            samples_min: 100,
            centre: Centre::Median,
            operations_per_call: units,
        };
        let figures = clock.measure(&plan, |_| -> Result<(), std::convert::Infallible> {
            call();
            Ok(())
        });
        let Ok(figures) = figures;
        figures.core_cycles_per_op.unwrap_or(f64::NAN)
    };
    const BLOCKS: usize = 16;
    let mut outputs = vec![[0u8; 168 * BLOCKS]; BATCH];
    let permutation = price(BATCH * BLOCKS, &mut || {
        let mut jobs: Vec<Sponge<'_>> =
            outputs.iter_mut().map(|o| Sponge::new(Xof::Shake128, [&[7u8; 32][..]], o)).collect();
        k.sponge_many(&mut jobs);
    });
    const STEPS: usize = 15;
    let context = |n| SlhContext {
        family: SlhFamily::Sha2,
        n,
        pk_seed: [3; 32],
        sha256: [5; 8],
        sha512: [7; 8],
    };
    let (short, long) = (context(16), context(32));
    let mut values = vec![[9u8; 32]; BATCH];
    let chains = [SlhContext { family: SlhFamily::Shake, ..context(16) }, short];
    let mut chain_price = |context: &SlhContext| {
        price(BATCH * STEPS, &mut || {
            let mut jobs: Vec<SlhChain<'_>> = values
                .iter_mut()
                .map(|value| SlhChain {
                    context,
                    address: SlhAddress::default(),
                    sk_seed: None,
                    start: 0,
                    steps: STEPS as u32,
                    value: &mut value[..16],
                })
                .collect();
            k.slh_chain_many(&mut jobs);
        })
    };
    let [shake_step, sha256] = [chain_price(&chains[0]), chain_price(&chains[1])];
    // 22 bytes of address, the message, 17 bytes of padding at least: 67 * 32 is what T_l takes.
    let input = vec![1u8; 67 * 32];
    let blocks = (22 + input.len() + 17).div_ceil(128);
    let sha512 = price(BATCH * blocks, &mut || {
        let mut jobs: Vec<SlhHash<'_>> = values
            .iter_mut()
            .map(|value| SlhHash {
                context: &long,
                address: SlhAddress::default(),
                input: &input,
                output: value,
            })
            .collect();
        k.slh_hash_many(&mut jobs);
    });
    Ok(Prices { permutation, shake_step, sha256, sha512 })
}

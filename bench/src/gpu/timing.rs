//! The two clocks: a caller's, with all that it waits for, and the device's, around each kernel.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use gabion_backend::{Backend, BatchOutcome};
use gabion_cuda::Cuda;
use gabion_rows::clock::Percentiles;
use gabion_rows::gpu::{EndToEnd, Kernel};

use super::card::{Card, InstrumentedCard, Time};
use super::lanes::Lanes;
use super::pool::Pool;
use crate::Error;
use crate::cpu_time::process_cpu_ns;

/// Fewest batches of a thread.
const BATCHES_MIN: usize = 3;
/// The number of retries of a batch that finds no slot.
const TRIES: usize = 200;
/// The minimum time for measuring energy: counters are updated some ten times a second.
const ENERGY_SECONDS: f64 = 0.4;

/// One thread's batch times and how many outputs it compared.
#[derive(Default)]
struct ThreadResult {
    ns: Vec<u64>,
    compared: u64,
}

/// Clocks and counters at one moment.
struct Reading {
    at: Instant,
    cpu: u64,
    bytes: [u64; 2],
}

impl Reading {
    fn now<D: Card>(cuda: &Cuda<InstrumentedCard<D>>) -> Self {
        Reading { at: Instant::now(), cpu: process_cpu_ns(), bytes: cuda.device().bytes() }
    }
}

/// Runs batches on `threads` threads for `seconds`; none if the device declines them.
///
/// # Errors
/// `Failed` for a wrong result or a lost batch.
pub fn end_to_end<D: Card>(
    cuda: &Cuda<InstrumentedCard<D>>,
    pool: &Pool,
    lanes: usize,
    threads: usize,
    seconds: f64,
    memory: &mut [u8],
) -> Result<Option<EndToEnd>, Error> {
    let mut batches = batches(pool, lanes, threads, memory)?;
    // One call in advance, because some code initializes at first use.
    let mut compared = 0;
    if let Some(first) = batches.first_mut() {
        match run(cuda, first)? {
            true => compared += first.check(true)?,
            false => return Ok(None),
        }
    }
    let card = cuda.device().card();
    let start = Barrier::new(threads + 1);
    let (mut before, mut after, mut energy) = (Reading::now(cuda), Reading::now(cuda), None);
    let done: Result<Vec<ThreadResult>, Error> = std::thread::scope(|scope| {
        let start = &start;
        let running: Vec<_> = batches
            .iter_mut()
            .map(|batch| scope.spawn(move || work(cuda, batch, start, seconds)))
            .collect();
        // All have run once, and wait.
        start.wait();
        energy = card.energy_mj();
        before = Reading::now(cuda);
        start.wait();
        // All are done, and compare nothing yet.
        start.wait();
        after = Reading::now(cuda);
        energy = energy.and_then(|before| Some(card.energy_mj()?.saturating_sub(before)));
        let lost = || Err(Error::Failed("a measuring thread panicked".to_owned()));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
    });
    let done = done?;
    let seconds = (after.at - before.at).as_secs_f64().max(1e-9);
    let cpu_cores = (after.cpu - before.cpu) as f64 / 1e9 / seconds;
    compared += done.iter().map(|done| done.compared).sum::<u64>();
    let mut ns: Vec<u64> = done.into_iter().flat_map(|done| done.ns).collect();
    ns.sort_unstable();
    let operations = (ns.len() * lanes) as u64;
    let per_op = |value: f64| value / operations.max(1) as f64;
    Ok(Some(EndToEnd {
        ops_per_s: operations as f64 / seconds,
        batch_us: Percentiles { p50: percentile(&ns, 0.50), p99: percentile(&ns, 0.99) },
        batches: ns.len() as u64,
        operations,
        compared,
        seconds,
        bytes_to_device: per_op((after.bytes[0] - before.bytes[0]) as f64),
        bytes_from_device: per_op((after.bytes[1] - before.bytes[1]) as f64),
        cpu_cores,
        device_busy: None,
        joules_per_1000: energy
            .filter(|_| seconds >= ENERGY_SECONDS)
            .map(|mj| per_op(mj as f64 / 1e3) * 1e3),
    }))
}

/// A batch for each thread, in parts of `memory`.
fn batches<'a>(
    pool: &'a Pool,
    lanes: usize,
    threads: usize,
    memory: &'a mut [u8],
) -> Result<Vec<Lanes<'a>>, Error> {
    let parts = memory.chunks_exact_mut(Lanes::bytes(pool, lanes).max(1)).take(threads);
    let batches: Vec<Lanes<'_>> = std::thread::scope(|scope| {
        // Each thread begins elsewhere in the pool, so that no result of another one passes for its own.
        let make = |(number, part)| move || Lanes::new(pool, lanes, 61 * number, part);
        let running: Vec<_> = parts.enumerate().map(|part| scope.spawn(make(part))).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    if batches.len() == threads {
        Ok(batches)
    } else {
        Err(Error::Failed("a thread that makes batches panicked".to_owned()))
    }
}

/// One batch after the other until the time is over.
fn work<D: Card>(
    cuda: &Cuda<InstrumentedCard<D>>,
    batch: &mut Lanes<'_>,
    start: &Barrier,
    seconds: f64,
) -> Result<ThreadResult, Error> {
    let mut done = ThreadResult::default();
    // A thread that fails must not leave the others at a barrier.
    let first = run_checked(cuda, batch, true);
    start.wait();
    start.wait();
    let worked = first.and_then(|compared| {
        done.compared += compared;
        let begun = Instant::now();
        while done.ns.len() < BATCHES_MIN || begun.elapsed().as_secs_f64() < seconds {
            batch.forget();
            let called = Instant::now();
            let ran = run(cuda, batch)?;
            done.ns.push(called.elapsed().as_nanos() as u64);
            if !ran {
                return Err(declined_error());
            }
            done.compared += batch.check(false)?;
        }
        Ok(())
    });
    start.wait();
    worked?;
    done.compared += batch.check(true)?;
    Ok(done)
}

/// Returns the error for a batch that the device declines after it ran one.
fn declined_error() -> Error {
    Error::Failed("the device declines a batch that it ran before".to_owned())
}

/// Runs a batch and checks its results.
fn run_checked<D: Card>(
    cuda: &Cuda<InstrumentedCard<D>>,
    batch: &mut Lanes<'_>,
    is_whole: bool,
) -> Result<u64, Error> {
    batch.forget();
    match run(cuda, batch)? {
        true => batch.check(is_whole),
        false => Err(declined_error()),
    }
}

/// Runs a batch, again if there was no place for it; whether it was done.
fn run<D: Card>(cuda: &Cuda<InstrumentedCard<D>>, batch: &mut Lanes<'_>) -> Result<bool, Error> {
    for _ in 0..TRIES {
        match batch.run(cuda as &dyn Backend) {
            BatchOutcome::Done => return Ok(true),
            BatchOutcome::Lost => return Err(Error::Failed("the device lost a batch".to_owned())),
            // It waited for a slot by itself, 50 ms, or it never does such a batch.
            BatchOutcome::Declined => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    Ok(false)
}

/// Returns the percentile in microseconds of batch times; `sorted` has nanoseconds.
fn percentile(sorted: &[u64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    let ns = sorted.get(rank.saturating_sub(1)).or(sorted.last());
    ns.map_or(0.0, |&ns| ns as f64 / 1e3)
}

/// Runs batches on one thread with each kernel timed; none if the device times none.
///
/// # Errors
/// See [`end_to_end`].
pub fn kernels<D: Card>(
    cuda: &Cuda<InstrumentedCard<D>>,
    pool: &Pool,
    lanes: usize,
    seconds: f64,
    memory: &mut [u8],
) -> Result<(Option<Kernel>, Vec<Time>), Error> {
    let card = cuda.device().card();
    let bytes = Lanes::bytes(pool, lanes);
    let mut batch = Lanes::new(pool, lanes, 0, &mut memory[..bytes]);
    cuda.device().profile(true);
    let (begun, mut batches) = (Instant::now(), 0u64);
    let ran = loop {
        match run_checked(cuda, &mut batch, false) {
            Ok(_) => batches += 1,
            Err(error) => break Err(error),
        }
        if begun.elapsed().as_secs_f64() >= seconds {
            break Ok(());
        }
    };
    let times = card.times();
    cuda.device().profile(false);
    ran?;
    let ns: f64 = times.iter().map(|time| time.ns).sum();
    let operations = batches * lanes as u64;
    let kernel = (ns > 0.0).then(|| Kernel {
        ops_per_s: operations as f64 / ns * 1e9,
        ns_per_op: ns / operations as f64,
        operations,
    });
    Ok((kernel, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_batches_that_were_timed() {
        let sorted: Vec<u64> = (1..=200).map(|i| i * 1000).collect();
        assert_eq!(percentile(&sorted, 0.5), 100.0);
        assert_eq!(percentile(&sorted, 0.99), 198.0);
        assert_eq!(percentile(&[7000], 0.99), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}

//! The gain of a second thread: operations a second of one thread and of two, in batches of 64.
//!
//! ```text
//! cargo run --release -p gabion-bench --example threads -- FILTER [SECONDS]
//! ```
//!
//! FILTER is that of `gabion bench engine`. One thread and two take turns, five rounds of SECONDS (0.5) each;
//! a figure is the median of the rounds. The first pair of rows is a loop of multiplications, `multiply`,
//! which shows what two processors of this machine can be at most: two threads of one core are less than two.
//! Prints one JSON object a line.

use std::time::{Duration, Instant};

use gabion_bench::engine::{Config, Row, measure};
use gabion_rows::operations::Threads;

/// Lanes of a call.
const BATCH: usize = 64;
/// Turns of each number of threads.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [filter, rest @ ..] = &words[..] else {
        return Err("expected FILTER [SECONDS]".into());
    };
    let seconds: f64 = rest.first().map_or(Ok(0.5), |word| word.parse())?;

    let time = Duration::try_from_secs_f64(seconds)?;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for threads in [1, 2] {
            rates[threads - 1].push(multiplications(threads, time));
        }
    }
    for threads in [1, 2] {
        print(&Threads {
            algorithm: "multiply".to_owned(),
            operation: "loop".to_owned(),
            key: "-".to_owned(),
            backend: None,
            code: None,
            batch: None,
            threads,
            ops_per_s: median(&mut rates[threads - 1]),
            machine: None,
        })?;
    }

    // The rounds of one thread, then those of two; a round has a row for each case.
    let mut rounds: [Vec<Vec<Row>>; 2] = [Vec::new(), Vec::new()];
    let filter = Some(regex::Regex::new(filter)?);
    for _ in 0..ROUNDS {
        for threads in [1, 2] {
            let config =
                Config { filter: filter.clone(), backend: None, batch: BATCH, threads, seconds };
            let mut rows = Vec::new();
            measure(&config, |row| {
                rows.push(row);
                true
            })?;
            rounds[threads - 1].push(rows);
        }
    }
    for case in 0..rounds[0][0].len() {
        for of_threads in &rounds {
            let mut rates: Vec<f64> =
                of_threads.iter().map(|rows| rows[case].figures.ops_per_s).collect();
            // Times and cycles would be one round's.
            let Row { subject, backend, code, batch, threads, machine, .. } = &of_threads[0][case];
            print(&Threads {
                algorithm: subject.algorithm.clone(),
                operation: subject.operation.word().to_owned(),
                key: subject.key.word().to_owned(),
                backend: Some(backend.clone()),
                code: Some(code.clone()),
                batch: Some(*batch),
                threads: *threads,
                ops_per_s: median(&mut rates),
                machine: Some(machine.clone()),
            })?;
        }
    }
    Ok(())
}

fn print(row: &Threads) -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string(row)?);
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Multiplications a second of so many threads: eight chains, so that the multiplier always has one to do.
fn multiplications(threads: usize, time: Duration) -> f64 {
    const ROUNDS: u64 = 1 << 13;
    let one = || {
        let (begun, mut done) = (Instant::now(), 0);
        let mut chains = std::hint::black_box([1u64, 2, 3, 4, 5, 6, 7, 8]);
        while begun.elapsed() < time {
            for _ in 0..ROUNDS {
                chains = chains.map(|value| value.wrapping_mul(value | 1));
            }
            done += ROUNDS * chains.len() as u64;
        }
        std::hint::black_box(chains);
        done as f64 / begun.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).sum()
    })
}

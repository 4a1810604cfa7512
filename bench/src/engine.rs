//! Measures one operation of the engine: time, core cycles, operations a second.
//!
//! ```text
//!   Config ─> cases (algorithm:operation:key) ─> inputs, made by the portable backend
//!                                                   │
//!             the measured backend must give the same results bit for bit
//!                                                   │
//!             Clock, one for each thread ───────────┴──> Row
//! ```
//!
//! Inputs are made beforehand and walked through, so that nothing but the operation is timed and no
//! call repeats the one before. They are those of [`crate::inputs`], which the workspace that
//! measures other libraries uses too. Signing is deterministic over [`MESSAGES`] messages, all of
//! which are signed: its figure is a mean, everything else is a median.

mod dsa;
mod ed25519;
mod generic;
mod kem;
mod slh;

use std::sync::Barrier;

use gabion_engine::{Algorithm, Engine, Family, Kind, Status};
pub use gabion_rows::operations::{Key, Operation, Subject, Timing as Row};
use regex::Regex;

use crate::Error;
use crate::clock::{Centre, Clock, Figures, Percentiles, Plan};
use crate::inputs::MESSAGES;
use crate::machine::Machine;

/// Key pairs that operations on fresh keys walk through; as many as the other workspace's.
const KEYS: usize = 16;
/// The minimum samples of slow operations.
const SLOW_SAMPLES_MIN: usize = 5;
/// Fewest samples of a median.
const SAMPLES_MIN: usize = 16;
/// Largest batch that can be measured: its inputs take less than 100 MiB.
pub const BATCH_MAX: usize = 4096;
/// Most threads that can be measured.
pub const THREADS_MAX: usize = 1024;

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only rows whose `algorithm:operation:key` matches.
    pub filter: Option<Regex>,
    /// The backend; `None` means `GABION_BACKEND` or the best one.
    pub backend: Option<String>,
    /// Lanes of a call, 1 to [`BATCH_MAX`].
    pub batch: usize,
    /// Threads that work side by side, 1 to [`THREADS_MAX`].
    pub threads: usize,
    /// Time for each row, in seconds; more than 0 and at most 3600.
    pub seconds: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config { filter: None, backend: None, batch: 1, threads: 1, seconds: 1.0 }
    }
}

impl Config {
    /// Returns the cases that the filter selects.
    pub fn selected(&self) -> impl Iterator<Item = Case> {
        let picks = move |case: &Case| {
            self.filter.as_ref().is_none_or(|filter| filter.is_match(&case.name()))
        };
        Case::all().filter(picks)
    }
}

/// A row that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The parameter set.
    pub algorithm: Algorithm,
    /// The operation.
    pub operation: Operation,
    /// The state of its key.
    pub key: Key,
}

impl Case {
    /// Every case, in the order of the algorithms' table.
    pub fn all() -> impl Iterator<Item = Case> {
        const KEM: [Operation; 3] = [Operation::Keygen, Operation::Encaps, Operation::Decaps];
        const DSA: [Operation; 3] = [Operation::Keygen, Operation::Sign, Operation::Verify];
        Algorithm::all().flat_map(|algorithm| {
            let operations: &'static [Operation] = match algorithm.info().kind {
                // No engine makes their keys.
                _ if algorithm.info().stateful => &[],
                Kind::Kem => &KEM,
                // RSA keys take from one second to ten.
                Kind::Signature if algorithm.info().has_rsa() => &DSA[1..],
                Kind::Signature => &DSA,
                Kind::KeyExchange => &[Operation::Keygen, Operation::Derive],
            };
            operations.iter().flat_map(move |&operation| {
                [Key::Fresh, Key::Cached]
                    .into_iter()
                    // A key that is being made can't be cached.
                    .filter(move |&key| operation != Operation::Keygen || key == Key::Fresh)
                    .map(move |key| Case { algorithm, operation, key })
            })
        })
    }

    /// Returns the text that a filter matches, `algorithm:operation:key`.
    pub fn name(&self) -> String {
        format!("{}:{}:{}", self.algorithm, self.operation.word(), self.key.word())
    }
}

/// Something that can be timed: one call works on all lanes of one batch, the batches in turn.
type Call<'a> = Box<dyn FnMut(usize) -> Result<(), Error> + 'a>;

/// Measures every case that the filter picks; `emit` gets each row as soon as it is there, and ends
/// the measurement by `false`.
///
/// # Errors
/// `Usage` for a value out of range, an unknown backend or a filter that picks nothing; `NotReady`
/// without a healthy backend; `Failed` when a result is not the portable backend's.
pub fn measure(config: &Config, emit: impl FnMut(Row) -> bool) -> Result<(), Error> {
    let own;
    let engine = match &config.backend {
        None => Engine::global()?,
        Some(_) => {
            own = Engine::new(&gabion_engine::Config {
                backend: config.backend.clone(),
                ..Default::default()
            })?;
            &own
        }
    };
    measure_on(engine, config, emit)
}

/// Like [`measure`], on a given engine; `config.backend` is ignored.
///
/// # Errors
/// See [`measure`].
pub fn measure_on(
    engine: &Engine,
    config: &Config,
    mut emit: impl FnMut(Row) -> bool,
) -> Result<(), Error> {
    check_ranges(config)?;
    let cases: Vec<Case> = config.selected().collect();
    if cases.is_empty() {
        let filter = config.filter.as_ref().map_or("", Regex::as_str);
        return Err(Error::Usage(format!(
            "--filter `{filter}` matches no row; rows are named as in {}",
            Case { algorithm: Algorithm::MlKem768, operation: Operation::Encaps, key: Key::Cached }
                .name()
        )));
    }
    let reference = Engine::new(&gabion_engine::Config {
        backend: Some("portable".into()),
        ..Default::default()
    })?;
    let machine = Machine::detect();
    for case in cases {
        let backend = engine.backend_for(case.algorithm)?;
        let row = Row {
            subject: Subject {
                algorithm: case.algorithm.name().to_owned(),
                operation: case.operation,
                key: case.key,
            },
            backend: backend.name().to_owned(),
            code: gabion_engine::code_of(case.algorithm, backend),
            batch: config.batch,
            threads: config.threads,
            figures: measure_case(engine, &reference, case, config)?,
            machine: machine.clone(),
        };
        if !emit(row) {
            break;
        }
    }
    Ok(())
}

/// Refuses a time that no row can take.
pub(crate) fn check_seconds(seconds: f64) -> Result<(), Error> {
    if seconds > 0.0 && seconds <= 3600.0 {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--seconds {seconds} is out of range; more than 0 and at most 3600 is possible"
    )))
}

fn check_ranges(config: &Config) -> Result<(), Error> {
    check_seconds(config.seconds)?;
    for (name, value, max) in
        [("--batch", config.batch, BATCH_MAX), ("--threads", config.threads, THREADS_MAX)]
    {
        if !(1..=max).contains(&value) {
            return Err(Error::Usage(format!(
                "{name} {value} is out of range; 1 to {max} is possible"
            )));
        }
    }
    Ok(())
}

fn measure_case(
    engine: &Engine,
    reference: &Engine,
    case: Case,
    config: &Config,
) -> Result<Figures, Error> {
    let signing = case.operation == Operation::Sign;
    let plan = Plan {
        seconds: config.seconds,
        samples_min: if signing { MESSAGES.div_ceil(config.batch) } else { SAMPLES_MIN },
        centre: if signing { Centre::Mean } else { Centre::Median },
        operations_per_call: config.batch,
    };
    match case.algorithm.info().family {
        Family::MlKem => {
            let inputs = kem::Inputs::new(reference, case.algorithm, config.batch)?;
            kem::check(engine, &inputs, case)?;
            side_by_side(config.threads, &plan, || kem::call(engine, &inputs, case))
        }
        Family::SlhDsa => {
            let inputs = slh::Inputs::new(engine, reference, case, config.batch)?;
            slh::check(engine, &inputs, case)?;
            // Every signature takes the same hashes, and some take a second.
            let samples_min = if signing { SLOW_SAMPLES_MIN } else { SAMPLES_MIN };
            let plan = Plan { samples_min, centre: Centre::Median, ..plan };
            side_by_side(config.threads, &plan, || slh::call(engine, &inputs, case))
        }
        Family::Ed25519 => {
            let inputs = ed25519::Inputs::new(reference, case, config.batch)?;
            ed25519::check(engine, &inputs, case)?;
            side_by_side(config.threads, &plan, || ed25519::call(engine, &inputs, case))
        }
        Family::MlDsa => {
            let inputs = dsa::Inputs::new(reference, case, config.batch)?;
            dsa::check(engine, &inputs, case)?;
            side_by_side(config.threads, &plan, || dsa::call(engine, &inputs, case))
        }
        Family::FnDsa
        | Family::Hss
        | Family::Xmss
        | Family::Ecdh
        | Family::Ecdsa
        | Family::Hybrid
        | Family::Composite => {
            let inputs = generic::Inputs::new(reference, case, config.batch)?;
            generic::check(engine, reference, &inputs, case)?;
            side_by_side(config.threads, &plan, || generic::call(engine, &inputs, case))
        }
    }
}

/// Measures on every thread at once and puts the figures together.
fn side_by_side<'a>(
    threads: usize,
    plan: &Plan,
    make: impl Fn() -> Call<'a> + Sync,
) -> Result<Figures, Error> {
    let start = Barrier::new(threads);
    let one = || {
        let mut call = make();
        let mut clock = Clock::new();
        start.wait();
        clock.measure(plan, &mut *call)
    };
    let lost = || Err(Error::Failed("a measuring thread panicked".to_owned()));
    let all: Result<Vec<Figures>, Error> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
    });
    Ok(combine(&all?))
}

/// Combines the figures of all threads: the median of the middle thread, the 99th percentile of the
/// worst, the mean of their cycles, the sum of their rates.
fn combine(all: &[Figures]) -> Figures {
    let mut p50: Vec<f64> = all.iter().map(|figures| figures.ns_per_op.p50).collect();
    p50.sort_by(f64::total_cmp);
    let cycles: Option<Vec<f64>> = all.iter().map(|figures| figures.core_cycles_per_op).collect();
    Figures {
        ns_per_op: Percentiles {
            p50: p50[p50.len() / 2],
            p99: all.iter().map(|figures| figures.ns_per_op.p99).fold(0.0, f64::max),
        },
        core_cycles_per_op: cycles.map(|cycles| cycles.iter().sum::<f64>() / all.len() as f64),
        ops_per_s: all.iter().map(|figures| figures.ops_per_s).sum(),
        samples: all.iter().map(|figures| figures.samples).sum(),
    }
}

/// Refuses a batch of which any lane did not succeed.
fn all_ok(status: &[Status]) -> Result<(), Error> {
    match status.iter().position(|status| !status.is_ok()) {
        None => Ok(()),
        Some(lane) => {
            Err(Error::Failed(format!("lane {lane} of a valid batch ended as {:?}", status[lane])))
        }
    }
}

/// Refuses a result that is not the portable backend's.
fn check_equal(case: Case, what: &str, got: &[u8], expected: &[u8]) -> Result<(), Error> {
    if got == expected {
        return Ok(());
    }
    let name = case.name();
    Err(Error::Failed(format!("{name}: {what} is not what the portable backend gives")))
}

/// Fails if a modified signature verifies; `ran` and `status` are the result of its lane.
fn check_refused(case: Case, ran: Result<(), Error>, status: Status) -> Result<(), Error> {
    if ran.is_err() && status == Status::InvalidSignature {
        return Ok(());
    }
    Err(Error::Failed(format!("{}: a spoilt signature verifies", case.name())))
}

/// Returns how many different batches a case walks through: `items` lanes in all, two batches at
/// least.
fn batches(items: usize, batch: usize) -> usize {
    items.div_ceil(batch).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(filter: &str, batch: usize, threads: usize) -> Config {
        let filter = Some(Regex::new(filter).unwrap());
        Config { filter, batch, threads, seconds: 0.002, ..Config::default() }
    }

    fn rows(config: &Config) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        measure(config, |row| {
            rows.push(row);
            true
        })?;
        Ok(rows)
    }

    #[test]
    fn every_case_gives_one_row() {
        let rows = rows(&config("ML-KEM-512|ML-DSA-44", 1, 1)).unwrap();
        assert_eq!(rows.len(), 10);
        for row in rows {
            assert!(row.figures.ns_per_op.p50 > 0.0 && row.figures.ops_per_s > 0.0, "{row:?}");
            assert!(row.figures.ns_per_op.p99 >= row.figures.ns_per_op.p50, "{row:?}");
            let least =
                if row.subject.operation == Operation::Sign { MESSAGES } else { SAMPLES_MIN };
            assert!(row.figures.samples >= least, "{row:?}");
        }
    }

    #[test]
    fn batches_and_threads_are_measured() {
        for batch in [3, 20] {
            let rows = rows(&config("(ML-KEM-768|ML-DSA-44):(keygen|decaps|verify)", batch, 2));
            let rows = rows.unwrap();
            assert_eq!(rows.len(), 6);
            assert!(rows.iter().all(|row| row.batch == batch && row.threads == 2));
        }
    }

    #[test]
    fn fields_have_their_names() {
        let row = &rows(&config("ML-KEM-512:encaps:cached", 1, 1)).unwrap()[0];
        let json = serde_json::to_value(row).unwrap();
        for field in [
            "algorithm",
            "operation",
            "key",
            "backend",
            "code",
            "batch",
            "threads",
            "ns_per_op",
            "core_cycles_per_op",
            "ops_per_s",
            "samples",
            "machine",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json["ns_per_op"]["p50"].is_f64() && json["ns_per_op"]["p99"].is_f64());
        assert_eq!((&json["operation"], &json["key"]), (&"encaps".into(), &"cached".into()));
    }

    #[test]
    fn a_row_can_end_the_measurement() {
        let mut count = 0;
        measure(&config("ML-KEM-512", 1, 1), |_| {
            count += 1;
            false
        })
        .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in [
            Config { batch: 0, ..Config::default() },
            Config { batch: BATCH_MAX + 1, ..Config::default() },
            Config { threads: 0, ..Config::default() },
            Config { seconds: 0.0, ..Config::default() },
            Config { seconds: f64::NAN, ..Config::default() },
            Config { backend: Some("abacus".into()), ..Config::default() },
            config("ML-KEM-513", 1, 1),
        ] {
            assert!(matches!(rows(&bad), Err(Error::Usage(_))), "{bad:?}");
        }
    }

    #[test]
    fn threads_are_put_together() {
        let figures = |ns, p99, cycles, ops, samples| Figures {
            ns_per_op: Percentiles { p50: ns, p99 },
            core_cycles_per_op: Some(cycles),
            ops_per_s: ops,
            samples,
        };
        let all = [figures(3.0, 9.0, 30.0, 1.0, 5), figures(1.0, 10.0, 10.0, 3.0, 6)];
        let both = combine(&all);
        assert_eq!(both, figures(3.0, 10.0, 20.0, 4.0, 11));
    }
}

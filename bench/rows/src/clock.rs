//! Time and core cycles of one operation, on a machine whose clock moves and that others use too.
//!
//! ```text
//!   chain of dependent multiplications ─> core cycles per counter tick ─┐   (again every 100 us)
//!   counter │ operation │ counter ─────> ticks ──────────────────────> x ──> core cycles
//!                                          └──────> ns
//! ```
//!
//! The time-stamp counter runs at a fixed rate, the core does not: it speeds up, slows down under
//! wide vectors, and shares power with its neighbours. Cycles therefore come from a chain whose
//! length in cycles is known by construction, timed between the samples, never from a nominal
//! frequency. A sample that was interrupted is far out, so the median ignores it; for a mean
//! (signing with rejection), an interrupted sample is replaced by the CPU time that the thread
//! really used.
//!
//! The workspace that measures other people's libraries measures with it too.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::cpu_time::thread_cpu_ns;

/// The validity of a calibration in nanoseconds. The clock moves over milliseconds.
const CALIBRATION_LIFETIME_NS: f64 = 100_000.0;

/// A sample whose wall time exceeds its CPU time by more than this was interrupted, nanoseconds.
/// Reading the thread's CPU time twice costs below 1 us.
const INTERRUPTED_NS: f64 = 20_000.0;

/// Most samples kept of one measurement: 32 MiB of memory.
const SAMPLES_MAX: usize = 1 << 21;

/// The value that stands for all samples of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Centre {
    /// The middle sample: for operations that always do the same work.
    Median,
    /// The mean: for operations whose work depends on luck, as signing with rejection does.
    Mean,
}

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of the measurement, warm-up apart, in seconds; may be fractional.
    pub seconds: f64,
    /// The measurement goes on until it has this many samples, even past `seconds`.
    pub samples_min: usize,
    /// The value that stands for all samples.
    pub centre: Centre,
    /// Operations that one call performs (the batch): every figure is divided by it.
    pub operations_per_call: usize,
}

/// Nanoseconds for one operation at two points of the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of the samples took at most this long.
    pub p50: f64,
    /// 99 of 100 samples took at most this long.
    pub p99: f64,
}

/// The figures of a measurement; the part of a result row that both harnesses share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Wall time of one operation (CPU time for samples replaced under [`Centre::Mean`]).
    pub ns_per_op: Percentiles,
    /// Core cycles of one operation: median or mean as planned; `null` where no chain is known.
    pub core_cycles_per_op: Option<f64>,
    /// Operations a second on one thread, from the same centre as the cycles.
    pub ops_per_s: f64,
    /// Calls that were timed.
    pub samples: usize,
}

/// One timed call.
#[derive(Clone, Copy, Debug)]
struct Sample {
    ns: f64,
    cycles: f64,
}

/// A calibrated clock. One for each thread that measures: the thread should stay on its core.
#[derive(Debug)]
pub struct Clock {
    ticks_per_ns: f64,
    /// Ticks that an empty sample takes; subtracted from every sample.
    overhead: u64,
    cycles_per_tick: f64,
    calibrated_at: u64,
}

impl Clock {
    /// Calibrates a clock; takes about 30 ms.
    pub fn new() -> Clock {
        let mut clock = Clock {
            ticks_per_ns: measure_ticks_per_ns(),
            overhead: 0,
            cycles_per_tick: 0.0,
            calibrated_at: 0,
        };
        clock.overhead = (0..1000).map(|_| counter::elapsed(|| ()).1).min().unwrap_or(0);
        clock.calibrate();
        clock
    }

    /// Core cycles in one second, as of now; `None` where the chain's length is not known.
    pub fn core_hz(&mut self) -> Option<f64> {
        self.calibrate();
        let hz = self.cycles_per_tick * self.ticks_per_ns * 1e9;
        hz.is_finite().then_some(hz)
    }

    /// Measures `operation`, which receives the number of the call, counting from 0.
    ///
    /// The first tenth of the time (at least one call) warms up and is not counted; the counting
    /// of calls starts again at 0 after it, so that every measurement sees the same inputs.
    ///
    /// # Errors
    /// The first error of `operation`: a failing call is never timed into a result.
    pub fn measure<E>(
        &mut self,
        plan: &Plan,
        operation: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Figures, E> {
        self.measure_prepared(plan, |_| Ok(()), operation)
    }

    /// Measures `operation` alone, before each call of which `prepare` runs with the same number: for
    /// what an operation uses up.
    ///
    /// # Errors
    /// The first error of either.
    pub fn measure_prepared<E>(
        &mut self,
        plan: &Plan,
        mut prepare: impl FnMut(usize) -> Result<(), E>,
        mut operation: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Figures, E> {
        let start = Instant::now();
        let mut call = 0;
        while call == 0 || start.elapsed().as_secs_f64() < plan.seconds / 10.0 {
            prepare(call)?;
            operation(call)?;
            call += 1;
        }
        let mut samples = Vec::new();
        let start = Instant::now();
        while samples.len() < plan.samples_min.max(1)
            || (start.elapsed().as_secs_f64() < plan.seconds && samples.len() < SAMPLES_MAX)
        {
            let call = samples.len();
            prepare(call)?;
            samples.push(self.sample(plan.centre, || operation(call))?);
        }
        Ok(summarise(plan, samples))
    }

    /// Times one call, calibrating first when the last calibration is old.
    fn sample<E>(
        &mut self,
        centre: Centre,
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<Sample, E> {
        let age = counter::now().wrapping_sub(self.calibrated_at) as f64 / self.ticks_per_ns;
        if age > CALIBRATION_LIFETIME_NS {
            self.calibrate();
        }
        let cpu_start = (centre == Centre::Mean).then(thread_cpu_ns);
        let (result, ticks) = counter::elapsed(call);
        result?;
        let mut ns = ticks.saturating_sub(self.overhead) as f64 / self.ticks_per_ns;
        if let Some(cpu_start) = cpu_start {
            let cpu = (thread_cpu_ns() - cpu_start) as f64;
            if ns - cpu > INTERRUPTED_NS {
                ns = cpu;
            }
        }
        let cycles = ns * self.ticks_per_ns * self.cycles_per_tick;
        Ok(Sample { ns, cycles })
    }

    /// Times the chain three times and keeps the shortest: an interrupt only lengthens it.
    fn calibrate(&mut self) {
        let ticks = (0..3)
            .map(|_| counter::elapsed(chain::run).1.saturating_sub(self.overhead))
            .min()
            .unwrap_or(0)
            .max(1);
        self.cycles_per_tick = match chain::CYCLES {
            Some(cycles) => cycles / ticks as f64,
            None => f64::NAN,
        };
        self.calibrated_at = counter::now();
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Sorts the samples and picks the figures out of them. `samples` holds at least one.
fn summarise(plan: &Plan, samples: Vec<Sample>) -> Figures {
    let operations = plan.operations_per_call.max(1) as f64;
    let mut ns: Vec<f64> = samples.iter().map(|sample| sample.ns / operations).collect();
    let mut cycles: Vec<f64> = samples.iter().map(|sample| sample.cycles / operations).collect();
    ns.sort_by(f64::total_cmp);
    cycles.sort_by(f64::total_cmp);
    let centre = |sorted: &[f64]| match plan.centre {
        Centre::Median => percentile(sorted, 50),
        Centre::Mean => sorted.iter().sum::<f64>() / sorted.len() as f64,
    };
    let cycles = centre(&cycles);
    Figures {
        ns_per_op: Percentiles {
            p50: hundredths(percentile(&ns, 50)),
            p99: hundredths(percentile(&ns, 99)),
        },
        core_cycles_per_op: cycles.is_finite().then(|| hundredths(cycles)),
        ops_per_s: hundredths(1e9 / centre(&ns)),
        samples: samples.len(),
    }
}

/// Two decimals: more would be noise in the result files.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The smallest value that at least `percent` of the sorted values do not exceed (nearest rank).
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

/// Rate of the counter against the system's monotonic clock, over 20 ms.
fn measure_ticks_per_ns() -> f64 {
    let (start, ticks) = (Instant::now(), counter::now());
    while start.elapsed().as_millis() < 20 {
        std::hint::spin_loop();
    }
    let ticks = counter::now().wrapping_sub(ticks);
    ticks as f64 / start.elapsed().as_nanos() as f64
}

/// The counter that samples are taken with.
#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};

    /// Returns the current ticks. Earlier instructions have completed, later ones have not begun.
    #[inline]
    pub fn now() -> u64 {
        // SAFETY: every x86-64 processor has both instructions (lfence is SSE2).
        unsafe {
            _mm_lfence();
            let ticks = _rdtsc();
            _mm_lfence();
            ticks
        }
    }

    /// Runs `call` and returns its result and the ticks from before to after it.
    #[inline]
    pub fn elapsed<R>(call: impl FnOnce() -> R) -> (R, u64) {
        let start = now();
        let result = call();
        (result, now().wrapping_sub(start))
    }
}

/// The counter that samples are taken with: nanoseconds of the monotonic clock.
#[cfg(not(target_arch = "x86_64"))]
mod counter {
    use std::sync::OnceLock;
    use std::time::Instant;

    /// Nanoseconds since the first call.
    #[inline]
    pub fn now() -> u64 {
        static BASE: OnceLock<Instant> = OnceLock::new();
        BASE.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    /// Runs `call` and returns its result and the ticks from before to after it.
    #[inline]
    pub fn elapsed<R>(call: impl FnOnce() -> R) -> (R, u64) {
        let start = now();
        let result = call();
        (result, now().wrapping_sub(start))
    }
}

/// Work of a known number of core cycles.
#[cfg(target_arch = "x86_64")]
mod chain {
    use std::arch::asm;

    /// 64 rounds of 16 multiplications, each 3 cycles and each waiting for the one before: so on
    /// every Intel core since Nehalem and every AMD core since Zen. The loop's other instructions
    /// run in parallel to the chain and add nothing to it.
    pub const CYCLES: Option<f64> = Some(64.0 * 16.0 * 3.0);

    /// Runs the chain once.
    pub fn run() {
        // SAFETY: only two scratch registers and the flags are touched.
        unsafe {
            asm!(
                "2:",
                ".rept 16",
                "imul {value}, {value}",
                ".endr",
                "dec {rounds:e}",
                "jnz 2b",
                value = inout(reg) 3_u64 => _,
                rounds = inout(reg) 64_u32 => _,
                options(nomem, nostack),
            );
        }
    }
}

/// Work of a known number of core cycles.
#[cfg(target_arch = "aarch64")]
mod chain {
    use std::arch::asm;

    /// 256 rounds of 16 additions of one cycle, each waiting for the one before. Additions,
    /// because the latency of a multiplication differs between Arm cores.
    pub const CYCLES: Option<f64> = Some(256.0 * 16.0);

    /// Runs the chain once.
    pub fn run() {
        // SAFETY: only three scratch registers and the flags are touched.
        unsafe {
            asm!(
                "2:",
                ".rept 16",
                "add {value}, {value}, {step}",
                ".endr",
                "subs {rounds:w}, {rounds:w}, #1",
                "b.ne 2b",
                value = inout(reg) 3_u64 => _,
                step = in(reg) 5_u64,
                rounds = inout(reg) 256_u32 => _,
                options(nomem, nostack),
            );
        }
    }
}

/// No chain of known length: cycles are not reported.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod chain {
    pub const CYCLES: Option<f64> = None;

    pub fn run() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(centre: Centre, operations_per_call: usize) -> Plan {
        Plan { seconds: 0.02, samples_min: 5, centre, operations_per_call }
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), 50.0);
        assert_eq!(percentile(&hundred, 99), 99.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
        assert_eq!(percentile(&[1.0, 2.0], 99), 2.0);
    }

    #[test]
    fn centre_and_batch_are_applied() {
        let samples = |values: &[f64]| {
            values.iter().map(|&ns| Sample { ns, cycles: 3.0 * ns }).collect::<Vec<_>>()
        };
        let median = summarise(&plan(Centre::Median, 1), samples(&[10.0, 20.0, 90.0]));
        assert_eq!(median.core_cycles_per_op, Some(60.0));
        assert_eq!(median.ops_per_s, 5e7);
        let mean = summarise(&plan(Centre::Mean, 4), samples(&[10.0, 20.0, 90.0]));
        assert_eq!(mean.core_cycles_per_op, Some(30.0));
        assert_eq!(mean.ns_per_op.p50, 5.0);
        assert_eq!(mean.ops_per_s, 1e8);
    }

    /// The chain timed as if it were an operation has to come out at its own length, which it
    /// does only if calibration, overhead and the conversion agree.
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn known_work_takes_its_cycles() {
        let mut clock = Clock::new();
        let figures = clock
            .measure(&plan(Centre::Median, 1), |_| {
                chain::run();
                chain::run();
                Ok::<(), ()>(())
            })
            .expect("the chain does not fail");
        let expected = 2.0 * chain::CYCLES.expect("known on this architecture");
        let cycles = figures.core_cycles_per_op.expect("known on this architecture");
        assert!((cycles / expected - 1.0).abs() < 0.1, "{cycles} cycles, expected {expected}");
    }

    #[test]
    fn mean_leaves_out_time_spent_waiting() {
        let mut clock = Clock::new();
        let figures = clock
            .measure(&plan(Centre::Mean, 1), |_| {
                std::thread::sleep(std::time::Duration::from_millis(2));
                Ok::<(), ()>(())
            })
            .expect("sleeping does not fail");
        assert!(figures.ns_per_op.p50 < 1_000_000.0, "{} ns", figures.ns_per_op.p50);
    }

    #[test]
    fn preparing_an_operation_is_not_part_of_it() {
        let mut clock = Clock::new();
        let prepared = std::cell::Cell::new(None);
        let prepare = |call| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            prepared.set(Some(call));
            Ok(())
        };
        let operation = |call| if prepared.take() == Some(call) { Ok(()) } else { Err(call) };
        let figures = clock
            .measure_prepared(&plan(Centre::Median, 1), prepare, operation)
            .expect("each call finds what was prepared for it");
        assert!(figures.ns_per_op.p50 < 1_000_000.0, "{} ns", figures.ns_per_op.p50);
    }

    #[test]
    fn an_error_ends_the_measurement() {
        let mut clock = Clock::new();
        let result = clock.measure(&plan(Centre::Median, 1), |call| match call {
            3 => Err("refused"),
            _ => Ok(()),
        });
        assert_eq!(result.err(), Some("refused"));
    }
}

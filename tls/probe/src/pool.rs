//! Many targets on a fixed number of threads, one target at a time each.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::probe::Prober;
use crate::report::Report;
use crate::target::Target;

/// The number of threads unless the caller names another one.
pub const PARALLEL_DEFAULT: usize = 32;
/// The most threads.
pub const PARALLEL_MAX: usize = 256;
/// The stack of a thread. Only the pages in use take memory.
const STACK_LEN: usize = 1 << 20;

/// Probes the targets and hands each report to `receive`, in the order in which they are done.
/// Stops early if `receive` fails.
///
/// # Errors
/// The error of `receive`.
pub fn run<E>(
    prober: &Prober,
    targets: &[Target],
    parallel: usize,
    mut receive: impl FnMut(Report) -> Result<(), E>,
) -> Result<(), E> {
    let threads = parallel.clamp(1, PARALLEL_MAX).min(targets.len());
    let (next, is_stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Targets whose address another thread uses. A thread waits for one only if nothing else is left.
    let postponed = Mutex::new(VecDeque::new());
    let postponed = || postponed.lock().unwrap_or_else(PoisonError::into_inner);
    let take_report = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            match probe(prober, target, false) {
                None => postponed().push_back(target),
                report => return report,
            }
        }
        let target = postponed().pop_front()?;
        probe(prober, target, true)
    };
    let (sender, receiver) = sync_channel(threads);
    let work = |sender: SyncSender<Report>| {
        while !is_stopped.load(Ordering::Relaxed) {
            let Some(report) = take_report() else { return };
            if sender.send(report).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for number in 0..threads {
            let thread = thread::Builder::new().name("probe".to_owned()).stack_size(STACK_LEN);
            let (work, sender) = (&work, sender.clone());
            if thread.spawn_scoped(scope, move || work(sender)).is_ok() {
                continue;
            }
            // Fewer threads are enough. Without one, this thread does the work.
            while number == 0
                && let Some(report) = take_report()
            {
                receive(report)?;
            }
            break;
        }
        drop(sender);
        let mut result = Ok(());
        for report in &receiver {
            if result.is_ok() {
                result = receive(report);
                is_stopped.store(result.is_err(), Ordering::Relaxed);
            }
        }
        result
    })
}

/// Probes a target; returns `None` if its address is in use, unless `may_wait`. A panic is reported,
/// so that one bug does not lose the other reports.
fn probe(prober: &Prober, target: &Target, may_wait: bool) -> Option<Report> {
    let probed = catch_unwind(AssertUnwindSafe(|| prober.probe_unless_busy(target, may_wait)));
    probed.unwrap_or_else(|_| {
        Some(Report {
            target: target.to_string(),
            protocol: target.protocol(),
            starttls: target.starttls(),
            problems: vec!["the probe panicked; please report this as a bug".to_owned()],
            ..Report::default()
        })
    })
}

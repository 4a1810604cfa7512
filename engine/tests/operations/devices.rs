//! A device that is selected by name, over processors: supported operations run there, all others
//! do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, cpus};
use gabion_engine::{
    Algorithm, Config, DeviceCounts, Engine, Error, Message, OsEntropy, Task, watch_devices,
};

/// A device that encapsulates and decapsulates ML-KEM-768, like portable code, and is lost when told.
struct Small {
    is_lost: Arc<AtomicBool>,
}

impl Backend for Small {
    fn name(&self) -> &'static str {
        "small"
    }

    fn lanes(&self) -> usize {
        1
    }

    fn takes(&self, algorithm: Algorithm) -> bool {
        algorithm == Algorithm::MlKem768
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        assert!(self.takes(batch.algorithm()), "{}: it takes none", batch.algorithm());
        if self.is_lost.load(Ordering::Relaxed) {
            return BatchOutcome::Lost;
        }
        match batch.task() {
            Task::Encaps | Task::Decaps => Cpu::new(Portable).run(batch),
            _ => BatchOutcome::Declined,
        }
    }
}

fn engine() -> (Engine, Arc<AtomicBool>) {
    let is_lost = Arc::new(AtomicBool::new(false));
    let mut backends = cpus();
    backends.push(Box::new(Small { is_lost: Arc::clone(&is_lost) }));
    let config = Config { backend: Some("Small".to_owned()), ..Config::default() };
    (Engine::with_backends(backends, &config).unwrap(), is_lost)
}

/// One exchange with a fresh key of an algorithm.
fn exchange(engine: &Engine, algorithm: Algorithm) {
    let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
    let (ct, shared) = engine.encaps(&key.public(), &OsEntropy).unwrap();
    assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
}

/// Lanes and batches that were lost, by task.
fn done(engine: &Engine, task: Task) -> (u64, u64) {
    let served = engine.device_counts();
    let mut of_task = served.iter().filter(|served| served.task == task);
    let done = of_task.next().map_or((0, 0), |served| {
        assert_eq!((served.backend, served.algorithm), ("small", Algorithm::MlKem768));
        (served.lanes, served.lost)
    });
    assert_eq!(of_task.next(), None);
    done
}

#[test]
fn selected_device_runs_supported_algorithms_only() {
    let (engine, _) = engine();
    assert_eq!(engine.device_counts(), []);
    exchange(&engine, Algorithm::MlKem768);
    assert_eq!((done(&engine, Task::Encaps), done(&engine, Task::Decaps)), ((1, 0), (1, 0)));
    // Of others it is asked for nothing, except as parts.
    exchange(&engine, Algorithm::MlKem512);
    assert_eq!(done(&engine, Task::Encaps), (1, 0));
    exchange(&engine, Algorithm::X25519MlKem768);
    assert_eq!(done(&engine, Task::Encaps), (2, 0));
    let key = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
    let message = Message::Pure { context: b"", message: b"m" };
    let signature = engine.sign(&key, message, &OsEntropy).unwrap();
    engine.verify(&key.public(), message, &signature).unwrap();
    assert!(engine.device_counts().iter().all(|served| served.algorithm == Algorithm::MlKem768));
    let first = |algorithm| engine.backend_first(algorithm).unwrap().name();
    assert_eq!(first(Algorithm::MlKem768), "small");
    assert_eq!(first(Algorithm::MlDsa44), cpus()[0].name());
}

#[test]
fn batches_lost_by_selected_device_run_on_cpu() {
    let (engine, is_lost) = engine();
    exchange(&engine, Algorithm::MlKem768);
    is_lost.store(true, Ordering::Relaxed);
    exchange(&engine, Algorithm::MlKem768);
    // Once it was asked and lost the batch, and then it was left alone.
    assert_eq!((done(&engine, Task::Encaps), done(&engine, Task::Decaps)), ((1, 1), (1, 0)));
}

#[test]
fn device_observer_sees_each_batch() {
    static LANES: AtomicU64 = AtomicU64::new(0);
    watch_devices(|served: &DeviceCounts| {
        assert!(served.batches + served.declined + served.lost == 1, "{served:?}");
        if served.task == Task::Encaps {
            LANES.fetch_add(served.lanes, Ordering::Relaxed);
        }
    });
    let (engine, _) = engine();
    let key = engine.kem_generate(Algorithm::MlKem768, &OsEntropy).unwrap();
    let public = key.public();
    let before = LANES.load(Ordering::Relaxed);
    engine.encaps(&public, &OsEntropy).unwrap();
    // Other tests of this process may add to it.
    assert!(LANES.load(Ordering::Relaxed) > before);
}

#[test]
fn a_name_that_none_has_is_still_an_error() {
    let config = Config { backend: Some("abacus".to_owned()), ..Config::default() };
    let error = Engine::with_backends(cpus(), &config).err().unwrap();
    assert!(matches!(error, Error::NoSuchBackend { .. }), "{error}");
}

//! Devices as an engine has them: opened when that pays, several of them, one of which may fail, with costs that are
//! kept.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use gabion_backend::{Backend, Batch, BatchOutcome, Kem, Keys, Operation, Task, cpus};
use gabion_cuda::Fault;
use gabion_cuda::offload::{Absent, Costs, Curve, DeviceDescription, Offload, Row, Source};
use gabion_cuda_emulator::{Action, Call, Emulator, Hook, HookedDevice};
use gabion_scheme::Status;
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::ml_kem::ML_KEM_512;

const KEM: Algorithm = Algorithm::MlKem512;

/// Controls the devices of a test and records their calls.
#[derive(Default)]
struct DeviceControl {
    opened: AtomicUsize,
    /// Completed waits, by device.
    finished: [AtomicUsize; 2],
    /// Whether a device fails.
    fails: [AtomicBool; 2],
    /// How many batches must be inside devices before any of them continues.
    meets: Mutex<usize>,
    met: Condvar,
}

struct Devices {
    count: Result<usize, Absent>,
    strings: Arc<DeviceControl>,
}

impl Devices {
    fn new(count: usize) -> (Self, Arc<DeviceControl>) {
        let strings = Arc::new(DeviceControl::default());
        (Devices { count: Ok(count), strings: Arc::clone(&strings) }, strings)
    }
}

struct ScriptedHook {
    at: usize,
    strings: Arc<DeviceControl>,
}

impl Source for Devices {
    type Device = HookedDevice<ScriptedHook>;

    fn may_be_there(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Absent> {
        self.count.clone().map(drop)
    }

    fn open(&self) -> Result<Vec<(DeviceDescription, HookedDevice<ScriptedHook>)>, Absent> {
        self.strings.opened.fetch_add(1, Ordering::Relaxed);
        let device = |at| {
            let about = DeviceDescription {
                name: "a processor".to_owned(),
                uuid: format!("GPU-{at}"),
                capability: (0, at as u32),
                memory_bytes: 64 << 20,
                driver: "1.2".to_owned(),
            };
            (about, HookedDevice::new(ScriptedHook { at, strings: Arc::clone(&self.strings) }))
        };
        self.count.clone().map(|count| (0..count).map(device).collect())
    }
}

impl Hook for ScriptedHook {
    fn before(&self, _device: &Emulator, call: Call<'_>) -> Result<Action, Fault> {
        if !matches!(call, Call::Finish) {
            return Ok(Action::Pass);
        }
        self.strings.finished[self.at].fetch_add(1, Ordering::Relaxed);
        let mut meets = self.strings.meets.lock().unwrap();
        *meets = meets.saturating_sub(1);
        self.strings.met.notify_all();
        let wait = |meets: &mut usize| *meets > 0;
        let (meets, _) =
            self.strings.met.wait_timeout_while(meets, Duration::from_secs(20), wait).unwrap();
        drop(meets);
        if self.strings.fails[self.at].load(Ordering::Relaxed) {
            return Err(Fault::Failed);
        }
        Ok(Action::Pass)
    }
}

/// A folder of a test's own, which is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gabion-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Encapsulates on a backend, and checks what comes of it.
fn encapsulate(backend: &dyn Backend, lanes: usize) -> BatchOutcome {
    let p = &ML_KEM_512;
    let best = cpus().remove(0);
    let seeds = vec![[5; 64]; lanes];
    let (mut ek, mut dk) = (vec![0; lanes * p.ek_len()], vec![0; lanes * p.dk_len()]);
    let make = Kem::Keygen { params: p, seeds: &seeds, ek: &mut ek, dk: &mut dk };
    assert_eq!(run(&*best, Operation::Kem(make), lanes).0, BatchOutcome::Done);
    let m: Vec<[u8; 32]> = (0..lanes).map(|lane| [lane as u8; 32]).collect();
    let made = |backend: &dyn Backend| {
        let (mut ct, mut shared) = (vec![0; lanes * p.ct_len()], vec![[0; 32]; lanes]);
        let keys = Keys::Fresh(&ek);
        let operation = Kem::Encaps { params: p, keys, m: &m, ct: &mut ct, shared: &mut shared };
        (run(backend, Operation::Kem(operation), lanes), ct, shared)
    };
    let (ran, ct, shared) = made(backend);
    if ran.0 == BatchOutcome::Done {
        assert_eq!((ran, ct, shared), made(&*best));
        return BatchOutcome::Done;
    }
    assert!(shared.iter().all(|shared| *shared == [0; 32]));
    assert!(ran.1.iter().all(|&status| status == Status::NotRun));
    ran.0
}

fn run(
    backend: &dyn Backend,
    operation: Operation<'_>,
    lanes: usize,
) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; lanes];
    let ran = backend.run(&mut Batch { operation, status: &mut status });
    (ran, status)
}

#[test]
fn devices_are_opened_only_when_worthwhile() {
    let (devices, strings) = Devices::new(1);
    let offload = Offload::with_folder(devices, None);
    let processor = offload.metered_processor(cpus().remove(0));
    assert!(offload.knows_costs() && processor.knows_costs() && offload.takes(KEM));
    assert!(!offload.takes(Algorithm::X25519));
    let cost = |lanes| offload.cost(KEM, Task::Encaps, lanes);
    for lanes in [1, 64, 256, 100_000] {
        assert_eq!((cost(lanes), processor.cost(KEM, Task::Encaps, lanes)), (None, None));
    }
    assert_eq!(encapsulate(&*processor, 300), BatchOutcome::Done);
    assert_eq!(strings.opened.load(Ordering::Relaxed), 0);
    // The time of a batch this large pays for everything: it is measured, and from then on the cost
    // of any batch is known.
    assert!(cost(1_000_000).is_some());
    assert_eq!(strings.opened.load(Ordering::Relaxed), 1);
    let costs = [cost(1), processor.cost(KEM, Task::Encaps, 1)].map(Option::unwrap);
    // A processor that runs kernels of a GPU is slower than one that does not.
    assert!(costs[0] > costs[1] && costs[1] > 0, "{costs:?}");
    assert_eq!(offload.cost(KEM, Task::Decaps, 1), None, "that was not measured");
    assert_eq!(offload.cost(Algorithm::X25519, Task::Derive, 1_000_000), None);
    assert_eq!(strings.opened.load(Ordering::Relaxed), 1);
}

#[test]
fn measured_costs_persist_across_processes() {
    let folder = Folder::new("kept");
    let (devices, _) = Devices::new(1);
    let first = Offload::with_folder(devices, Some(folder.0.clone()));
    assert!(first.cost(KEM, Task::Keygen, 1_000_000).is_some());
    let (report, files) = (first.report().unwrap(), folder.files());
    assert_eq!(files, [folder.0.join("gpu-GPU-0.txt")]);
    assert_eq!(report[0].file.as_ref(), files.first());
    let rows = &report[0].costs.rows;
    assert_eq!((rows.len(), rows[0].algorithm, rows[0].task), (1, KEM, Task::Keygen));
    assert!(report[0].costs.measured > 1_700_000_000);
    // Another process knows it once it has opened the device, whatever else it does not know.
    let (devices, _) = Devices::new(1);
    let next = Offload::with_folder(devices, Some(folder.0.clone()));
    assert_eq!(next.report().unwrap(), report);
    let lanes = 8;
    assert_eq!(next.cost(KEM, Task::Keygen, lanes), rows[0].device.at(lanes));
    // A file that says nothing is measured again.
    std::fs::write(&files[0], "gabion-gpu-costs 1\ngabion").unwrap();
    let (devices, _) = Devices::new(1);
    let last = Offload::with_folder(devices, Some(folder.0.clone()));
    assert_eq!(last.report().unwrap()[0].costs.rows, []);
    assert!(last.cost(KEM, Task::Keygen, 1_000_000).is_some());
    assert!(
        std::fs::read_to_string(&files[0]).unwrap().contains("row ML-KEM-512 keygen device 1:")
    );
}

#[test]
fn measure_covers_every_requested_operation_and_device() {
    let folder = Folder::new("measured");
    let (devices, _) = Devices::new(2);
    let offload = Offload::with_folder(devices, Some(folder.0.clone()));
    let operations = [(KEM, Task::Decaps), (Algorithm::MlDsa44, Task::Verify)];
    let mut told = Vec::new();
    let measured = offload
        .measure(&operations, |about, algorithm, task| {
            told.push((about.uuid.clone(), algorithm, task));
        })
        .unwrap();
    assert_eq!((measured.len(), told.len(), folder.files().len()), (2, 4, 2));
    for (report, kept) in measured {
        assert!(kept.is_ok());
        let Costs { rows, stamp, .. } = report.costs;
        let of = rows.iter().map(|row| (row.algorithm, row.task));
        assert_eq!(of.collect::<Vec<_>>(), operations);
        assert!(
            rows.iter().all(|row| row.crossover().is_none() && !row.processor.points().is_empty())
        );
        assert_eq!((stamp.device.as_str(), stamp.driver.as_str()), ("a processor", "1.2"));
    }
    assert!(offload.cost(KEM, Task::Decaps, 1).is_some());
}

#[test]
fn first_batch_opens_the_device() {
    let (devices, strings) = Devices::new(1);
    let offload = Offload::with_folder(devices, None);
    assert_eq!(encapsulate(&offload, 3), BatchOutcome::Done);
    assert_eq!(encapsulate(&offload, 1), BatchOutcome::Done);
    assert_eq!(strings.opened.load(Ordering::Relaxed), 1);
    let devices = Devices { count: Err(Absent::NoDevice), strings: Arc::default() };
    let none = Offload::with_folder(devices, None);
    assert_eq!(encapsulate(&none, 3), BatchOutcome::Lost);
    assert_eq!(none.report(), Err(Absent::NoDevice));
    assert_eq!(none.cost(KEM, Task::Encaps, 1 << 20), None);
}

#[test]
fn batches_go_to_the_device_that_has_less_to_do() {
    let (devices, strings) = Devices::new(2);
    let offload = Offload::with_folder(devices, None);
    offload.report().unwrap();
    // Neither goes on before the other one is on a device.
    *strings.meets.lock().unwrap() = 2;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(encapsulate(&offload, 4), BatchOutcome::Done));
        }
    });
    let finished = strings.finished.each_ref().map(|finished| finished.load(Ordering::Relaxed));
    assert!(finished[0] > 0 && finished[1] > 0, "{finished:?}");
}

#[test]
fn lost_batch_runs_on_another_device() {
    let (devices, strings) = Devices::new(2);
    let offload = Offload::with_folder(devices, None);
    strings.fails[0].store(true, Ordering::Relaxed);
    assert_eq!(encapsulate(&offload, 3), BatchOutcome::Done);
    let first = strings.finished[0].load(Ordering::Relaxed);
    assert!(first > 0, "it was asked");
    assert_eq!(encapsulate(&offload, 3), BatchOutcome::Done);
    assert_eq!(strings.finished[0].load(Ordering::Relaxed), first, "it is left alone for a second");
    strings.fails[1].store(true, Ordering::Relaxed);
    assert_eq!(encapsulate(&offload, 3), BatchOutcome::Lost);
    strings.fails.iter().for_each(|fails| fails.store(false, Ordering::Relaxed));
    assert_eq!(
        encapsulate(&offload, 3),
        BatchOutcome::Done,
        "an engine asks again when it thinks fit"
    );
}

#[test]
fn forked_child_reopens_devices() {
    let (devices, _) = Devices::new(1);
    let opened = Offload::with_folder(devices, None);
    assert_eq!(encapsulate(&opened, 2), BatchOutcome::Done);
    assert!(opened.cost(KEM, Task::Encaps, 1_000_000).is_some());
    let (devices, _) = Devices::new(1);
    let later = Offload::with_folder(devices, None);
    // SAFETY: the child runs batches, which no other thread of this process was in the middle of, and ends by _exit.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let good = encapsulate(&opened, 2) == BatchOutcome::Lost
                && opened.cost(KEM, Task::Encaps, 1).is_none()
                && encapsulate(&later, 2) == BatchOutcome::Done;
            libc::_exit(i32::from(!good));
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        status
    };
    assert_eq!(status, 0);
    assert_eq!(encapsulate(&opened, 2), BatchOutcome::Done);
}

#[test]
fn row_reports_the_crossover() {
    let curve = |points: &[(usize, u64)]| Curve::new(points.to_vec()).unwrap();
    let (device, processor) = (curve(&[(1, 100), (100, 200)]), curve(&[(1, 10)]));
    let row = Row { algorithm: KEM, task: Task::Encaps, device, processor };
    assert_eq!(row.crossover(), Some(12));
}

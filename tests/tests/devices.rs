//! An engine over a device that runs the kernels of GPUs on this processor: by name, and by what batches cost.

#![allow(clippy::expect_used, clippy::unwrap_used, missing_docs)] // A panic is how a test fails.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::PathBuf;

use gabion_backend::cpus;
use gabion_cuda::offload::{Absent, DeviceDescription, Offload, Source};
use gabion_cuda_emulator::Emulator;
use gabion_engine::keys::stateful::{hss, xmss};
use gabion_engine::{
    Algorithm, BackendState, Batch, Config, Engine, Kem, Keys, Limits, Message, Operation,
    OsEntropy, Queue, Status, Task, ml_kem,
};
use gabion_scheme::lms::{LM_OTS, LMS};
use gabion_scheme::xmss::Set;

struct HostMachine;

impl Source for HostMachine {
    type Device = Emulator;

    fn may_be_there(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Absent> {
        Ok(())
    }

    fn open(&self) -> Result<Vec<(DeviceDescription, Emulator)>, Absent> {
        let about = DeviceDescription {
            name: "this processor".to_owned(),
            uuid: "GPU-0".to_owned(),
            capability: (0, 0),
            memory_bytes: 1 << 30,
            driver: "1".to_owned(),
        };
        Ok(vec![(about, Emulator::new())])
    }
}

/// An engine whose device is named.
fn named() -> Engine {
    let mut backends = cpus();
    backends.push(Box::new(Offload::with_folder(HostMachine, None)));
    let config = Config { backend: Some("cuda".to_owned()), ..Config::default() };
    Engine::with_backends(backends, &config).unwrap()
}

/// Lanes that ran on the device, the batches that they came in, and batches that it lost.
fn served(engine: &Engine, algorithm: Algorithm, task: Task) -> (u64, u64, u64) {
    let all = engine.device_counts();
    let of = all.iter().find(|served| (served.algorithm, served.task) == (algorithm, task));
    of.map_or((0, 0, 0), |served| (served.lanes, served.batches, served.lost))
}

/// Encapsulates to fresh keys, the last of which is bad, by way of several threads if they are worth it.
fn encapsulate(engine: &Engine, lanes: usize) {
    let p = &ml_kem::ML_KEM_512;
    let seeds: Vec<[u8; 64]> = (0..lanes).map(|lane| [lane as u8; 64]).collect();
    let mut status = vec![Status::NotRun; lanes];
    let (mut ek, mut dk) = (vec![0; lanes * p.ek_len()], vec![0; lanes * p.dk_len()]);
    let operation =
        Operation::Kem(Kem::Keygen { params: p, seeds: &seeds, ek: &mut ek, dk: &mut dk });
    let processor = Engine::with_backends(cpus(), &Config::default()).unwrap();
    processor.run(&mut Batch { operation, status: &mut status }).unwrap();
    ek[(lanes - 1) * p.ek_len()..][..3].fill(0xff);
    let m: Vec<[u8; 32]> = (0..lanes).map(|lane| [lane as u8; 32]).collect();
    let made = |engine: &Engine| {
        let mut status = vec![Status::NotRun; lanes];
        let (mut ct, mut shared) = (vec![0; lanes * p.ct_len()], vec![[0; 32]; lanes]);
        let keys = Keys::Fresh(&ek);
        let operation = Operation::Kem(Kem::Encaps {
            params: p,
            keys,
            m: &m,
            ct: &mut ct,
            shared: &mut shared,
        });
        let mut batch = Batch { operation, status: &mut status };
        engine.run_parallel(&mut batch, NonZero::new(2).unwrap()).unwrap();
        (ct, shared, status)
    };
    let made_there = made(engine);
    assert_eq!(made_there, made(&processor));
    assert_eq!(made_there.2[lanes - 1], Status::InvalidKey);
    assert!(made_there.2[..lanes - 1].iter().all(|status| status.is_ok()));
}

fn exchange(engine: &Engine, algorithm: Algorithm) {
    let key = engine.kem_generate(algorithm, &OsEntropy).unwrap();
    let (ct, shared) = engine.encaps(&key.public(), &OsEntropy).unwrap();
    assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
}

#[test]
fn the_device_passes_every_self_test() {
    let engine = named();
    let report = engine.report();
    assert_eq!(report[0].name, "cuda");
    assert!(report.iter().all(|backend| backend.state == BackendState::Ok), "{report:?}");
    assert_eq!(engine.device_counts(), [], "self-tests are not counted");
}

#[test]
fn a_named_device_runs_what_it_serves_of_any_size() {
    let engine = named();
    for algorithm in [Algorithm::MlKem512, Algorithm::MlKem768, Algorithm::MlKem1024] {
        exchange(&engine, algorithm);
        assert_eq!(served(&engine, algorithm, Task::Encaps), (1, 1, 0));
        assert_eq!(served(&engine, algorithm, Task::Decaps), (1, 1, 0));
    }
    // A large batch is not cut for threads: the device has as many by itself.
    encapsulate(&engine, 300);
    assert_eq!(served(&engine, Algorithm::MlKem512, Task::Encaps), (301, 2, 0));
    let key = engine.signature_generate(Algorithm::MlDsa44, &OsEntropy).unwrap();
    let message = Message::Pure { context: b"", message: b"text" };
    let signature = engine.sign(&key, message, &OsEntropy).unwrap();
    engine.verify(&key.public(), message, &signature).unwrap();
    let other = Message::Pure { context: b"", message: b"texts" };
    assert!(engine.verify(&key.public(), other, &signature).is_err());
    assert_eq!(served(&engine, Algorithm::MlDsa44, Task::Verify), (2, 2, 0));
    exchange(&engine, Algorithm::X25519MlKem768);
    assert_eq!(served(&engine, Algorithm::MlKem768, Task::Encaps), (2, 2, 0));
}

#[test]
fn trees_of_keys_that_signing_uses_up_are_made_there() {
    let (engine, processor) = (named(), Engine::with_backends(cpus(), &Config::default()).unwrap());
    let threads = NonZero::<usize>::MIN;
    let levels = hss::Levels::new(&[(&LMS[0], &LM_OTS[2]), (&LMS[1], &LM_OTS[0])]).unwrap();
    let secret = hss::HssSecret::draw(levels, &OsEntropy).unwrap();
    let [key, same] = [&engine, &processor].map(|engine| {
        let mut go_on = |_: hss::Progress<'_>| ControlFlow::Continue(());
        hss::StatefulKey::generate(engine, &secret, &[], threads, &mut go_on).unwrap().unwrap()
    });
    assert_eq!(key.verify_key().bytes(), same.verify_key().bytes());
    // A leaf is a lane, of the top tree.
    assert_eq!(served(&engine, Algorithm::Hss, Task::Keygen), (32, 1, 0));
    let set = Set::from_name("XMSSMT-SHAKE256_20/4_192").unwrap();
    let secret = xmss::XmssSecret::draw(set, &OsEntropy).unwrap();
    let [key, same] = [&engine, &processor].map(|engine| {
        let mut go_on = |_: xmss::Progress<'_>| ControlFlow::Continue(());
        xmss::StatefulKey::generate(engine, &secret, &[], threads, &mut go_on).unwrap().unwrap()
    });
    assert_eq!(key.verify_key().bytes(), same.verify_key().bytes());
    assert_eq!(served(&engine, Algorithm::XmssMt, Task::Keygen), (32, 1, 0));
    assert!(processor.device_counts().is_empty());
}

#[test]
fn queue_jobs_run_on_the_device() {
    static ENGINE: std::sync::OnceLock<Engine> = std::sync::OnceLock::new();
    let engine = ENGINE.get_or_init(named);
    let key = engine.kem_generate(Algorithm::MlKem768, &OsEntropy).unwrap();
    let queue = Queue::new(engine, OsEntropy, Limits::default());
    let (ct, shared) = queue.encaps(&key.public()).unwrap();
    assert_eq!(queue.decaps(&key, &ct).unwrap(), shared);
    assert_eq!(served(engine, Algorithm::MlKem768, Task::Decaps), (1, 1, 0));
}

/// Of a process that never had a device, or had one before: neither waits, and both get their results.
#[test]
fn a_forked_child_runs_on_its_processor() {
    let (before, never) = (named(), named());
    exchange(&before, Algorithm::MlKem768);
    // SAFETY: the child ends by _exit, and is ended if it does not.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(120);
            exchange(&before, Algorithm::MlKem768);
            exchange(&never, Algorithm::MlKem768);
            let lost = served(&before, Algorithm::MlKem768, Task::Encaps) == (1, 1, 1);
            let opened = served(&never, Algorithm::MlKem768, Task::Encaps) == (1, 1, 0);
            libc::_exit(i32::from(!(lost && opened)));
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        status
    };
    assert_eq!(status, 0);
    exchange(&before, Algorithm::MlKem768);
    assert_eq!(served(&before, Algorithm::MlKem768, Task::Encaps), (2, 2, 0));
}

/// A folder with costs by which the device is faster from 20 lanes on.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("gabion-devices-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let (version, processor) = (env!("CARGO_PKG_VERSION"), cpus()[0].name());
        let text = format!(
            "gabion-gpu-costs 1\ngabion {version}\ndevice this processor\ndriver 1\n\
             processor {processor}\nmeasured 1764184000\n\
             row ML-KEM-512 encaps device 1:1950 1000:1960 processor 1:100\n"
        );
        std::fs::write(path.join("gpu-GPU-0.txt"), text).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn batches_go_where_they_cost_least() {
    let folder = Folder::new();
    let offload = Offload::with_folder(HostMachine, Some(folder.0.clone()));
    let mut backends = cpus();
    let best = backends.remove(0);
    backends.insert(0, offload.metered_processor(best));
    backends.push(Box::new(offload.clone()));
    let engine = Engine::with_backends(backends, &Config::default()).unwrap();
    encapsulate(&engine, 100);
    assert!(!offload.is_opened() && engine.device_counts().is_empty());
    // The report opens the devices, as a few larger batches would in time.
    assert_eq!(offload.report().unwrap()[0].costs.rows[0].crossover(), Some(20));
    encapsulate(&engine, 19);
    exchange(&engine, Algorithm::MlKem512);
    assert_eq!(served(&engine, Algorithm::MlKem512, Task::Encaps), (0, 0, 0));
    encapsulate(&engine, 20);
    encapsulate(&engine, 300);
    assert_eq!(served(&engine, Algorithm::MlKem512, Task::Encaps), (320, 2, 0));
    assert_eq!(engine.device_counts().len(), 1, "nothing else was measured");
}

//! All of it on the processor, whose times say nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gabion_cuda::Fault;
use gabion_cuda_emulator::{Action, Call, Emulator, Hook, HookedDevice};
use gabion_rows::gpu;

use super::*;

/// A fake card that times kernels on the processor; it may change a byte of a result.
struct FakeCard {
    launches: Mutex<Vec<String>>,
    energy: AtomicU64,
    /// The number of the copy from the device that is corrupted.
    wrong: Option<u64>,
    copies: AtomicU64,
}

fn cuda(slot_bytes: usize, wrong: Option<u64>) -> Cuda<InstrumentedCard<HookedDevice<FakeCard>>> {
    let card = FakeCard {
        launches: Mutex::default(),
        energy: AtomicU64::new(0),
        wrong,
        copies: AtomicU64::new(0),
    };
    Cuda::new(InstrumentedCard::new(HookedDevice::new(card)), slot_bytes, Duration::from_secs(60))
}

impl Card for HookedDevice<FakeCard> {
    fn describe(&self) -> gpu::Device {
        gpu::Device {
            name: "hosted".into(),
            driver: "13.0".into(),
            multiprocessors: 1,
            clock_mhz: 1000,
        }
    }

    fn profile(&self, _is_on: bool) {
        self.hook.launches.lock().unwrap().clear();
    }

    fn times(&self) -> Vec<Time> {
        let launches = self.hook.launches.lock().unwrap();
        let mut names = launches.clone();
        names.sort();
        names.dedup();
        let count = |name: &String| launches.iter().filter(|one| *one == name).count() as u64;
        names
            .into_iter()
            .map(|kernel| Time {
                launches: count(&kernel),
                ns: 1000.0 * count(&kernel) as f64,
                kernel,
            })
            .collect()
    }

    fn energy_mj(&self) -> Option<u64> {
        Some(self.hook.energy.fetch_add(500, Ordering::Relaxed))
    }
}

impl Hook for FakeCard {
    fn before(&self, _device: &Emulator, call: Call<'_>) -> Result<Action, Fault> {
        if let Call::Launch(launch) = call {
            self.launches.lock().unwrap().push(launch.kernel.to_owned());
        }
        Ok(Action::Pass)
    }

    fn downloaded(&self, _device: &Emulator, bytes: &mut [u8]) -> Result<(), Fault> {
        if self.wrong == Some(self.copies.fetch_add(1, Ordering::Relaxed)) {
            bytes[0] ^= 1;
        }
        Ok(())
    }
}

fn config(filter: &str, batches: &[usize]) -> Config {
    Config {
        filter: Some(Regex::new(filter).unwrap()),
        batches: batches.to_vec(),
        threads: Some(2),
        seconds: 0.002,
        memory: 64 << 20,
        slot: 16 << 20,
        ordinary: true,
        profile: false,
    }
}

fn events(
    cuda: &Cuda<InstrumentedCard<HookedDevice<FakeCard>>>,
    config: &Config,
) -> Result<Vec<Event>, Error> {
    let mut events = Vec::new();
    measure(cuda, config, |event| {
        events.push(event);
        true
    })?;
    Ok(events)
}

fn rows(events: &[Event]) -> Vec<&Row> {
    let row = events.iter().filter_map(|event| match event {
        Event::Row(row) => Some(&**row),
        _ => None,
    });
    row.collect()
}

#[test]
fn gpu_rows_have_consistent_counts() {
    let cuda = cuda(16 << 20, None);
    let events = events(&cuda, &config("ML-KEM-512:", &[1, 3, 300])).unwrap();
    let rows = rows(&events);
    // Six cases, three sizes, and the largest once more.
    assert_eq!(rows.len(), 6 * 4, "{events:?}");
    for row in rows {
        let figures = row.end_to_end.unwrap();
        assert_eq!(figures.operations, figures.batches * row.batch as u64);
        assert!(figures.batches >= 6 && figures.ops_per_s > 0.0 && figures.cpu_cores > 0.0);
        assert!(figures.compared >= figures.batches, "{figures:?}");
        assert!(figures.batch_us.p50 > 0.0 && figures.batch_us.p50 <= figures.batch_us.p99);
        // The inputs and outputs of an operation; the canary and the status words come on top.
        let p = gabion_engine::ml_kem::params(gabion_engine::Algorithm::MlKem512).unwrap();
        let least = match (row.subject.operation.word(), row.subject.key.word()) {
            ("keygen", _) if row.returns.as_deref() == Some("ek") => [64, p.ek_len()],
            ("keygen", _) => [64, p.ek_len() + p.dk_len()],
            ("encaps", "fresh") => [p.ek_len() + 32, p.ct_len() + 32],
            ("encaps", _) => [32, p.ct_len() + 32],
            ("decaps", "fresh") => [p.dk_len() + p.ct_len(), 32],
            _ => [p.ct_len(), 32],
        };
        let went = [figures.bytes_to_device, figures.bytes_from_device];
        for (went, least) in went.into_iter().zip(least) {
            assert!(went >= least as f64, "{row:?}");
        }
        assert!(row.kernel.is_some_and(|kernel| kernel.ns_per_op > 0.0));
        let json = serde_json::to_value(row).unwrap();
        for field in ["algorithm", "operation", "key", "batch", "threads", "memory", "device"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json["end_to_end"]["batch_us"]["p99"].is_f64());
        let text = serde_json::to_string(row).unwrap();
        let read = gabion_rows::read(&text).unwrap();
        let gabion_rows::Row::Gpu(read) = &read[0].row else { panic!("{text}") };
        assert_eq!((&read.subject, read.batch, read.memory), (&row.subject, row.batch, row.memory));
        assert_eq!(read.end_to_end.unwrap().operations, figures.operations);
    }
}

#[test]
fn signatures_are_verified_and_what_is_declined_is_said() {
    let cuda = cuda(64 << 20, None);
    let filter = "ML-DSA-44:verify:fresh|Ed25519|ML-KEM-768:keygen:fresh";
    let config = Config { ordinary: false, memory: 1 << 20, ..config(filter, &[1, 20, 4096]) };
    let events = events(&cuda, &config).unwrap();
    assert_eq!(rows(&events).len(), 4);
    // 4096 of either are more than a MiB.
    let left_out = events.iter().filter(|event| matches!(event, Event::LeftOut(_))).count();
    assert_eq!(left_out, 2, "{events:?}");
}

/// Checks without a device that a processor's own inputs give the expected outputs.
#[test]
fn every_case_has_inputs_that_a_processor_takes() {
    let all = cpus();
    for case in Case::all() {
        // Signatures of small sets take long.
        if case.algorithm.name().ends_with('s') {
            continue;
        }
        let pool = Pool::new(case, 4, &*all[0]).unwrap();
        let mut memory = vec![0; Lanes::bytes(&pool, 7)];
        let mut lanes = Lanes::new(&pool, 7, 2, &mut memory);
        lanes.forget();
        assert_eq!(lanes.run(&*all[0]), gabion_backend::BatchOutcome::Done, "{}", case.name());
        assert_eq!(lanes.check(true), Ok(7), "{}", case.name());
        lanes.forget();
        assert!(lanes.check(false).is_err(), "{}", case.name());
    }
}

#[test]
fn a_wrong_result_ends_the_measurement() {
    // Not the canary's and not a status word: only who compares sees it.
    let config = Config { ordinary: false, ..config("ML-KEM-512:decaps:fresh", &[2]) };
    let mut failed = 0;
    for wrong in 0..12 {
        match events(&cuda(16 << 20, Some(wrong)), &config) {
            Ok(_) => {}
            Err(Error::Failed(text)) => {
                failed += usize::from(text.contains("is not what a processor gives"));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(failed >= 2, "{failed}");
}

#[test]
fn kernels_have_rows_of_their_own() {
    let cuda = cuda(16 << 20, None);
    let config = Config { profile: true, ..config("ML-KEM-512:encaps:fresh", &[64]) };
    let events = events(&cuda, &config).unwrap();
    let kernels: Vec<&Profile> = events
        .iter()
        .filter_map(|event| match event {
            Event::Kernel(row) => Some(&**row),
            _ => None,
        })
        .collect();
    assert!(kernels.len() > 4, "{events:?}");
    let share: f64 = kernels.iter().map(|row| row.share).sum();
    // Those of pinned memory and of ordinary memory.
    assert!((share - 2.0).abs() < 1e-9, "{share}");
    assert!(kernels.iter().all(|row| row.kernel_name.starts_with("gabion_kem512_")));
    let text = serde_json::to_string(kernels[0]).unwrap();
    assert!(matches!(gabion_rows::read(&text).unwrap()[0].row, gabion_rows::Row::Profile(_)));
}

#[test]
fn hashes_alone_are_those_of_a_processor() {
    let cuda = cuda(1 << 20, None);
    let events = events(&cuda, &config("Keccak|SHA-256:", &[1])).unwrap();
    let rows = rows(&events);
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row.batch, 2048);
        assert!(row.end_to_end.is_none() && row.kernel.unwrap().operations >= 2048 * 512);
    }
    let wrong = super::tests::cuda(1 << 20, Some(0));
    let failed = super::tests::events(&wrong, &config("Keccak", &[1])).unwrap_err();
    assert!(failed.to_string().contains("not what a processor gives"), "{failed}");
}

#[test]
fn values_out_of_range_are_refused() {
    let cuda = cuda(1 << 20, None);
    for bad in [
        Config { batches: vec![], ..Config::default() },
        Config { batches: vec![16, 0], ..Config::default() },
        Config { batches: vec![BATCH_MAX + 1], ..Config::default() },
        Config { threads: Some(0), ..Config::default() },
        Config { seconds: f64::NAN, ..Config::default() },
        config("no such row", &[1]),
    ] {
        assert!(matches!(events(&cuda, &bad), Err(Error::Usage(_))), "{bad:?}");
    }
}

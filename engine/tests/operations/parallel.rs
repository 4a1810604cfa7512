//! A batch on several threads ends lane by lane as it does on one.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::num::NonZero;

use gabion_backend::cpus;
use gabion_engine::{
    Algorithm, Backend, Batch, BatchOutcome, Config, Dsa, Engine, Error, Kem, Keys, Message,
    Operation, Status, ml_dsa, ml_kem,
};

const THREADS: [usize; 3] = [2, 3, 7];
/// Around the smallest piece and its multiples.
const LANES: [usize; 5] = [1, 127, 128, 193, 700];

/// Runs the operation that `with` builds over separate outputs, on one thread and on several;
/// returns status and outputs of all runs, which must be equal.
fn same<O: PartialEq + Clone>(
    engine: &Engine,
    blank: O,
    lanes: usize,
    with: impl Fn(&mut O, &mut dyn FnMut(Operation<'_>)),
) -> (Vec<Status>, O) {
    let (mut status, mut output) = (vec![Status::NotRun; lanes], blank.clone());
    with(&mut output, &mut |operation| {
        engine.run(&mut Batch { operation, status: &mut status }).unwrap();
    });
    let serial = (status, output);
    for threads in THREADS {
        let (mut status, mut output) = (vec![Status::NotRun; lanes], blank.clone());
        with(&mut output, &mut |operation| {
            let mut batch = Batch { operation, status: &mut status };
            engine.run_parallel(&mut batch, NonZero::new(threads).unwrap()).unwrap();
        });
        assert!((status, output) == serial, "{lanes} lanes on {threads} threads");
    }
    serial
}

/// Whether lane 5, 69, .. was made bad, and no other failed.
fn check_bad(status: &[Status], bad: Status) {
    for (lane, &status) in status.iter().enumerate() {
        assert_eq!(status, if lane % 64 == 5 { bad } else { Status::Ok }, "lane {lane}");
    }
}

#[test]
fn ml_kem() {
    let engine = Engine::new(&Config::default()).unwrap();
    let params = ml_kem::params(Algorithm::MlKem512).unwrap();
    for n in LANES {
        let seeds: Vec<[u8; 64]> =
            (0..n).map(|lane| std::array::from_fn(|j| (lane * 3 + j) as u8)).collect();
        let keys = (vec![0; n * params.ek_len()], vec![0; n * params.dk_len()]);
        let (status, (mut ek, mut dk)) = same(&engine, keys, n, |(ek, dk), run| {
            run(Operation::Kem(Kem::Keygen { params, seeds: &seeds, ek, dk }))
        });
        assert!(status.iter().all(|status| status.is_ok()));
        for lane in (5..n).step_by(64) {
            ek[lane * params.ek_len()..][..3].fill(0xff);
            // The hash of ek stands before the last 32 bytes.
            dk[(lane + 1) * params.dk_len() - 33] ^= 1;
        }
        let m = vec![[3; 32]; n];
        let outputs = (vec![7; n * params.ct_len()], vec![[7; 32]; n]);
        let (status, (ct, _)) = same(&engine, outputs, n, |(ct, shared), run| {
            run(Operation::Kem(Kem::Encaps { params, keys: Keys::Fresh(&ek), m: &m, ct, shared }))
        });
        check_bad(&status, Status::InvalidKey);
        let (status, shared) = same(&engine, vec![[7; 32]; n], n, |shared, run| {
            run(Operation::Kem(Kem::Decaps { params, keys: Keys::Fresh(&dk), ct: &ct, shared }))
        });
        check_bad(&status, Status::InvalidKey);
        let is_zero = |lane: &usize| shared[*lane] == [0; 32];
        assert_eq!((0..n).filter(is_zero).count(), (5..n).step_by(64).count());
    }
}

#[test]
fn ml_dsa() {
    let engine = Engine::new(&Config::default()).unwrap();
    let params = ml_dsa::params(Algorithm::MlDsa44).unwrap();
    for n in LANES {
        let seeds: Vec<[u8; 32]> =
            (0..n).map(|lane| std::array::from_fn(|j| (lane * 5 + j) as u8)).collect();
        let keys = (vec![0; n * params.pk_len()], vec![0; n * params.sk_len()]);
        let (_, (pk, mut sk)) = same(&engine, keys, n, |(pk, sk), run| {
            run(Operation::Dsa(Dsa::Keygen { params, seeds: &seeds, pk, sk }))
        });
        for lane in (5..n).step_by(64) {
            // tr no longer belongs to the rest.
            sk[lane * params.sk_len() + 64] ^= 1;
        }
        let texts: Vec<[u8; 8]> = (0..n as u64).map(u64::to_le_bytes).collect();
        let messages: Vec<_> =
            texts.iter().map(|text| Message::Pure { context: b"", message: text }).collect();
        let rnd = vec![[9; 32]; n];
        let (status, mut sig) = same(&engine, vec![7; n * params.sig_len()], n, |sig, run| {
            let keys = Keys::Fresh(&sk);
            run(Operation::Dsa(Dsa::Sign { params, keys, messages: &messages, rnd: &rnd, sig }))
        });
        check_bad(&status, Status::InvalidKey);
        // Lanes whose key was bad have no signature; some that are good get another lane's.
        for lane in (8..n).step_by(50).filter(|lane| lane % 64 != 5) {
            sig.copy_within(0..params.sig_len(), lane * params.sig_len());
        }
        let (status, ()) = same(&engine, (), n, |(), run| {
            let keys = Keys::Fresh(&pk);
            run(Operation::Dsa(Dsa::Verify { params, keys, messages: &messages, sig: &sig }))
        });
        for (lane, status) in status.into_iter().enumerate() {
            let is_bad = lane % 64 == 5 || lane >= 8 && (lane - 8) % 50 == 0;
            assert_eq!(status == Status::InvalidSignature, is_bad, "lane {lane}");
        }
    }
}

/// Keys that several lanes share, as a server's are.
#[test]
fn known_keys() {
    let engine = Engine::new(&Config::default()).unwrap();
    let params = ml_dsa::params(Algorithm::MlDsa44).unwrap();
    let n = 300;
    let mut keys: Vec<_> = (0..n).map(|_| ml_dsa::SigningKey::blank(params)).collect();
    let seeds: Vec<[u8; 32]> = (0..n).map(|lane| [lane as u8; 32]).collect();
    let mut status = vec![Status::NotRun; n];
    let operation = Operation::Dsa(Dsa::Generate { params, seeds: &seeds, keys: &mut keys });
    let threads = NonZero::new(2).unwrap();
    engine.run_parallel(&mut Batch { operation, status: &mut status }, threads).unwrap();
    let known: Vec<_> = (0..n).map(|lane| &keys[lane * lane % 7]).collect();
    let (messages, rnd) = (vec![Message::Internal(b"m"); n], vec![[0; 32]; n]);
    let (status, sig) = same(&engine, vec![0; n * params.sig_len()], n, |sig, run| {
        let keys = Keys::Known(&known);
        run(Operation::Dsa(Dsa::Sign { params, keys, messages: &messages, rnd: &rnd, sig }))
    });
    assert!(status.iter().all(|status| status.is_ok()));
    let public: Vec<_> = known.iter().map(|key| key.verify_key()).collect();
    let (status, ()) = same(&engine, (), n, |(), run| {
        let keys = Keys::Known(&public);
        run(Operation::Dsa(Dsa::Verify { params, keys, messages: &messages, sig: &sig }))
    });
    assert!(status.iter().all(|status| status.is_ok()));
}

/// A backend that panics where a batch has a certain ciphertext in it.
struct Allergic(Box<dyn Backend>);

impl Backend for Allergic {
    fn name(&self) -> &'static str {
        "allergic"
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        if let Operation::Kem(Kem::Decaps { ct, .. }) = &batch.operation {
            assert!(!ct.windows(4).any(|bytes| bytes == b"nuts"), "a fault that a test put in");
        }
        self.0.run(batch)
    }
}

#[test]
fn panic_in_a_piece_discards_the_parallel_batch() {
    let backends: Vec<Box<dyn Backend>> = vec![Box::new(Allergic(cpus().remove(0)))];
    let engine = Engine::with_backends(backends, &Config::default()).unwrap();
    let algorithm = Algorithm::MlKem512;
    let params = ml_kem::params(algorithm).unwrap();
    let mut keys = [ml_kem::DecapsKey::blank(params)];
    let operation = Operation::Kem(Kem::Generate { params, seeds: &[[1; 64]], keys: &mut keys });
    engine.run(&mut Batch { operation, status: &mut [Status::NotRun] }).unwrap();
    let n = 400;
    let known = vec![&keys[0]; n];
    let (mut ct, mut shared) = (vec![0; n * params.ct_len()], vec![[7; 32]; n]);
    ct[333 * params.ct_len()..][..4].copy_from_slice(b"nuts");
    let mut status = vec![Status::Ok; n];
    let operation = Operation::Kem(Kem::Decaps {
        params,
        keys: Keys::Known(&known),
        ct: &ct,
        shared: &mut shared,
    });
    let mut batch = Batch { operation, status: &mut status };
    let error = engine.run_parallel(&mut batch, NonZero::new(3).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Panicked { .. }), "{error}");
    assert!(shared.iter().all(|secret| *secret == [0; 32]));
    assert!(status.iter().all(|&status| status == Status::NotRun));
}

#[test]
fn a_misshapen_batch_is_refused() {
    let engine = Engine::new(&Config::default()).unwrap();
    let params = ml_kem::params(Algorithm::MlKem512).unwrap();
    let n = 200;
    let (mut shared, mut status) = (vec![[5; 32]; n - 1], vec![Status::Ok; n]);
    let (ct, dk) = (vec![0; n * params.ct_len()], vec![0; n * params.dk_len()]);
    let operation = Operation::Kem(Kem::Decaps {
        params,
        keys: Keys::Fresh(&dk),
        ct: &ct,
        shared: &mut shared,
    });
    let mut batch = Batch { operation, status: &mut status };
    assert!(engine.run_parallel(&mut batch, NonZero::new(2).unwrap()).is_err());
    assert!(status.iter().all(|&status| status == Status::NotRun));
}

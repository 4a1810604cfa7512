//! A family of algorithms that was left out of the build is refused by name, at every door, and the others work.
//!
//! With every feature that is a list of what is built; `script/test` runs it once more with few of them.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_engine::{
    ALGORITHMS, Algorithm, BackendState, Batch, Config, Dsa, Engine, Error, Family, Kem, Keys,
    Kind, Message, Operation, OsEntropy, Status, ml_dsa, ml_kem,
};

fn engine() -> Engine {
    Engine::new(&Config::default()).unwrap()
}

/// Returns the results of all functions that make a key of the algorithm's kind.
fn made(engine: &Engine, algorithm: Algorithm) -> Vec<Result<(), Error>> {
    let info = algorithm.info();
    let public = vec![0; info.public_key.max()];
    match info.kind {
        Kind::Kem => vec![
            engine.kem_generate(algorithm, &OsEntropy).map(drop),
            engine.kem_generate_many(algorithm, 2, &OsEntropy).map(drop),
            engine.kem_public(algorithm, &public).map(drop),
        ],
        Kind::Signature => vec![
            engine.signature_generate(algorithm, &OsEntropy).map(drop),
            engine.signature_generate_many(algorithm, 2, &OsEntropy).map(drop),
            engine.signature_public(algorithm, &public).map(drop),
        ],
        Kind::KeyExchange => vec![
            engine.exchange_generate(algorithm, &OsEntropy).map(drop),
            engine.exchange_generate_many(algorithm, 2, &OsEntropy).map(drop),
            engine.exchange_public(algorithm, &public).map(drop),
        ],
    }
}

#[test]
fn missing_families_are_refused_by_name() {
    let engine = engine();
    for info in &ALGORITHMS {
        let (algorithm, feature) = (info.algorithm, info.family.feature());
        let outcomes = made(&engine, algorithm);
        assert_eq!(outcomes.len(), 3, "{algorithm}");
        if info.family.is_built() {
            // Composites with RSA take a minute for some keys; what each signature changes has no ordinary ones.
            if !info.name.contains("RSA") && !info.stateful {
                assert_eq!(outcomes[..2], [Ok(()), Ok(())], "{algorithm}");
            }
            assert!(engine.backend_for(algorithm).is_ok(), "{algorithm}");
            continue;
        }
        for outcome in outcomes.into_iter().chain([engine.backend_for(algorithm).map(drop)]) {
            assert_eq!(outcome, Err(Error::NotBuilt(algorithm)));
            let text = outcome.unwrap_err().to_string();
            assert!(text.contains(info.name) && text.contains(feature), "{text}");
        }
    }
}

/// Batches that an engine's caller made by himself.
#[test]
fn missing_families_run_no_batch() {
    let engine = engine();
    let (mut ek, mut dk) = (vec![0; 800], vec![0; 1632]);
    let mut status = [Status::NotRun];
    let params = ml_kem::params(Algorithm::MlKem512).unwrap();
    let operation =
        Operation::Kem(Kem::Keygen { params, seeds: &[[7; 64]], ek: &mut ek, dk: &mut dk });
    let outcome = engine.run(&mut Batch { operation, status: &mut status });
    if Family::MlKem.is_built() {
        assert_eq!((outcome, status[0]), (Ok(()), Status::Ok));
    } else {
        assert_eq!(outcome, Err(Error::NotBuilt(Algorithm::MlKem512)));
        assert_eq!((ek, status[0]), (vec![0; 800], Status::NotRun));
    }
    let params = ml_dsa::params(Algorithm::MlDsa44).unwrap();
    let messages = [Message::Pure { context: b"", message: b"text" }];
    let (key, sig) = (vec![0; params.pk_len()], vec![0; params.sig_len()]);
    let operation = Operation::Dsa(Dsa::Verify {
        params,
        keys: Keys::Fresh(&key),
        messages: &messages,
        sig: &sig,
    });
    let outcome = engine.run(&mut Batch { operation, status: &mut status });
    match Family::MlDsa.is_built() {
        true => assert_eq!((outcome, status[0]), (Ok(()), Status::InvalidSignature)),
        false => assert_eq!(outcome, Err(Error::NotBuilt(Algorithm::MlDsa44))),
    }
}

#[test]
fn built_families_pass_their_self_tests() {
    for report in engine().report() {
        assert_eq!(report.state, BackendState::Ok, "{}", report.name);
    }
}

/// A hybrid or a composite is built only with its parts, and ECDH and ECDSA only together.
#[test]
fn a_family_is_there_with_its_parts() {
    let all = |families: &[Family]| families.iter().all(|family| family.is_built());
    assert!(!Family::Hybrid.is_built() || all(&[Family::MlKem, Family::Ecdh]));
    let parts = [Family::MlDsa, Family::Ecdsa, Family::Ed25519];
    assert!(!Family::Composite.is_built() || all(&parts));
    assert_eq!(Family::Ecdh.is_built(), Family::Ecdsa.is_built());
}

//! Every secret operation once, for valgrind's memcheck: build with `--cfg ctgrind`, then secrets
//! are "uninitialised" and each branch or address that depends on one is reported.
//!
//!     tests/constant-time/ctgrind.sh            builds, runs, and insists that the leaky demo is flagged
//!
//! valgrind has no AVX-512, so this checks the portable kernels and the flows over them; the
//! program says which backend ran and fails if it was another one.

use std::process::ExitCode;

use gabion_engine::{Algorithm, Config, Engine, Entropy, EntropyError, Family, Kind, Message, ct};

/// Bytes that memcheck takes for secret from here on.
struct SecretEntropy;

impl Entropy for SecretEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(out).map_err(|error| EntropyError(error.to_string()))?;
        ct::secret(out);
        Ok(())
    }
}

fn kem(engine: &Engine, algorithm: Algorithm) -> Result<(), gabion_engine::Error> {
    let key = engine.kem_generate(algorithm, &SecretEntropy)?;
    let (ciphertext, shared) = engine.encaps(&key.public(), &SecretEntropy)?;
    let opened = engine.decaps(&key, &ciphertext)?;
    let mut corrupted = ciphertext.clone();
    corrupted[0] ^= 1;
    let rejected = engine.decaps(&key, &corrupted)?;
    for secret in [&shared, &opened, &rejected] {
        ct::declassify(&secret[..]);
    }
    assert!(shared == opened && shared != rejected, "{algorithm}: decapsulation is wrong");
    // The same from the expanded form, which is decoded and checked.
    let again = engine.kem_private(algorithm, key.bytes())?;
    let opened = engine.decaps(&again, &ciphertext)?;
    ct::declassify(&opened[..]);
    assert_eq!(shared, opened);
    Ok(())
}

fn dsa(engine: &Engine, algorithm: Algorithm) -> Result<(), gabion_engine::Error> {
    let key = engine.dsa_generate(algorithm, &SecretEntropy)?;
    // Enough signatures that every cause of rejection comes up.
    for round in 0..8u8 {
        let text = [round; 32];
        // Ed25519 has no contexts.
        let context: &[u8] = match algorithm.info().family {
            Family::Ed25519 => b"",
            _ => b"ctgrind",
        };
        let message = Message::Pure { context, message: &text };
        let signature = engine.sign(&key, message, &SecretEntropy)?;
        engine.verify(&key.public(), message, &signature)?;
    }
    let again = engine.dsa_private(algorithm, key.bytes())?;
    let message = Message::Pure { context: b"", message: b"again" };
    let signature = engine.sign_deterministic(&again, message)?;
    engine.verify(&key.public(), message, &signature)
}

/// What a leak looks like: a branch on one bit of a secret. memcheck must report it.
fn leak() -> u8 {
    let mut secret = [0u8; 32];
    ct::secret(&secret);
    secret[1] = 1;
    if core::hint::black_box(secret[0]) & 1 == 1 { secret[1] } else { 0 }
}

fn run(engine: &Engine) -> Result<(), gabion_engine::Error> {
    for algorithm in Algorithm::all() {
        let backend = engine.backend_for(algorithm)?.name();
        assert_eq!(backend, "portable", "memcheck can only follow the portable kernels");
        match algorithm.info().kind {
            Kind::Kem => kem(engine, algorithm)?,
            _ => dsa(engine, algorithm)?,
        }
        println!("{algorithm} on {backend}: done");
    }
    Ok(())
}

fn main() -> ExitCode {
    if !cfg!(ctgrind) {
        eprintln!("error: built without --cfg ctgrind, so nothing would be marked as secret");
        return ExitCode::from(2);
    }
    if std::env::args().nth(1).as_deref() == Some("leaky") {
        println!("leaky demo: {}", leak());
        return ExitCode::SUCCESS;
    }
    let config = Config { backend: Some("portable".to_owned()), ..Config::default() };
    match Engine::new(&config).and_then(|engine| run(&engine)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

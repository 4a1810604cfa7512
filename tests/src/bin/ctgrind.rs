//! Every secret operation once, for valgrind's memcheck: build with `--cfg ctgrind`, then secrets
//! are "uninitialised" and each branch or address that depends on one is reported.
//!
//!     tests/constant-time/ctgrind.sh            builds, runs, and insists that the leaky demo is flagged
//!     ctgrind BACKEND [ALGORITHM...]            most algorithms, or these, on that backend
//!
//! valgrind has AVX2 but neither AVX-512 nor SHA-NI, so this checks the portable and the AVX2 kernels
//! and the flows over them; the program says which backend ran and fails if it was another one.

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
    // Enough signatures that every cause of rejection comes up; where there is none, one.
    let rounds: u8 = if algorithm.info().family == Family::MlDsa { 8 } else { 1 };
    for round in 0..rounds {
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

/// Whether an algorithm is one of those that were asked for. Without a list, all but the slow sets of
/// SLH-DSA, which differ from the quick ones in the heights of their trees and take minutes here.
fn is_wanted(algorithm: Algorithm, wanted: &[String]) -> bool {
    let name = algorithm.to_string();
    // Curves, FN-DSA and RSA are other people's libraries, which mark nothing as public.
    let other_peoples = matches!(
        algorithm.info().family,
        Family::Ecdh | Family::Ecdsa | Family::Hybrid | Family::FnDsa | Family::Composite
    );
    if other_peoples {
        return false;
    }
    let is_slow = algorithm.info().family == Family::SlhDsa && name.ends_with('s');
    if wanted.is_empty() { !is_slow } else { wanted.contains(&name) }
}

fn run(engine: &Engine, backend: &str, wanted: &[String]) -> Result<(), gabion_engine::Error> {
    let mut ran = 0;
    for algorithm in Algorithm::all().filter(|algorithm| is_wanted(*algorithm, wanted)) {
        let used = engine.backend_for(algorithm)?.name();
        assert_eq!(used, backend, "{algorithm} ran on another backend than it should have");
        match algorithm.info().kind {
            Kind::Kem => kem(engine, algorithm)?,
            _ => dsa(engine, algorithm)?,
        }
        println!("{algorithm} on {used}: done");
        ran += 1;
    }
    assert!(ran > 0, "no algorithm is called {wanted:?}");
    Ok(())
}

fn main() -> ExitCode {
    if !cfg!(ctgrind) {
        eprintln!("error: built without --cfg ctgrind, so nothing would be marked as secret");
        return ExitCode::from(2);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((backend, wanted)) = arguments.split_first() else {
        eprintln!("error: expected `ctgrind BACKEND [ALGORITHM...]` or `ctgrind leaky`");
        return ExitCode::from(2);
    };
    if backend == "leaky" {
        println!("leaky demo: {}", leak());
        return ExitCode::SUCCESS;
    }
    let config = Config { backend: Some(backend.clone()), ..Config::default() };
    match Engine::new(&config).and_then(|engine| run(&engine, backend, wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

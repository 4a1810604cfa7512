//! `gabion speed`: measures operations per second of individual algorithms.

use std::time::Instant;

use gabion_engine::{Algorithm, Engine, Kind, Message, OsEntropy, Randomness, Status};
use gabion_machine::Machine;
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::keys;
use crate::stamp::StampedRow;

/// Measure operations per second, as `openssl speed` does
///
/// Example:
///   gabion speed ML-KEM-768 ML-DSA-65 --seconds 0.2
///
/// Prints operations per second of one thread, by elapsed time: one at a time, then in batches of
/// 64 operations. Encaps, decaps, sign and verify use a key that is expanded in advance. Messages
/// have 32 bytes. `gabion bench engine` measures in more detail.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Algorithms, by any of the names that `gabion algorithms` lists [default: ML-KEM and ML-DSA]
    #[arg(value_name = "ALG")]
    algorithms: Vec<String>,
    /// Time for each operation in seconds; may be fractional. Each runs at least twice
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Operations in one batch.
const BATCH: usize = 64;
/// The message that is signed.
const MESSAGE: Message<'_> = Message::Pure { context: &[], message: &[7; 32] };
/// The default algorithms.
const USUAL: [Algorithm; 6] = [
    Algorithm::MlKem512,
    Algorithm::MlKem768,
    Algorithm::MlKem1024,
    Algorithm::MlDsa44,
    Algorithm::MlDsa65,
    Algorithm::MlDsa87,
];

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Args { seconds, json, .. } = args;
    if !(seconds > 0.0 && seconds <= 3600.0) {
        return Err(Failure::Usage(format!(
            "--seconds {seconds} is out of range; more than 0 and at most 3600 is possible"
        )));
    }
    let mut algorithms = Vec::new();
    for name in &args.algorithms {
        let algorithm = keys::algorithm(name)?;
        if algorithm.info().stateful {
            return Err(Failure::Usage(format!(
                "{algorithm} signs with a state that is kept in files; measure it with `gabion bench hbs`"
            )));
        }
        algorithms.push(algorithm);
    }
    if algorithms.is_empty() {
        algorithms = USUAL.to_vec();
    }
    let engine = keys::engine()?;
    let mut kind = None;
    for algorithm in algorithms {
        let operations = operations(engine, algorithm)?;
        if !json && kind.replace(algorithm.info().kind) != Some(algorithm.info().kind) {
            say!("{}", head(&operations));
        }
        let mut rates = Vec::new();
        for Operation { name, one, batch } in operations {
            let (one, batch) = (measure(seconds, 1, one)?, measure(seconds, BATCH, batch)?);
            rates.push(Rate { name, one, batch });
        }
        if json {
            let backend = engine.backend_for(algorithm)?.name();
            let row = as_json(algorithm, backend, seconds, &rates);
            let text = serde_json::to_string(&StampedRow::now(&row));
            say!("{}", text.map_err(|cause| Failure::NotReady(cause.to_string()))?);
        } else {
            say!("{}", line(algorithm, &rates));
        }
    }
    Ok(0)
}

/// Operations per second, one at a time and in batches.
struct Rate {
    name: &'static str,
    one: f64,
    batch: f64,
}

fn as_json(algorithm: Algorithm, backend: &str, seconds: f64, rates: &[Rate]) -> Value {
    let one: Map<_, _> = rates.iter().map(|rate| (rate.name.into(), rate.one.into())).collect();
    let batch: Map<_, _> = rates.iter().map(|rate| (rate.name.into(), rate.batch.into())).collect();
    json!({
        "algorithm": algorithm.name(),
        "backend": backend,
        "batch": BATCH,
        "seconds": seconds,
        "per_s": one,
        "batch_per_s": batch,
        "machine": Machine::detect(),
    })
}

fn head(operations: &[Operation<'_>]) -> String {
    let one = operations.iter().map(|operation| format!("{:>12}", format!("{}/s", operation.name)));
    let batch = operations
        .iter()
        .map(|operation| format!("{:>14}", format!("{} x{BATCH}", operation.name)));
    format!("{:<28}{}", "algorithm", one.chain(batch).collect::<String>())
}

fn line(algorithm: Algorithm, rates: &[Rate]) -> String {
    let one = rates.iter().map(|rate| format!("{:>12.1}", rate.one));
    let batch = rates.iter().map(|rate| format!("{:>14.1}", rate.batch));
    format!("{:<28}{}", algorithm.name(), one.chain(batch).collect::<String>())
}

/// A call to repeat.
type Call<'e> = Box<dyn FnMut() -> Result<(), Failure> + 'e>;

/// An operation of an algorithm, single and as a batch.
struct Operation<'e> {
    name: &'static str,
    one: Call<'e>,
    batch: Call<'e>,
}

/// Repeats a call for `seconds` and returns operations per second; one call performs `count`
/// operations.
fn measure(seconds: f64, count: usize, mut call: Call<'_>) -> Result<f64, Failure> {
    // The first call runs self-tests and builds tables.
    call()?;
    let start = Instant::now();
    let mut calls = 0;
    loop {
        call()?;
        calls += 1;
        let elapsed = start.elapsed().as_secs_f64();
        if elapsed >= seconds {
            return Ok((calls * count) as f64 / elapsed);
        }
    }
}

fn operations(engine: &Engine, algorithm: Algorithm) -> Result<Vec<Operation<'_>>, Failure> {
    match algorithm.info().kind {
        Kind::Kem => kem(engine, algorithm),
        Kind::Signature => signature(engine, algorithm),
        Kind::KeyExchange => exchange(engine, algorithm),
    }
}

fn kem(engine: &Engine, algorithm: Algorithm) -> Result<Vec<Operation<'_>>, Failure> {
    let info = algorithm.info();
    let key = engine.kem_generate(algorithm, &OsEntropy)?;
    let public = key.public();
    let (ciphertext, _) = engine.encaps(&public, &OsEntropy)?;
    let sent = ciphertext.repeat(BATCH);
    let mut out = vec![0; BATCH * info.output.max()];
    let mut shared = vec![0; BATCH * info.shared_secret];
    let mut received = shared.clone();
    let (key_of_one, public_of_one) = (key.clone(), public.clone());
    Ok(vec![
        Operation {
            name: "keygen",
            one: Box::new(move || finish(engine.kem_generate(algorithm, &OsEntropy))),
            batch: Box::new(move || finish(engine.kem_generate_many(algorithm, BATCH, &OsEntropy))),
        },
        Operation {
            name: "encaps",
            one: Box::new(move || finish(engine.encaps(&public_of_one, &OsEntropy))),
            batch: Box::new(move || {
                let random = Randomness::Fresh(&OsEntropy);
                let mut status = [Status::NotRun; BATCH];
                engine.encaps_many(
                    &[&public; BATCH],
                    random,
                    &mut out,
                    &mut shared,
                    &mut status,
                )?;
                all_ok(&status)
            }),
        },
        Operation {
            name: "decaps",
            one: Box::new(move || finish(engine.decaps(&key_of_one, &ciphertext))),
            batch: Box::new(move || {
                let mut status = [Status::NotRun; BATCH];
                engine.decaps_many(&[&key; BATCH], &sent, &mut received, &mut status)?;
                all_ok(&status)
            }),
        },
    ])
}

fn signature(engine: &Engine, algorithm: Algorithm) -> Result<Vec<Operation<'_>>, Failure> {
    let key = engine.signature_generate(algorithm, &OsEntropy)?;
    let public = key.public();
    let signature = engine.sign(&key, MESSAGE, &OsEntropy)?;
    let lengths = [signature.len(); BATCH];
    let mut padded = signature.clone();
    padded.resize(algorithm.info().output.max(), 0);
    let signatures = padded.repeat(BATCH);
    let (mut made, mut made_lengths) = (vec![0; signatures.len()], [0; BATCH]);
    let (key_of_one, public_of_one) = (key.clone(), public.clone());
    Ok(vec![
        Operation {
            name: "keygen",
            one: Box::new(move || finish(engine.signature_generate(algorithm, &OsEntropy))),
            batch: Box::new(move || {
                finish(engine.signature_generate_many(algorithm, BATCH, &OsEntropy))
            }),
        },
        Operation {
            name: "sign",
            one: Box::new(move || finish(engine.sign(&key_of_one, MESSAGE, &OsEntropy))),
            batch: Box::new(move || {
                let (messages, random) = ([MESSAGE; BATCH], Randomness::Fresh(&OsEntropy));
                let mut status = [Status::NotRun; BATCH];
                let (out, lengths) = (&mut made, &mut made_lengths);
                engine.sign_many(&[&key; BATCH], &messages, random, out, lengths, &mut status)?;
                all_ok(&status)
            }),
        },
        Operation {
            name: "verify",
            one: Box::new(move || Ok(engine.verify(&public_of_one, MESSAGE, &signature)?)),
            batch: Box::new(move || {
                let mut status = [Status::NotRun; BATCH];
                let (keys, messages) = ([&public; BATCH], [MESSAGE; BATCH]);
                engine.verify_many(&keys, &messages, &signatures, &lengths, &mut status)?;
                all_ok(&status)
            }),
        },
    ])
}

fn exchange(engine: &Engine, algorithm: Algorithm) -> Result<Vec<Operation<'_>>, Failure> {
    let key = engine.exchange_generate(algorithm, &OsEntropy)?;
    let peer = engine.exchange_generate(algorithm, &OsEntropy)?.public();
    let (key_of_one, peer_of_one) = (key.clone(), peer.clone());
    Ok(vec![
        Operation {
            name: "keygen",
            one: Box::new(move || finish(engine.exchange_generate(algorithm, &OsEntropy))),
            batch: Box::new(move || {
                finish(engine.exchange_generate_many(algorithm, BATCH, &OsEntropy))
            }),
        },
        Operation {
            name: "derive",
            one: Box::new(move || finish(engine.derive(&key_of_one, &peer_of_one))),
            batch: Box::new(move || {
                for secret in engine.derive_many(&[(&key, &peer); BATCH])? {
                    secret?;
                }
                Ok(())
            }),
        },
    ])
}

/// Discards the result of an operation that succeeded.
fn finish<T>(result: Result<T, gabion_engine::Error>) -> Result<(), Failure> {
    result.map(drop).map_err(Failure::from)
}

fn all_ok(status: &[Status]) -> Result<(), Failure> {
    match status.iter().find(|status| !status.is_ok()) {
        None => Ok(()),
        Some(status) => Err(Failure::No(format!("an operation of a batch failed: {status:?}"))),
    }
}

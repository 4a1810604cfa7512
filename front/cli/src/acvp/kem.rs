//! ML-KEM: keyGen, encapsulation, decapsulation and the two key checks.

use gabion_engine::Engine;
use serde_json::Value;

use super::{Answer, Test, VectorError, answer, test_passed, upper_hex};

/// Computes `ek` and `dk` from `d` and `z`.
pub fn keygen(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let key = engine.kem_from_seed(test.parameter_set()?, &seed(test)?)?;
    Ok(answer([("ek", upper_hex(key.public().bytes())), ("dk", upper_hex(key.bytes()))]))
}

/// Returns the seed d || z (FIPS 203, Algorithm 16).
fn seed(test: &Test<'_>) -> Result<Vec<u8>, VectorError> {
    let mut seed = test.array::<32>("d")?.to_vec();
    seed.extend_from_slice(&test.array::<32>("z")?);
    Ok(seed)
}

/// Returns the answer fields of the group's function.
pub fn encap_decap_answers(test: &Test<'_>) -> &'static [&'static str] {
    match test.get("function").and_then(Value::as_str) {
        Some("encapsulation") => &["c", "k"],
        Some("decapsulation") => &["k"],
        _ => &["testPassed"],
    }
}

/// Runs the group's `function`.
pub fn encap_decap(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let algorithm = test.parameter_set()?;
    match test.text("function")? {
        "encapsulation" => {
            let key = engine.kem_public(algorithm, &test.bytes("ek")?)?;
            let (c, k) = engine.encaps_with_randomness(&key, &test.array::<32>("m")?)?;
            Ok(answer([("c", upper_hex(&c)), ("k", upper_hex(&k[..]))]))
        }
        "decapsulation" => {
            // A group may give the key as its seed.
            let key = match test.optional_bytes("dk")? {
                Some(dk) => engine.kem_private(algorithm, &dk)?,
                None => engine.kem_from_seed(algorithm, &seed(test)?)?,
            };
            let k = engine.decaps(&key, &test.bytes("c")?)?;
            Ok(answer([("k", upper_hex(&k[..]))]))
        }
        "encapsulationKeyCheck" => {
            test_passed(engine.kem_public(algorithm, &test.bytes("ek")?).map(drop))
        }
        "decapsulationKeyCheck" => {
            test_passed(engine.kem_private(algorithm, &test.bytes("dk")?).map(drop))
        }
        other => Err(VectorError::File(format!(
            "unknown function `{other}`; expected encapsulation, decapsulation, \
             encapsulationKeyCheck or decapsulationKeyCheck"
        ))),
    }
}

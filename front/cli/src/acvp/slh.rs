//! SLH-DSA: keyGen, sigGen and sigVer over every interface.

use gabion_engine::{Engine, Message, Prehash};

use super::{Answer, Test, VectorError, answer, test_passed, upper_hex};

/// Computes `pk` and `sk` from `skSeed`, `skPrf` and `pkSeed`.
pub fn keygen(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let mut seed = Vec::new();
    for name in ["skSeed", "skPrf", "pkSeed"] {
        seed.extend(test.bytes(name)?);
    }
    let key = engine.signature_from_seed(test.parameter_set()?, &seed)?;
    Ok(answer([("pk", upper_hex(key.public_bytes())), ("sk", upper_hex(key.bytes()))]))
}

/// The message of a test.
struct Input {
    internal: bool,
    context: Vec<u8>,
    message: Vec<u8>,
    prehash: Option<(Prehash, Vec<u8>)>,
}

impl Input {
    /// Reads the message according to `signatureInterface` and `preHash`. Older files have no
    /// `signatureInterface`: they test the internal functions (FIPS 205, Algorithms 19 and 20).
    fn read(test: &Test<'_>) -> Result<Input, VectorError> {
        let internal = !test.has("signatureInterface")
            || test.is_first("signatureInterface", ["internal", "external"])?;
        let context = test.optional_bytes("context")?.unwrap_or_default();
        let message = test.bytes("message")?;
        if internal || test.is_first("preHash", ["pure", "preHash"])? {
            return Ok(Input { internal, context, message, prehash: None });
        }
        let name = test.text("hashAlg")?;
        let hash: Prehash =
            name.parse().map_err(|_| VectorError::File(format!("unknown hashAlg `{name}`")))?;
        let prehash = Some((hash, hash.digest(&message)));
        Ok(Input { internal, context, message, prehash })
    }

    fn message(&self) -> Message<'_> {
        let Input { internal, context, message, prehash } = self;
        match prehash {
            Some((hash, digest)) => Message::Prehash { context, hash: *hash, digest },
            None if *internal => Message::Internal(message),
            None => Message::Pure { context, message },
        }
    }
}

/// Computes `signature` from `sk` and a message.
pub fn siggen(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let input = Input::read(test)?;
    let key = engine.signature_private(test.parameter_set()?, &test.bytes("sk")?)?;
    let signature = if test.flag("deterministic")? {
        engine.sign_deterministic(&key, input.message())?
    } else {
        let randomness = test.bytes("additionalRandomness")?;
        engine.sign_with_randomness(&key, input.message(), &randomness)?
    };
    Ok(answer([("signature", upper_hex(&signature))]))
}

/// Verifies `signature` over a message with `pk`.
pub fn sigver(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let input = Input::read(test)?;
    let signature = test.bytes("signature")?;
    let verdict = engine
        .signature_public(test.parameter_set()?, &test.bytes("pk")?)
        .and_then(|key| engine.verify(&key, input.message(), &signature));
    test_passed(verdict)
}

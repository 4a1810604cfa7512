//! ML-DSA: keyGen, sigGen and sigVer over every interface.

use gabion_engine::{Engine, Message, Prehash};

use super::{Answer, Test, VectorError, answer, test_passed, upper_hex};

/// Computes `pk` and `sk` from `seed`.
pub fn keygen(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let key = engine.signature_from_seed(test.parameter_set()?, &test.bytes("seed")?)?;
    Ok(answer([("pk", upper_hex(key.public().bytes())), ("sk", upper_hex(key.bytes()))]))
}

/// The message of a test.
enum Input {
    Pure { context: Vec<u8>, message: Vec<u8> },
    Prehash { context: Vec<u8>, hash: Prehash, digest: Vec<u8> },
    Mu(Box<[u8; 64]>),
    Internal(Vec<u8>),
}

impl Input {
    /// Reads the message according to `signatureInterface`, `preHash` and `externalMu`. Older files
    /// have no `signatureInterface`: they test the internal functions (FIPS 204, Algorithms 7 and
    /// 8).
    fn read(test: &Test<'_>) -> Result<Input, VectorError> {
        let external = test.has("signatureInterface")
            && test.is_first("signatureInterface", ["external", "internal"])?;
        // Mu already covers the message, the context and the prehash, so the interface does not
        // matter.
        if test.flag("externalMu")? {
            return Ok(Input::Mu(Box::new(test.array("mu")?)));
        }
        if !external {
            return Ok(Input::Internal(test.bytes("message")?));
        }
        let context = test.optional_bytes("context")?.unwrap_or_default();
        let message = test.bytes("message")?;
        if test.is_first("preHash", ["pure", "preHash"])? {
            return Ok(Input::Pure { context, message });
        }
        let name = test.text("hashAlg")?;
        let hash: Prehash =
            name.parse().map_err(|_| VectorError::File(format!("unknown hashAlg `{name}`")))?;
        Ok(Input::Prehash { context, hash, digest: hash.digest(&message) })
    }

    fn message(&self) -> Message<'_> {
        match self {
            Input::Pure { context, message } => Message::Pure { context, message },
            Input::Prehash { context, hash, digest } => {
                Message::Prehash { context, hash: *hash, digest }
            }
            Input::Mu(mu) => Message::Mu(mu),
            Input::Internal(formatted) => Message::Internal(formatted),
        }
    }
}

/// Computes `signature` from `sk` and a message.
pub fn siggen(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let algorithm = test.parameter_set()?;
    let input = Input::read(test)?;
    // A group may give the key as its seed.
    let key = match (test.optional_bytes("sk")?, test.optional_bytes("seed")?) {
        (Some(sk), _) => engine.signature_private(algorithm, &sk)?,
        (None, Some(seed)) => engine.signature_from_seed(algorithm, &seed)?,
        (None, None) => return Err(test.missing_field("sk", "bytes in hexadecimal, or a `seed`")),
    };
    let signature = if test.flag("deterministic")? {
        engine.sign_deterministic(&key, input.message())?
    } else {
        engine.sign_with_randomness(&key, input.message(), &test.array::<32>("rnd")?)?
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

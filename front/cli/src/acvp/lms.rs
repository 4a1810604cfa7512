//! LMS: NIST's keys and signatures are bare, those of one tree.

use gabion_engine::lms::{LmOts, Lms};
use gabion_engine::{Algorithm, Engine, Message};

use super::{Answer, Test, Trouble, passed};

/// sigVer, in either revision.
pub fn sigver(engine: &Engine, test: &Test<'_>) -> Result<Answer, Trouble> {
    let key = test.bytes("publicKey")?;
    let (message, signature) = (test.bytes("message")?, test.bytes("signature")?);
    check_sets(test, &key)?;
    // One level, and none below it.
    let key = [&1u32.to_be_bytes(), &key[..]].concat();
    let signature = [&0u32.to_be_bytes(), &signature[..]].concat();
    let verify = || {
        let key = engine.signature_public(Algorithm::Hss, &key)?;
        engine.verify(&key, Message::Pure { context: b"", message: &message }, &signature)
    };
    passed(verify())
}

/// The group's sets are there, and those of its key.
fn check_sets(test: &Test<'_>, key: &[u8]) -> Result<(), Trouble> {
    let number = |at: usize| key.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let tree = number(0).and_then(Lms::of_typecode).map(|set| set.name);
    let one_time = number(4).and_then(LmOts::of_typecode).map(|set| set.name);
    for (field, of_key) in [("lmsMode", tree), ("lmOtsMode", one_time)] {
        let named = test.text(field)?;
        if of_key != Some(named) {
            let of_key = of_key.unwrap_or("none that is known");
            let text = format!("field `{field}` is `{named}`; the set of `publicKey` is {of_key}");
            return Err(Trouble::File(text));
        }
    }
    Ok(())
}

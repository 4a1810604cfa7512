//! LMS: NIST's keys and signatures are those of one tree, without the level count of HSS.
//!
//! The files of sigGen do not contain private keys. Each group therefore gets a fresh key here, and
//! signatures are verified with the public key in the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::ops::ControlFlow;

use gabion_engine::keys::stateful::hss::{HssSecret, Levels, StatefulKey};
use gabion_engine::keys::stateful::{Ledger, Request, sign_requests, testing_only_ledger};
use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms};
use gabion_engine::{Algorithm, Engine, Message, OsEntropy};
use serde_json::{Map, Value};

use super::{Answer, Id, Test, VectorError, answer, test_passed, upper_hex};
use crate::failure::Failure;

/// Computes `publicKey` from `seed` and `i`.
pub fn keygen(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let levels = levels(test)?;
    let (id, seed) = (test.array("i")?, test.bytes("seed")?);
    if seed.len() != levels.n() {
        let text = format!("field `seed` has {} bytes; expected {}", seed.len(), levels.n());
        return Err(VectorError::File(text));
    }
    let key = generate(engine, &HssSecret::new(levels, id, &seed)?)?;
    Ok(answer([("publicKey", bare(key.verify_key().bytes()))]))
}

/// The key that signs the tests of a group. Its state is in memory only; no other group or run uses
/// the key.
pub struct GroupKey<'e> {
    levels: Levels,
    key: StatefulKey<'e>,
    ledger: Box<dyn Ledger>,
}

impl<'e> GroupKey<'e> {
    fn draw(engine: &'e Engine, levels: Levels) -> Result<Self, VectorError> {
        let key = generate(engine, &HssSecret::draw(levels.clone(), &OsEntropy)?)?;
        let ledger = Box::new(testing_only_ledger(key.signatures()));
        Ok(GroupKey { levels, key, ledger })
    }

    /// Returns the fields printed for the key.
    pub fn answer(&self) -> Answer {
        answer([("publicKey", bare(self.key.verify_key().bytes()))])
    }
}

/// Signs a message with the next index of the group's key.
pub fn siggen<'e>(
    engine: &'e Engine,
    test: &Test<'_>,
    key: &mut Option<GroupKey<'e>>,
) -> Result<Answer, VectorError> {
    let (levels, message) = (levels(test)?, test.bytes("message")?);
    let key = match key {
        Some(key) if key.levels == levels => key,
        // A test may name its own sets, but the group has only one key.
        Some(_) => {
            return Err(VectorError::File("the sets differ from those of the group".to_owned()));
        }
        None => key.insert(GroupKey::draw(engine, levels)?),
    };
    let request = Request { message: &message, id: None };
    let signed = match sign_requests(&*key.ledger, &mut key.key, &[request]) {
        // The tree has no leaf left.
        Err(gabion_engine::Error::Ledger(error)) => {
            return Err(VectorError::Refused(error.to_string()));
        }
        signed => signed?,
    };
    let signature = signed.first().map(|signed| bare(&signed.signature));
    Ok(answer([("signature", signature.unwrap_or_default())]))
}

/// Returns the fields of a test that its signature is verified over.
pub fn what_is_signed(test: &Test<'_>) -> Map<String, Value> {
    let fields = ["lmsMode", "lmOtsMode", "message"];
    let fields =
        fields.into_iter().filter_map(|name| Some((name.to_owned(), test.get(name)?.clone())));
    fields.collect()
}

/// Verifies signatures with the public keys in the answers. Returns the number of valid ones and a
/// line for each failure. A key that signs two messages with one leaf fails, even if both
/// signatures are valid, because that reveals the key.
///
/// # Errors
/// [`Failure::NotReady`] if this machine cannot verify.
pub fn judge(
    engine: &Engine,
    signed: &BTreeMap<Id, Map<String, Value>>,
    expected: &BTreeMap<Id, Answer>,
) -> Result<(usize, Vec<String>), Failure> {
    let all: BTreeSet<Id> = signed.keys().chain(expected.keys()).copied().collect();
    let (mut wrong, mut leaves) = (Vec::new(), BTreeMap::new());
    for id in &all {
        let fault = match (signed.get(id), expected.get(id)) {
            (None, _) => Some("no signature was asked for".to_owned()),
            (_, None) => Some("it has no answer".to_owned()),
            (Some(signed), Some(answer)) => match fault(engine, signed, answer)? {
                None => check_reuse(&mut leaves, signed, answer),
                fault => fault,
            },
        };
        wrong.extend(fault.map(|text| format!("tgId {}, tcId {}: {text}", id.0, id.1)));
    }
    Ok((all.len() - wrong.len(), wrong))
}

/// Returns what is wrong with a single signature.
fn fault(
    engine: &Engine,
    signed: &Map<String, Value>,
    theirs: &Answer,
) -> Result<Option<String>, Failure> {
    let mut test = signed.clone();
    for name in ["publicKey", "signature"] {
        test.extend(theirs.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let test = Test { family: Algorithm::Hss.info().family, group: &Map::new(), test: &test };
    match sigver(engine, &test) {
        Ok(verdict) if verdict.get("testPassed") == Some(&true.into()) => Ok(None),
        Ok(_) => Ok(Some("`signature` does not verify under `publicKey`".to_owned())),
        Err(VectorError::File(text) | VectorError::Refused(text)) => Ok(Some(text)),
        Err(VectorError::Machine(error)) => Err(error.into()),
    }
}

/// A leaf of a key: the public key and the first word of the signature.
type Leaf = (String, String);

/// Checks that the leaf of a valid signature signed no other message, and records it.
fn check_reuse(
    leaves: &mut BTreeMap<Leaf, Value>,
    signed: &Map<String, Value>,
    theirs: &Answer,
) -> Option<String> {
    let text = |name: &str| theirs.get(name).and_then(Value::as_str).map(str::to_uppercase);
    let leaf = (text("publicKey")?, text("signature")?.get(..8)?.to_owned());
    let message = signed.get("message")?;
    let other = leaves.insert(leaf.clone(), message.clone())?;
    (other != *message).then(|| format!("leaf {} of its key has signed another message", leaf.1))
}

/// Runs sigVer, in either revision.
pub fn sigver(engine: &Engine, test: &Test<'_>) -> Result<Answer, VectorError> {
    let key = test.bytes("publicKey")?;
    let (message, signature) = (test.bytes("message")?, test.bytes("signature")?);
    check_sets(test, &key)?;
    // HSS with a single level.
    let key = [&1u32.to_be_bytes(), &key[..]].concat();
    let signature = [&0u32.to_be_bytes(), &signature[..]].concat();
    let verify = || {
        let key = engine.signature_public(Algorithm::Hss, &key)?;
        engine.verify(&key, Message::Pure { context: b"", message: &message }, &signature)
    };
    test_passed(verify())
}

/// Checks that the group's sets exist and match its key.
fn check_sets(test: &Test<'_>, key: &[u8]) -> Result<(), VectorError> {
    let number = |at: usize| key.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let tree = number(0).and_then(Lms::from_typecode).map(|set| set.name);
    let one_time = number(4).and_then(LmOts::from_typecode).map(|set| set.name);
    for (field, of_key) in [("lmsMode", tree), ("lmOtsMode", one_time)] {
        let named = test.text(field)?;
        if of_key != Some(named) {
            let of_key = of_key.unwrap_or("none that is known");
            let text = format!("field `{field}` is `{named}`; the set of `publicKey` is {of_key}");
            return Err(VectorError::File(text));
        }
    }
    Ok(())
}

/// Returns the sets that a test or its group names, as one level.
fn levels(test: &Test<'_>) -> Result<Levels, VectorError> {
    let unknown = |field: &str, name: &str| VectorError::File(format!("unknown {field} `{name}`"));
    let (tree, one_time) = (test.text("lmsMode")?, test.text("lmOtsMode")?);
    let lms = LMS.iter().find(|set| set.name == tree).ok_or_else(|| unknown("lmsMode", tree))?;
    let ots = LM_OTS.iter().find(|set| set.name == one_time);
    let ots = ots.ok_or_else(|| unknown("lmOtsMode", one_time))?;
    let other_hash =
        |_| VectorError::File(format!("`{tree}` and `{one_time}` use different hash functions"));
    Levels::new(&[(lms, ots)]).map_err(other_hash)
}

/// Generates a key on all cores.
fn generate<'e>(engine: &'e Engine, secret: &HssSecret) -> Result<StatefulKey<'e>, VectorError> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let key =
        StatefulKey::generate(engine, secret, &[], threads, &mut |_| ControlFlow::Continue(()))?;
    key.ok_or(VectorError::Machine(gabion_engine::Error::Lost))
}

/// Returns a key or signature without the leading word of HSS.
fn bare(bytes: &[u8]) -> Value {
    upper_hex(bytes.get(4..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Both signatures are valid, but the key is compromised: a leaf may sign only one message.
    #[test]
    fn a_leaf_that_signs_two_messages_is_wrong() {
        let engine = Engine::global().unwrap();
        let levels = Levels::new(&[(&LMS[0], &LM_OTS[2])]).unwrap();
        let secret = HssSecret::new(levels, [1; 16], &[2; 32]).unwrap();
        let mut key = generate(engine, &secret).unwrap();
        let public = bare(key.verify_key().bytes());
        let mut judged = |tests: &[(u64, &str)]| {
            let (mut signed, mut answers) = (BTreeMap::new(), BTreeMap::new());
            for (id, (leaf, message)) in tests.iter().enumerate() {
                let bytes = base16ct::mixed::decode_vec(message).unwrap();
                let signatures = key.testing_only_sign_at(*leaf, &[&bytes]).unwrap();
                let fields = [
                    ("lmsMode", json!("LMS_SHA256_M32_H5")),
                    ("lmOtsMode", json!("LMOTS_SHA256_N32_W4")),
                    ("message", json!(message)),
                ];
                signed.insert((1, id as u64), answer(fields));
                let fields = [("publicKey", public.clone()), ("signature", bare(&signatures[0]))];
                answers.insert((1, id as u64), answer(fields));
            }
            judge(engine, &signed, &answers).unwrap()
        };
        assert_eq!(judged(&[(0, "00"), (1, "01"), (1, "01")]), (3, vec![]));
        let (right, wrong) = judged(&[(3, "00"), (4, "01"), (3, "02")]);
        assert_eq!(right, 2);
        assert_eq!(wrong, ["tgId 1, tcId 2: leaf 00000003 of its key has signed another message"]);
    }
}

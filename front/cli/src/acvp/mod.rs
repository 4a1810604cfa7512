//! NIST's ACVP files: runs every test of a prompt and compares the results with the answers.
//!
//! ```text
//!   prompt or internalProjection ─ groups ─ tests ──> MODES[algorithm, mode] ──> answers
//!                                                                                  │
//!   expectedResults, or the projection's own answers ────────── compare ───────────┘
//! ```
//!
//! A test never sees its own answer: [`Mode::answers`] names the fields that hold one, and a lane
//! reads its inputs by name. If many signatures are valid, the results cannot be compared; instead,
//! the signatures in the file are verified with the public keys in the file. To add an algorithm,
//! add rows to [`MODES`].

mod dsa;
mod kem;
mod lms;
mod slh;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use gabion_engine::{Algorithm, Engine, Family};
use serde_json::{Map, Value};

use crate::failure::Failure;

/// The answer to one test: its fields except `tcId`.
pub type Answer = Map<String, Value>;

/// The error that leaves a test vector without an answer.
#[derive(Debug)]
pub enum VectorError {
    /// The file contradicts its header: a field is missing or malformed.
    File(String),
    /// The operation was refused. This test has no answer; the next one may have.
    Refused(String),
    /// No healthy backend is available.
    Machine(gabion_engine::Error),
}

impl From<gabion_engine::Error> for VectorError {
    fn from(error: gabion_engine::Error) -> VectorError {
        if let gabion_engine::Error::WrongAlgorithm { .. } = error {
            return VectorError::File(error.to_string());
        }
        match Failure::from(error.clone()) {
            Failure::NotReady(_) => VectorError::Machine(error),
            Failure::No(text) | Failure::Usage(text) | Failure::Refused(text) => {
                VectorError::Refused(text)
            }
        }
    }
}

/// One algorithm in one mode.
struct Mode {
    algorithm: &'static str,
    /// The family that the file's parameter sets must belong to.
    family: Family,
    mode: &'static str,
    revision: &'static str,
    run: Run,
    /// Returns the names of the answer fields of a group.
    answers: fn(&Test<'_>) -> &'static [&'static str],
}

/// The function that runs one test of a mode.
#[derive(Clone, Copy)]
enum Run {
    /// Needs no key shared by the group.
    Single(fn(&Engine, &Test<'_>) -> Result<Answer, VectorError>),
    /// Needs a fresh key, which the first test of a group generates for the whole group.
    Signing(Sign),
}

/// Signs with the key of a group.
type Sign = for<'e> fn(
    &'e Engine,
    &Test<'_>,
    &mut Option<lms::GroupKey<'e>>,
) -> Result<Answer, VectorError>;

/// All supported modes.
const MODES: [Mode; 13] = [
    Mode {
        algorithm: "ML-KEM",
        family: Family::MlKem,
        mode: "keyGen",
        revision: "FIPS203",
        run: Run::Single(kem::keygen),
        answers: |_| &["ek", "dk"],
    },
    Mode {
        algorithm: "ML-KEM",
        family: Family::MlKem,
        mode: "encapDecap",
        revision: "FIPS203",
        run: Run::Single(kem::encap_decap),
        answers: kem::encap_decap_answers,
    },
    Mode {
        algorithm: "ML-DSA",
        family: Family::MlDsa,
        mode: "keyGen",
        revision: "FIPS204",
        run: Run::Single(dsa::keygen),
        answers: |_| &["pk", "sk"],
    },
    Mode {
        algorithm: "ML-DSA",
        family: Family::MlDsa,
        mode: "sigGen",
        revision: "FIPS204",
        run: Run::Single(dsa::siggen),
        answers: |_| &["signature"],
    },
    Mode {
        algorithm: "ML-DSA",
        family: Family::MlDsa,
        mode: "sigVer",
        revision: "FIPS204",
        run: Run::Single(dsa::sigver),
        answers: |_| &["testPassed"],
    },
    Mode {
        algorithm: "SLH-DSA",
        family: Family::SlhDsa,
        mode: "keyGen",
        revision: "FIPS205",
        run: Run::Single(slh::keygen),
        answers: |_| &["pk", "sk"],
    },
    Mode {
        algorithm: "SLH-DSA",
        family: Family::SlhDsa,
        mode: "sigGen",
        revision: "FIPS205",
        run: Run::Single(slh::siggen),
        answers: |_| &["signature"],
    },
    Mode {
        algorithm: "SLH-DSA",
        family: Family::SlhDsa,
        mode: "sigVer",
        revision: "FIPS205",
        run: Run::Single(slh::sigver),
        answers: |_| &["testPassed"],
    },
    Mode {
        algorithm: "LMS",
        family: Family::Hss,
        mode: "keyGen",
        revision: "1.0",
        run: Run::Single(lms::keygen),
        answers: |_| &["publicKey"],
    },
    Mode {
        algorithm: "LMS",
        family: Family::Hss,
        mode: "sigGen",
        revision: "1.0",
        run: Run::Signing(lms::siggen),
        answers: |_| &["signature"],
    },
    Mode {
        algorithm: "LMS",
        family: Family::Hss,
        mode: "sigGen",
        revision: "SP800-208",
        run: Run::Signing(lms::siggen),
        answers: |_| &["signature"],
    },
    Mode {
        algorithm: "LMS",
        family: Family::Hss,
        mode: "sigVer",
        revision: "1.0",
        run: Run::Single(lms::sigver),
        answers: |_| &["testPassed"],
    },
    Mode {
        algorithm: "LMS",
        family: Family::Hss,
        mode: "sigVer",
        revision: "SP800-208",
        run: Run::Single(lms::sigver),
        answers: |_| &["testPassed"],
    },
];

/// A test and its group; the test inherits the fields of the group.
pub struct Test<'a> {
    family: Family,
    group: &'a Map<String, Value>,
    test: &'a Map<String, Value>,
}

impl<'a> Test<'a> {
    /// Returns a field of the test or its group. JSON `null` counts as missing.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.test.get(name).or_else(|| self.group.get(name)).filter(|value| !value.is_null())
    }

    /// Returns the error for a missing field.
    fn missing_field(&self, name: &str, expected: &str) -> VectorError {
        VectorError::File(format!("no field `{name}`; expected {expected}"))
    }

    /// Returns a field converted by `as_type`, or `None` if it is missing. A field of another type
    /// is an error: ignoring it would silently skip a part of the test.
    fn optional<T>(
        &self,
        name: &str,
        expected: &str,
        as_type: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, VectorError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let typed = as_type(value);
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "a truth value",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        let wrong = || VectorError::File(format!("field `{name}` is {got}; expected {expected}"));
        typed.ok_or_else(wrong).map(Some)
    }

    /// Returns a string field.
    fn text(&self, name: &str) -> Result<&'a str, VectorError> {
        let text = self.optional(name, "a text", Value::as_str)?;
        text.ok_or_else(|| self.missing_field(name, "a text"))
    }

    /// Returns whether the test or its group has the field.
    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether a string field has the first of two values; any value other than these two
    /// is an error.
    fn is_first(&self, name: &str, [first, second]: [&str; 2]) -> Result<bool, VectorError> {
        match self.text(name)? {
            text if text == first => Ok(true),
            text if text == second => Ok(false),
            other => Err(VectorError::File(format!(
                "field `{name}` is `{other}`; expected {first} or {second}"
            ))),
        }
    }

    /// Returns a boolean field; false if it is missing.
    fn flag(&self, name: &str) -> Result<bool, VectorError> {
        Ok(self.optional(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    /// Returns a byte string in hexadecimal.
    fn bytes(&self, name: &str) -> Result<Vec<u8>, VectorError> {
        self.optional_bytes(name)?.ok_or_else(|| self.missing_field(name, "bytes in hexadecimal"))
    }

    /// Returns a byte string in hexadecimal, or `None` if it is missing.
    fn optional_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, VectorError> {
        let text = self.optional(name, "bytes in hexadecimal", Value::as_str)?;
        let Some(text) = text else { return Ok(None) };
        let bytes = base16ct::mixed::decode_vec(text);
        let not_hex = |_| VectorError::File(format!("field `{name}` is not hexadecimal"));
        bytes.map(Some).map_err(not_hex)
    }

    /// Returns a byte string of a fixed length.
    fn array<const N: usize>(&self, name: &str) -> Result<[u8; N], VectorError> {
        let bytes = self.bytes(name)?;
        bytes.try_into().map_err(|bytes: Vec<u8>| {
            VectorError::File(format!("field `{name}` has {} bytes; expected {N}", bytes.len()))
        })
    }

    /// Returns the parameter set, which must belong to the file's algorithm.
    fn parameter_set(&self) -> Result<Algorithm, VectorError> {
        let name = self.text("parameterSet")?;
        let of_family = || Algorithm::all().filter(|found| found.info().family == self.family);
        of_family().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            let known: Vec<&str> = of_family().map(Algorithm::name).collect();
            let known = known.join(", ");
            VectorError::File(format!(
                "parameter set `{name}` is not of this file; expected {known}"
            ))
        })
    }
}

/// Encodes bytes in the form of ACVP.
fn upper_hex(bytes: &[u8]) -> Value {
    Value::String(base16ct::upper::encode_string(bytes))
}

/// Builds an answer from its fields.
fn answer<const N: usize>(fields: [(&str, Value); N]) -> Answer {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Converts a verification result to the answer `testPassed`. Fails only if the machine cannot
/// verify.
fn test_passed(verdict: Result<(), gabion_engine::Error>) -> Result<Answer, VectorError> {
    match verdict.map_err(VectorError::from) {
        Ok(()) => Ok(answer([("testPassed", true.into())])),
        Err(VectorError::Refused(_)) => Ok(answer([("testPassed", false.into())])),
        Err(other) => Err(other),
    }
}

/// The ids of a test: tgId, tcId.
pub type Id = (u64, u64);

/// The result of running a file.
pub struct Outcome {
    /// The results in the form of expectedResults.json.
    pub results: Value,
    /// The answers by test.
    pub answers: BTreeMap<Id, Answer>,
    /// The tests without an answer, and why.
    pub refused: Vec<(Id, String)>,
    /// The answers in the file itself; empty unless it is an internalProjection.
    pub carried: BTreeMap<Id, Answer>,
    /// The signed fields of each test, if signatures are verified and not compared.
    signed: Option<BTreeMap<Id, Map<String, Value>>>,
}

impl Outcome {
    /// Returns whether another run would give the same answers, that is, no randomness was used.
    pub fn is_repeatable(&self) -> bool {
        self.signed.is_none()
    }

    /// Compares the answers with the expected ones or, if many signatures are valid, verifies the
    /// expected ones. Returns the number of correct tests and a line for each wrong one.
    ///
    /// # Errors
    /// [`Failure::NotReady`] if this machine cannot verify.
    pub fn check(
        &self,
        engine: &Engine,
        expected: &BTreeMap<Id, Answer>,
    ) -> Result<(usize, Vec<String>), Failure> {
        match &self.signed {
            Some(signed) => lms::judge(engine, signed, expected),
            None => {
                let refused = self.refused.iter().map(|(id, _)| id);
                let tests = self.answers.keys().chain(refused).copied();
                Ok(compare(&self.answers, tests, expected))
            }
        }
    }
}

/// Returns the object with the test groups. Some files wrap it in an array after a version object.
fn body(file: &Value) -> Result<&Map<String, Value>, String> {
    let candidates = match file {
        Value::Array(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    candidates
        .iter()
        .filter_map(Value::as_object)
        .find(|part| part.contains_key("testGroups"))
        .ok_or_else(|| "no `testGroups`; expected an ACVP prompt or internalProjection".to_owned())
}

/// An element of an array, and its id.
type NumberedObject<'a> = (u64, &'a Map<String, Value>);

/// Returns the objects of an array with their ids, read from the field `id`.
fn objects<'a>(
    holder: &'a Map<String, Value>,
    name: &str,
    id: &str,
) -> Result<Vec<NumberedObject<'a>>, String> {
    let list = holder.get(name).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("no array `{name}`"))?;
    let mut seen = BTreeSet::new();
    let mut numbered = Vec::with_capacity(list.len());
    for element in list {
        let found =
            element.as_object().and_then(|object| Some((object.get(id)?.as_u64()?, object)));
        let (number, object) =
            found.ok_or_else(|| format!("an element of `{name}` has no number `{id}`"))?;
        if !seen.insert(number) {
            return Err(format!("`{name}` has {id} {number} twice; one would hide the other"));
        }
        numbered.push((number, object));
    }
    Ok(numbered)
}

/// Runs every test of a file.
///
/// # Errors
/// [`Failure::Usage`] if the file is not supported, [`Failure::NotReady`] if the machine cannot run
/// it.
pub fn run(engine: &Engine, file: &Value) -> Result<Outcome, Failure> {
    let usage = |text: String| Failure::Usage(text);
    let body = body(file).map_err(usage)?;
    let mode = find_mode(body).map_err(usage)?;
    let mut outcome = Outcome {
        results: Value::Null,
        answers: BTreeMap::new(),
        refused: Vec::new(),
        carried: BTreeMap::new(),
        signed: matches!(mode.run, Run::Signing(_)).then(BTreeMap::new),
    };
    let mut groups = Vec::new();
    for (group_id, group) in objects(body, "testGroups", "tgId").map_err(usage)? {
        let (mut tests, mut key) = (Vec::new(), None);
        for (test_id, test) in objects(group, "tests", "tcId").map_err(usage)? {
            let id = (group_id, test_id);
            let test = Test { family: mode.family, group, test };
            let result = run_test(engine, mode, &test, &mut key, id, &mut outcome)?;
            tests.push(Value::Object(result));
        }
        let mut result = key.map(|key| key.answer()).unwrap_or_default();
        result.insert("tgId".to_owned(), group_id.into());
        result.insert("tests".to_owned(), Value::Array(tests));
        groups.push(Value::Object(result));
    }
    if outcome.answers.is_empty() && outcome.refused.is_empty() {
        // Otherwise "0 of 0 right" would look like a success.
        return Err(usage("it holds no tests".to_owned()));
    }
    let mut results = Map::new();
    for name in ["vsId", "algorithm", "mode", "revision", "isSample"] {
        if let Some(value) = body.get(name) {
            results.insert(name.to_owned(), value.clone());
        }
    }
    results.insert("testGroups".to_owned(), Value::Array(groups));
    outcome.results = Value::Object(results);
    Ok(outcome)
}

/// Runs one test, stores its answer, and returns the answer with its tcId.
fn run_test<'e>(
    engine: &'e Engine,
    mode: &Mode,
    test: &Test<'_>,
    key: &mut Option<lms::GroupKey<'e>>,
    id: Id,
    outcome: &mut Outcome,
) -> Result<Answer, Failure> {
    let mut carried: Answer = (mode.answers)(test)
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), test.test.get(*name)?.clone())))
        .collect();
    if !carried.is_empty() {
        inherit(&mut carried, test.group);
        outcome.carried.insert(id, carried);
    }
    let mut result = Answer::new();
    result.insert("tcId".to_owned(), id.1.into());
    let ran = match mode.run {
        Run::Single(run) => run(engine, test),
        Run::Signing(run) => {
            let signed = outcome.signed.get_or_insert_default();
            signed.insert(id, lms::what_is_signed(test));
            run(engine, test, key)
        }
    };
    match ran {
        Ok(answer) => {
            result.extend(answer.clone());
            outcome.answers.insert(id, answer);
        }
        Err(VectorError::Refused(reason)) => outcome.refused.push((id, reason)),
        Err(VectorError::Machine(error)) => return Err(Failure::from(error)),
        Err(VectorError::File(text)) => {
            return Err(Failure::Usage(format!("tgId {}, tcId {}: {text}", id.0, id.1)));
        }
    }
    Ok(result)
}

fn find_mode(body: &Map<String, Value>) -> Result<&'static Mode, String> {
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or("(none)");
    let (algorithm, mode, revision) = (text("algorithm"), text("mode"), text("revision"));
    MODES
        .iter()
        .find(|row| (row.algorithm, row.mode, row.revision) == (algorithm, mode, revision))
        .ok_or_else(|| {
            let known: Vec<String> = MODES.iter().map(Mode::to_string).collect();
            format!(
                "{algorithm} / {mode} / {revision} can't be run; expected one of {}",
                known.join(", ")
            )
        })
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {} / {}", self.algorithm, self.mode, self.revision)
    }
}

/// Returns the answers of an expectedResults file or an internalProjection, by test.
///
/// # Errors
/// [`Failure::Usage`] if the file has another form.
pub fn expected(file: &Value) -> Result<BTreeMap<Id, Answer>, Failure> {
    let read = || -> Result<_, String> {
        let mut all = BTreeMap::new();
        for (group_id, group) in objects(body(file)?, "testGroups", "tgId")? {
            for (test_id, test) in objects(group, "tests", "tcId")? {
                let mut answer = test.clone();
                inherit(&mut answer, group);
                all.insert((group_id, test_id), answer);
            }
        }
        Ok(all)
    };
    read().map_err(Failure::Usage)
}

/// Adds the public key of the group to an answer that has no public key.
fn inherit(answer: &mut Answer, group: &Map<String, Value>) {
    if let Some(key) = group.get("publicKey") {
        answer.entry("publicKey").or_insert_with(|| key.clone());
    }
}

/// Compares answers with the expected ones. Returns the number of correct tests and a line for each
/// wrong one.
///
/// A test counts if it is in either file, so that neither file can omit tests of the other.
pub fn compare(
    answers: &BTreeMap<Id, Answer>,
    tests: impl Iterator<Item = Id>,
    expected: &BTreeMap<Id, Answer>,
) -> (usize, Vec<String>) {
    let all: BTreeSet<Id> = tests.chain(expected.keys().copied()).collect();
    let mut wrong = Vec::new();
    for id in &all {
        let difference = match (answers.get(id), expected.get(id)) {
            (Some(_), None) => Some("no answer is expected for it".to_owned()),
            (None, _) => Some("it has no answer".to_owned()),
            (Some(ours), Some(theirs)) => difference(ours, theirs),
        };
        wrong.extend(difference.map(|text| format!("tgId {}, tcId {}: {text}", id.0, id.1)));
    }
    (all.len() - wrong.len(), wrong)
}

fn difference(ours: &Answer, theirs: &Answer) -> Option<String> {
    ours.iter().find_map(|(name, value)| {
        let Some(other) = theirs.get(name) else {
            return Some(format!("`{name}` is not among the expected answers"));
        };
        let same = match (value.as_str(), other.as_str()) {
            (Some(value), Some(other)) => value.eq_ignore_ascii_case(other),
            _ => value == other,
        };
        (!same).then(|| format!("`{name}` differs"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answers(list: &[(Id, &str, Value)]) -> BTreeMap<Id, Answer> {
        list.iter().map(|(id, name, value)| (*id, answer([(*name, value.clone())]))).collect()
    }

    #[test]
    fn every_difference_is_found() {
        let ours = answers(&[((1, 1), "k", json!("AB")), ((1, 2), "k", json!("AB"))]);
        let ids = || ours.keys().copied();
        let right = answers(&[((1, 1), "k", json!("ab")), ((1, 2), "k", json!("AB"))]);
        assert_eq!(compare(&ours, ids(), &right), (2, vec![]));
        for wrong in [
            answers(&[((1, 1), "k", json!("AC")), ((1, 2), "k", json!("AB"))]),
            answers(&[((1, 1), "c", json!("AB")), ((1, 2), "k", json!("AB"))]),
            answers(&[((1, 2), "k", json!("AB"))]),
        ] {
            let (count, lines) = compare(&ours, ids(), &wrong);
            assert_eq!((count, lines.len()), (1, 1), "{lines:?}");
        }
        let more = answers(&[
            ((1, 1), "k", json!("AB")),
            ((1, 2), "k", json!("AB")),
            ((2, 1), "k", json!("AB")),
        ]);
        assert_eq!(compare(&ours, ids(), &more).0, 2);
        assert_eq!(compare(&ours, ids(), &more).1.len(), 1);
    }

    /// Answers are stored by id: with a duplicate id, one would hide the other.
    #[test]
    fn two_tests_with_one_number_are_refused() {
        let engine = Engine::global().unwrap();
        let seed = "00".repeat(32);
        let test = |id: u64| json!({ "tcId": id, "d": seed, "z": seed });
        let group = |id: u64, tests: Value| json!({ "tgId": id, "parameterSet": "ML-KEM-512", "tests": tests });
        let file = |groups: Value| {
            json!({ "algorithm": "ML-KEM", "mode": "keyGen", "revision": "FIPS203",
                    "testGroups": groups })
        };
        let right = file(json!([group(1, json!([test(1), test(2)])), group(2, json!([test(1)]))]));
        assert_eq!(run(engine, &right).unwrap().answers.len(), 3);
        for groups in [
            json!([group(1, json!([test(1), test(1)]))]),
            json!([group(1, json!([test(1)])), group(1, json!([test(1)]))]),
        ] {
            let Err(Failure::Usage(text)) = run(engine, &file(groups.clone())) else {
                panic!("{groups} was run")
            };
            assert!(text.contains("Id 1 twice"), "{text}");
            assert!(expected(&file(groups)).is_err());
        }
    }

    #[test]
    fn malformed_acvp_files_are_refused_by_field() {
        let engine = Engine::global().unwrap();
        for (file, word) in [
            (json!({}), "testGroups"),
            (json!([1, 2]), "testGroups"),
            (json!({ "testGroups": [] }), "ML-KEM / keyGen"),
            (
                json!({ "algorithm": "ML-KEM", "mode": "keyGen", "revision": "FIPS203",
                     "testGroups": [{}] }),
                "tgId",
            ),
            (
                json!({ "algorithm": "ML-KEM", "mode": "keyGen", "revision": "FIPS203",
                     "testGroups": [{ "tgId": 1, "tests": [] }] }),
                "no tests",
            ),
            (
                json!({ "algorithm": "ML-KEM", "mode": "keyGen", "revision": "FIPS203",
                     "testGroups": [{ "tgId": 1, "parameterSet": "ML-KEM-512",
                                      "tests": [{ "tcId": 1, "d": "0g", "z": "00" }] }] }),
                "`d`",
            ),
        ] {
            let Err(Failure::Usage(text)) = run(engine, &file) else { panic!("{file} was run") };
            assert!(text.contains(word), "{text}");
        }
    }
}

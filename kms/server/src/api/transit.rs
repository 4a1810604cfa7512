//! Vault's Transit API: the same keys with other paths, fields and names.
//!
//! All fields in the documentation of Vault and OpenBao are known. A known field whose effect is
//! not supported is rejected as `unsupported` instead of ignored. An unknown field is rejected by
//! name.

mod ciphers;
mod hashes;
mod imports;
mod keys;
mod names;
mod public;
mod signatures;
mod tags;

pub use ciphers::{datakey, decrypt, encrypt, random, rewrap};
pub use hashes::hash;
pub use imports::{import, import_version, wrapping_key};
pub use keys::{
    LIST, config, create, delete, list, list_by_get, read, read_config, restore, rotate,
    soft_delete, trim, write_config,
};
pub use public::{EXPORT, export};
pub use signatures::{sign, single_sign, single_verify, verify};
pub use tags::hmac;

use gabion_kms::Prehash;
use gabion_kms::gate::Action;
use gabion_kms::model::{Label, VersionId};
use gabion_kms_wire::transit::{Flag, Number, Scalar};
use gabion_kms_wire::{VersionedBytes, encode, parse_seconds};
use serde_json::{Value, json};

use super::batch::check_items;
use super::bytes::missing;
use super::{Call, KeySelector, Reply, TENANT, vault};
use crate::problem::Problem;

/// Documented but unsupported paths of Vault and OpenBao: the part after `transit/`, and the part
/// after the name of a key.
const NOT_SERVED: &[&str] = &["cmac", "byok-export", "backup", "restore", "cache-config"];
const NOT_SERVED_OF_KEYS: &[&str] = &["csr", "set-certificate"];

/// Returns the error for a path that does not exist.
pub fn no_path(path: &str) -> Problem {
    let parts: Vec<&str> = path.split('/').collect();
    let is_known = match parts[..] {
        ["", "v1", "transit", "keys", _, verb] => NOT_SERVED_OF_KEYS.contains(&verb),
        ["", "v1", "transit", verb, ..] => NOT_SERVED.contains(&verb),
        _ => false,
    };
    match is_known {
        true => Problem::unsupported(format!("`{path}` is Vault's, and not supported")),
        false => Problem::no_path(path),
    }
}

/// Returns the key in the path. The body may repeat its name.
fn select_key(call: &Call, in_body: Option<&str>) -> Result<KeySelector, Problem> {
    named(call, call.key(), in_body)
}

/// Returns the key of a name that is elsewhere in the path.
fn named(call: &Call, name: &str, in_body: Option<&str>) -> Result<KeySelector, Problem> {
    if in_body.is_some_and(|other| other != name) {
        return Err(Problem::bad("`name` is another one than that in the path"));
    }
    Ok(KeySelector { tenant: tenant(call)?, name: Label::new("key", name)?, id: None })
}

/// Returns the tenant in `X-Vault-Namespace`.
pub fn tenant(call: &Call) -> Result<Label, Problem> {
    Ok(Label::new("tenant", call.namespace.as_deref().unwrap_or(TENANT))?)
}

/// A field that is accepted only if it is empty.
struct UnsupportedField<'a>(&'a str);

impl UnsupportedField<'_> {
    fn refuse(&self) -> Problem {
        Problem::unsupported(format!("`{}` is not supported", self.0))
    }

    fn text(&self, value: Option<&str>) -> Result<(), Problem> {
        if value.unwrap_or_default().is_empty() { Ok(()) } else { Err(self.refuse()) }
    }

    fn flag(&self, value: Option<Flag>) -> Result<(), Problem> {
        if value.is_some_and(|flag| flag.0) { Err(self.refuse()) } else { Ok(()) }
    }

    fn number(&self, value: Option<Number>) -> Result<(), Problem> {
        if value.is_some_and(|number| number.0 != 0) { Err(self.refuse()) } else { Ok(()) }
    }
}

/// Parses a rotation period in seconds, in each of Vault's formats; 0 for no rotation. `None` if it
/// is missing.
fn rotate_period(value: Option<&Scalar>) -> Result<Option<u64>, Problem> {
    let seconds = match value.map(|value| &value.0) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(text)) if text.is_empty() => Some(0),
        Some(Value::String(text)) => parse_seconds(text),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => None,
    };
    let expected = "seconds, or a text such as 24h or 30d; 0: never";
    let wrong = || Problem::bad(format!("invalid `auto_rotate_period`; expected {expected}"));
    seconds.map(Some).ok_or_else(wrong)
}

/// Parses a version; `None` if it is 0 or missing.
fn version(number: Option<Number>) -> Result<Option<u32>, Problem> {
    let Some(Number(number)) = number else { return Ok(None) };
    let version = u32::try_from(number);
    let version = version.map_err(|_| Problem::bad(format!("{number} is not a version")))?;
    Ok(Some(version).filter(|&version| version != 0))
}

/// Turns a missing key or version into a bad request, as Vault does at paths of operations.
pub fn of_operation(problem: Problem) -> Problem {
    if problem.status == 404 { Problem { status: 400, ..problem } } else { problem }
}

/// Parses the version and the bytes of `vault:vN:BASE64`.
fn parse_versioned(field: &str, text: Option<&str>) -> Result<(u32, Vec<u8>), Problem> {
    let text = text.ok_or_else(|| missing(field))?;
    let VersionedBytes { version, bytes } = text.parse().map_err(|_| no_version(field))?;
    Ok((version, bytes))
}

/// The error for a malformed `vault:vN:BASE64`.
fn no_version(field: &str) -> Problem {
    Problem::malformed(format!("`{field}` is not vault:vN:BASE64"))
}

/// Formats the output of a version for a field.
fn made(field: &str, by: &VersionId, bytes: &[u8]) -> Value {
    let text = VersionedBytes { version: by.version, bytes: bytes.to_vec() }.to_string();
    json!({field: text, "key_version": by.version})
}

/// Parses the hash in a request or its path: missing, `none`, or a hash.
fn parse_hash(call: &Call, hashes: &[&Option<String>]) -> Result<Option<Option<Prehash>>, Problem> {
    let in_path = call.parts.get(1);
    said_in(hashes.iter().filter_map(|hash| hash.as_ref()).chain(in_path).map(String::as_str))
}

/// Returns the hash that several fields name, which have to agree.
fn said_in<'a>(
    mut said: impl Iterator<Item = &'a str>,
) -> Result<Option<Option<Prehash>>, Problem> {
    let first = said.next();
    if said.any(|other| Some(other) != first) {
        return Err(Problem::bad("the hash is said twice, and not the same"));
    }
    first.map(names::hash).transpose()
}

/// Formats bytes as requested.
fn formatted(bytes: &[u8], format: &str) -> Result<String, Problem> {
    match format {
        "" | "base64" => Ok(encode(bytes)),
        "hex" => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => Err(Problem::bad("unknown `format`; expected base64 or hex")),
    }
}

/// Answers one item, or each item of a batch.
fn answer_items<I: Default + PartialEq>(
    call: &Call,
    (action, selector): (Action, &KeySelector),
    items: Option<Vec<I>>,
    item: I,
    reference: impl Fn(&I) -> Option<String>,
    one: impl Fn(&I) -> Result<Value, Problem>,
) -> Result<Reply, Problem> {
    let Some(items) = items else {
        return vault::data(call, one(&item).map_err(of_operation)?, &[]);
    };
    check_batch(call, (action, selector), &items, &item)?;
    let mut results = Results::default();
    items.iter().for_each(|item| results.add(reference(item).as_deref(), one(item)));
    results.reply(call)
}

/// Returns a field of a single item. With `batch_input`, where Vault ignores such fields, an empty
/// one counts as missing.
fn beside_batch<T: AsRef<str>>(value: Option<T>, is_batch: bool) -> Option<T> {
    value.filter(|value| !is_batch || !value.as_ref().is_empty())
}

/// Checks the number of batch items, and that no single item is given as well.
fn check_batch<I: Default + PartialEq>(
    call: &Call,
    (action, selector): (Action, &KeySelector),
    items: &[I],
    item: &I,
) -> Result<(), Problem> {
    if *item != I::default() {
        return Err(Problem::bad("expected one item or `batch_input`, and not both"));
    }
    check_items(items.len())?;
    let (service, caller) = call.caller()?;
    let may = service.algorithm(&caller, action, &selector.key(), items.len());
    may.map(drop).map_err(|error| of_operation(error.into()))
}

/// Answers the items of a batch; those that parse run together.
fn batch<I, R, T, E>(
    items: &[I],
    reference: impl Fn(&I) -> Option<&str>,
    read: impl Fn(&I) -> Result<R, Problem>,
    together: impl FnOnce(&[&R]) -> Vec<Result<T, E>>,
    told: impl Fn(T) -> Result<Value, Problem>,
) -> Results
where
    Problem: From<E>,
{
    let ready: Vec<Result<R, Problem>> = items.iter().map(read).collect();
    let readable: Vec<&R> = ready.iter().filter_map(|one| one.as_ref().ok()).collect();
    let mut done = together(&readable).into_iter();
    let mut results = Results::default();
    for (item, ready) in items.iter().zip(ready) {
        let one = ready.and_then(|_| {
            let done = done.next().ok_or_else(|| Problem::internal("an item has no answer"))?;
            told(done?)
        });
        results.add(reference(item), one);
    }
    results
}

/// The answers of a batch's items.
#[derive(Default)]
struct Results {
    answers: Vec<Value>,
    /// The statuses of rejected items.
    refused: Vec<u16>,
}

impl Results {
    fn add(&mut self, reference: Option<&str>, one: Result<Value, Problem>) {
        let mut answer = one.unwrap_or_else(|problem| {
            self.refused.push(problem.status);
            json!({"error": format!("{}: {}", problem.code, problem.message)})
        });
        if let Some(reference) = reference {
            answer["reference"] = json!(reference);
        }
        self.answers.push(answer);
    }

    /// Returns the status of an encryption or decryption batch, as Vault does: that of a bad
    /// request if an item was rejected, or the status that the caller chose if other items
    /// succeeded.
    fn status(&self, if_some: Option<u16>) -> u16 {
        match (self.refused.len(), if_some) {
            (0, _) => 200,
            (refused, Some(status)) if refused < self.answers.len() => status,
            (_, _) if self.refused.iter().any(|&status| status < 500) => 400,
            (_, _) => 500,
        }
    }

    fn reply(self, call: &Call) -> Result<Reply, Problem> {
        let refused = |status: &&u16| **status < 500 && **status != 429;
        call.charge_refused(self.refused.iter().filter(refused).count());
        vault::data(call, json!({"batch_results": self.answers}), &[])
    }
}

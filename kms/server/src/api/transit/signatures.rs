//! Signing and verifying by Vault's paths.

use gabion_engine::Algorithm;
use gabion_kms::Message;
use gabion_kms::Prehash as Hash;
use gabion_kms::gate::Action;
use gabion_kms::model::KeyAlgorithm;
use gabion_kms::operations::{SignOutput, rsa_hash};
use gabion_kms::rsa::Scheme;
use gabion_kms::service::{SignItem, VerifyItem};
use gabion_kms_wire::VersionedBytes;
use gabion_kms_wire::transit::{
    Flag, TransitSign, TransitSignItem, TransitVerify, TransitVerifyItem,
};
use serde_json::{Value, json};

use super::super::batch::check_items;
use super::super::bytes::bytes;
use super::super::input::Input;
use super::super::marshaling::Marshaling;
use super::super::single::{Operation, Outcome, ResponseShape, SingleRequest};
use super::super::{Call, KeySelector, Reply, vault};
use super::{
    UnsupportedField, batch, beside_batch, missing, no_version, of_operation, parse_hash,
    select_key, tags, version,
};
use crate::parse::json;
use crate::problem::Problem;

pub fn sign(call: &Call) -> Result<Reply, Problem> {
    let asked: TransitSign = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    let hashes = [&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm];
    let of_rsa =
        (asked.signature_algorithm.as_deref(), asked.salt_length.as_ref().map(|salt| &salt.0));
    let form = InputForm::new(call, (Action::Sign, &selector), &hashes, asked.prehashed, of_rsa)?;
    let marshaling = check_sign(&asked)?;
    let of_all = version(asked.key_version)?;
    let (service, caller) = call.caller()?;
    let read = |item: &TransitSignItem| -> Result<(Option<u32>, Vec<u8>), Problem> {
        UnsupportedField("context").text(item.context.as_deref())?;
        Ok((version(item.key_version)?.or(of_all), form.input(item.input.as_deref())?))
    };
    let item = |(version, input): &(Option<u32>, Vec<u8>)| match form.rsa {
        None => service.sign(&caller, &selector.key(), *version, form.message(input)),
        Some(rsa) => {
            service.sign_rsa(&caller, &selector.key(), *version, rsa.scheme, &rsa.digest(input))
        }
    };
    let respond = |signed: SignOutput| made(&signed, marshaling);
    let input = beside_batch(asked.input, asked.batch_input.is_some());
    match (asked.batch_input, input) {
        (Some(items), None) => {
            form.check_batch(call, (Action::Sign, &selector), items.len())?;
            let together = |ready: &[&(Option<u32>, Vec<u8>)]| {
                if form.rsa.is_some() {
                    return ready.iter().map(|&one| item(one)).collect();
                }
                let items = ready.iter().map(|(version, input)| SignItem {
                    key: selector.key(),
                    version: *version,
                    message: form.message(input),
                });
                service.sign_batch(&caller, &items.collect::<Vec<_>>())
            };
            let results = batch(&items, |item| item.reference.as_deref(), read, together, respond);
            results.reply(call)
        }
        (None, input) => {
            let ready = read(&TransitSignItem { input, ..TransitSignItem::default() });
            let done = ready.and_then(|ready| Ok(item(&ready)?)).map_err(of_operation)?;
            vault::data(call, respond(done)?, &[])
        }
        (Some(_), Some(_)) => Err(Problem::bad("expected one of `input` and `batch_input`")),
    }
}

pub fn verify(call: &Call) -> Result<Reply, Problem> {
    let asked: TransitVerify = json::read(&call.body)?;
    let selector = select_key(call, asked.name.as_deref())?;
    if tags::are_meant(&asked) {
        return tags::verify(call, &selector, asked);
    }
    let hashes = [&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm];
    let of_rsa =
        (asked.signature_algorithm.as_deref(), asked.salt_length.as_ref().map(|salt| &salt.0));
    let form = InputForm::new(call, (Action::Verify, &selector), &hashes, asked.prehashed, of_rsa)?;
    let marshaling = check_verify(&asked)?;
    let (service, caller) = call.caller()?;
    let read = |item: &TransitVerifyItem| -> Result<(Vec<u8>, u32, Vec<u8>), Problem> {
        UnsupportedField("context").text(item.context.as_deref())?;
        UnsupportedField("cmac").text(item.cmac.as_deref())?;
        UnsupportedField("mac_length").number(item.mac_length)?;
        let input = form.input(item.input.as_deref())?;
        let (version, signature) = form.signature(marshaling, item.signature.as_deref())?;
        Ok((input, version, signature))
    };
    let item = |(input, version, signature): &(Vec<u8>, u32, Vec<u8>)| match form.rsa {
        None => service.verify(&caller, &selector.key(), *version, form.message(input), signature),
        Some(rsa) => {
            let (digest, key) = (rsa.digest(input), selector.key());
            service.verify_rsa(&caller, &key, *version, rsa.scheme, (&digest, signature))
        }
    };
    let respond = |valid: bool| Ok(json!({"valid": valid}));
    let TransitVerify { input, signature, hmac, cmac, batch_input, .. } = asked;
    let [input, signature] = [input, signature].map(|of| beside_batch(of, batch_input.is_some()));
    match (batch_input, input.is_some() || signature.is_some()) {
        (Some(items), false) => {
            form.check_batch(call, (Action::Verify, &selector), items.len())?;
            let together = |ready: &[&(Vec<u8>, u32, Vec<u8>)]| {
                if form.rsa.is_some() {
                    return ready.iter().map(|&one| item(one)).collect();
                }
                let items = ready.iter().map(|(input, version, signature)| VerifyItem {
                    key: selector.key(),
                    version: *version,
                    message: form.message(input),
                    signature,
                });
                service.verify_batch(&caller, &items.collect::<Vec<_>>())
            };
            let results = batch(&items, |item| item.reference.as_deref(), read, together, respond);
            results.reply(call)
        }
        (None, _) => {
            let ready =
                read(&TransitVerifyItem { input, signature, hmac, cmac, ..Default::default() });
            let done = ready.and_then(|ready| Ok(item(&ready)?)).map_err(of_operation)?;
            vault::data(call, respond(done)?, &[])
        }
        (Some(_), true) => Err(Problem::bad("expected one of `input` and `batch_input`")),
    }
}

/// A request for one signature, by a key that is not RSA's.
pub fn single_sign(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    let asked: TransitSign = json::read(&call.body)?;
    let hashes = [&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm];
    let of_rsa =
        (asked.signature_algorithm.as_deref(), asked.salt_length.as_ref().map(|salt| &salt.0));
    if asked.batch_input.is_some() {
        return Ok(None);
    }
    let selector = select_key(call, asked.name.as_deref())?;
    let form = InputForm::new(call, (Action::Sign, &selector), &hashes, asked.prehashed, of_rsa)?;
    let marshaling = check_sign(&asked)?;
    let version = version(asked.key_version)?;
    let input = form.input(asked.input.as_deref()).map_err(of_operation)?;
    single(call, &form, selector, input, (Operation::Sign { version }, marshaling))
}

/// A request for one verdict on a signature, by a key that is not RSA's.
pub fn single_verify(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    let asked: TransitVerify = json::read(&call.body)?;
    if asked.batch_input.is_some() || tags::are_meant(&asked) {
        return Ok(None);
    }
    let selector = select_key(call, asked.name.as_deref())?;
    let hashes = [&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm];
    let of_rsa =
        (asked.signature_algorithm.as_deref(), asked.salt_length.as_ref().map(|salt| &salt.0));
    let form = InputForm::new(call, (Action::Verify, &selector), &hashes, asked.prehashed, of_rsa)?;
    let marshaling = check_verify(&asked)?;
    UnsupportedField("cmac").text(asked.cmac.as_deref()).map_err(of_operation)?;
    let input = form.input(asked.input.as_deref()).map_err(of_operation)?;
    let signature = form.signature(marshaling, asked.signature.as_deref());
    let (version, signature) = signature.map_err(of_operation)?;
    single(call, &form, selector, input, (Operation::Verify { version, signature }, marshaling))
}

fn single(
    call: &Call,
    form: &InputForm,
    selector: KeySelector,
    input: Vec<u8>,
    (operation, marshaling): (Operation, Marshaling),
) -> Result<Option<SingleRequest>, Problem> {
    if form.rsa.is_some() {
        return Ok(None);
    }
    let context = Vec::new();
    let input = match form.digests {
        None => Input::Pure { context, message: input },
        Some(hash) => Input::Prehash { context, hash, digest: input },
    };
    let revision = call.caller()?.0.kms().revision();
    let shape = ResponseShape { respond, refuse: of_operation };
    Ok(Some(SingleRequest { selector, input, operation, marshaling, revision, shape }))
}

/// The fields of a signature.
fn made(signed: &SignOutput, marshaling: Marshaling) -> Result<Value, Problem> {
    let text = marshaling.text(signed.by.key.algorithm, &signed.signature)?;
    let version = signed.by.version;
    Ok(json!({"signature": VersionedBytes::join(version, &text), "key_version": version}))
}

fn respond(call: &Call, single: &SingleRequest, done: Outcome) -> Result<Reply, Problem> {
    let data = match done {
        Outcome::Signed(signed) => made(&signed, single.marshaling)?,
        Outcome::Verified(valid) => json!({"valid": valid}),
    };
    vault::data(call, data, &[])
}

/// The form of inputs: messages, messages that are hashed here, or digests.
struct InputForm {
    algorithm: KeyAlgorithm,
    /// The function of the digests that are signed. `None` if messages are signed.
    digests: Option<Hash>,
    /// Whether inputs are those digests. Otherwise they are messages, which are hashed here.
    is_digest: bool,
    /// Of RSA: how it signs.
    rsa: Option<RsaScheme>,
}

/// RSA's scheme, and whether inputs are digests.
#[derive(Clone, Copy)]
struct RsaScheme {
    scheme: Scheme,
    /// Whether inputs are digests.
    is_digest: bool,
}

impl RsaScheme {
    /// What Vault's fields say: `pss` with the longest salt where they say nothing, and any salt where it verifies.
    fn new(
        hash: Option<Option<Hash>>,
        is_digest: bool,
        (algorithm, salt): (Option<&str>, Option<&Value>),
    ) -> Result<Self, Problem> {
        let hash = match hash.unwrap_or(Some(Hash::Sha2_256)) {
            Some(hash) => rsa_hash(hash)?,
            None => {
                return Err(Problem::unsupported(
                    "RSA signs no digest without the name of its hash",
                ));
            }
        };
        let scheme = match algorithm.unwrap_or_default() {
            "" | "pss" => Scheme::Pss { hash, salt: salt_of(salt, hash.digest_len())? },
            "pkcs1v15" => {
                check_salt(salt)?;
                Scheme::Pkcs1 { hash }
            }
            _ => {
                return Err(Problem::bad(
                    "unknown `signature_algorithm`; expected pss or pkcs1v15",
                ));
            }
        };
        Ok(RsaScheme { scheme, is_digest })
    }

    fn digest(&self, input: &[u8]) -> Vec<u8> {
        if self.is_digest { input.to_vec() } else { self.scheme.hash().digest(input) }
    }
}

impl InputForm {
    fn new(
        call: &Call,
        (action, selector): (Action, &KeySelector),
        hashes: &[&Option<String>],
        prehashed: Option<Flag>,
        of_rsa: (Option<&str>, Option<&Value>),
    ) -> Result<Self, Problem> {
        let (service, caller) = call.caller()?;
        let algorithm = service.algorithm(&caller, action, &selector.key(), 1);
        let algorithm = algorithm.map_err(|error| of_operation(error.into()))?;
        let hash = parse_hash(call, hashes)?;
        let is_digest = prehashed.is_some_and(|flag| flag.0);
        if algorithm.rsa().is_some() {
            let rsa = Some(RsaScheme::new(hash, is_digest, of_rsa)?);
            return Ok(InputForm { algorithm, digests: None, is_digest, rsa });
        }
        check_padding(of_rsa.0)?;
        check_salt(of_rsa.1)?;
        InputForm::of(algorithm, hash, is_digest)
    }

    /// Whether so many may be asked for at once, of what is not signed together.
    fn check_batch(
        &self,
        call: &Call,
        (action, selector): (Action, &KeySelector),
        items: usize,
    ) -> Result<(), Problem> {
        check_items(items)?;
        if self.rsa.is_some() {
            let (service, caller) = call.caller()?;
            let may = service.algorithm(&caller, action, &selector.key(), items);
            may.map_err(|error| of_operation(error.into()))?;
        }
        Ok(())
    }

    /// What an algorithm does with a hash that was asked for: none, `none`, or one.
    fn of(
        algorithm: KeyAlgorithm,
        hash: Option<Option<Hash>>,
        is_digest: bool,
    ) -> Result<Self, Problem> {
        let refuse = |why: &str| Err(Problem::unsupported(format!("{algorithm} {why}")));
        let signs = |digests| Ok(InputForm { algorithm, digests, is_digest, rsa: None });
        let own = match algorithm.algorithm() {
            Some(Algorithm::EcdsaP256) => Some(Hash::Sha2_256),
            Some(Algorithm::EcdsaP384) => Some(Hash::Sha2_384),
            Some(Algorithm::EcdsaP521) => Some(Hash::Sha2_512),
            // Vault's page: no hash is asked for of Ed25519, which has its own.
            Some(Algorithm::Ed25519) if is_digest => {
                return refuse("signs messages here and no digests; leave `prehashed` out");
            }
            Some(Algorithm::Ed25519) => return signs(None),
            _ => None,
        };
        match (own, hash, is_digest) {
            // Vault's SHA-256 where nothing is said.
            (Some(own), hash, is_digest) => match hash.unwrap_or(Some(Hash::Sha2_256)) {
                // Of the curve's own hash the engine takes messages.
                Some(hash) if hash == own && !is_digest => signs(None),
                Some(hash) => signs(Some(hash)),
                None => refuse("signs no digest without the name of its hash"),
            },
            (None, None | Some(None), false) => signs(None),
            (None, Some(Some(_)), false) => refuse(
                "hashes messages itself; leave `hash_algorithm` out, or send the digest with `prehashed`",
            ),
            (None, hash, true) => match hash.unwrap_or(Some(Hash::Sha2_256)) {
                Some(hash) => signs(Some(hash)),
                None => refuse("signs no digest without the name of its hash"),
            },
        }
    }

    /// What is signed of an input: its bytes, or their digest.
    fn input(&self, text: Option<&str>) -> Result<Vec<u8>, Problem> {
        let input = bytes("input", text.ok_or_else(|| missing("input"))?)?;
        Ok(match self.digests.filter(|_| !self.is_digest) {
            Some(hash) => hash.digest(&input),
            None => input,
        })
    }

    /// The version and the bytes of a signature to verify.
    fn signature(
        &self,
        marshaling: Marshaling,
        text: Option<&str>,
    ) -> Result<(u32, Vec<u8>), Problem> {
        let text = text.ok_or_else(|| missing("signature"))?;
        let (version, text) = VersionedBytes::split(text).ok_or_else(|| no_version("signature"))?;
        Ok((version, marshaling.inward(self.algorithm, marshaling.decode(text)?)?))
    }

    fn message<'a>(&self, input: &'a [u8]) -> Message<'a> {
        match self.digests {
            None => Message::Pure { context: &[], message: input },
            Some(hash) => Message::Prehash { context: &[], hash, digest: input },
        }
    }
}

/// Checks fields of a signature that have to ask for nothing. Returns how signatures are written.
fn check_sign(asked: &TransitSign) -> Result<Marshaling, Problem> {
    UnsupportedField("context").text(asked.context.as_deref())?;
    UnsupportedField("signature_context").text(asked.signature_context.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    Marshaling::named("marshaling_algorithm", asked.marshaling_algorithm.as_deref())
}

/// Checks fields of a verdict that have to ask for nothing. Returns how signatures are written.
fn check_verify(asked: &TransitVerify) -> Result<Marshaling, Problem> {
    UnsupportedField("context").text(asked.context.as_deref())?;
    UnsupportedField("signature_context").text(asked.signature_context.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    UnsupportedField("mac_length").number(asked.mac_length)?;
    Marshaling::named("marshaling_algorithm", asked.marshaling_algorithm.as_deref())
}

/// How RSA's signatures are padded. Other keys have one form, whatever is said here: so it is with Vault, and sigstore says
/// pkcs1v15 for every key.
fn check_padding(name: Option<&str>) -> Result<(), Problem> {
    match name {
        None | Some("" | "pss" | "pkcs1v15") => Ok(()),
        Some(_) => Err(Problem::bad("unknown `signature_algorithm`; expected pss or pkcs1v15")),
    }
}

/// RSA's salt: none for `auto`. As Vault: 0 is `auto`, and -1 is `hash`.
fn salt_of(value: Option<&Value>, digest: usize) -> Result<Option<usize>, Problem> {
    let refused = || Problem::bad("`salt_length` is auto, hash or a number of bytes");
    let number = match value {
        None | Some(Value::Null) => 0,
        Some(Value::String(text)) => match text.as_str() {
            "" | "auto" => 0,
            "hash" => -1,
            text => text.parse().map_err(|_| refused())?,
        },
        Some(Value::Number(number)) => number.as_i64().ok_or_else(refused)?,
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => return Err(refused()),
    };
    match number {
        0 => Ok(None),
        -1 => Ok(Some(digest)),
        number => usize::try_from(number).map(Some).map_err(|_| refused()),
    }
}

/// `auto` is what RSA's salts are where nothing is said, and no other key has one.
fn check_salt(value: Option<&Value>) -> Result<(), Problem> {
    match value {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(text)) if text == "auto" => Ok(()),
        Some(_) => Err(Problem::unsupported("`salt_length` is not supported")),
    }
}

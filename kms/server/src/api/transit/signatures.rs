//! Signing and verifying, with Vault's paths.

use gabion_engine::Algorithm;
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
    let mut asked: TransitSign = json::read(&call.body)?;
    match asked.batch_input.take() {
        None => read_single_sign(call, &asked)?.run(call),
        Some(items) => sign_batch(call, &asked, &items),
    }
}

pub fn verify(call: &Call) -> Result<Reply, Problem> {
    let mut asked: TransitVerify = json::read(&call.body)?;
    if tags::are_meant(&asked) {
        let selector = select_key(call, asked.name.as_deref())?;
        return tags::verify(call, &selector, asked);
    }
    match asked.batch_input.take() {
        None => read_single_verify(call, &asked)?.run(call),
        Some(items) => verify_batch(call, &asked, &items),
    }
}

/// Parses a request for one signature. Returns `None` for a batch.
pub fn single_sign(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    let asked: TransitSign = json::read(&call.body)?;
    match asked.batch_input {
        None => read_single_sign(call, &asked).map(Some),
        Some(_) => Ok(None),
    }
}

/// Parses a request for the verification of one signature. Returns `None` for a batch, and for
/// tags.
pub fn single_verify(call: &Call) -> Result<Option<SingleRequest>, Problem> {
    let asked: TransitVerify = json::read(&call.body)?;
    match asked.batch_input.is_some() || tags::are_meant(&asked) {
        true => Ok(None),
        false => read_single_verify(call, &asked).map(Some),
    }
}

fn read_single_sign(call: &Call, asked: &TransitSign) -> Result<SingleRequest, Problem> {
    let (selector, form, marshaling) = read_sign(call, asked)?;
    let version = version(asked.key_version)?;
    let input = form.input(asked.input.as_deref()).map_err(of_operation)?;
    single(call, selector, input, Operation::Sign { version }, marshaling)
}

fn read_single_verify(call: &Call, asked: &TransitVerify) -> Result<SingleRequest, Problem> {
    let (selector, form, marshaling) = read_verify(call, asked)?;
    UnsupportedField("cmac").text(asked.cmac.as_deref()).map_err(of_operation)?;
    let input = form.input(asked.input.as_deref()).map_err(of_operation)?;
    let signature = form.signature(marshaling, asked.signature.as_deref());
    let (version, signature) = signature.map_err(of_operation)?;
    single(call, selector, input, Operation::Verify { version, signature }, marshaling)
}

fn single(
    call: &Call,
    selector: KeySelector,
    input: Input,
    operation: Operation,
    marshaling: Marshaling,
) -> Result<SingleRequest, Problem> {
    let revision = call.caller()?.0.kms().revision();
    let shape = ResponseShape { respond, refuse: of_operation };
    Ok(SingleRequest { selector, input, operation, marshaling, revision, shape })
}

fn sign_batch(
    call: &Call,
    asked: &TransitSign,
    items: &[TransitSignItem],
) -> Result<Reply, Problem> {
    let (selector, form, marshaling) = read_sign(call, asked)?;
    let of_all = version(asked.key_version)?;
    check_no_single_item(&[&asked.input])?;
    form.check_batch(call, (Action::Sign, &selector), items.len())?;
    let (service, caller) = call.caller()?;
    let read = |item: &TransitSignItem| -> Result<(Option<u32>, Input), Problem> {
        UnsupportedField("context").text(item.context.as_deref())?;
        Ok((version(item.key_version)?.or(of_all), form.input(item.input.as_deref())?))
    };
    let run = |ready: &[&(Option<u32>, Input)]| {
        let items = ready.iter().map(|(version, input)| SignItem {
            key: selector.key(),
            version: *version,
            signable: input.signable(),
        });
        service.sign_batch(&caller, &items.collect::<Vec<_>>())
    };
    let respond = |signed: SignOutput| made(&signed, marshaling);
    batch(items, |item| item.reference.as_deref(), read, run, respond).reply(call)
}

fn verify_batch(
    call: &Call,
    asked: &TransitVerify,
    items: &[TransitVerifyItem],
) -> Result<Reply, Problem> {
    let (selector, form, marshaling) = read_verify(call, asked)?;
    check_no_single_item(&[&asked.input, &asked.signature])?;
    form.check_batch(call, (Action::Verify, &selector), items.len())?;
    let (service, caller) = call.caller()?;
    let read = |item: &TransitVerifyItem| -> Result<(Input, u32, Vec<u8>), Problem> {
        UnsupportedField("context").text(item.context.as_deref())?;
        UnsupportedField("cmac").text(item.cmac.as_deref())?;
        UnsupportedField("mac_length").number(item.mac_length)?;
        let input = form.input(item.input.as_deref())?;
        let (version, signature) = form.signature(marshaling, item.signature.as_deref())?;
        Ok((input, version, signature))
    };
    let run = |ready: &[&(Input, u32, Vec<u8>)]| {
        let items = ready.iter().map(|(input, version, signature)| VerifyItem {
            key: selector.key(),
            version: *version,
            signable: input.signable(),
            signature,
        });
        service.verify_batch(&caller, &items.collect::<Vec<_>>())
    };
    let respond = |valid: bool| Ok(json!({"valid": valid}));
    batch(items, |item| item.reference.as_deref(), read, run, respond).reply(call)
}

/// Rejects the fields of a single item next to `batch_input`, unless they are empty.
fn check_no_single_item(fields: &[&Option<String>]) -> Result<(), Problem> {
    match fields.iter().any(|field| beside_batch(field.as_ref(), true).is_some()) {
        true => Err(Problem::bad("expected one of `input` and `batch_input`")),
        false => Ok(()),
    }
}

/// Formats a signature.
fn made(signed: &SignOutput, marshaling: Marshaling) -> Result<Value, Problem> {
    let text = marshaling.text(signed.by.key.algorithm, &signed.signature)?;
    let version = signed.by.version;
    Ok(json!({"signature": VersionedBytes::join(version, &text), "key_version": version}))
}

fn respond(call: &Call, single: &SingleRequest, outcome: Outcome) -> Result<Reply, Problem> {
    let data = match outcome {
        Outcome::Signed(signed) => made(&signed, single.marshaling)?,
        Outcome::Verified { valid, .. } => json!({"valid": valid}),
    };
    vault::data(call, data, &[])
}

/// The form of the inputs of a request.
struct InputForm {
    algorithm: KeyAlgorithm,
    signing: SigningForm,
    /// Whether inputs are digests. Otherwise they are messages, which are hashed here if digests
    /// are signed.
    is_digest: bool,
}

/// The form of an input that a key signs.
#[derive(Clone, Copy)]
enum SigningForm {
    Message,
    Prehash(Hash),
    Rsa(Scheme),
}

/// The fields that select an RSA scheme: `signature_algorithm` and `salt_length`.
type RsaFields<'a> = (Option<&'a str>, Option<&'a Value>);

/// Parses Vault's RSA fields. The default is `pss` with the longest salt, which verifies any salt.
fn rsa_scheme(hash: Option<Option<Hash>>, (name, salt): RsaFields<'_>) -> Result<Scheme, Problem> {
    let hash = match hash.unwrap_or(Some(Hash::Sha2_256)) {
        Some(hash) => rsa_hash(hash)?,
        None => {
            return Err(Problem::unsupported("RSA signs no digest without the name of its hash"));
        }
    };
    match name.unwrap_or_default() {
        "" | "pss" => Ok(Scheme::Pss { hash, salt: salt_of(salt, hash.digest_len())? }),
        "pkcs1v15" => {
            check_salt(salt)?;
            Ok(Scheme::Pkcs1 { hash })
        }
        _ => Err(Problem::bad("unknown `signature_algorithm`; expected pss or pkcs1v15")),
    }
}

impl InputForm {
    fn new(
        call: &Call,
        (action, selector): (Action, &KeySelector),
        hashes: &[&Option<String>],
        prehashed: Option<Flag>,
        rsa: RsaFields<'_>,
    ) -> Result<Self, Problem> {
        let (service, caller) = call.caller()?;
        let algorithm = service.algorithm(&caller, action, &selector.key(), 1);
        let algorithm = algorithm.map_err(|error| of_operation(error.into()))?;
        let hash = parse_hash(call, hashes)?;
        let is_digest = prehashed.is_some_and(|flag| flag.0);
        if algorithm.rsa().is_some() {
            let signing = SigningForm::Rsa(rsa_scheme(hash, rsa)?);
            return Ok(InputForm { algorithm, signing, is_digest });
        }
        check_padding(rsa.0)?;
        check_salt(rsa.1)?;
        InputForm::of(algorithm, hash, is_digest)
    }

    /// Checks the number of items. For RSA, a batch that a token does not permit is rejected as a
    /// whole.
    fn check_batch(
        &self,
        call: &Call,
        (action, selector): (Action, &KeySelector),
        items: usize,
    ) -> Result<(), Problem> {
        check_items(items)?;
        if let SigningForm::Rsa(_) = self.signing {
            let (service, caller) = call.caller()?;
            let may = service.algorithm(&caller, action, &selector.key(), items);
            may.map_err(|error| of_operation(error.into()))?;
        }
        Ok(())
    }

    /// Returns the form of inputs for an algorithm and the requested hash: missing, `none`, or a
    /// hash.
    fn of(
        algorithm: KeyAlgorithm,
        hash: Option<Option<Hash>>,
        is_digest: bool,
    ) -> Result<Self, Problem> {
        let refuse = |why: &str| Err(Problem::unsupported(format!("{algorithm} {why}")));
        let form = |signing| Ok(InputForm { algorithm, signing, is_digest });
        let own = match algorithm.algorithm() {
            Some(Algorithm::EcdsaP256) => Some(Hash::Sha2_256),
            Some(Algorithm::EcdsaP384) => Some(Hash::Sha2_384),
            Some(Algorithm::EcdsaP521) => Some(Hash::Sha2_512),
            // By Vault's documentation, the hash is ignored for Ed25519, which has its own.
            Some(Algorithm::Ed25519) if is_digest => {
                return refuse("signs messages here and no digests; leave `prehashed` out");
            }
            Some(Algorithm::Ed25519) => return form(SigningForm::Message),
            _ => None,
        };
        match (own, hash, is_digest) {
            // Vault's default is SHA-256.
            (Some(own), hash, is_digest) => match hash.unwrap_or(Some(Hash::Sha2_256)) {
                // For the curve's own hash the engine accepts messages.
                Some(hash) if hash == own && !is_digest => form(SigningForm::Message),
                Some(hash) => form(SigningForm::Prehash(hash)),
                None => refuse("signs no digest without the name of its hash"),
            },
            (None, None | Some(None), false) => form(SigningForm::Message),
            (None, Some(Some(_)), false) => refuse(
                "hashes messages itself; leave `hash_algorithm` out, or send the digest with `prehashed`",
            ),
            (None, hash, true) => match hash.unwrap_or(Some(Hash::Sha2_256)) {
                Some(hash) => form(SigningForm::Prehash(hash)),
                None => refuse("signs no digest without the name of its hash"),
            },
        }
    }

    /// Decodes an input, and hashes it if it is a message whose digest is signed.
    fn input(&self, text: Option<&str>) -> Result<Input, Problem> {
        let (context, input) = (Vec::new(), bytes("input", text.ok_or_else(|| missing("input"))?)?);
        Ok(match (self.signing, self.is_digest) {
            (SigningForm::Message, _) => Input::Pure { context, message: input },
            (SigningForm::Prehash(hash), true) => Input::Prehash { context, hash, digest: input },
            (SigningForm::Prehash(hash), false) => {
                Input::Prehash { context, hash, digest: hash.digest(&input) }
            }
            (SigningForm::Rsa(scheme), true) => Input::Digest { scheme, digest: input },
            (SigningForm::Rsa(scheme), false) => {
                Input::Digest { scheme, digest: scheme.hash().digest(&input) }
            }
        })
    }

    /// Parses the version and the bytes of a signature to verify.
    fn signature(
        &self,
        marshaling: Marshaling,
        text: Option<&str>,
    ) -> Result<(u32, Vec<u8>), Problem> {
        let text = text.ok_or_else(|| missing("signature"))?;
        let (version, text) = VersionedBytes::split(text).ok_or_else(|| no_version("signature"))?;
        Ok((version, marshaling.inward(self.algorithm, marshaling.decode(text)?)?))
    }
}

/// Parses the common parameters of one signature and a batch: the key, the form of inputs, and the
/// text form of signatures. Rejects fields that have to be empty.
fn read_sign(
    call: &Call,
    asked: &TransitSign,
) -> Result<(KeySelector, InputForm, Marshaling), Problem> {
    let selector = select_key(call, asked.name.as_deref())?;
    let hashes = [&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm];
    let rsa =
        (asked.signature_algorithm.as_deref(), asked.salt_length.as_ref().map(|salt| &salt.0));
    let form = InputForm::new(call, (Action::Sign, &selector), &hashes, asked.prehashed, rsa)?;
    Ok((selector, form, check_sign(asked)?))
}

/// Parses the common parameters of a verification, like [`read_sign`].
fn read_verify(
    call: &Call,
    asked: &TransitVerify,
) -> Result<(KeySelector, InputForm, Marshaling), Problem> {
    let selector = select_key(call, asked.name.as_deref())?;
    let hashes = [&asked.hash_algorithm, &asked.algorithm, &asked.urlalgorithm];
    let rsa =
        (asked.signature_algorithm.as_deref(), asked.salt_length.as_ref().map(|salt| &salt.0));
    let form = InputForm::new(call, (Action::Verify, &selector), &hashes, asked.prehashed, rsa)?;
    Ok((selector, form, check_verify(asked)?))
}

/// Checks that unsupported fields of a signature request are empty. Returns the text form of
/// signatures.
fn check_sign(asked: &TransitSign) -> Result<Marshaling, Problem> {
    UnsupportedField("context").text(asked.context.as_deref())?;
    UnsupportedField("signature_context").text(asked.signature_context.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    Marshaling::named("marshaling_algorithm", asked.marshaling_algorithm.as_deref())
}

/// Checks that unsupported fields of a verification request are empty. Returns the text form of
/// signatures.
fn check_verify(asked: &TransitVerify) -> Result<Marshaling, Problem> {
    UnsupportedField("context").text(asked.context.as_deref())?;
    UnsupportedField("signature_context").text(asked.signature_context.as_deref())?;
    UnsupportedField("reference").text(asked.reference.as_deref())?;
    UnsupportedField("mac_length").number(asked.mac_length)?;
    Marshaling::named("marshaling_algorithm", asked.marshaling_algorithm.as_deref())
}

/// Checks the RSA padding. Keys of other algorithms ignore it, as in Vault: sigstore sends pkcs1v15
/// for every key.
fn check_padding(name: Option<&str>) -> Result<(), Problem> {
    match name {
        None | Some("" | "pss" | "pkcs1v15") => Ok(()),
        Some(_) => Err(Problem::bad("unknown `signature_algorithm`; expected pss or pkcs1v15")),
    }
}

/// Parses the RSA salt length; `None` for `auto`. As in Vault, 0 is `auto` and -1 is `hash`.
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

/// Checks the salt length for keys of other algorithms, which accept only the default `auto`.
fn check_salt(value: Option<&Value>) -> Result<(), Problem> {
    match value {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(text)) if text == "auto" => Ok(()),
        Some(_) => Err(Problem::unsupported("`salt_length` is not supported")),
    }
}

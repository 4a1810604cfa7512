//! `gabion kms key import` and `export`.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use gabion_engine::Algorithm;
use gabion_engine::keys::PrivateKey;
use gabion_kms_client::{Client, Error};
use gabion_kms_wire::native::{ExportKey, Exported, ImportKey, ImportVersion, WrappingKey};
use gabion_kms_wire::{Secret, decode, decode_pem, encode};
use pkcs8::SecretDocument;
use zeroize::Zeroizing;

use super::outcome::decoded;
use super::{print, say_json};
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::passin::PassIn;
use crate::keys::{self, KeyArgs};

#[derive(clap::Args)]
pub struct ImportArgs {
    /// Name of the new key; with --new-version, the key by name or id
    name: String,
    /// Algorithm of the key, as for `gabion kms key create`
    #[arg(long)]
    algorithm: String,
    /// Purpose, part of the key's id [default: transit]
    #[arg(long, conflicts_with = "new_version")]
    purpose: Option<String>,
    /// Conformance that can never be removed: cnsa2, fips-alg or software; may be given several
    /// times
    #[arg(long, value_name = "LABEL", conflicts_with = "new_version")]
    conformance: Vec<String>,
    /// Rotate automatically at this interval: 12h, 30d, at least one hour [default: never]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = super::period::period,
        conflicts_with_all = ["new_version", "public"]
    )]
    rotate_every: Option<u64>,
    /// Add a version to an existing key
    #[arg(long)]
    new_version: bool,
    /// Import only the public key, which verifies or encapsulates
    #[arg(long)]
    public: bool,
    /// Encrypt the key for the service on this machine, so that nothing in between can read it
    #[arg(long, conflicts_with = "public")]
    wrap: bool,
    /// FILE is already wrapped for the service's key (`gabion kms key wrapping-key`) [default of
    /// the value: x-wing]
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        default_missing_value = "x-wing",
        require_equals = true,
        conflicts_with_all = ["public", "wrap", "passin"],
        value_parser = ["x-wing", "rsa-oaep-sha224", "rsa-oaep-sha256", "rsa-oaep-sha384", "rsa-oaep-sha512"]
    )]
    wrapped: Option<String>,
    /// With --wrapped: form of the wrapped key [default: pkcs8, if a standard defines
    /// it]
    #[arg(long, requires = "wrapped", value_parser = ["pkcs8", "raw"])]
    form: Option<String>,
    /// Password of an encrypted key: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passin: Option<PassIn>,
    /// Key file: PEM, DER or raw bytes; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(clap::Args)]
pub struct ExportArgs {
    /// The key, by name or id
    key: String,
    /// Key version [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    /// Form of the key; `raw` is the bytes of a symmetric key, a seed, or the standard's encoding
    /// [default: pkcs8, if a standard defines it]
    #[arg(long, value_parser = ["pkcs8", "raw"])]
    form: Option<String>,
    /// Wrap the key for this X-Wing or RSA public key (PEM or DER); only its owner can read it
    #[arg(long, value_name = "KEY")]
    wrap_for: Option<PathBuf>,
    /// File for the key, mode 0600: PKCS#8 PEM, raw bytes, or the wrapped key; `-` is standard
    /// output
    #[arg(long, value_name = "OUT", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

#[derive(clap::Args)]
pub struct WrappingKeyArgs {
    /// Type of the wrapping key
    #[arg(long, default_value = "x-wing", value_parser = ["x-wing", "rsa"])]
    kind: String,
    /// File for the public key (PEM); `-` is standard output
    #[arg(long, value_name = "OUT", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// How long to wait for the service to generate a wrapping key, and how often to ask.
const WAIT_MAX: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_secs(2);

/// A key to import: its private key (wrapped or not) or its public key.
#[derive(Default)]
struct KeyMaterial {
    raw: Option<Secret>,
    pkcs8: Option<Secret>,
    public: Option<String>,
    wrapped: Option<String>,
    wrapping: Option<String>,
    form: Option<String>,
}

/// Runs `wrapping-key`.
pub fn wrapping_key(client: &Client, json: bool, args: WrappingKeyArgs) -> Result<(), Failure> {
    let existing = args.force.existing();
    let [place] = files::places([("--out", &args.out)], &[], existing)?;
    let key = made(|| client.wrapping_key(&args.kind))?;
    if json {
        return say_json(&key);
    }
    files::commit([Output::prepare(place, key.public_key.as_bytes(), Access::Public, existing)?])
}

/// Repeats the request while the service generates the key; RSA keys take seconds.
fn made(ask: impl Fn() -> Result<WrappingKey, Error>) -> Result<WrappingKey, Error> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        match ask() {
            Err(Error::Refused(problem)) if problem.code == "busy" && Instant::now() < until => {
                thread::sleep(RETRY);
            }
            answer => return answer,
        }
    }
}

/// Runs `import`.
pub fn import(client: &Client, json: bool, args: ImportArgs) -> Result<(), Failure> {
    let key_material = match &args.wrapped {
        None => key_material(&args)?,
        Some(how) => KeyMaterial {
            wrapped: Some(encode(&files::read(&args.file, files::SMALL_MAX)?)),
            wrapping: Some(how.clone()),
            form: args.form.clone(),
            ..KeyMaterial::default()
        },
    };
    let key_material =
        if args.wrap { wrapped_here(client, &args, &key_material)? } else { key_material };
    let KeyMaterial { raw, pkcs8, public, wrapped, wrapping, form } = key_material;
    if args.new_version {
        let what = ImportVersion { raw, pkcs8, public, wrapped, wrapping, form };
        let made = client.import_version(&args.name, &what)?;
        if json {
            return say_json(&made);
        }
        say!("version {} is the newest from now on", made.version);
        return Ok(());
    }
    let ImportArgs { name, algorithm, purpose, conformance, rotate_every, .. } = args;
    let conformance = Some(conformance).filter(|labels| !labels.is_empty());
    let what = ImportKey {
        name,
        algorithm,
        purpose,
        raw,
        pkcs8,
        public,
        wrapped,
        wrapping,
        form,
        conformance,
        rotate_period_s: rotate_every,
        ..ImportKey::default()
    };
    print::key(json, &client.import(&what)?)
}

/// Runs `export`.
pub fn export(client: &Client, json: bool, args: ExportArgs) -> Result<(), Failure> {
    let existing = args.force.existing();
    let [place] = files::places([("--out", &args.out)], &[], existing)?;
    let wrap_for = args.wrap_for.as_deref().map(recipient).transpose()?;
    let what = ExportKey { version: args.number, form: args.form, wrap_for };
    if json {
        return say_json(&client.export(&args.key, &what)?);
    }
    files::not_a_terminal([&place])?;
    let bytes = file_of(&client.export(&args.key, &what)?)?;
    files::commit([Output::prepare(place, &bytes, Access::Secret, existing)?])
}

/// Returns the key wrapped for the service.
fn wrapped_here(
    client: &Client,
    args: &ImportArgs,
    key_material: &KeyMaterial,
) -> Result<KeyMaterial, Failure> {
    if args.name.contains('/') {
        let why = "a wrapped key contains the key's name; give the name instead of the id";
        return Err(Failure::Usage(why.to_owned()));
    }
    let service = client.wrapping_key("x-wing")?.public_key;
    let foreign = || Failure::NotReady("the service's answer has no public key".to_owned());
    let service = decode_pem(&service).ok_or_else(foreign)?;
    let form = if key_material.pkcs8.is_some() { "pkcs8" } else { "raw" };
    let key = key_material.raw.as_ref().or(key_material.pkcs8.as_ref());
    let key = key.map(decoded).transpose()?.unwrap_or_default();
    // The tenant is `default`, which is also the service's when a request does not name one.
    let place = ["default", &args.name, &args.algorithm, form];
    let wrapped = gabion_kms_server::wrap_key(&service, place, &key);
    let wrapped = wrapped.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(KeyMaterial {
        wrapped: Some(encode(&wrapped)),
        wrapping: Some("x-wing".to_owned()),
        form: Some(form.to_owned()),
        ..KeyMaterial::default()
    })
}

/// Returns a public key in the encoding of the API; the service determines its type.
fn recipient(path: &Path) -> Result<String, Failure> {
    let bytes = files::read(path, files::SMALL_MAX)?;
    let der = std::str::from_utf8(&bytes).ok().and_then(decode_pem);
    Ok(encode(&der.unwrap_or_else(|| bytes.to_vec())))
}

/// Returns the content of the output file.
fn file_of(exported: &Exported) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let foreign = || Failure::NotReady("the service's answer has no key".to_owned());
    if let Some(wrapped) = &exported.wrapped {
        return Ok(Zeroizing::new(decode(wrapped).ok_or_else(foreign)?));
    }
    let bytes = decoded(exported.private_key.as_ref().ok_or_else(foreign)?)?;
    if exported.form != "pkcs8" {
        return Ok(bytes);
    }
    let foreign = |_| Failure::NotReady("the service's answer has no PKCS#8".to_owned());
    let document = SecretDocument::try_from(&**bytes).map_err(foreign)?;
    let text = document.to_pem("PRIVATE KEY", pkcs8::LineEnding::LF).map_err(foreign)?;
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// Reads the key to import. Keys of the engine's algorithms are parsed and checked; other keys are
/// raw bytes.
fn key_material(args: &ImportArgs) -> Result<KeyMaterial, Failure> {
    let Some((algorithm, _)) = Algorithm::lookup(&args.algorithm) else {
        if args.algorithm.to_ascii_lowercase().starts_with("rsa-") {
            return rsa_key_material(args);
        }
        if args.public {
            return Err(Failure::Usage(format!("{} keys have no public half", args.algorithm)));
        }
        let raw = Some(Secret::of_bytes(&files::read(&args.file, files::SMALL_MAX)?));
        return Ok(KeyMaterial { raw, ..KeyMaterial::default() });
    };
    let of_file = KeyArgs {
        key: args.file.clone(),
        algorithm: Some(args.algorithm.clone()),
        passin: args.passin.clone(),
        raw: None,
    };
    let (engine, kind) = (keys::engine()?, algorithm.info().kind);
    if args.public {
        let public = of_file.public(engine, "importing", kind)?;
        return Ok(KeyMaterial { public: Some(encode(public.bytes())), ..KeyMaterial::default() });
    }
    let pair = of_file.private(engine, "importing", kind)?;
    Ok(KeyMaterial { raw: secret_of(&pair), ..KeyMaterial::default() })
}

/// Reads an RSA key: PKCS#8 or a public key, PEM or DER. The service checks it.
fn rsa_key_material(args: &ImportArgs) -> Result<KeyMaterial, Failure> {
    if args.public {
        return Ok(KeyMaterial { public: Some(recipient(&args.file)?), ..KeyMaterial::default() });
    }
    let bytes = files::read(&args.file, files::SMALL_MAX)?;
    let pem = std::str::from_utf8(&bytes).ok().and_then(|text| SecretDocument::from_pem(text).ok());
    let pkcs8 = match pem {
        Some(("PRIVATE KEY", document)) => Secret::of_bytes(document.as_bytes()),
        Some((_, _)) => {
            let name = files::shown(&args.file, "standard input");
            return Err(Failure::Usage(format!(
                "{name} has another key; expected RSA's in PKCS#8, not encrypted"
            )));
        }
        None => Secret::of_bytes(&bytes),
    };
    Ok(KeyMaterial { pkcs8: Some(pkcs8), ..KeyMaterial::default() })
}

/// Returns the seed if the key has one, else the standard's encoding.
fn secret_of(pair: &PrivateKey) -> Option<Secret> {
    let forms = pair.forms();
    forms.seed.or(forms.expanded).map(Secret::of_bytes)
}

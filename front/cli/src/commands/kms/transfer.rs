//! `gabion kms key import` and `export`: keys that come and go.

use std::path::PathBuf;

use gabion_engine::Algorithm;
use gabion_engine::keys::PrivateKey;
use gabion_kms_client::wire::{ExportKey, Exported, ImportKey, ImportVersion};
use gabion_kms_client::{Client, Secret, encode};
use pkcs8::SecretDocument;
use zeroize::Zeroizing;

use super::outcome::decoded;
use super::{say_json, shown};
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::passin::PassIn;
use crate::keys::{self, KeyArgs};

#[derive(clap::Args)]
pub struct ImportArgs {
    /// What to call it; of a version, the key, by name or id
    name: String,
    /// Its algorithm, as of `gabion kms key create`
    #[arg(long)]
    algorithm: String,
    /// What it is for, a part of its id [default: transit]
    #[arg(long, conflicts_with = "new_version")]
    purpose: Option<String>,
    /// Give a key that is there one version more
    #[arg(long)]
    new_version: bool,
    /// Take the public key alone: it verifies or encapsulates
    #[arg(long)]
    public: bool,
    /// Password of an encrypted key: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passin: Option<PassIn>,
    /// Key file, PEM or DER, or raw bytes; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(clap::Args)]
pub struct ExportArgs {
    /// The key, by name or id
    key: String,
    /// The version [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    /// pkcs8, or raw: a symmetric key's bytes, a seed, or the standard's encoding [default: pkcs8, if a standard has it]
    #[arg(long, value_parser = ["pkcs8", "raw"])]
    form: Option<String>,
    /// File for the key, mode 0600: PEM of PKCS#8, or raw bytes; `-` is standard output
    #[arg(long, value_name = "OUT", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// What is sent of a key: its private half or its public one.
#[derive(Default)]
struct Brought {
    raw: Option<Secret>,
    public: Option<String>,
}

/// Runs `import`.
pub fn import(client: &Client, json: bool, args: ImportArgs) -> Result<(), Failure> {
    let Brought { raw, public } = brought(&args)?;
    if args.new_version {
        let what = ImportVersion { raw, public, ..ImportVersion::default() };
        let made = client.import_version(&args.name, &what)?;
        if json {
            return say_json(&made);
        }
        say!("version {} is the newest from now on", made.version);
        return Ok(());
    }
    let ImportArgs { name, algorithm, purpose, .. } = args;
    let what = ImportKey { name, algorithm, purpose, raw, public, ..ImportKey::default() };
    shown::key(json, &client.import(&what)?)
}

/// Runs `export`.
pub fn export(client: &Client, json: bool, args: ExportArgs) -> Result<(), Failure> {
    let existing = args.force.existing();
    let [place] = files::places([("--out", &args.out)], &[], existing)?;
    let what = ExportKey { version: args.number, form: args.form };
    if json {
        return say_json(&client.export(&args.key, &what)?);
    }
    files::not_a_terminal([&place])?;
    let bytes = file_of(&client.export(&args.key, &what)?)?;
    files::commit([Output::prepare(place, &bytes, Access::Secret, existing)?])
}

/// What goes into a file.
fn file_of(exported: &Exported) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let bytes = decoded(&exported.private_key)?;
    if exported.form != "pkcs8" {
        return Ok(bytes);
    }
    let foreign = |_| Failure::NotReady("the service's answer has no PKCS#8".to_owned());
    let document = SecretDocument::try_from(&**bytes).map_err(foreign)?;
    let text = document.to_pem("PRIVATE KEY", pkcs8::LineEnding::LF).map_err(foreign)?;
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// What a file has: of the engine's algorithms a key that was read and found to be one, of others bytes.
fn brought(args: &ImportArgs) -> Result<Brought, Failure> {
    let Some((algorithm, _)) = Algorithm::lookup(&args.algorithm) else {
        if args.public {
            return Err(Failure::Usage(format!("{} keys have no public half", args.algorithm)));
        }
        let raw = Some(Secret::of_bytes(&files::read(&args.file, files::SMALL_MAX)?));
        return Ok(Brought { raw, ..Brought::default() });
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
        return Ok(Brought { public: Some(encode(public.bytes())), ..Brought::default() });
    }
    let pair = of_file.private(engine, "importing", kind)?;
    Ok(Brought { raw: secret_of(&pair), ..Brought::default() })
}

/// The seed where there is one, else the standard's encoding.
fn secret_of(pair: &PrivateKey) -> Option<Secret> {
    let forms = pair.forms();
    forms.seed.or(forms.expanded).map(Secret::of_bytes)
}

//! `gabion kms key open`: unwraps an exported key without the service.

use std::path::PathBuf;

use gabion_engine::Algorithm;
use gabion_kms_wire::Secret;
use pkcs8::SecretDocument;
use serde_json::json;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys::passin::PassIn;
use crate::keys::{self, KeyArgs};

#[derive(clap::Args)]
pub struct OpenArgs {
    /// Name of the key in the exporting service; not its id
    name: String,
    /// Algorithm of the key, as for `gabion kms key create`
    #[arg(long)]
    algorithm: String,
    /// Your X-Wing private key: PEM, DER or raw bytes
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// Form of the exported key [default: pkcs8, if a standard defines it]
    #[arg(long, value_parser = ["pkcs8", "raw"])]
    form: Option<String>,
    /// Tenant of the key in the exporting service
    #[arg(long, default_value = "default")]
    tenant: String,
    /// Password of an encrypted KEY: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passin: Option<PassIn>,
    /// File for the key, mode 0600: unencrypted PKCS#8 PEM or raw bytes; `-` is standard output
    #[arg(long, value_name = "OUT", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// Output of `gabion kms key export --wrap-for`; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
pub fn run(json: bool, args: OpenArgs) -> Result<u8, Failure> {
    let own = KeyArgs {
        key: args.key.clone(),
        algorithm: Some(Algorithm::XWing.name().to_owned()),
        passin: args.passin.clone(),
        raw: None,
    };
    own.check_standard_input(&[("FILE", args.file.as_path())])?;
    let existing = args.force.existing();
    let inputs: Vec<_> = own.inputs().into_iter().chain([("FILE", &*args.file)]).collect();
    let [place] = files::places([("--out", &args.out)], &inputs, existing)?;
    if !json {
        files::not_a_terminal([&place])?;
    }
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let form = match args.form.as_deref() {
        Some(form) => form,
        None => gabion_kms_server::default_form(&args.algorithm).map_err(|error| usage(&error))?,
    };
    let engine = keys::engine()?;
    let own = own.decaps_key(engine)?;
    let wrapped = files::read(&args.file, files::SMALL_MAX)?;
    let of = [&*args.tenant, &*args.name, &*args.algorithm, form];
    let key = gabion_kms_server::unwrap_key(&own, of, &wrapped);
    let key = key.map_err(|error| match error.code().as_str() {
        "decrypt_failed" => Failure::No(format!(
            "{} does not unwrap with this key as {} of {} and {}, form {form}: check the key, name, algorithm and form",
            files::shown(&args.file, "standard input"), args.name, args.tenant, args.algorithm
        )),
        _ => usage(&error),
    })?;
    if json {
        super::say_json(&json!({"form": form, "private_key": Secret::of_bytes(&key)}))?;
        return Ok(0);
    }
    let bytes = if form == "pkcs8" { pem(&key)? } else { key };
    files::commit([Output::prepare(place, &bytes, Access::Secret, existing)?])?;
    Ok(0)
}

/// Returns PKCS#8 as PEM. The content is checked: the sender may have wrapped anything.
fn pem(der: &[u8]) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let no =
        |_| Failure::No("the unwrapped key is not PKCS#8; use --form raw for raw bytes".to_owned());
    let document = SecretDocument::try_from(der).map_err(no)?;
    let text = document.to_pem("PRIVATE KEY", pkcs8::LineEnding::LF).map_err(no)?;
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

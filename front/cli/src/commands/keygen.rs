//! `gabion keygen`: a key pair, in the files that OpenSSL reads.

use std::path::PathBuf;

use gabion_engine::{Kind, OsEntropy};

use crate::failure::Failure;
use crate::files::{self, Access, Output};
use crate::keys::der::{self, Format, Forms, Inside};
use crate::keys::{self, Key};

/// Make a key pair and write it as PKCS#8 (and SubjectPublicKeyInfo) PEM
///
/// Example:
///   gabion keygen ML-DSA-65 --out key.pem --pub pub.pem
///
/// The private key is written with mode 0600. Nothing is overwritten without --force, and
/// nothing is left half-written.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Algorithm, by any of the names that `gabion algorithms` lists
    #[arg(value_name = "ALG")]
    algorithm: String,
    /// File for the private key; `-` is standard output
    #[arg(long, value_name = "KEY")]
    out: PathBuf,
    /// File for the public key
    #[arg(long = "pub", value_name = "PUB")]
    public: Option<PathBuf>,
    /// Form of the private key (RFC 9881, RFC 9935), where there is a choice; `both` is what openssl writes, since it
    /// serves programs that read only one of them
    #[arg(long, value_enum, default_value_t = Format::Both)]
    format: Format,
    /// Write DER instead of PEM
    #[arg(long)]
    der: bool,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let algorithm = keys::algorithm(&args.algorithm)?;
    let mut outputs = vec![("--out", args.out.as_path())];
    outputs.extend(args.public.as_deref().map(|path| ("--pub", path)));
    files::distinct(&outputs, &[])?;
    if args.der {
        files::not_a_terminal(&outputs)?;
    }

    let form = keys::file_form(algorithm)?;
    keys::note_draft(algorithm);
    let engine = keys::engine()?;
    let key = match algorithm.info().kind {
        Kind::Kem => Key::KemPrivate(engine.kem_generate(algorithm, &OsEntropy)?),
        Kind::Signature => Key::Signing(engine.dsa_generate(algorithm, &OsEntropy)?),
        _ => Key::ExchangePrivate(engine.exchange_generate(algorithm, &OsEntropy)?),
    };
    let encoding = |cause| Failure::Usage(format!("cannot encode the key: {cause}"));
    let all = key.forms().unwrap_or_default();
    // X-Wing's one form is its seed.
    let is_seed = algorithm.info().seed == Some(algorithm.info().private_key);
    if args.format == Format::Seed && form.inside != Inside::Choice && !is_seed {
        return Err(Failure::Usage(format!(
            "{algorithm} private keys have one form and no seed form; leave --format out"
        )));
    }
    let forms = match args.format {
        Format::Seed if all.seed.is_some() && form.inside == Inside::Choice => {
            Forms { expanded: None, ..all }
        }
        Format::Expanded => Forms { seed: None, ..all },
        _ => all,
    };
    let private = der::encode_private(form, &forms, args.der).map_err(encoding)?;
    let private = Output::prepare(&args.out, &private, Access::Secret, args.force)?;
    // Both files are complete on disk before the first one gets its name.
    let public = match &args.public {
        None => None,
        Some(path) => {
            let bytes = der::encode_public(form, key.public_bytes(), args.der).map_err(encoding)?;
            Some(Output::prepare(path, &bytes, Access::Public, args.force)?)
        }
    };
    private.commit()?;
    let Some(public) = public else { return Ok(0) };
    public.commit().inspect_err(|_| {
        // A pair of which only one file came into being is not left; what was replaced is gone.
        if !args.force && !files::is_standard(&args.out) {
            let _ = std::fs::remove_file(&args.out);
        }
    })?;
    Ok(0)
}

//! `gabion keygen`: generates a key pair in the file formats that OpenSSL reads.

use std::path::PathBuf;

use gabion_engine::OsEntropy;
use gabion_engine::keys::PrivateKey;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};
use crate::keys;
use crate::keys::der::{self, FileForm, Format, Forms, OctetForm};

/// Generate a key pair
///
/// Example:
///   gabion keygen ML-DSA-65 --out key.pem --pub pub.pem
///   gabion keygen SecP256r1MLKEM768 --format raw --out key.bin --pub pub.bin
///
/// Writes PKCS#8 and SubjectPublicKeyInfo PEM. The private key has mode 0600. Existing files are kept unless --force is given, and
/// a failure leaves no partial file.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Algorithm, by any name that `gabion algorithms` lists
    #[arg(value_name = "ALG")]
    algorithm: String,
    /// File for the private key; `-` is standard output
    #[arg(long, value_name = "KEY")]
    out: PathBuf,
    /// File for the public key
    #[arg(long = "pub", value_name = "PUB")]
    public: Option<PathBuf>,
    /// Form of an ML-KEM or ML-DSA private key (RFC 9935, RFC 9881) [default: seed, which the RFCs
    /// recommend and all implementations read; openssl writes `both`]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Write DER instead of PEM
    #[arg(long)]
    der: bool,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    keys::check_stateless(&args.algorithm)?;
    let algorithm = keys::algorithm(&args.algorithm)?;
    let existing = args.force.existing();
    let out = ("--out", args.out.as_path());
    let (private, public) = match &args.public {
        None => files::places([out], &[], existing).map(|[private]| (private, None))?,
        Some(path) => files::places([out, ("--pub", path)], &[], existing)
            .map(|[private, public]| (private, Some(public)))?,
    };
    let is_raw = args.format == Some(Format::Raw);
    if is_raw && args.der {
        return Err(Failure::Usage(
            "--format raw has nothing round the key, and so no DER; leave --der out".to_owned(),
        ));
    }
    if is_raw || args.der {
        files::not_a_terminal([&private].into_iter().chain(&public))?;
    }
    let form = if is_raw { None } else { Some(keys::file_form(algorithm)?) };
    keys::note_draft(algorithm);
    let engine = keys::engine()?;
    let key = PrivateKey::generate(engine, algorithm, &OsEntropy)?;
    let encoded = match form {
        None => KeyFiles::raw(&key),
        Some(form) => KeyFiles::encode(form, &key, args.format, args.der)?,
    };
    let private = Output::prepare(private, &encoded.private, Access::Secret, existing)?;
    // Both files are complete on the disk before the first gets its name.
    let public = match public {
        None => None,
        Some(place) => Some(Output::prepare(place, &encoded.public, Access::Public, existing)?),
    };
    files::commit([private].into_iter().chain(public))?;
    Ok(0)
}

/// The contents of the two key files.
struct KeyFiles {
    private: Zeroizing<Vec<u8>>,
    public: Vec<u8>,
}

impl KeyFiles {
    /// Returns the raw bytes of both keys.
    fn raw(key: &PrivateKey) -> KeyFiles {
        let private = Zeroizing::new(key.bytes().to_vec());
        KeyFiles { private, public: key.public_bytes().to_vec() }
    }

    /// Encodes both keys in the standard structures.
    fn encode(
        form: FileForm,
        key: &PrivateKey,
        format: Option<Format>,
        as_der: bool,
    ) -> Result<KeyFiles, Failure> {
        let encoding = |cause| Failure::Usage(format!("cannot encode the key: {cause}"));
        let (algorithm, all) = (key.algorithm(), key.forms());
        // The only form of X-Wing keys is the seed.
        let is_seed = algorithm.info().seed == Some(algorithm.info().private_key.max());
        if format == Some(Format::Seed) && form.octet_form != OctetForm::Choice && !is_seed {
            return Err(Failure::Usage(format!(
                "{algorithm} private keys have one form and no seed form; leave --format out"
            )));
        }
        let forms = match format.unwrap_or(Format::Seed) {
            Format::Seed if all.seed.is_some() && form.octet_form == OctetForm::Choice => {
                Forms { expanded: None, ..all }
            }
            Format::Expanded => Forms { seed: None, ..all },
            _ => all,
        };
        Ok(KeyFiles {
            private: der::encode_private(form, &forms, as_der).map_err(encoding)?,
            public: der::encode_public(form, key.public_bytes(), as_der).map_err(encoding)?,
        })
    }
}

//! `gabion hbs pub`: writes the public key of a private key in the form that a verifier expects.

use std::path::PathBuf;

use gabion_state::{Encoding, Environment, KeyFile, Sets};

use super::{KeyPath, key_file};
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};

/// Write the public key as PEM, DER, raw bytes or a C array
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W8 --out key
///   gabion hbs pub key
///   gabion hbs pub key --format raw --out pub.raw
///   gabion hbs pub key --format c
///
/// Needs no password. The formats are:
///   pem, der  SubjectPublicKeyInfo (RFC 9802)
///   raw       LMS and HSS: the key of RFC 8554, section 6 (60 bytes, or 52 if n is 24), as
///             wolfBoot expects it; XMSS and XMSS^MT: the key of RFC 8391
///   bare      the key of one LMS tree without the level count (56 or 48 bytes), as mcuboot
///             and OpenSSL's own LMS expect it
///   c         a C array of the raw key, or of the bare key if made with --encoding lms
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    key: KeyPath,
    /// Format of the public key
    #[arg(long, value_enum, default_value = "pem")]
    format: Format,
    /// File for the public key; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// The format of a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Pem,
    Der,
    Raw,
    Bare,
    C,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let around = Environment::real();
    let file = key_file(&around, &args.key.key)?;
    let bytes = encode(&file, args.format)?;
    let files = gabion_state::files(&around, &args.key.key)?;
    let taken: Vec<_> = files.iter().map(|file| ("a file of the key", file.as_path())).collect();
    let existing = args.force.existing();
    let places = files::places_of([("--out", args.out.as_path())], &[], &taken, existing)?;
    if !matches!(args.format, Format::Pem | Format::C) {
        files::not_a_terminal(&places)?;
    }
    let outputs = places.into_iter();
    let outputs = outputs.map(|place| Output::prepare(place, &bytes, Access::Public, existing));
    files::commit(outputs.collect::<Result<Vec<_>, _>>()?)?;
    Ok(0)
}

/// Encodes the public key of a key file.
fn encode(file: &KeyFile, format: Format) -> Result<Vec<u8>, Failure> {
    let raw = file.public();
    Ok(match format {
        Format::Pem => file.spki(false)?,
        Format::Der => file.spki(true)?,
        Format::Raw => raw.to_vec(),
        Format::Bare => bare(file)?,
        Format::C => {
            let (form, bytes) = match file.encoding() {
                Encoding::Hss => ("raw", raw.to_vec()),
                Encoding::Lms => ("bare", bare(file)?),
            };
            c_array(file.sets(), form, &bytes).into_bytes()
        }
    })
}

/// Returns the key of one LMS tree, without the level count.
fn bare(file: &KeyFile) -> Result<Vec<u8>, Failure> {
    match file.sets().has(Encoding::Lms) {
        true => Ok(file.public()[Encoding::Lms.omitted_len()..].to_vec()),
        false => Err(Failure::Usage(format!(
            "--format bare is for keys of LMS with one level, and this is one of {}; use --format raw",
            file.sets()
        ))),
    }
}

fn c_array(sets: &Sets, form: &str, bytes: &[u8]) -> String {
    let rows = bytes.chunks(12).map(|row| {
        let row: Vec<String> = row.iter().map(|byte| format!("0x{byte:02x}")).collect();
        format!("    {},\n", row.join(", "))
    });
    let (rows, len): (String, _) = (rows.collect(), bytes.len());
    format!(
        "/* {sets}: public key, {form} */\nconst unsigned char hbs_public_key[{len}] = {{\n{rows}}};\n\
         const unsigned int hbs_public_key_len = {len};\n"
    )
}

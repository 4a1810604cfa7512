//! `gabion hbs verify`: verifies a signature in any encoding.

use std::borrow::Cow;
use std::path::PathBuf;

use gabion_engine::{Algorithm, Message, VerifyKey};

use super::{check_size, message};
use crate::commands::keys::message::MessageArgs;
use crate::failure::Failure;
use crate::files;
use crate::keys::{self, KeyArgs};

/// Verify an HSS, LMS, XMSS or XMSS^MT signature over a file or standard input
///
/// Example:
///   gabion hbs keygen LMS_SHA256_M32_H5_W4 --out key --pub pub.pem
///   echo hi > firmware.bin && gabion hbs sign --key key --out firmware.sig firmware.bin
///   gabion hbs verify --key pub.pem --sig firmware.sig firmware.bin
///
/// The key is an RFC 9802 file, a certificate, or raw bytes. Raw keys and signatures are those of
/// HSS (RFC 8554, section 6), or those of one LMS tree without the level count, as mcuboot, ACVP
/// and OpenSSL's own LMS use them; the length tells them apart. Raw keys of XMSS and XMSS^MT need
/// --algorithm, because the two schemes number their sets independently. Exits 0 if the signature
/// verifies and 1 if not.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Public key (PEM, DER or raw bytes) or certificate; `-` is standard input
    #[arg(long, value_name = "PUB")]
    key: PathBuf,
    /// Algorithm of a raw key: HSS, XMSS or XMSSMT [default: HSS]
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,
    /// File with the signature; `-` is standard input
    #[arg(long, value_name = "SIG")]
    sig: PathBuf,
    /// FILE holds a digest: 24, 28, 32, 48 or 64 bytes, in binary or in hexadecimal as printed by
    /// sha256sum; the digest is the message, as with `gabion hbs sign --digest`
    #[arg(long, conflicts_with_all = ["context", "prehash"])]
    digest: bool,
    #[command(flatten)]
    mode: MessageArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Args { key, algorithm, sig, digest, mode } = args;
    let key = KeyArgs { key, algorithm, passin: None, raw: Some(Algorithm::Hss) };
    key.check_standard_input(&[("--sig", &sig), ("FILE", mode.file())])?;
    let engine = keys::engine()?;
    let key = key.verify_key(engine)?;
    if !key.algorithm().info().stateful {
        return Err(Failure::Usage(format!(
            "--key is a key of {}, and this command takes those of HSS, XMSS and XMSSMT; gabion verify takes any",
            key.algorithm()
        )));
    }
    let signature = files::read(&sig, files::SMALL_MAX)?;
    let signature = as_hss(&key, &signature);
    if digest {
        let message = message(mode.file(), true)?;
        engine.verify(&key, Message::Pure { context: b"", message: &message }, &signature)?;
    } else {
        check_size(mode.file())?;
        mode.with_message(|message| engine.verify(&key, message, &signature))?;
    }
    say!("the {} signature verifies", key.algorithm());
    Ok(0)
}

/// Returns the signature in the encoding of HSS: a signature of a single LMS tree may lack the
/// leading zero word. Signatures under a one-level key have a fixed length, so the forms cannot be
/// confused.
pub fn as_hss<'a>(key: &VerifyKey, signature: &'a [u8]) -> Cow<'a, [u8]> {
    let is_one_tree =
        key.algorithm() == Algorithm::Hss && key.bytes().starts_with(&1u32.to_be_bytes());
    if is_one_tree && signature.len() + 4 == key.signature_len_max() {
        return Cow::Owned([&[0; 4], signature].concat());
    }
    Cow::Borrowed(signature)
}

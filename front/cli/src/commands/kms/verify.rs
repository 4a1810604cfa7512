//! `gabion kms verify`: verifies a signature with a key of the service.

use std::path::PathBuf;

use gabion_kms_client::StreamRequest;
use gabion_kms_wire::native::Verify;
use gabion_kms_wire::{encode, encode_url};

use super::request_message::{InlineMessage, RequestMessage, SendArgs};
use super::{client, say_json};
use crate::commands::keys::message::MessageArgs;
use crate::failure::Failure;
use crate::files;

/// Verify a signature with a key of the service
///
/// Example:
///   gabion kms key create release --algorithm ML-DSA-65
///   echo hi > hi.txt && gabion kms sign --key release --out hi.sig hi.txt
///   gabion kms verify --key release --sig hi.sig hi.txt
///
/// Exits 0 if the signature verifies and 1 if not. Uses the newest version unless --version
/// specifies another.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version that signed [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    /// File with the signature; `-` is standard input
    #[arg(long, value_name = "SIG")]
    sig: PathBuf,
    #[command(flatten)]
    mode: MessageArgs,
    #[command(flatten)]
    send: SendArgs,
    /// RSA padding [default: pss]
    #[arg(long, value_parser = ["pss", "pkcs1v15"])]
    padding: Option<String>,
    /// Length of the RSA-PSS salt in bytes [default: length of the digest]
    #[arg(long, value_name = "BYTES")]
    salt_length: Option<u32>,
    /// Encoding of the signature: asn1, or jws (for ECDSA: r and s, 64, 96 or 132 bytes) [default:
    /// asn1]
    #[arg(long, value_parser = ["asn1", "jws"])]
    marshaling: Option<String>,
    /// Print the service's answer as one JSON object: valid, by, revision
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    files::one_standard_input(&[
        ("--sig", files::is_standard_input(&args.sig)),
        ("FILE", files::is_standard_input(args.mode.file())),
    ])?;
    let signature = files::read(&args.sig, files::SMALL_MAX)?;
    let (client, tenant) = (client()?, None);
    let (key, padding, salt_length) = (args.key, args.padding, args.salt_length);
    let marshaling = args.marshaling;
    let is_jws = marshaling.as_deref() == Some("jws");
    let verified = match RequestMessage::of(&client, (&key, args.number), &args.mode, &args.send)? {
        RequestMessage::Inline(InlineMessage {
            message,
            digest,
            mu,
            prehash,
            context,
            version,
        }) => client.verify(&Verify {
            key,
            tenant,
            version: version.or(args.number),
            message,
            digest,
            mu,
            prehash,
            context,
            padding,
            salt_length,
            marshaling,
            signature: if is_jws { encode_url } else { encode }(&signature),
        })?,
        RequestMessage::Stream { mut message, length, context } => {
            let (version, prehash) = (args.number, None);
            let what = StreamRequest {
                key,
                tenant,
                version,
                context,
                prehash,
                padding,
                salt_length,
                marshaling,
            };
            client.verify_stream(&what, &encode(&signature), &mut message, length)?
        }
    };
    if args.json {
        say_json(&verified)?;
        return Ok(if verified.valid { 0 } else { 1 });
    }
    match verified.valid {
        true => {
            say!("the signature verifies, by {}", verified.by);
            Ok(0)
        }
        false => Err(Failure::No(format!("the signature is not valid for {}", verified.by))),
    }
}

//! `gabion kms sign`: signs with a key of the service.

use std::path::PathBuf;

use gabion_kms_client::StreamRequest;
use gabion_kms_wire::native::Sign;
use gabion_kms_wire::{decode, decode_url};

use super::request_message::{InlineMessage, RequestMessage, SendArgs};
use super::{client, say_json};
use crate::commands::keys::message::MessageArgs;
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output};

/// Sign a file or standard input with a key of the service
///
/// Example:
///   gabion kms key create release --algorithm ML-DSA-65
///   echo hi > hi.txt && gabion kms sign --key release --out hi.sig hi.txt
///
/// The newest version signs unless --version specifies another. With --prehash, only the digest is
/// sent. A message may have any size; it is streamed to the service. Keys that hash the message
/// more than once (Ed25519; SLH-DSA and FN-DSA without --prehash) accept at most 1 MiB.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version that signs [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
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
    /// File for the signature; `-` is standard output, unless that is a terminal
    #[arg(long, value_name = "SIG", default_value = "-")]
    out: PathBuf,
    /// Print the service's answer as one JSON object instead of a signature: by, version,
    /// signature, revision
    #[arg(long, conflicts_with = "out")]
    json: bool,
    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let existing = args.force.existing();
    let inputs = [("FILE", args.mode.file())];
    let [place] = files::places([("--out", &args.out)], &inputs, existing)?;
    if !args.json {
        files::not_a_terminal([&place])?;
    }
    let (client, tenant) = (client()?, None);
    let (key, padding, salt_length) = (args.key, args.padding, args.salt_length);
    let marshaling = args.marshaling;
    let is_jws = marshaling.as_deref() == Some("jws");
    let signed = match RequestMessage::of(&client, (&key, args.number), &args.mode, &args.send)? {
        RequestMessage::Inline(InlineMessage {
            message,
            digest,
            mu,
            prehash,
            context,
            version,
        }) => client.sign(&Sign {
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
            client.sign_stream(&what, &mut message, length)?
        }
    };
    if args.json {
        say_json(&signed)?;
        return Ok(0);
    }
    let signature = if is_jws { decode_url } else { decode }(&signed.signature);
    let signature = signature.ok_or_else(|| {
        Failure::NotReady("the service's signature is not valid base64".to_owned())
    })?;
    files::commit([Output::prepare(place, &signature, Access::Public, existing)?])?;
    Ok(0)
}

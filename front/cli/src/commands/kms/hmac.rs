//! `gabion kms hmac`: HMAC tags with a key of the service.

use std::path::PathBuf;

use gabion_kms_client::StreamRequest;
use gabion_kms_wire::Secret;
use gabion_kms_wire::native::{Hmac, HmacVerify, Tagged};

use super::outcome::{OutputArgs, OutputForm, line, read_line};
use super::{SHORT_MAX, client, say_json};
use crate::failure::Failure;
use crate::files::{self, Input};

/// Compute or verify the HMAC tag of a file or standard input with a key of the service
///
/// Example:
///   gabion kms key create tags --algorithm HMAC-SHA-256
///   echo hi > hi.txt && gabion kms hmac --key tags --out hi.tag hi.txt
///   gabion kms hmac --key tags --verify hi.tag hi.txt
///
/// A tag is a line vault:vN:BASE64, where N is the key version. A message may have any size: it is
/// streamed to the service. With --verify, exits 0 if the tag belongs to the file and 1 if not.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version for the tag [default: the newest]
    #[arg(long = "version", value_name = "VERSION", conflicts_with = "verify")]
    number: Option<u32>,
    /// Verify the tag in this file; `-` is standard input
    #[arg(long, value_name = "TAG", conflicts_with = "out")]
    verify: Option<PathBuf>,
    /// File with the message; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    out: OutputArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Some(tag) = &args.verify else {
        let ask = || {
            let (key, version, tenant) = (args.key.clone(), args.number, None);
            Ok(match files::open(&args.file, SHORT_MAX)? {
                Input::Short(message) => {
                    let message = Secret::of_bytes(&message);
                    client()?.hmac(&Hmac { key, tenant, version, message })?
                }
                Input::Long(mut message, length) => {
                    let what = StreamRequest { key, version, ..StreamRequest::default() };
                    client()?.hmac_stream(&what, &mut message, length)?
                }
            })
        };
        let result = |made: &Tagged| line(made.version, &made.tag);
        return args.out.put(&args.file, OutputForm::Line, ask, result);
    };
    files::one_standard_input(&[
        ("--verify", files::is_standard_input(tag)),
        ("FILE", files::is_standard_input(&args.file)),
    ])?;
    let (version, tag) = read_line(tag)?;
    let (key, version, tenant) = (args.key, Some(version), None);
    let verified = match files::open(&args.file, SHORT_MAX)? {
        Input::Short(message) => {
            let message = Secret::of_bytes(&message);
            client()?.verify_hmac(&HmacVerify { key, tenant, version, message, tag })?
        }
        Input::Long(mut message, length) => {
            let what = StreamRequest { key, version, ..StreamRequest::default() };
            client()?.verify_hmac_stream(&what, &tag, &mut message, length)?
        }
    };
    match (args.out.is_json(), verified.valid) {
        (true, valid) => {
            say_json(&verified)?;
            Ok(if valid { 0 } else { 1 })
        }
        (false, true) => {
            say!("the tag verifies, by {}", verified.by);
            Ok(0)
        }
        (false, false) => Err(Failure::No(format!("the tag is not valid for {}", verified.by))),
    }
}

//! `gabion kms jwt`: signs and verifies JSON Web Tokens with a key of the service.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use gabion_kms_server::Unique;
use gabion_kms_wire::native::{SignJwt, VerifyJwt};
use serde_json::{Map, Value};

use super::period::{lifetime, period};
use super::{client, say_json};
use crate::failure::Failure;
use crate::files;

/// Sign and verify JSON Web Tokens with a key of the service
///
/// Example:
///   gabion kms key create login --algorithm ECDSA-P-256 --jwt-max-lifetime 1h
///   gabion kms jwt sign --key login --claim sub=alice --lifetime 15m > login.jwt
///   gabion kms jwt verify --key login login.jwt
///
/// The key determines the algorithm of the token: EdDSA, ES256, ES384, ES512, PS256 or ML-DSA (RFC
/// 9964).
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Print JSON: the service's answer on one line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Print a signed token
    ///
    /// Example:
    ///   gabion kms key create login --algorithm ECDSA-P-256
    ///   echo '{"iss": "https://id.example.com", "aud": ["web", "api"]}' > claims.json
    ///   gabion kms jwt sign --key login --claim sub=alice --lifetime 15m claims.json
    ///
    /// The token needs an expiry: --lifetime, or the claim exp. The lifetime is limited to
    /// --jwt-max-lifetime of the key, or one day if the key does not set it. Tokens larger than 4
    /// KiB, which includes all tokens of ML-DSA-65 and ML-DSA-87, are printed with a warning.
    #[command(verbatim_doc_comment)]
    Sign(Sign),
    /// Verify a token and print its claims
    ///
    /// Example:
    ///   gabion kms key create login --algorithm ECDSA-P-256
    ///   gabion kms jwt sign --key login --claim aud=web --lifetime 15m > login.jwt
    ///   gabion kms jwt verify --key login --audience web login.jwt
    ///
    /// Exits 0 if the token is valid. Otherwise prints the reason and exits 1. The algorithm is
    /// that of the key, not the one in the token's header.
    #[command(verbatim_doc_comment)]
    Verify(Verify),
}

#[derive(clap::Args)]
struct Sign {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Key version that signs [default: the newest]
    #[arg(long = "version", value_name = "VERSION")]
    number: Option<u32>,
    /// Lifetime of the token, such as 15m or 12h; sets iat and exp
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    lifetime: Option<u64>,
    /// A claim with a string value, in addition to those of FILE; may be given several times
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = claim)]
    claims: Vec<(String, String)>,
    /// Set nbf to the current time
    #[arg(long)]
    nbf: bool,
    /// Set jti to a random value
    #[arg(long)]
    jti: bool,
    /// Type in the token's header, such as at+jwt [default: JWT]
    #[arg(long, value_name = "TYPE")]
    typ: Option<String>,
    /// File with the claims as a JSON object; `-` is standard input [default: only those of
    /// --claim]
    file: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Verify {
    /// The key, by name or id
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Required issuer [default: any]
    #[arg(long, value_name = "ISSUER")]
    issuer: Option<String>,
    /// Expected audience. Required to accept a token that names audiences
    #[arg(long, value_name = "AUDIENCE")]
    audience: Option<String>,
    /// Required type [default: JWT]
    #[arg(long, value_name = "TYPE")]
    typ: Option<String>,
    /// Accepted clock difference between issuer and service, at most 60s [default: 0]
    #[arg(long, value_name = "TIME", value_parser = period)]
    leeway: Option<u64>,
    /// File with the token; `-` is standard input
    #[arg(value_name = "TOKEN", default_value = "-")]
    token: PathBuf,
}

fn claim(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Sign(asked) => sign(args.json, asked),
        Command::Verify(asked) => verify(args.json, asked),
    }
}

fn sign(json: bool, asked: Sign) -> Result<u8, Failure> {
    let claims = all_claims(asked.file.as_deref(), asked.claims)?;
    let signed = client()?.sign_jwt(&SignJwt {
        key: asked.key,
        tenant: None,
        version: asked.number,
        claims,
        typ: asked.typ,
        lifetime_s: asked.lifetime,
        with_nbf: Some(true).filter(|_| asked.nbf),
        with_jti: Some(true).filter(|_| asked.jti),
    })?;
    for warning in signed.warnings.iter().flatten() {
        eprintln!("warning: {warning}");
    }
    if json {
        say_json(&signed)?;
    } else {
        say!("{}", signed.token);
    }
    Ok(0)
}

/// Merges the claims of the file and the command line. Duplicates are rejected, because readers
/// would disagree on which one counts.
fn all_claims(
    file: Option<&Path>,
    texts: Vec<(String, String)>,
) -> Result<Map<String, Value>, Failure> {
    let mut claims = match file {
        None => Map::new(),
        Some(file) => {
            let bytes = files::read(file, files::SMALL_MAX)?;
            let name = files::shown(file, "standard input");
            let refused = |why: String| {
                Failure::Usage(format!(
                    "cannot read claims from {name}: {why}; expected a JSON object"
                ))
            };
            match serde_json::from_slice(files::without_mark(&bytes)) {
                Ok(Unique(Value::Object(claims))) => claims,
                Ok(Unique(_)) => return Err(refused("the value is not an object".to_owned())),
                Err(error) => return Err(refused(error.to_string())),
            }
        }
    };
    for (name, text) in texts {
        if claims.contains_key(&name) {
            return Err(Failure::Usage(format!(
                "duplicate claim `{name}`; expected each claim once"
            )));
        }
        claims.insert(name, text.into());
    }
    Ok(claims)
}

fn verify(json: bool, asked: Verify) -> Result<u8, Failure> {
    let bytes = files::read(&asked.token, files::SMALL_MAX)?;
    let name = files::shown(&asked.token, "standard input");
    let token = std::str::from_utf8(&bytes).map_err(|_| {
        Failure::Usage(format!("{name} is not a JSON Web Token; expected one line of text"))
    })?;
    let verified = client()?.verify_jwt(&VerifyJwt {
        key: asked.key,
        tenant: None,
        token: token.trim_end().to_owned(),
        issuer: asked.issuer,
        audience: asked.audience,
        typ: asked.typ,
        leeway_s: asked.leeway,
    })?;
    if json {
        say_json(&verified)?;
        return Ok(if verified.valid { 0 } else { 1 });
    }
    match (verified.claims, verified.reason) {
        (Some(claims), _) if verified.valid => {
            say_json(&claims)?;
            Ok(0)
        }
        (_, reason) => {
            let reason = reason.unwrap_or_default();
            Err(Failure::No(format!("the token is not valid: {}", words(&reason))))
        }
    }
}

/// Describes a reason code of the service.
fn words(reason: &str) -> &str {
    match reason {
        "header" => "its header has a parameter other than `alg`, `kid` and `typ`",
        "alg" => "its `alg` is not the key's",
        "kid" => "its `kid` is not a version of the key",
        "version" => "the version that it names does not exist, is disabled or may not verify",
        "signature" => "its signature is wrong",
        "claims" => "its claims are malformed, or lack `exp`",
        "typ" => "it has another type; --typ names the one to expect",
        "expired" => "it has expired",
        "not_yet_valid" => "it is not valid yet",
        "issuer" => "it is from another issuer",
        "audience" => "it is for another audience; --audience names the one to expect",
        other => other,
    }
}

//! `gabion kms token`: creates, restricts and revokes tokens.

use clap::Subcommand;
use gabion_kms_server::rfc3339;
use gabion_kms_wire::native::CreateToken;
use serde_json::json;
use zeroize::Zeroizing;

use super::period::lifetime;
use super::token_family::revoke_family;
use super::{client, say_json};
use crate::failure::Failure;

/// Create, restrict and revoke tokens
///
/// Example:
///   gabion kms token create ci --caveat actions=sign,verify --caveat key_prefix=web- --lifetime 30d
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
    /// Create a token
    ///
    /// Example:
    ///   gabion kms token create ci --caveat actions=sign,verify --lifetime 30d
    ///
    /// The new token cannot exceed the permissions or the lifetime of the token that creates it: a
    /// --lifetime that ends later is rejected. Prints the expiry to standard error.
    #[command(verbatim_doc_comment)]
    Create {
        /// Principal of the token
        principal: String,
        /// A restriction: tenant=T, key_prefix=P, actions=A,B, cidr=C, cnf=SHA256, batch_max=N,
        /// expires=TIME (RFC 3339); may be given several times
        #[arg(long = "caveat", value_name = "CAVEAT")]
        caveats: Vec<String>,
        /// Lifetime of the token, such as 12h or 30d, or seconds [default: set by the server, one
        /// day unless configured]
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        lifetime: Option<u64>,
    },
    /// Restrict the token in GABION_KMS_TOKEN further, without the service
    ///
    /// Example:
    ///   gabion kms token attenuate actions=verify
    #[command(verbatim_doc_comment)]
    Attenuate {
        /// A restriction, as for `create`
        #[arg(value_name = "CAVEAT", required = true)]
        caveats: Vec<String>,
    },
    /// Revoke a token and all its attenuations
    ///
    /// Example:
    ///   id=$(gabion kms token create ci --json | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')
    ///   gabion kms token revoke "$id"
    ///
    /// Tokens that its holders created with `token create` have ids of their own and stay valid.
    /// With --children, those are revoked too, and all tokens created by them, as recorded in the
    /// audit log. This also needs the action `audit`.
    #[command(verbatim_doc_comment)]
    Revoke {
        /// Id of the token
        id: String,
        /// Also revoke the tokens created by it
        #[arg(long)]
        children: bool,
    },
}

/// Prints the token's expiry to standard error; standard output has only the token.
fn say_end(expires_ms: Option<u64>) {
    if let Some(ms) = expires_ms {
        eprintln!("the token ends at {}", rfc3339(ms));
    }
}

/// Warns if the certificate that a token is bound to expires before the token.
pub(super) fn warn_of_certificate(pem: Option<&[u8]>, token_ms: Option<u64>) {
    let certificate_ms = pem.and_then(gabion_kms_server::certificate_end_ms);
    if let Some(ms) = certificate_ms.filter(|end| token_ms.is_some_and(|token| *end < token)) {
        eprintln!(
            "warning: the token is bound to a certificate that expires at {}; make a token for the next certificate before that",
            rfc3339(ms)
        );
    }
}

/// Returns the token of the environment with additional caveats.
fn attenuate(caveats: &[String]) -> Result<Zeroizing<String>, Failure> {
    let token = std::env::var("GABION_KMS_TOKEN").map(Zeroizing::new);
    let token = token.map_err(|_| Failure::Usage("GABION_KMS_TOKEN is not set".to_owned()))?;
    let limited = gabion_kms_server::attenuate_token(&token, caveats);
    Ok(limited.map_err(gabion_kms_server::Error::from)?)
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    match args.command {
        Command::Create { principal, caveats, lifetime } => {
            let asked = CreateToken { principal, caveats: Some(caveats), lifetime_s: lifetime };
            let made = client()?.create_token(&asked)?;
            if args.json {
                say_json(&made)?;
            } else {
                say!("{}", made.token.expose());
                say_end(Some(made.expires_ms));
            }
        }
        Command::Attenuate { caveats } => {
            let token = attenuate(&caveats)?;
            if args.json {
                say_json(&json!({"token": *token}))?;
            } else {
                say!("{}", *token);
                say_end(gabion_kms_server::expires_ms(&token));
            }
        }
        Command::Revoke { id, children: true } => revoke_family(&client()?, id, args.json)?,
        Command::Revoke { id, children: false } => {
            let changed = client()?.revoke_token(&id)?;
            if args.json {
                say_json(&changed)?;
            } else {
                say!("the token is revoked, with all its attenuations");
            }
        }
    }
    Ok(0)
}

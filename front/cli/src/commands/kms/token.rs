//! `gabion kms token`: who may do what.

use clap::Subcommand;
use gabion_kms_server::rfc3339;
use gabion_kms_wire::native::CreateToken;
use serde_json::json;
use zeroize::Zeroizing;

use super::period::lifetime;
use super::token_family::revoke_family;
use super::{client, say_json};
use crate::failure::Failure;

/// Make, limit and revoke tokens
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
    /// Make a token
    ///
    /// Example:
    ///   gabion kms token create ci --caveat actions=sign,verify --lifetime 30d
    ///
    /// It may do no more than the token that makes it, and not for longer: a --lifetime that ends later is refused. Prints to
    /// standard error when it ends.
    #[command(verbatim_doc_comment)]
    Create {
        /// What whoever has it is called
        principal: String,
        /// What it is limited to: tenant=T, key_prefix=P, actions=A,B, cidr=C, cnf=SHA256, batch_max=N, expires=TIME (RFC 3339);
        /// several times for several
        #[arg(long = "caveat", value_name = "CAVEAT")]
        caveats: Vec<String>,
        /// How long it lives, such as 12h or 30d, or seconds [default: as the server is configured, a day]
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        lifetime: Option<u64>,
    },
    /// Limit the token of GABION_KMS_TOKEN further, without the service
    ///
    /// Example:
    ///   gabion kms token attenuate actions=verify
    #[command(verbatim_doc_comment)]
    Attenuate {
        /// What it is limited to, as for `create`
        #[arg(value_name = "CAVEAT", required = true)]
        caveats: Vec<String>,
    },
    /// Revoke a token with all its attenuations
    ///
    /// Example:
    ///   id=$(gabion kms token create ci --json | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')
    ///   gabion kms token revoke "$id"
    ///
    /// Tokens that its holders made by `token create` have ids of their own and stay valid. With --children they are revoked,
    /// too, and those that these made, as the audit log tells of them. That takes the action `audit` besides.
    #[command(verbatim_doc_comment)]
    Revoke {
        /// Its id
        id: String,
        /// Revoke the tokens that were made by it, too
        #[arg(long)]
        children: bool,
    },
}

/// Prints to standard error when a token ends. Standard output has only the token.
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

/// The token of the environment, limited.
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

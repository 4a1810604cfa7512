//! `gabion kms recover-admin`: a new administrator, by the recovery set.

use std::path::PathBuf;

use gabion_kms_client::wire::RecoverAdmin;

use super::seal::text;
use super::{client, say_json};
use crate::failure::Failure;
use crate::files;

/// Replace the administrators: give shares of the recovery set for a new token
///
/// Example:
///   gabion kms recover-admin --certificate admin.pem < share.txt
///
/// Reads shares from standard input, one a line; what several people give one after the other counts together. The last
/// one that is needed prints a token that may do everything, and no token of before is one any more. Each of them names
/// the same certificate, to which the token is bound.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// PEM of the client certificate that the token is to be bound to
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// What the new administrator is called [default: first]
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Forget the shares that were given before
    #[arg(long)]
    reset: bool,
    /// File with shares, one a line; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    shares: PathBuf,
    /// Print the service's answer as one JSON object: given, threshold, token
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let client = client()?;
    let read = |path: &PathBuf| files::read(path, files::SMALL_MAX);
    let cnf = match &args.certificate {
        Some(path) => Some(gabion_kms_server::cnf(&read(path)?)?),
        None => None,
    };
    let mut how = None;
    if args.reset {
        let forget = RecoverAdmin { reset: Some(true), ..RecoverAdmin::default() };
        how = Some(client.recover_admin(&forget)?);
    } else {
        let shares = text(&read(&args.shares)?)?;
        for share in shares.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (share, principal) = (Some(share.to_owned().into()), args.principal.clone());
            let by = RecoverAdmin { share, principal, cnf: cnf.clone(), reset: None };
            let recovering = client.recover_admin(&by)?;
            let is_done = recovering.token.is_some();
            how = Some(recovering);
            if is_done {
                break;
            }
        }
    }
    let how = how.ok_or_else(|| Failure::Usage("there is no share".to_owned()))?;
    match (args.json, &how.token, how.threshold) {
        (true, _, _) => say_json(&how)?,
        (false, Some(token), _) => say!("token  {}", token.expose()),
        (false, None, Some(threshold)) => say!("{} of {threshold} shares are there", how.given),
        (false, None, None) => say!("no share is there"),
    }
    Ok(0)
}

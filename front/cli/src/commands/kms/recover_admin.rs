//! `gabion kms recover-admin`: replaces the administrators with the recovery set.

use std::path::{Path, PathBuf};

use gabion_kms_wire::native::{RecoverAdmin, Recovering};

use super::period::lifetime;
use super::seal::{shares_of, text};
use super::token::warn_of_certificate;
use super::{client, say_json};
use crate::failure::Failure;
use crate::files;

/// Replace the administrators: enter shares of the recovery set to get a new token
///
/// Example:
///   gabion kms recover-admin --certificate admin.pem < share.txt
///
/// Reads shares from standard input, one per line. Shares that several people enter one after the
/// other are combined; the last one needed prints an administrator token and invalidates all
/// existing tokens. All must specify the same certificate; the token is bound to it.
///
/// Policies do not apply to the new token during its lifetime but stay in force for all other
/// callers. The answer lists the policies that permit a principal to change policies or make
/// tokens: delete those that you do not recognise.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// PEM file with the client certificate to bind the token to
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Principal of the new administrator [default: first]
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// Lifetime of the token, such as 30d, or seconds; the same for all shares [default: 90d, or
    /// the server's maximum if that is shorter]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    lifetime: Option<u64>,
    /// Discard the shares entered so far. Without FILE, this needs the server's own socket or a
    /// client certificate
    #[arg(long)]
    reset: bool,
    /// File with shares, one per line; `-` is standard input [default: `-`, unless --reset is
    /// given]
    #[arg(value_name = "FILE")]
    shares: Option<PathBuf>,
    /// Print the service's answer as one JSON object: given, threshold, token, expires_ms,
    /// overrides_policies, permits
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let client = client()?;
    let read = |path: &Path| files::read(path, files::SMALL_MAX);
    let certificate = args.certificate.as_deref().map(read).transpose()?;
    let certificate = certificate.as_ref().map(|pem| &pem[..]);
    let cnf = certificate.map(gabion_kms_server::cnf).transpose()?;
    let mut how = None;
    let reset = Some(true).filter(|_| args.reset);
    if let (None, true) = (&args.shares, args.reset) {
        how = Some(client.recover_admin(&RecoverAdmin { reset, ..RecoverAdmin::default() })?);
    } else {
        let shares = text(&read(args.shares.as_deref().unwrap_or(Path::new("-")))?)?;
        for share in shares_of(&shares) {
            let (share, principal) = (Some(share.to_owned().into()), args.principal.clone());
            // Only the first share discards the earlier ones.
            let reset = reset.filter(|_| how.is_none());
            let (cnf, lifetime_s) = (cnf.clone(), args.lifetime);
            let by = RecoverAdmin { share, principal, cnf, lifetime_s, reset };
            let recovering = client.recover_admin(&by)?;
            let is_done = recovering.token.is_some();
            how = Some(recovering);
            if is_done {
                break;
            }
        }
    }
    let how = how.ok_or_else(|| Failure::Usage("no share was given".to_owned()))?;
    if how.token.is_some() {
        warn_of_certificate(certificate, how.expires_ms);
    }
    match (args.json, &how.token, how.threshold) {
        (true, _, _) => say_json(&how)?,
        (false, Some(token), _) => {
            say!("token  {}", token.expose());
            if let Some(ms) = how.expires_ms {
                say!("ends   {}", gabion_kms_server::rfc3339(ms));
            }
            say_overridden(&how)?;
        }
        (false, None, Some(threshold)) => say!("{} of {threshold} shares are entered", how.given),
        (false, None, None) => say!("no share is entered"),
    }
    Ok(0)
}

/// Prints that policies do not apply to the token, and the policies that permit administration to
/// other principals.
fn say_overridden(how: &Recovering) -> Result<(), Failure> {
    if how.overrides_policies != Some(true) {
        return Ok(());
    }
    say!("policies do not apply to this token until it ends; they are unchanged");
    let permits = how.permits.as_deref().unwrap_or_default();
    if permits.is_empty() {
        say!("no policy permits a principal to change policies or make tokens");
        return Ok(());
    }
    say!("these policies permit administration; delete those that you do not recognise:");
    for permit in permits {
        let conditions = if permit.conditional { " (under conditions)" } else { "" };
        let actions = permit.actions.join(", ");
        say!("  {}  {}  {actions}{conditions}", permit.policy, permit.principal);
    }
    if let Some(more) = how.more_permits {
        say!("  and {more} more: `gabion kms policy list`");
    }
    Ok(())
}

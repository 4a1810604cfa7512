//! `gabion kms status`: shows the status of the service.

use super::{client, say_json};
use crate::failure::Failure;

/// Show the status of the service
///
/// Example:
///   gabion kms status
///
/// Exits 3 if the service is sealed or does not answer. Needs no token.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print the service's answer as one JSON object: version, initialized, sealed, store,
    /// incarnation, revision, warnings
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let status = client()?.status()?;
    if args.json {
        say_json(&status)?;
    } else {
        say!("version      {}", status.version);
        say!("initialized  {}", if status.initialized { "yes" } else { "no" });
        say!("sealed       {}", if status.sealed { "yes" } else { "no" });
        say!("store        {} ({} times restored)", status.store, status.incarnation);
        if let Some(revision) = status.revision {
            say!("revision     {revision}");
        }
        for warning in status.warnings.iter().flatten() {
            say!("warning      {warning}");
        }
    }
    Ok(if status.sealed { 3 } else { 0 })
}

//! `gabion kms policy`: manages Cedar policies.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use gabion_kms_wire::native::CheckPolicy;

use super::{client, say_json};
use crate::failure::Failure;
use crate::files;

/// Manage and check the Cedar policies that decide who may do what
///
/// Example:
///   echo 'permit(principal is Token, action, resource);' > all.cedar
///   gabion kms policy put all all.cedar
///
/// docs/guide/kms.md lists the principals, actions and attributes that policies can use. All policy
/// sets apply together.
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
    /// Write a policy set
    ///
    /// Example:
    ///   echo 'permit(principal == Token::"ci", action == Action::"sign", resource);' > build.cedar
    ///   echo 'permit(principal == Token::"dev", action, resource);' >> build.cedar
    ///   gabion kms policy put build build.cedar
    ///
    /// Replaces a set of the same name. A set that would prevent you from changing policies again
    /// is rejected.
    #[command(verbatim_doc_comment)]
    Put {
        /// Name of the policy set
        name: String,
        /// File with the policies
        file: PathBuf,
    },
    /// Print a policy set
    ///
    /// Example:
    ///   echo 'permit(principal is Token, action, resource);' > all.cedar
    ///   gabion kms policy put all all.cedar
    ///   gabion kms policy show all
    #[command(verbatim_doc_comment)]
    Show {
        /// Name of the policy set
        name: String,
    },
    /// List the policy sets
    ///
    /// Example:
    ///   gabion kms policy list
    #[command(verbatim_doc_comment)]
    List,
    /// Delete a policy set
    ///
    /// Example:
    ///   echo 'permit(principal is Token, action, resource);' > all.cedar
    ///   gabion kms policy put all all.cedar
    ///   gabion kms policy delete all
    #[command(verbatim_doc_comment)]
    Delete {
        /// Name of the policy set
        name: String,
    },
    /// Check policies without writing them, or ask whether a request is allowed
    ///
    /// Example:
    ///   echo 'permit(principal is Token, action, resource);' > all.cedar
    ///   gabion kms policy check --file all.cedar --name all --principal ci --action sign --key release
    ///
    /// Without --principal and --action, only the policy text is checked. Caveats of tokens apply
    /// in addition to the policies. Exits 1 if the answer is no.
    #[command(verbatim_doc_comment)]
    Check {
        /// Policies to check in place of the active set NAME; they are not written
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Name of the set that the file would replace
        #[arg(long, value_name = "NAME", requires = "file")]
        name: Option<String>,
        /// Principal of the request: that of a token, or the URI or DNS name of a certificate
        #[arg(long, value_name = "PRINCIPAL", requires = "action")]
        principal: Option<String>,
        /// The principal authenticates with a certificate only, without a token
        #[arg(long, requires = "principal")]
        certificate: bool,
        /// Action of the request, such as sign
        #[arg(long, value_name = "ACTION", requires = "principal")]
        action: Option<String>,
        /// Key of the request, by name
        #[arg(long, value_name = "KEY", requires = "principal")]
        key: Option<String>,
        /// Tenant of the key
        #[arg(long, value_name = "TENANT", requires = "principal")]
        tenant: Option<String>,
        /// Source address of the request
        #[arg(long, value_name = "ADDRESS", requires = "principal")]
        address: Option<String>,
    },
}

/// Maximum size of a policy file; the limit of the service is lower.
const TEXT_MAX: u64 = 1 << 20;

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let client = client()?;
    match args.command {
        Command::Put { name, file } => {
            let changed = client.put_policy(&name, &read(&file)?)?;
            match args.json {
                true => say_json(&changed)?,
                false => say!("{name} is in force, version {}", changed.version),
            }
        }
        Command::Show { name } => {
            let set = client.policy(&name)?;
            match args.json {
                true => say_json(&set)?,
                false => say!("{}", set.text.unwrap_or_default().trim_end()),
            }
        }
        Command::List => {
            let sets = client.policies()?;
            if args.json {
                say_json(&sets)?;
            } else {
                for set in sets.sets {
                    say!("{}  version {}  policies {}", set.name, set.version, set.policies);
                }
            }
        }
        Command::Delete { name } => {
            let changed = client.delete_policy(&name)?;
            match args.json {
                true => say_json(&changed)?,
                false => say!("{name} is deleted"),
            }
        }
        Command::Check { file, name, principal, certificate, action, key, tenant, address } => {
            let text = file.as_deref().map(read).transpose()?;
            if text.is_none() && principal.is_none() {
                let why = "there is nothing to check; expected --file, or --principal and --action";
                return Err(Failure::Usage(why.to_owned()));
            }
            let method = certificate.then(|| "certificate".to_owned());
            let items = None;
            let asked =
                CheckPolicy { name, text, principal, method, action, key, tenant, address, items };
            let said = client.check_policy(&asked)?;
            if args.json {
                say_json(&said)?;
            } else {
                match said.allowed {
                    None => say!("the policies can be taken"),
                    Some(is_allowed) => {
                        let word = if is_allowed { "allowed" } else { "denied" };
                        say!("{}", format!("{word}  {}", said.policies.join(" ")).trim_end());
                    }
                }
                for error in &said.errors {
                    say!("{error}");
                }
            }
            return Ok(u8::from(said.allowed == Some(false)));
        }
    }
    Ok(0)
}

fn read(file: &Path) -> Result<String, Failure> {
    let bytes = files::read(file, TEXT_MAX)?;
    let no_text =
        |_| Failure::Usage(format!("{} holds no text", files::shown(file, "standard input")));
    String::from_utf8(bytes.to_vec()).map_err(no_text)
}

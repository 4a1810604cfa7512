//! `gabion kms policy`: who may do what, by Cedar's policies.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use gabion_kms_wire::native::CheckPolicy;

use super::{client, say_json};
use crate::failure::Failure;
use crate::files;

/// Say who may do what, by policies
///
/// Example:
///   echo 'permit(principal is Token, action, resource);' > all.cedar
///   gabion kms policy put all all.cedar
///
/// Policies are Cedar's; docs/guide/kms.md has what they may speak of. All sets are in force together.
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
    /// Write a set of policies
    ///
    /// Example:
    ///   echo 'permit(principal == Token::"ci", action == Action::"sign", resource);' > build.cedar
    ///   echo 'permit(principal == Token::"dev", action, resource);' >> build.cedar
    ///   gabion kms policy put build build.cedar
    ///
    /// A set of this name is replaced. One after which you could not change policies again is refused.
    #[command(verbatim_doc_comment)]
    Put {
        /// What the set is called
        name: String,
        /// The file with the policies
        file: PathBuf,
    },
    /// Print a set of policies
    ///
    /// Example:
    ///   echo 'permit(principal is Token, action, resource);' > all.cedar
    ///   gabion kms policy put all all.cedar
    ///   gabion kms policy show all
    #[command(verbatim_doc_comment)]
    Show {
        /// What it is called
        name: String,
    },
    /// Print which sets there are
    ///
    /// Example:
    ///   gabion kms policy list
    #[command(verbatim_doc_comment)]
    List,
    /// Delete a set of policies
    ///
    /// Example:
    ///   echo 'permit(principal is Token, action, resource);' > all.cedar
    ///   gabion kms policy put all all.cedar
    ///   gabion kms policy delete all
    #[command(verbatim_doc_comment)]
    Delete {
        /// What it is called
        name: String,
    },
    /// Look at a text, or ask whether somebody may do something
    ///
    /// Example:
    ///   echo 'permit(principal is Token, action, resource);' > all.cedar
    ///   gabion kms policy check --file all.cedar --name all --principal ci --action sign --key release
    ///
    /// Without a question only the text is looked at. Caveats of tokens count besides what this says. Exits 1 where the
    /// answer is no.
    #[command(verbatim_doc_comment)]
    Check {
        /// Policies to look at instead of those of the set NAME that are in force; they are not written
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Which set the file is to be
        #[arg(long, value_name = "NAME", requires = "file")]
        name: Option<String>,
        /// Who asks: a principal of tokens, or the URI or DNS name of a certificate
        #[arg(long, value_name = "PRINCIPAL", requires = "action")]
        principal: Option<String>,
        /// The principal comes with a certificate alone, not with a token
        #[arg(long, requires = "principal")]
        certificate: bool,
        /// What is asked for, such as sign
        #[arg(long, value_name = "ACTION", requires = "principal")]
        action: Option<String>,
        /// The key, by its name
        #[arg(long, value_name = "KEY", requires = "principal")]
        key: Option<String>,
        /// Whose key it is
        #[arg(long, value_name = "TENANT", requires = "principal")]
        tenant: Option<String>,
        /// From where
        #[arg(long, value_name = "ADDRESS", requires = "principal")]
        address: Option<String>,
    },
}

/// The service takes less of a text.
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

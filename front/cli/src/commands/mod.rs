//! The commands, one module each, grouped by topic. A command parses its arguments, calls a library
//! crate and prints the result; it contains no cryptography.

pub mod bench;
mod cbom;
mod hbs;
mod inventory;
mod keys;
#[cfg(feature = "kms")]
mod kms;
mod openssl;
mod probe;
mod speed;

use clap::{CommandFactory, Subcommand};

use crate::failure::Failure;
use crate::manual;
use keys::{acvp, algorithms, decaps, derive, encaps, keygen, mu, sign, verify};
use openssl::{bundle, doctor, exec, preflight, provider};

/// The topics of `gabion --help`, with the first command of each.
const TOPICS: [(&str, &str); 6] = [
    ("algorithms", "Keys and signatures"),
    ("kms", "Key management service"),
    ("probe", "Servers and inventory"),
    ("bundle", "OpenSSL with Gabion"),
    ("speed", "Tests and measurements"),
    ("completions", "Shells"),
];

/// The end of `gabion --help`.
const MORE_HELP: &str = "
`gabion COMMAND --help` describes a command and shows an example. `gabion doctor` checks the
installation. Manual pages: man gabion, man gabion-kms-sign. Guides: docs/README.md in the source.
";

/// Lists commands by topic in the help of `program`.
pub fn by_topic(program: clap::Command) -> clap::Command {
    #[cfg(feature = "kms")]
    let program = program.mut_subcommands(|command| match command.get_name() {
        "kms" => with_topics(command, &kms::TOPICS, ""),
        _ => command,
    });
    with_topics(program, &TOPICS, MORE_HELP)
}

/// Lists the subcommands of `command` by topic in its help, which ends with `more`. Each topic
/// stands before its first subcommand.
fn with_topics(command: clap::Command, topics: &[(&str, &str)], more: &str) -> clap::Command {
    let mut list = String::new();
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let name = subcommand.get_name();
        if let Some((_, topic)) = topics.iter().find(|(first, _)| *first == name) {
            list += &format!("\n{topic}:\n");
        }
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        list += &format!("  {name:<15}{about}\n");
    }
    command.help_template(format!(
        "{{about}}{{after-help}}\n\n{{usage-heading}} {{usage}}\n{list}\nOptions:\n{{options}}\n{more}"
    ))
}

/// Every command of `gabion`, in the order of its help.
#[derive(Subcommand)]
pub enum Command {
    Algorithms(algorithms::Args),
    Keygen(keygen::Args),
    Sign(sign::Args),
    Verify(verify::Args),
    Mu(mu::Args),
    Encaps(encaps::Args),
    Decaps(decaps::Args),
    Derive(derive::Args),
    Hbs(hbs::Args),
    #[cfg(feature = "kms")]
    Kms(kms::Args),
    Probe(probe::Args),
    Inventory(inventory::Args),
    Cbom(cbom::Args),
    Bundle(bundle::Args),
    Exec(exec::Args),
    Provider(provider::Args),
    Preflight(preflight::Args),
    Doctor(doctor::Args),
    Speed(speed::Args),
    /// Run a TLS handshake, and measure its cost with and without Gabion
    Run,
    /// Measure the engine, and TLS with and without Gabion
    Bench,
    /// Write measurement results as an HTML page
    Report,
    Acvp(acvp::Args),
    #[command(after_help = manual::help_of_completions("gabion"))]
    Completions(manual::Completions),
    #[command(hide = true)]
    Man(manual::Man),
}

impl Command {
    /// Runs the command and returns its exit code.
    pub fn run(self) -> Result<u8, Failure> {
        match self {
            Command::Acvp(args) => acvp::run(args),
            Command::Algorithms(args) => algorithms::run(args),
            Command::Bench | Command::Report | Command::Run => Err(bench::execute()),
            Command::Bundle(args) => bundle::run(args),
            Command::Cbom(args) => cbom::run(args),
            Command::Completions(args) => args.run(crate::Cli::command()),
            Command::Decaps(args) => decaps::run(args),
            Command::Derive(args) => derive::run(args),
            Command::Doctor(args) => doctor::run(args),
            Command::Encaps(args) => encaps::run(args),
            Command::Exec(args) => exec::run(args),
            Command::Hbs(args) => hbs::run(args),
            Command::Inventory(args) => inventory::run(args),
            Command::Keygen(args) => keygen::run(args),
            #[cfg(feature = "kms")]
            Command::Kms(args) => kms::run(args),
            Command::Man(args) => args.run(crate::Cli::command()),
            Command::Mu(args) => mu::run(args),
            Command::Preflight(args) => preflight::run(args),
            Command::Probe(args) => probe::run(args),
            Command::Provider(args) => provider::run(args),
            Command::Sign(args) => sign::run(args),
            Command::Speed(args) => speed::run(args),
            Command::Verify(args) => verify::run(args),
        }
    }
}

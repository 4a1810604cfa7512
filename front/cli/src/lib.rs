//! The `gabion` command as a library. Tests and fuzzing reach the code that reads files (key files
//! in [`keys`], NIST's vectors in [`acvp`]); `gabion-bench` uses the failures, files and tables.
//!
//! Each command is a module of `commands` with `Args` (clap) and `run(Args) -> Result<u8,
//! Failure>`, which returns the exit code of a completed command. It parses the command line, calls
//! a library crate and encodes the answer.

#[macro_use]
pub mod stdout;

pub mod acvp;
mod commands;
pub mod failure;
pub mod ffi;
pub mod files;
pub mod keys;
pub mod manual;
pub mod openssl;
pub mod stamp;
pub mod style;
pub mod table;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, ArgAction, CommandFactory, Parser};
use failure::Failure;

/// Post-quantum cryptography for servers: keys and signatures, TLS with OpenSSL, and a KMS
#[derive(Parser)]
#[command(name = "gabion", version, disable_version_flag = true)]
#[command(arg = version_option())]
#[command(after_help = "Example:
  echo hello > file.txt
  gabion keygen ML-DSA-65 --out key.pem --pub pub.pem
  gabion sign --key key.pem --out file.sig file.txt
  gabion verify --key pub.pem --sig file.sig file.txt")]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

/// Runs the command on the process's command line and returns its exit code.
pub fn main() -> ExitCode {
    if commands::bench::is_requested() {
        return exit_code(Err(commands::bench::execute()));
    }
    if is_build_requested(std::env::args_os().skip(1)) {
        return exit_code(print_build());
    }
    start(command(), |cli: Cli| cli.command.run())
}

/// Returns the definition of the command line.
pub fn command() -> clap::Command {
    commands::by_topic(examples_first(Cli::command()))
}

/// Returns the version option. clap exits on it; [`is_build_requested`] handles its combination
/// with `--json`.
fn version_option() -> Arg {
    let help = "Print version; with --json, build information as one JSON object";
    Arg::new("version").short('V').long("version").action(ArgAction::Version).help(help)
}

/// Returns whether a command line is `--version --json`, in either order.
fn is_build_requested(line: impl Iterator<Item = OsString>) -> bool {
    let mut line: Vec<OsString> = line.collect();
    line.sort();
    line == ["--json", "--version"] || line == ["--json", "-V"]
}

fn print_build() -> Result<u8, Failure> {
    let text = serde_json::to_string(&version::Build::current());
    say!("{}", text.map_err(|cause| Failure::NotReady(cause.to_string()))?);
    Ok(0)
}

/// Parses the process's arguments by `definition`, passes them to `run` and returns the exit code.
pub fn start<C: Parser>(
    definition: clap::Command,
    run: impl FnOnce(C) -> Result<u8, Failure>,
) -> ExitCode {
    ffi::end_quietly_when_the_reader_is_gone();
    let matches = definition.try_get_matches().unwrap_or_else(complain);
    // Arguments that clap has matched can be decoded; otherwise clap prints the reason and exits
    // with 2.
    exit_code(run(C::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())))
}

/// Prints the failure, if any, and returns the exit code.
fn exit_code(result: Result<u8, Failure>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Exits with clap's message, escaping control characters in the arguments that it repeats.
fn complain(error: clap::Error) -> clap::ArgMatches {
    let is_plain = |argument: std::ffi::OsString| {
        let text = argument.to_string_lossy();
        failure::spelt(&text) == text
    };
    if !error.use_stderr() || std::env::args_os().all(is_plain) {
        error.exit();
    }
    eprint!("{}", failure::plain(&error.render().to_string()));
    std::process::exit(error.exit_code())
}

/// Puts the description and the example of every command before its options.
pub fn examples_first(command: clap::Command) -> clap::Command {
    const TEMPLATE: &str = "{about}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}\n";
    let command = command.mut_subcommands(examples_first);
    match command.get_after_help() {
        Some(_) => command.help_template(TEMPLATE),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}

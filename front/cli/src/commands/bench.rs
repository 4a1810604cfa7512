//! `gabion bench`, `gabion report` and `gabion run`: executes the program `gabion-bench`, which
//! implements them.

use std::env;
use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

/// The program, and the package that contains it.
const PROGRAM: &str = "gabion-bench";
/// The commands that `gabion-bench` implements.
const COMMANDS: [&str; 3] = ["bench", "report", "run"];

/// Returns whether the process's arguments name a command of `gabion-bench`.
pub fn is_requested() -> bool {
    let line = line();
    line.get(name_at(&line)).is_some_and(|name| COMMANDS.iter().any(|command| name == command))
}

/// Executes `gabion-bench` from this program's folder with the process's arguments. Returns only on
/// failure.
pub fn execute() -> Failure {
    let (name, arguments) = invocation(line());
    let program = match program() {
        Ok(program) => program,
        Err(cause) => {
            return Failure::NotReady(format!("this program cannot find itself: {cause}"));
        }
    };
    let cause = Command::new(&program).arg0(name).args(&arguments).exec();
    let program = program.display();
    Failure::NotReady(match cause.kind() {
        ErrorKind::NotFound => format!(
            "{program} is missing, and it has this command; build the package {PROGRAM} (`cargo build --release \
             --package {PROGRAM}`), or install both programs with `make install`"
        ),
        _ => format!("cannot run {program}: {cause}"),
    })
}

/// Returns the process's arguments.
fn line() -> Vec<OsString> {
    env::args_os().skip(1).collect()
}

/// Returns the position of the command name, after `help` if the line starts with it.
fn name_at(line: &[OsString]) -> usize {
    usize::from(line.first().is_some_and(|first| first == "help"))
}

/// Returns the program name that `gabion-bench` shows in its help, and its arguments.
fn invocation(mut line: Vec<OsString>) -> (&'static str, Vec<OsString>) {
    let at = name_at(&line);
    if line.get(at).is_some_and(|name| name == "bench") {
        line.remove(at);
        return ("gabion bench", line);
    }
    ("gabion", line)
}

/// Returns the path of `gabion-bench` in the folder of this program, with symbolic links resolved.
fn program() -> Result<PathBuf, Error> {
    Ok(env::current_exe()?.canonicalize()?.with_file_name(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_passed_on_without_the_name_bench() {
        for (line, name, arguments) in [
            ("bench tls --json", "gabion bench", "tls --json"),
            ("bench --help", "gabion bench", "--help"),
            ("help bench tls", "gabion bench", "help tls"),
            ("run --seconds 1", "gabion", "run --seconds 1"),
            ("report -- -x bench", "gabion", "report -- -x bench"),
            ("help report", "gabion", "help report"),
        ] {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(invocation(words(line)), (name, words(arguments)), "{line}");
        }
    }
}

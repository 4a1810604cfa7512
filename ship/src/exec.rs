//! Runs a command in the bundle's environment, after the guard has checked it.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::environment::{FipsMode, Settings};
use crate::{Error, Result, preflight, program};

/// The reason why a command did not start.
#[derive(Debug)]
pub enum ExecFailure {
    /// The guard refused it.
    Refused(Error),
    /// The command does not exist (127 in a shell).
    NotFound(String),
    /// The command cannot be executed (126 in a shell).
    NotExecutable(String),
}

/// Replaces this process by `program` in the bundle's environment, after running the guard.
///
/// # Errors
/// Returns only if the command could not be started.
pub fn exec(
    settings: &Settings,
    program: &OsStr,
    arguments: &[OsString],
) -> std::result::Result<Infallible, ExecFailure> {
    settings.require_bundle().map_err(ExecFailure::Refused)?;
    guard(settings).map_err(ExecFailure::Refused)?;
    let variables = settings.variables(settings.mode);
    guard_program(settings, program, &variables).map_err(ExecFailure::Refused)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(variables);
    let cause = command.exec();
    let text = format!("cannot run {}: {cause}", Path::new(program).display());
    Err(if cause.kind() == std::io::ErrorKind::NotFound {
        ExecFailure::NotFound(text)
    } else {
        ExecFailure::NotExecutable(text)
    })
}

/// Checks the FIPS provider as the mode requires, and prints warnings to stderr.
///
/// # Errors
/// [`Error::NotReady`] in mode `only` if the FIPS provider does not serve all required algorithms.
pub fn guard(settings: &Settings) -> Result<()> {
    if settings.mode == FipsMode::Off {
        return Ok(());
    }
    if settings.skip_guard {
        eprintln!(
            "warning: GABION_OPENSSL_SKIP_FIPS_GUARD=1: mode is `{}`, but the FIPS provider was \
             not checked",
            settings.mode
        );
        return Ok(());
    }
    let report = preflight::run(settings);
    if report.ok {
        for note in report.notes() {
            eprintln!("note: {note}");
        }
        return Ok(());
    }
    let problems = report.problems.join("\n       ");
    if settings.mode == FipsMode::Only {
        return Err(Error::NotReady(format!(
            "{problems}\n       mode is `only`, so nothing was started. Rebuild with \
             `gabion bundle build --repair`, or see docs/guide/fips.md"
        )));
    }
    eprintln!("warning: {problems}\n         mode is `ready`, so the command starts all the same");
    Ok(())
}

/// Checks the program as the mode requires, and prints warnings to stderr. The checks of [`guard`]
/// apply only to programs that load the bundle's libcrypto.
///
/// # Errors
/// [`Error::NotReady`] in mode `only` if the program would load another libcrypto or ignore the
/// environment.
fn guard_program(
    settings: &Settings,
    program: &OsStr,
    variables: &[(&str, OsString)],
) -> Result<()> {
    if settings.mode == FipsMode::Off || settings.skip_guard {
        return Ok(());
    }
    let findings = program::look(program, &settings.layout, variables);
    if settings.mode == FipsMode::Only && !findings.against.is_empty() {
        return Err(Error::NotReady(format!(
            "{}\n       mode is `only`, so nothing was started; see docs/guide/fips.md",
            findings.against.join("\n       ")
        )));
    }
    for warning in findings.against.iter().chain(&findings.unseen) {
        eprintln!("warning: {warning}");
    }
    Ok(())
}

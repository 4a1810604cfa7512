//! Password sources for encrypted keys, as for openssl's `-passin`.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::files;

/// Maximum length of a password in a file, in bytes; the same as in openssl.
const PASSWORD_MAX: u64 = 1024;

/// A password source on the command line.
#[derive(Clone)]
pub enum PassIn {
    /// `pass:TEXT`: the text itself, visible to all users who can list processes.
    Text(Zeroizing<String>),
    /// `env:NAME`: an environment variable.
    Variable(String),
    /// `file:PATH`: the first line of a file.
    File(PathBuf),
    /// `fd:NUMBER`: the first line of an open file descriptor.
    Descriptor(u32),
    /// `stdin`: the first line of standard input.
    Stdin,
}

impl FromStr for PassIn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("pass", rest)) => Ok(PassIn::Text(Zeroizing::new(rest.to_owned()))),
            Some(("env", rest)) if !rest.is_empty() => Ok(PassIn::Variable(rest.to_owned())),
            Some(("file", rest)) if !rest.is_empty() => Ok(PassIn::File(PathBuf::from(rest))),
            Some(("fd", rest)) => rest
                .parse()
                .map(PassIn::Descriptor)
                .map_err(|_| format!("fd:{rest} names no file descriptor; expected a number")),
            None if text == "stdin" => Ok(PassIn::Stdin),
            // The text is not repeated in the message: it may be the password itself.
            _ => Err("expected pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin".to_owned()),
        }
    }
}

impl PassIn {
    /// Returns whether the password is read from standard input.
    pub fn is_stdin(&self) -> bool {
        match self {
            PassIn::Stdin | PassIn::Descriptor(0) => true,
            PassIn::File(path) => files::is_standard_input(path) && !files::is_dash(path),
            _ => false,
        }
    }

    /// Returns the file that the password is read from.
    pub fn file(&self) -> Option<&Path> {
        match self {
            PassIn::File(path) => Some(path),
            _ => None,
        }
    }

    /// Reads the password.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the source cannot be read.
    pub fn password(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let cannot = |what: &str, cause: std::io::Error| {
            Failure::Usage(format!(
                "cannot read the password from {what}: {}",
                files::words(&cause)
            ))
        };
        match self {
            PassIn::Text(text) => Ok(Zeroizing::new(text.as_bytes().to_vec())),
            PassIn::Variable(name) => match std::env::var_os(name) {
                Some(value) => Ok(Zeroizing::new(std::os::unix::ffi::OsStringExt::into_vec(value))),
                None => Err(Failure::Usage(format!(
                    "no environment variable {name}, from which --passin takes the password"
                ))),
            },
            PassIn::File(path) => std::fs::File::open(path)
                .and_then(first_line)
                .map_err(|cause| cannot(&files::shown(path, "-"), cause)),
            PassIn::Descriptor(number) => std::fs::File::open(format!("/proc/self/fd/{number}"))
                .and_then(first_line)
                .map_err(|cause| cannot(&format!("file descriptor {number}"), cause)),
            PassIn::Stdin => {
                first_line(std::io::stdin().lock()).map_err(|cause| cannot("standard input", cause))
            }
        }
    }
}

/// Reads the first line, without its line break.
fn first_line(source: impl Read) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut line = Zeroizing::new(Vec::with_capacity(PASSWORD_MAX as usize));
    BufReader::new(source.take(PASSWORD_MAX)).read_until(b'\n', &mut line)?;
    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        line.pop();
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_sources_are_parsed() {
        let password = |text: &str| text.parse::<PassIn>().unwrap().password();
        assert_eq!(*password("pass:a:b").unwrap(), b"a:b");
        assert_eq!(*password("pass:").unwrap(), b"");
        assert!(password("env:GABION_NO_SUCH_VARIABLE").is_err());
        assert!(password("file:/no/such/file").is_err());
        for bad in ["secret", "env:", "fd:x", "fd:-1", "stdin:", ""] {
            let error = bad.parse::<PassIn>().err().unwrap();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_the_first_line_counts() {
        assert_eq!(*first_line(&b"one\r\ntwo\n"[..]).unwrap(), b"one");
        assert_eq!(*first_line(&b"one"[..]).unwrap(), b"one");
        assert_eq!(*first_line(&b""[..]).unwrap(), b"");
    }
}

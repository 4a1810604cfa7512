//! Failures of commands: a message for the user and an exit code for scripts.

use std::fmt;

use gabion_engine::keys::stateful::LedgerError;

/// A failed command. The variant decides the exit code.
#[derive(Debug)]
pub enum Failure {
    /// The answer is no: a signature does not verify, or a check fails. Exit code 1.
    No(String),
    /// The command line, or a file that it names, is invalid. Exit code 2.
    Usage(String),
    /// The environment is not ready: no bundle, no FIPS provider. Exit code 3.
    NotReady(String),
    /// The state of a key is not safe, or the key is used up. Exit code 4.
    Refused(String),
}

impl Failure {
    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::No(_) => 1,
            Failure::Usage(_) => 2,
            Failure::NotReady(_) => 3,
            Failure::Refused(_) => 4,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::No(text)
            | Failure::Usage(text)
            | Failure::NotReady(text)
            | Failure::Refused(text) => f.write_str(&plain(text)),
        }
    }
}

/// Prepares a text for a terminal: removes the system's error numbers and escapes control
/// characters, since file names may come from an attacker.
pub fn plain(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        words.push_str(before);
        rest = match after.split_once(')') {
            Some((number, after)) if number.bytes().all(|byte| byte.is_ascii_digit()) => after,
            _ => {
                words.push_str(" (os error ");
                after
            }
        };
    }
    words.push_str(rest);
    let lines: Vec<String> = words.split('\n').map(spelt).collect();
    lines.join("\n")
}

/// Escapes control characters and characters that change the text direction.
pub fn spelt(line: &str) -> String {
    let is_obeyed = |character: char| {
        character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}' | '\u{2029}')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut spelt = String::with_capacity(line.len());
    for character in line.chars() {
        if is_obeyed(character) {
            spelt.extend(character.escape_default());
        } else {
            spelt.push(character);
        }
    }
    spelt
}

impl From<gabion_engine::Error> for Failure {
    fn from(error: gabion_engine::Error) -> Failure {
        use gabion_engine::Error;
        let text = error.to_string();
        match error {
            Error::Ledger(error) => error.into(),
            Error::BadSignature => Failure::No(text),
            Error::Input(_)
            | Error::WrongAlgorithm { .. }
            | Error::NotBuilt(_)
            | Error::Lane { .. }
            | Error::KeyFile(_)
            | Error::TooMany { .. } => Failure::Usage(text),
            // No randomness, unknown or unhealthy backend, and future variants.
            _ => Failure::NotReady(text),
        }
    }
}

/// The advice for a key that is used up.
pub const NEXT_KEY: &str = "generate a new key with `gabion hbs keygen`";

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Failure {
        let text = error.to_string();
        match error {
            LedgerError::Exhausted { left: 0, .. } => {
                Failure::Refused(format!("{text}; {NEXT_KEY}"))
            }
            LedgerError::Exhausted { .. } => Failure::Refused(format!("{text}; ask for fewer")),
            LedgerError::Unsafe(_) => Failure::Refused(text),
            LedgerError::Held(_) | LedgerError::Unavailable(_) => Failure::NotReady(text),
            LedgerError::Place(_)
            | LedgerError::Reserve { .. }
            | LedgerError::RequestId
            | LedgerError::RequestConflict(_)
            | LedgerError::RequestKnown(_) => Failure::Usage(text),
            // Future variants.
            _ => Failure::NotReady(text),
        }
    }
}

impl From<gabion_ship::Error> for Failure {
    fn from(error: gabion_ship::Error) -> Failure {
        let text = error.to_string();
        match error {
            gabion_ship::Error::CheckFailed(_) => Failure::No(text),
            _ if error.is_request() => Failure::Usage(text),
            _ => Failure::NotReady(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_escape_control_characters_and_omit_os_errors() {
        for (text, expected) in [
            ("cannot read k: Is a directory (os error 21)", "cannot read k: Is a directory"),
            ("a (os error 2); b (os error 13).", "a; b."),
            ("a (os error of ours)", "a (os error of ours)"),
            ("k\x1b[31m\r: no", "k\\u{1b}[31m\\r: no"),
            ("k\u{9b}2J \u{202e}yek: no", "k\\u{9b}2J \\u{202e}yek: no"),
            ("two\nlines of ü", "two\nlines of ü"),
        ] {
            assert_eq!(Failure::Usage(text.to_owned()).to_string(), expected);
        }
        assert_eq!(spelt("a\nb"), "a\\nb");
    }
}

//! What can be chosen where the provider is loaded: in its section of the configuration file, or in
//! the environment, which comes first.

use std::ffi::{CStr, OsStr};
use std::io::Write;

/// TLS signature schemes without a settled codepoint: the name in the provider's section.
pub const TLS_DRAFTS: &CStr = c"tls-draft-signatures";

/// The same in the environment.
pub const TLS_DRAFTS_VARIABLE: &str = "GABION_TLS_DRAFT_SIGNATURES";

/// Whether TLS may use such schemes, by what the configuration says. No, unless somebody asks.
pub fn tls_drafts(configured: Option<&CStr>) -> bool {
    let environment = variable(TLS_DRAFTS_VARIABLE);
    let configured = configured.map(|text| text.to_string_lossy().into_owned());
    match (environment, configured) {
        (Some(text), _) => switch(TLS_DRAFTS_VARIABLE, &text),
        (None, Some(text)) => switch(&TLS_DRAFTS.to_string_lossy(), &text),
        (None, None) => false,
    }
}

/// A variable of the environment; not in a program that runs with more rights than its user.
pub fn variable(name: impl AsRef<OsStr>) -> Option<String> {
    // SAFETY: no argument; the answer is a number.
    let elevated = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let value = std::env::var_os(name).filter(|value| !elevated && !value.is_empty())?;
    Some(value.to_string_lossy().into_owned())
}

/// What a word means as a switch; what means nothing is told and leaves the switch off.
fn switch(name: &str, word: &str) -> bool {
    let is_one_of = |words: [&str; 4]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is_one_of(["1", "yes", "on", "true"]) {
        return true;
    }
    if !is_one_of(["0", "no", "off", "false"]) {
        // Not eprintln, which panics where nobody reads stderr any more.
        let _ = writeln!(
            std::io::stderr(),
            "gabion: {name} is `{word}`; expected 1, yes, on, true, 0, no, off or false; it stays off"
        );
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_that_says_so_switches_on() {
        for on in ["1", "yes", "ON", "True"] {
            assert!(switch("x", on), "{on}");
        }
        for off in ["0", "no", "off", "FALSE", "maybe", "2"] {
            assert!(!switch("x", off), "{off}");
        }
    }

    #[test]
    fn without_a_word_it_is_off() {
        // Nobody sets the variable for this program's tests.
        assert!(!tls_drafts(None));
        assert!(tls_drafts(Some(c"on")));
        assert!(!tls_drafts(Some(c"off")));
    }
}

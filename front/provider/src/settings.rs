//! What can be chosen where the provider is loaded: in its section of the configuration file, or in
//! the environment, which comes first.

use std::ffi::{CStr, OsStr, OsString};
use std::io::Write;

use gabion_engine::rights;

/// Something that is off unless somebody asks for it.
pub struct Switch {
    /// Its name in the provider's section of the configuration file.
    pub name: &'static CStr,
    /// Its name in the environment.
    pub variable: &'static str,
}

/// TLS signature schemes without a settled codepoint.
pub const TLS_DRAFTS: Switch =
    Switch { name: c"tls-draft-signatures", variable: "GABION_TLS_DRAFT_SIGNATURES" };

/// Key pairs of KEMs that are made ahead.
pub const KEY_POOLS: Switch = Switch { name: c"key-pools", variable: "GABION_KEY_POOLS" };

/// X25519 by itself; where nobody says, it is on with [`KEY_POOLS`], which have a shelf for it.
pub const X25519: Switch = Switch { name: c"x25519", variable: "GABION_X25519" };

/// Operations that pause the asynchronous job they are in.
pub const ASYNC_JOBS: Switch = Switch { name: c"async-jobs", variable: "GABION_ASYNC_JOBS" };

/// When self-tests run: at the first use of what they test, unless somebody asks for [`AT_LOAD`].
pub const SELF_TESTS: Switch = Switch { name: c"self-tests", variable: "GABION_SELF_TESTS" };

/// All of them, where the provider is loaded.
const AT_LOAD: &str = "at-load";
/// As without a word.
const AT_FIRST_USE: &str = "at-first-use";

/// Whether all self-tests run where the provider is loaded.
pub fn tests_at_load(configured: Option<&CStr>) -> bool {
    let Some((name, word)) = SELF_TESTS.word(configured) else { return false };
    let is_at_load = word.eq_ignore_ascii_case(AT_LOAD);
    if !is_at_load && !word.eq_ignore_ascii_case(AT_FIRST_USE) {
        let _ = writeln!(
            std::io::stderr(),
            "gabion: {name} is `{word}`; expected {AT_LOAD} or {AT_FIRST_USE}; they run at first use"
        );
    }
    is_at_load
}

impl Switch {
    /// Whether it is on, by what the environment says, or else the configuration.
    pub fn is_on(&self, configured: Option<&CStr>) -> bool {
        self.parse(configured).unwrap_or(false)
    }

    /// What was said of it, if anything was.
    pub fn parse(&self, configured: Option<&CStr>) -> Option<bool> {
        self.word(configured).map(|(name, word)| switch(&name, &word))
    }

    /// Where a word was said, and which.
    fn word(&self, configured: Option<&CStr>) -> Option<(String, String)> {
        let said = variable(self.variable).map(|word| (self.variable.to_owned(), word));
        let name = || self.name.to_string_lossy().into_owned();
        said.or_else(|| configured.map(|word| (name(), word.to_string_lossy().into_owned())))
    }
}

/// Whether the program was started where nothing but the FIPS module is to serve (`gabion exec`).
pub fn is_fips_only() -> bool {
    variable("GABION_OPENSSL_FIPS_MODE").is_some_and(|mode| mode == "only")
}

/// A variable of the environment, as a text.
pub fn variable(name: impl AsRef<OsStr>) -> Option<String> {
    Some(variable_os(name)?.to_string_lossy().into_owned())
}

/// A variable of the environment; not in a program that runs with more rights than its user.
pub fn variable_os(name: impl AsRef<OsStr>) -> Option<OsString> {
    let is_trusted = !rights::is_privileged();
    std::env::var_os(name).filter(|value| is_trusted && !value.is_empty())
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
    fn self_tests_run_at_load_where_somebody_says_so() {
        assert!(tests_at_load(Some(c"at-load")) && tests_at_load(Some(c"At-Load")));
        for word in [None, Some(c"at-first-use"), Some(c"yes"), Some(c"")] {
            assert!(!tests_at_load(word), "{word:?}");
        }
    }

    #[test]
    fn switches_are_off_by_default() {
        // Nobody sets the variables for this program's tests.
        for switch in [TLS_DRAFTS, KEY_POOLS, X25519, ASYNC_JOBS] {
            assert!(!switch.is_on(None));
            assert_eq!(switch.parse(None), None);
            assert!(switch.is_on(Some(c"on")));
            assert!(!switch.is_on(Some(c"off")));
        }
    }
}

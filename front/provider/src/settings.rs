//! The settings of the provider: in its section of the configuration file or in the environment,
//! which takes precedence.

use std::ffi::{CStr, OsStr, OsString};
use std::io::Write;

use gabion_engine::rights;

/// A setting that is off by default.
pub struct Switch {
    /// The name in the provider's section of the configuration file.
    pub name: &'static CStr,
    /// The name of the environment variable.
    pub variable: &'static str,
}

/// TLS signature schemes without a settled codepoint.
pub const TLS_DRAFTS: Switch =
    Switch { name: c"tls-draft-signatures", variable: "GABION_TLS_DRAFT_SIGNATURES" };

/// Key pairs of KEMs that are generated in advance.
pub const KEY_POOLS: Switch = Switch { name: c"key-pools", variable: "GABION_KEY_POOLS" };

/// X25519 by itself. If unset, it is on if [`KEY_POOLS`] is on, which has a shelf for it.
pub const X25519: Switch = Switch { name: c"x25519", variable: "GABION_X25519" };

/// Operations that pause the asynchronous job they are in.
pub const ASYNC_JOBS: Switch = Switch { name: c"async-jobs", variable: "GABION_ASYNC_JOBS" };

/// The time of self-tests: before the first use of each algorithm (the default), or [`AT_LOAD`].
pub const SELF_TESTS: Switch = Switch { name: c"self-tests", variable: "GABION_SELF_TESTS" };

/// Runs all self-tests when the provider is loaded.
const AT_LOAD: &str = "at-load";
/// The default.
const AT_FIRST_USE: &str = "at-first-use";

/// Returns whether all self-tests run when the provider is loaded.
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
    /// Returns whether the switch is on, according to the environment or else the configuration.
    pub fn is_on(&self, configured: Option<&CStr>) -> bool {
        self.parse(configured).unwrap_or(false)
    }

    /// Returns the value; `None` if it is not set.
    pub fn parse(&self, configured: Option<&CStr>) -> Option<bool> {
        self.word(configured).map(|(name, word)| switch(&name, &word))
    }

    /// Returns where the setting was found, and its text.
    fn word(&self, configured: Option<&CStr>) -> Option<(String, String)> {
        let said = variable(self.variable).map(|word| (self.variable.to_owned(), word));
        let name = || self.name.to_string_lossy().into_owned();
        said.or_else(|| configured.map(|word| (name(), word.to_string_lossy().into_owned())))
    }
}

/// Returns whether only the FIPS module may serve this process (mode `only` of `gabion exec`).
pub fn is_fips_only() -> bool {
    variable("GABION_OPENSSL_FIPS_MODE").is_some_and(|mode| mode == "only")
}

/// Returns an environment variable as text.
pub fn variable(name: impl AsRef<OsStr>) -> Option<String> {
    Some(variable_os(name)?.to_string_lossy().into_owned())
}

/// Returns an environment variable; `None` if the program has more rights than its caller.
pub fn variable_os(name: impl AsRef<OsStr>) -> Option<OsString> {
    let is_trusted = !rights::is_privileged();
    std::env::var_os(name).filter(|value| is_trusted && !value.is_empty())
}

/// Parses a switch. An unknown value prints a warning and leaves the switch off.
fn switch(name: &str, word: &str) -> bool {
    let is_one_of = |words: [&str; 4]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    if is_one_of(["1", "yes", "on", "true"]) {
        return true;
    }
    if !is_one_of(["0", "no", "off", "false"]) {
        // Not eprintln, which panics if stderr is closed.
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
        // The variables are not set in this program's tests.
        for switch in [TLS_DRAFTS, KEY_POOLS, X25519, ASYNC_JOBS] {
            assert!(!switch.is_on(None));
            assert_eq!(switch.parse(None), None);
            assert!(switch.is_on(Some(c"on")));
            assert!(!switch.is_on(Some(c"off")));
        }
    }
}

//! How an engine is set up.

use std::ffi::OsString;

/// The environment variable that chooses the backend.
pub const BACKEND_VARIABLE: &str = "GABION_BACKEND";

/// What an engine may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Only the backend of this name; the best one that passes its self-test where `None`.
    pub backend: Option<String>,
}

impl Config {
    /// Reads `GABION_BACKEND`; unset, empty and `auto` choose by detection.
    pub fn from_environment() -> Self {
        Config::from_variable(std::env::var_os(BACKEND_VARIABLE))
    }

    /// A value that is no text names no backend, and is not taken for an unset one.
    fn from_variable(value: Option<OsString>) -> Self {
        let backend = value
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("auto"));
        Config { backend }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn only_unset_empty_and_auto_choose_by_detection() {
        let chosen =
            |value: &[u8]| Config::from_variable(Some(OsString::from_vec(value.to_vec()))).backend;
        assert_eq!(Config::from_variable(None).backend, None);
        assert_eq!((chosen(b""), chosen(b"Auto")), (None, None));
        assert_eq!(chosen(b"portable"), Some("portable".to_owned()));
        assert!(chosen(b"portable\xff").is_some_and(|name| name != "portable"));
    }
}
